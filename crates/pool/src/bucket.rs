//! Token buckets in a bounded table: how much of a rate each key has used.
//!
//! Always true: within any time T no more tokens are taken from one bucket than its burst plus what its rate yields in T.
//! The arithmetic uses integers and is exact: a token consists of as many units as an hour has microseconds, so that each
//! rate per second, minute or hour yields a whole number of units per microsecond. Full buckets are removed, so that
//! unauthenticated clients cannot make the table grow.
//! Not here: what is counted, and by which keys (`rates`).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use base::Time;

/// A rate per second, minute or hour, and a burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Tokens per period, from 1 to [`Rate::COUNT_MAX`].
    pub count: u32,
    /// The period.
    pub period: Period,
    /// Tokens that may be taken at once from a full bucket, from 1 to [`Rate::COUNT_MAX`].
    pub burst: u32,
}

/// The period of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Period {
    /// One second.
    Second,
    /// One minute.
    Minute,
    /// One hour.
    Hour,
}

impl Rate {
    /// The largest count and the largest burst.
    pub const COUNT_MAX: u32 = 1_000_000;

    /// Units of a token that the rate yields per microsecond.
    fn gain(self) -> u64 {
        let periods_per_hour = match self.period {
            Period::Second => 3600,
            Period::Minute => 60,
            Period::Hour => 1,
        };
        u64::from(self.count) * periods_per_hour
    }

    fn full(self) -> u64 {
        u64::from(self.burst) * TOKEN
    }
}

/// One token bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The content at time `at`, in units of a token.
    level: u64,
    at: Time,
}

impl Bucket {
    /// The bucket at a later time. `now` may be earlier than `at`, because each worker reads the clock by itself.
    fn at(self, now: Time, rate: Rate) -> Self {
        let at = self.at.max(now);
        let gained = (at.0 - self.at.0).saturating_mul(rate.gain());
        Self { level: self.level.saturating_add(gained).min(rate.full()), at }
    }

    /// When the bucket contains this many units, if none are taken until then.
    fn reaches(self, units: u64, rate: Rate) -> Time {
        Time(self.at.0.saturating_add(units.saturating_sub(self.level).div_ceil(rate.gain())))
    }
}

/// The buckets of one rate, by key.
#[derive(Debug)]
pub(crate) struct Buckets {
    rate: Rate,
    rows: HashMap<u64, Bucket>,
    /// Every key of `rows` once, in the order in which their buckets are examined for removal.
    round: VecDeque<u64>,
    /// The common bucket of all keys for which the table has no room.
    shared: Bucket,
    capacity: usize,
}

/// Which bucket a key uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Whose {
    /// Its own bucket.
    Own(u64),
    /// The common bucket of all keys for which the table has no room.
    Shared,
}

impl Buckets {
    pub(crate) fn new(rate: Rate, capacity: usize) -> Self {
        let shared = Bucket { level: rate.full(), at: Time(0) };
        Self { rate, rows: HashMap::new(), round: VecDeque::new(), shared, capacity }
    }

    /// Finds the bucket of a key, and if it has no token, the time when it will have one.
    pub(crate) fn look(&mut self, key: u64, now: Time) -> (Whose, Option<Time>) {
        let whose = self.whose(key, now);
        let until = self.find(whose).map(|bucket| bucket.at(now, self.rate));
        let until = until.filter(|bucket| bucket.level < TOKEN).map(|bucket| bucket.reaches(TOKEN, self.rate));
        (whose, until)
    }

    /// Takes a token from a bucket in which [`Buckets::look`] has found one.
    pub(crate) fn take(&mut self, whose: Whose, now: Time) {
        let rate = self.rate;
        let shared = self.shared.at(now, rate);
        let bucket = match whose {
            Whose::Shared => &mut self.shared,
            Whose::Own(key) => self.rows.entry(key).or_insert_with(|| {
                self.round.push_back(key);
                // The key may have used the shared bucket before, so its own bucket begins with the shared one's content.
                shared
            }),
        };
        *bucket = bucket.at(now, rate);
        debug_assert!(bucket.level >= TOKEN, "a token was taken that is not there");
        bucket.level = bucket.level.saturating_sub(TOKEN);
    }

    /// When a bucket is full again, if no token is taken until then.
    pub(crate) fn full_at(&self, whose: Whose, now: Time) -> Time {
        self.find(whose).map_or(now, |bucket| bucket.at(now, self.rate).reaches(self.rate.full(), self.rate))
    }

    /// The number of keys with a bucket of their own.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    fn find(&self, whose: Whose) -> Option<Bucket> {
        match whose {
            Whose::Own(key) => Some(*self.rows.get(&key).unwrap_or(&self.shared)),
            Whose::Shared => Some(self.shared),
        }
    }

    fn whose(&mut self, key: u64, now: Time) -> Whose {
        if self.rows.contains_key(&key) {
            return Whose::Own(key);
        }
        // Up to two buckets are removed for one that is added, so that the table shrinks when its keys are no longer used.
        for _ in 0..LOOKS {
            self.forget_next_if_full(now);
        }
        if self.rows.len() < self.capacity { Whose::Own(key) } else { Whose::Shared }
    }

    fn forget_next_if_full(&mut self, now: Time) {
        let Some(key) = self.round.pop_front() else { return };
        let is_full = self.rows.get(&key).is_none_or(|bucket| bucket.at(now, self.rate).level >= self.rate.full());
        if is_full {
            self.rows.remove(&key);
        } else {
            self.round.push_back(key);
        }
    }
}

/// Units of a token: microseconds in an hour.
const TOKEN: u64 = 3_600_000_000;
/// How many buckets are examined for removal for each new key.
const LOOKS: usize = 2;

/// A duration in milliseconds, rounded up, and at least 1.
#[must_use]
pub fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn rate(count: u32, period: Period, burst: u32) -> Rate {
        Rate { count, period, burst }
    }

    fn takes(buckets: &mut Buckets, key: u64, now: u64) -> bool {
        let (whose, until) = buckets.look(key, Time(now));
        if until.is_none() {
            buckets.take(whose, Time(now));
        }
        until.is_none()
    }

    #[test]
    fn a_burst_is_taken_at_once_and_then_a_token_at_a_time() {
        let mut buckets = Buckets::new(rate(3, Period::Second, 2), 8);
        let now = 1_000_000;
        assert!(takes(&mut buckets, 7, now) && takes(&mut buckets, 7, now));
        // A third of a second is no whole number of microseconds: no token comes early, and no fraction is lost.
        assert_eq!(buckets.look(7, Time(now)).1, Some(Time(now + 333_334)));
        assert!(!takes(&mut buckets, 7, now + 333_333));
        assert!(takes(&mut buckets, 7, now + 333_334));
        assert_eq!(buckets.look(7, Time(now + 333_334)).1, Some(Time(now + 666_667)));
        assert!(takes(&mut buckets, 7, now + 666_667));
        assert!(takes(&mut buckets, 7, now + 1_000_000));
    }

    #[test]
    fn a_rate_may_be_told_for_a_minute_or_an_hour() {
        for (period, wait) in [(Period::Minute, 6_000_000), (Period::Hour, 360_000_000)] {
            let mut buckets = Buckets::new(rate(10, period, 1), 8);
            assert!(takes(&mut buckets, 7, 5));
            assert_eq!(buckets.look(7, Time(5)).1, Some(Time(5 + wait)));
        }
    }

    #[test]
    fn a_clock_that_is_behind_gives_nothing_twice() {
        let mut buckets = Buckets::new(rate(1, Period::Second, 1), 8);
        assert!(takes(&mut buckets, 7, 5_000_000));
        assert!(!takes(&mut buckets, 7, 4_000_000));
        assert_eq!(buckets.look(7, Time(4_000_000)).1, Some(Time(6_000_000)));
        assert!(!takes(&mut buckets, 7, 5_500_000));
    }

    #[test]
    fn the_longest_rest_fills_a_bucket_and_no_more() {
        let mut buckets = Buckets::new(rate(Rate::COUNT_MAX, Period::Second, Rate::COUNT_MAX), 8);
        assert!(takes(&mut buckets, 7, 0));
        assert!(takes(&mut buckets, 7, u64::MAX - 1));
        assert_eq!(buckets.rows[&7].level, (u64::from(Rate::COUNT_MAX) - 1) * TOKEN);
    }

    #[test]
    fn a_full_bucket_is_forgotten() {
        let mut buckets = Buckets::new(rate(1, Period::Second, 1), 100);
        (0..50).for_each(|key| assert!(takes(&mut buckets, key, 0)));
        assert_eq!(buckets.len(), 50);
        for key in 100..200 {
            takes(&mut buckets, key, 10_000_000);
        }
        assert!(buckets.rows.keys().all(|key| *key >= 100));
        assert!(takes(&mut buckets, 300, 30_000_000) && takes(&mut buckets, 301, 30_000_000));
        assert!(buckets.len() < 100);
    }

    #[test]
    fn whoever_finds_a_full_table_shares_one_bucket() {
        let mut buckets = Buckets::new(rate(1, Period::Second, 1), 2);
        assert!(takes(&mut buckets, 1, 0) && takes(&mut buckets, 2, 0));
        assert!(takes(&mut buckets, 3, 0));
        assert!(!takes(&mut buckets, 4, 0));
        assert_eq!((buckets.len(), buckets.round.len()), (2, 2));
    }

    /// Otherwise the key would have the burst twice: from the shared bucket and from its own.
    #[test]
    fn whoever_gets_room_has_no_more_than_was_left_for_all() {
        let mut buckets = Buckets::new(rate(1, Period::Second, 3), 1);
        assert!(takes(&mut buckets, 1, 2_000_000));
        (0..3).for_each(|_| assert!(takes(&mut buckets, 2, 2_000_000)));
        // The bucket of key 1 is full again and is removed, so that key 2 gets its own.
        assert!(takes(&mut buckets, 2, 3_000_000));
        assert_eq!(buckets.look(2, Time(3_000_000)), (Whose::Own(2), Some(Time(4_000_000))));
    }

    proptest! {
        /// For any times and any keys, however often a key changes between its own bucket and the shared one.
        #[test]
        fn no_more_is_taken_than_the_burst_and_what_the_rate_gives(
            (count, burst, capacity) in (1_u32..50, 1_u32..6, 0_usize..4),
            period in prop_oneof![Just(Period::Second), Just(Period::Minute)],
            tries in vec((0_u64..6, 0_u64..300_000), 1..300),
        ) {
            let mut buckets = Buckets::new(rate(count, period, burst), capacity);
            let mut taken: HashMap<u64, Vec<u64>> = HashMap::new();
            let mut now = 1_000_000;
            for (key, pause) in tries {
                now += pause;
                if takes(&mut buckets, key, now) {
                    taken.entry(key).or_default().push(now);
                }
                prop_assert!(buckets.len() <= capacity);
            }
            let period_us = if period == Period::Second { 1_000_000 } else { 60_000_000 };
            for times in taken.values() {
                for (first, from) in times.iter().enumerate() {
                    for (last, to) in times.iter().enumerate().skip(first) {
                        let beyond = (last - first + 1).saturating_sub(burst as usize) as u64;
                        prop_assert!(beyond * period_us <= u64::from(count) * (to - from));
                    }
                }
            }
        }

        #[test]
        fn a_token_comes_when_it_was_said_and_not_before(
            (count, burst) in (1_u32..2000, 1_u32..6),
            pauses in vec(0_u64..5_000, 1..100),
        ) {
            let mut buckets = Buckets::new(rate(count, Period::Second, burst), 4);
            let mut now = 1_000_000;
            for pause in pauses {
                now += pause;
                if let (_, Some(until)) = buckets.look(1, Time(now)) {
                    prop_assert!(buckets.look(1, Time(until.0 - 1)).1.is_some());
                    now = until.0;
                }
                prop_assert!(takes(&mut buckets, 1, now));
            }
        }
    }

    #[test]
    fn a_hint_never_names_less_than_the_wait() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_micros(20_001)), 21);
        assert_eq!(millis(Duration::ZERO), 1);
    }
}
