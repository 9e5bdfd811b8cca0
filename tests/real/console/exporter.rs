//! The columns that exporters know: plain `SHOW` tables have these and no others, or the exporters stop.
//!
//! The lists are from the exporters' sources of 2026: `collector.go` of prometheus-community, `internal/sqlstore/sql.go` of
//! jbub's, `config/09*.yml` of `pg_exporter`.

use std::collections::BTreeSet;

use crate::house::House;

/// A table that an exporter reads.
struct Read {
    exporter: &'static str,
    command: &'static str,
    /// All columns that it knows.
    knows: &'static [&'static [&'static str]],
    /// Columns without which it has nothing to export.
    needs: &'static [&'static [&'static str]],
}

pub(crate) fn exporters_know_every_column_of_the_tables_that_they_read(house: &House) {
    let pooler = house.pooler("exporters", &[]);
    pooler.client("u", "exporters").run("select 1");
    for Read { exporter, command, knows, needs } in READ {
        let answer = pooler.console(command);
        assert!(!answer.rows.is_empty(), "{command}: {answer:?}");
        let columns: BTreeSet<&str> = answer.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(columns.len(), answer.columns.len(), "{command} has a column twice");
        let known: BTreeSet<&str> = knows.iter().copied().flatten().copied().collect();
        let needed: BTreeSet<&str> = needs.iter().copied().flatten().copied().collect();
        let unknown: Vec<_> = columns.difference(&known).collect();
        assert!(unknown.is_empty(), "{exporter} does not know these columns of {command}: {unknown:?}");
        let missing: Vec<_> = needed.difference(&columns).collect();
        assert!(missing.is_empty(), "{exporter} misses these columns of {command}: {missing:?}");
    }
}

/// prometheus-community's exporter takes both names of a column for one metric, and answers 500 if it finds both.
pub(crate) fn no_exporter_finds_a_metric_twice(house: &House) {
    let pooler = house.pooler("exporters_twice", &[]);
    let answer = pooler.console("SHOW DATABASES");
    let reserves = answer.columns.iter().filter(|(name, _)| name.starts_with("reserve_pool"));
    assert_eq!(reserves.count(), 1, "{:?}", answer.columns);
}

pub(crate) fn own_columns_are_shown_to_those_who_ask_for_them(house: &House) {
    if !house.place.is_trunkline() {
        tests::runner::skip("PgBouncer has no such command");
        return;
    }
    let pooler = house.pooler("exporters_extended", &[]);
    let client = pooler.client("u", "exporters_extended");
    drop(client);
    for (table, own) in [
        ("DATABASES", &["functions", "paused_until"][..]),
        ("POOLS", &["wait_p99", "peak_in_use", "waits_for"]),
        ("CLIENTS", &["memory_bytes", "state_detail"]),
        ("SERVERS", &["state_detail"]),
        ("STATS", &["slow_turn_count", "turn_time_max"]),
        ("LISTS", &[]),
    ] {
        let plain = pooler.console(&format!("SHOW {table}"));
        let extended = pooler.console(&format!("SHOW {table} EXTENDED"));
        let (first, last) = extended.columns.split_at(plain.columns.len());
        assert_eq!(first, plain.columns, "{table}");
        assert_eq!(last.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), own, "{table}");
        for row in plain.rows.iter().chain(&extended.rows) {
            assert!([plain.columns.len(), extended.columns.len()].contains(&row.len()), "{row:?}");
        }
    }
    let refused = pooler.console("SHOW poolz EXTENDED");
    assert!(refused.errors[0].text.contains("invalid command 'SHOW poolz EXTENDED'"), "{refused:?}");
}

const READ: &[Read] = &[
    Read { exporter: "prometheus-community", command: "SHOW DATABASES;", knows: DATABASES, needs: DATABASES_OLD },
    Read { exporter: "prometheus-community", command: "SHOW POOLS;", knows: POOLS, needs: POOLS },
    Read { exporter: "prometheus-community", command: "SHOW STATS_TOTALS;", knows: TOTALS, needs: TOTALS },
    Read {
        exporter: "prometheus-community",
        command: "SHOW LISTS;",
        knows: &[&["list", "items"]],
        needs: &[&["list"]],
    },
    Read { exporter: "prometheus-community", command: "SHOW CONFIG;", knows: CONFIG, needs: CONFIG },
    Read { exporter: "prometheus-community", command: "SHOW CLIENTS;", knows: CLIENTS, needs: CLIENTS },
    Read { exporter: "jbub", command: "SHOW DATABASES", knows: DATABASES, needs: DATABASES_OLD },
    Read { exporter: "jbub", command: "SHOW POOLS", knows: POOLS, needs: POOLS },
    Read { exporter: "jbub", command: "SHOW STATS", knows: &[STATS, LOGINS], needs: &[STATS] },
    Read { exporter: "jbub", command: "SHOW LISTS", knows: &[&["list", "items"]], needs: &[&["items"]] },
    Read { exporter: "pg_exporter", command: "SHOW DATABASES;", knows: DATABASES, needs: DATABASES },
    Read { exporter: "pg_exporter", command: "SHOW POOLS;", knows: POOLS, needs: POOLS },
    Read { exporter: "pg_exporter", command: "SHOW STATS;", knows: &[STATS, LOGINS], needs: &[STATS] },
    Read {
        exporter: "pg_exporter",
        command: "SHOW LISTS;",
        knows: &[&["list", "items"]],
        needs: &[&["list", "items"]],
    },
];

const DATABASES: &[&[&str]] =
    &[DATABASES_OLD[0], &["load_balance_hosts", "max_client_connections"], &["current_client_connections"]];

const DATABASES_OLD: &[&[&str]] = &[&[
    "name",
    "host",
    "port",
    "database",
    "force_user",
    "pool_size",
    "min_pool_size",
    "reserve_pool_size",
    "server_lifetime",
    "pool_mode",
    "max_connections",
    "current_connections",
    "paused",
    "disabled",
]];

const POOLS: &[&[&str]] = &[
    &["database", "user", "cl_active", "cl_waiting", "cl_active_cancel_req", "cl_waiting_cancel_req"],
    &["sv_active", "sv_active_cancel", "sv_being_canceled", "sv_idle", "sv_used", "sv_tested", "sv_login"],
    &["maxwait", "maxwait_us", "pool_mode", "load_balance_hosts"],
];

const STATS: &[&str] = &[
    "database",
    "total_server_assignment_count",
    "total_xact_count",
    "total_query_count",
    "total_received",
    "total_sent",
    "total_xact_time",
    "total_query_time",
    "total_wait_time",
    "total_client_parse_count",
    "total_server_parse_count",
    "total_bind_count",
    "avg_server_assignment_count",
    "avg_xact_count",
    "avg_query_count",
    "avg_recv",
    "avg_sent",
    "avg_xact_time",
    "avg_query_time",
    "avg_wait_time",
    "avg_client_parse_count",
    "avg_server_parse_count",
    "avg_bind_count",
];

/// PgBouncer 1.26 has these, and the exporters do not know them yet: with PgBouncer as with us jbub's exports no `SHOW STATS`.
const LOGINS: &[&str] = &["total_client_login_count", "avg_client_login_count"];

const TOTALS: &[&[&str]] = &[
    &["database", "query_count", "query_time", "bytes_received", "bytes_sent", "wait_time", "xact_count", "xact_time"],
    &["client_parse_count", "server_parse_count", "bind_count", "server_assignment_count", "client_login_count"],
];

const CONFIG: &[&[&str]] = &[&["key", "value", "default", "changeable"]];

const CLIENTS: &[&[&str]] = &[
    &["type", "user", "database", "replication", "state", "addr", "port", "local_addr", "local_port", "connect_time"],
    &["request_time", "wait", "wait_us", "close_needed", "ptr", "link", "remote_pid", "tls", "application_name"],
    &["prepared_statements", "id"],
];
