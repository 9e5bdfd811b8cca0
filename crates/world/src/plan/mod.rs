//! What a seed draws before its world begins: configuration, applications, habits, faults.
//!
//! Always true: a plan determines the whole world; removing an application or a fault changes nothing else in the plan.
//! Not here: how the world runs (`world`), what a fault does (`faults`).

pub(crate) mod after_faults;
pub(crate) mod auth_plan;
pub(crate) mod clusters;
mod console;
pub(crate) mod fault;
mod faults;
pub(crate) mod group;
pub(crate) mod lengths;
pub(crate) mod marks;
mod people;
pub(crate) mod rates;
pub(crate) mod replicas;
mod spans;
pub(crate) mod streams;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use auth::{ScramSecret, Secret};
use protocol::client::login::Method;
use worker::letters::{Right, Shutdown};

use crate::checks::board::Word;
use crate::plan::auth_plan::AuthPlan;
use crate::plan::clusters::ClusterPlan;
use crate::plan::fault::{Fault, What};
use crate::plan::group::{Group, Line};
use crate::plan::lengths::Lengths;
use crate::plan::streams::Stream;
use crate::postgres::manner::HostTls;
use crate::postgres::manner::Manner;
use crate::sim::dice::Dice;
use crate::sim::fake_tls::{CERTIFICATE, FakeTls, KEY};
use crate::sim::net::Pace;

/// The plan of a world.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) workers: u8,
    pub(crate) shape: Shape,
    pub(crate) people: Vec<(u32, Person, Habits)>,
    pub(crate) faults: Vec<(u32, Fault)>,
    pub(crate) heals_at: u64,
    pub(crate) pace: Pace,
    /// How a worker cuts what it sends into chunks, and its work into turns, makes no difference.
    pub(crate) ignores_cuts: bool,
    pub(crate) manner: Manner,
    pub(crate) hosts: usize,
    pub(crate) buffers: usize,
    /// Nothing goes wrong in this world but what the applications themselves do.
    pub(crate) is_calm: bool,
    /// The only faults of this world are its timers, which may have any value.
    pub(crate) is_timed: bool,
    /// How long the longest statement lasts.
    pub(crate) longest: Duration,
    /// How long letters take, least and most, microseconds.
    pub(crate) post: (u64, u64),
    pub(crate) secrets: BTreeMap<String, Arc<Secret>>,
    pub(crate) passwords: BTreeMap<String, Arc<Secret>>,
    pub(crate) proof: Proof,
    pub(crate) tls: FakeTls,
    pub(crate) auth: AuthPlan,
    /// The shutdowns that end this world, with their times in microseconds.
    pub(crate) shutdowns: Vec<(u64, Shutdown)>,
    pub(crate) group: Group,
    /// The cluster whose members the hosts are.
    pub(crate) cluster: Option<ClusterPlan>,
}

/// A configuration, before it is written as text.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) settings: BTreeMap<&'static str, String>,
    pub(crate) databases: Vec<Db>,
    pub(crate) peers: Vec<Line>,
    /// The host of databases without an entry (`*`).
    pub(crate) autodb: Option<usize>,
    /// Further lines of `[databases]`.
    pub(crate) more: String,
    /// Lines of `[rate_limits]`.
    pub(crate) rate_limits: String,
    /// The line of `[clusters]`.
    pub(crate) cluster: Option<String>,
}

/// A line of `[databases]`.
#[derive(Clone, Debug)]
pub(crate) struct Db {
    pub(crate) name: String,
    pub(crate) host: usize,
    pub(crate) is_named: bool,
    pub(crate) mode: &'static str,
    pub(crate) pool_size: u32,
    pub(crate) connections_max: u32,
    pub(crate) connect_query: Option<&'static str>,
    /// Which hosts of the cluster it is on; `None` if it is on its own host.
    pub(crate) role: Option<&'static str>,
}

/// An application's user, database and amount of work.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Number of transactions that it still has to do.
    pub(crate) errands: u32,
    /// Whether it may begin transactions.
    pub(crate) transactions: bool,
    /// The kind of proof that the login asks for.
    pub(crate) proof: Proof,
    /// `auth_type` may change, so the login may ask for another kind.
    pub(crate) is_proof_unsure: bool,
    /// There is a `*` entry, so every database name is known.
    pub(crate) knows_any_database: bool,
}

impl Person {
    /// Returns whether it uses the admin console.
    pub(crate) fn is_operator(&self) -> bool {
        self.database == CONSOLE
    }
}

/// How a client is authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Proof {
    None,
    Password,
    Scram,
}

/// What an application does, and how often. Frequencies are per thousand, times in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Habits {
    pub(crate) extended: bool,
    pub(crate) flush: bool,
    pub(crate) suspend: bool,
    pub(crate) functions: bool,
    pub(crate) copies: bool,
    pub(crate) several: bool,
    pub(crate) zones: bool,
    pub(crate) dirty: bool,
    pub(crate) errors: bool,
    pub(crate) big: u32,
    pub(crate) cancels: u32,
    pub(crate) pipelines: u32,
    pub(crate) transactions: u32,
    pub(crate) vanishes: u32,
    pub(crate) deafness: u32,
    pub(crate) dawdles: u32,
    pub(crate) reconnects: u32,
    pub(crate) rests: u32,
    pub(crate) think: (u64, u64),
    pub(crate) arrival: (u64, u64),
    /// It sends its first request together with its startup packet.
    pub(crate) hasty: u32,
    /// It sets `app.mark`, and takes session-level advisory locks.
    pub(crate) marks: bool,
    /// Its session begins with a value of `app.mark`.
    pub(crate) is_given_mark: bool,
    /// It uses LISTEN and NOTIFY.
    pub(crate) listens: bool,
    /// It prepares statements by SQL `PREPARE`.
    pub(crate) prepares: bool,
    /// It writes rows.
    pub(crate) writes: bool,
    /// It sets a TimeZone that is unknown to every server.
    pub(crate) lost: u32,
    /// Its answers may be longer than what the pooler buffers for it.
    pub(crate) huge: u32,
    /// The longest value that is not big.
    pub(crate) value_max: u64,
    /// All clients have the same parameters, so no server has to be sent any.
    pub(crate) is_plain: bool,
    /// All it does is to keep a server for so many milliseconds.
    pub(crate) sleeps: u32,
    /// How long its statements may last.
    pub(crate) lasts: Lengths,
    /// It connects in a guise other than the usual one.
    pub(crate) strange: u32,
    /// It breaks the protocol.
    pub(crate) rude: u32,
    /// In statement mode it tries to begin a transaction.
    pub(crate) stubborn: u32,
    /// It uses named prepared statements.
    pub(crate) named: bool,
    /// It asks for TLS; never if TLS is not offered.
    pub(crate) tls: u32,
    /// It opens replication connections, which need a dedicated server.
    pub(crate) replicates: bool,
    /// Its cancel requests seem to have been forwarded by another process of the group.
    pub(crate) relays: u32,
    /// It uses the admin console with this right.
    pub(crate) console: Option<Right>,
    /// Its statements carry trace contexts.
    pub(crate) traces: bool,
    /// It continues or leaves once it has its answer, even if its cancel request is still under way.
    pub(crate) hurries: u32,
}

impl Shape {
    /// The text of the configuration file.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("[databases]\n");
        for db in &self.databases {
            let host = match db.role {
                Some(role) => format!("cluster=main role={role}"),
                None if db.is_named => format!("host=host{} port=5432", db.host),
                None => format!("host=10.200.0.{} port=5432", db.host),
            };
            let Db { name, mode, pool_size, .. } = db;
            let _ = write!(text, "{name} = {host} pool_mode={mode} pool_size={pool_size}");
            if db.connections_max > 0 {
                let _ = write!(text, " max_db_connections={}", db.connections_max);
            }
            if let Some(query) = db.connect_query {
                let _ = write!(text, " connect_query='{query}'");
            }
            text.push('\n');
        }
        if let Some(host) = self.autodb {
            let _ = writeln!(text, "* = host=10.200.0.{host} pool_mode=transaction pool_size=2");
        }
        text.push_str(&self.more);
        self.text_of_peers(&mut text);
        let _ = write!(text, "[rate_limits]\n{}", self.rate_limits);
        if let Some(line) = &self.cluster {
            let _ = writeln!(text, "[clusters]\n{line}");
        }
        text.push_str(
            "[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_file = users\nadmin_users = admin\nstats_users = watcher\n\
             stats_period = 600\nlock_sweep_interval = 0\n",
        );
        for (name, value) in &self.settings {
            let _ = writeln!(text, "{name} = {value}");
        }
        text
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl ToString) {
        self.settings.insert(name, value.to_string());
    }

    /// Returns whether pools of several databases compete for the servers of a user.
    pub(crate) fn has_shared_limits(&self) -> bool {
        self.settings.contains_key("max_user_connections")
    }

    /// Returns whether session state follows clients.
    pub(crate) fn follows_state(&self) -> bool {
        self.settings.get("session_state").is_some_and(|state| state == "follow")
    }

    /// How applications are told that notifications may have been lost, unless they are disconnected.
    pub(crate) fn word_of_loss(&self) -> Option<Word> {
        match &**self.settings.get("notify_lost")? {
            "notice" => Some(Word::Notice),
            "notify" => Some(Word::Notification),
            _ => None,
        }
    }

    /// A changed configuration, as an operator might write later.
    pub(crate) fn redrawn(&self, dice: &mut Dice) -> Self {
        let mut next = self.clone();
        for db in &mut next.databases {
            if dice.chance(300) {
                db.pool_size = dice.among(1..=6) as u32;
            }
            if dice.chance(100) {
                db.connections_max = dice.among(0..=6) as u32;
            }
        }
        if dice.chance(150) && next.databases.len() > 1 {
            let gone = dice.among(0..=next.databases.len() as u64 - 1) as usize;
            // A database that only `*` names afterwards must have the pool mode of `*`.
            if next.autodb.is_none() || next.databases[gone].mode == "transaction" {
                next.databases.remove(gone);
            }
        }
        if dice.chance(300) {
            next.set("max_client_conn", dice.among(5..=60));
        }
        for limit in ["max_db_client_connections", "max_user_client_connections"] {
            if dice.chance(150) {
                next.set(limit, dice.among(0..=15));
            }
        }
        if dice.chance(300) {
            next.set("max_user_connections", dice.among(0..=6));
        }
        draw_timeouts(&mut next, dice);
        if next.settings.contains_key("max_prepared_statements") {
            next.set("max_prepared_statements", dice.among(1..=6));
        }
        next
    }
}

/// Draws timeouts short enough to expire.
fn draw_timeouts(shape: &mut Shape, dice: &mut Dice) {
    for (name, often, range) in [
        ("query_wait_timeout", 500, 1..=20),
        ("server_idle_timeout", 500, 1..=10),
        ("server_lifetime", 300, 1..=20),
        ("query_timeout", 150, 1..=5),
        ("client_idle_timeout", 150, 1..=10),
        ("idle_transaction_timeout", 150, 1..=5),
        ("transaction_timeout", 100, 1..=5),
        ("server_login_retry", 500, 0..=3),
        ("server_connect_timeout", 500, 1..=5),
        ("server_check_delay", 300, 0..=2),
        ("client_login_timeout", 200, 1..=10),
        ("cancel_wait_timeout", 200, 1..=3),
        ("min_pool_size", 200, 1..=3),
    ] {
        if dice.chance(often) {
            shape.set(name, dice.among(range));
        }
    }
}

fn shape(dice: &mut Dice, hosts: usize, is_calm: bool) -> Shape {
    let mut databases = Vec::new();
    for number in 0..dice.among(1..=4) {
        let mode = dice.pick(&["transaction", "transaction", "transaction", "session", "statement"]);
        databases.push(Db {
            name: format!("{mode}{number}"),
            host: dice.among(0..=hosts as u64 - 1) as usize,
            is_named: dice.chance(200),
            mode,
            pool_size: dice.among(1..=5) as u32,
            connections_max: if dice.chance(250) { dice.among(1..=5) as u32 } else { 0 },
            connect_query: dice.pick(&[None, None, None, None, None, None, Some("select 1"), Some("broken")]),
            role: None,
        });
    }
    let autodb = if dice.chance(150) { Some(dice.among(0..=hosts as u64 - 1) as usize) } else { None };
    let (more, rate_limits) = (String::new(), String::new());
    let mut shape =
        Shape { settings: BTreeMap::new(), databases, peers: Vec::new(), autodb, more, rate_limits, cluster: None };
    if autodb.is_some() {
        shape.set("autodb_idle_timeout", dice.among(1..=5));
    }
    if dice.chance(100) {
        shape.set("server_reset_query_always", 1);
    }
    if dice.chance(100) {
        shape.set("application_name_add_host", 1);
    }
    shape.set("max_client_conn", if is_calm { 1000 } else { dice.among(15..=60) });
    if dice.chance(250) {
        shape.set("max_user_connections", dice.among(2..=8));
    }
    if dice.chance(150) && !is_calm {
        shape.set("max_user_client_connections", dice.among(5..=20));
    }
    if dice.chance(150) && !is_calm {
        shape.set("max_db_client_connections", dice.among(3..=15));
    }
    if dice.chance(200) {
        shape.set("server_round_robin", 1);
    }
    if dice.chance(200) {
        shape.set("query_wait_notify", 1);
    }
    if dice.chance(200) {
        shape.set("reserve_pool_size", dice.among(1..=2));
        shape.set("reserve_pool_timeout", dice.among(0..=2));
    }
    if dice.chance(300) {
        shape.set("server_check_query", "select 1");
        shape.set("server_check_delay", dice.among(0..=1));
    }
    shape.set("server_login_retry", dice.among(0..=2));
    shape.set("log_connections", u8::from(dice.chance(500)));
    if is_calm {
        if dice.chance(300) {
            shape.set("server_lifetime", dice.among(1..=3));
        }
    } else {
        draw_timeouts(&mut shape, dice);
    }
    shape
}

fn users(dice: &mut Dice, plan: &mut Plan) {
    let (auth_type, secrets, method) = dice.pick(&[
        ("trust", 'p', None),
        ("trust", 'p', None),
        ("trust", 'p', Some(Method::Plain)),
        ("trust", 'p', Some(Method::Md5)),
        ("trust", 'p', Some(Method::Scram)),
        ("plain", 'p', Some(Method::Md5)),
        ("md5", 'p', Some(Method::Md5)),
        ("md5", 'p', None),
        ("scram-sha-256", 's', Some(Method::Scram)),
        ("scram-sha-256", 's', None),
        ("scram-sha-256", 'p', Some(Method::Plain)),
    ]);
    plan.shape.set("auth_type", auth_type);
    plan.shape.set("scram_iterations", 2);
    plan.proof = match auth_type {
        "trust" => Proof::None,
        "scram-sha-256" => Proof::Scram,
        _ => Proof::Password,
    };
    plan.manner.method = method;
    for user in USERS {
        let password = format!("secret of {user}");
        let mut text = password.clone();
        if secrets == 's' {
            text = ScramSecret::derive(password.as_bytes(), user.as_bytes(), 8).to_string();
        }
        plan.secrets.insert(user.to_owned(), Arc::new(Secret::parse(&text)));
        plan.passwords.insert(user.to_owned(), Arc::new(Secret::parse(&password)));
    }
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 0);
        let mut plan = Self::begin(seed, &mut dice);
        users(&mut dice, &mut plan);
        let has_cluster = plan.draw_cluster();
        plan.set_tls();
        let common = plan.draw_common(&mut dice);
        plan.draw_people(&mut dice, &common);
        if has_cluster {
            plan.shape.set("session_state", "pgbouncer");
            plan.draw_writers();
            return plan;
        }
        plan.draw_replicas();
        plan.draw_marks();
        if dice.chance(250) {
            plan.draw_operators(&mut dice, &common);
        }
        if dice.chance(200) {
            plan.draw_shutdowns(&mut dice);
        }
        if !plan.is_calm {
            plan.draw_faults(&mut dice);
        }
        plan.draw_auth();
        let is_proof_unsure = plan.faults.iter().any(|(_, fault)| matches!(fault.what, What::AuthType { .. }));
        plan.people.iter_mut().for_each(|(_, person, _)| person.is_proof_unsure = is_proof_unsure);
        plan.draw_group();
        plan.draw_evictions();
        plan.draw_console();
        plan.draw_lengths();
        plan.draw_rates();
        plan.draw_spans();
        if Dice::new(seed, Stream::Resets.number()).chance(500) {
            plan.shape.set("server_reset_query", "DISCARD ALL; select 1");
        }
        plan
    }

    /// Draws the world without its applications.
    fn begin(seed: u64, dice: &mut Dice) -> Self {
        let is_calm = dice.chance(150);
        let hosts = dice.among(1..=3) as usize;
        let is_torn = dice.chance(300);
        let latency_most = dice.pick(&[50, 300, 3_000]);
        let workers = dice.pick(&[1, 1, 2, 3]);
        Self {
            seed,
            ignores_cuts: false,
            workers,
            shape: shape(dice, hosts, is_calm),
            people: Vec::new(),
            faults: Vec::new(),
            heals_at: dice.among(1_000_000..=8_000_000),
            pace: Pace {
                latency: (10, latency_most),
                torn: if is_torn { dice.pick(&[100, 400, 1000]) } else { 0 },
                window: dice.pick(&[2_000, 16_384, 65_536]),
                bandwidth: dice.pick(&[2_000, 100_000, 1_000_000]),
                narrow: if dice.chance(300) { 200 } else { 0 },
            },
            manner: Manner {
                work: (20, dice.pick(&[200, 2_000])),
                notifies: if dice.chance(200) { 20 } else { 0 },
                ..Manner::default()
            },
            hosts,
            buffers: dice.pick(&[6, 16, 128]),
            is_calm,
            is_timed: false,
            longest: Duration::ZERO,
            post: (1, dice.pick(&[50, 5_000])),
            secrets: BTreeMap::new(),
            passwords: BTreeMap::new(),
            proof: Proof::None,
            tls: FakeTls::draw(seed, hosts),
            auth: AuthPlan::default(),
            shutdowns: Vec::new(),
            group: Group::default(),
            cluster: None,
        }
    }

    /// Sets the TLS settings.
    fn set_tls(&mut self) {
        let FakeTls { is_offered, is_required, .. } = self.tls;
        if is_offered {
            self.shape.set("client_tls_sslmode", if is_required { "require" } else { "allow" });
            self.shape.set("client_tls_cert_file", CERTIFICATE);
            self.shape.set("client_tls_key_file", KEY);
        }
        if self.tls.hosts.contains(&HostTls::Demanded) {
            self.shape.set("server_tls_sslmode", "require");
        }
    }

    /// Draws a shutdown of the pooler, during the faults or after them.
    fn draw_shutdowns(&mut self, dice: &mut Dice) {
        let way = dice.pick(&[Shutdown::WaitForClients, Shutdown::WaitForServers]);
        let is_early = !self.is_calm && dice.chance(500);
        let at = if is_early { dice.among(0..=self.heals_at) } else { self.heals_at };
        self.shutdowns.push((at, way));
        if dice.chance(250) {
            // The operator loses patience, at once or soon.
            self.shutdowns.push((at + dice.among(0..=2_000_000), Shutdown::Now));
        }
    }
}

/// All users with a secret.
pub(crate) const USERS: [&str; 4] = ["ann", "bob", ADMIN, WATCHER];
/// The user that may do everything on the console, and the one that may only use SHOW.
pub(crate) const ADMIN: &str = "admin";
pub(crate) const WATCHER: &str = "watcher";
/// A database without an entry.
pub(crate) const AUTODB: &str = "transaction_auto";
/// The database name of the console.
pub(crate) const CONSOLE: &str = "pgbouncer";
