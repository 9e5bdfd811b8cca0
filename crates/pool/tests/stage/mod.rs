//! A test bench for the pools of one worker: short names for clients, servers and pools, and a clock that is set by hand.
//!
//! Always true: time advances only in `at`, which handles every deadline on the way at its own time.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Key, Time};
use pool::{
    CloseReason, Command, Event, Failure, FailureKind, Fingerprint, Imported, Limits, Need, PoolKey, Pools, Refusal,
    Return, Reuse, ServerKey, State,
};

/// The pools and their commands.
pub(crate) struct Stage {
    pools: Pools,
    now: Time,
    names: BTreeMap<String, PoolKey>,
    limits: BTreeMap<String, Limits>,
    /// Servers in the order in which they were dialed: `s1` is the first.
    servers: Vec<ServerKey>,
    lines: Vec<String>,
    idle: Vec<String>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            pools: Pools::new(1),
            now: Time(0),
            names: BTreeMap::new(),
            limits: BTreeMap::new(),
            servers: Vec::new(),
            lines: Vec::new(),
            idle: Vec::new(),
        }
    }

    /// The commands since the last call, and the idle servers if they have changed.
    pub(crate) fn outcome(&mut self) -> Vec<String> {
        let is_idle = |server: &&ServerKey| self.pools.state_of(**server) == State::Idle;
        let mut idle: Vec<_> = self.servers.iter().filter(is_idle).map(|server| self.server_name(*server)).collect();
        idle.sort();
        let mut lines = std::mem::take(&mut self.lines);
        if idle != self.idle && !idle.is_empty() {
            lines.push(format!("(idle: {})", idle.join(" ")));
        }
        self.idle = idle;
        lines
    }

    /// Plays one line.
    pub(crate) fn play(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["limits", settings @ ..] => self.limit("main", settings),
            ["pool", name, database, user, settings @ ..] => self.open(name, number(database), number(user), settings),
            ["change", name, settings @ ..] => self.limit(name, settings),
            ["database", database, max] => self.pools.set_database_limit(number(database), number(max)),
            ["user", user, "limited"] => self.pools.set_user_limit(number(user), true),
            ["user", user, "free"] => self.pools.set_user_limit(number(user), false),
            ["at", time] => self.pass(Time(0) + duration(time)),
            ["show", pool @ ..] => self.show(pool),
            ["welcomed", pool @ ..] => {
                let key = self.pool(pool);
                self.pools.note_welcome(key);
            }
            ["have-arrived"] => {
                let mut out = Vec::new();
                self.pools.have_arrived(self.now, &mut out);
                self.say(&out);
            }
            ["arrives", how, more @ ..] => {
                let (pool, is_last) = match more {
                    [pool @ .., "and-more"] => (pool, false),
                    pool => (pool, true),
                };
                let (key, mut out) = (self.pool(pool), Vec::new());
                let (is_lent, is_obsolete) = (*how != "idle", *how == "obsolete");
                let imported = Imported { born: self.now, since: self.now, is_lent, is_obsolete };
                let server = self.pools.arrive(self.now, key, imported, &mut out);
                if is_last {
                    self.pools.have_arrived(self.now, &mut out);
                }
                self.servers.extend(server);
                self.say(&out);
            }
            ["remove", pool @ ..] => {
                let (key, mut out) = (self.pool(pool), Vec::new());
                self.pools.close(self.now, key, CloseReason::DatabaseRemoved, &mut out);
                self.say(&out);
            }
            _ => {
                let event = self.event(&words);
                self.handle(event);
            }
        }
    }

    fn event(&mut self, words: &[&str]) -> Event {
        match words {
            ["wants", who, "like", fingerprint, pool @ ..] => {
                Event::Wants { client: client(who), pool: self.pool(pool), fingerprint: like(fingerprint) }
            }
            ["wants", who, pool @ ..] => {
                Event::Wants { client: client(who), pool: self.pool(pool), fingerprint: Fingerprint::default() }
            }
            ["wants-again", who, since, pool @ ..] => {
                let since = Time::from_secs(since.parse().expect("seconds"));
                Event::WantsAgain {
                    client: client(who),
                    pool: self.pool(pool),
                    since,
                    fingerprint: Fingerprint::default(),
                }
            }
            ["wants-private", who, pool @ ..] => {
                Event::WantsDedicated { client: client(who), pool: self.pool(pool), since: self.now }
            }
            ["greets", who, pool @ ..] => Event::Greets { client: client(who), pool: self.pool(pool) },
            ["left", who, pool @ ..] => Event::Left { client: client(who), pool: self.pool(pool) },
            ["ready", server] => Event::Ready { server: self.server(server) },
            ["failed", server, kind, text @ ..] => {
                Event::DialFailed { server: self.server(server), failure: failure(kind, &text.join(" ")) }
            }
            ["returned", server] => {
                Event::Returned { server: self.server(server), as_: Return::Clean, fingerprint: Fingerprint::default() }
            }
            ["returned", server, "like", fingerprint] => {
                Event::Returned { server: self.server(server), as_: Return::Clean, fingerprint: like(fingerprint) }
            }
            ["returned", server, "cleanup"] => Event::Returned {
                server: self.server(server),
                as_: Return::Cleanup,
                fingerprint: Fingerprint::default(),
            },
            ["set-aside", server] => Event::TakeOutsideSize { server: self.server(server) },
            ["cleaned", server] => Event::Cleaned { server: self.server(server) },
            ["ended-idle", server] => Event::EndedIdle { server: self.server(server) },
            ["lost", server] => Event::Lost { server: self.server(server) },
            ["closed", server] => Event::Closed { server: self.server(server) },
            ["retire-server", server] => Event::RetireServer { server: self.server(server) },
            ["move-server", server] => Event::MoveServer { server: self.server(server) },
            ["try-again", pool @ ..] => Event::TryAgain { pool: self.pool(pool) },
            ["vacate-server", server] => Event::VacateServer { server: self.server(server) },
            ["vacate", pool @ ..] => Event::Vacate { pool: self.pool(pool) },
            ["retire", pool @ ..] => Event::Retire { pool: self.pool(pool) },
            ["pause", pool @ ..] => Event::Pause { pool: self.pool(pool), why: CloseReason::PauseMode },
            ["resume", pool @ ..] => Event::Resume { pool: self.pool(pool) },
            ["granted", user, need] => Event::Granted { user: number(user), need: self::need(need) },
            ["denied", user] => Event::Denied { user: number(user) },
            ["wanted", user, "yes"] => Event::Wanted { user: number(user), is_wanted: true },
            ["wanted", user, "no"] => Event::Wanted { user: number(user), is_wanted: false },
            ["tick"] => Event::Tick,
            _ => panic!("nobody understands {words:?}"),
        }
    }

    fn handle(&mut self, event: Event) {
        let mut out = Vec::new();
        self.pools.handle(self.now, event, &mut out);
        self.say(&out);
    }

    /// Advances the clock. Commands of deadlines on the way are marked with their time.
    fn pass(&mut self, until: Time) {
        assert!(until >= self.now, "time does not run backwards");
        for _ in 0..1000 {
            let Some(due) = self.pools.next_deadline().filter(|due| *due <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(due);
            let before = self.lines.len();
            self.handle(Event::Tick);
            if self.now < until {
                let mark = format!("[{}] ", seconds(self.now.since(Time(0))));
                self.lines[before..].iter_mut().for_each(|line| line.insert_str(0, &mark));
            }
        }
        panic!("a deadline keeps ringing at {:?}", self.now);
    }

    fn say(&mut self, out: &[Command]) {
        for command in out {
            if let Command::Dial { server, .. } = command {
                self.servers.push(*server);
            }
            let line = self.line(command);
            self.lines.push(line);
        }
    }

    fn line(&self, command: &Command) -> String {
        match command {
            Command::Dial { pool, server, owner, .. } => {
                let owner = owner.map_or(String::new(), |owner| format!(" for c{} alone", owner.index));
                match self.pool_name(*pool) {
                    "main" => format!("dial {}{owner}", self.server_name(*server)),
                    other => format!("dial {} for {other}{owner}", self.server_name(*server)),
                }
            }
            Command::Bind { client, server, waited } => {
                let waited = if waited.is_zero() { String::new() } else { format!(" after {}", seconds(*waited)) };
                format!("bind c{} {}{waited}", client.index, self.server_name(*server))
            }
            Command::Attach { client, server, waited } if waited.is_zero() => {
                format!("attach c{} {}", client.index, self.server_name(*server))
            }
            Command::Attach { client, server, waited } => {
                format!("attach c{} {} after {}", client.index, self.server_name(*server), seconds(*waited))
            }
            Command::Welcome { client } => format!("welcome c{}", client.index),
            Command::Reset { server } => format!("reset {}", self.server_name(*server)),
            Command::Check { server } => format!("check {}", self.server_name(*server)),
            Command::Close { server, why } => format!("close {}: {why}", self.server_name(*server)),
            Command::Refuse { client, why } => format!("refuse c{}: {}", client.index, refusal(why)),
            Command::Ask { user, need: Need::Client } => format!("ask for user {user}"),
            Command::Ask { user, need: Need::Minimum } => format!("ask for the minimum of user {user}"),
            Command::Withdraw { user } => format!("withdraw for user {user}"),
            Command::GiveBack { user } => format!("give back of user {user}"),
            Command::Note(note) => format!("note: {note}"),
        }
    }

    fn open(&mut self, name: &str, database: u32, user: u32, settings: &[&str]) {
        let limits = with_settings(quiet(), settings);
        let key = self.pools.open(self.now, database, user, limits);
        self.names.insert(name.to_owned(), key);
        self.limits.insert(name.to_owned(), limits);
    }

    /// Changes the limits of a pool, or opens it for database 0 and user 0.
    fn limit(&mut self, name: &str, settings: &[&str]) {
        let Some(key) = self.names.get(name).copied() else { return self.open(name, 0, 0, settings) };
        let limits = with_settings(self.limits[name], settings);
        self.limits.insert(name.to_owned(), limits);
        let mut out = Vec::new();
        self.pools.set_limits(self.now, key, limits, &mut out);
        self.say(&out);
    }

    fn show(&mut self, pool: &[&str]) {
        let key = self.pool(pool);
        let Some(seen) = self.pools.snapshot(self.now, key) else {
            self.lines.push("gone".to_owned());
            return;
        };
        let since =
            seen.waiting_since.map_or(String::new(), |since| format!(" since {}", seconds(since.since(Time(0)))));
        let reason = seen.waits_for.map_or(String::new(), |why| format!(" ({})", why.word()));
        let failure = seen.failure.as_ref().map_or(String::new(), |failure| format!(", failing: {}", failure.text));
        let dedicated = match (seen.dedicated_waiting, seen.dedicating, seen.bound) {
            (0, 0, 0) => String::new(),
            (waiting, dedicating, bound) => {
                format!(", private: waiting {waiting}, pledged {dedicating}, bound {bound}")
            }
        };
        self.lines.push(format!(
            "waiting {}{since}{reason}, greeting {}, dialing {}, idle {} (aged {}), lent {}, cleaning {}, checking {}, closing {}{}{dedicated}{failure}",
            seen.waiting,
            seen.greeting,
            seen.dialing,
            seen.idle,
            self.pools.aged(self.now, key),
            seen.lent,
            seen.cleaning,
            seen.checking,
            seen.closing,
            if seen.is_welcomed { ", welcomed" } else { "" },
        ));
    }

    fn pool(&self, name: &[&str]) -> PoolKey {
        let name = name.first().copied().unwrap_or("main");
        *self.names.get(name).unwrap_or_else(|| panic!("there is no pool {name}"))
    }

    fn pool_name(&self, key: PoolKey) -> &str {
        self.names.iter().find(|(_, other)| **other == key).map_or("?", |(name, _)| name)
    }

    fn server(&self, name: &str) -> ServerKey {
        let number: usize = name.strip_prefix('s').and_then(|digits| digits.parse().ok()).expect("a server such as s1");
        *self.servers.get(number - 1).unwrap_or_else(|| panic!("{name} was never dialed"))
    }

    fn server_name(&self, key: ServerKey) -> String {
        let place = self.servers.iter().position(|other| *other == key).expect("a server is dialed first");
        format!("s{}", place + 1)
    }
}

/// Limits with all timeouts and the reset query off, so that a transcript sets only what it needs.
fn quiet() -> Limits {
    Limits {
        reserve_after: None,
        wait_max: None,
        idle_max: None,
        lifetime_max: None,
        check_after: None,
        reset: false,
        ..Limits::default()
    }
}

fn with_settings(mut limits: Limits, settings: &[&str]) -> Limits {
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap_or_else(|| panic!("{setting} is no setting"));
        let period = || (value != "off").then(|| duration(value));
        match name {
            "servers" => limits.servers_max = number(value),
            "private" => limits.dedicated_max = (value != "in").then(|| number(value)),
            "min" => limits.servers_min = number(value),
            "reserve" => limits.reserve_max = number(value),
            "reserve_after" => limits.reserve_after = period(),
            "dials" => limits.dials_max = number(value),
            "wait" => limits.wait_max = period(),
            "idle" => limits.idle_max = period(),
            "lifetime" => limits.lifetime_max = period(),
            "retry" => limits.retry_after = duration(value),
            "reuse" => limits.reuse = if value == "oldest" { Reuse::Oldest } else { Reuse::Newest },
            "check" => limits.check_after = period(),
            "reset" => limits.reset = value == "on",
            _ => panic!("there is no setting {name}"),
        }
    }
    limits
}

fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::QueryWaitTimeout(why) => format!("query wait timeout ({})", why.word()),
        Refusal::LoginFailed(failure) => format!("login failed: {}", failure.text),
        Refusal::LoginFailing(failure) => format!("login failing: {}", failure.text),
        Refusal::DatabaseRemoved => "database removed".to_owned(),
        Refusal::DedicatedRefused(failure) => format!("not let in: {}", failure.text),
    }
}

fn failure(kind: &str, text: &str) -> Failure {
    match kind {
        "unreachable" => Failure::unreachable(text),
        "refused" => Failure::refused(*b"28P01", text),
        "starting" => Failure::refused(*b"57P03", text),
        "elsewhere" => Failure { kind: FailureKind::Elsewhere, ..Failure::unreachable(text) },
        _ => panic!("there is no failure {kind}"),
    }
}

fn need(word: &str) -> Need {
    match word {
        "client" => Need::Client,
        "minimum" => Need::Minimum,
        _ => panic!("there is no need {word}"),
    }
}

fn like(number: &str) -> Fingerprint {
    Fingerprint::of(number.parse().expect("a number"))
}

fn client(name: &str) -> Key {
    let index = name.strip_prefix('c').map(number).expect("a client such as c1");
    Key::first(index)
}

fn number(digits: &str) -> u32 {
    digits.parse().unwrap_or_else(|_| panic!("{digits} is no number"))
}

/// `5s` or `250ms`.
fn duration(text: &str) -> Duration {
    match text.strip_suffix("ms") {
        Some(digits) => Duration::from_millis(u64::from(number(digits))),
        None => Duration::from_secs(u64::from(number(text.strip_suffix('s').unwrap_or(text)))),
    }
}

fn seconds(time: Duration) -> String {
    format!("{}s", (time.as_secs_f64() * 1000.0).round() / 1000.0)
}
