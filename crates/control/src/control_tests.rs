//! Tests of the control thread with a made-up clock, and letter boxes that only store the letters.

use super::*;

use std::io::{self, Read as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use base::{Key, Wall};
use config::Overrides;
use reactor::Ipc;
use worker::letters::{Order as Task, Right, Standing, Totals};

use crate::event::Signal;
use crate::source::{FileReader, Files, first_config};
use crate::transfer::{FinalMessage, News, PATIENCE as STEP_MAX};

type Letters = Arc<Mutex<Vec<ToWorker<()>>>>;

/// A control thread with its files in a directory of its own.
pub(crate) struct TestControl {
    pub(crate) control: Control<()>,
    boxes: Vec<Letters>,
    dir: PathBuf,
    pub(crate) now: Clocks,
}

impl TestControl {
    pub(crate) fn new(name: &str, workers: u8, settings: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("trunkline-control-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = |file: &str| dir.join(file).to_str().expect("a name in UTF-8").to_owned();
        let source =
            Source::new(path("ini"), Overrides { quiet: true, ..Overrides::default() }, FileReader::from_disk());
        let text = format!(
            "[databases]\nd = host=a\n[pgbouncer]\nauth_file={}\nlogfile={}\n{settings}",
            path("users"),
            path("log")
        );
        std::fs::write(dir.join("users"), "\"u\" \"old\"\n").expect("a file");
        std::fs::write(dir.join("ini"), text).expect("a file");
        let _ = std::fs::remove_file(dir.join("log"));
        let loaded = source.read().expect("good settings");
        let (users, _) = crate::source::read_users(&loaded.settings, source.files()).expect("a file of secrets");
        let log = Arc::new(crate::source::open_log(&loaded.settings).expect("a log"));
        let shared_log = Arc::new(RwLock::new(Arc::clone(&log)));
        let active =
            Arc::new(first_config(loaded.settings, Files { users, ..Files::default() }, log, workers, [0; 32], 1));
        let boxes: Vec<Letters> = (0..workers).map(|_| Letters::default()).collect();
        let posts = boxes.iter().map(|letters| {
            let letters = Arc::clone(letters);
            let post: Post<ToWorker<()>> = Arc::new(move |letter| letters.lock().expect("a box").push(letter));
            post
        });
        let now = Clocks { time: Time::from_secs(100), wall: Wall(0) };
        let control = Control::new(source, active, shared_log, loaded.warnings, posts.collect(), now);
        Self { control, boxes, dir, now }
    }

    pub(crate) fn happens(&mut self, event: Event) {
        let log = Arc::clone(&self.control.hands.active.log);
        self.control.handle(self.now, event);
        // A log that was reopened writes its last lines asynchronously; only a test has to wait for them.
        if !Arc::ptr_eq(&log, &self.control.hands.active.log) {
            log.finish();
        }
    }

    pub(crate) fn after(&mut self, secs: u64, event: Event) {
        self.now.time = self.now.time + Duration::from_secs(secs);
        self.happens(event);
    }

    /// A report of the transfer arrives.
    fn reports(&mut self, handover: u64, news: News) {
        self.happens(Event::News { handover, news });
    }

    pub(crate) fn says(&mut self, text: &str) {
        self.asks(wire::Request::Query(text.to_owned()));
    }

    fn asks(&mut self, request: wire::Request) {
        let letter =
            ToControl::Console { from: WorkerId(0), client: CLIENT, right: Right::Admin, by: Box::default(), request };
        self.happens(Event::Letter(letter));
    }

    fn drained(&mut self, from: u8, is_drained: bool) {
        self.happens(Event::Letter(ToControl::Drained { from: WorkerId(from), is_drained }));
    }

    pub(crate) fn obeyed(&mut self, from: u8, question: u64, is_done: bool) {
        self.happens(Event::Letter(ToControl::Obeyed { from: WorkerId(from), question, is_done }));
    }

    /// Returns the orders that a worker was given and drops its other letters.
    fn orders(&self, worker: usize) -> Vec<(u64, Task)> {
        let order = |letter| match letter {
            ToWorker::Order { question, order } => Some((question, order)),
            _ => None,
        };
        self.letters(worker).into_iter().filter_map(order).collect()
    }

    /// Returns the number of the only order that a worker was given, which must be this one.
    pub(crate) fn order(&self, worker: usize, task: &Task) -> u64 {
        match &self.orders(worker)[..] {
            [(question, order)] if order == task => *question,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the standing orders in the last letter to a worker.
    fn standing(&self, worker: usize) -> Standing {
        match self.letters(worker).pop() {
            Some(ToWorker::ActiveConfig(active)) => active.standing.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn shown(&mut self, from: u8, question: u64, snapshot: Snapshot) {
        let letter = ToControl::Shown { from: WorkerId(from), question, snapshot: Box::new(snapshot) };
        self.happens(Event::Letter(letter));
    }

    /// Returns the letters that have come into a worker's box since the last call.
    pub(crate) fn letters(&self, worker: usize) -> Vec<ToWorker<()>> {
        std::mem::take(&mut *self.boxes[worker].lock().expect("a box"))
    }

    /// Returns the question that the worker was asked, which must be its only letter.
    fn question(&self, worker: usize) -> u64 {
        match &self.letters(worker)[..] {
            [ToWorker::Show { question, .. }] => *question,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the answer to the client at worker 0, which must be the worker's only letter.
    fn answer(&self) -> String {
        match &self.letters(0)[..] {
            [ToWorker::ConsoleAnswer { client, bytes, closes: false }] if *client == CLIENT => {
                assert!(bytes.ends_with(b"Z\0\0\0\x05I"), "{bytes:?}");
                String::from_utf8_lossy(bytes).into_owned()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the log. Its threads may be late on a busy machine.
    pub(crate) fn log(&self) -> String {
        self.control.configuration.shared_log.read().expect("a log").finish();
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    pub(crate) fn rewrite(&self, file: &str, old: &str, new: &str) {
        let path = self.dir.join(file);
        let text = std::fs::read_to_string(&path).expect("readable").replace(old, new);
        std::fs::write(path, text).expect("writable");
    }
}

impl Drop for TestControl {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub(crate) const CLIENT: ClientKey = Key::first(7);

#[test]
fn what_needs_no_worker_is_answered_at_once() {
    let mut test = TestControl::new("version", 2, "");
    test.says("SHOW VERSION");
    assert!(test.answer().contains("PgBouncer 1.25.2"));
    assert!(test.letters(1).is_empty());
    test.says("SET timezone = 'UTC'");
    assert!(test.answer().contains("SET ignored"));
    test.says("what?");
    assert!(test.answer().contains("invalid command 'what?', use SHOW HELP;"));
    assert!(
        test.log().contains("ERROR invalid command") && test.log().contains("WARNING pooler error: invalid command")
    );
}

#[test]
fn a_table_is_shown_when_all_workers_have_answered() {
    let mut test = TestControl::new("survey", 2, "");
    test.says("SHOW STATS");
    let question = test.question(0);
    assert_eq!(test.question(1), question);
    let stats = vec![("d".into(), Totals { query_count: 4711, ..Totals::default() })];
    test.shown(1, question, Snapshot { stats, ..Snapshot::default() });
    assert!(test.letters(0).is_empty());
    test.shown(0, question, Snapshot::default());
    assert!(test.answer().contains("4711"));
}

#[test]
fn a_worker_that_keeps_silent_is_named() {
    let mut test = TestControl::new("silent", 2, "");
    test.says("SHOW POOLS");
    let question = test.question(0);
    test.shown(0, question, Snapshot::default());
    assert_eq!(test.control.next_deadline(), Time::from_secs(105));
    test.after(5, Event::Tick);
    assert!(test.answer().contains("no answer within 5 seconds from worker 1"));
    test.shown(1, question, Snapshot::default());
    assert!(test.letters(0).is_empty(), "one question, one answer");
}

#[test]
fn every_period_ends_with_a_line() {
    let mut test = TestControl::new("period", 1, "stats_period=10");
    assert_eq!(test.control.next_deadline(), Time::from_secs(110));
    test.after(10, Event::Tick);
    let question = test.question(0);
    let stats = vec![("d".into(), Totals { xact_count: 50, xact_time: 100, ..Totals::default() })];
    test.shown(0, question, Snapshot { stats, ..Snapshot::default() });
    assert!(test.log().contains("LOG stats: 5 xacts/s, 0 queries/s, "), "{}", test.log());
    assert!(test.log().contains("xact 2 us"), "{}", test.log());
    assert_eq!(test.control.next_deadline(), Time::from_secs(120));
}

#[test]
fn no_line_is_written_when_nobody_wants_it() {
    let mut test = TestControl::new("quiet", 1, "stats_period=10\nlog_stats=0");
    test.after(10, Event::Tick);
    let question = test.question(0);
    test.shown(0, question, Snapshot::default());
    assert_eq!(test.log(), "");
}

#[test]
fn a_name_is_looked_up_once_for_all_who_ask() {
    let mut test = TestControl::new("names", 2, "");
    for from in [0, 1] {
        test.happens(Event::Letter(ToControl::Resolve { from: WorkerId(from), name: "db".into() }));
    }
    assert_eq!(test.control.next_lookup().as_deref(), Some("db"));
    assert_eq!(test.control.next_lookup(), None);
    test.happens(Event::Found { name: "db".into(), found: Err("gone".into()) });
    for worker in [0, 1] {
        assert!(
            matches!(&test.letters(worker)[..], [ToWorker::Resolved { found: Err(text), .. }] if **text == *"gone")
        );
    }
}

#[test]
fn a_zone_that_has_changed_has_its_names_looked_up_for_those_who_know_them() {
    let mut test = TestControl::new("zones", 2, "dns_zone_check_period=10");
    let name: Arc<str> = "db.z.example".into();
    test.happens(Event::Letter(ToControl::Resolve { from: WorkerId(1), name: Arc::clone(&name) }));
    assert_eq!(test.control.next_lookup(), Some(Arc::clone(&name)));
    test.happens(Event::Found { name: Arc::clone(&name), found: Err("gone".into()) });
    assert_eq!((test.letters(1).len(), test.control.next_lookup()), (1, None));
    test.after(10, Event::Tick);
    assert_eq!(test.control.next_zone().as_deref(), Some("z.example"));
    test.happens(Event::Serial { zone: "z.example".into(), serial: Ok(5) });
    assert_eq!(test.control.next_lookup(), Some(Arc::clone(&name)));
    test.happens(Event::Found { name, found: Err("gone".into()) });
    assert_eq!((test.letters(0).len(), test.letters(1).len()), (0, 1));
    assert!(test.log().contains("zone 'z.example' serial changed: old=0 new=5"), "{}", test.log());
    test.happens(Event::Serial { zone: "z.example".into(), serial: Err("nobody says".into()) });
    assert!(test.log().contains("zone 'z.example' has no serial: nobody says"), "{}", test.log());
}

#[test]
fn a_reload_with_broken_name_servers_changes_nothing() {
    let mut test = TestControl::new("nameservers", 1, "");
    let file = test.dir.join("resolv.conf");
    let ini = std::fs::read_to_string(test.dir.join("ini")).expect("our file");
    let reload = |test: &mut TestControl, text: &str| {
        std::fs::write(&file, text).expect("a file");
        std::fs::write(test.dir.join("ini"), format!("{ini}\nresolv_conf={}\n", file.display())).expect("a file");
        test.happens(Event::Signal(Signal::Hangup));
        test.control.name_servers().map(|servers| servers.servers.len())
    };
    assert_eq!(reload(&mut test, "nameserver nonsense\n"), None);
    assert!(test.control.hands.active.settings.resolv_conf.is_none());
    assert!(test.log().contains("resolv.conf:1: nameserver nonsense: no address"), "{}", test.log());
    assert_eq!(reload(&mut test, "nameserver 10.0.0.1\n"), Some(1));
    assert_eq!(reload(&mut test, "nameserver 10.0.0.1\nnameserver 10.0.0.2:x\n"), Some(1));
    assert_eq!(reload(&mut test, "nameserver 10.0.0.1\nnameserver 10.0.0.2:54\n"), Some(2));
}

#[test]
fn a_reload_puts_everything_new_in_force() {
    let mut test = TestControl::new("reload", 2, "default_pool_size=11\npidfile=a\n");
    test.rewrite("ini", "=11\npidfile=a", "=12\npidfile=b\nsbuf_loopcnt=7");
    test.rewrite("users", "u", "newcomer");
    std::fs::rename(test.dir.join("log"), test.dir.join("log.old")).expect("a log that is rotated");
    test.says("RELOAD");
    for worker in [1, 0] {
        let letters = test.letters(worker);
        let Some(ToWorker::ActiveConfig(active)) = letters.first() else { panic!("{letters:?}") };
        assert_eq!(active.settings.default_pool_size, 12);
        assert_eq!(active.settings.pidfile.as_deref(), Some("a"), "it is too late for another one");
        assert!(active.users.secret("newcomer").is_some() && active.users.secret("u").is_none());
        assert_eq!(letters.len(), 2 - worker, "the answer comes after the settings");
    }
    test.log();
    let old = std::fs::read_to_string(test.dir.join("log.old")).expect("the old log");
    assert!(old.contains("LOG RELOAD command issued"), "{old}");
    assert!(old.contains("pidfile has changed: the new value waits for a restart"), "{old}");
    assert_eq!(old.matches("sbuf_loopcnt").count(), 1, "{old}");
    test.happens(Event::Signal(Signal::Hangup));
    assert!(test.log().contains("LOG got SIGHUP, re-reading config"), "the new log is written");
    assert!(!test.log().contains("WARNING"), "what was told is not told again: {}", test.log());
}

#[test]
fn lines_that_were_lost_stay_counted_when_the_log_is_opened_anew() {
    let mut test = TestControl::new("lost", 1, "syslog=1\nsyslog_socket=/nowhere/log\n");
    for command in ["RELOAD", "SET verbose = 1", "RELOAD"] {
        test.says(command);
    }
    // Each of the three commands is a line.
    assert_eq!(test.control.hands.active.log.lost(), 3);
    assert_eq!(test.log().matches("takes no lines, they are lost").count(), 1, "{}", test.log());
}

#[test]
fn a_reload_with_a_mistake_changes_nothing() {
    let mut test = TestControl::new("mistake", 1, "default_pool_size=11\n");
    test.rewrite("ini", "=11", "=many\npool_mod=session");
    test.rewrite("users", "u", "newcomer");
    test.says("RELOAD");
    let answer = test.answer();
    assert!(answer.contains("CF0000\0MRELOAD failed, see logs for additional details\0"), "{answer:?}");
    // An admin without access to the log gets the errors as well.
    assert!(answer.contains("additional details\0D") && answer.contains("did you mean \"pool_mode\"?"), "{answer:?}");
    for word in ["ERROR", "many", "did you mean \"pool_mode\"?", "config file loading failed", "RELOAD failed"] {
        assert!(test.log().contains(word), "{word} is not in {}", test.log());
    }
    assert!(test.control.hands.active.users.secret("u").is_some());
}

#[test]
fn secrets_outlive_a_file_that_cannot_be_read() {
    let mut test = TestControl::new("secrets", 1, "");
    std::fs::remove_file(test.dir.join("users")).expect("removable");
    test.says("RELOAD");
    assert!(matches!(&test.letters(0)[..], [ToWorker::ActiveConfig(active), _] if active.users.secret("u").is_some()));
    assert!(test.log().contains("ERROR could not open auth_file"), "{}", test.log());
}

fn ways(letters: &[ToWorker<()>]) -> Vec<Shutdown> {
    let way = |letter: &ToWorker<()>| match letter {
        ToWorker::Shutdown(way) => Some(*way),
        _ => None,
    };
    letters.iter().filter_map(way).collect()
}

#[test]
fn the_first_sigterm_waits_for_clients_and_the_second_does_not() {
    let mut test = TestControl::new("term", 2, "");
    test.happens(Event::Signal(Signal::Terminate));
    assert_eq!(ways(&test.letters(1)), [Shutdown::WaitForClients]);
    assert!(test.log().contains("got SIGTERM, shutting down, waiting for all clients disconnect"));
    assert!(!test.control.is_over());
    test.happens(Event::Signal(Signal::User2));
    assert!(test.log().contains("got SIGUSR2 while shutting down, ignoring"));
    test.happens(Event::Signal(Signal::Terminate));
    assert_eq!(ways(&test.letters(1)), [Shutdown::Now]);
    assert!(test.control.is_over());
}

#[test]
fn a_shutdown_that_waits_ends_when_the_last_worker_has_nothing_left() {
    for (signal, what) in [(Signal::Terminate, "client"), (Signal::Interrupt, "server")] {
        let mut test = TestControl::new(what, 2, "");
        test.happens(Event::Signal(signal));
        test.drained(1, true);
        test.drained(1, true);
        assert!(test.orders(0).is_empty());
        test.drained(0, true);
        // A client was in transit to worker 1 when the worker had reported itself drained.
        let question = test.order(0, &Task::ConfirmDrained);
        test.obeyed(0, question, true);
        test.obeyed(1, question, false);
        test.drained(1, false);
        assert!(!test.control.is_over());
        test.drained(1, true);
        let question = test.order(0, &Task::ConfirmDrained);
        test.obeyed(0, question, true);
        assert!(!test.control.is_over());
        test.obeyed(1, question, true);
        assert!(test.control.is_over());
        assert_eq!(ways(&test.letters(0)).last(), Some(&Shutdown::Now));
        assert!(test.log().contains(&format!("{what} connections dropped, exiting")), "{}", test.log());
    }
}

#[test]
fn a_shutdown_that_has_waited_for_its_time_sends_clients_away_and_ends() {
    let mut test = TestControl::new("ending", 1, "shutdown_timeout=30\n");
    test.happens(Event::Signal(Signal::Terminate));
    test.after(23, Event::Tick);
    assert!(matches!(test.letters(0).last(), Some(ToWorker::StopLending { secs: 23 })));
    assert!(test.log().contains("no client gets a server any more; transactions may end within 7 seconds"));
    test.after(6, Event::Tick);
    assert!(!test.letters(0).iter().any(|letter| matches!(letter, ToWorker::EndClients { .. })));
    test.after(1, Event::Tick);
    assert!(matches!(&test.letters(0)[..], [ToWorker::EndClients { secs: 30 }]));
    assert!(test.log().contains("WARNING shutdown_timeout: have waited for 30 seconds"), "{}", test.log());
    test.after(9, Event::Tick);
    assert!(!test.control.is_over());
    test.after(1, Event::Tick);
    assert!(test.control.is_over() && test.log().contains("servers were not clean in time, exiting"));
}

#[test]
fn the_time_of_a_shutdown_counts_from_the_first_order_and_may_be_set_later() {
    let mut test = TestControl::new("ending-later", 1, "");
    test.says("SHUTDOWN WAIT_FOR_CLIENTS");
    test.after(40, Event::Tick);
    test.says("SHUTDOWN WAIT_FOR_SERVERS");
    test.letters(0);
    test.says("SET shutdown_timeout = 50");
    test.after(9, Event::Tick);
    assert!(!test.letters(0).iter().any(|letter| matches!(letter, ToWorker::EndClients { .. })));
    test.after(1, Event::Tick);
    assert!(test.letters(0).iter().any(|letter| matches!(letter, ToWorker::EndClients { secs: 50 })));
}

#[test]
fn shutdown_on_the_console_ends_without_a_word_unless_it_waits() {
    let mut test = TestControl::new("shutdown", 1, "");
    test.says("SHUTDOWN WAIT_FOR_CLIENTS");
    let letters = test.letters(0);
    assert!(
        matches!(&letters[..], [ToWorker::ConsoleAnswer { .. }, ToWorker::Shutdown(Shutdown::WaitForClients)]),
        "{letters:?}"
    );
    test.says("SHUTDOWN");
    let letters = test.letters(0);
    assert!(matches!(&letters[..], [ToWorker::Shutdown(Shutdown::Now)]), "{letters:?}");
    assert!(test.control.is_over() && test.log().contains("LOG SHUTDOWN command issued"));
}

#[test]
fn a_pause_is_answered_when_every_worker_has_nobody_left() {
    let mut test = TestControl::new("pause", 2, "");
    test.says("PAUSE d");
    let letters = test.letters(1);
    let [ToWorker::ActiveConfig(active), ToWorker::Order { question, order: Task::AwaitUnused(Some(name)) }] =
        &letters[..]
    else {
        panic!("{letters:?}")
    };
    assert!(active.standing.pauses("d") && !active.standing.pauses("other") && **name == *"d");
    drop(test.letters(0));
    test.obeyed(1, *question, true);
    assert!(test.letters(0).is_empty());
    test.obeyed(0, *question, true);
    assert!(test.answer().starts_with("C\0\0\0\nPAUSE\0"));
    assert!(test.log().contains("PAUSE 'd' command issued"), "{}", test.log());
    test.says("RESUME d");
    assert!(!test.standing(1).pauses("d"));
    assert!(matches!(&test.letters(0)[..], [ToWorker::ActiveConfig(_), ToWorker::ConsoleAnswer { .. }]));
}

#[test]
fn what_cannot_be_ordered_is_refused_in_pgbouncers_words() {
    let mut test = TestControl::new("refusals", 1, "");
    for (command, text) in [
        ("PAUSE nowhere", "no such database: nowhere"),
        ("PAUSE pgbouncer", "cannot pause admin db: pgbouncer"),
        ("KILL pgbouncer", "cannot kill admin db: pgbouncer"),
        ("DISABLE pgbouncer", "cannot disable admin db: pgbouncer"),
        ("ENABLE nowhere", "no such database: nowhere"),
        ("RECONNECT pgbouncer", "cannot reconnect admin db: pgbouncer"),
        ("WAIT_CLOSE pgbouncer", "cannot wait in admin db: pgbouncer"),
        ("RESUME", "pooler is not paused/suspended"),
        ("RESUME d", "database d is not paused"),
        ("RESUME nowhere", "no such database: nowhere"),
        ("KILL_CLIENT x", "invalid client pointer supplied"),
        ("DISABLE", "a database is required"),
        ("SET nothing = 1", "SET failed"),
        ("SET logfile = '/nowhere/log'", "SET failed"),
        ("SET LogFile = '/nowhere/log'", "SET failed"),
        ("SET default_pool_size = many", "SET failed"),
    ] {
        test.says(command);
        let answer = test.answer();
        assert!(answer.contains(&format!("C08P01\0M{text}\0")), "{command}: {answer:?}");
    }
    test.says("PAUSE");
    drop(test.letters(0));
    for command in ["PAUSE", "PAUSE d", "KILL", "KILL d"] {
        test.says(command);
        assert!(test.answer().contains("already suspended/paused"), "{command}");
    }
}

#[test]
fn who_takes_a_pause_back_is_told_and_nothing_stays_paused() {
    let mut test = TestControl::new("cancel", 1, "");
    test.says("PAUSE");
    drop(test.letters(0));
    test.happens(Event::Letter(ToControl::ConsoleCancel { from: WorkerId(0), client: CLIENT }));
    let letters = test.letters(0);
    let [ToWorker::ForgetOrder { .. }, ToWorker::ConsoleAnswer { bytes, .. }, ToWorker::ActiveConfig(active)] =
        &letters[..]
    else {
        panic!("{letters:?}")
    };
    let answer = String::from_utf8_lossy(bytes);
    assert!(answer.contains("C57014\0Mcanceling statement due to user request\0"), "{answer:?}");
    assert!(!active.standing.is_all_paused());
}

#[test]
fn a_pause_whose_client_has_gone_stands_and_is_answered_to_nobody() {
    let mut test = TestControl::new("gone", 1, "");
    test.says("PAUSE");
    let question = test.order(0, &Task::AwaitUnused(None));
    test.happens(Event::Letter(ToControl::ConsoleLeft { from: WorkerId(0), client: CLIENT }));
    assert!(matches!(&test.letters(0)[..], [ToWorker::ForgetOrder { .. }]));
    test.obeyed(0, question, true);
    assert!(test.letters(0).is_empty());
    test.happens(Event::Signal(Signal::User1));
    test.happens(Event::Signal(Signal::User2));
    test.happens(Event::Signal(Signal::User2));
    let log = test.log();
    for line in
        ["got SIGUSR1, but already paused/suspended", "got SIGUSR2, continuing from PAUSE", "but not paused/suspended"]
    {
        assert!(log.contains(line), "{log}");
    }
    assert!(!test.standing(0).is_all_paused());
}

#[test]
fn a_suspend_is_answered_when_every_worker_stands_still_and_undone_by_resume() {
    let mut test = TestControl::new("suspend", 2, "");
    test.says("SUSPEND");
    let question = test.order(1, &Task::Suspend { is_handover: false });
    drop(test.letters(0));
    for command in ["SUSPEND", "PAUSE", "KILL d"] {
        test.says(command);
        assert!(test.answer().contains("already suspended/paused"), "{command}");
    }
    test.says("SHOW STATE");
    assert!(test.answer().contains("suspended\0\0\0\u{3}yes"));
    test.obeyed(1, question, true);
    assert!(test.letters(0).is_empty());
    test.obeyed(0, question, true);
    assert!(test.answer().starts_with("C\0\0\0\u{c}SUSPEND\0"));
    test.says("RESUME");
    assert!(matches!(&test.letters(0)[..], [ToWorker::WakeUp, ToWorker::ConsoleAnswer { .. }]));
    assert!(matches!(&test.letters(1)[..], [ToWorker::WakeUp]));
    test.says("RESUME");
    assert!(test.answer().contains("pooler is not paused/suspended"));
    test.says("PAUSE d");
    drop(test.letters(0));
    test.says("SUSPEND");
    let answer = test.answer();
    assert!(answer.contains("cannot suspend with paused databases\0HDatabases paused by name: d."), "{answer:?}");
    test.says("RESUME");
    let answer = test.answer();
    assert!(answer.contains("pooler is not paused/suspended\0HDatabases paused by name: d."), "{answer:?}");
}

#[test]
fn a_reload_names_what_waits_for_a_restart_and_only_that() {
    let mut test = TestControl::new("kept", 1, "listen_backlog=7\npkt_buf=4096\n");
    test.rewrite("ini", "=7\npkt_buf=4096", "=8\npkt_buf=8192");
    test.says("RELOAD");
    let letters = test.letters(0);
    let Some(ToWorker::ConsoleAnswer { bytes, .. }) = letters.last() else { panic!("an answer") };
    let answer = String::from_utf8_lossy(bytes).into_owned();
    assert!(answer.contains("changed by a restart only, and staying as they are: listen_backlog\0"), "{answer:?}");
    assert!(test.log().contains("listen_backlog has changed: the new value waits for a restart"), "{}", test.log());
    // The setting has no effect, also after a restart.
    assert!(!test.log().contains("pkt_buf has changed"), "{}", test.log());
    assert!(test.log().contains("pkt_buf is accepted but has no meaning here"), "{}", test.log());
}

#[test]
fn what_a_shutdown_waits_for_is_shown() {
    let mut test = TestControl::new("waits", 1, "shutdown_timeout=30\n");
    test.says("SHOW STATE");
    assert!(!test.answer().contains("shutdown"));
    test.says("SHUTDOWN WAIT_FOR_CLIENTS");
    drop(test.letters(0));
    test.says("SHOW STATE");
    let answer = test.answer();
    assert!(answer.contains("waits until all clients have gone (SHOW CLIENTS) for 0 s, 30 s at most"), "{answer:?}");
}

#[test]
fn who_is_suspended_wakes_when_nobody_is_left_who_could_order_it() {
    let mut test = TestControl::new("alone", 1, "");
    test.happens(Event::Letter(ToControl::ConsolesGone));
    assert!(test.letters(0).is_empty());
    test.says("SUSPEND");
    test.happens(Event::Letter(ToControl::ConsoleLeft { from: WorkerId(0), client: CLIENT }));
    drop(test.letters(0));
    test.happens(Event::Letter(ToControl::ConsolesGone));
    assert!(matches!(&test.letters(0)[..], [ToWorker::WakeUp]));
    assert!(test.log().contains("LOG admin disappeared when suspended, doing RESUME"));
}

#[test]
fn a_suspend_ends_with_a_signal_and_the_process_with_another() {
    let mut test = TestControl::new("suspended", 1, "");
    test.says("SUSPEND");
    drop(test.letters(0));
    test.happens(Event::Signal(Signal::User1));
    test.happens(Event::Signal(Signal::User2));
    let letters = test.letters(0);
    let [ToWorker::WakeUp, ToWorker::ForgetOrder { .. }, ToWorker::ConsoleAnswer { bytes, .. }] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert!(String::from_utf8_lossy(bytes).contains("C57014\0MSUSPEND was ended by SIGUSR2\0"));
    test.says("SUSPEND");
    drop(test.letters(0));
    test.happens(Event::Signal(Signal::Terminate));
    assert!(matches!(&test.letters(0)[..], [ToWorker::Shutdown(Shutdown::Now)]));
    assert!(test.control.is_over() && test.control.has_failed());
    for line in ["got SIGUSR1, but already paused/suspended", "got SIGUSR2, continuing from SUSPEND"] {
        assert!(test.log().contains(line), "{}", test.log());
    }
    assert!(test.log().contains("FATAL suspend was in progress, going down immediately"));
}

/// The final message of a transfer, and the end at which a new process would receive it.
fn final_message() -> (News, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair");
    far.set_nonblocking(true).expect("it need not be waited for");
    (News::Done(FinalMessage::over(Ipc::new(near, STEP_MAX).expect("a socket"))), far)
}

/// Returns what the new process has received.
fn heard(mut far: &UnixStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 100];
    let read = far.read(&mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[test]
fn everything_is_handed_over_when_all_have_stood_still_twice() {
    let mut test = TestControl::new("handover", 2, "");
    test.says("TAKEOVER 2");
    assert!(test.answer().starts_with("C\0\0\0\rTAKEOVER\0"));
    let transfer = test.control.next_transfer().expect("one sets out");
    assert!(test.control.next_transfer().is_none() && transfer.path.ends_with("/.s.PGSQL.6432.takeover"));
    test.says("TAKEOVER 2");
    assert!(test.answer().contains("an online restart is in progress"));
    test.reports(1, News::Ready);
    let task = Task::Suspend { is_handover: true };
    for _ in 0..2 {
        assert!(transfer.still.try_recv().is_err());
        for worker in 0..2 {
            let question = test.order(usize::from(worker), &task);
            test.obeyed(worker, question, true);
        }
    }
    transfer.still.try_recv().expect("it is told");
    for command in ["RELOAD", "PAUSE", "KILL_CLIENT 1", "RESUME d", "SHUTDOWN WAIT_FOR_CLIENTS", "SET verbose = 1"] {
        test.says(command);
        assert!(test.answer().contains("an online restart is in progress"), "{command}");
    }
    test.happens(Event::Letter(ToControl::ConsolesGone));
    test.happens(Event::Signal(Signal::Hangup));
    test.happens(Event::Signal(Signal::User1));
    assert!(test.letters(0).is_empty() && test.letters(1).is_empty());
    let (done, new) = final_message();
    test.reports(1, done);
    assert_eq!(heard(&new).expect("something"), b"\0\0\0\x05\"Bye\"");
    assert!(matches!(&test.letters(0)[..], [ToWorker::HandedOver]));
    assert!(test.control.is_over() && test.control.has_handed_over() && !test.control.has_failed());
    drop(test);
    let kind = heard(&new).expect_err("it hears the end with that of this process").kind();
    assert_eq!(kind, io::ErrorKind::WouldBlock);
}

#[test]
fn a_handover_that_fails_wakes_everybody() {
    let mut test = TestControl::new("stranded", 1, "");
    for command in ["TAKEOVER 1", "TAKEOVER x", "TAKEOVER"] {
        test.says(command);
        assert!(test.answer().starts_with('E'), "{command}");
    }
    test.says("TAKEOVER 2");
    test.reports(1, News::Failed("early".to_owned()));
    drop(test.letters(0));
    test.says("TAKEOVER 2");
    drop(test.letters(0));
    test.reports(2, News::Ready);
    let question = test.order(0, &Task::Suspend { is_handover: true });
    test.reports(2, News::Failed("it died".to_owned()));
    let letters = test.letters(0);
    assert!(
        matches!(&letters[..], [ToWorker::ForgetOrder { question: of }, ToWorker::WakeUp] if *of == question),
        "{letters:?}"
    );
    assert!(test.log().contains("ERROR online restart failed, going on: it died"));
    // The new process dies before it could receive the final message; this process stays in charge.
    test.says("TAKEOVER 2");
    test.reports(3, News::Ready);
    drop(test.letters(0));
    let (done, new) = final_message();
    drop(new);
    test.reports(3, done);
    assert!(matches!(&test.letters(0)[..], [ToWorker::ForgetOrder { .. }, ToWorker::WakeUp]));
    assert!(test.log().contains("ERROR online restart failed, going on: the new process was lost: "));
    assert!(!test.control.is_over());
    test.says("PAUSE d");
    drop(test.letters(0));
    test.says("TAKEOVER 2");
    assert!(test.answer().contains("cannot suspend with paused databases\0HDatabases paused by name: d."));
    test.says("RESUME d");
    drop(test.letters(0));
    test.says("TAKEOVER 2");
    test.happens(Event::Signal(Signal::Interrupt));
    assert!(test.control.is_over() && test.control.has_failed());
    assert!(test.log().contains("FATAL takeover was in progress, going down immediately"));
}

/// Formerly nothing could end a handover that did not finish by itself.
#[test]
fn a_handover_ends_with_resume_or_a_signal_and_its_courier_is_not_heard_any_more() {
    let mut test = TestControl::new("called_off", 1, "");
    for number in 1..=4 {
        test.says("TAKEOVER 2");
        let transfer = test.control.next_transfer().expect("one sets out");
        drop(test.letters(0));
        if number % 2 == 0 {
            test.reports(number, News::Ready);
            drop(test.letters(0));
        }
        match number {
            1 | 2 => test.says("RESUME"),
            _ => test.happens(Event::Signal(Signal::User2)),
        }
        let letters = test.letters(0);
        let wakes = letters.iter().filter(|letter| matches!(letter, ToWorker::WakeUp)).count();
        assert_eq!(wakes, usize::from(number % 2 == 0), "{letters:?}");
        assert_eq!(transfer.is_still(), Err("it was called off"));
        // The next restart has begun when the transfer of this one reports.
        test.says("TAKEOVER 2");
        drop(test.letters(0));
        let (done, new) = final_message();
        test.reports(number, done);
        assert!(heard(&new).expect("its end").is_empty(), "it hears no final message");
        test.reports(number, News::Failed("it was called off".to_owned()));
        test.says("PAUSE");
        assert!(test.answer().contains("an online restart is in progress"), "the next one goes on");
        test.says("RESUME");
        drop(test.letters(0));
        test.control.handovers.begun = number;
    }
    assert!(!test.control.is_over() && !test.log().contains("online restart failed"));
    for by in ["RESUME", "SIGUSR2"] {
        assert!(test.log().contains(&format!("LOG online restart called off by {by}, going on")), "{}", test.log());
    }
}

/// Formerly the transfer said the final message by itself: after a shutdown ordered meanwhile both processes had everything,
/// and this one removed the other's socket file.
#[test]
fn who_was_told_to_go_down_does_not_hand_over_any_more() {
    let ways: [fn(&mut TestControl); 4] = [
        |test| test.says("SHUTDOWN"),
        |test| test.happens(Event::Signal(Signal::Terminate)),
        |test| test.happens(Event::Signal(Signal::Interrupt)),
        |test| test.happens(Event::Signal(Signal::Quit)),
    ];
    for go_down in ways {
        let mut test = TestControl::new("late", 1, "");
        test.says("TAKEOVER 2");
        test.reports(1, News::Ready);
        drop(test.letters(0));
        go_down(&mut test);
        let letters = test.letters(0);
        assert!(!letters.iter().any(|letter| matches!(letter, ToWorker::WakeUp)), "nobody receives: {letters:?}");
        assert!(matches!(letters.last(), Some(ToWorker::Shutdown(Shutdown::Now))), "{letters:?}");
        let (done, new) = final_message();
        test.reports(1, done);
        assert!(heard(&new).expect("its end").is_empty(), "it hears no final message");
        assert!(test.control.is_over() && !test.control.has_handed_over());
        assert!(test.letters(0).is_empty());
    }
}

/// Formerly STOPPING=1 was sent for two of the four ways to shut down, and undone by a reload.
#[test]
fn the_service_manager_hears_once_that_we_go_down() {
    let ways: [fn(&mut TestControl); 4] = [
        |test| test.says("SHUTDOWN"),
        |test| test.happens(Event::Signal(Signal::Terminate)),
        |test| test.says("SHUTDOWN WAIT_FOR_SERVERS"),
        |test| test.happens(Event::Signal(Signal::Quit)),
    ];
    for (number, go_down) in ways.into_iter().enumerate() {
        let name = format!("trunkline-control-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixDatagram::bind_addr(&address).expect("a free name");
        listener.set_nonblocking(true).expect("it need not be waited for");
        let mut test = TestControl::new("stopping", 1, "");
        test.control.service = Service::at(&format!("@{name}"));
        go_down(&mut test);
        test.happens(Event::Signal(Signal::Hangup));
        test.happens(Event::Signal(Signal::Quit));
        let mut bytes = [0; 100];
        let told = std::iter::from_fn(|| listener.recv(&mut bytes).ok().map(|read| bytes[..read].to_vec()));
        assert_eq!(told.collect::<Vec<_>>(), [b"STOPPING=1"]);
    }
}

#[test]
fn a_resume_ends_the_wait_for_a_pause() {
    let mut test = TestControl::new("resume", 1, "");
    test.says("PAUSE");
    test.says("RESUME");
    let answers = test.letters(0).into_iter().filter_map(|letter| match letter {
        ToWorker::ConsoleAnswer { bytes, .. } => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    });
    let answers: Vec<_> = answers.collect();
    assert!(answers[0].contains("PAUSE was ended by RESUME") && answers[1].starts_with("C\0\0\0\u{b}RESUME\0"));
}

#[test]
fn a_kill_of_all_is_one_of_the_databases_in_use() {
    let mut test = TestControl::new("kill", 1, "");
    test.says("KILL");
    let question = test.question(0);
    let pools = ["d", "pgbouncer"].map(|name| crate::console::show::tests::pool_row(name, "u")).into();
    test.shown(0, question, Snapshot { pools, ..Snapshot::default() });
    let letters = test.letters(0);
    let [ToWorker::ActiveConfig(active), ToWorker::Order { question, order: Task::Kill(None) }] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert_eq!(active.standing.paused().iter().map(|name| &**name).collect::<Vec<_>>(), ["d"]);
    test.obeyed(0, *question, true);
    assert!(test.answer().starts_with("C\0\0\0\tKILL\0"));
}

#[test]
fn a_client_that_no_worker_has_cannot_be_killed() {
    let mut test = TestControl::new("kill_client", 2, "");
    for (found, answer) in [(true, "KILL_CLIENT\0"), (false, "client not found")] {
        test.says("KILL_CLIENT 17");
        let question = test.order(0, &Task::KillClient(17));
        test.obeyed(0, question, false);
        test.obeyed(1, question, found);
        assert!(test.answer().contains(answer));
    }
}

#[test]
fn a_setting_is_changed_until_the_next_reload() {
    let mut test = TestControl::new("set", 1, "");
    test.says("SET default_pool_size = 7");
    let letters = test.letters(0);
    let [ToWorker::ActiveConfig(active), ToWorker::ConsoleAnswer { bytes, .. }] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert_eq!(active.settings.default_pool_size, 7);
    assert!(String::from_utf8_lossy(bytes).contains("SET default_pool_size=7\0"));
    test.says("SET listen_port = 7");
    let letters = test.letters(0);
    let [ToWorker::ActiveConfig(active), ToWorker::ConsoleAnswer { bytes, .. }] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert_eq!(active.settings.listen_port, 6432);
    assert!(String::from_utf8_lossy(bytes).contains("listen_port is changed by a restart only"));
    test.says("PAUSE");
    test.says("RELOAD");
    let forces = test.letters(0).into_iter().filter_map(|letter| match letter {
        ToWorker::ActiveConfig(active) => Some((active.settings.default_pool_size, active.standing.is_all_paused())),
        _ => None,
    });
    assert_eq!(forces.collect::<Vec<_>>(), [(7, true), (20, true)]);
}
