//! What a soak stands on: a database with its tables, two fault proxies, and the pooler between them.
//!
//! Always true: with [`Weather::Fair`] the configuration is the one that the last checks count with.
//! Not here: the clients.

use std::sync::Arc;

use base::Random;
use nix::sys::signal::Signal;
use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;

use super::faults::Climate;
use super::ops::{SESSIONS, SHARED, STATEMENTS, TRANSACTIONS};
use super::options::Options;
use super::proxy::Proxy;
use super::session::Who;

/// Everything but the clients.
pub(crate) struct Stage<'a> {
    pub(crate) postgres: &'a Postgres,
    pub(crate) pooler: Pooler,
    /// Between clients and pooler.
    pub(crate) front: Proxy,
    /// Between pooler and PostgreSQL.
    pub(crate) back: Proxy,
    options: Options,
}

/// How the settings are drawn.
pub(crate) enum Weather<'a> {
    Fair,
    Foul(&'a mut Random),
}

impl<'a> Stage<'a> {
    pub(crate) fn raise(place: &Arc<Place>, postgres: &'a Postgres, options: &Options) -> Result<Self, String> {
        postgres.database(DATABASE);
        let mut owner = postgres.client(DATABASE);
        owner.run(TABLES);
        owner.run(&format!("insert into soak_counters select i, 0 from generate_series(0, {}) i", options.clients - 1));
        owner.run(&format!("alter database {DATABASE} set lock_timeout = '2s'"));
        let back = Proxy::start(postgres.address(), BACK, options.seed ^ 0xbac).map_err(|e| e.to_string())?;
        let pooler = Pooler::start(place, &ini(options, back.address().port(), Weather::Fair));
        // What it opens at start is open when it says so and has answered.
        pooler.await_log("process up");
        pooler.console("SHOW LISTS");
        let front = Proxy::start(pooler.address(), FRONT, options.seed ^ 0xf0).map_err(|e| e.to_string())?;
        Ok(Self { postgres, pooler, front, back, options: options.clone() })
    }

    /// Another configuration, put in force by SIGHUP.
    pub(crate) fn reload(&self, weather: Weather<'_>) {
        self.pooler.rewrite(&ini(&self.options, self.back.address().port(), weather));
        self.pooler.signal(Signal::SIGHUP);
    }
}

/// The client with this number: most share the pool of transactions; a few are in each of the others.
pub(crate) fn who(id: usize) -> Who {
    let (user, database) = match id % 20 {
        0 | 10 => ("u", SESSIONS),
        1 => ("u", STATEMENTS),
        2 => ("u", SHARED),
        3 => ("v", SHARED),
        _ => ("u", TRANSACTIONS),
    };
    Who { id, user, database }
}

fn ini(options: &Options, port: u16, weather: Weather<'_>) -> Ini {
    let line = |name: &str, more: &str| format!("{name} = host=127.0.0.1 port={port} dbname={DATABASE} {more}");
    let ini = Ini::new(&line(TRANSACTIONS, ""))
        .database(&line(SESSIONS, "pool_mode=session"))
        .database(&line(STATEMENTS, "pool_mode=statement"))
        .database(&line(SHARED, &format!("max_db_connections={SHARED_SERVERS}")))
        .set(&format!("max_client_conn = {}", 2 * options.clients + 100))
        .set("listen_backlog = 1024")
        .set("workers = 2")
        .set("server_login_retry = 0")
        .set("query_wait_timeout = 20")
        .set("client_login_timeout = 20")
        .set("server_connect_timeout = 5")
        .set("cancel_wait_timeout = 5")
        .set("query_wait_notify = 2")
        .set(&format!("default_pool_size = {POOL_SIZE}"));
    let ini = options.kernel.iter().fold(ini, |ini, kernel| ini.set(&format!("io_backend = {kernel}")));
    match weather {
        Weather::Fair => ini,
        Weather::Foul(random) => draw(random).iter().fold(ini, |ini, setting| ini.set(setting)),
    }
}

/// Settings that may change at any moment.
fn draw(random: &mut Random) -> Vec<String> {
    let mut one_of = |name: &str, values: &[&str]| {
        let value = values[random.below(values.len() as u64) as usize];
        format!("{name} = {value}")
    };
    vec![
        one_of("default_pool_size", &["1", "2", "3", "5", "5", "5", "8"]),
        one_of("min_pool_size", &["0", "0", "2"]),
        one_of("reserve_pool_size", &["0", "0", "2"]),
        one_of("reserve_pool_timeout", &["1", "5"]),
        one_of("query_timeout", &["0", "0", "0", "0", "2"]),
        one_of("query_wait_timeout", &["20", "20", "3"]),
        one_of("idle_transaction_timeout", &["0", "0", "1"]),
        one_of("transaction_timeout", &["0", "0", "0", "1"]),
        one_of("server_lifetime", &["3600", "3600", "5", "0"]),
        one_of("server_idle_timeout", &["600", "1"]),
        one_of("server_round_robin", &["0", "1"]),
        one_of("server_check_delay", &["30", "0"]),
        one_of("server_check_query", &["<empty>", "select 1", ""]),
        one_of("server_mend_timeout", &["5", "1"]),
        one_of("server_reset_query_always", &["0", "0", "1"]),
        one_of("server_dials_max", &["4", "1"]),
    ]
}

/// The one database of PostgreSQL behind all of the pooler's.
pub(crate) const DATABASE: &str = "soak";
/// Servers of a pool in fair weather.
pub(crate) const POOL_SIZE: usize = 5;
/// The most that any configuration allows: 8, and 2 in reserve.
pub(crate) const POOL_SIZE_MAX: usize = 10;
/// Servers of the database that two users share.
pub(crate) const SHARED_SERVERS: usize = 4;

const FRONT: Climate = Climate { faults_percent: 20, bits_max: 19 };
const BACK: Climate = Climate { faults_percent: 60, bits_max: 22 };

const TABLES: &str = "\
    create table soak_counters (client int primary key, n bigint not null) with (fillfactor = 50);
    create table soak_log (
        client int not null, number int not null, part int not null, note text not null,
        name text not null default current_setting('application_name'),
        zone text not null default current_setting('TimeZone'),
        primary key (client, number, part))";
