//! What the checkers remember: the phase of the world, the configurations in force, log lines, and errors of clients.
//!
//! Always true: each accusation made here rests on a single event.
//! Not here: when somebody looks (`checks`, `phases`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use reactor::Level;
use worker::letters::{ActiveConfig, Detail, Parts, Shutdown, Snapshot};

use crate::app::Ended;
use crate::checks::archive::Archive;
use crate::checks::counters::Counters;
use crate::checks::witness::{Charge, Witness};
use crate::plan::fault::What;
use crate::plan::{Person, Plan};
use crate::postgres::Limits;
use crate::postgres::manner::Mood;
use crate::postgres::sql::Nonce;

/// What the checkers remember.
#[derive(Debug)]
pub(crate) struct Checkers {
    pub(crate) phase: Phase,
    /// Snapshots that workers have sent.
    pub(crate) shown: Vec<(u8, Snapshot)>,
    /// Workers with nothing left that a shutdown waits for.
    pub(crate) drained: BTreeSet<u8>,
    /// The kind of shutdown that was ordered.
    pub(crate) shutdown: Option<Shutdown>,
    /// The configurations in force lately, the newest last.
    pub(crate) forces: Vec<(Time, Arc<ActiveConfig>)>,
    /// How often the log gives each reason for closing a client.
    logged: HashMap<String, u64>,
    /// The numbers of clients that the log calls killed, until they are checked.
    pub(crate) killed: Vec<u64>,
    /// How often each reason has reached a client in an error.
    received: HashMap<String, u64>,
    is_calm: bool,
    /// The only faults of this world are its timers.
    is_timed: bool,
    /// `auth_file` may lack users for a while, whose connections are not counted then.
    pub(crate) are_users_lost: bool,
    /// Pools compete for servers.
    has_shared_limits: bool,
    /// The hosts are members of a cluster, whose roles change.
    has_cluster: bool,
    /// Servers that send nonsense are among the faults.
    pub(super) is_mad: bool,
    /// Databases may have been removed, or their clients killed.
    pub(crate) was_removed: bool,
    /// The settings that limit how long and how many servers may be pinned, as they appear in errors.
    limits_of_pins: Vec<&'static str>,
    /// Number of clients that had more notifications pending than they may have, and have not been told so.
    overflows: u32,
    /// The most clients that had a server at once in the present census.
    pub(crate) census_most: usize,
    /// Statements that run on although their client has left, and since when, by server.
    pub(super) left_running: BTreeMap<u32, (Nonce, Time)>,
    /// When the new process of an online restart took over.
    pub(crate) restarted: Time,
    pub(crate) counters: Counters,
}

/// The phase of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Faults,
    Healing {
        since: Time,
    },
    /// A shutdown was ordered that waits until nothing is left to wait for.
    GoingDown {
        since: Time,
    },
    /// No worker is left; the bytes that they sent are still under way.
    Gone {
        since: Time,
    },
    /// All applications have left.
    Resting {
        since: Time,
        is_asked: bool,
    },
    /// As many clients as a pool has servers want one at once; pool after pool.
    Census {
        pool: usize,
        since: Time,
        has_begun: bool,
    },
    /// As many clients as are allowed connect at once.
    Crowd {
        since: Time,
        has_begun: bool,
    },
    /// No client is left, and no resource may be left either.
    Last {
        since: Time,
    },
    Over,
}

impl Checkers {
    pub(crate) fn new(plan: &Plan, active: &Arc<ActiveConfig>) -> Self {
        Self {
            phase: Phase::Faults,
            shown: Vec::new(),
            drained: BTreeSet::new(),
            shutdown: None,
            forces: vec![(Time(0), active.clone())],
            logged: HashMap::new(),
            killed: Vec::new(),
            received: HashMap::new(),
            is_calm: plan.is_calm,
            is_timed: plan.is_timed,
            are_users_lost: plan.faults.iter().any(|(_, fault)| matches!(fault.what, What::Secrets { .. })),
            has_shared_limits: plan.shape.has_shared_limits(),
            has_cluster: plan.cluster.is_some(),
            is_mad: plan.faults.iter().any(|(_, fault)| matches!(fault.what, What::Mood { mood: Mood::Mad, .. })),
            was_removed: false,
            limits_of_pins: plan.shape.limits_of_pins(),
            overflows: 0,
            census_most: 0,
            left_running: BTreeMap::new(),
            restarted: Time(0),
            counters: Counters::default(),
        }
    }

    /// A new configuration is on its way to the workers.
    pub(crate) fn in_force(&mut self, active: &Arc<ActiveConfig>, now: Time) {
        self.forces.push((now, active.clone()));
        self.was_removed |= matches!(self.phase, Phase::Faults | Phase::GoingDown { .. });
        // A configuration that was replaced a while ago is in force nowhere.
        while self.forces.len() > 1 && now.since(self.forces[1].0) > FORGOTTEN {
            self.forces.remove(0);
        }
    }

    /// Returns the configurations that were in force at this time or since. A worker may use one until `reach` after
    /// the next one comes into force.
    pub(crate) fn forces_since(&self, since: Time, reach: Duration) -> impl Iterator<Item = &ActiveConfig> {
        let ends = self.forces.iter().skip(1).map(move |(begun, _)| *begun + reach).chain([Time(u64::MAX)]);
        self.forces.iter().zip(ends).filter(move |(_, end)| *end >= since).map(|((_, active), _)| &**active)
    }

    /// Returns the widest limits of servers in any configuration in force.
    pub(super) fn limits(&self, database: &str, user: &str) -> Limits {
        let mut limits = Limits { pool: 1, beside: 0, database: 1, user: 1, private: None };
        for (_, active) in &self.forces {
            let settings = &active.settings;
            let widest = |old: u32, new: u32| if old == 0 || new == 0 { 0 } else { old.max(new) };
            // A user's servers of other databases count whether this database exists or not.
            limits.user = widest(limits.user, settings.max_user_connections(user).unwrap_or(0));
            let Some(entry) = settings.database(database) else { continue };
            let pool = settings.pool_limits(&entry, user);
            limits.pool =
                widest(limits.pool, if pool.servers_max == 0 { 0 } else { pool.servers_max + pool.reserve_max });
            limits.private = pool.dedicated_max;
            limits.database = widest(limits.database, settings.max_db_connections(&entry).unwrap_or(0));
        }
        limits
    }

    /// The pooler has closed a client's connection.
    pub(crate) fn client_ended(
        &mut self,
        app: u32,
        ended: &Ended,
        who: &Person,
        archive: &mut Archive,
        witness: &mut Witness,
    ) {
        let since_faults = match self.phase {
            Phase::Faults => Duration::ZERO,
            Phase::Healing { since } => witness.now.since(since),
            _ => Duration::MAX,
        };
        let is_going_down = matches!(self.phase, Phase::GoingDown { .. } | Phase::Gone { .. } | Phase::Over);
        let is_excused = is_going_down || !self.is_calm && since_faults < GRACE;
        match ended {
            Ended::Wanted => {}
            Ended::Silent if is_excused => witness.count("silent ends"),
            Ended::Drowned if !self.is_calm || is_going_down => witness.count("words lost to a reset"),
            // The client continued to send when the error was on its way, and the reset of the connection destroyed
            // that.
            Ended::Silent | Ended::Drowned if self.logged.get(STATE_LOST) > self.received.get(STATE_LOST) => {
                *self.received.entry(STATE_LOST.to_owned()).or_default() += 1;
                witness.count("words lost to a reset");
            }
            Ended::Silent | Ended::Drowned => {
                witness.accuse(Charge::NotServed, format!("application {app} is closed without a word"));
            }
            Ended::Refused { sqlstate, text, is_due } => {
                let is_servers = sqlstate == "57P01";
                let received = self.received.entry(text.clone()).or_default();
                *received += 1;
                if !is_servers && self.logged.get(text).is_none_or(|logged| logged < received) {
                    witness.accuse(Charge::NoReason, format!("application {app} is told {text:?}, the log is not"));
                }
                if *is_due {
                    witness.count("refusals that were due");
                    return;
                }
                // A client sent `Sync` messages into a failing COPY and changed its session in the same loan.
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
                // A pool that always has waiting clients keeps its servers, so another pool of the same user may starve
                // beside it. So may the session that listens for all.
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
                let is_fast_close = self.forces.iter().any(|(_, active)| active.settings.server_fast_close);
                if is_fast_close && text.starts_with("database configuration changed") {
                    // With `server_fast_close` a session that was in a transaction when the order came ends after it,
                    // however long that takes.
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

    /// Reads a line of a worker's log.
    pub(super) fn read_log(&mut self, level: Level, line: &str, witness: &mut Witness) {
        witness.note(|| format!("log: {level:?} {line}"));
        if SECRETS.iter().any(|secret| line.contains(secret)) {
            witness.accuse(Charge::ForeignBytes, format!("a secret is in the log: {line}"));
        }
        let is_nonsense = !self.is_mad && line.contains("nonsense during login");
        if line.contains("protocol violation") || is_nonsense {
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
            let is_role = self.has_cluster && ROLES.contains(&why);
            let is_calm_reason = is_role || CALM_REASONS.contains(&why);
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

/// The first characters of passwords and hashes.
const SECRETS: [&str; 2] = ["secret of ", "SCRAM-SHA-256$"];
/// All parts of a worker's snapshot.
pub(crate) const EVERYTHING: Parts = Parts {
    clients: true,
    servers: true,
    pools: true,
    stats: true,
    memory: true,
    logins: true,
    hosts: true,
    pins: true,
    measures: Detail::Histograms,
    applications: true,
    waits: true,
    statements: true,
};
/// The parts that have links. They are so few rows that a snapshot of them is of one moment.
pub(crate) const CONNECTIONS: Parts = Parts { clients: true, servers: true, ..Parts::NOTHING };
/// Number of the request for a snapshot when all applications have left.
pub(crate) const AT_REST: u64 = OF_THE_WORLD;
/// Number of the request for a snapshot at other times.
pub(crate) const LOOKS: u64 = OF_THE_WORLD + 1;
/// Number of the request for the links of clients and servers at other times.
pub(crate) const LINKS: u64 = OF_THE_WORLD + 2;
/// Requests to workers are the world's own from this number on, the control thread's below it.
pub(crate) const OF_THE_WORLD: u64 = 1 << 40;
/// The error at any time for a client that changed its session in the loan in which a COPY failed.
const STATE_LOST: &str = "the session's settings cannot be followed through a failed COPY";
/// The log line about a client that does not read its notifications (`notify_queue_size`).
const OVERFLOW: &str = "more notifications wait for it than notify_queue_size allows";
/// The error for a client that may have missed notifications.
const NEWS_LOST: &str = "notifications may have been lost";
/// Errors that a client may get during faults.
const REFUSALS: &[&str] = &[
    "server at the primary was lost before it answered",
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
/// Errors from limits that a plan may set low enough to be reached.
const LIMITS: [&str; 3] =
    ["no more connections allowed (max_client_conn)", "client connections exceeded", "client_login_timeout"];
/// Reasons for closing a server during faults.
const REASONS: &[&str] = &[
    "drain_timeout of a switchover",
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
    "its client left in the middle of a message that the server sent by itself",
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
/// Reasons that must never close a server in a world without faults, however long statements and timers are.
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
/// Reasons that may close a server at any time.
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
/// Reasons that may close a server at any time where the hosts are members of a cluster.
const ROLES: [&str; 11] = [
    "another host suits better",
    "server conn crashed?",
    "the database system is starting up",
    "obsolete connection",
    "close_needed",
    "database configuration changed",
    "session is read-only",
    "server is not in hot standby mode",
    "its host is not the primary of the cluster any more",
    "its host does not answer any more",
    "clients are held",
];
/// The time after which a replaced configuration is in force nowhere.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(30);
/// The time after which the workers of a new process know of each other's servers.
pub(crate) const ACQUAINTED: Duration = Duration::from_secs(4);
/// How long after the end of the faults their effects may still be felt.
const GRACE: Duration = Duration::from_secs(20);
