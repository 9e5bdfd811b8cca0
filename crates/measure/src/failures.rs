//! What has failed in the last seconds, and how often since the start, by reason.
//!
//! Always true: the number of rows is bounded, and each reason has one: a failure that finds no row of its own counts for
//! another row of the same reason, which then names no database and no user. The names that strangers invent take no more
//! than their share of the rows.
//! Not here: errors of queries (`failed_queries`), what counts as a failure (`worker::failing`), its words
//! (`control::failing`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Time, words};

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Failing {
    /// A login of the pooler at a server failed.
    ServerLogin,
    /// A server ended by itself.
    Server,
    /// A client was not let in.
    ClientLogin,
    /// A client was disconnected with an error.
    Client,
}

words!(Failing: ServerLogin = "server_login", Server = "server", ClientLogin = "client_login", Client = "client");

/// A failure.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// Its kind.
    pub kind: Failing,
    /// Its reason, one of few words.
    pub reason: &'static str,
    /// The database, as far as it is known.
    pub database: &'a str,
    /// The user, as far as it is known.
    pub user: &'a str,
    /// What is told about it.
    pub text: &'a str,
}

/// Failures of the same kind and reason in one pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recent {
    /// Their kind.
    pub kind: Failing,
    /// Their reason.
    pub reason: &'static str,
    /// The database; empty if it is not known, or differs.
    pub database: Arc<str>,
    /// The user.
    pub user: Arc<str>,
    /// The text of the last one.
    pub text: Arc<str>,
    /// How many there were within [`WINDOW`].
    pub count: u32,
    /// How many there were within [`KEPT`].
    pub count_kept: u32,
    /// How long ago the last one was.
    pub ago: Duration,
}

/// The failures of one worker.
#[derive(Debug, Default)]
pub struct Failures {
    rows: Vec<Row>,
    totals: BTreeMap<(Failing, &'static str), u64>,
}

#[derive(Debug)]
struct Row {
    recent: Recent,
    seconds: Box<Seconds>,
    last: Time,
}

/// The last seconds with failures, and how many there were in each.
#[derive(Debug)]
struct Seconds([(u64, u32); KEPT.as_secs() as usize]);

impl Failures {
    /// Counts a failure.
    pub fn add(&mut self, now: Time, failure: Failure<'_>) {
        *self.totals.entry((failure.kind, failure.reason)).or_default() += 1;
        let is_alike = |row: &&mut Row| row.recent.kind == failure.kind && row.recent.reason == failure.reason;
        let is_it = |row: &&mut Row| {
            is_alike(row) && *row.recent.database == *failure.database && *row.recent.user == *failure.user
        };
        if let Some(row) = self.rows.iter_mut().find(is_it) {
            return row.add(now, failure.text);
        }
        if self.is_full(failure.kind) {
            // A login at a server that has failed may be tried again, and told, for longer than ten seconds.
            let kept = |row: &Row| if row.recent.kind == Failing::ClientLogin { WINDOW } else { KEPT };
            self.rows.retain(|row| now.since(row.last) < kept(row));
        }
        let is_full = self.is_full(failure.kind);
        match self.rows.iter_mut().find(is_alike).filter(|_| is_full) {
            Some(row) => {
                (row.recent.database, row.recent.user) = (Arc::default(), Arc::default());
                row.add(now, failure.text);
            }
            // There are few reasons, none of which may be hidden by the others.
            None => self.rows.push(Row::new(now, failure)),
        }
    }

    fn is_full(&self, kind: Failing) -> bool {
        let of_strangers = || self.rows.iter().filter(|row| row.recent.kind == Failing::ClientLogin).count();
        self.rows.len() >= ROWS_MAX || kind == Failing::ClientLogin && of_strangers() >= LOGIN_ROWS_MAX
    }

    /// The failures of the last [`KEPT`].
    pub fn recent(&self, now: Time) -> impl Iterator<Item = Recent> {
        let rows = self.rows.iter().filter(move |row| now.since(row.last) < KEPT);
        rows.map(move |row| Recent {
            count: row.seconds.sum(now, WINDOW),
            count_kept: row.seconds.sum(now, KEPT),
            ago: now.since(row.last),
            ..row.recent.clone()
        })
    }

    /// How many failures there were since the start, by kind and reason.
    pub fn totals(&self) -> impl Iterator<Item = (Failing, &'static str, u64)> {
        self.totals.iter().map(|((kind, reason), count)| (*kind, *reason, *count))
    }
}

impl Row {
    fn new(now: Time, failure: Failure<'_>) -> Self {
        let Failure { kind, reason, database, user, text } = failure;
        let (database, user, text) = (database.into(), user.into(), text.into());
        let recent = Recent { kind, reason, database, user, text, count: 0, count_kept: 0, ago: Duration::ZERO };
        let mut seconds = Box::<Seconds>::default();
        seconds.add(now);
        Self { recent, seconds, last: now }
    }

    fn add(&mut self, now: Time, text: &str) {
        self.last = now;
        self.seconds.add(now);
        if *self.recent.text != *text {
            self.recent.text = text.into();
        }
    }
}

impl Default for Seconds {
    fn default() -> Self {
        Self([(0, 0); KEPT.as_secs() as usize])
    }
}

impl Seconds {
    fn add(&mut self, now: Time) {
        let second = second(now);
        let place = &mut self.0[(second % KEPT.as_secs()) as usize];
        let before = if place.0 == second { place.1 } else { 0 };
        *place = (second, before.saturating_add(1));
    }

    /// How many there were within this time.
    fn sum(&self, now: Time, within: Duration) -> u32 {
        let recent = self.0.iter().filter(|(at, _)| second(now) - at.min(&second(now)) < within.as_secs());
        recent.map(|(_, count)| *count).fold(0, u32::saturating_add)
    }
}

fn second(time: Time) -> u64 {
    time.0 / 1_000_000
}

/// Failures are counted over this time.
pub const WINDOW: Duration = Duration::from_secs(10);
/// A row is kept for this time after its last failure: a login that fails is tried again only after `server_login_retry`.
pub const KEPT: Duration = Duration::from_secs(60);
const ROWS_MAX: usize = 64;
/// How many of these are for logins of clients, which may name any database and user.
const LOGIN_ROWS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<'a>(database: &'a str, text: &'a str) -> Failure<'a> {
        Failure { kind: Failing::ClientLogin, reason: "PasswordWrong", database, user: "u", text }
    }

    fn counts(failures: &Failures, at: u64) -> Vec<(String, u32)> {
        failures.recent(Time(at * 1000)).map(|recent| (recent.database.to_string(), recent.count)).collect()
    }

    #[test]
    fn a_failure_counts_for_ten_seconds_and_its_text_is_kept_for_a_minute() {
        let mut failures = Failures::default();
        for at in [100_000, 100_900, 105_000] {
            failures.add(Time(at * 1000), refused("d", "first"));
        }
        failures.add(Time(108_000_000), refused("d", "last"));
        let told = failures.recent(Time(108_000_000)).next().expect("a row");
        assert_eq!((told.count, &*told.text, told.ago), (4, "last", Duration::ZERO));
        assert_eq!(counts(&failures, 109_999), [("d".to_owned(), 4)]);
        assert_eq!(counts(&failures, 110_000), [("d".to_owned(), 2)]);
        assert_eq!(counts(&failures, 117_999), [("d".to_owned(), 1)]);
        assert_eq!(counts(&failures, 118_000), [("d".to_owned(), 0)]);
        assert_eq!(counts(&failures, 168_000), []);
        failures.add(Time(300_000_000), refused("d", "again"));
        assert_eq!(counts(&failures, 300_000), [("d".to_owned(), 1)], "nothing of what was before");
        assert_eq!(failures.totals().collect::<Vec<_>>(), [(Failing::ClientLogin, "PasswordWrong", 5)]);
    }

    #[test]
    fn seconds_in_which_nothing_failed_count_nothing_however_long_they_were() {
        for pause in 1..25 {
            let mut seconds = Seconds::default();
            (0..3).for_each(|_| seconds.add(Time::from_secs(50)));
            seconds.add(Time::from_secs(50 + pause));
            let expected = if pause < 10 { 4 } else { 1 };
            assert_eq!(seconds.sum(Time::from_secs(50 + pause), WINDOW), expected, "after {pause} s");
        }
    }

    #[test]
    fn names_that_clients_invent_take_a_bounded_number_of_rows_and_every_failure_is_counted() {
        let mut failures = Failures::default();
        let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        names.iter().for_each(|name| failures.add(Time::from_secs(5), refused(name, "x")));
        let told = counts(&failures, 5000);
        assert_eq!((told.len(), told[0].0.as_str()), (LOGIN_ROWS_MAX, ""), "one row stands for all others");
        assert_eq!(told.iter().map(|(_, count)| count).sum::<u32>(), 1000);
        let failure = Failure { kind: Failing::ServerLogin, reason: "refused", database: "d", user: "u", text: "x" };
        failures.add(Time::from_secs(5), failure);
        names.iter().for_each(|name| failures.add(Time::from_secs(30), refused(name, "x")));
        assert!(
            failures.recent(Time::from_secs(30)).any(|row| row.kind == Failing::ServerLogin),
            "strangers hide nothing"
        );
        failures.add(Time::from_secs(50), refused("later", "x"));
        assert_eq!(counts(&failures, 50_000).iter().filter(|(_, count)| *count > 0).count(), 1, "there is room again");
    }

    #[test]
    fn a_reason_that_comes_when_all_rows_are_taken_is_told() {
        let mut failures = Failures::default();
        let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        for (kind, reason) in [(Failing::Server, "lost"), (Failing::ServerLogin, "refused")] {
            let of = |database| Failure { kind, reason, database, user: "u", text: "x" };
            names.iter().for_each(|name| failures.add(Time::from_secs(5), of(name)));
        }
        let logins = failures.recent(Time::from_secs(5)).filter(|row| row.kind == Failing::ServerLogin);
        assert_eq!(
            logins.map(|row| (row.database.to_string(), row.count)).collect::<Vec<_>>(),
            [(String::new(), 1000)]
        );
        assert_eq!(failures.rows.len(), ROWS_MAX + 1);
    }
}
