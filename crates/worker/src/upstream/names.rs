//! The known addresses of host names, and the dials and cancel requests that wait for them.
//!
//! Always true: the addresses of a name are given out in turn.
//! Not here: asking for a lookup (`host_names`), its answer (`resolved`).

use std::net::IpAddr;
use std::sync::Arc;

use base::{Key, Time};
use pool::ServerKey;

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

/// What is known of a name at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// One of its addresses.
    Address(IpAddr),
    /// The name has no address.
    Nothing,
    /// A lookup is under way; the asker is called back.
    Later,
}
