//! Memory of the clients that the operator disconnects: by KILL_CLIENT, by a RECONNECT that does not wait for sessions
//! to end (`server_fast_close`), or by a shutdown that has waited long enough (`shutdown_timeout`).
//!
//! Always true: the client of a KILL_CLIENT is connected when the operator looks.
//! Not here: how it is found (`command`), what must become of it (`checks::evictions`).

use std::collections::{BTreeMap, BTreeSet};

use base::Time;
use worker::letters::Whose;

/// Memory of the clients that the operator disconnects.
#[derive(Debug)]
pub(crate) struct Evicted {
    /// KILL_CLIENTs whose operator is still looking for the client, by the number of the request.
    pub(crate) sought: BTreeMap<u64, Search>,
    pub(crate) asked: u64,
    /// The clients to be killed, by number: the worker's end of their connection, if they were logged in when the order
    /// was given.
    pub(crate) killed: BTreeMap<u64, Option<u32>>,
    /// RECONNECTs: when they were ordered, for which database, and whether every worker has carried them out.
    pub(crate) renewals: Vec<(Time, Whose, bool)>,
    /// Sessions that were open at the last look, and should not have been.
    pub(crate) suspects: BTreeSet<u32>,
    /// When a client was last disconnected that may have been waiting for a cancel request: its end does not prove that
    /// the request was carried out.
    pub(crate) last: Time,
    /// When the shutdown stopped lending servers.
    pub(crate) lending_ended: Option<Time>,
    /// When the shutdown disconnected the remaining clients.
    pub(crate) all_since: Option<Time>,
    /// When the shutdown stops waiting for the servers of those clients, by the clock of the machine, which may jump.
    pub(crate) mended_by: Option<Time>,
}

/// A request for the clients of all workers.
#[derive(Debug)]
pub(crate) struct Search {
    /// The drawn number that selects the client.
    pub(crate) which: u64,
    /// Number of workers that have answered.
    pub(crate) answered: u8,
    /// The clients found: their numbers, and the workers' ends of their connections.
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
            lending_ended: None,
            all_since: None,
            mended_by: None,
        }
    }
}
