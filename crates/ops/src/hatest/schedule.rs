//! When each write of a writer is due: an open schedule.
//!
//! Always true: the time of a write does not depend on the answers before it, so that a write that waits for an earlier
//! one is late, and its lateness is part of its latency (no coordinated omission).

use std::time::Duration;

/// The times at which the writes of a writer are due, counted from the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Schedule {
    first: Duration,
    every: Duration,
}

impl Schedule {
    /// The schedule of one of `count` writers or readers. They begin one after the other, so that together they write
    /// at equal distances.
    pub(crate) fn of(at: u32, count: u32, every: Duration) -> Self {
        Self { first: every * at / count.max(1), every }
    }

    /// When write `number` is due.
    pub(crate) fn due(&self, number: u64) -> Duration {
        let nanos = self.every.as_nanos().saturating_mul(u128::from(number));
        self.first.saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// How many writes are due before `end`.
    pub(crate) fn count_before(&self, end: Duration) -> u64 {
        let time = end.saturating_sub(self.first).as_nanos();
        u64::try_from(time.div_ceil(self.every.as_nanos().max(1))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_take_turns_at_equal_distances() {
        let every = Duration::from_millis(20);
        let due = |at: u32, number: u64| Schedule::of(at, 4, every).due(number).as_millis();
        assert_eq!([due(0, 0), due(1, 0), due(3, 0), due(0, 1), due(1, 100)], [0, 5, 15, 20, 2005]);
    }

    #[test]
    fn what_is_due_before_the_end_is_counted() {
        let schedule = Schedule::of(1, 2, Duration::from_millis(20));
        let count = |end: u64| schedule.count_before(Duration::from_millis(end));
        assert_eq!([count(0), count(10), count(11), count(30), count(31), count(1000)], [0, 0, 1, 1, 2, 50]);
    }
}
