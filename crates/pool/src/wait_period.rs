//! Wait periods: when the log reports that the clients of a pool begin to wait, and that this is over.
//!
//! Always true: a wait period begins when a client has waited for long enough, and ends when none has for [`PERIOD_GAP`]. So a pool has
//! at most one beginning and one end in that time, however often its queue is empty for a moment.
//! Not here: why clients wait (`why`), when the pools are looked at (`worker::admin::wait_periods`).

use std::time::Duration;

use base::Time;

use crate::reason::{WaitReason, Waited};

/// The state of a pool's wait queues at one look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSample {
    /// The largest number of clients that waited at once since the last look.
    pub most: u32,
    /// Since when the first of the present waiting clients has waited.
    pub since: Option<Time>,
    /// What the present clients wait for.
    pub why: Option<WaitReason>,
    /// The time that clients have waited since the pool was opened, by reason.
    pub waited: Waited,
}

/// A period in which clients of a pool have waited for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitPeriod {
    began: Time,
    /// When a client that had waited for long enough was last seen.
    last: Time,
    most: u32,
    longest: Duration,
    /// The time that clients had waited before the wait period.
    before: Waited,
    /// What clients waited for when the wait period began.
    why: Option<WaitReason>,
}

/// What is to be reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitReport {
    /// A wait period begins.
    Begins {
        /// The largest number of clients that waited at once.
        most: u32,
        /// For how long the first client has waited.
        longest: Duration,
        /// What the clients wait for.
        why: Option<WaitReason>,
    },
    /// More clients wait at once than before in this wait period, so the present holders of the servers are worth recording.
    Worse,
    /// The wait period is over.
    Ends {
        /// The time from when the first client began to wait until a client that had waited for long was last seen.
        lasted: Duration,
        /// The largest number of clients that waited at once.
        most: u32,
        /// The longest wait of a client.
        longest: Duration,
        /// The reason for most of the time waited.
        why: Option<WaitReason>,
    },
}

impl WaitPeriod {
    /// Updates a pool's period from a look at its wait queues. A client has waited for long if it has waited for `enough`.
    pub fn sample(period: &mut Option<Self>, now: Time, enough: Duration, seen: &QueueSample) -> Option<WaitReport> {
        let waited = seen.since.map(|since| now.since(since)).filter(|waited| *waited >= enough);
        let Some(this) = period else {
            let longest = waited?;
            let most = seen.most.max(1);
            let began = Time(now.0.saturating_sub(longest.as_micros() as u64));
            *period = Some(Self { began, last: now, most, longest, before: seen.waited, why: seen.why });
            return Some(WaitReport::Begins { most, longest, why: seen.why });
        };
        if let Some(waited) = waited {
            this.notes(now, waited);
        }
        let is_worse = seen.most > this.most;
        this.most = this.most.max(seen.most);
        if now.since(this.last) < PERIOD_GAP {
            return is_worse.then_some(WaitReport::Worse);
        }
        let (most, longest, lasted) = (this.most, this.longest, this.last.since(this.began));
        let why = seen.waited.main_since(&this.before).or(this.why);
        *period = None;
        Some(WaitReport::Ends { lasted, most, longest, why })
    }

    /// Notes how long a client had waited that does not wait any more.
    pub fn has_waited(&mut self, now: Time, enough: Duration, waited: Duration) {
        if waited >= enough {
            self.notes(now, waited);
        }
    }

    fn notes(&mut self, now: Time, waited: Duration) {
        self.last = now;
        self.longest = self.longest.max(waited);
    }
}

/// A wait period ends when no client has waited for long for this time.
const PERIOD_GAP: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Duration = Duration::from_secs(1);

    fn look(period: &mut Option<WaitPeriod>, at: u64, since: Option<u64>, most: u32) -> Option<WaitReport> {
        let (since, why) = (since.map(millis), since.map(|_| WaitReason::NoneFree));
        WaitPeriod::sample(period, millis(at), ENOUGH, &QueueSample { most, since, why, waited: Waited::default() })
    }

    fn millis(at: u64) -> Time {
        Time(at * 1000)
    }

    #[test]
    fn who_waits_for_an_instant_begins_nothing() {
        let mut period = None;
        for at in (10_000..20_000).step_by(100) {
            assert_eq!(look(&mut period, at, Some(at - 900), 50), None);
        }
        assert_eq!(period, None);
    }

    #[test]
    fn a_spell_has_one_beginning_and_one_end() {
        let (mut period, why) = (None, Some(WaitReason::NoneFree));
        let longest = ENOUGH;
        assert_eq!(look(&mut period, 10_000, Some(9_000), 3), Some(WaitReport::Begins { most: 3, longest, why }));
        assert_eq!(look(&mut period, 11_000, Some(9_000), 2), None);
        assert_eq!(look(&mut period, 12_000, Some(11_900), 7), Some(WaitReport::Worse));
        if let Some(period) = &mut period {
            period.has_waited(millis(12_500), ENOUGH, Duration::from_millis(3_500));
            period.has_waited(millis(16_000), ENOUGH, Duration::from_millis(999));
        }
        assert_eq!(look(&mut period, 17_000, None, 0), None, "somebody may come back");
        let ends = WaitReport::Ends {
            lasted: Duration::from_millis(3_500),
            most: 7,
            longest: Duration::from_millis(3_500),
            why,
        };
        assert_eq!(look(&mut period, 17_500, None, 0), Some(ends));
        assert_eq!(period, None);
    }

    #[test]
    fn a_queue_that_is_empty_now_and_then_makes_no_pair_for_each_time() {
        let (mut period, mut words) = (None, 0);
        for round in 0..100 {
            let at = 10_000 + round * 2_000;
            words += u32::from(look(&mut period, at, Some(at - 1_500), 1).is_some());
            words += u32::from(look(&mut period, at + 1_000, None, 0).is_some());
        }
        assert_eq!(words, 1);
    }
}
