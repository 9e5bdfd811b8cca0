//! Failures of many kinds, watched by a real Prometheus: `SHOW WAITS` names the cause at once, and the alert fires.
//!
//! Always true: each failure has a pooler of its own, and Prometheus reads the rules that are delivered.
//! Not here: whether an alert fires only where it is meant to (`alerts`), and the sentences of more causes (`failing`).

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tests::authority::Authority;
use tests::client::Client;
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::program::{psql, run};
use tests::runner::skip;
use tests::wait::{LIMIT, try_wait_for, wait_for};

use super::failing::{TOLD_MAX, sentence, try_login};
use super::http::get;
use crate::house::House;

/// A kind of failure.
struct Rig {
    name: &'static str,
    /// The alert that fires.
    alert: &'static str,
    /// What the sentence says.
    wanted: &'static [&'static str],
    /// Starts a pooler with these settings, all of it well.
    open: fn(&House, &str) -> Broken,
}

/// A pooler, and what makes it fail once more.
struct Broken {
    pooler: Pooler,
    fail: Box<dyn FnMut(&Pooler)>,
}

/// What has been seen.
struct Seen {
    told_after: Duration,
    fired_after: Duration,
    sentence: String,
}

// Only when named.
pub(crate) fn each_failure_is_named_and_its_alert_fires_in_prometheus(house: &House) {
    let rigs = [servers_fail(), clients_fail(), clients_wait()].into_iter().flatten().collect::<Vec<_>>();
    let ports: Vec<u16> = rigs.iter().map(|_| free_port()).collect();
    let Some(prometheus) = Prometheus::start(house, &ports) else { return };
    let prometheus = &prometheus;
    let seen: Vec<Result<Seen, String>> = std::thread::scope(|scope| {
        let watched: Vec<_> = rigs
            .iter()
            .zip(&ports)
            .map(|(rig, port)| scope.spawn(move || watch(house, prometheus, rig, *port)))
            .collect();
        watched.into_iter().map(|rig| rig.join().unwrap_or_else(|_| Err("it panicked".to_owned()))).collect()
    });
    let mut failed = Vec::new();
    println!("| failure | named after | alert | fires after | sentence |\n|---|---|---|---|---|");
    for (rig, seen) in rigs.iter().zip(seen) {
        match seen {
            Ok(Seen { told_after, fired_after, sentence }) => {
                let (told, fired) = (told_after.as_secs_f32(), fired_after.as_secs_f32());
                println!("| {} | {told:.2} s | {} | {fired:.0} s | {sentence} |", rig.name, rig.alert);
                if told_after > TOLD_MAX {
                    failed.push(format!("{}: named only after {told:.2} s", rig.name));
                }
            }
            Err(why) => failed.push(format!("{}: {why}", rig.name)),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Makes a pooler fail until the sentence names the cause and the alert fires.
fn watch(house: &House, prometheus: &Prometheus, rig: &Rig, port: u16) -> Result<Seen, String> {
    let Broken { pooler, mut fail } = (rig.open)(house, &format!("http_port = {port}"));
    let begun = Instant::now();
    let mut said = String::new();
    let told = try_wait_for(LIMIT, || {
        fail(&pooler);
        said = sentence(&pooler);
        rig.wanted.iter().all(|part| said.contains(part)).then(|| begun.elapsed())
    });
    let Some(told_after) = told else { return Err(format!("{:?} is not said, but {said:?}", rig.wanted)) };
    let fired = try_wait_for(FIRES_MAX, || {
        fail(&pooler);
        // The load, not a condition: a few failures a second.
        std::thread::park_timeout(PACE);
        prometheus.fires(rig.alert, port).then(|| begun.elapsed())
    });
    match fired {
        Some(fired_after) => Ok(Seen { told_after, fired_after, sentence: said }),
        None => Err(format!("{} does not fire; the sentence is {:?}", rig.alert, sentence(&pooler))),
    }
}

/// A Prometheus that scrapes poolers once a second.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// Returns None where it is not installed.
    fn start(house: &House, ports: &[u16]) -> Option<Self> {
        let program = Path::new("/usr/bin/prometheus");
        if !program.is_file() {
            skip("prometheus is not installed");
            return None;
        }
        let place = &house.place;
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operating/prometheus/trunkline.rules.yml");
        let (config, copy) = (place.directory().join("prometheus.yml"), place.directory().join("rules.yml"));
        place.write(&copy, &std::fs::read_to_string(rules).expect("the rules can be read"));
        let targets: Vec<String> = ports.iter().map(|port| format!("'127.0.0.1:{port}'")).collect();
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n- job_name: trunkline\n  \
             static_configs:\n  - targets: [{}]\n",
            copy.display(),
            targets.join(", ")
        );
        place.write(&config, &text);
        let port = free_port();
        let mut command = place.command(program, "KILL");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", place.directory().join("tsdb").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("prometheus starts");
        let prometheus = Self { child, port };
        wait_for("prometheus", LIMIT, || {
            std::net::TcpStream::connect(prometheus.address()).ok()?;
            (get(prometheus.address(), "/-/ready", "").0 == 200).then_some(())
        });
        Some(prometheus)
    }

    fn address(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Whether an alert fires for the pooler with this port.
    fn fires(&self, alert: &str, port: u16) -> bool {
        let (_, body) = get(self.address(), "/api/v1/alerts", "Accept-Encoding: identity\r\n");
        let (start, end) = (body.find('{').unwrap_or(0), body.rfind('}').map_or(0, |at| at + 1));
        let told: serde_json::Value =
            serde_json::from_str(body.get(start..end).unwrap_or_default()).unwrap_or_default();
        let instance = format!("127.0.0.1:{port}");
        told["data"]["alerts"].as_array().is_some_and(|alerts| {
            alerts.iter().any(|told| {
                let labels = &told["labels"];
                told["state"] == "firing" && labels["alertname"] == alert && labels["instance"] == *instance
            })
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The pooler's servers are refused or lost.
fn servers_fail() -> Vec<Rig> {
    vec![
        Rig {
            name: "PostgreSQL refuses the role",
            alert: "TrunklineServerLoginsFail",
            wanted: &["Logins of the pooler at the servers of alarm_role/alarm_role fail", "not permitted to log in"],
            open: |house, http| breaks_logins(house, http, "alarm_role", "alter role alarm_role nologin"),
        },
        Rig {
            name: "PostgreSQL has no place for the role",
            alert: "TrunklineServerLoginsFail",
            wanted: &["Logins of the pooler at the servers of alarm_many/alarm_many fail", "too many connections"],
            open: |house, http| breaks_logins(house, http, "alarm_many", "alter role alarm_many connection limit 0"),
        },
        Rig {
            name: "the database is gone",
            alert: "TrunklineServerLoginsFail",
            wanted: &["Logins of the pooler at the servers of alarm_gone/alarm_gone fail", "does not exist"],
            open: |house, http| breaks_logins(house, http, "alarm_gone", "drop database alarm_gone with (force)"),
        },
        Rig {
            name: "the host was never reached",
            alert: "TrunklineHostUnreachable",
            wanted: &["Logins of the pooler at the servers of alarm_host/u fail", "connect failed"],
            open: |house, http| {
                let ini = Ini::new(&format!("alarm_host = host=127.0.0.1 port={}", free_port())).set(http);
                let fail = |pooler: &Pooler| drop(try_login(pooler, "u", "alarm_host"));
                Broken { pooler: house.start(&ini.set("client_login_timeout = 1")), fail: Box::new(fail) }
            },
        },
        Rig {
            name: "the host goes away",
            alert: "TrunklineHostUnreachable",
            wanted: &["Logins of the pooler at the servers of alarm_away/postgres fail", "connect failed"],
            open: goes_away,
        },
        Rig {
            name: "PostgreSQL ends servers",
            alert: "TrunklineServersLost",
            wanted: &["servers of alarm_lost/u were lost in the last 10 s"],
            open: loses_servers,
        },
    ]
}

/// Clients are not let in, or get errors.
fn clients_fail() -> Vec<Rig> {
    vec![
        Rig {
            name: "max_client_conn",
            alert: "TrunklineClientsRefused",
            wanted: &["of clients at alarm_full/u failed in the last 10 s", "(max_client_conn)"],
            open: |house, http| {
                let mut held = Vec::new();
                let fail = move |pooler: &Pooler| held.extend(try_login(pooler, "u", "alarm_full").ok());
                Broken { pooler: house.pooler("alarm_full", &["max_client_conn = 2", http]), fail: Box::new(fail) }
            },
        },
        Rig {
            name: "the pooler's certificate has expired",
            alert: "TrunklineClientsRefused",
            wanted: &["failed in the last 10 s", "TLS handshake error", "xpired"],
            open: expires,
        },
        Rig {
            name: "every query fails",
            alert: "TrunklineQueriesFail",
            wanted: &["% of the queries of alarm_sql fail (", "with SQLSTATE 42P01)"],
            open: |house, http| {
                let pooler = house.pooler("alarm_sql", &[http]);
                let mut client = pooler.client("u", "alarm_sql");
                (0..200).for_each(|_| client.run("select 1"));
                let fail = move |_: &Pooler| (0..50).for_each(|_| drop(client.query("select * from no_such_table")));
                Broken { pooler, fail: Box::new(fail) }
            },
        },
        Rig {
            name: "clients ask for a database that there is not",
            alert: "TrunklineLoginsFail",
            wanted: &["at alarm_typo/u failed in the last 10 s: no such database: alarm_typo"],
            open: |house, http| {
                let fail = |pooler: &Pooler| (0..2).for_each(|_| drop(try_login(pooler, "u", "alarm_typo")));
                Broken { pooler: house.pooler("alarm_names", &[http]), fail: Box::new(fail) }
            },
        },
    ]
}

/// Clients wait for a server.
fn clients_wait() -> Vec<Rig> {
    vec![
        Rig {
            name: "a client is idle in its transaction",
            alert: "TrunklineClientsWait",
            wanted: &["of alarm_idle/u", "for a server", "stands idle in a transaction"],
            open: |house, http| {
                let pooler = house.pooler("alarm_idle", &["default_pool_size = 1", http]);
                let mut thinker = pooler.client("u", "alarm_idle");
                thinker.run("begin");
                waits(pooler, "alarm_idle", Some(thinker))
            },
        },
        Rig {
            name: "somebody has forgotten a PAUSE",
            alert: "TrunklineClientsWait",
            wanted: &["of alarm_pause/u", "the database is paused (PAUSE or KILL)"],
            open: |house, http| {
                let pooler = house.pooler("alarm_pause", &[http]);
                pooler.client("u", "alarm_pause").run("select 1");
                pooler.console("PAUSE alarm_pause");
                waits(pooler, "alarm_pause", None)
            },
        },
        Rig {
            name: "max_db_connections is too low",
            alert: "TrunklineLimitReached",
            wanted: &["of alarm_limit/v", "for a server", "max_db_connections"],
            open: |house, http| {
                let pooler = house.pooler("alarm_limit", &["max_db_connections = 1", http]);
                pooler.client("v", "alarm_limit").run("select 1");
                let mut keeper = pooler.client("u", "alarm_limit");
                keeper.run("begin");
                waits(pooler, "alarm_limit", Some(keeper))
            },
        },
    ]
}

/// PostgreSQL refuses a role and ends its servers.
fn breaks_logins(house: &House, http: &str, name: &'static str, break_it: &str) -> Broken {
    let mut admin = house.postgres.client("postgres");
    admin.run(&format!("create role {name} login"));
    let pooler = house.start(&house.ini(name, &["server_login_retry = 1", http]).secret(name, "any"));
    let mut client = pooler.client(name, name);
    client.run("select 1");
    let pid = client.server_pid();
    let mut breaks = Some(break_it.to_owned());
    let fail = move |pooler: &Pooler| {
        if let Some(sql) = breaks.take() {
            admin.run(&sql);
            admin.run(&format!("select pg_terminate_backend({pid})"));
        }
        if let Ok(mut client) = try_login(pooler, name, name) {
            client.query("select 1");
        }
    };
    Broken { pooler, fail: Box::new(fail) }
}

/// The socket of PostgreSQL is no longer where it was.
fn goes_away(house: &House, http: &str) -> Broken {
    house.postgres.database("alarm_away");
    let (directory, port) = (house.place.directory().join("alarm_away"), house.postgres.port());
    std::fs::create_dir(&directory).expect("a new directory");
    let socket = format!(".s.PGSQL.{port}");
    let link = directory.join(&socket);
    std::os::unix::fs::symlink(house.postgres.socket_directory().join(&socket), &link).expect("a link");
    let line = format!("alarm_away = host={} port={port} user=postgres", directory.display());
    let ini = Ini::new(&line).set("server_login_retry = 0.2").set("client_login_timeout = 1").set(http);
    let pooler = house.start(&ini);
    let mut client = pooler.client("u", "alarm_away");
    client.run("select 1");
    let (mut pid, mut admin) = (Some(client.server_pid()), house.postgres.client("postgres"));
    let fail = move |pooler: &Pooler| {
        if let Some(pid) = pid.take() {
            std::fs::remove_file(&link).expect("our own link");
            admin.run(&format!("select pg_terminate_backend({pid})"));
        }
        if let Ok(mut client) = try_login(pooler, "u", "alarm_away") {
            client.ask("select 1");
        }
    };
    Broken { pooler, fail: Box::new(fail) }
}

fn expires(house: &House, http: &str) -> Broken {
    house.postgres.database("alarm_tls");
    let authority = Authority::new("an authority of alarms");
    let files = authority.signs_expired("alarm_tls", &["localhost", "127.0.0.1"]).files(&house.place);
    let ini = Ini::new(&house.line("alarm_tls")).set("client_tls_sslmode = allow").set(http);
    let ini = ini.set(&format!("client_tls_cert_file = {}", files.certificate.display()));
    let pooler = house.start(&ini.set(&format!("client_tls_key_file = {}", files.key.display())));
    let ca = authority.file(&house.place);
    let fail = move |pooler: &Pooler| {
        let mut command = psql(pooler, "u", "alarm_tls");
        command.env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", &ca);
        run(command.args(["-c", "select 1"]), LIMIT).failure();
    };
    Broken { pooler, fail: Box::new(fail) }
}

fn loses_servers(house: &House, http: &str) -> Broken {
    let pooler = house.pooler("alarm_lost", &[http]);
    let mut admin = house.postgres.client("postgres");
    let fail = move |pooler: &Pooler| {
        let mut clients: Vec<Client> = (0..3).map(|_| pooler.client("u", "alarm_lost")).collect();
        clients.iter_mut().for_each(|client| client.run("begin"));
        let pids: Vec<String> = clients.iter_mut().map(Client::server_pid).collect();
        pids.iter().for_each(|pid| admin.run(&format!("select pg_terminate_backend({pid})")));
    };
    Broken { pooler, fail: Box::new(fail) }
}

/// Some clients wait for a server that `keeper` has, if anybody.
fn waits(pooler: Pooler, database: &'static str, keeper: Option<Client>) -> Broken {
    let mut waiters = Vec::new();
    let fail = move |pooler: &Pooler| {
        let _keeper = &keeper;
        if waiters.len() < 3 {
            let user = if database == "alarm_limit" { "v" } else { "u" };
            let mut waiter = pooler.client(user, database);
            waiter.ask("select 1");
            waiters.push(waiter);
        }
    };
    Broken { pooler, fail: Box::new(fail) }
}

/// The longest `for` of these alerts is five minutes, and rates are over five.
const FIRES_MAX: Duration = Duration::from_secs(500);
const PACE: Duration = Duration::from_millis(300);
