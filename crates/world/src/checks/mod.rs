//! Who looks for what must not be, from outside: at applications, servers, log and counters, never into a worker.
//!
//! Always true: each check by itself is enough to accuse.
//! Not here: what applications (1, 11) and sessions (2, 3, 11) see by themselves (`app::ear`, `session`).

pub(crate) mod board;
pub(crate) mod counters;
pub(crate) mod fairness;
pub(crate) mod idle_check;
pub(crate) mod limit_check;
pub(crate) mod overdue;
pub(crate) mod phases;
pub(crate) mod secrets;
pub(crate) mod witness;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use reactor::Level;
use worker::letters::{Force, Parts, Shutdown, Snapshot, Verified};

use crate::app::{Ended, Stage};
use crate::checks::counters::Counters;
use crate::checks::phases::Phase;
use crate::checks::secrets::Archive;
use crate::checks::witness::{Charge, Witness};
use crate::plan::fault::What;
use crate::plan::{Person, Plan};
use crate::postgres::Limits;
use crate::postgres::manner::Mood;
use crate::world::World;

/// What the checkers remember.
#[derive(Debug)]
pub(crate) struct Checkers {
    pub(crate) phase: Phase,
    /// Workers that have shown themselves.
    pub(crate) shown: Vec<(u8, Snapshot)>,
    /// Workers that have nothing left that a shutdown waits for.
    pub(crate) drained: BTreeSet<u8>,
    /// How they were told to go down.
    pub(crate) shutdown: Option<Shutdown>,
    /// The configurations in force lately, the newest last.
    pub(crate) forces: Vec<(Time, Arc<Force>)>,
    /// How often the log says why a client is closed.
    logged: HashMap<String, u64>,
    /// The numbers of clients of which the log says that they are killed, and nobody has looked at it.
    pub(crate) killed: Vec<u64>,
    told: HashMap<String, u64>,
    is_calm: bool,
    /// Nothing goes wrong but by timers.
    is_timed: bool,
    /// The file of secrets may lack users for a while, who are not counted then.
    pub(crate) are_users_lost: bool,
    /// Pools compete for servers.
    has_shared_limits: bool,
    /// Servers that speak nonsense are among the faults.
    is_mad: bool,
    /// Databases may have been removed, or their clients killed.
    pub(crate) was_removed: bool,
    /// The settings by which it may be told that it keeps a server.
    limits_of_pins: Vec<&'static str>,
    /// How many clients had more to be told than they took, and have not been told so.
    overflows: u32,
    /// The most that had a server at once in the present census.
    pub(crate) census_most: usize,
    /// When another process took over.
    pub(crate) restarted: Time,
    pub(crate) counters: Counters,
}

impl Checkers {
    pub(crate) fn new(plan: &Plan, force: &Arc<Force>) -> Self {
        Self {
            phase: Phase::Faults,
            shown: Vec::new(),
            drained: BTreeSet::new(),
            shutdown: None,
            forces: vec![(Time(0), force.clone())],
            logged: HashMap::new(),
            killed: Vec::new(),
            told: HashMap::new(),
            is_calm: plan.is_calm,
            is_timed: plan.is_timed,
            are_users_lost: plan.faults.iter().any(|(_, fault)| matches!(fault.what, What::Secrets { .. })),
            has_shared_limits: plan.shape.has_shared_limits(),
            is_mad: plan.faults.iter().any(|(_, fault)| matches!(fault.what, What::Mood { mood: Mood::Mad, .. })),
            was_removed: false,
            limits_of_pins: plan.shape.limits_of_pins(),
            overflows: 0,
            census_most: 0,
            restarted: Time(0),
            counters: Counters::default(),
        }
    }

    /// Other settings are on their way to the workers.
    pub(crate) fn in_force(&mut self, force: &Arc<Force>, now: Time) {
        self.forces.push((now, force.clone()));
        self.was_removed |= matches!(self.phase, Phase::Faults | Phase::GoingDown { .. });
        // What was replaced a while ago is in force nowhere.
        while self.forces.len() > 1 && now.since(self.forces[1].0) > FORGOTTEN {
            self.forces.remove(0);
        }
    }

    /// The configurations that were in force at this time or since, each as long as some worker may go by it: `reach` after the
    /// next one.
    pub(crate) fn forces_since(&self, since: Time, reach: Duration) -> impl Iterator<Item = &Force> {
        let ends = self.forces.iter().skip(1).map(move |(begun, _)| *begun + reach).chain([Time(u64::MAX)]);
        self.forces.iter().zip(ends).filter(move |(_, end)| *end >= since).map(|((_, force), _)| &**force)
    }

    /// How many servers there may be under any of the settings in force.
    fn limits(&self, database: &str, user: &str) -> Limits {
        let mut limits = Limits { pool: 1, beside: 0, database: 1, user: 1, private: None };
        for (_, force) in &self.forces {
            let settings = &force.settings;
            let widest = |old: u32, new: u32| if old == 0 || new == 0 { 0 } else { old.max(new) };
            // A user's servers at other databases are there whether this one is or not.
            limits.user = widest(limits.user, settings.max_user_connections(user).unwrap_or(0));
            let Some(entry) = settings.database(database) else { continue };
            let pool = settings.pool_limits(&entry, user);
            limits.pool =
                widest(limits.pool, if pool.servers_max == 0 { 0 } else { pool.servers_max + pool.reserve_max });
            limits.private = pool.private_max;
            limits.database = widest(limits.database, settings.max_db_connections(&entry).unwrap_or(0));
        }
        limits
    }

    /// A client's connection has ended from the other side.
    pub(crate) fn client_ended(
        &mut self,
        app: u32,
        ended: &Ended,
        who: &Person,
        archive: &mut Archive,
        witness: &mut Witness,
    ) {
        let since_healed = match self.phase {
            Phase::Faults => Duration::ZERO,
            Phase::Healing { since } => witness.now.since(since),
            _ => Duration::MAX,
        };
        let is_going_down = matches!(self.phase, Phase::GoingDown { .. } | Phase::Gone { .. } | Phase::Over);
        let is_excused = is_going_down || !self.is_calm && since_healed < GRACE;
        match ended {
            Ended::Wanted => {}
            Ended::Silent if is_excused => witness.count("silent ends"),
            Ended::Drowned if !self.is_calm || is_going_down => witness.count("words lost to a reset"),
            // It went on speaking when it was told why, and the words were lost to the reset.
            Ended::Silent | Ended::Drowned if self.logged.get(STATE_LOST) > self.told.get(STATE_LOST) => {
                *self.told.entry(STATE_LOST.to_owned()).or_default() += 1;
                witness.count("words lost to a reset");
            }
            Ended::Silent | Ended::Drowned => {
                witness.accuse(Charge::NotServed, format!("application {app} is closed without a word"));
            }
            Ended::Refused { sqlstate, text, is_due } => {
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
                // Who sends Syncs into a COPY that fails, and leaves something in its session in the same breath.
                if text == STATE_LOST {
                    witness.count("states lost to a failed COPY");
                    return;
                }
                if text == "database removed" && !self.was_removed {
                    witness.accuse(
                        Charge::NoReason,
                        format!("application {app} is told {text:?}, and nobody removed any"),
                    );
                }
                // A pool that is never without waiting clients keeps its servers, and one of the same user's may starve beside it.
                // So may who listens for all.
                if self.has_shared_limits && (text.starts_with("query_wait_timeout") || text == NEWS_LOST) {
                    witness.count("starved beside a busy pool");
                    return;
                }
                if text == NEWS_LOST && self.overflows > 0 {
                    self.overflows -= 1;
                    witness.count("told too much to take");
                    return;
                }
                if self.limits_of_pins.iter().any(|limit| text.contains(limit)) {
                    witness.count("told that they keep too much");
                    return;
                }
                let is_healing = matches!(self.phase, Phase::Healing { .. });
                if is_healing && archive.is_outdated(text, &who.user)
                    || archive.excuses(text, &who.user, is_excused, witness.now)
                {
                    witness.count("refusals for want of an answer");
                    return;
                }
                let is_fast_close = self.forces.iter().any(|(_, force)| force.settings.server_fast_close);
                if is_fast_close && text.starts_with("database configuration changed") {
                    // A session that was in a transaction when it was told so ends behind it, however long that takes.
                    witness.count("sessions closed fast");
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
        if SECRETS.iter().any(|secret| line.contains(secret)) {
            witness.accuse(Charge::ForeignBytes, format!("a secret is in the log: {line}"));
        }
        let is_nonsense = !self.is_mad && line.contains("nonsense during login");
        if line.contains("protocol surprise") || is_nonsense {
            witness.accuse(Charge::NoReason, line.to_owned());
        }
        if let Some((name, _)) = line.strip_prefix("dropping database '").and_then(|rest| rest.split_once('\'')) {
            self.counters.forget(name);
        }
        self.overflows += u32::from(line.contains(OVERFLOW));
        let Some((who, why)) = line.split_once("closing because: ") else { return };
        let why = why.rsplit_once(" (age=").map_or(why, |(why, _)| why);
        if who.starts_with("C-") {
            *self.logged.entry(why.to_owned()).or_default() += 1;
            if why == "admin forced disconnect" {
                let number = who.strip_prefix("C-0x").and_then(|rest| rest.split(':').next());
                self.killed.extend(number.and_then(|number| u64::from_str_radix(number, 16).ok()));
            }
        } else if who.starts_with("S-") {
            let is_calm_reason = CALM_REASONS.contains(&why);
            let is_known = is_calm_reason || REASONS.iter().any(|known| why.starts_with(known));
            let is_calm = self.is_calm && !matches!(self.phase, Phase::GoingDown { .. } | Phase::Gone { .. });
            let is_fault = self.is_timed && FAULTS.iter().any(|fault| why.starts_with(fault));
            if !is_known || is_fault || (is_calm && !is_calm_reason) {
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
        for desk in net.desks.iter_mut().filter(|desk| !desk.log.is_empty()) {
            for (level, line) in desk.log.drain(..) {
                self.checkers.read_log(level, &line, &mut self.witness);
            }
        }
        self.check_log_of_kills();
        self.heed_forgotten_counters();
        for hit in self.postgres.hits.drain(..) {
            self.witness.count("cancels that hit");
            match hit.what {
                Ok(nonce) => {
                    let app = &self.apps[nonce.app as usize];
                    let is_later = app.went_on.is_some_and(|(first, at)| nonce.number >= first && hit.requested < at);
                    if is_later {
                        let text = format!("{nonce} is cancelled by a request that was on its way before it was asked");
                        self.witness.accuse(Charge::StrayCancel, text);
                    }
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
                // Its server was left in the middle of that, and is mended.
                Err(own) if self.links.has_left(net, &own, hit.requested) => {
                    self.witness.count("cancels of who listens")
                }
                // One that went behind a request, which its client has cancelled: it is asked again.
                Err(own) if own.starts_with(QUESTION) => self.witness.count("questions cancelled"),
                Err(own) => {
                    self.witness.accuse(Charge::StrayCancel, format!("the pooler's own {own:?} is cancelled"));
                }
            }
        }
        let guests = std::mem::take(&mut self.witness.guests);
        let is_alone = !self.is_another_closing();
        let reach = if self.archive.are_workers_slow { FORGOTTEN } else { HEARD };
        for app in guests.into_iter().filter(|_| is_alone) {
            limit_check::check(app, reach, &self.apps, net, &self.checkers, &mut self.witness);
        }
        if self.postgres.newcomers.is_empty() {
            return;
        }
        if self.is_another_closing() {
            // Two processes count for themselves.
            self.postgres.newcomers.clear();
            return;
        }
        let newcomers = self.postgres.newcomers.clone();
        self.check_pauses(net, &newcomers);
        let checkers = &self.checkers;
        let now = self.witness.now;
        let links = &self.links;
        let lately = Time(now.0.saturating_sub(reach.as_micros() as u64));
        let limits = |database: &str, user: &str| Limits {
            beside: u32::from(links.is_beside(database, user, lately)),
            // Its workers have not told each other yet how many servers of a user each of them was given.
            user: if now.since(checkers.restarted) < ACQUAINTED { 0 } else { checkers.limits(database, user).user },
            ..checkers.limits(database, user)
        };
        self.postgres.check_limits(net, limits, &mut self.witness);
    }

    pub(crate) fn look_at_memory(&mut self) {
        let net = self.net.borrow();
        for (worker, desk) in net.desks.iter().enumerate() {
            if desk.backlog_most > BACKLOG_MAX {
                let text = format!("worker {worker} had {} bytes in one queue", desk.backlog_most);
                self.witness.accuse(Charge::Memory, text);
            }
        }
    }

    /// What a worker shows at any moment: who has a server is whom the server has.
    pub(crate) fn check_shown(&mut self, worker: u8, snapshot: &Snapshot) {
        self.witness.count("snapshots");
        let servers: HashMap<u64, Option<u64>> = snapshot.servers.iter().map(|row| (row.id, row.link)).collect();
        let clients: HashMap<u64, Option<u64>> = snapshot.clients.iter().map(|row| (row.id, row.link)).collect();
        for (here, there, who) in [(&clients, &servers, "client"), (&servers, &clients, "server")] {
            for (&id, link) in here {
                // The control thread's own questions are clients that nobody is shown.
                if link.is_some_and(|link| link != OWN_QUESTION && there.get(&link) != Some(&Some(id))) {
                    let text = format!("worker {worker} shows {who} {id} with {link:?}, who is without it");
                    self.witness.accuse(Charge::Counters, text);
                }
            }
        }
        self.check_peer_rows(worker, &snapshot.peers);
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
    pub(crate) fn check_rest(&mut self, worker: u8, snapshot: &Snapshot) {
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
        for peer in snapshot.peers.iter().filter(|peer| peer.active + peer.waiting + peer.dialing > 0) {
            accuse(format!("{peer:?}"));
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
        let Verified { sessions, mistaken } = snapshot.verified;
        *self.witness.tally.entry("sessions verified").or_default() += sessions;
        if mistaken > 0 && !self.checkers.is_mad {
            let text = format!("{mistaken} of {sessions} sessions were not what was known of them");
            self.witness.accuse(Charge::LeftOver, text);
        }
    }

    pub(crate) fn check_buffers(&mut self) {
        let net = self.net.borrow();
        let desk = &net.desks[0];
        if desk.buffers.free() != desk.buffers.count() {
            let lost = desk.buffers.count() - desk.buffers.free();
            self.witness.accuse(Charge::Memory, format!("{lost} receive buffers are not at home"));
        }
    }
}

/// How the pooler asks a server what its session has.
const QUESTION: &str = "/* trunkline: what this session keeps */";
/// The number of every client that is a question of the control thread.
const OWN_QUESTION: u64 = 0;
/// How passwords and hashes begin.
const SECRETS: [&str; 2] = ["secret of ", "SCRAM-SHA-256$"];
/// All that a worker shows.
pub(crate) const EVERYTHING: Parts = Parts {
    clients: true,
    servers: true,
    pools: true,
    stats: true,
    memory: true,
    logins: true,
    hosts: true,
    pins: true,
};
/// The question that is asked when everybody has left.
pub(crate) const AT_REST: u64 = OF_THE_WORLD;
/// What is asked when somebody looks.
pub(crate) const LOOKS: u64 = OF_THE_WORLD + 1;
/// From this number on questions to workers are the world's own, and none of the control thread.
pub(crate) const OF_THE_WORLD: u64 = 1 << 40;
/// Why a client may be refused at any time that changed its session in the same loan as a COPY failed.
const STATE_LOST: &str = "the session's settings cannot be followed through a failed COPY";
/// What the log says of a client that does not take what it is told (`notify_queue_size`).
const OVERFLOW: &str = "more notifications wait for it than notify_queue_size allows";
/// What a client is told that may have missed something.
const NEWS_LOST: &str = "notifications may have been lost";
/// Why a client may be refused while something is wrong.
const REFUSALS: &[&str] = &[
    "suspend_timeout",
    "online restart",
    "login failed",
    "authentication database \"",
    "unix socket login rejected",
    "database configuration changed",
    "admin forced disconnect",
    "database \"",
    "SASL authentication failed",
    "\"trust\" authentication failed",
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
    "the session's state could not be read from its server",
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
    NEWS_LOST,
    "terminating connection due to administrator command",
];
/// Limits that a plan may set so low that they are met.
const LIMITS: [&str; 3] =
    ["no more connections allowed (max_client_conn)", "client connections exceeded", "client_login_timeout"];
/// Why a server may be closed while something is wrong.
const REASONS: &[&str] = &[
    "online restart",
    "server refused SSL",
    "login failed",
    "replication client disconnected",
    "client disconnect while server was not ready",
    "pause mode",
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
    "suspend_timeout",
    "cancel_wait_timeout",
    "cancel request was cut off",
    "server DNS lookup failed",
    "query timeout",
    "did not take over the client's settings in time",
    "it does not answer a cancel request after query_timeout",
    "what it was told has been cancelled",
];
/// Why no server may be closed where nothing goes wrong, however long statements last and timers are.
const FAULTS: [&str; 10] = [
    "server conn crashed?",
    "did not take over the client's settings in time",
    "could not be made clean",
    "cancel_wait_timeout",
    "cancel request was cut off",
    "it does not answer a cancel request",
    "connect failed",
    "connect timeout",
    "its session could not be read in time",
    "idle server got dirty",
];
/// Why a server may be closed at any time.
const CALM_REASONS: [&str; 8] = [
    "invalid server parameter",
    "its session could not be read in time",
    "replication client was closed",
    "server idle timeout",
    "server lifetime over",
    "evicted",
    "unproven after a failed COPY",
    "too many servers in the pool",
];
/// After this time a replaced configuration is in force nowhere.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// The same where no worker is ever held up.
const HEARD: Duration = Duration::from_millis(50);
/// After this time the workers of a new process know of each other's servers.
pub(crate) const ACQUAINTED: Duration = Duration::from_secs(4);
/// How long after the healing a fault may still be felt.
const GRACE: Duration = Duration::from_secs(20);
/// More bytes than any one connection may have in its queue.
const BACKLOG_MAX: usize = 1 << 18;
