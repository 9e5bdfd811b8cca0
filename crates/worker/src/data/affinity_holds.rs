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
    pub(crate) rows: VecDeque<(Time, ServerKey)>,
}

impl AffinityHolds {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(until, _)| *until)
    }
}
