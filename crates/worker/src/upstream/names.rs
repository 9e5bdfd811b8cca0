//! What is known of the names of hosts, and who waits to know it.
//!
//! Always true: addresses are given out in turn.
//! Not here: asking (`host_names`), the answer (`resolved`).

use std::net::IpAddr;
use std::sync::Arc;

use base::{Key, Time};
use pool::ServerKey;

/// What is known of a host's name.
#[derive(Debug, Default)]
pub(crate) struct NamePlace {
    pub(super) found: Option<Result<Vec<IpAddr>, Arc<str>>>,
    /// Until when that is believed.
    pub(super) until: Time,
    pub(super) is_asked: bool,
    /// Which address was given out last.
    pub(super) turn: usize,
    /// Who waits for the answer.
    pub(super) waiting: Vec<Asker>,
}

/// Who wants an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// A server that is to be dialed.
    Server(ServerKey),
    /// A cancel request for another process.
    Forward(Key),
}

/// What is known of a name at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// One of its addresses.
    Address(IpAddr),
    /// That it has none.
    Nothing,
    /// Nothing yet: the asker is told when it is.
    Later,
}
