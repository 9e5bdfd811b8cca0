//! The known addresses of host names, and the dials and cancel requests that wait for them.
//!
//! Always true: the addresses of a name are given out in turn.
//! Not here: asking for a lookup (`host_names`), its answer (`resolved`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use base::{Key, Time};
use config::Host;
use pool::ServerKey;
use reactor::Address;

/// A host name: its addresses, or the error of its last lookup.
#[derive(Debug, Default)]
pub(crate) struct NamePlace {
    pub(super) found: Option<Result<Vec<IpAddr>, Arc<str>>>,
    /// When the addresses or the error expire.
    pub(super) until: Time,
    pub(super) is_asked: bool,
    /// Counts the addresses given out, for the round robin.
    pub(super) turn: usize,
    /// The dials and cancel requests that wait for the answer.
    pub(super) waiting: Vec<Asker>,
}

/// What an address is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// The dial of a server.
    Server(ServerKey),
    /// A cancel request for another process.
    Forward(Key),
}

/// What is known of the address of a host at the moment.
#[derive(Debug)]
pub(crate) enum Known {
    /// Its address, or one of them.
    Address(Address),
    /// The name has no address, for this reason.
    Nothing(Arc<str>),
    /// A lookup is under way; the asker is called back.
    Later,
}

/// The address of a host that needs no lookup; `None` for a host name.
pub(crate) fn fixed_address(host: &Host, port: u16) -> Option<Address> {
    let socket = host.socket_name(port).map(Box::from);
    match host {
        Host::Ip(ip) => Some(Address::Tcp(SocketAddr::new(*ip, port))),
        Host::Unix(_) => socket.map(Address::Unix),
        Host::Abstract(_) => socket.map(Address::Abstract),
        Host::Name(_) => None,
    }
}
