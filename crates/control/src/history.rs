//! Statistics over time: the counters at the two latest period boundaries, and averages since the older one.
//!
//! Always true: the rules are PgBouncer's. Averages cover the time from the older boundary until now, which is one to
//! two periods; before the first boundary they begin one second before the start. Rates are whole numbers per second,
//! times are microseconds per transaction, query or loan.
//! Not here: counting (`worker`), when a period ends (`control`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use worker::letters::{Snapshot, Totals};

use crate::CONSOLE;

/// All counters of a database, in the order in which the console shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts(pub(crate) [u64; COUNTERS]);

/// Counters of databases by name.
pub(crate) type ByDatabase = BTreeMap<Arc<str>, Counts>;

/// The two latest period boundaries.
#[derive(Clone, Debug)]
pub(crate) struct History {
    older: Boundary,
    newer: Boundary,
}

#[derive(Clone, Debug)]
struct Boundary {
    at: Time,
    counts: ByDatabase,
}

impl History {
    /// Starts with all counters at 0 at `start`.
    pub(crate) fn new(start: Time) -> Self {
        let before = Time(start.0.saturating_sub(Duration::from_secs(1).as_micros() as u64));
        Self {
            older: Boundary { at: before, counts: ByDatabase::new() },
            newer: Boundary { at: start, counts: ByDatabase::new() },
        }
    }

    /// Ends a period at `at` with these counters, and returns its averages over all databases.
    pub(crate) fn close_period(&mut self, at: Time, counts: ByDatabase) -> Counts {
        self.older = std::mem::replace(&mut self.newer, Boundary { at, counts });
        self.averages_of_all(at, &self.newer.counts)
    }

    /// Returns the averages of a database with these current counters.
    pub(crate) fn averages(&self, now: Time, database: &str, counts: &Counts) -> Counts {
        let old = self.older.counts.get(database).copied().unwrap_or_default();
        averages(&old, counts, now.since(self.older.at))
    }

    /// Returns the averages over all databases that exist now.
    pub(crate) fn averages_of_all(&self, now: Time, counts: &ByDatabase) -> Counts {
        let old = counts.keys().filter_map(|name| self.older.counts.get(name));
        averages(&old.copied().sum(), &counts.values().copied().sum(), now.since(self.older.at))
    }
}

/// Sums the counters of each database over all workers; the console's database is always included.
pub(crate) fn gather<'s>(snapshots: impl IntoIterator<Item = &'s Snapshot>) -> ByDatabase {
    let mut gathered = ByDatabase::from([(CONSOLE.into(), Counts::default())]);
    for (name, totals) in snapshots.into_iter().flat_map(|snapshot| &snapshot.stats) {
        let counts = gathered.entry(Arc::clone(name)).or_default();
        *counts = [*counts, Counts::from(totals)].into_iter().sum();
    }
    gathered
}

fn averages(old: &Counts, new: &Counts, over: Duration) -> Counts {
    // The counters of a database that was removed and added again start at 0.
    let grown = |counter: usize| new.0[counter].saturating_sub(old.0[counter]);
    let per_second = |count: u64| {
        let per_second = u128::from(count) * Duration::from_secs(1).as_micros() / over.as_micros().max(1);
        u64::try_from(per_second).unwrap_or(u64::MAX)
    };
    let average = |counter: usize| match counter {
        XACT_TIME => grown(XACT_TIME).checked_div(grown(XACTS)).unwrap_or(0),
        QUERY_TIME => grown(QUERY_TIME).checked_div(grown(QUERIES)).unwrap_or(0),
        WAIT_TIME => grown(WAIT_TIME).checked_div(grown(LOANS)).unwrap_or(0),
        rate => per_second(grown(rate)),
    };
    Counts(std::array::from_fn(average))
}

impl From<&Totals> for Counts {
    fn from(totals: &Totals) -> Self {
        Self([
            totals.server_assignment_count,
            totals.xact_count,
            totals.query_count,
            totals.received,
            totals.sent,
            totals.xact_time,
            totals.query_time,
            totals.wait_time,
            totals.client_parse_count,
            totals.server_parse_count,
            totals.bind_count,
            totals.client_login_count,
        ])
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self(std::array::from_fn(|at| sum.0[at].saturating_add(one.0[at]))))
    }
}

/// Formats averages as in the log line of every period.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, xacts, queries, received, sent, xact, query, wait, client_parses, server_parses, binds, logins] =
            self.0;
        write!(f, "stats: {xacts} xacts/s, {queries} queries/s, {client_parses} client parses/s, ")?;
        write!(f, "{server_parses} server parses/s, {binds} binds/s, {logins} client logins/s, ")?;
        write!(f, "in {received} B/s, out {sent} B/s, xact {xact} us, query {query} us, wait {wait} us")
    }
}

/// The number of counters.
pub(crate) const COUNTERS: usize = 12;
const LOANS: usize = 0;
const XACTS: usize = 1;
const QUERIES: usize = 2;
const XACT_TIME: usize = 5;
const QUERY_TIME: usize = 6;
const WAIT_TIME: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(xacts: u64, queries: u64, received: u64, query_time: u64) -> Counts {
        let totals = Totals { xact_count: xacts, query_count: queries, received, query_time, ..Totals::default() };
        Counts::from(&totals)
    }

    fn only(name: &str, counts: Counts) -> ByDatabase {
        ByDatabase::from([(name.into(), counts)])
    }

    #[test]
    fn before_the_first_boundary_averages_begin_a_second_before_the_start() {
        let history = History::new(Time::from_secs(10));
        let averages = history.averages(Time::from_secs(13), "a", &counts(8, 16, 4000, 160));
        assert_eq!(averages, counts(2, 4, 1000, 10));
    }

    #[test]
    fn averages_begin_at_the_second_latest_boundary() {
        let mut history = History::new(Time::from_secs(10));
        history.close_period(Time::from_secs(20), only("a", counts(100, 100, 0, 0)));
        // The latest boundary is the one at 20 s, the second-latest the start.
        assert_eq!(history.averages(Time::from_secs(25), "a", &counts(150, 150, 0, 300)), counts(10, 10, 0, 2));
        history.close_period(Time::from_secs(30), only("a", counts(200, 200, 0, 400)));
        assert_eq!(history.averages(Time::from_secs(35), "a", &counts(250, 250, 0, 550)), counts(10, 10, 0, 3));
    }

    #[test]
    fn a_period_closes_with_its_own_averages() {
        let mut history = History::new(Time::from_secs(10));
        history.close_period(Time::from_secs(20), only("a", counts(100, 100, 0, 0)));
        let averages = history.close_period(Time::from_secs(30), only("a", counts(300, 500, 70, 800)));
        assert_eq!(averages, counts(20, 40, 7, 2));
    }

    #[test]
    fn what_has_gone_does_not_count_against_what_is_there() {
        let mut history = History::new(Time::from_secs(10));
        history.close_period(Time::from_secs(20), only("gone", counts(100, 100, 0, 0)));
        let now = only("a", counts(30, 30, 0, 0));
        assert_eq!(history.close_period(Time::from_secs(30), now.clone()), counts(3, 3, 0, 0));
        assert_eq!(history.averages_of_all(Time::from_secs(30), &now), counts(3, 3, 0, 0));
        assert_eq!(history.averages(Time::from_secs(40), "a", &counts(5, 5, 0, 0)), counts(0, 0, 0, 0));
    }

    #[test]
    fn workers_are_summed_and_the_console_is_always_there() {
        let totals = Totals { query_count: 2, ..Totals::default() };
        let snapshot = || Snapshot { stats: vec![("a".into(), totals)], ..Snapshot::default() };
        let gathered = gather(&[snapshot(), snapshot()]);
        assert_eq!(gathered["a"], counts(0, 4, 0, 0));
        assert_eq!(gathered[CONSOLE], Counts::default());
    }

    #[test]
    fn the_line_of_a_period_is_pgbouncers() {
        let line = Counts([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]).to_string();
        assert_eq!(
            line,
            "stats: 2 xacts/s, 3 queries/s, 9 client parses/s, 10 server parses/s, 11 binds/s, 12 client logins/s, \
             in 4 B/s, out 5 B/s, xact 6 us, query 7 us, wait 8 us"
        );
    }
}
