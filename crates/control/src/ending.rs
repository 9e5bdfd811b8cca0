//! A shutdown that waits, and for how long (`shutdown_timeout`).
//!
//! Always true: the time counts from the first order to go down; after it clients are sent away once, and a little later the
//! process ends, whatever is left.
//! Not here: who is waited for (`worker::admin::shutdown`), the orders (`orders`, `control`).

use std::time::Duration;

use base::{Time, WorkerId};
use reactor::Level;
use worker::letters::{Order, Shutdown, ToWorker};

use crate::control::Control;
use crate::orders::Waiter;

/// How far a shutdown has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ending {
    /// When it was ordered first.
    since: Option<Time>,
    /// When the clients that were left have been sent away.
    clients_ended: Option<Time>,
}

impl Ending {
    /// It is ordered, perhaps once more.
    pub(crate) fn begin(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }
}

impl<S> Control<S> {
    /// Nobody has anything left any more, as far as it was told before now.
    pub(crate) fn forget_drained(&mut self) {
        self.drained.clear();
    }

    /// A worker has nothing left, or has somebody after all.
    pub(crate) fn drained(&mut self, from: WorkerId, is_drained: bool) {
        match is_drained {
            true => drop(self.drained.insert(from)),
            false => drop(self.drained.remove(&from)),
        }
        if self.drained.len() == self.workers() {
            // Somebody may be on the way from one worker to another, and is seen when all are asked once more.
            self.give(&Order::ConfirmDrained, Waiter::Shutdown);
        }
    }

    /// So many workers have confirmed that they have nothing left. Another one will tell when it has.
    pub(crate) fn confirmed(&mut self, workers: u32) {
        if (workers as usize) < self.workers() || self.drained.len() < self.workers() {
            return;
        }
        let what = match self.shutdown {
            Some(Shutdown::WaitForServers) => "server",
            Some(Shutdown::WaitForClients) => "client",
            Some(Shutdown::Now) | None => return,
        };
        self.log(Level::Log, format_args!("{what} connections dropped, exiting"));
        self.go_down(Shutdown::Now);
    }

    /// When a shutdown that waits goes on by itself.
    pub(crate) fn ending_deadline(&self) -> Option<Time> {
        if !matches!(self.shutdown, Some(Shutdown::WaitForClients | Shutdown::WaitForServers)) {
            return None;
        }
        match (self.ending.clients_ended, self.ending.since) {
            (Some(ended), _) => Some(ended + MENDING_MAX),
            (None, Some(since)) => self.force.settings.shutdown_timeout.map(|limit| since + limit),
            (None, None) => None,
        }
    }

    /// Does what a shutdown does when its time has come.
    pub(crate) fn expire_ending(&mut self) {
        if self.ending_deadline().is_none_or(|deadline| deadline > self.now.time) {
            return;
        }
        if self.ending.clients_ended.is_some() {
            self.log(Level::Warning, format_args!("shutdown_timeout: servers were not clean in time, exiting"));
            self.go_down(Shutdown::Now);
            return;
        }
        let secs = self.ending.since.map_or(0, |since| self.now.time.since(since).as_secs());
        self.log(
            Level::Warning,
            format_args!("shutdown_timeout: have waited for {secs} seconds, closing the clients that are left"),
        );
        self.ending.clients_ended = Some(self.now.time);
        self.forget_drained();
        self.post_all(|| ToWorker::EndClients { secs });
    }
}

/// How long the servers of clients that were sent away are given to be cancelled and rolled back.
const MENDING_MAX: Duration = Duration::from_secs(10);
