//! Workspaces that share the servers of their databases: what it costs when pools compete for `max_db_connections`.
//!
//! Always true: each workspace has a role, a schema and a pool of its own, and may fill its database alone; transactions,
//! waits and server logins are counted in the same window, which begins when all clients work.
//! Not here: which pooler runs, and for how long (`stage`).

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ops::trial::{Client, ClientError, DATABASE, USER, percentile};

use super::contestant::Contestant;

/// What the clients of a run have seen.
pub(super) struct Seen {
    pub(super) seconds: f64,
    /// How long each transaction took that ended in the window or was under way at its end, with its wait for a server.
    pub(super) took_ms: Vec<f64>,
}

impl Seen {
    pub(super) fn tps(&self) -> f64 {
        self.took_ms.len() as f64 / self.seconds
    }

    pub(super) fn mean_ms(&self) -> f64 {
        self.took_ms.iter().sum::<f64>() / self.took_ms.len().max(1) as f64
    }

    /// The 99th percentile, and the slowest.
    pub(super) fn slow_ms(&mut self) -> Option<(f64, f64)> {
        Some((percentile(&mut self.took_ms, 99.0)?, percentile(&mut self.took_ms, 100.0)?))
    }
}

/// Creates the databases, roles, schemas and tables; PostgreSQL logs each login from now on.
pub(super) fn create(port: u16) -> Result<(), ClientError> {
    let mut owner = Client::log_in(port, USER, DATABASE, PATIENCE)?;
    owner.run("ALTER SYSTEM SET log_connections = on")?;
    owner.run("SELECT pg_reload_conf()")?;
    for database in 0..DATABASES {
        let name = database_name(database);
        owner.run(&format!("CREATE DATABASE {name}"))?;
        let mut inside = Client::log_in(port, USER, &name, PATIENCE)?;
        for workspace in 0..WORKSPACES {
            let role = role_name(database, workspace);
            inside.run(&format!(
                "CREATE ROLE {role} LOGIN; CREATE SCHEMA {role} AUTHORIZATION {role}; SET ROLE {role};
                 CREATE TABLE {role}.counters (id int PRIMARY KEY, n int NOT NULL) WITH (fillfactor = 50);
                 INSERT INTO {role}.counters SELECT id, 0 FROM generate_series(0, 9) AS id; RESET ROLE"
            ))?;
        }
    }
    Ok(())
}

/// The configuration of a pooler, and the list of users that it names.
pub(super) fn ini(contestant: Contestant, become_name: Option<&str>, server: u16, own: u16) -> String {
    let entry = |name: &str| format!("{name} = host=127.0.0.1 port={server} dbname={name}\n");
    let databases: String = (0..DATABASES).map(|database| entry(&database_name(database))).collect();
    let become_line = become_name.map(|name| format!("user = {name}\n")).unwrap_or_default();
    format!(
        "[databases]\n{}{databases}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\n\
         {become_line}auth_type = trust\nauth_file = {USERS_FILE}\nadmin_users = {USER}\npool_mode = transaction\n\
         default_pool_size = {SERVERS_MAX}\nmin_pool_size = {SERVERS_MAX}\nreserve_pool_size = 5\n\
         max_db_connections = {SERVERS_MAX}\nmax_client_conn = 1000\nlog_connections = 0\nlog_disconnections = 0\n{}",
        entry(DATABASE),
        contestant.own_settings(),
    )
}

pub(super) fn users() -> String {
    let all = (0..DATABASES).flat_map(|database| (0..WORKSPACES).map(move |workspace| role_name(database, workspace)));
    all.chain([USER.to_owned()]).map(|name| format!("\"{name}\" \"\"\n")).collect()
}

/// So many clients log in, begin to work, and are watched for so many seconds. `watch` is called at the window's begin and
/// at its end.
pub(super) fn run(port: u16, clients: u32, seconds: u32, watch: &mut dyn FnMut()) -> Result<Seen, String> {
    let phase = AtomicU8::new(STARTING);
    thread::scope(|scope| {
        let works = |number| {
            let phase = &phase;
            move || work(port, number, clients, phase)
        };
        let all: Vec<_> = (0..clients).map(|number| scope.spawn(works(number))).collect();
        thread::sleep(START);
        watch();
        let begun = Instant::now();
        phase.store(MEASURED, Ordering::Relaxed);
        thread::sleep(Duration::from_secs(seconds.into()));
        phase.store(OVER, Ordering::Relaxed);
        let seconds = begun.elapsed().as_secs_f64();
        watch();
        let mut took_ms = Vec::new();
        for client in all {
            let seen = client.join().map_err(|_| "a client has panicked".to_owned())?;
            took_ms.extend(seen.map_err(|why| why.to_string())?);
        }
        Ok(Seen { seconds, took_ms })
    })
}

/// The life of a client: it thinks, and runs a transaction.
fn work(port: u16, number: u32, clients: u32, phase: &AtomicU8) -> Result<Vec<f64>, ClientError> {
    let (database, workspace) = (number % DATABASES, number / DATABASES % WORKSPACES);
    let user = role_name(database, workspace);
    // Logins come one after the other, and the first transactions as well.
    thread::sleep(LOGINS * number / clients);
    let mut client = Client::log_in(port, &user, &database_name(database), PATIENCE)?;
    let row = number / (DATABASES * WORKSPACES);
    let mut took_ms = Vec::new();
    loop {
        thread::sleep(THINK);
        let phase_before = phase.load(Ordering::Relaxed);
        if phase_before == OVER {
            return Ok(took_ms);
        }
        let begun = Instant::now();
        client.run("BEGIN")?;
        client.run(&format!("UPDATE counters SET n = n + 1 WHERE id = {row}"))?;
        client.run(&format!("SELECT n FROM counters WHERE id = {row}"))?;
        client.run("COMMIT")?;
        // One that was under way at the begin counts as a whole, as does one at the end.
        if phase.load(Ordering::Relaxed) != STARTING {
            took_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
}

fn database_name(database: u32) -> String {
    format!("tenants_{database}")
}

fn role_name(database: u32, workspace: u32) -> String {
    format!("workspace_{database}_{workspace}")
}

/// The file that the configuration names as its `auth_file`.
pub(super) const USERS_FILE: &str = "tenants.txt";

const DATABASES: u32 = 10;
const WORKSPACES: u32 = 12;

/// `max_db_connections`, and the size of each pool.
const SERVERS_MAX: u32 = 20;

const THINK: Duration = Duration::from_millis(100);

/// The logins of all clients take so long together.
const LOGINS: Duration = Duration::from_secs(1);

/// The window begins so long after the first login.
const START: Duration = Duration::from_secs(4);

const PATIENCE: Duration = Duration::from_secs(60);

const STARTING: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbouncer_gets_the_same_configuration_without_what_it_does_not_know() {
        let ini = |contestant| ini(contestant, None, 1, 2);
        let (ours, theirs) = (ini(Contestant::Epoll), ini(Contestant::PgBouncer));
        assert_eq!(ours.strip_prefix(&theirs), Some("workers = 1\nio_backend = epoll\n"));
        assert_eq!(theirs.lines().filter(|line| line.contains("port=1 dbname=tenants_")).count(), 10);
    }

    #[test]
    fn every_workspace_is_a_user_and_its_clients_are_spread_evenly() {
        assert_eq!(users().lines().count(), 121);
        let pools: std::collections::BTreeSet<_> =
            (0..120).map(|number| (number % DATABASES, number / DATABASES % WORKSPACES)).collect();
        assert_eq!(pools.len(), 120);
    }
}
