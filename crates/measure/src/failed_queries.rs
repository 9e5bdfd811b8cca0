//! Whether more of a database's queries fail than usually do.
//!
//! Always true: nothing is done for a query that succeeds; how many there were is told by the counter of all queries
//! when one fails.
//! Not here: which errors count (`worker::failing`).

use std::time::Duration;

use base::Time;

use crate::failures::WINDOW;

/// The failed queries of one database.
#[derive(Debug, Default)]
pub struct FailedQueries {
    total: u64,
    /// The SQLSTATE of the last error.
    state: [u8; 5],
    /// The seconds in which queries have failed, the last in front.
    seconds: [Option<Mark>; WINDOW.as_secs() as usize],
    /// The share of errors since `older` is the usual one; `newer` follows it.
    older: Option<Mark>,
    newer: Option<Mark>,
}

/// The counters when an error arrived, without it and its query.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Time,
    errors: u64,
    queries: u64,
}

/// More queries fail than usually do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Excess {
    /// How many have failed within [`WINDOW`].
    pub errors: u64,
    /// The part of the queries that failed, from 0 to 1.
    pub share: f64,
    /// The part that usually fails.
    pub usual: f64,
    /// The SQLSTATE of the last error.
    pub state: [u8; 5],
}

impl FailedQueries {
    /// A query has failed; with it there were so many `queries`.
    pub fn fails(&mut self, now: Time, queries: u64, state: [u8; 5]) {
        let mark = Mark { at: now, errors: self.total, queries: queries.saturating_sub(1) };
        self.total += 1;
        self.state = state;
        if self.seconds[0].is_none_or(|last| last.at.0 / SECOND != now.0 / SECOND) {
            self.seconds.rotate_right(1);
            self.seconds[0] = Some(mark);
        }
        let newer = *self.newer.get_or_insert(mark);
        if now.since(newer.at) >= USUAL_OVER {
            (self.older, self.newer) = (Some(newer), Some(mark));
        }
    }

    /// How many queries have failed.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether more queries fail than usually do, of so many `queries`.
    #[must_use]
    pub fn excess(&self, now: Time, queries: u64) -> Option<Excess> {
        let first = self.seconds.iter().flatten().rfind(|mark| now.since(mark.at) < WINDOW)?;
        // Among many queries a few errors that come together are not yet a share of anything.
        if now.since(first.at) < SHORTEST {
            return None;
        }
        let errors = self.total - first.errors;
        let share = part(errors, queries.saturating_sub(first.queries));
        let before = self.older.or(self.newer).filter(|mark| first.at.since(mark.at) >= KNOWN_AFTER);
        let usual = before
            .map_or(0.0, |before| part(first.errors - before.errors, first.queries.saturating_sub(before.queries)));
        let is_much = share >= NEARLY_ALL || share >= MUCH && share >= MORE * usual;
        (errors >= ERRORS_MIN && is_much).then_some(Excess { errors, share, usual, state: self.state })
    }
}

fn part(errors: u64, queries: u64) -> f64 {
    if queries == 0 { 0.0 } else { (errors as f64 / queries as f64).min(1.0) }
}

const SECOND: u64 = 1_000_000;
/// The shortest time over which the share of errors is told.
const SHORTEST: Duration = Duration::from_secs(1);
/// What is usual is the share over the last one or two times this long.
const USUAL_OVER: Duration = Duration::from_secs(3600);
/// Nothing is usual before a database was used for this long after its first error.
const KNOWN_AFTER: Duration = Duration::from_secs(600);
const ERRORS_MIN: u64 = 5;
/// This share of failed queries is never usual.
const NEARLY_ALL: f64 = 0.9;
/// A smaller share than this is no trouble.
const MUCH: f64 = 0.1;
/// So many times the usual share is more than usual.
const MORE: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets `failing` of a hundred queries fail in each of some seconds; returns what is told a moment after each.
    struct Database {
        now: Time,
        queries: u64,
        failed: FailedQueries,
    }

    impl Database {
        fn new() -> Self {
            Self { now: Time::from_secs(1000), queries: 0, failed: FailedQueries::default() }
        }

        fn runs(&mut self, seconds: u64, queries: u64, failing: u64) -> Option<Excess> {
            for _ in 0..seconds {
                for number in 0..queries {
                    self.queries += 1;
                    if number < failing {
                        self.failed.fails(self.now, self.queries, *b"42P01");
                    }
                    self.now.0 += 1_000_000 / queries;
                }
            }
            self.failed.excess(self.now, self.queries)
        }
    }

    #[test]
    fn an_application_whose_every_query_fails_is_in_trouble_within_two_seconds_and_as_long_as_it_lasts() {
        let mut database = Database::new();
        assert_eq!(database.runs(10, 100, 0), None);
        let told = database.runs(2, 100, 100).expect("trouble");
        assert_eq!((told.share, told.state), (1.0, *b"42P01"));
        assert!(database.runs(20_000, 10, 10).is_some_and(|told| told.share == 1.0), "it never becomes usual");
        assert_eq!(database.runs(10, 100, 0), None, "over");
    }

    #[test]
    fn an_error_now_and_then_is_no_trouble_even_if_several_come_together() {
        let mut database = Database::new();
        for _ in 0..50 {
            assert_eq!(database.runs(1, 100, 7), None);
            assert_eq!(database.runs(10, 100, 0), None);
        }
        assert_eq!(database.runs(1, 1000, 9), None, "at once, among a thousand");
        let mut slow = Database::new();
        assert_eq!(slow.runs(3, 1, 1), None, "three in all");
        assert!(slow.runs(3, 1, 1).is_some());
    }

    #[test]
    fn a_share_that_is_usual_is_no_trouble_and_twice_as_much_is() {
        let mut database = Database::new();
        assert!(database.runs(60, 10, 3).is_some(), "nothing is usual yet");
        assert_eq!(database.runs(7200, 10, 3), None);
        assert!(database.runs(10, 10, 7).is_some_and(|told| (0.29..0.31).contains(&told.usual)));
        assert_eq!(database.runs(12, 10, 3), None);
    }
}
