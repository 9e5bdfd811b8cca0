//! A shutdown that waits, and for how long (`shutdown_timeout`).
//!
//! Always true: the time counts from the first order to go down; after it clients are sent away once, and a little later the
//! process ends, whatever is left.
//! Not here: who is waited for (`worker::admin::shutdown`), the orders, and what is told to the workers (`orders`, `control`).

use std::collections::BTreeSet;
use std::time::Duration;

use base::{Time, WorkerId};
use worker::letters::Shutdown;

/// How far a shutdown has come.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// How it was ordered last.
    way: Option<Shutdown>,
    /// When it was ordered first.
    since: Option<Time>,
    /// When the clients that were left have been sent away.
    clients_ended: Option<Time>,
    /// The workers that have nothing left that the shutdown waits for, as far as they have told.
    drained: BTreeSet<WorkerId>,
}

/// What a shutdown does when its time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    /// The clients that are left are sent away: it has waited for so many seconds.
    Clients { secs: u64 },
    /// The process ends, whatever is left.
    All,
}

impl Ending {
    /// It is ordered, perhaps once more.
    pub(crate) fn begin(&mut self, now: Time, way: Shutdown) {
        self.since.get_or_insert(now);
        self.way = Some(way);
        self.drained.clear();
    }

    /// Nothing is left here, since a new process has it.
    pub(crate) fn end(&mut self) {
        self.way = Some(Shutdown::Now);
    }

    /// How it was ordered last.
    pub(crate) fn way(&self) -> Option<Shutdown> {
        self.way
    }

    /// What it waits for, and for how long it has.
    pub(crate) fn waits(&self, now: Time) -> Option<(Shutdown, Duration)> {
        Some((self.way?, now.since(self.since?)))
    }

    /// A worker has nothing left, or has somebody after all. Whether none of so many has: somebody may be on the way from one
    /// worker to another, and is seen when all are asked once more.
    pub(crate) fn drained(&mut self, from: WorkerId, is_drained: bool, workers: usize) -> bool {
        match is_drained {
            true => drop(self.drained.insert(from)),
            false => drop(self.drained.remove(&from)),
        }
        self.drained.len() == workers
    }

    /// So many workers of all have confirmed that they have nothing left: what is gone then, if that ends the process. Another
    /// one will tell when it has.
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

    /// When a shutdown that waits goes on by itself, as far as there is a limit.
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

    /// What is to be done if its time has come.
    pub(crate) fn expire(&mut self, now: Time, limit: Option<Duration>) -> Option<Expired> {
        self.next_deadline(limit).filter(|deadline| *deadline <= now)?;
        if self.clients_ended.is_some() {
            return Some(Expired::All);
        }
        self.clients_ended = Some(now);
        // From before now nobody's word counts.
        self.drained.clear();
        Some(Expired::Clients { secs: self.since.map_or(0, |since| now.since(since).as_secs()) })
    }
}

/// How long the servers of clients that were sent away are given to be cancelled and rolled back.
const MENDING_MAX: Duration = Duration::from_secs(10);
