//! What is remembered of the connections of the control thread to its own workers.
//!
//! Always true: a session for all that has ended is remembered with its user and its time.
//! Not here: how they are carried (`carry`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::sim::net::Net;

/// All connections of the process that serves, and sessions for all that there have been.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(super) open: BTreeMap<u64, Link>,
    /// Sessions for all that have ended: of which database, as whom, when.
    pub(super) ended: Vec<(Arc<str>, String, Time)>,
    /// What was asked of servers and answered, by database.
    pub(crate) put: BTreeMap<String, u64>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) end: u32,
    pub(super) database: Arc<str>,
    pub(super) user: String,
    pub(super) is_listener: bool,
    /// What has come of a message that is not whole.
    pub(super) input: Vec<u8>,
    pub(super) is_in: bool,
}

impl Links {
    /// Whether nobody is asked, and nobody listens.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.open.is_empty()
    }

    fn listeners(&self) -> impl Iterator<Item = &Link> {
        self.open.values().filter(|link| link.is_listener)
    }

    /// Whether these are the words of a session for all that ended right before or after then, or has been ended and does not know it yet.
    pub(crate) fn has_left(&self, net: &Net, words: &str, then: Time) -> bool {
        let is_its = words.starts_with("LISTEN \"") || words.starts_with("UNLISTEN \"");
        let is_near = |ended: Time| ended.0.abs_diff(then.0) < NEAR.as_micros() as u64;
        let is_cut = |link: &Link| net.end(link.end ^ 1).is_closed;
        is_its && (self.ended.iter().any(|(_, _, ended)| is_near(*ended)) || self.listeners().any(is_cut))
    }

    /// Whether somebody listens for all as this user, or has done so since then: that server is beside those of its pool.
    pub(crate) fn is_beside(&self, database: &str, user: &str, since: Time) -> bool {
        let mut ended = self.ended.iter().filter(|(_, _, ended)| *ended >= since);
        ended.any(|(of, by, _)| **of == *database && *by == *user)
            || self.listeners().any(|link| *link.database == *database && link.user == user)
    }
}

/// An end and what comes of it.
const NEAR: Duration = Duration::from_millis(500);
