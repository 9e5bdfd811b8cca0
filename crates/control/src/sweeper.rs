//! Advisory locks that no client is known to hold: every `lock_sweep_interval` the locks that PostgreSQL reports for
//! our servers are compared with the locks that our clients are known to hold.
//!
//! Always true: a lock counts only if its server was not used for anything else from before the question until after
//! the answer; a PostgreSQL is not asked again while its servers are unused, so that servers can become idle and be
//! closed. Comparing takes time linear in the answer and the number of servers, and at most [`KEPT_MAX`] locks of each
//! server are kept.
//! Not here: what is done about such a server (`worker::admin::stranded_locks`), which locks clients are known to hold
//! (`protocol::state`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Time, WorkerId};
use protocol::state::{ALL_LOCKS, Kind, lock_key};
use reactor::Level;
use worker::letters::{LocksDiffer, Parts, PinRow, Row, Snapshot, Standing, ToWorker};

use crate::asking::ClientProtocol;
use crate::hands::{Clocks, Hands};

/// The address and port of a PostgreSQL.
type HostAddress = (Box<str>, u16);

/// A question to one PostgreSQL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LockQuestion {
    host: HostAddress,
    /// The database and user of the pool through which it is sent.
    database: Arc<str>,
    user: Arc<str>,
    /// Our servers there that were unused when the question was made.
    servers: BTreeSet<AtRest>,
}

/// An unused server: its number, its backend's process ID, and the time of its last request.
type AtRest = (u64, u32, Time);

impl LockQuestion {
    /// Returns the database of the pool through which the question is sent.
    pub(crate) fn database(&self) -> &Arc<str> {
        &self.database
    }

    /// Returns the user of that pool.
    pub(crate) fn user(&self) -> &Arc<str> {
        &self.user
    }
}

/// The answer of a PostgreSQL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// The process ID of the backend that answered.
    pid: u32,
    /// The process ID, key and mode of each lock.
    locks: Vec<(u32, Lock)>,
}

/// Key and mode.
type Lock = (Box<str>, Box<str>);

/// An advisory lock that no client is known to hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stranded {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) server: u64,
    pub(crate) pid: u32,
    pub(crate) lock: Lock,
    /// When it was found.
    pub(crate) since: Clocks,
}

/// A server whose locks differ from what is known.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Finding {
    database: Arc<str>,
    server: u64,
    /// The first locks that no client is known to hold; empty if instead a client is believed to hold a lock that does
    /// not exist.
    locks: Vec<Lock>,
    /// How many more such locks the server holds.
    others: usize,
    is_new: bool,
}

impl Finding {
    /// Returns the first locks in words for the log, and how many more there are.
    fn named(&self) -> Vec<String> {
        let named = self.locks.iter().take(NAMED_MAX).map(|(key, mode)| format!("advisory lock {key} ({mode})"));
        let others = self.others + self.locks.len().saturating_sub(NAMED_MAX);
        named.chain((others > 0).then(|| format!("and {others} more"))).collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    /// Start of the next round; `None` without an interval.
    due: Option<Time>,
    /// Servers that have been compared; those whose entry still matches have been unused since.
    quiet: BTreeSet<AtRest>,
    questions: VecDeque<LockQuestion>,
    /// By server number; the locks of a server in their order.
    stranded: BTreeMap<u64, Vec<Stranded>>,
}

impl Sweeper {
    /// Schedules the next round after `interval`.
    pub(crate) fn sweep_every(&mut self, now: Time, interval: Option<Duration>) {
        self.due = interval.map(|interval| now + interval);
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    /// Returns the next question to be sent.
    pub(crate) fn next_question(&mut self) -> Option<LockQuestion> {
        self.questions.pop_front()
    }

    /// Returns whether a round begins now.
    pub(crate) fn is_due(&mut self, now: Time, interval: Option<Duration>) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.sweep_every(now, interval);
        }
        is_due
    }

    /// Returns the locks that no client is known to hold, on servers that still exist.
    pub(crate) fn stranded<'a>(&'a self, snapshots: &'a [Snapshot]) -> impl Iterator<Item = &'a Stranded> {
        let servers: BTreeSet<u64> = servers(snapshots).map(|row| row.id).collect();
        self.stranded.iter().filter(move |(server, _)| servers.contains(server)).flat_map(|(_, stranded)| stranded)
    }

    /// Takes the outcome of a question. Returns the answer, to be compared once the workers have reported [their
    /// present servers](parts); logs a failure.
    pub(crate) fn swept<S>(
        question: LockQuestion,
        answer: Result<Answer, String>,
        hands: &Hands<S>,
    ) -> Option<(LockQuestion, Answer)> {
        match answer {
            Ok(answer) => Some((question, answer)),
            Err(error) => {
                let LockQuestion { host: (addr, port), database, .. } = question;
                let line = format_args!("cannot look for locks at {addr}:{port}, database \"{database}\": {error}");
                hands.log(Level::Warning, line);
                None
            }
        }
    }

    /// Compares an answer with the servers that exist after it, and reports the differences to their workers.
    pub(crate) fn conclude<S>(
        &mut self,
        question: &LockQuestion,
        answer: &Answer,
        snapshots: &[Snapshot],
        hands: &Hands<S>,
    ) {
        let findings = self.compare(hands.now, question, answer, snapshots);
        for (home, found) in by_home(&findings, |database| hands.active.homes.home_of(database)) {
            hands.post(home, ToWorker::LocksDiffer(found));
        }
    }

    /// Prepares one question for each PostgreSQL whose servers have been used since the last round, to be sent through
    /// a pool that has an idle server and is neither paused nor disabled.
    pub(crate) fn ask(&mut self, snapshots: &[Snapshot], standing: &Standing) {
        let mut rows: BTreeMap<HostAddress, Vec<&Row>> = BTreeMap::new();
        for row in servers(snapshots) {
            rows.entry(host_of(row)).or_default().push(row);
        }
        let mut quiet = BTreeSet::new();
        for (host, rows) in rows {
            let servers: BTreeSet<AtRest> = rows.iter().filter_map(|row| at_rest(row)).collect();
            quiet.extend(servers.intersection(&self.quiet));
            let Some(spare) = rows.iter().find(|row| is_idle(row) && standing.serves(&row.database)) else { continue };
            if servers.len() == rows.len() && servers.is_subset(&self.quiet) {
                continue;
            }
            let (database, user) = (spare.database.clone(), spare.user.clone());
            self.questions.push_back(LockQuestion { host, database, user, servers });
        }
        self.quiet = quiet;
    }

    /// Returns the servers whose locks differ from what is known.
    fn compare(
        &mut self,
        now: Clocks,
        question: &LockQuestion,
        answer: &Answer,
        snapshots: &[Snapshot],
    ) -> Vec<Finding> {
        let mut locks: BTreeMap<u32, BTreeSet<&Lock>> = BTreeMap::new();
        for (pid, lock) in &answer.locks {
            locks.entry(*pid).or_default().insert(lock);
        }
        let mut pins: BTreeMap<u64, Vec<&PinRow>> = BTreeMap::new();
        for pin in snapshots.iter().flat_map(|snapshot| &snapshot.pins) {
            pins.entry(pin.server).or_default().push(pin);
        }
        let mut findings = Vec::new();
        let mut before = std::mem::take(&mut self.stranded);
        for row in servers(snapshots) {
            if !is_at(row, &question.host) {
                self.stranded.extend(before.remove_entry(&row.id));
                continue;
            }
            // The server that answered had no client at that moment.
            let is_same = |known: &AtRest| question.servers.contains(known) || row.remote_pid == answer.pid;
            let Some(now_at_rest) = at_rest(row).filter(is_same) else { continue };
            self.quiet.insert(now_at_rest);
            let pins = pins.remove(&row.id).unwrap_or_default();
            if !is_idle(row) && pins.is_empty() {
                // The client is about to give the server back, or keeps it for its whole session.
                continue;
            }
            if pins.iter().any(|row| row.pin.hold.is_more && row.pin.hold.kind == Kind::Lock) {
                // The list of the client's locks is incomplete, so any lock may be the client's.
                continue;
            }
            let known: BTreeSet<Lock> = pins.into_iter().filter_map(lock_of).collect();
            let has = locks.remove(&row.remote_pid).unwrap_or_default();
            let mut unknown = has.iter().filter(|lock| !known.contains(**lock)).map(|lock| (*lock).clone());
            let kept: Vec<Lock> = unknown.by_ref().take(KEPT_MAX).collect();
            let others = unknown.count();
            let is_missing = known.iter().any(|lock| !has.contains(lock));
            if kept.is_empty() && !is_missing {
                continue;
            }
            let known_before = before.remove(&row.id).unwrap_or_default();
            let since = |lock: &Lock| {
                let place = known_before.binary_search_by(|stranded| stranded.lock.cmp(lock));
                place.ok().map(|place| known_before[place].since)
            };
            let is_new = kept.is_empty() || kept.iter().any(|lock| since(lock).is_none());
            let stranded = kept.iter().map(|lock| Stranded {
                database: row.database.clone(),
                user: row.user.clone(),
                server: row.id,
                pid: row.remote_pid,
                lock: lock.clone(),
                since: since(lock).unwrap_or(now),
            });
            self.stranded.insert(row.id, stranded.collect());
            findings.push(Finding { database: row.database.clone(), server: row.id, locks: kept, others, is_new });
        }
        findings
    }
}

/// The parts of snapshots that a round needs.
pub(crate) fn parts() -> Parts {
    Parts { servers: true, pins: true, ..Parts::default() }
}

/// Groups the findings into one letter per worker, because a worker searches all its servers for each letter.
fn by_home(findings: &[Finding], home_of: impl Fn(&str) -> WorkerId) -> BTreeMap<WorkerId, Vec<LocksDiffer>> {
    let mut letters: BTreeMap<WorkerId, Vec<LocksDiffer>> = BTreeMap::new();
    for finding in findings {
        let found = LocksDiffer { server: finding.server, locks: finding.named(), is_new: finding.is_new };
        letters.entry(home_of(&finding.database)).or_default().push(found);
    }
    letters
}

/// A question under way.
#[derive(Debug)]
pub(crate) struct LockInquiry {
    question: LockQuestion,
    is_asked: bool,
    /// `None` after a row that cannot be read.
    answer: Option<Answer>,
}

impl LockInquiry {
    pub(crate) fn new(question: LockQuestion) -> Self {
        Self { question, is_asked: false, answer: Some(Answer { pid: 0, locks: Vec::new() }) }
    }

    /// Sends the question; returns false if it was sent before.
    pub(crate) fn ask(&mut self, protocol: &mut ClientProtocol, out: &mut Vec<u8>) -> bool {
        if self.is_asked {
            return false;
        }
        self.is_asked = true;
        let pids: Vec<String> = self.question.servers.iter().map(|(_, pid, _)| pid.to_string()).collect();
        let pids = format!("{{{}}}", pids.join(","));
        protocol.ask("", ALL_LOCKS, (&pids, INT4_ARRAY), ANSWER_BYTES_MAX, out);
        true
    }

    /// Takes a row of the answer; returns true if no further rows are needed.
    pub(crate) fn row(&mut self, row: &[Option<&[u8]>]) -> bool {
        if self.answer.as_mut().and_then(|answer| read(row, answer)).is_none() {
            self.answer = None;
        }
        self.answer.is_none()
    }

    /// Returns the answer, or why there is none.
    pub(crate) fn end(self, outcome: Result<(), String>) -> (LockQuestion, Result<Answer, String>) {
        let answer = outcome.and_then(|()| self.answer.ok_or_else(|| "the answer cannot be read".to_owned()));
        (self.question, answer)
    }
}

/// Reads one row of the answer. The first column is the backend that answered, which has a row even without locks.
fn read(row: &[Option<&[u8]>], answer: &mut Answer) -> Option<()> {
    let [asked, lock @ ..] = row else { return None };
    answer.pid = text((*asked)?)?.parse().ok()?;
    match *lock {
        [Some(pid), Some(key), Some(mode)] => {
            answer.locks.push((text(pid)?.parse().ok()?, (lock_key(text(key)?)?.into(), text(mode)?.into())));
        }
        [_, _, _] => {}
        _ => return None,
    }
    Some(())
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Returns the servers that are logged in, except for replication.
fn servers(snapshots: &[Snapshot]) -> impl Iterator<Item = &Row> {
    let all = snapshots.iter().flat_map(|snapshot| &snapshot.servers);
    all.filter(|row| row.remote_pid != 0 && row.replication == "none")
}

fn host_of(row: &Row) -> HostAddress {
    (row.addr.as_str().into(), row.port)
}

fn is_at(row: &Row, (addr, port): &HostAddress) -> bool {
    row.addr.as_str() == &**addr && row.port == *port
}

fn is_idle(row: &Row) -> bool {
    row.at_rest_since.is_some() && row.link.is_none()
}

fn at_rest(row: &Row) -> Option<AtRest> {
    row.at_rest_since.map(|since| (row.id, row.remote_pid, since))
}

fn lock_of(row: &PinRow) -> Option<Lock> {
    let hold = &row.pin.hold;
    (hold.kind == Kind::Lock && !hold.is_more)
        .then(|| (hold.what.clone(), hold.mode.as_deref().unwrap_or_default().into()))
}

/// How many unknown locks of a server are kept, the first by key.
const KEPT_MAX: usize = 100;
/// How many locks are named in the log.
const NAMED_MAX: usize = 10;
/// The OID of `integer[]` (`catalog/pg_type.dat`).
const INT4_ARRAY: u32 = 1007;
/// Maximum size of an answer: several hundred thousand locks, more than PostgreSQL's default settings have room for.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::show::tests::{pin as pin_row, row};

    /// A server with this number, backend process and time of the last request; `client` holds it.
    fn server(id: u64, pid: u32, since: Option<u64>, client: Option<u64>) -> Row {
        let at_rest_since = since.map(Time::from_secs);
        Row { remote_pid: pid, at_rest_since, link: client, ..row(id) }
    }

    /// A client's hold on a server.
    fn pin(server: u64, kind: Kind, what: &str) -> PinRow {
        PinRow { server, ..pin_row(kind, what) }
    }

    fn snapshots(servers: Vec<Row>, pins: Vec<PinRow>) -> [Snapshot; 1] {
        [Snapshot { servers, pins, ..Snapshot::default() }]
    }

    fn answer(pid: u32, locks: &[(u32, &str)]) -> Answer {
        let lock = |&(pid, key): &(u32, &str)| (pid, (key.into(), "ExclusiveLock".into()));
        Answer { pid, locks: locks.iter().map(lock).collect() }
    }

    /// The findings, server by server.
    fn found(
        sweeper: &mut Sweeper,
        before: &[Snapshot],
        answer: &Answer,
        after: &[Snapshot],
    ) -> Vec<(u64, String, bool)> {
        sweeper.ask(before, &Standing::default());
        let question = sweeper.questions.pop_front().expect("somebody is asked");
        let findings = sweeper.compare(Clocks::default(), &question, answer, after);
        let keys = |locks: &[Lock]| locks.iter().map(|(key, _)| &**key).collect::<Vec<_>>().join(" ");
        findings.iter().map(|finding| (finding.server, keys(&finding.locks), finding.is_new)).collect()
    }

    #[test]
    fn a_row_is_a_lock_or_says_only_who_was_asked() {
        let read = |row: &[Option<&str>]| {
            let row: Vec<_> = row.iter().map(|value| value.map(str::as_bytes)).collect();
            let mut answer = answer(0, &[]);
            super::read(&row, &mut answer).map(|()| answer)
        };
        let row = [Some("7"), Some("11"), Some("1 0 42"), Some("ExclusiveLock")];
        assert_eq!(read(&row), Some(answer(7, &[(11, "42")])));
        assert_eq!(read(&[Some("7"), None, None, None]), Some(answer(7, &[])));
        for bad in [
            &row[..3],
            &[None, None, None, None],
            &[Some("x"), None, None, None],
            &[Some("7"), Some("-"), row[2], row[3]],
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_lock_on_an_idle_server_is_found_and_is_news_once() {
        let rows = |first: u64| snapshots(vec![server(1, 11, Some(5), None), server(2, 12, Some(first), None)], vec![]);
        let mut sweeper = Sweeper::default();
        let locks = answer(12, &[(11, "42"), (99, "7")]);
        assert_eq!(found(&mut sweeper, &rows(6), &locks, &rows(7)), [(1, "42".to_owned(), true)]);
        assert_eq!(found(&mut sweeper, &rows(8), &locks, &rows(9)), [(1, "42".to_owned(), false)]);
        assert_eq!(sweeper.stranded(&rows(9)).count(), 1);
        assert_eq!(sweeper.stranded(&snapshots(vec![], vec![])).count(), 0, "its server is gone");
        assert_eq!(found(&mut sweeper, &rows(10), &answer(12, &[]), &rows(11)), []);
        assert_eq!(sweeper.stranded(&rows(9)).count(), 0);
    }

    /// A client's list names at most a thousand locks, here of a hundred thousand.
    #[test]
    fn a_client_with_more_locks_than_are_listed_may_hold_any() {
        let mut more = pin(1, Kind::Lock, "more than 1,000 session-level advisory locks");
        more.pin.hold.is_more = true;
        let locks = answer(12, &[(11, "7")]);
        let rows = |pins: &[&PinRow]| {
            let servers = vec![server(1, 11, Some(5), Some(18)), server(2, 12, Some(6), None)];
            snapshots(servers, pins.iter().copied().cloned().collect())
        };
        let listed = pin(1, Kind::Lock, "42");
        let found = |pins: &[&PinRow]| found(&mut Sweeper::default(), &rows(pins), &locks, &rows(pins));
        assert_eq!(found(&[&listed]), [(1, "7".to_owned(), true)]);
        assert_eq!(found(&[&listed, &more]), []);
    }

    #[test]
    fn nobody_is_asked_while_nothing_happens_or_where_no_server_is_free() {
        let rows = |first: u64| snapshots(vec![server(1, 11, Some(first), None)], vec![]);
        let mut sweeper = Sweeper::default();
        assert_eq!(found(&mut sweeper, &rows(1), &answer(11, &[]), &rows(2)), []);
        for (rows, is_asked) in [
            (rows(2), false),
            (rows(2), false),
            (rows(3), true),
            (snapshots(vec![server(1, 11, Some(9), Some(5)), server(2, 12, None, Some(6))], vec![]), false),
            (snapshots(vec![server(1, 0, Some(10), None)], vec![]), false),
        ] {
            sweeper.ask(&rows, &Standing::default());
            assert_eq!(sweeper.questions.pop_front().is_some(), is_asked);
        }
    }

    #[test]
    fn a_database_that_lets_nobody_in_is_not_asked() {
        let mut shut = row(1);
        (shut.remote_pid, shut.at_rest_since, shut.link) = (11, Some(Time::from_secs(5)), None);
        let open = Row { id: 2, remote_pid: 12, database: "open".into(), ..shut.clone() };
        let database = Arc::from(&*shut.database);
        let (mut disabled, mut paused) = (Standing::default(), Standing::default());
        disabled.disable(&database);
        paused.pause(&Some(database));
        for standing in [disabled, paused] {
            for (rows, asked) in [(vec![shut.clone()], None), (vec![shut.clone(), open.clone()], Some("open"))] {
                let mut sweeper = Sweeper::default();
                sweeper.ask(&snapshots(rows, vec![]), &standing);
                assert_eq!(sweeper.questions.pop_front().as_ref().map(|question| &**question.database()), asked);
            }
        }
    }

    #[test]
    fn a_round_begins_after_each_interval_and_none_without() {
        let (minute, hour) = (Some(Duration::from_secs(60)), Some(Duration::from_secs(3600)));
        let mut sweeper = Sweeper::default();
        assert!(!sweeper.is_due(Time::from_secs(1000), minute), "nobody has said so");
        sweeper.sweep_every(Time::from_secs(0), minute);
        assert_eq!(sweeper.next_deadline(), Some(Time::from_secs(60)));
        assert!(!sweeper.is_due(Time::from_secs(59), minute));
        assert!(sweeper.is_due(Time::from_secs(61), minute));
        assert!(!sweeper.is_due(Time::from_secs(61), minute), "once");
        assert_eq!(sweeper.next_deadline(), Some(Time::from_secs(121)));
        // A reload changes the interval.
        sweeper.sweep_every(Time::from_secs(100), hour);
        assert!(!sweeper.is_due(Time::from_secs(3699), hour));
        assert!(sweeper.is_due(Time::from_secs(3700), hour));
        sweeper.sweep_every(Time::from_secs(3700), None);
        assert_eq!(sweeper.next_deadline(), None);
        assert!(!sweeper.is_due(Time::from_secs(99_999), None));
    }

    #[test]
    fn a_server_that_has_done_something_meanwhile_says_nothing() {
        let rows =
            |second: Option<u64>| snapshots(vec![server(1, 11, Some(5), None), server(2, 12, second, None)], vec![]);
        let locks = answer(11, &[(12, "42")]);
        for after in [Some(7), None] {
            assert_eq!(found(&mut Sweeper::default(), &rows(Some(6)), &locks, &rows(after)), []);
        }
        assert_eq!(found(&mut Sweeper::default(), &rows(Some(6)), &locks, &rows(Some(6))).len(), 1);
        // The server that answered had no client at that moment, whatever it has done since.
        assert_eq!(found(&mut Sweeper::default(), &rows(Some(6)), &answer(12, &[(12, "42")]), &rows(Some(9))).len(), 1);
    }

    #[test]
    fn what_a_client_is_known_to_hold_is_held_against_what_there_is() {
        let rows =
            |pins: Vec<PinRow>| snapshots(vec![server(1, 11, Some(5), None), server(2, 12, Some(5), Some(8))], pins);
        let known = || rows(vec![pin(2, Kind::Lock, "1"), pin(2, Kind::Cursor, "c")]);
        let compare = |locks: &[(u32, &str)], pinned: [Snapshot; 1]| {
            found(&mut Sweeper::default(), &known(), &answer(11, locks), &pinned)
        };
        assert_eq!(compare(&[(12, "1")], known()), []);
        assert_eq!(compare(&[(12, "1"), (12, "2")], known()), [(2, "2".to_owned(), true)]);
        assert_eq!(compare(&[], known()), [(2, String::new(), true)]);
        // A client holds the server for its session, or is about to give it back.
        assert_eq!(compare(&[(12, "1")], rows(vec![])), []);
    }
    #[test]
    fn of_very_many_locks_the_first_are_kept_and_named_and_are_news_once() {
        let rows = |first: u64| snapshots(vec![server(1, 11, Some(first), None), server(2, 12, Some(5), None)], vec![]);
        let many: Vec<_> = (0..3 * KEPT_MAX).map(|key| format!("{key:04}")).collect();
        let locks: Vec<_> = many.iter().map(|key| (11, &**key)).collect();
        let mut sweeper = Sweeper::default();
        for (round, is_new) in [(6, true), (8, false)] {
            sweeper.ask(&rows(round), &Standing::default());
            let question = sweeper.questions.pop_front().expect("somebody is asked");
            let found = sweeper.compare(Clocks::default(), &question, &answer(12, &locks), &rows(round));
            let [finding] = &found[..] else { panic!("{} findings", found.len()) };
            assert_eq!((finding.locks.len(), finding.others, finding.is_new), (KEPT_MAX, 2 * KEPT_MAX, is_new));
            let named = finding.named();
            assert_eq!((named.len(), &*named[NAMED_MAX]), (NAMED_MAX + 1, "and 290 more"));
            assert_eq!(named[0], "advisory lock 0000 (ExclusiveLock)");
            assert_eq!(sweeper.stranded(&rows(round)).count(), KEPT_MAX);
        }
    }

    #[test]
    fn what_is_found_elsewhere_stays_known_while_its_server_is_there() {
        let at = |id, port, since| Row { port, ..server(id, 10 + id as u32, Some(since), None) };
        let rows = |first, second| snapshots(vec![at(1, 1, first), at(2, 2, second)], vec![]);
        let mut sweeper = Sweeper::default();
        for (before, place, pid, stranded) in [(rows(5, 5), 1, 11, 1), (rows(5, 6), 2, 12, 2)] {
            sweeper.questions.clear();
            sweeper.ask(&before, &Standing::default());
            let question = sweeper.questions.drain(..).find(|question| question.host.1 == place).expect("it is asked");
            let found = sweeper.compare(Clocks::default(), &question, &answer(pid, &[(pid, "42")]), &before);
            assert_eq!((found.len(), sweeper.stranded(&before).count()), (1, stranded));
        }
        let gone = snapshots(vec![at(2, 2, 7)], vec![]);
        sweeper.ask(&gone, &Standing::default());
        let question = sweeper.questions.pop_front().expect("it is asked");
        assert_eq!(sweeper.compare(Clocks::default(), &question, &answer(12, &[]), &gone), []);
        assert_eq!(sweeper.stranded.len(), 0, "nothing is kept of what is not there");
    }

    /// Formerly each finding was a letter of its own, for which a worker searched all its servers.
    #[test]
    fn what_is_found_for_one_worker_is_one_letter() {
        let finding = |server| Finding {
            database: if server % 2 == 0 { "even" } else { "odd" }.into(),
            server,
            locks: vec![("42".into(), "ExclusiveLock".into())],
            others: 0,
            is_new: server > 2,
        };
        let findings: Vec<_> = (1..=5).map(finding).collect();
        let letters = by_home(&findings, |database| WorkerId(u8::from(database == "odd")));
        let said = |of: u8| letters[&WorkerId(of)].iter().map(|one| (one.server, one.is_new)).collect::<Vec<_>>();
        assert_eq!((letters.len(), said(0)), (2, vec![(2, false), (4, true)]));
        assert_eq!(said(1), [(1, false), (3, true), (5, true)]);
        assert_eq!(letters[&WorkerId(0)][0].locks, ["advisory lock 42 (ExclusiveLock)"]);
    }

    /// Formerly each server was compared with all pins, and each lock with all earlier findings: ten billion
    /// comparisons.
    #[test]
    fn many_servers_with_many_pins_are_compared_one_by_one() {
        const COUNT: u64 = 100_000;
        let begun = std::time::Instant::now();
        let servers = (1..=COUNT).map(|id| server(id, id as u32, Some(5), None)).collect();
        let pins = (1..=COUNT).map(|id| pin(id, Kind::Lock, "1")).collect();
        let rows = snapshots(servers, pins);
        let locks: Vec<_> = (1..=COUNT).flat_map(|id| [(id as u32, "1"), (id as u32, "2")]).collect();
        let mut sweeper = Sweeper::default();
        for is_new in [true, false] {
            sweeper.quiet.clear();
            let found = found(&mut sweeper, &rows, &answer(1, &locks), &rows);
            assert!(found.len() as u64 == COUNT && found.iter().all(|finding| finding.2 == is_new));
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
