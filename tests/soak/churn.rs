//! Servers that are opened and closed for many reasons, counted by the pooler and by PostgreSQL.
//!
//! Always true: the pooler of this part is connected to PostgreSQL directly, without a fault proxy. A login that a proxy cuts in the middle
//! is a session for PostgreSQL and not for the pooler, or the other way round.
//! Not here: what clients read (`life`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::Random;
use tests::client::Client;
use tests::message;
use tests::peer::Peer;
use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::wait::{LIMIT, try_wait_for};

use super::stage::Stage;
use super::world::{Phase, World};

/// A pooler whose servers come and go.
pub(crate) struct Churn {
    pooler: Pooler,
    port: u16,
}

impl Churn {
    /// Starts the pooler; `None` with a PostgreSQL that does not count its sessions.
    pub(crate) fn raise(place: &Arc<Place>, postgres: &Postgres) -> Option<Self> {
        if postgres.major() < COUNTS_SESSIONS {
            return None;
        }
        DATABASES.iter().for_each(|database| postgres.database(database));
        let port = postgres.port();
        Some(Self { pooler: Pooler::start(place, &ini(port, 2)), port })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.pooler.address()
    }

    /// Gives the orders of an operator until the chaos ends.
    pub(crate) fn order(&self, world: &World, mut random: Random) {
        while world.pause(Phase::Chaos, Duration::from_millis(100 + random.below(900))) {
            let database = pick(&mut random, &DATABASES);
            match random.below(3) {
                0 => drop(self.pooler.console(&format!("RECONNECT {database}"))),
                1 => {
                    self.pooler.console(&format!("PAUSE {database}"));
                    self.pooler.console(&format!("RESUME {database}"));
                }
                _ => {
                    self.pooler.rewrite(&ini(self.port, 1 + random.below(3)));
                    self.pooler.console("RELOAD");
                }
            }
        }
    }

    /// Closes all servers once the clients have left, and compares the sums with those of PostgreSQL. A login that an order broke off
    /// is no server for the pooler, and may be a session for PostgreSQL: how many there were is in the log.
    pub(crate) fn check(&self, stage: &Stage<'_>) -> Result<String, String> {
        self.pooler.console("RECONNECT");
        let (mut servers, mut sessions) = (BTreeMap::new(), BTreeMap::new());
        let broken_off = |servers: &BTreeMap<String, (u64, u64)>, database: &str| {
            let closed = servers.get(database).map_or(0, |(_, closed)| *closed);
            closings(&self.pooler.log(), database).saturating_sub(closed)
        };
        let agree = try_wait_for(LIMIT, || {
            servers = self.servers();
            sessions = sessions_of(stage);
            let agrees = |database: &str| {
                let (opened, closed) = servers.get(database).copied().unwrap_or_default();
                let counted = sessions.get(database).copied().unwrap_or_default();
                opened == closed && (opened..=opened + broken_off(&servers, database)).contains(&counted)
            };
            DATABASES.iter().all(|database| agrees(database)).then_some(())
        });
        let broken_off: Vec<u64> = DATABASES.iter().map(|database| broken_off(&servers, database)).collect();
        let sums = format!(
            "{servers:?} opened and closed, {broken_off:?} logins broken off, {sessions:?} sessions of PostgreSQL"
        );
        match agree {
            Some(()) => Ok(format!("  churn: {sums} ({})\n", self.causes())),
            None => Err(format!("counts of servers differ: {sums}")),
        }
    }

    /// How many servers of each database were opened, and how many closed.
    fn servers(&self) -> BTreeMap<String, (u64, u64)> {
        let mut sums = BTreeMap::new();
        for row in self.rows() {
            let sum: &mut (u64, u64) = sums.entry(row["database"].clone()).or_default();
            *(if row["event"] == "opened" { &mut sum.0 } else { &mut sum.1 }) += count(&row);
        }
        sums
    }

    /// The same by cause, of all databases.
    fn causes(&self) -> String {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for row in self.rows().iter().filter(|row| count(row) > 0) {
            *sums.entry(format!("{} {}", row["event"], row["cause"])).or_insert(0) += count(row);
        }
        sums.iter().map(|(cause, count)| format!("{cause} {count}")).collect::<Vec<_>>().join(", ")
    }

    fn rows(&self) -> Vec<BTreeMap<String, String>> {
        let answer = self.pooler.console("SHOW CHURN");
        let rows = (0..answer.rows.len()).map(|row| answer.named(row));
        rows.filter(|row| matches!(&*row["event"], "opened" | "closed")).collect()
    }
}

/// How many connections to servers of a database the log says were closed, also before they had logged in.
fn closings(log: &str, database: &str) -> u64 {
    let is_closing = |line: &&str| {
        line.contains(&format!(": {database}/")) && line.contains(" S-0x") && line.contains(" closing because: ")
    };
    log.lines().filter(is_closing).count() as u64
}

fn count(row: &BTreeMap<String, String>) -> u64 {
    row["count"].parse().expect("a number")
}

/// Logs in, asks for a while and leaves, in order or not, again and again until the chaos ends.
pub(crate) fn live(address: SocketAddr, world: &World, mut random: Random) {
    while world.pause(Phase::Chaos, Duration::from_millis(random.below(60))) {
        let user = pick(&mut random, &["u", "v"]);
        let parameters = [("user", user), ("database", pick(&mut random, &DATABASES))];
        // A pool that is paused, or whose server was terminated, refuses.
        let Ok(mut client) = Client::try_login(address, &parameters) else { continue };
        for _ in 0..random.below(10) {
            let sql = pick(&mut random, &STATEMENTS);
            if client.peer.try_send(&message::query(sql)).is_err()
                || random.below(20) == 0
                || !is_answered(&mut client.peer)
            {
                break;
            }
            if !world.pause(Phase::Chaos, Duration::from_millis(random.below(8))) {
                break;
            }
        }
        if random.below(2) == 0 {
            let _ = client.peer.try_send(&message::terminate());
        }
    }
}

/// Reads up to `ReadyForQuery`; false if the connection ends before.
fn is_answered(peer: &mut Peer) -> bool {
    loop {
        match peer.frame() {
            Ok(frame) if frame.tag == b'Z' => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

/// Terminates a server that has run a query now and then. One that still logs in would be a session for PostgreSQL alone.
pub(crate) fn terminate(world: &World, mut random: Random) {
    let mut killer = Client::login(world.postgres, "postgres", "postgres");
    while world.pause(Phase::Chaos, Duration::from_millis(random.below(400))) {
        killer.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname like 'churn_%' and query <> '' \
             order by random() limit 1",
        );
    }
}

fn sessions_of(stage: &Stage<'_>) -> BTreeMap<String, u64> {
    let answer = stage.postgres.query("select datname, sessions from pg_stat_database where datname like 'churn_%'");
    let text = |row: &[Option<String>], at: usize| row[at].clone().expect("a value");
    answer.rows.iter().map(|row| (text(row, 0), text(row, 1).parse().expect("a number"))).collect()
}

/// Too few servers for two users, who evict each other's; short times; a reserve.
fn ini(port: u16, size: u64) -> Ini {
    let line =
        |database: &&str| format!("{database} = host=127.0.0.1 port={port} dbname={database} max_db_connections=4");
    let ini = DATABASES.iter().fold(Ini::default(), |ini, database| ini.database(&line(database)));
    let settings = [
        "workers = 2",
        "server_idle_timeout = 0.4",
        "server_lifetime = 1.5",
        "query_timeout = 5",
        "reserve_pool_size = 1",
    ];
    let ini = settings.iter().fold(ini, |ini, setting| ini.set(setting));
    ini.set("reserve_pool_timeout = 0.05").set(&format!("default_pool_size = {size}"))
}

fn pick<'a>(random: &mut Random, among: &[&'a str]) -> &'a str {
    among[random.below(among.len() as u64) as usize]
}

/// The clients of this part.
pub(crate) const CLIENTS: u64 = 16;
/// PostgreSQL 14 has added `pg_stat_database.sessions`.
const COUNTS_SESSIONS: u32 = 14;
const DATABASES: [&str; 2] = ["churn_a", "churn_b"];
const STATEMENTS: [&str; 6] = [
    "select 1",
    "begin; select 1; commit",
    "select pg_sleep(0.02)",
    "create temp table kept as select 1 as a; drop table kept",
    "select 1/0",
    "set application_name = 'churn'",
];
