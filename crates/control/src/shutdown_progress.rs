//! The progress of a shutdown that waits, and its time limit (`shutdown_timeout`).
//!
//! Always true: the limit counts from the first shutdown order. When it has passed, the remaining clients are closed
//! once, and `MENDING_MAX` later the process ends, whatever is left.
//! Not here: what counts as left (`worker::admin::shutdown`), the orders, and the letters to the workers (`orders`,
//! `control`).

use std::collections::BTreeSet;
use std::time::Duration;

use base::{Time, WorkerId};
use worker::letters::Shutdown;

/// The progress of a shutdown.
#[derive(Debug, Default)]
pub(crate) struct ShutdownProgress {
    /// The mode of the latest order.
    way: Option<Shutdown>,
    /// Time of the first order.
    since: Option<Time>,
    /// When the remaining clients were closed.
    clients_ended: Option<Time>,
    /// The workers that last reported nothing left that the shutdown waits for.
    drained: BTreeSet<WorkerId>,
}

/// What a shutdown does when a deadline has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    /// The remaining clients are closed, since the shutdown has waited for `secs` seconds.
    CloseClients { secs: u64 },
    /// The process ends, whatever is left.
    Exit,
}

impl ShutdownProgress {
    /// Records a shutdown order, which may follow an earlier one.
    pub(crate) fn begin(&mut self, now: Time, way: Shutdown) {
        self.since.get_or_insert(now);
        self.way = Some(way);
        self.drained.clear();
    }

    /// Records that a new process has taken everything over.
    pub(crate) fn end(&mut self) {
        self.way = Some(Shutdown::Now);
    }

    /// Returns the mode of the latest order.
    pub(crate) fn way(&self) -> Option<Shutdown> {
        self.way
    }

    /// Returns what the shutdown waits for, and how long it has waited.
    pub(crate) fn waits(&self, now: Time) -> Option<(Shutdown, Duration)> {
        Some((self.way?, now.since(self.since?)))
    }

    /// Records the report of a worker and returns whether all workers have nothing left. A client may still be in
    /// transit from one worker to another, which asking all workers once more reveals.
    pub(crate) fn drained(&mut self, from: WorkerId, is_drained: bool, workers: usize) -> bool {
        match is_drained {
            true => drop(self.drained.insert(from)),
            false => drop(self.drained.remove(&from)),
        }
        self.drained.len() == workers
    }

    /// Returns the kind of connection that is gone, for the log, if all workers have confirmed that nothing is left. A
    /// worker that has not confirmed will report again when it is drained.
    pub(crate) fn confirmed(&self, confirmed: u32, workers: usize) -> Option<&'static str> {
        if (confirmed as usize) < workers || self.drained.len() < workers {
            return None;
        }
        match self.way? {
            Shutdown::WaitForServers => Some("server"),
            Shutdown::WaitForClients => Some("client"),
            Shutdown::Now => None,
        }
    }

    /// Returns when a waiting shutdown proceeds by itself, if there is a limit.
    pub(crate) fn next_deadline(&self, limit: Option<Duration>) -> Option<Time> {
        if !matches!(self.way, Some(Shutdown::WaitForClients | Shutdown::WaitForServers)) {
            return None;
        }
        match (self.clients_ended, self.since) {
            (Some(ended), _) => Some(ended + MENDING_MAX),
            (None, Some(since)) => limit.map(|limit| since + limit),
            (None, None) => None,
        }
    }

    /// Returns what to do if the deadline has passed.
    pub(crate) fn expire(&mut self, now: Time, limit: Option<Duration>) -> Option<Expired> {
        self.next_deadline(limit).filter(|deadline| *deadline <= now)?;
        if self.clients_ended.is_some() {
            return Some(Expired::Exit);
        }
        self.clients_ended = Some(now);
        // Reports from before the clients were closed no longer count.
        self.drained.clear();
        Some(Expired::CloseClients { secs: self.since.map_or(0, |since| now.since(since).as_secs()) })
    }
}

/// How long the servers of clients that were closed may take to be cancelled and rolled back.
const MENDING_MAX: Duration = Duration::from_secs(10);
