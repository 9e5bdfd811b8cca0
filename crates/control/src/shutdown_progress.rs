//! The progress of a shutdown that waits, and its time limit (`shutdown_timeout`).
//!
//! Always true: the limit counts from the first shutdown order. Some time before it, no client gets a server any more, so
//! that transactions that have begun can end. When it has passed, the remaining clients are closed once, and `MENDING_MAX`
//! later the process ends, whatever is left.
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
    /// No client gets a server any more, since the limit is near.
    has_stopped_lending: bool,
    /// When the remaining clients were closed.
    clients_ended: Option<Time>,
    /// The workers that last reported nothing left that the shutdown waits for.
    drained: BTreeSet<WorkerId>,
}

/// What a shutdown does when a deadline has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    /// No client gets a server any more, since the shutdown has waited for `secs` seconds, and `left` is left.
    StopLending { secs: u64, left: Duration },
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
            (None, Some(since)) => {
                let before = if self.stops_lending_first() { lending_ends_before } else { |_| Duration::ZERO };
                limit.map(|limit| since + (limit - before(limit)))
            }
            (None, None) => None,
        }
    }

    /// Returns what to do if the deadline has passed.
    pub(crate) fn expire(&mut self, now: Time, limit: Option<Duration>) -> Option<Expired> {
        self.next_deadline(limit).filter(|deadline| *deadline <= now)?;
        if self.clients_ended.is_some() {
            return Some(Expired::Exit);
        }
        let waited = self.since.map_or(Duration::ZERO, |since| now.since(since));
        if self.stops_lending_first() {
            self.has_stopped_lending = true;
            let left = limit.unwrap_or_default().saturating_sub(waited);
            return Some(Expired::StopLending { secs: waited.as_secs(), left });
        }
        self.clients_ended = Some(now);
        // Reports from before the clients were closed no longer count.
        self.drained.clear();
        Some(Expired::CloseClients { secs: waited.as_secs() })
    }

    /// A shutdown that waits for servers lends none from its beginning.
    fn stops_lending_first(&self) -> bool {
        !self.has_stopped_lending && self.way == Some(Shutdown::WaitForClients)
    }
}

/// How long before the limit servers are lent for the last time: a quarter of it, and not more than most transactions need.
fn lending_ends_before(limit: Duration) -> Duration {
    (limit / 4).min(Duration::from_secs(10))
}

/// How long the servers of clients that were closed may take to be cancelled and rolled back.
const MENDING_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::from_secs(100 + secs)
    }

    #[test]
    fn servers_are_lent_for_three_quarters_of_the_time_and_at_least_until_ten_seconds_before_its_end() {
        for (limit, last) in [(4, 3), (20, 15), (40, 30), (100, 90)] {
            let (mut progress, limit) = (ShutdownProgress::default(), Some(Duration::from_secs(limit)));
            progress.begin(at(0), Shutdown::WaitForClients);
            assert_eq!(progress.next_deadline(limit), Some(at(last)));
            let left = limit.expect("a limit") - Duration::from_secs(last);
            assert_eq!(progress.expire(at(last), limit), Some(Expired::StopLending { secs: last, left }));
            assert_eq!(progress.expire(at(last), limit), None);
            let end = at(last) + left;
            assert_eq!(progress.next_deadline(limit), Some(end));
            assert!(matches!(progress.expire(end, limit), Some(Expired::CloseClients { .. })));
            assert_eq!(progress.next_deadline(limit), Some(end + MENDING_MAX));
        }
    }

    #[test]
    fn a_shutdown_that_waits_for_servers_has_stopped_lending_from_its_beginning() {
        let (mut progress, limit) = (ShutdownProgress::default(), Some(Duration::from_secs(20)));
        progress.begin(at(0), Shutdown::WaitForServers);
        assert_eq!(progress.next_deadline(limit), Some(at(20)));
        assert_eq!(progress.expire(at(20), limit), Some(Expired::CloseClients { secs: 20 }));
    }
}
