//! The server under a real run: what is made in it, what is asked of it, what is removed.
//!
//! Always true: nothing is touched whose name does not begin with the prefix, and nothing that was there before; what was made is removed with
//! the guard, unless it is to be kept.
//! Not here: the names (`objects`), the load.

use std::collections::BTreeSet;
use std::time::Duration;

use conninfo::Address;
use nix::unistd::{User, geteuid};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::objects::{Objects, PREFIX, Tenant};
use crate::hatest::{Codes, Machine, Session, Target};

/// A connection that blocks until it has an answer.
pub(super) struct Line {
    runtime: Runtime,
    tasks: LocalSet,
    session: Option<Session>,
}

/// The values of a row.
type Row = Vec<Option<String>>;

impl Line {
    /// Connects.
    pub(super) fn open(target: &Target) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| why.to_string())?;
        let tasks = LocalSet::new();
        let session = tasks.block_on(&runtime, Session::open(target, &mut Codes::default()))?;
        Ok(Self { runtime, tasks, session: Some(session) })
    }

    /// Runs statements, and passes on each row.
    pub(super) fn each(&mut self, sql: &str, each: impl FnMut(Row)) -> Result<(), String> {
        let Some(session) = &mut self.session else { return Err("the connection was lost".to_owned()) };
        // The timer is made inside of the runtime.
        let answer = async { timeout(ANSWER_TIME_MAX, session.rows(sql, each)).await };
        match self.tasks.block_on(&self.runtime, answer) {
            Ok(answer) => answer.map_err(|failure| failure.text()),
            Err(_) => Err(format!("no answer in {} s", ANSWER_TIME_MAX.as_secs())),
        }
    }

    pub(super) fn rows(&mut self, sql: &str) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        self.each(sql, |row| rows.push(row))?;
        Ok(rows)
    }

    pub(super) fn run(&mut self, sql: &str) -> Result<(), String> {
        self.each(sql, |_| ())
    }

    /// The first value of the first row.
    fn value(&mut self, sql: &str) -> Result<String, String> {
        Ok(self.rows(sql)?.into_iter().flatten().next().flatten().unwrap_or_default())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.tasks.block_on(&self.runtime, session.close());
        }
    }
}

/// Reads a connection string.
pub(super) fn target(conninfo: &str) -> Result<Target, String> {
    let machine = Machine {
        variable: &|name| std::env::var(name).ok(),
        passwords: &|path| conninfo::read_private(path).ok().flatten(),
        user: User::from_uid(geteuid()).ok().flatten().map(|user| user.name),
    };
    let mut target = Target::read(conninfo, CONNECT_TIME_MAX, &machine)?;
    for host in &mut target.hosts {
        host.login.application_name(NAME);
    }
    Ok(target)
}

/// The same server, another database.
fn in_database(target: &Target, database: &str) -> Target {
    let mut target = target.clone();
    for host in &mut target.hosts {
        host.login.dbname(database);
    }
    target
}

/// What a server counts in our databases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counters {
    pub(super) sessions: u64,
    pub(super) transactions: u64,
}

/// The server.
pub(super) struct Server {
    target: Target,
    line: Line,
    pub(super) version: String,
    /// The address at which poolers and clients reach it.
    pub(super) host: String,
    pub(super) port: u16,
    /// The password of all roles; `None` if the server trusts them.
    pub(super) password: Option<String>,
    made_databases: Vec<String>,
    made_roles: Vec<String>,
    made_tenants: BTreeSet<String>,
    is_kept: bool,
}

impl Server {
    /// Connects.
    pub(super) fn open(conninfo: &str, password: Option<String>, is_kept: bool) -> Result<Self, String> {
        let target = target(conninfo)?;
        let Some(Address::Tcp { host, port }) = target.hosts.first().map(|host| host.address.clone()) else {
            return Err("the server has to be reached by TCP, because poolers have to reach it too".to_owned());
        };
        let mut line = Line::open(&target)?;
        let version = line.value("show server_version")?;
        let number = line.value("show server_version_num")?;
        if number.parse::<u32>().is_ok_and(|number| number < VERSION_MIN) {
            return Err(format!(
                "the server is PostgreSQL {version}; the books of a run need the counter of sessions that 14 has brought (pg_stat_database.sessions)"
            ));
        }
        Ok(Self {
            target,
            line,
            version,
            host,
            port,
            password,
            made_databases: Vec::new(),
            made_roles: Vec::new(),
            made_tenants: BTreeSet::new(),
            is_kept,
        })
    }

    /// Makes what a spec needs and is not there yet. Refuses a name that somebody else has made.
    pub(super) fn make(&mut self, objects: &Objects) -> Result<(), String> {
        let password = self.password.as_ref().map(|word| format!(" password '{word}'")).unwrap_or_default();
        for role in objects.roles() {
            if !self.made_roles.iter().any(|made| made == role) {
                let made = self.line.run(&format!("create role {role} login{password}"));
                if may_be_ours(&made) {
                    self.made_roles.push(role.to_owned());
                }
                made?;
            }
        }
        for database in &objects.databases {
            if !self.made_databases.contains(database) {
                let made = self.line.run(&format!("create database {database}"));
                if may_be_ours(&made) {
                    self.made_databases.push(database.clone());
                }
                made?;
            }
        }
        for (place, database) in objects.databases.iter().enumerate() {
            let is_new = |tenant: &&Tenant| tenant.database == place && !self.made_tenants.contains(&tenant.schema);
            let new: Vec<&Tenant> = objects.tenants.iter().filter(is_new).collect();
            if new.is_empty() {
                continue;
            }
            let mut line = Line::open(&in_database(&self.target, database))?;
            for tenant in new {
                line.run(&tenant.make())?;
                self.made_tenants.insert(tenant.schema.clone());
            }
        }
        Ok(())
    }

    /// Connects again after a restart.
    pub(super) fn reach(&mut self) -> Result<(), String> {
        self.line = Line::open(&self.target)?;
        Ok(())
    }

    /// Waits until no session is in our databases, so that the server's counters are complete, and reads them.
    pub(super) fn counters(&mut self) -> Result<Counters, String> {
        let open =
            format!("select count(*) from pg_stat_activity where datname like '{}%'", PREFIX.replace('_', "\\_"));
        for _ in 0..LEAVING_TRIES {
            if self.line.value(&open)? == "0" {
                break;
            }
            self.line.run(LEAVING_PAUSE)?;
        }
        let counters = format!(
            "select coalesce(sum(sessions), 0), coalesce(sum(xact_commit + xact_rollback), 0) \
             from pg_stat_database where datname like '{}%'",
            PREFIX.replace('_', "\\_")
        );
        let row = self.line.rows(&counters)?.into_iter().next().unwrap_or_default();
        let number = |at: usize| row.get(at).cloned().flatten().and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Counters { sessions: number(0), transactions: number(1) })
    }

    /// The ids of the posts of each tenant in a run.
    pub(super) fn posts(&mut self, objects: &Objects, run: u32) -> Result<Vec<Vec<u64>>, String> {
        let mut posts = vec![Vec::new(); objects.tenants.len()];
        for (place, database) in objects.databases.iter().enumerate() {
            let mut line = Line::open(&in_database(&self.target, database))?;
            for (tenant, ids) in objects.tenants.iter().zip(&mut posts).filter(|(tenant, _)| tenant.database == place) {
                let id =
                    |row: Row| -> Option<u64> { row.into_iter().next().flatten().and_then(|text| text.parse().ok()) };
                line.each(&tenant.posts(run), |row| ids.extend(id(row)))?;
            }
        }
        Ok(posts)
    }

    /// How many rows PostgreSQL counts in a microsecond, for statements that compute.
    pub(super) fn rows_per_micro(&mut self) -> Result<f64, String> {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let began = std::time::Instant::now();
            self.line.run("select count(*) from generate_series(1, 50000)")?;
            best = best.min(began.elapsed().as_secs_f64());
        }
        Ok(50_000.0 / (best * 1e6))
    }

    /// How long a login and its end take, in microseconds, one after the other.
    pub(super) fn logins(&self, count: usize) -> Result<Vec<u64>, String> {
        let one = |_| {
            let began = std::time::Instant::now();
            Line::open(&self.target).map(|_| began.elapsed().as_micros() as u64)
        };
        (0..count).map(one).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let databases = self.made_databases.iter();
        let databases = databases.map(|name| (name, format!("drop database if exists {name} with (force)")));
        let roles = self.made_roles.iter().map(|name| (name, format!("drop role if exists {name}")));
        let mut left = Vec::new();
        for (name, order) in databases.chain(roles) {
            // The connection may have been lost in a long run.
            let removed = self.line.run(&order).or_else(|_| {
                self.line = Line::open(&self.target)?;
                self.line.run(&order)
            });
            if let Err(why) = removed {
                left.push(format!("{name} ({why})"));
            }
        }
        if !left.is_empty() {
            eprintln!("trunkline simulate: left at the server, to be dropped by hand: {}", left.join(", "));
        }
    }
}

/// Whether a statement that was to make something may have made it, or still does: nobody else had.
fn may_be_ours(made: &Result<(), String>) -> bool {
    const EXISTS: [&str; 2] = ["42P04", "42710"];
    made.as_ref().err().is_none_or(|why| !EXISTS.iter().any(|code| why.contains(code)))
}

const NAME: &str = "trunkline simulate";
/// `server_version_num` of the oldest server that counts sessions.
const VERSION_MIN: u32 = 140_000;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Ten seconds.
const LEAVING_TRIES: u32 = 200;
const LEAVING_PAUSE: &str = "select pg_sleep(0.05)";
