//! The servers that are held for their last clients.
//!
//! Always true: rows are in the order of time; a row may be of a server that is not held any more.
//! Not here: which servers do (`affinity`).

use std::collections::VecDeque;

use base::Time;
use pool::ServerKey;

/// The servers that are held, and some that were, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct AffinityHolds {
    pub(crate) rows: VecDeque<(Time, ServerKey)>,
}

impl AffinityHolds {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(until, _)| *until)
    }
}
