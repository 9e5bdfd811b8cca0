//! The environment of a soak: databases with their tables, two fault proxies, and the pooler between them.
//!
//! Always true: a configuration is in force when `reload` returns.
//! Not here: the clients, what a configuration contains (`era`).

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tests::client::{Answer, Client};
use tests::message;
use tests::peer::Peer;
use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::wait::{LIMIT, try_wait_for};

use super::cast::{DATABASES, MEMBER, USERS, who};
use super::era::Era;
use super::eras::Eras;
use super::faults::Climate;
use super::options::Options;
use super::proxy::Proxy;
use super::{rest, secrets};

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

/// How the pooler is made to reload its configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Signal,
    Console,
}

impl<'a> Stage<'a> {
    pub(crate) fn raise(place: &Arc<Place>, postgres: &'a Postgres, options: &Options) -> Result<Self, String> {
        postgres.query(&format!("create role {MEMBER} superuser login"));
        for database in DATABASES {
            postgres.database(database);
            let mut owner = postgres.client(database);
            owner.run(TABLES);
            let ids = (0..options.clients).filter(|id| who(*id).database == database);
            ids.for_each(|id| owner.run(&format!("insert into soak_counters values ({id}, 0)")));
            owner.run(&format!("alter database {database} set lock_timeout = '2s'"));
        }
        let back = Proxy::start(postgres.address(), BACK, options.seed ^ 0xbac).map_err(|e| e.to_string())?;
        let pooler = Pooler::start(place, &ini(options, back.address().port(), 0, &Era::fair()));
        // The files that the pooler opens at start are open when it has logged this and answered a command.
        pooler.await_log("process up");
        pooler.console("SHOW LISTS");
        let front = Proxy::start(pooler.address(), FRONT, options.seed ^ 0xf0).map_err(|e| e.to_string())?;
        Ok(Self { postgres, pooler, front, back, options: options.clone() })
    }

    /// Brings another configuration into force.
    pub(crate) fn reload(&self, eras: &Eras, era: Era, way: Way) -> Result<(), String> {
        let mut console = self.console_client();
        let number = eras.begin(era);
        self.pooler.rewrite(&ini(&self.options, self.back.address().port(), number, &eras.latest()));
        let is_old_log = self.lay_log_aside();
        match way {
            Way::Console => {
                let answer = console.query("RELOAD");
                if answer.tags != ["RELOAD"] {
                    return Err(format!("RELOAD was answered with {answer:?}"));
                }
            }
            Way::Signal => {
                self.pooler.signal(Signal::SIGHUP);
                let most = clients_max(&self.options, number).to_string();
                try_wait_for(RELOADED, || (setting(&mut console, "max_client_conn") == most).then_some(()))
                    .ok_or_else(|| format!("SIGHUP: configuration {number} was not in force after {RELOADED:?}"))?;
            }
        }
        // Every worker reads its letters in order, and the request for SHOW POOLS comes after the new configuration.
        console.run("SHOW POOLS");
        eras.is_in_force();
        if is_old_log { rest::complaints_in(&self.old_log()) } else { Ok(()) }
    }

    /// Runs a console command as `admin`, whichever authentication method is in force.
    pub(crate) fn console(&self, command: &str) -> Answer {
        self.console_client().query(command)
    }

    /// The pooler's log, as far as it is still available.
    pub(crate) fn whole_log(&self) -> String {
        self.old_log() + &self.pooler.log()
    }

    fn console_client(&self) -> Client {
        let mut peer = Peer::tcp(self.pooler.address()).expect("the port answers");
        peer.send(&message::startup(0, &[("user", ADMIN), ("database", "pgbouncer")]));
        loop {
            let frame = peer.frame().expect("an answer to the console's login");
            let Some((_, answer)) = secrets::answer(&frame, ADMIN, ADMIN_PASSWORD) else { break };
            peer.send(&answer);
        }
        Client::finish_login(peer, LIMIT).expect("the console lets its admin in")
    }

    /// Moves a log aside that has become too long. Returns whether it did so; the reload opens a new file.
    fn lay_log_aside(&self) -> bool {
        let log = self.pooler.directory().join("log");
        fs::metadata(&log).is_ok_and(|file| file.len() > LOG_BYTES)
            && fs::rename(log, self.pooler.directory().join("log.old")).is_ok()
    }

    fn old_log(&self) -> String {
        fs::read_to_string(self.pooler.directory().join("log.old")).unwrap_or_default()
    }
}

fn ini(options: &Options, port: u16, number: usize, era: &Era) -> Ini {
    let lines = DATABASES.iter().filter(|database| era.has(database)).map(|database| {
        format!("{database} = host=127.0.0.1 port={port} dbname={database}{}", era.database_words(database))
    });
    let ini = lines.fold(Ini::default(), |ini, line| ini.database(&line));
    let known = USERS.iter().filter(|user| era.knows(user));
    let ini = known.fold(ini, |ini, user| ini.secret(user, &era.password(user)));
    let ini = ini
        .secret(ADMIN, ADMIN_PASSWORD)
        .set(&format!("max_client_conn = {}", clients_max(options, number)))
        .set("listen_backlog = 1024")
        .set("workers = 2")
        .set("server_login_retry = 0")
        .set("query_wait_timeout = 20")
        .set("client_login_timeout = 20")
        .set("server_connect_timeout = 5")
        .set("cancel_wait_timeout = 5")
        .set("query_wait_notify = 2");
    let ini = options.kernel.iter().fold(ini, |ini, kernel| ini.set(&format!("io_backend = {kernel}")));
    era.settings().iter().fold(ini, |ini, setting| ini.set(setting))
}

/// `max_client_conn` of this configuration, by which the console shows which configuration is in force.
fn clients_max(options: &Options, number: usize) -> usize {
    2 * options.clients + 100 + number
}

fn setting(console: &mut Client, name: &str) -> String {
    let shown = console.query("SHOW CONFIG");
    let rows = (0..shown.rows.len()).map(|at| shown.named(at));
    rows.into_iter().find(|row| row["key"] == name).map_or(String::new(), |row| row["value"].clone())
}

const ADMIN: &str = "admin";
const ADMIN_PASSWORD: &str = "admin's own";
/// A reload takes milliseconds; the limit is for a busy machine.
const RELOADED: Duration = Duration::from_secs(30);
const LOG_BYTES: u64 = 32 << 20;

const FRONT: Climate = Climate { faults_percent: 20, bits_max: 19 };
const BACK: Climate = Climate { faults_percent: 60, bits_max: 22 };

const TABLES: &str = "\
    create table soak_counters (client int primary key, n bigint not null) with (fillfactor = 50);
    create table soak_log (
        client int not null, number int not null, part int not null, note text not null,
        name text not null default current_setting('application_name'),
        zone text not null default current_setting('TimeZone'),
        primary key (client, number, part))";
