//! The list of affinity holds.
//!
//! Always true: rows are in the order of time; the server of a row need not be held any more.
//! Not here: which servers are held (`affinity`).

use std::collections::VecDeque;

use base::Time;
use pool::ServerKey;

/// Held servers, and some whose hold has ended, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct AffinityHolds {
    rows: VecDeque<(Time, ServerKey)>,
}

impl AffinityHolds {
    pub(super) fn add(&mut self, until: Time, server: ServerKey) {
        self.rows.push_back((until, server));
    }

    /// Takes the first row whose time has come.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<(Time, ServerKey)> {
        let is_due = self.rows.front().is_some_and(|(until, _)| *until <= now);
        if is_due { self.rows.pop_front() } else { None }
    }

    pub(crate) fn last_deadline(&self) -> Option<Time> {
        self.rows.back().map(|(until, _)| *until)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(until, _)| *until)
    }
}
