//! Time as a value: machines get the time as an argument and never read a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A time on the monotonic clock, in microseconds since an arbitrary origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// A time in seconds after the origin; for tests and virtual clocks.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000)
    }

    /// How long ago `earlier` was; zero if it is in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates: a deadline beyond the range of the clock is never reached.
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        self.since(rhs)
    }
}

/// The earliest of these times; `None` if there is none. The last time of the clock is never reached and counts as none.
#[inline]
#[must_use]
pub fn earliest<const N: usize>(times: [Option<Time>; N]) -> Option<Time> {
    // A comparison each: with an iterator that skips what is missing, it is a dozen of instructions each.
    let first = times.iter().fold(NEVER, |first, time| first.min(time.unwrap_or(NEVER)));
    (first < NEVER).then_some(first)
}

/// The last time of the clock.
const NEVER: Time = Time(u64::MAX);

/// A calendar time, in microseconds since 1970-01-01 UTC. For display, never for decisions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Wall(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_beyond_the_end_of_time_is_the_end_of_time() {
        assert_eq!(Time(5) + Duration::MAX, Time(u64::MAX));
    }

    #[test]
    fn of_deadlines_the_earliest_counts_and_the_end_of_time_is_none() {
        assert_eq!(earliest([None, Some(Time(7)), Some(Time(5)), None]), Some(Time(5)));
        assert_eq!(earliest([Some(Time(0)), Some(Time(5))]), Some(Time(0)));
        assert_eq!(earliest([None, Some(Time(5) + Duration::MAX)]), None);
        assert_eq!(earliest([None; 3]), None);
        assert_eq!(earliest([]), None);
    }

    #[test]
    fn what_lies_ahead_was_zero_ago() {
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
        assert_eq!(Time(9) - Time(5), Duration::from_micros(4));
    }
}
