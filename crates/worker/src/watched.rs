//! Periods in which the clients of a pool wait long, and when pools are checked for that.
//!
//! Always true: a client that begins to wait is seen by a pass that begins later; one turn checks a bounded number of
//! pools, and later turns the others.
//! Not here: the check (`admin::wait_periods`), when such a period begins and ends (crate `pool`).

use std::time::Duration;

use base::Time;
use pool::{QueueSample, WaitPeriod, WaitReport};

/// The long waits of one pool.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    period: Option<WaitPeriod>,
    /// The holders of its servers when most clients waited.
    holders: Box<str>,
    /// How many of its clients got an error instead of a server, and the last one.
    failed: Option<(u32, Box<str>)>,
}

impl Watched {
    /// Compares the waits as they are now with those seen before, where waits are long from `enough` on. Returns what is to be
    /// told, and when to look again.
    pub(crate) fn sample(
        &mut self,
        now: Time,
        enough: Duration,
        seen: &QueueSample,
    ) -> (Option<WaitReport>, Option<Time>) {
        let report = WaitPeriod::sample(&mut self.period, now, enough, seen);
        let due = match self.period {
            Some(_) => Some(now + LOOK_AGAIN),
            None => seen.since.map(|since| since + enough),
        };
        (report, due)
    }

    /// These clients hold the servers while most clients wait.
    pub(crate) fn held_by(&mut self, holders: &str) {
        self.holders = holders.into();
    }

    /// The holders of its servers when most clients waited.
    pub(crate) fn holders(&self) -> &str {
        &self.holders
    }

    /// How many of its clients got an error instead of a server, and the last one.
    pub(crate) fn failed(&self) -> Option<(u32, &str)> {
        self.failed.as_ref().map(|(count, why)| (*count, &**why))
    }

    /// A client got an error instead of a server.
    #[cold]
    pub(crate) fn fails(&mut self, why: &str) {
        if self.period.is_some() {
            let count = self.failed.as_ref().map_or(0, |(count, _)| *count);
            self.failed = Some((count.saturating_add(1), why.into()));
        }
    }

    /// A client that has waited this long has got a server, or an error.
    #[cold]
    pub(crate) fn has_waited(&mut self, now: Time, enough: Option<Duration>, waited: Duration) {
        if let (Some(period), Some(enough)) = (&mut self.period, enough) {
            period.has_waited(now, enough, waited);
        }
    }
}

/// When pools are checked.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Whether a timer is set.
    is_armed: bool,
    /// Whether a client has begun to wait since the last pass began.
    is_asked: bool,
    /// The progress of the current pass.
    pass: Option<Pass>,
}

/// A pass over all pools.
#[derive(Debug, Default)]
struct Pass {
    /// The last pool that was checked, by database and user number.
    after: Option<(u32, u32)>,
    /// When to check again.
    next: Option<Time>,
}

impl Watch {
    /// A client begins to wait. Returns whether a timer has to be set.
    #[inline]
    pub(crate) fn asks(&mut self) -> bool {
        self.is_asked = true;
        !std::mem::replace(&mut self.is_armed, true)
    }

    /// The timer has fired: returns the pool behind which the pass continues.
    pub(crate) fn next_pass(&mut self) -> Option<(u32, u32)> {
        if self.pass.is_none() {
            self.is_asked = false;
        }
        self.pass.get_or_insert_default().after
    }

    /// A pool has been checked, and has to be checked again at `due`.
    pub(crate) fn looked(&mut self, pool: (u32, u32), due: Option<Time>) {
        let pass = self.pass.get_or_insert_default();
        pass.after = Some(pool);
        pass.next = pass.next.into_iter().chain(due).min();
    }

    /// The pass has ended: returns when to begin the next one, if any client waits. A client that has begun to wait
    /// meanwhile has waited for `enough` then.
    pub(crate) fn ends(&mut self, now: Time, enough: Option<Duration>) -> Option<Time> {
        let pass = self.pass.take().unwrap_or_default();
        let asked = enough.filter(|_| self.is_asked).map(|enough| now + enough);
        let next = pass.next.into_iter().chain(asked).min().map(|next| next.max(now + LOOK_AGAIN_MIN));
        self.is_armed = next.is_some();
        next
    }
}

/// How often a pool with waiting clients is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Minimum time between two passes.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(100);
/// Pools checked in one turn.
pub(crate) const LOOKS_MAX: usize = 256;
/// Shorter waits are noticed only by a pass.
pub(crate) const WAITED_LONG: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Option<Duration> = Some(Duration::from_secs(1));

    #[test]
    fn nobody_looks_while_nobody_waits() {
        let mut watch = Watch::default();
        assert!(watch.asks());
        assert!(!watch.asks(), "the timer is set");
        assert_eq!(watch.next_pass(), None);
        watch.looked((0, 1), None);
        assert_eq!(watch.ends(Time::from_secs(2), ENOUGH), None);
        assert!(watch.asks());
    }

    #[test]
    fn who_begins_to_wait_while_pools_are_looked_at_is_seen_by_the_next_look() {
        let mut watch = Watch::default();
        watch.asks();
        assert_eq!(watch.next_pass(), None);
        watch.looked((0, 1), Some(Time::from_secs(9)));
        // The pass continues in the next turn; meanwhile a client waits in the pool that was checked.
        assert!(!watch.asks());
        assert_eq!(watch.next_pass(), Some((0, 1)));
        watch.looked((3, 1), Some(Time::from_secs(8)));
        assert_eq!(watch.ends(Time::from_secs(2), ENOUGH), Some(Time::from_secs(3)));
        assert_eq!(watch.next_pass(), None, "from the beginning");
        watch.looked((0, 1), Some(Time::from_secs(3)));
        assert_eq!(watch.ends(Time::from_secs(3), ENOUGH), Some(Time(3_100_000)), "not at once");
    }
}
