//! The PROXY header with which a connection of ours begins (`proxy_protocol` of a database or a peer).
//!
//! Always true: it is sent before anything else, TLS included; a connection that is shared by clients, or carries a cancel
//! request, tells the pooler's own address, and a dedicated one that of its client.
//! Not here: the header itself (`wire::proxy`), headers of clients (`admission::proxied`); why it is so is in decision 0029.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use config::ProxyProtocol;
use pool::ServerKey;
use reactor::{Conn, Io};
use wire::proxy::{self, Version};

use crate::data::server::Server;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Sends the header to a server whose connection has just been established, if its database wants one.
    pub(crate) fn send_proxy_header(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        let Some(version) = version(self.proxy_protocol_of(server)) else { return };
        let conn = server.conn();
        let mut out = Vec::new();
        match self.ends_of_dedicated(server) {
            Some(ends) => proxy::write(&mut out, version, Some(ends)),
            None => write_own(&mut out, version, &self.hands.io, conn),
        }
        self.hands.io.send(conn, out.into());
    }

    /// The header with which connections for the database of this server begin.
    pub(crate) fn proxy_protocol_of(&self, server: &Server) -> ProxyProtocol {
        let entry = self.registry.database_at(server.database()).entry.as_ref();
        entry.map_or(ProxyProtocol::Off, |entry| entry.proxy_protocol)
    }

    /// The address of the client to which a server is dedicated, and the one that the client has connected to.
    fn ends_of_dedicated(&self, server: &Server) -> Option<(SocketAddr, SocketAddr)> {
        let client = self.clients.get(server.dedicated()?.client())?;
        let source = client.peer.tcp()?;
        // The client of a proxy on our Unix socket has connected to no address of ours.
        let nowhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
        Some((source, self.hands.io.near_end(client.conn).unwrap_or(nowhere)))
    }
}

/// Appends the header of a connection that is the pooler's own.
pub(crate) fn begin_own(out: &mut Vec<u8>, how: ProxyProtocol, io: &impl Io, conn: Conn) {
    if let Some(version) = version(how) {
        write_own(out, version, io, conn);
    }
}

fn write_own(out: &mut Vec<u8>, version: Version, io: &impl Io, conn: Conn) {
    let ends = match version {
        Version::V1 => io.near_end(conn).zip(io.far_end(conn)),
        // LOCAL says just that: the connection is not on behalf of anybody else.
        Version::V2 => None,
    };
    proxy::write(out, version, ends);
}

fn version(how: ProxyProtocol) -> Option<Version> {
    match how {
        ProxyProtocol::Off => None,
        ProxyProtocol::V1 => Some(Version::V1),
        ProxyProtocol::V2 => Some(Version::V2),
    }
}
