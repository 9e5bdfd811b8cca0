//! Who looks for what must not be, from outside: at applications, servers, log and counters, never into a worker.
//!
//! Always true: each check by itself is enough to accuse.
//! Not here: what applications (1, 11) and sessions (2, 3, 11) see by themselves (`app::ear`, `session`).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use reactor::Level;
use worker::letters::{Force, Parts, Shutdown, Snapshot, ToWorker};

use crate::app::{App, Stage};
use crate::dice::Dice;
use crate::faults::What;
use crate::net::Holder;
use crate::plan::{Habits, Person, Plan, USERS};
use crate::postgres::{Limits, Mood};
use crate::witness::{Charge, Witness};
use crate::world::{ClientEnd, World};

/// Where a world is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Faults,
    Healing {
        since: Time,
    },
    /// The pooler was told to go down when nothing is left to wait for.
    GoingDown {
        since: Time,
    },
    /// Everybody has left.
    Resting {
        since: Time,
        is_asked: bool,
    },
    /// As many as a pool has servers want one at once; pool after pool.
    Census {
        pool: usize,
        since: Time,
        has_begun: bool,
    },
    /// As many as may come in want in at once.
    Crowd {
        since: Time,
        has_begun: bool,
    },
    /// Nobody is left, and nothing must be.
    Last {
        since: Time,
    },
    Over,
}

/// What the checkers remember.
#[derive(Debug)]
pub(crate) struct Checkers {
    pub(crate) phase: Phase,
    /// Workers that have shown themselves.
    pub(crate) shown: Vec<(u8, Snapshot)>,
    /// Workers that have nothing left that a shutdown waits for.
    pub(crate) drained: BTreeSet<u8>,
    /// The configurations in force lately, the newest last.
    forces: Vec<(Time, Arc<Force>)>,
    /// How often the log says why a client is closed.
    logged: HashMap<String, u64>,
    told: HashMap<String, u64>,
    is_calm: bool,
    /// Pools compete for servers.
    has_shared_limits: bool,
    /// Servers that speak nonsense are among the faults.
    is_mad: bool,
    was_reloaded: bool,
    census_most: usize,
    census_from: usize,
}

impl Checkers {
    pub(crate) fn new(plan: &Plan, force: &Arc<Force>) -> Self {
        Self {
            phase: Phase::Faults,
            shown: Vec::new(),
            drained: BTreeSet::new(),
            forces: vec![(Time(0), force.clone())],
            logged: HashMap::new(),
            told: HashMap::new(),
            is_calm: plan.is_calm,
            has_shared_limits: plan.shape.has_shared_limits(),
            is_mad: plan.faults.iter().any(|(_, fault)| matches!(fault.what, What::Mood { mood: Mood::Mad, .. })),
            was_reloaded: false,
            census_most: 0,
            census_from: 0,
        }
    }

    /// Other settings are on their way to the workers.
    pub(crate) fn in_force(&mut self, force: &Arc<Force>, now: Time) {
        self.forces.push((now, force.clone()));
        self.was_reloaded |= self.phase == Phase::Faults;
        // What was replaced a while ago is in force nowhere.
        while self.forces.len() > 1 && now.since(self.forces[1].0) > FORGOTTEN {
            self.forces.remove(0);
        }
    }

    /// How many servers there may be under any of the settings in force.
    fn limits(&self, database: &str, user: &str) -> Limits {
        let mut limits = Limits { pool: 1, database: 1, user: 1 };
        for (_, force) in &self.forces {
            let settings = &force.settings;
            let Some(entry) = settings.database(database) else { continue };
            let pool = settings.pool_limits(&entry, user);
            let widest = |old: u32, new: u32| if old == 0 || new == 0 { 0 } else { old.max(new) };
            limits.pool =
                widest(limits.pool, if pool.servers_max == 0 { 0 } else { pool.servers_max + pool.reserve_max });
            limits.database = widest(limits.database, settings.max_db_connections(&entry).unwrap_or(0));
            limits.user = widest(limits.user, settings.max_user_connections(user).unwrap_or(0));
        }
        limits
    }

    /// A client's connection has ended from the other side.
    pub(crate) fn client_ended(&mut self, app: u32, ended: &ClientEnd, witness: &mut Witness) {
        let since_healed = match self.phase {
            Phase::Faults => Duration::ZERO,
            Phase::Healing { since } => witness.now.since(since),
            _ => Duration::MAX,
        };
        let is_going_down = matches!(self.phase, Phase::GoingDown { .. } | Phase::Over);
        let is_excused = is_going_down || !self.is_calm && since_healed < GRACE;
        match ended {
            ClientEnd::Wanted => {}
            ClientEnd::Silent if is_excused => witness.count("silent ends"),
            ClientEnd::Silent => {
                witness.accuse(Charge::NotServed, format!("application {app} is closed without a word"));
            }
            ClientEnd::Refused { sqlstate, text, is_due } => {
                let is_servers = sqlstate == "57P01";
                let told = self.told.entry(text.clone()).or_default();
                *told += 1;
                if !is_servers && self.logged.get(text).is_none_or(|logged| logged < told) {
                    witness.accuse(Charge::NoReason, format!("application {app} is told {text:?}, the log is not"));
                }
                if *is_due {
                    witness.count("refusals that were due");
                    return;
                }
                let is_reloaded = self.was_reloaded;
                if text == "database removed" && !is_reloaded {
                    witness.accuse(
                        Charge::NoReason,
                        format!("application {app} is told {text:?}, and nobody removed any"),
                    );
                }
                // A pool that is never without waiting clients keeps its servers, and one that shares a limit with it may starve.
                if self.has_shared_limits && text.starts_with("query_wait_timeout") {
                    witness.count("starved beside a busy pool");
                    return;
                }
                let is_known = is_servers || REFUSALS.iter().any(|known| text.starts_with(known));
                let is_limit = LIMITS.iter().any(|known| text.starts_with(known));
                let is_limited = is_limit && !self.is_calm && !matches!(self.phase, Phase::Crowd { .. });
                if !is_known && !is_limit {
                    witness.accuse(Charge::NoReason, format!("application {app} is refused: {sqlstate} {text}"));
                } else if !is_excused && !is_limited {
                    witness.accuse(Charge::NotServed, format!("application {app} is refused: {sqlstate} {text}"));
                }
            }
        }
    }

    /// What a worker has written to its log.
    fn read_log(&mut self, level: Level, line: &str, witness: &mut Witness) {
        witness.note(|| format!("log: {level:?} {line}"));
        let is_nonsense = !self.is_mad && line.contains("nonsense during login");
        if line.contains("protocol surprise") || is_nonsense {
            witness.accuse(Charge::NoReason, line.to_owned());
        }
        let Some((who, why)) = line.split_once("closing because: ") else { return };
        let why = why.rsplit_once(" (age=").map_or(why, |(why, _)| why);
        if who.starts_with("C-") {
            *self.logged.entry(why.to_owned()).or_default() += 1;
        } else if who.starts_with("S-") {
            let is_calm_reason = CALM_REASONS.contains(&why);
            let is_known = is_calm_reason || REASONS.iter().any(|known| why.starts_with(known));
            let is_calm = self.is_calm && !matches!(self.phase, Phase::GoingDown { .. });
            if !is_known || (is_calm && !is_calm_reason) {
                witness.accuse(Charge::NoReason, format!("a server is closed because: {why}"));
            }
            witness.count("servers closed");
        }
    }
}

impl World {
    /// After every event.
    pub(crate) fn check(&mut self) {
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        for worker in 0..self.plan.workers {
            let lines = std::mem::take(&mut net.desk(worker).log);
            for (level, line) in lines {
                self.checkers.read_log(level, &line, &mut self.witness);
            }
        }
        for hit in std::mem::take(&mut self.postgres.hits) {
            self.witness.count("cancels that hit");
            match hit {
                Ok(nonce) => {
                    let app = &self.apps[nonce.app as usize];
                    let (from, to) = app.cancel_range;
                    let is_asked = (from..=to).contains(&nonce.number);
                    let is_left = !matches!(app.stage, Stage::Ready)
                        || app.end.is_none_or(|end| net.end(end ^ 1).is_closed)
                        || app.asked.iter().all(|request| request.nonce.number > nonce.number)
                        || app.has_left_by_itself;
                    if !is_asked && !is_left {
                        let text = format!("{nonce} is cancelled, and application {} did not ask for it", nonce.app);
                        self.witness.accuse(Charge::StrayCancel, text);
                    }
                }
                Err(own) => {
                    self.witness.accuse(Charge::StrayCancel, format!("the pooler's own {own:?} is cancelled"));
                }
            }
        }
        let checkers = &self.checkers;
        let limits = |database: &str, user: &str| checkers.limits(database, user);
        self.postgres.check_limits(net, limits, &mut self.witness);
    }

    /// Now and then.
    pub(crate) fn look(&mut self) {
        self.look_at_memory();
        match self.checkers.phase {
            Phase::Faults | Phase::Over => {}
            Phase::Healing { since } => self.look_at_the_healing(since),
            Phase::GoingDown { since } => self.look_at_who_goes_down(since),
            Phase::Resting { since, is_asked } => self.look_at_rest(since, is_asked),
            Phase::Census { pool, since, has_begun } => self.look_at_the_census(pool, since, has_begun),
            Phase::Crowd { since, has_begun } => self.look_at_the_crowd(since, has_begun),
            Phase::Last { since } => self.look_at_what_is_left(since),
        }
        self.collect_mail();
    }

    fn look_at_memory(&mut self) {
        let net = self.net.borrow();
        for (worker, desk) in net.desks.iter().enumerate() {
            if desk.backlog_most > BACKLOG_MAX {
                let text = format!("worker {worker} had {} bytes in one queue", desk.backlog_most);
                self.witness.accuse(Charge::Memory, text);
            }
        }
    }

    fn is_everybody_done(&mut self) -> bool {
        let late = self.apps.iter().find(|app| {
            app.waits_since.is_some_and(|since| self.witness.now.since(since.max(self.healed_at())) > PATIENCE)
        });
        if let Some(app) = late {
            let (number, database, user) = (app.number, &app.person.database, &app.person.user);
            let doing = match &app.stage {
                Stage::Ready => {
                    format!("{:?}", app.asked.front().map(|request| (request.nonce, request.expects.front())))
                }
                other => format!("{other:?}").chars().take(40).collect(),
            };
            let text = format!("application {number} of {database}/{user} waits too long: {doing}");
            self.witness.accuse(Charge::NotServed, text);
        }
        self.apps.iter().all(App::is_done)
    }

    fn healed_at(&self) -> Time {
        match self.checkers.phase {
            Phase::Healing { since } => since,
            _ => Time(0),
        }
    }

    fn look_at_the_healing(&mut self, since: Time) {
        let now = self.witness.now;
        if self.is_everybody_done() {
            self.checkers.phase = Phase::Resting { since: now, is_asked: false };
        } else if now.since(since) > HEALING_MAX {
            let left: Vec<u32> = self.apps.iter().filter(|app| !app.is_done()).map(|app| app.number).collect();
            self.witness.accuse(Charge::NotServed, format!("applications {left:?} never come to an end"));
        }
    }

    fn look_at_who_goes_down(&mut self, since: Time) {
        let now = self.witness.now;
        if self.checkers.drained.len() == usize::from(self.plan.workers) {
            let net = self.net.borrow();
            let is_ours =
                |end: u32| matches!(net.end(end ^ 1).holder, Holder::Worker { .. }) && !net.end(end ^ 1).is_closed;
            let left = match self.plan.shutdown {
                Some(Shutdown::WaitForServers) => {
                    self.postgres.sessions.iter().filter(|session| is_ours(session.end)).count()
                }
                _ => self.apps.iter().filter_map(|app| app.end).filter(|&end| is_ours(end)).count(),
            };
            if left > 0 {
                self.witness.accuse(Charge::Slots, format!("all workers are drained, and {left} are left"));
            }
            self.witness.count("shutdowns");
            self.checkers.phase = Phase::Over;
        } else if now.since(since) > HEALING_MAX {
            let drained = &self.checkers.drained;
            self.witness.accuse(Charge::NotServed, format!("only {drained:?} of the workers have come to their end"));
        }
    }

    fn look_at_rest(&mut self, since: Time, is_asked: bool) {
        let now = self.witness.now;
        if now.since(since) < REST {
            return;
        }
        if !is_asked {
            self.order(|| ToWorker::Show { question: AT_REST, what: EVERYTHING });
            self.checkers.phase = Phase::Resting { since, is_asked: true };
            return;
        }
        if self.checkers.shown.len() < usize::from(self.plan.workers) {
            return;
        }
        for (worker, snapshot) in std::mem::take(&mut self.checkers.shown) {
            self.check_rest(worker, &snapshot);
            if self.plan.is_calm {
                self.check_counters(&snapshot);
            }
        }
        self.check_buffers();
        self.checkers.phase = Phase::Census { pool: 0, since: now, has_begun: false };
    }

    /// What a worker shows at any moment: who has a server is whom the server has.
    pub(crate) fn check_shown(&mut self, worker: u8, snapshot: &Snapshot) {
        self.witness.count("snapshots");
        let servers: HashMap<u64, Option<u64>> = snapshot.servers.iter().map(|row| (row.id, row.link)).collect();
        let clients: HashMap<u64, Option<u64>> = snapshot.clients.iter().map(|row| (row.id, row.link)).collect();
        for (here, there, who) in [(&clients, &servers, "client"), (&servers, &clients, "server")] {
            for (&id, link) in here {
                if link.is_some_and(|link| there.get(&link) != Some(&Some(id))) {
                    let text = format!("worker {worker} shows {who} {id} with {link:?}, who is without it");
                    self.witness.accuse(Charge::Counters, text);
                }
            }
        }
        for pool in &snapshot.pools {
            let there = snapshot.servers.iter().filter(|row| row.database == pool.database && row.user == pool.user);
            let states =
                [pool.sv_active, pool.sv_being_canceled, pool.sv_idle, pool.sv_used, pool.sv_tested, pool.sv_login];
            let (rows, sum) = (there.count() as u32, states.iter().sum::<u32>());
            if rows != sum {
                self.witness.accuse(Charge::Counters, format!("worker {worker} shows {rows} servers of {pool:?}"));
            }
        }
    }

    /// Nobody is here: so nobody is counted.
    fn check_rest(&mut self, worker: u8, snapshot: &Snapshot) {
        let mut accuse = |text: String| {
            self.witness.accuse(Charge::Slots, format!("worker {worker} at rest: {text}"));
        };
        if !snapshot.clients.is_empty() || snapshot.login_clients > 0 {
            accuse(format!("{} clients and {} that log in", snapshot.clients.len(), snapshot.login_clients));
        }
        for pool in &snapshot.pools {
            let busy = pool.cl_active + pool.cl_waiting + pool.cl_active_cancel_req + pool.sv_active;
            let unclean = pool.sv_being_canceled + pool.sv_tested + pool.sv_login;
            if busy + unclean > 0 {
                accuse(format!("{pool:?}"));
            }
        }
        for user in snapshot.users.iter().filter(|user| user.clients > 0) {
            accuse(format!("{} clients of {}", user.clients, user.name));
        }
        for database in snapshot.databases.iter().filter(|database| database.clients > 0) {
            accuse(format!("{} clients of {}", database.clients, database.name));
        }
        if snapshot.protocol_surprises > 0 && !self.checkers.is_mad {
            self.witness.accuse(Charge::NoReason, format!("{} protocol surprises", snapshot.protocol_surprises));
        }
    }

    /// Where nothing went wrong, the counters say exactly what happened.
    fn check_counters(&mut self, snapshot: &Snapshot) {
        for (name, totals) in &snapshot.stats {
            let there = |app: &&App| *app.person.database == **name;
            let people: Vec<&App> = self.apps.iter().filter(there).collect();
            if people.is_empty() {
                continue;
            }
            let logins: u64 = people.iter().map(|app| app.logins).sum();
            let transactions: u64 = people.iter().map(|app| app.transactions).sum();
            let queries: u64 = people.iter().map(|app| app.queries).sum();
            let is_exact = people.iter().all(|app| app.is_countable());
            let text =
                format!("{name}: {totals:?}; seen: {logins} logins, {transactions} transactions, {queries} queries");
            if totals.client_login_count != logins
                || (is_exact && (totals.xact_count, totals.query_count) != (transactions, queries))
            {
                self.witness.accuse(Charge::Counters, text);
            }
        }
    }

    fn check_buffers(&mut self) {
        let net = self.net.borrow();
        let desk = &net.desks[0];
        if desk.buffers.free() != desk.buffers.count() {
            let lost = desk.buffers.count() - desk.buffers.free();
            self.witness.accuse(Charge::Memory, format!("{lost} receive buffers are not at home"));
        }
    }

    fn newcomer(&self, user: &str, database: &str, habits: Habits) -> App {
        let number = self.apps.len() as u32;
        let person = Person {
            user: user.to_owned(),
            database: database.to_owned(),
            errands: 1,
            transactions: false,
            proof: self.plan.proof,
            knows_any_database: false,
        };
        let secret = self.plan.passwords[user].clone();
        App::new(number, person, habits, secret, Dice::new(self.plan.seed, 1000 + u64::from(number)))
    }

    fn look_at_the_census(&mut self, pool: usize, since: Time, has_begun: bool) {
        let now = self.witness.now;
        let (db, user) = (pool / 2, USERS[pool % 2]);
        let Some(database) = self.plan.shape.databases.get(db).map(|db| db.name.clone()) else {
            self.checkers.phase = Phase::Crowd { since: now, has_begun: false };
            return;
        };
        let settings = &self.force.settings;
        let Some(entry) = settings.databases.get(&*database).cloned() else { return };
        let unlimited = |limit: Option<u32>| limit.filter(|&limit| limit > 0).unwrap_or(u32::MAX);
        let wanted = settings
            .pool_limits(&entry, user)
            .servers_max
            .min(unlimited(settings.max_db_connections(&entry)))
            .min(unlimited(settings.max_user_connections(user)))
            .min(unlimited(settings.max_user_client_connections(user)))
            .min(settings.max_client_conn) as usize;
        if !has_begun {
            self.checkers.census_from = self.apps.len();
            self.checkers.census_most = 0;
            for _ in 0..wanted {
                let app = self.newcomer(user, &database, Habits { sleeps: CENSUS_MILLIS, ..Habits::default() });
                let net = self.net.clone();
                self.arrive(app, &mut net.borrow_mut());
            }
            self.checkers.phase = Phase::Census { pool, since: now, has_begun: true };
            return;
        }
        let busy = self.postgres.sessions.iter().filter(|session| session.is_working()).count();
        self.checkers.census_most = self.checkers.census_most.max(busy);
        if self.is_everybody_done() {
            if self.checkers.census_most < wanted {
                let most = self.checkers.census_most;
                let text = format!("{wanted} clients of {database}/{user} may have servers at once, {most} got them");
                self.witness.accuse(Charge::Slots, text);
            }
            self.checkers.phase = Phase::Census { pool: pool + 1, since: now, has_begun: false };
        } else if now.since(since) > HEALING_MAX {
            self.witness.accuse(Charge::NotServed, format!("the census of {database}/{user} does not end"));
        }
    }

    fn look_at_the_crowd(&mut self, since: Time, has_begun: bool) {
        let now = self.witness.now;
        if !has_begun {
            let settings = &self.force.settings;
            let user = USERS[0];
            let unlimited = |limit: Option<u32>| limit.filter(|&limit| limit > 0).unwrap_or(u32::MAX);
            let most = settings.max_client_conn.min(unlimited(settings.max_user_client_connections(user))).min(60);
            let database = self.plan.shape.databases[0].name.clone();
            for _ in 0..most {
                let habits = Habits { think: (500_000, 500_000), ..Habits::default() };
                let app = self.newcomer(user, &database, habits);
                let net = self.net.clone();
                self.arrive(app, &mut net.borrow_mut());
            }
            self.checkers.phase = Phase::Crowd { since: now, has_begun: true };
        } else if self.is_everybody_done() {
            let last = self.plan.shape.last();
            let net = self.net.clone();
            self.reload(&mut net.borrow_mut(), &last);
            self.checkers.phase = Phase::Last { since: now };
        } else if now.since(since) > HEALING_MAX {
            self.witness.accuse(Charge::NotServed, "the crowd does not come to an end".to_owned());
        }
    }

    fn look_at_what_is_left(&mut self, since: Time) {
        if self.witness.now.since(since) < LAST {
            return;
        }
        self.check_buffers();
        for worker in 0..self.plan.workers {
            let lines = self.net.borrow().desks[usize::from(worker)].lines();
            if lines > 0 {
                self.witness
                    .accuse(Charge::Slots, format!("worker {worker} has {lines} connections, and nobody is here"));
            }
            if let Some(deadline) = self.deadline_of(worker) {
                let text = format!("worker {worker} waits for {deadline:?}, and nobody is here");
                self.witness.accuse(Charge::Memory, text);
            }
        }
        if self.net.borrow().descriptors > 0 {
            let text = format!("{} descriptors are open, and nobody is here", self.net.borrow().descriptors);
            self.witness.accuse(Charge::Slots, text);
        }
        self.checkers.phase = Phase::Over;
    }
}

/// All that a worker shows.
pub(crate) const EVERYTHING: Parts = Parts { clients: true, servers: true, pools: true, stats: true, memory: true };
/// The question that is asked when everybody has left.
pub(crate) const AT_REST: u64 = 0;
/// Why a client may be refused while something is wrong.
const REFUSALS: [&str; 23] = [
    "server login failed",
    "password authentication failed",
    "pooler is shutting down",
    "server shutting down",
    "query_wait_timeout",
    "query_timeout",
    "query timeout",
    "idle transaction timeout",
    "transaction timeout",
    "client_idle_timeout",
    "client_login_timeout",
    "server conn crashed?",
    "server login has been failing, cached error: ",
    "database removed",
    "no such database: ",
    "sorry, too many clients already",
    "the database system is starting up",
    "connect failed",
    "connect timeout",
    "server DNS lookup failed",
    "no more connections allowed (out of file descriptors)",
    "invalid server parameter",
    "terminating connection due to administrator command",
];
/// Limits that a plan may set so low that they are met.
const LIMITS: [&str; 3] =
    ["no more connections allowed (max_client_conn)", "client connections exceeded", "client_login_timeout"];
/// Why a server may be closed while something is wrong.
const REASONS: [&str; 21] = [
    "server login failed",
    "password authentication failed",
    "server conn crashed?",
    "connect failed",
    "connect timeout",
    "database removed",
    "database configuration changed",
    "connect string changed",
    "close_needed",
    "obsolete connection",
    "too many servers in the pool",
    "sorry, too many clients already",
    "the database system is starting up",
    "idle server got dirty",
    "client disconnect before everything was sent to the server",
    "could not be made clean",
    "cancel_wait_timeout",
    "server DNS lookup failed",
    "query timeout",
    "var change failed",
    "invalid server parameter",
];
/// Why a server may be closed at any time.
const CALM_REASONS: [&str; 5] = [
    "server idle timeout",
    "server lifetime over",
    "evicted",
    "unproven after a failed COPY",
    "too many servers in the pool",
];
/// After this time a replaced configuration is in force nowhere.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// How long after the healing a fault may still be felt.
const GRACE: Duration = Duration::from_secs(20);
/// How long anybody may wait once the world has healed.
const PATIENCE: Duration = Duration::from_secs(90);
const HEALING_MAX: Duration = Duration::from_secs(600);
/// Longer than a dial that began before the healing may hang.
const REST: Duration = Duration::from_secs(20);
/// Longer than any default: alarms that ring for nothing, which are no leak, have rung by then.
const LAST: Duration = Duration::from_secs(7300);
/// How long each of a census keeps its server.
const CENSUS_MILLIS: u32 = 4000;
/// More bytes than any one connection may have in its queue.
const BACKLOG_MAX: usize = 1 << 18;
