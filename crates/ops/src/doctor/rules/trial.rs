//! How the tests of rules run: a healthy server, pooler and machine, one thing changed, the findings out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::doctor::options::{DoctorOptions, Given};
use crate::facts::{Answers, Commits, Console, Host, Inside, Phases, PoolUsage, Postgres, Tally, waits};
use crate::findings::Findings;

use super::Observations;

/// Everything that is observed, and what is given.
pub(crate) struct Trial {
    pub(crate) seen: Observations,
    pub(crate) given: Given,
}

/// A server of 1 TB, a pooler before it, and its machine, about which no rule says anything.
pub(crate) fn healthy() -> Trial {
    let seen = Observations {
        server: Ok(server()),
        waits: Ok(waits(500, &[("active", "", "", 1), ("idle", "", "", 9)])),
        host: Ok(host()),
        pooler: Ok(console()),
        starved: Err("--pooler-pid".to_owned()),
        history: Ok(PoolUsage {
            seconds: 8.0 * 86_400.0,
            readings: 1152,
            gap: 600.0,
            peaks: [(("app".to_owned(), "web".to_owned()), 80.0)].into(),
        }),
    };
    Trial { seen, given: Given { replicas: Some(1.0), direct: Some(1.0), ..Given::default() } }
}

impl Trial {
    pub(crate) fn server(&mut self) -> &mut Postgres {
        self.seen.server.as_mut().expect("a server")
    }

    pub(crate) fn host(&mut self) -> &mut Host {
        self.seen.host.as_mut().expect("a host")
    }

    pub(crate) fn pooler(&mut self) -> &mut Console {
        self.seen.pooler.as_mut().expect("a pooler")
    }

    pub(crate) fn inside(&mut self) -> &mut Inside {
        self.server().inside[0].1.as_mut().expect("a database")
    }

    /// Changes a setting of the server.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let settings = self.server().settings.as_mut().expect("settings");
        settings.get_mut(name).unwrap_or_else(|| panic!("no setting {name}")).setting = Some(value.to_owned());
    }

    pub(crate) fn findings(&self) -> Findings {
        let options = DoctorOptions { given: self.given.clone(), ..DoctorOptions::default() };
        crate::doctor::judge(&self.seen, &options)
    }

    /// What a rule says: its findings' evidence, or `needs ...`.
    pub(crate) fn said(&self, rule: &str) -> Vec<String> {
        let findings = self.findings();
        let found = findings.found.iter().filter(|finding| finding.rule == rule);
        let found =
            found.map(|finding| format!("{} {} {}", finding.severity.letter(), finding.subject, finding.evidence));
        let needs = findings.unevaluated.iter().filter(|one| one.rule == rule);
        let known = |known: &Option<String>| known.as_ref().map_or(String::new(), |known| format!(" (known: {known})"));
        found.chain(needs.map(|one| format!("needs {}{}", one.needs, known(&one.known)))).collect()
    }
}

/// Rows of a type that is read from the server, from JSON.
pub(crate) fn rows<T: serde::de::DeserializeOwned>(rows: Value) -> Vec<T> {
    serde_json::from_value(rows).expect("rows")
}

fn put(answers: &mut Answers, name: &'static str, rows: Value) {
    let rows = rows.as_array().expect("rows").iter().map(ToString::to_string).collect();
    answers.put(name, Ok(rows));
}

fn server() -> Postgres {
    let mut answers = Answers::default();
    let settings =
        SETTINGS.iter().map(|(name, setting, unit)| json!({ "name": name, "setting": setting, "unit": unit }));
    put(&mut answers, "pg_settings", settings.collect());
    put(
        &mut answers,
        "the server's version",
        json!([{ "version": 150_018, "words": "15.18", "uptime": 9e6, "now": 1.79e9, "has_pg_monitor": true, "sees_sessions": true }]),
    );
    put(
        &mut answers,
        "pg_database",
        json!([{ "name": "app", "limit": -1, "may_connect": true, "backends": 10, "since_reset": 9e5 }]),
    );
    put(&mut answers, "pg_roles", json!([{ "name": "web", "may_login": true, "limit": -1 }]));
    put(&mut answers, "pg_authid", json!([{ "name": "web", "kind": "scram" }]));
    put(
        &mut answers,
        "pg_hba_file_rules",
        json!([
            { "line": 1, "kind": "local", "method": "trust" },
            { "line": 2, "kind": "host", "address": "127.0.0.1", "method": "md5" },
            { "line": 3, "kind": "hostssl", "address": "10.0.0.0", "method": "scram-sha-256" },
        ]),
    );
    put(
        &mut answers,
        "pg_stat_activity",
        json!([
            { "pid": 100, "database": "app", "role": "web", "application": "rails", "state": "idle", "kind": "client backend", "address": "10.0.0.9", "state_age": 1.0 },
            { "pid": 101, "database": "app", "role": "web", "application": "psql", "state": "idle", "kind": "client backend", "address": "10.0.0.7", "state_age": 1.0 },
        ]),
    );
    for name in ["pg_prepared_xacts", "pg_ls_tmpdir", "pg_locks", "pg_replication_slots", "pg_stat_replication"] {
        put(&mut answers, name, json!([]));
    }
    put(&mut answers, "pg_ls_waldir", json!([{ "count": 1 }]));
    put(
        &mut answers,
        "pg_stat_replication_slots (PostgreSQL 14 and later)",
        json!([{ "slot_name": "sub", "stream_txns": 1 }]),
    );
    put(&mut answers, "the position of the log", json!([{ "count": 1e9 }]));
    put(&mut answers, "pg_stat_bgwriter", json!([{ "timed": 100, "requested": 5 }]));
    put(&mut answers, "pg_stat_database_conflicts", json!([{ "count": 0 }]));
    put(
        &mut answers,
        "pg_stat_database",
        json!([{ "name": "app", "xact": 1000, "sessions": 50, "blks_hit": 1e6, "blks_read": 100 }]),
    );
    let mut server = Postgres::read("db:5432", &answers);
    server.commits = Ok(Commits { count: 200, median: 0.002, p99: 0.009, way: 0.001 });
    let mut after = server.before.clone();
    after.databases =
        Ok(rows(json!([{ "name": "app", "xact": 21_000, "sessions": 51, "blks_hit": 2e6, "blks_read": 200 }])));
    server.after = Ok((20.0, after));
    let mut inside = Answers::default();
    put(
        &mut inside,
        "functions",
        json!([{ "name": "lookup(name)", "is_definer": true, "has_search_path": true, "owner": "keeper", "has_filter": true }]),
    );
    for name in ["tables", "indexes", "dead rows", "leftovers of pg_repack"] {
        put(&mut inside, name, json!([]));
    }
    server.inside = vec![("app".to_owned(), Ok(Inside::read(&inside)))];
    server
}

fn host() -> Host {
    let memory = [
        ("MemTotal", 1e12),
        ("PageTables", 1e9),
        ("HugePages_Total", 150_000.0),
        ("HugePages_Free", 0.0),
        ("HugePages_Rsvd", 0.0),
        ("Hugepagesize", 2_097_152.0),
    ];
    let mut host = Host::read(std::path::Path::new("/nowhere"), &Err("nothing".to_owned()), None);
    host.memory = Ok(memory.map(|(name, bytes)| (name.to_owned(), bytes)).into());
    host.cores = Ok(64.0);
    host.transparent = Ok("madvise".to_owned());
    host.overcommit = Ok(2.0);
    host.filesystem = Ok("ext4".to_owned());
    host.disk = Some(1e12);
    host.usage = Ok(BTreeMap::from([(200, 0.05)]));
    host.processes = Ok(crate::facts::Processes {
        postmaster: 99,
        oom_score_adj: Some(0.0),
        peak: None,
        pss: Ok((10, 3e11)),
        page_tables: 1e8,
        count: 10,
    });
    host
}

fn console() -> Console {
    let mut answers = Answers::default();
    put(&mut answers, "VERSION", json!([{ "version": "PgBouncer 1.25.2" }]));
    put(&mut answers, "WAITS", json!([]));
    put(
        &mut answers,
        "CONFIG",
        json!([{ "key": "client_idle_timeout", "value": "0" }, { "key": "query_timeout", "value": "0" }]),
    );
    put(
        &mut answers,
        "DATABASES",
        json!([{ "name": "app", "database": "app", "pool_size": "160", "reserve_pool_size": "20" }]),
    );
    put(&mut answers, "POOLS", json!([{ "database": "app", "user": "web", "sv_active": "1" }]));
    put(
        &mut answers,
        "SERVERS",
        json!([{ "database": "app", "user": "web", "state": "idle", "link": "", "ptr": "S-0x1", "remote_pid": "100", "replication": "none" }]),
    );
    put(&mut answers, "STATS", json!([{ "database": "app", "total_xact_count": "0" }]));
    put(&mut answers, "APPLICATIONS", json!([]));
    let mut console = Console::read("pooler:6432", &answers);
    let phases = Phases { waiting: 0.1, first_byte: 4e3, ..Phases::default() };
    console.after = Ok((
        20.0,
        Tally { transactions: 20_000.0, transaction_time: 4e3, query_time: 4e3, wait_time: 0.1, phases: Some(phases) },
    ));
    console
}

const SETTINGS: &[(&str, &str, &str)] = &[
    ("max_connections", "250", ""),
    ("superuser_reserved_connections", "3", ""),
    ("client_connection_check_interval", "10000", "ms"),
    ("statement_timeout", "60000", "ms"),
    ("lock_timeout", "0", "ms"),
    ("idle_in_transaction_session_timeout", "0", "ms"),
    ("idle_session_timeout", "0", "ms"),
    ("huge_pages", "on", ""),
    ("huge_page_size", "0", "kB"),
    ("shared_memory_size", "262144", "MB"),
    ("shared_memory_size_in_huge_pages", "131072", ""),
    ("shared_buffers", "33000000", "8kB"),
    ("work_mem", "65536", "kB"),
    ("max_parallel_workers", "64", ""),
    ("autovacuum_vacuum_cost_delay", "2", "ms"),
    ("autovacuum_vacuum_cost_limit", "-1", ""),
    ("vacuum_cost_limit", "200", ""),
    ("vacuum_cost_page_dirty", "20", ""),
    ("vacuum_cost_page_hit", "1", ""),
    ("checkpoint_timeout", "1800", "s"),
    ("checkpoint_completion_target", "0.9", ""),
    ("max_wal_size", "65536", "MB"),
    ("max_slot_wal_keep_size", "10240", "MB"),
    ("jit", "off", ""),
    ("track_io_timing", "on", ""),
    ("shared_preload_libraries", "pg_stat_statements", ""),
    ("synchronous_standby_names", "", ""),
    ("hot_standby_feedback", "on", ""),
    ("wal_sender_timeout", "60000", "ms"),
];
