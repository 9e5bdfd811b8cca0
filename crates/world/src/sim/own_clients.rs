//! Memory of the connections of the control thread to its own workers.
//!
//! Always true: a session for all that has ended is remembered with its user and its time.
//! Not here: how their bytes are carried (`carry`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::sim::net::Net;

/// The connections of the current control thread, and former sessions for all.
#[derive(Debug, Default)]
pub(crate) struct OwnClients {
    pub(super) open: BTreeMap<u64, OwnClient>,
    /// Sessions for all that have ended: their database, user and time.
    pub(super) ended: Vec<(Arc<str>, String, Time)>,
    /// Number of queries that were answered, by database.
    pub(crate) put: BTreeMap<String, u64>,
}

/// A connection of the control thread.
#[derive(Debug)]
pub(super) struct OwnClient {
    pub(super) end: u32,
    pub(super) database: Arc<str>,
    pub(super) user: String,
    pub(super) is_listener: bool,
    /// The beginning of an incomplete message.
    pub(super) input: Vec<u8>,
    pub(super) is_in: bool,
}

impl OwnClients {
    /// Returns whether no query is open, and nobody listens.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.open.is_empty()
    }

    fn listeners(&self) -> impl Iterator<Item = &OwnClient> {
        self.open.values().filter(|own_client| own_client.is_listener)
    }

    /// Returns whether this is a statement of a session for all that has ended around this time, or was closed without
    /// knowing it yet.
    pub(crate) fn has_left(&self, net: &Net, words: &str, then: Time) -> bool {
        let is_its = words.starts_with("LISTEN \"") || words.starts_with("UNLISTEN \"");
        let is_near = |ended: Time| ended.0.abs_diff(then.0) < NEAR.as_micros() as u64;
        let is_cut = |own_client: &OwnClient| net.end(own_client.end ^ 1).is_closed;
        is_its && (self.ended.iter().any(|(_, _, ended)| is_near(*ended)) || self.listeners().any(is_cut))
    }

    /// Returns whether this user has a session for all in the database, or had one since then: its server does not
    /// count in the pool.
    pub(crate) fn is_beside(&self, database: &str, user: &str, since: Time) -> bool {
        let mut ended = self.ended.iter().filter(|(_, _, ended)| *ended >= since);
        ended.any(|(of, by, _)| **of == *database && *by == *user)
            || self.listeners().any(|own_client| *own_client.database == *database && own_client.user == user)
    }
}

/// The longest time between the end of a session for all and its consequences.
const NEAR: Duration = Duration::from_millis(500);
