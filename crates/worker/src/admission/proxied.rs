//! A client comes through a proxy, which tells the client's address in a PROXY header (`proxy_protocol_from`).
//!
//! Always true: a header is demanded from the listed addresses, and read from no other; nothing of a connection is looked at
//! before its header is complete; from then on the address in it is the client's, for everything that asks for one. Only the
//! operator may come without one, on a Unix socket that proxies use: the console, and a process that takes over, connect there.
//! Not here: the header itself (`wire::proxy`), what follows it (`accept`).

use base::Key;
use protocol::fault::Fault;
use reactor::{Io, Level, Peer, Receive};
use wire::proxy::{self, Header, HeaderFault};

use crate::data::client::ClientStage;
use crate::letters::AddressSource;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a connection from here must begin with a PROXY header.
    pub(crate) fn is_proxy(&self, peer: Peer) -> bool {
        self.hands.active.settings.proxy_protocol_from.has(peer.tcp().map(|address| address.ip()))
    }

    /// Reads the PROXY header that a connection must begin with. Returns whether it is complete, and the client still here.
    pub(crate) fn read_proxy_header(&mut self, key: Key) -> bool {
        let Some(peer) = self.clients.get(key).map(|client| client.peer) else { return false };
        let is_operator = self.is_operator(peer);
        let Some(client) = self.clients.get_mut(key) else { return false };
        let ClientStage::Greeting(greeting) = &mut client.stage else { return false };
        let fault = match proxy::read(&greeting.unread) {
            Ok(Some(Header { bytes, client: told })) => {
                greeting.unread.drain(..bytes);
                greeting.awaits_proxy_header = false;
                // With a header and nothing else, as health checks come, it has said nothing itself.
                greeting.has_spoken = !greeting.unread.is_empty();
                return told.is_none_or(|told| self.take_told_address(key, told.into()));
            }
            Ok(None) => {
                self.hands.io.receive(client.conn, Receive::Once);
                return false;
            }
            // No first packet of a client begins like a header.
            Err(HeaderFault::Missing) if is_operator => {
                greeting.awaits_proxy_header = false;
                return true;
            }
            Err(HeaderFault::Missing) => Fault::ProxyHeaderMissing,
            Err(HeaderFault::Malformed(why)) => Fault::ProxyHeaderMalformed { why },
        };
        self.fail_client(key, &fault);
        false
    }

    /// Makes the address that a proxy has told the client's. Returns whether the client may stay.
    fn take_told_address(&mut self, key: Key, told: Peer) -> bool {
        let Some(client) = self.clients.get_mut(key) else { return false };
        let proxy = client.peer;
        client.address_source = match proxy {
            Peer::Tcp { .. } => AddressSource::HeaderOverTcp,
            Peer::Unix { .. } => AddressSource::HeaderOverUnix,
        };
        // The descriptor is kept for an operator on this machine, and the proxy's clients are not that.
        let has_kept_descriptor = match &client.stage {
            ClientStage::Greeting(greeting) => greeting.has_kept_descriptor,
            _ => false,
        };
        if !self.recount_unauthenticated(key, told) {
            return false;
        }
        if self.hands.active.settings.verbose > 0 {
            let line = self.client_prefix(key);
            match proxy {
                Peer::Tcp { ip, port } => {
                    let proxy = std::net::SocketAddr::new(ip, port);
                    self.hands.log.about(&line, Level::Debug, format_args!("address told by the proxy at {proxy}"));
                }
                Peer::Unix { pid, .. } => {
                    let words = format_args!("address told by the proxy at the unix socket (pid {pid})");
                    self.hands.log.about(&line, Level::Debug, words);
                }
            }
        }
        if has_kept_descriptor {
            self.fail_client(key, &Fault::DescriptorsFull);
        }
        !has_kept_descriptor
    }
}
