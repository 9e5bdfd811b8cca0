//! Measures how long a turn lasts, and which work of it took longest.
//!
//! Always true: measuring costs a few instructions per completion, because it uses a counter of the processor, whose
//! rate is learned from the clock while the worker runs; no turn counts as slow before the rate is known.
//! Not here: the log line (`slow`).

use std::time::Duration;

use base::Time;

/// The work of a turn, by which a slow one is explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// An event of the connection with these bits (`Owner`).
    Connection(u64),
    /// A new connection.
    Accept,
    /// Letters of other threads.
    Letters,
    /// Timers and deadlines.
    Timers,
}

/// Measures turns.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// A time and the counter at it, from which the rate is computed.
    base: Option<(Time, u64)>,
    /// When the rate was last computed.
    rated_at: Time,
    /// Ticks of a slow turn; 0 while the rate is unknown.
    slow_ticks: u64,
    turn_began: u64,
    work_began: u64,
    /// Ticks of the longest work in this turn.
    longest: u64,
    work: Option<Work>,
    /// When a slow turn was last logged, and how many there have been since.
    told_at: Option<Time>,
    untold: u64,
}

impl Stopwatch {
    /// A turn begins.
    pub(crate) fn begin(&mut self, now: Time, ticks: u64) {
        if now.since(self.rated_at) >= RATE_AGAIN {
            self.rate(now, ticks);
        }
        (self.turn_began, self.work_began, self.longest, self.work) = (ticks, ticks, 0, None);
    }

    /// A piece of work in this turn is done.
    pub(crate) fn lap(&mut self, ticks: u64, work: Work) {
        let took = ticks.saturating_sub(self.work_began);
        self.work_began = ticks;
        if took > self.longest {
            (self.longest, self.work) = (took, Some(work));
        }
    }

    /// Whether the turn is slow if it ends now.
    pub(crate) fn is_slow(&self, ticks: u64) -> bool {
        self.slow_ticks > 0 && ticks.saturating_sub(self.turn_began) >= self.slow_ticks
    }

    /// How long the turn has lasted so far.
    pub(crate) fn took(&self, ticks: u64) -> Duration {
        self.time(ticks.saturating_sub(self.turn_began))
    }

    /// The work that took longest in this turn, and how long it took.
    pub(crate) fn culprit(&self) -> Option<(Work, Duration)> {
        Some((self.work?, self.time(self.longest)))
    }

    fn time(&self, ticks: u64) -> Duration {
        let micros = u128::from(ticks) * SLOW.as_micros() / u128::from(self.slow_ticks.max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Whether to log this slow turn; if so, returns the number of those not logged before.
    pub(crate) fn tell(&mut self, now: Time) -> Option<u64> {
        if self.told_at.is_some_and(|told| now.since(told) < TELL_EVERY) {
            self.untold += 1;
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }

    fn rate(&mut self, now: Time, ticks: u64) {
        let Some((then, old)) = self.base.filter(|(_, old)| *old < ticks) else {
            (self.base, self.rated_at, self.slow_ticks) = (Some((now, ticks)), now, 0);
            return;
        };
        let past = now.since(then);
        self.rated_at = now;
        if !past.is_zero() {
            let slow = u128::from(ticks - old) * SLOW.as_micros() / past.as_micros().max(1);
            self.slow_ticks = u64::try_from(slow).unwrap_or(0);
        }
        // The counter may run on while the machine sleeps and the clock stands still.
        if past >= BASE_AGAIN {
            self.base = Some((now, ticks));
        }
    }
}

/// A turn of this length is slow.
pub(crate) const SLOW: Duration = Duration::from_millis(5);
/// Minimum time between two log lines about slow turns.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the counter's rate is computed.
const RATE_AGAIN: Duration = Duration::from_secs(1);
/// The time over which the rate is computed.
const BASE_AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 3 ticks a microsecond.
    fn at(milliseconds: u64) -> (Time, u64) {
        (Time(milliseconds * 1000), milliseconds * 3000 + 77)
    }

    #[test]
    fn a_turn_is_slow_from_five_milliseconds_on_once_the_rate_is_known() {
        let mut watch = Stopwatch::default();
        let (now, ticks) = at(5000);
        watch.begin(now, ticks);
        assert!(!watch.is_slow(ticks + 1_000_000), "nobody knows how long that was");
        let (now, ticks) = at(6000);
        watch.begin(now, ticks);
        assert!(!watch.is_slow(ticks + 14_999));
        assert!(watch.is_slow(ticks + 15_000));
    }

    #[test]
    fn what_took_longest_is_named_with_its_share() {
        let mut watch = Stopwatch::default();
        for second in [5, 6] {
            let (now, ticks) = at(second * 1000);
            watch.begin(now, ticks);
        }
        let (_, begun) = at(6000);
        for (milliseconds, work) in
            [(1, Work::Connection(1)), (8, Work::Connection(2)), (9, Work::Letters), (10, Work::Timers)]
        {
            watch.lap(begun + milliseconds * 3000, work);
        }
        assert_eq!(watch.took(begun + 30_000), Duration::from_millis(10));
        assert_eq!(watch.culprit(), Some((Work::Connection(2), Duration::from_millis(7))));
        let (now, ticks) = at(6011);
        watch.begin(now, ticks);
        assert_eq!(watch.culprit(), None);
    }

    #[test]
    fn one_slow_turn_a_second_is_told_of_and_the_others_are_counted() {
        let mut watch = Stopwatch::default();
        let told: Vec<_> = [0, 100, 900, 1000, 1999, 2000, 3000].map(|at_ms| watch.tell(Time(at_ms * 1000))).into();
        assert_eq!(told, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }

    #[test]
    fn a_counter_that_stands_elsewhere_is_learned_anew() {
        let mut watch = Stopwatch::default();
        for second in [5, 6, 7] {
            let (now, ticks) = at(second * 1000);
            watch.begin(now, ticks);
        }
        // The machine was moved to another one.
        watch.begin(Time(8_000_000), 50);
        assert!(!watch.is_slow(u64::MAX));
        watch.begin(Time(9_000_000), 50 + 3_000_000);
        assert!(watch.is_slow(50 + 3_000_000 + 15_000));
        assert!(!watch.is_slow(50 + 3_000_000 + 14_999));
    }
}
