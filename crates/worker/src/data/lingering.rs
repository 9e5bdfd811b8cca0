//! The servers that linger with their clients.
//!
//! Always true: rows are in the order of time; a row may be of a server that does not linger any more.
//! Not here: which servers do (`affinity`).

use std::collections::VecDeque;

use base::Time;
use pool::ServerKey;

/// The servers that linger, and some that did, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    pub(crate) rows: VecDeque<(Time, ServerKey)>,
}

impl Lingering {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(until, _)| *until)
    }
}
