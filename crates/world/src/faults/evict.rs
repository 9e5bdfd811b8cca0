//! What is remembered of those who are sent away by the operator: by KILL_CLIENT, by a RECONNECT that waits for no session to end
//! (`server_fast_close`), by a shutdown that has waited long enough (`shutdown_timeout`).
//!
//! Always true: who is sought is there when the operator looks.
//! Not here: how they are sought (`command`), what must become of them (`checks::evictions`).

use std::collections::{BTreeMap, BTreeSet};

use base::Time;
use worker::letters::Whose;

/// What is remembered of those who are sent away.
#[derive(Debug)]
pub(crate) struct Evicted {
    /// KILL_CLIENTs whose operator looks who is there, by the number of the question.
    pub(crate) sought: BTreeMap<u64, Search>,
    pub(crate) asked: u64,
    /// Those whom the operator wants gone, by their numbers: the worker's end of their connection, if they were in when the
    /// order was given.
    pub(crate) killed: BTreeMap<u64, Option<u32>>,
    /// RECONNECTs: when they were ordered, of what, and whether every worker has obeyed.
    pub(crate) renewals: Vec<(Time, Whose, bool)>,
    /// Sessions that were there at the last look, and should not have been.
    pub(crate) suspects: BTreeSet<u32>,
    /// When somebody was last sent away who may have been waiting for a cancel request: such a one learns nothing by its end.
    pub(crate) last: Time,
    /// When the shutdown sent away who was left.
    pub(crate) all_since: Option<Time>,
    /// When the shutdown waits no longer for their servers, by the clock of the machine, which may jump.
    pub(crate) mended_by: Option<Time>,
}

/// A look at who is there.
#[derive(Debug)]
pub(crate) struct Search {
    /// What is drawn of it.
    pub(crate) which: u64,
    /// How many workers have answered.
    pub(crate) answered: u8,
    /// Whom they show: numbers, and the workers' ends of their connections.
    pub(crate) found: Vec<(u64, u32)>,
}

impl Default for Evicted {
    fn default() -> Self {
        Self {
            sought: BTreeMap::new(),
            asked: 0,
            killed: BTreeMap::new(),
            renewals: Vec::new(),
            suspects: BTreeSet::new(),
            last: Time(0),
            all_since: None,
            mended_by: None,
        }
    }
}
