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
use worker::letters::{Order as Task, Standing, Totals};

use crate::courier::{LastWord, News, PATIENCE as STEP_MAX};
use crate::event::Signal;
use crate::source::{FileReader, Files, first_config};

type Letters = Arc<Mutex<Vec<ToWorker<()>>>>;

/// A control thread with its files in a directory of its own.
pub(crate) struct Desk {
    pub(crate) control: Control<()>,
    boxes: Vec<Letters>,
    dir: PathBuf,
    now: Moment,
}

impl Desk {
    pub(crate) fn new(name: &str, workers: u8, settings: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("trunkline-control-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let desk_file = |file: &str| dir.join(file).to_str().expect("a name in UTF-8").to_owned();
        let source =
            Source::new(desk_file("ini"), Overrides { quiet: true, ..Overrides::default() }, FileReader::from_disk());
        let text = format!(
            "[databases]\nd = host=a\n[pgbouncer]\nauth_file={}\nlogfile={}\n{settings}",
            desk_file("users"),
            desk_file("log")
        );
        std::fs::write(dir.join("users"), "\"u\" \"old\"\n").expect("a file");
        std::fs::write(dir.join("ini"), text).expect("a file");
        let _ = std::fs::remove_file(dir.join("log"));
        let loaded = source.read().expect("good settings");
        let (users, _) = crate::source::read_users(&loaded.settings, source.files()).expect("a file of secrets");
        let log = Arc::new(crate::source::open_log(&loaded.settings).expect("a log"));
        let speaker = Arc::new(RwLock::new(Arc::clone(&log)));
        let active =
            Arc::new(first_config(loaded.settings, Files { users, ..Files::default() }, log, workers, [0; 32], 1));
        let boxes: Vec<Letters> = (0..workers).map(|_| Letters::default()).collect();
        let posts = boxes.iter().map(|letters| {
            let letters = Arc::clone(letters);
            let post: Post<ToWorker<()>> = Arc::new(move |letter| letters.lock().expect("a box").push(letter));
            post
        });
        let now = Moment { time: Time::from_secs(100), wall: Wall(0) };
        let control = Control::new(source, active, speaker, loaded.warnings, posts.collect(), now);
        Self { control, boxes, dir, now }
    }

    pub(crate) fn happens(&mut self, event: Event) {
        let log = Arc::clone(&self.control.present.active.log);
        self.control.handle(self.now, event);
        // A log that was reopened writes its last lines asynchronously; only a test has to wait for them.
        if !Arc::ptr_eq(&log, &self.control.present.active.log) {
            log.finish();
        }
    }

    pub(crate) fn after(&mut self, secs: u64, event: Event) {
        self.now.time = self.now.time + Duration::from_secs(secs);
        self.happens(event);
    }

    /// A report of the courier arrives.
    fn reports(&mut self, handover: u64, news: News) {
        self.happens(Event::News { handover, news });
    }

    fn says(&mut self, text: &str) {
        self.asks(Request::Query(text.to_owned()));
    }

    fn asks(&mut self, request: Request) {
        let letter =
            ToControl::Console { from: WorkerId(0), client: CLIENT, right: Right::Admin, by: Box::default(), request };
        self.happens(Event::Letter(letter));
    }

    fn drained(&mut self, from: u8, is_drained: bool) {
        self.happens(Event::Letter(ToControl::Drained { from: WorkerId(from), is_drained }));
    }

    fn obeyed(&mut self, from: u8, question: u64, is_done: bool) {
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
    fn order(&self, worker: usize, task: &Task) -> u64 {
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
    fn log(&self) -> String {
        self.control.configuration.speaker.read().expect("a log").finish();
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    fn rewrite(&self, file: &str, old: &str, new: &str) {
        let path = self.dir.join(file);
        let text = std::fs::read_to_string(&path).expect("readable").replace(old, new);
        std::fs::write(path, text).expect("writable");
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

const CLIENT: ClientKey = Key { index: 7, generation: 1 };

#[test]
fn what_needs_no_worker_is_answered_at_once() {
    let mut desk = Desk::new("version", 2, "");
    desk.says("SHOW VERSION");
    assert!(desk.answer().contains("PgBouncer 1.25.2"));
    assert!(desk.letters(1).is_empty());
    desk.says("SET timezone = 'UTC'");
    assert!(desk.answer().contains("SET ignored"));
    desk.says("what?");
    assert!(desk.answer().contains("invalid command 'what?', use SHOW HELP;"));
    assert!(
        desk.log().contains("ERROR invalid command") && desk.log().contains("WARNING pooler error: invalid command")
    );
}

#[test]
fn a_table_is_shown_when_all_workers_have_answered() {
    let mut desk = Desk::new("survey", 2, "");
    desk.says("SHOW STATS");
    let question = desk.question(0);
    assert_eq!(desk.question(1), question);
    let stats = vec![("d".into(), Totals { query_count: 4711, ..Totals::default() })];
    desk.shown(1, question, Snapshot { stats, ..Snapshot::default() });
    assert!(desk.letters(0).is_empty());
    desk.shown(0, question, Snapshot::default());
    assert!(desk.answer().contains("4711"));
}

#[test]
fn a_worker_that_keeps_silent_is_named() {
    let mut desk = Desk::new("silent", 2, "");
    desk.says("SHOW POOLS");
    let question = desk.question(0);
    desk.shown(0, question, Snapshot::default());
    assert_eq!(desk.control.next_deadline(), Time::from_secs(105));
    desk.after(5, Event::Tick);
    assert!(desk.answer().contains("no answer within 5 seconds from worker 1"));
    desk.shown(1, question, Snapshot::default());
    assert!(desk.letters(0).is_empty(), "one question, one answer");
}

#[test]
fn every_period_ends_with_a_line() {
    let mut desk = Desk::new("period", 1, "stats_period=10");
    assert_eq!(desk.control.next_deadline(), Time::from_secs(110));
    desk.after(10, Event::Tick);
    let question = desk.question(0);
    let stats = vec![("d".into(), Totals { xact_count: 50, xact_time: 100, ..Totals::default() })];
    desk.shown(0, question, Snapshot { stats, ..Snapshot::default() });
    assert!(desk.log().contains("LOG stats: 5 xacts/s, 0 queries/s, "), "{}", desk.log());
    assert!(desk.log().contains("xact 2 us"), "{}", desk.log());
    assert_eq!(desk.control.next_deadline(), Time::from_secs(120));
}

#[test]
fn no_line_is_written_when_nobody_wants_it() {
    let mut desk = Desk::new("quiet", 1, "stats_period=10\nlog_stats=0");
    desk.after(10, Event::Tick);
    let question = desk.question(0);
    desk.shown(0, question, Snapshot::default());
    assert_eq!(desk.log(), "");
}

#[test]
fn a_name_is_looked_up_once_for_all_who_ask() {
    let mut desk = Desk::new("names", 2, "");
    for from in [0, 1] {
        desk.happens(Event::Letter(ToControl::Resolve { from: WorkerId(from), name: "db".into() }));
    }
    assert_eq!(desk.control.next_lookup().as_deref(), Some("db"));
    assert_eq!(desk.control.next_lookup(), None);
    desk.happens(Event::Found { name: "db".into(), found: Err("gone".into()) });
    for worker in [0, 1] {
        assert!(
            matches!(&desk.letters(worker)[..], [ToWorker::Resolved { found: Err(text), .. }] if **text == *"gone")
        );
    }
}

#[test]
fn a_zone_that_has_changed_has_its_names_looked_up_for_those_who_know_them() {
    let mut desk = Desk::new("zones", 2, "dns_zone_check_period=10");
    let name: Arc<str> = "db.z.example".into();
    desk.happens(Event::Letter(ToControl::Resolve { from: WorkerId(1), name: Arc::clone(&name) }));
    assert_eq!(desk.control.next_lookup(), Some(Arc::clone(&name)));
    desk.happens(Event::Found { name: Arc::clone(&name), found: Err("gone".into()) });
    assert_eq!((desk.letters(1).len(), desk.control.next_lookup()), (1, None));
    desk.after(10, Event::Tick);
    assert_eq!(desk.control.next_zone().as_deref(), Some("z.example"));
    desk.happens(Event::Serial { zone: "z.example".into(), serial: Ok(5) });
    assert_eq!(desk.control.next_lookup(), Some(Arc::clone(&name)));
    desk.happens(Event::Found { name, found: Err("gone".into()) });
    assert_eq!((desk.letters(0).len(), desk.letters(1).len()), (0, 1));
    assert!(desk.log().contains("zone 'z.example' serial changed: old=0 new=5"), "{}", desk.log());
    desk.happens(Event::Serial { zone: "z.example".into(), serial: Err("nobody says".into()) });
    assert!(desk.log().contains("zone 'z.example' has no serial: nobody says"), "{}", desk.log());
}

#[test]
fn a_reload_with_broken_name_servers_changes_nothing() {
    let mut desk = Desk::new("nameservers", 1, "");
    let file = desk.dir.join("resolv.conf");
    let ini = std::fs::read_to_string(desk.dir.join("ini")).expect("our file");
    let reload = |desk: &mut Desk, text: &str| {
        std::fs::write(&file, text).expect("a file");
        std::fs::write(desk.dir.join("ini"), format!("{ini}\nresolv_conf={}\n", file.display())).expect("a file");
        desk.happens(Event::Signal(Signal::Hangup));
        desk.control.name_servers().map(|servers| servers.servers.len())
    };
    assert_eq!(reload(&mut desk, "nameserver nonsense\n"), None);
    assert!(desk.control.present.active.settings.resolv_conf.is_none());
    assert!(desk.log().contains("resolv.conf:1: nameserver nonsense: no address"), "{}", desk.log());
    assert_eq!(reload(&mut desk, "nameserver 10.0.0.1\n"), Some(1));
    assert_eq!(reload(&mut desk, "nameserver 10.0.0.1\nnameserver 10.0.0.2:x\n"), Some(1));
    assert_eq!(reload(&mut desk, "nameserver 10.0.0.1\nnameserver 10.0.0.2:54\n"), Some(2));
}

#[test]
fn a_reload_puts_everything_new_in_force() {
    let mut desk = Desk::new("reload", 2, "default_pool_size=11\npidfile=a\n");
    desk.rewrite("ini", "=11\npidfile=a", "=12\npidfile=b\nsbuf_loopcnt=7");
    desk.rewrite("users", "u", "newcomer");
    std::fs::rename(desk.dir.join("log"), desk.dir.join("log.old")).expect("a log that is rotated");
    desk.says("RELOAD");
    for worker in [1, 0] {
        let letters = desk.letters(worker);
        let Some(ToWorker::ActiveConfig(active)) = letters.first() else { panic!("{letters:?}") };
        assert_eq!(active.settings.default_pool_size, 12);
        assert_eq!(active.settings.pidfile.as_deref(), Some("a"), "it is too late for another one");
        assert!(active.users.secret("newcomer").is_some() && active.users.secret("u").is_none());
        assert_eq!(letters.len(), 2 - worker, "the answer comes after the settings");
    }
    desk.log();
    let old = std::fs::read_to_string(desk.dir.join("log.old")).expect("the old log");
    assert!(old.contains("LOG RELOAD command issued"), "{old}");
    assert!(old.contains("pidfile has changed: the new value waits for a restart"), "{old}");
    assert_eq!(old.matches("sbuf_loopcnt").count(), 1, "{old}");
    desk.happens(Event::Signal(Signal::Hangup));
    assert!(desk.log().contains("LOG got SIGHUP, re-reading config"), "the new log is written");
    assert!(!desk.log().contains("WARNING"), "what was told is not told again: {}", desk.log());
}

#[test]
fn lines_that_were_lost_stay_counted_when_the_log_is_opened_anew() {
    let mut desk = Desk::new("lost", 1, "syslog=1\nsyslog_socket=/nowhere/log\n");
    for command in ["RELOAD", "SET verbose = 1", "RELOAD"] {
        desk.says(command);
    }
    // Each of the three commands is a line.
    assert_eq!(desk.control.present.active.log.lost(), 3);
    assert_eq!(desk.log().matches("takes no lines, they are lost").count(), 1, "{}", desk.log());
}

#[test]
fn a_reload_with_a_mistake_changes_nothing() {
    let mut desk = Desk::new("mistake", 1, "default_pool_size=11\n");
    desk.rewrite("ini", "=11", "=many\npool_mod=session");
    desk.rewrite("users", "u", "newcomer");
    desk.says("RELOAD");
    let answer = desk.answer();
    assert!(answer.contains("CF0000\0MRELOAD failed, see logs for additional details\0"), "{answer:?}");
    // An admin without access to the log gets the errors as well.
    assert!(answer.contains("additional details\0D") && answer.contains("did you mean \"pool_mode\"?"), "{answer:?}");
    for word in ["ERROR", "many", "did you mean \"pool_mode\"?", "config file loading failed", "RELOAD failed"] {
        assert!(desk.log().contains(word), "{word} is not in {}", desk.log());
    }
    assert!(desk.control.present.active.users.secret("u").is_some());
}

#[test]
fn secrets_outlive_a_file_that_cannot_be_read() {
    let mut desk = Desk::new("secrets", 1, "");
    std::fs::remove_file(desk.dir.join("users")).expect("removable");
    desk.says("RELOAD");
    assert!(matches!(&desk.letters(0)[..], [ToWorker::ActiveConfig(active), _] if active.users.secret("u").is_some()));
    assert!(desk.log().contains("ERROR could not open auth_file"), "{}", desk.log());
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
    let mut desk = Desk::new("term", 2, "");
    desk.happens(Event::Signal(Signal::Terminate));
    assert_eq!(ways(&desk.letters(1)), [Shutdown::WaitForClients]);
    assert!(desk.log().contains("got SIGTERM, shutting down, waiting for all clients disconnect"));
    assert!(!desk.control.is_over());
    desk.happens(Event::Signal(Signal::User2));
    assert!(desk.log().contains("got SIGUSR2 while shutting down, ignoring"));
    desk.happens(Event::Signal(Signal::Terminate));
    assert_eq!(ways(&desk.letters(1)), [Shutdown::Now]);
    assert!(desk.control.is_over());
}

#[test]
fn a_shutdown_that_waits_ends_when_the_last_worker_has_nothing_left() {
    for (signal, what) in [(Signal::Terminate, "client"), (Signal::Interrupt, "server")] {
        let mut desk = Desk::new(what, 2, "");
        desk.happens(Event::Signal(signal));
        desk.drained(1, true);
        desk.drained(1, true);
        assert!(desk.orders(0).is_empty());
        desk.drained(0, true);
        // A client was in transit to worker 1 when the worker had reported itself drained.
        let question = desk.order(0, &Task::ConfirmDrained);
        desk.obeyed(0, question, true);
        desk.obeyed(1, question, false);
        desk.drained(1, false);
        assert!(!desk.control.is_over());
        desk.drained(1, true);
        let question = desk.order(0, &Task::ConfirmDrained);
        desk.obeyed(0, question, true);
        assert!(!desk.control.is_over());
        desk.obeyed(1, question, true);
        assert!(desk.control.is_over());
        assert_eq!(ways(&desk.letters(0)).last(), Some(&Shutdown::Now));
        assert!(desk.log().contains(&format!("{what} connections dropped, exiting")), "{}", desk.log());
    }
}

#[test]
fn a_shutdown_that_has_waited_for_its_time_sends_clients_away_and_ends() {
    let mut desk = Desk::new("ending", 1, "shutdown_timeout=30\n");
    desk.happens(Event::Signal(Signal::Terminate));
    assert_eq!(desk.control.next_deadline(), desk.now.time + Duration::from_secs(30));
    desk.after(29, Event::Tick);
    assert!(!desk.letters(0).iter().any(|letter| matches!(letter, ToWorker::EndClients { .. })));
    desk.after(1, Event::Tick);
    assert!(matches!(&desk.letters(0)[..], [ToWorker::EndClients { secs: 30 }]));
    assert!(desk.log().contains("WARNING shutdown_timeout: have waited for 30 seconds"), "{}", desk.log());
    desk.after(9, Event::Tick);
    assert!(!desk.control.is_over());
    desk.after(1, Event::Tick);
    assert!(desk.control.is_over() && desk.log().contains("servers were not clean in time, exiting"));
}

#[test]
fn the_time_of_a_shutdown_counts_from_the_first_order_and_may_be_set_later() {
    let mut desk = Desk::new("ending-later", 1, "");
    desk.says("SHUTDOWN WAIT_FOR_CLIENTS");
    desk.after(40, Event::Tick);
    desk.says("SHUTDOWN WAIT_FOR_SERVERS");
    desk.letters(0);
    desk.says("SET shutdown_timeout = 50");
    desk.after(9, Event::Tick);
    assert!(!desk.letters(0).iter().any(|letter| matches!(letter, ToWorker::EndClients { .. })));
    desk.after(1, Event::Tick);
    assert!(desk.letters(0).iter().any(|letter| matches!(letter, ToWorker::EndClients { secs: 50 })));
}

#[test]
fn shutdown_on_the_console_ends_without_a_word_unless_it_waits() {
    let mut desk = Desk::new("shutdown", 1, "");
    desk.says("SHUTDOWN WAIT_FOR_CLIENTS");
    let letters = desk.letters(0);
    assert!(
        matches!(&letters[..], [ToWorker::ConsoleAnswer { .. }, ToWorker::Shutdown(Shutdown::WaitForClients)]),
        "{letters:?}"
    );
    desk.says("SHUTDOWN");
    let letters = desk.letters(0);
    assert!(matches!(&letters[..], [ToWorker::Shutdown(Shutdown::Now)]), "{letters:?}");
    assert!(desk.control.is_over() && desk.log().contains("LOG SHUTDOWN command issued"));
}

#[test]
fn a_pause_is_answered_when_every_worker_has_nobody_left() {
    let mut desk = Desk::new("pause", 2, "");
    desk.says("PAUSE d");
    let letters = desk.letters(1);
    let [ToWorker::ActiveConfig(active), ToWorker::Order { question, order: Task::AwaitUnused(Some(name)) }] =
        &letters[..]
    else {
        panic!("{letters:?}")
    };
    assert!(active.standing.pauses("d") && !active.standing.pauses("other") && **name == *"d");
    drop(desk.letters(0));
    desk.obeyed(1, *question, true);
    assert!(desk.letters(0).is_empty());
    desk.obeyed(0, *question, true);
    assert!(desk.answer().starts_with("C\0\0\0\nPAUSE\0"));
    assert!(desk.log().contains("PAUSE 'd' command issued"), "{}", desk.log());
    desk.says("RESUME d");
    assert!(!desk.standing(1).pauses("d"));
    assert!(matches!(&desk.letters(0)[..], [ToWorker::ActiveConfig(_), ToWorker::ConsoleAnswer { .. }]));
}

#[test]
fn what_cannot_be_ordered_is_refused_in_pgbouncers_words() {
    let mut desk = Desk::new("refusals", 1, "");
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
        desk.says(command);
        let answer = desk.answer();
        assert!(answer.contains(&format!("C08P01\0M{text}\0")), "{command}: {answer:?}");
    }
    desk.says("PAUSE");
    drop(desk.letters(0));
    for command in ["PAUSE", "PAUSE d", "KILL", "KILL d"] {
        desk.says(command);
        assert!(desk.answer().contains("already suspended/paused"), "{command}");
    }
}

#[test]
fn who_takes_a_pause_back_is_told_and_nothing_stays_paused() {
    let mut desk = Desk::new("cancel", 1, "");
    desk.says("PAUSE");
    drop(desk.letters(0));
    desk.happens(Event::Letter(ToControl::ConsoleCancel { from: WorkerId(0), client: CLIENT }));
    let letters = desk.letters(0);
    let [ToWorker::ForgetOrder { .. }, ToWorker::ConsoleAnswer { bytes, .. }, ToWorker::ActiveConfig(active)] =
        &letters[..]
    else {
        panic!("{letters:?}")
    };
    let answer = String::from_utf8_lossy(bytes);
    assert!(answer.contains("C57014\0Mcanceling statement due to user request\0"), "{answer:?}");
    assert!(!active.standing.is_paused);
}

#[test]
fn a_pause_whose_client_has_gone_stands_and_is_answered_to_nobody() {
    let mut desk = Desk::new("gone", 1, "");
    desk.says("PAUSE");
    let question = desk.order(0, &Task::AwaitUnused(None));
    desk.happens(Event::Letter(ToControl::ConsoleLeft { from: WorkerId(0), client: CLIENT }));
    assert!(matches!(&desk.letters(0)[..], [ToWorker::ForgetOrder { .. }]));
    desk.obeyed(0, question, true);
    assert!(desk.letters(0).is_empty());
    desk.happens(Event::Signal(Signal::User1));
    desk.happens(Event::Signal(Signal::User2));
    desk.happens(Event::Signal(Signal::User2));
    let log = desk.log();
    for line in
        ["got SIGUSR1, but already paused/suspended", "got SIGUSR2, continuing from PAUSE", "but not paused/suspended"]
    {
        assert!(log.contains(line), "{log}");
    }
    assert!(!desk.standing(0).is_paused);
}

#[test]
fn a_suspend_is_answered_when_every_worker_stands_still_and_undone_by_resume() {
    let mut desk = Desk::new("suspend", 2, "");
    desk.says("SUSPEND");
    let question = desk.order(1, &Task::Suspend { is_handover: false });
    drop(desk.letters(0));
    for command in ["SUSPEND", "PAUSE", "KILL d"] {
        desk.says(command);
        assert!(desk.answer().contains("already suspended/paused"), "{command}");
    }
    desk.says("SHOW STATE");
    assert!(desk.answer().contains("suspended\0\0\0\u{3}yes"));
    desk.obeyed(1, question, true);
    assert!(desk.letters(0).is_empty());
    desk.obeyed(0, question, true);
    assert!(desk.answer().starts_with("C\0\0\0\u{c}SUSPEND\0"));
    desk.says("RESUME");
    assert!(matches!(&desk.letters(0)[..], [ToWorker::WakeUp, ToWorker::ConsoleAnswer { .. }]));
    assert!(matches!(&desk.letters(1)[..], [ToWorker::WakeUp]));
    desk.says("RESUME");
    assert!(desk.answer().contains("pooler is not paused/suspended"));
    desk.says("PAUSE d");
    drop(desk.letters(0));
    desk.says("SUSPEND");
    let answer = desk.answer();
    assert!(answer.contains("cannot suspend with paused databases\0HPaused by name: d."), "{answer:?}");
    desk.says("RESUME");
    let answer = desk.answer();
    assert!(answer.contains("pooler is not paused/suspended\0HPaused by name: d."), "{answer:?}");
}

#[test]
fn a_reload_names_what_waits_for_a_restart_and_only_that() {
    let mut desk = Desk::new("kept", 1, "listen_backlog=7\npkt_buf=4096\n");
    desk.rewrite("ini", "=7\npkt_buf=4096", "=8\npkt_buf=8192");
    desk.says("RELOAD");
    let letters = desk.letters(0);
    let Some(ToWorker::ConsoleAnswer { bytes, .. }) = letters.last() else { panic!("an answer") };
    let answer = String::from_utf8_lossy(bytes).into_owned();
    assert!(answer.contains("changed by a restart only, and staying as they are: listen_backlog\0"), "{answer:?}");
    assert!(desk.log().contains("listen_backlog has changed: the new value waits for a restart"), "{}", desk.log());
    // The setting has no effect, also after a restart.
    assert!(!desk.log().contains("pkt_buf has changed"), "{}", desk.log());
    assert!(desk.log().contains("pkt_buf is accepted but has no meaning here"), "{}", desk.log());
}

#[test]
fn what_a_shutdown_waits_for_is_shown() {
    let mut desk = Desk::new("waits", 1, "shutdown_timeout=30\n");
    desk.says("SHOW STATE");
    assert!(!desk.answer().contains("shutdown"));
    desk.says("SHUTDOWN WAIT_FOR_CLIENTS");
    drop(desk.letters(0));
    desk.says("SHOW STATE");
    let answer = desk.answer();
    assert!(answer.contains("waits until all clients have gone (SHOW CLIENTS) for 0 s, 30 s at most"), "{answer:?}");
}

#[test]
fn who_is_suspended_wakes_when_nobody_is_left_who_could_order_it() {
    let mut desk = Desk::new("alone", 1, "");
    desk.happens(Event::Letter(ToControl::ConsolesGone));
    assert!(desk.letters(0).is_empty());
    desk.says("SUSPEND");
    desk.happens(Event::Letter(ToControl::ConsoleLeft { from: WorkerId(0), client: CLIENT }));
    drop(desk.letters(0));
    desk.happens(Event::Letter(ToControl::ConsolesGone));
    assert!(matches!(&desk.letters(0)[..], [ToWorker::WakeUp]));
    assert!(desk.log().contains("LOG admin disappeared when suspended, doing RESUME"));
}

#[test]
fn a_suspend_ends_with_a_signal_and_the_process_with_another() {
    let mut desk = Desk::new("suspended", 1, "");
    desk.says("SUSPEND");
    drop(desk.letters(0));
    desk.happens(Event::Signal(Signal::User1));
    desk.happens(Event::Signal(Signal::User2));
    let letters = desk.letters(0);
    let [ToWorker::WakeUp, ToWorker::ForgetOrder { .. }, ToWorker::ConsoleAnswer { bytes, .. }] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert!(String::from_utf8_lossy(bytes).contains("C57014\0MSUSPEND was ended by SIGUSR2\0"));
    desk.says("SUSPEND");
    drop(desk.letters(0));
    desk.happens(Event::Signal(Signal::Terminate));
    assert!(matches!(&desk.letters(0)[..], [ToWorker::Shutdown(Shutdown::Now)]));
    assert!(desk.control.is_over() && desk.control.has_failed());
    for line in ["got SIGUSR1, but already paused/suspended", "got SIGUSR2, continuing from SUSPEND"] {
        assert!(desk.log().contains(line), "{}", desk.log());
    }
    assert!(desk.log().contains("FATAL suspend was in progress, going down immediately"));
}

/// The last word of a courier, and the end at which a new process would receive it.
fn last_word() -> (News, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair");
    far.set_nonblocking(true).expect("it need not be waited for");
    (News::Done(LastWord::over(Ipc::new(near, STEP_MAX).expect("a socket"))), far)
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
    let mut desk = Desk::new("handover", 2, "");
    desk.says("TAKEOVER 2");
    assert!(desk.answer().starts_with("C\0\0\0\rTAKEOVER\0"));
    let courier = desk.control.next_courier().expect("one sets out");
    assert!(desk.control.next_courier().is_none() && courier.path.ends_with("/.s.PGSQL.6432.takeover"));
    desk.says("TAKEOVER 2");
    assert!(desk.answer().contains("an online restart is in progress"));
    desk.reports(1, News::Ready);
    let task = Task::Suspend { is_handover: true };
    for _ in 0..2 {
        assert!(courier.still.try_recv().is_err());
        for worker in 0..2 {
            let question = desk.order(usize::from(worker), &task);
            desk.obeyed(worker, question, true);
        }
    }
    courier.still.try_recv().expect("it is told");
    for command in ["RELOAD", "PAUSE", "KILL_CLIENT 1", "RESUME d", "SHUTDOWN WAIT_FOR_CLIENTS", "SET verbose = 1"] {
        desk.says(command);
        assert!(desk.answer().contains("an online restart is in progress"), "{command}");
    }
    desk.happens(Event::Letter(ToControl::ConsolesGone));
    desk.happens(Event::Signal(Signal::Hangup));
    desk.happens(Event::Signal(Signal::User1));
    assert!(desk.letters(0).is_empty() && desk.letters(1).is_empty());
    let (done, new) = last_word();
    desk.reports(1, done);
    assert_eq!(heard(&new).expect("something"), b"\0\0\0\x05\"Bye\"");
    assert!(matches!(&desk.letters(0)[..], [ToWorker::HandedOver]));
    assert!(desk.control.is_over() && desk.control.has_handed_over() && !desk.control.has_failed());
    drop(desk);
    let kind = heard(&new).expect_err("it hears the end with that of this process").kind();
    assert_eq!(kind, io::ErrorKind::WouldBlock);
}

#[test]
fn a_handover_that_fails_wakes_everybody() {
    let mut desk = Desk::new("stranded", 1, "");
    for command in ["TAKEOVER 1", "TAKEOVER x", "TAKEOVER"] {
        desk.says(command);
        assert!(desk.answer().starts_with('E'), "{command}");
    }
    desk.says("TAKEOVER 2");
    desk.reports(1, News::Failed("early".to_owned()));
    drop(desk.letters(0));
    desk.says("TAKEOVER 2");
    drop(desk.letters(0));
    desk.reports(2, News::Ready);
    let question = desk.order(0, &Task::Suspend { is_handover: true });
    desk.reports(2, News::Failed("it died".to_owned()));
    let letters = desk.letters(0);
    assert!(
        matches!(&letters[..], [ToWorker::ForgetOrder { question: of }, ToWorker::WakeUp] if *of == question),
        "{letters:?}"
    );
    assert!(desk.log().contains("ERROR online restart failed, going on: it died"));
    // The new process dies before it could receive the last word; this process stays in charge.
    desk.says("TAKEOVER 2");
    desk.reports(3, News::Ready);
    drop(desk.letters(0));
    let (done, new) = last_word();
    drop(new);
    desk.reports(3, done);
    assert!(matches!(&desk.letters(0)[..], [ToWorker::ForgetOrder { .. }, ToWorker::WakeUp]));
    assert!(desk.log().contains("ERROR online restart failed, going on: the new process was lost: "));
    assert!(!desk.control.is_over());
    desk.says("PAUSE d");
    drop(desk.letters(0));
    desk.says("TAKEOVER 2");
    assert!(desk.answer().contains("cannot suspend with paused databases\0HPaused by name: d."));
    desk.says("RESUME d");
    drop(desk.letters(0));
    desk.says("TAKEOVER 2");
    desk.happens(Event::Signal(Signal::Interrupt));
    assert!(desk.control.is_over() && desk.control.has_failed());
    assert!(desk.log().contains("FATAL takeover was in progress, going down immediately"));
}

/// Formerly nothing could end a handover that did not finish by itself.
#[test]
fn a_handover_ends_with_resume_or_a_signal_and_its_courier_is_not_heard_any_more() {
    let mut desk = Desk::new("called_off", 1, "");
    for number in 1..=4 {
        desk.says("TAKEOVER 2");
        let courier = desk.control.next_courier().expect("one sets out");
        drop(desk.letters(0));
        if number % 2 == 0 {
            desk.reports(number, News::Ready);
            drop(desk.letters(0));
        }
        match number {
            1 | 2 => desk.says("RESUME"),
            _ => desk.happens(Event::Signal(Signal::User2)),
        }
        let letters = desk.letters(0);
        let wakes = letters.iter().filter(|letter| matches!(letter, ToWorker::WakeUp)).count();
        assert_eq!(wakes, usize::from(number % 2 == 0), "{letters:?}");
        assert_eq!(courier.still.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
        // The next restart has begun when the courier of this one reports.
        desk.says("TAKEOVER 2");
        drop(desk.letters(0));
        let (done, new) = last_word();
        desk.reports(number, done);
        assert!(heard(&new).expect("its end").is_empty(), "it hears no last word");
        desk.reports(number, News::Failed("it was called off".to_owned()));
        desk.says("PAUSE");
        assert!(desk.answer().contains("an online restart is in progress"), "the next one goes on");
        desk.says("RESUME");
        drop(desk.letters(0));
        desk.control.handovers.begun = number;
    }
    assert!(!desk.control.is_over() && !desk.log().contains("online restart failed"));
    for by in ["RESUME", "SIGUSR2"] {
        assert!(desk.log().contains(&format!("LOG online restart called off by {by}, going on")), "{}", desk.log());
    }
}

/// Formerly the courier said the last word by itself: after a shutdown ordered meanwhile both processes had everything,
/// and this one removed the other's socket file.
#[test]
fn who_was_told_to_go_down_does_not_hand_over_any_more() {
    let ways: [fn(&mut Desk); 4] = [
        |desk| desk.says("SHUTDOWN"),
        |desk| desk.happens(Event::Signal(Signal::Terminate)),
        |desk| desk.happens(Event::Signal(Signal::Interrupt)),
        |desk| desk.happens(Event::Signal(Signal::Quit)),
    ];
    for go_down in ways {
        let mut desk = Desk::new("late", 1, "");
        desk.says("TAKEOVER 2");
        desk.reports(1, News::Ready);
        drop(desk.letters(0));
        go_down(&mut desk);
        let letters = desk.letters(0);
        assert!(!letters.iter().any(|letter| matches!(letter, ToWorker::WakeUp)), "nobody receives: {letters:?}");
        assert!(matches!(letters.last(), Some(ToWorker::Shutdown(Shutdown::Now))), "{letters:?}");
        let (done, new) = last_word();
        desk.reports(1, done);
        assert!(heard(&new).expect("its end").is_empty(), "it hears no last word");
        assert!(desk.control.is_over() && !desk.control.has_handed_over());
        assert!(desk.letters(0).is_empty());
    }
}

/// Formerly STOPPING=1 was sent for two of the four ways to shut down, and undone by a reload.
#[test]
fn the_service_manager_hears_once_that_we_go_down() {
    let ways: [fn(&mut Desk); 4] = [
        |desk| desk.says("SHUTDOWN"),
        |desk| desk.happens(Event::Signal(Signal::Terminate)),
        |desk| desk.says("SHUTDOWN WAIT_FOR_SERVERS"),
        |desk| desk.happens(Event::Signal(Signal::Quit)),
    ];
    for (number, go_down) in ways.into_iter().enumerate() {
        let name = format!("trunkline-control-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixDatagram::bind_addr(&address).expect("a free name");
        listener.set_nonblocking(true).expect("it need not be waited for");
        let mut desk = Desk::new("stopping", 1, "");
        desk.control.service = Service::at(&format!("@{name}"));
        go_down(&mut desk);
        desk.happens(Event::Signal(Signal::Hangup));
        desk.happens(Event::Signal(Signal::Quit));
        let mut bytes = [0; 100];
        let told = std::iter::from_fn(|| listener.recv(&mut bytes).ok().map(|read| bytes[..read].to_vec()));
        assert_eq!(told.collect::<Vec<_>>(), [b"STOPPING=1"]);
    }
}

#[test]
fn a_resume_ends_the_wait_for_a_pause() {
    let mut desk = Desk::new("resume", 1, "");
    desk.says("PAUSE");
    desk.says("RESUME");
    let answers = desk.letters(0).into_iter().filter_map(|letter| match letter {
        ToWorker::ConsoleAnswer { bytes, .. } => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    });
    let answers: Vec<_> = answers.collect();
    assert!(answers[0].contains("PAUSE was ended by RESUME") && answers[1].starts_with("C\0\0\0\u{b}RESUME\0"));
}

#[test]
fn a_kill_of_all_is_one_of_the_databases_in_use() {
    let mut desk = Desk::new("kill", 1, "");
    desk.says("KILL");
    let question = desk.question(0);
    let pools = ["d", "pgbouncer"].map(|name| crate::console::show::tests::pool_row(name, "u")).into();
    desk.shown(0, question, Snapshot { pools, ..Snapshot::default() });
    let letters = desk.letters(0);
    let [ToWorker::ActiveConfig(active), ToWorker::Order { question, order: Task::Kill(None) }] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert_eq!(active.standing.paused.iter().map(|name| &**name).collect::<Vec<_>>(), ["d"]);
    desk.obeyed(0, *question, true);
    assert!(desk.answer().starts_with("C\0\0\0\tKILL\0"));
}

#[test]
fn a_client_that_no_worker_has_cannot_be_killed() {
    let mut desk = Desk::new("kill_client", 2, "");
    for (found, answer) in [(true, "KILL_CLIENT\0"), (false, "client not found")] {
        desk.says("KILL_CLIENT 17");
        let question = desk.order(0, &Task::KillClient(17));
        desk.obeyed(0, question, false);
        desk.obeyed(1, question, found);
        assert!(desk.answer().contains(answer));
    }
}

#[test]
fn a_setting_is_changed_until_the_next_reload() {
    let mut desk = Desk::new("set", 1, "");
    desk.says("SET default_pool_size = 7");
    let letters = desk.letters(0);
    let [ToWorker::ActiveConfig(active), ToWorker::ConsoleAnswer { bytes, .. }] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert_eq!(active.settings.default_pool_size, 7);
    assert!(String::from_utf8_lossy(bytes).contains("SET default_pool_size=7\0"));
    desk.says("SET listen_port = 7");
    let letters = desk.letters(0);
    let [ToWorker::ActiveConfig(active), ToWorker::ConsoleAnswer { bytes, .. }] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert_eq!(active.settings.listen_port, 6432);
    assert!(String::from_utf8_lossy(bytes).contains("listen_port is changed by a restart only"));
    desk.says("PAUSE");
    desk.says("RELOAD");
    let forces = desk.letters(0).into_iter().filter_map(|letter| match letter {
        ToWorker::ActiveConfig(active) => Some((active.settings.default_pool_size, active.standing.is_paused)),
        _ => None,
    });
    assert_eq!(forces.collect::<Vec<_>>(), [(7, true), (20, true)]);
}
