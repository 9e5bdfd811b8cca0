//! Metrics under the names of the common exporter for PgBouncer (`prometheus-community/pgbouncer_exporter`), so that
//! its dashboards and alerts work here.
//!
//! Always true: names and labels are that exporter's; values are those of the console's tables.
//! A value that is 0 for nearly all databases is left out where it is 0, so that a thousand databases fit into an
//! answer.
//! Not here: the exporter's metrics from `SHOW CLIENTS`, which would need a row for each client at each scrape.

use std::sync::Arc;

use worker::letters::PoolRow;

use super::catalog::{by_database, occurred, pools};
use super::{Metric, MetricKind, Sample, Value};
use crate::PGBOUNCER_VERSION;
use crate::console::show::{self, View};

/// A column of `SHOW POOLS`.
macro_rules! pool {
    ($name:literal, $column:ident) => {
        pool!($name, $column, |_| true)
    };
    // For columns that are nearly always 0: zero values are left out.
    ($name:literal, $column:ident, rare) => {
        pool!($name, $column, |row| row.$column > 0)
    };
    ($name:literal, $column:ident, $is_told:expr) => {
        Metric {
            name: concat!("pgbouncer_pools_", $name),
            kind: MetricKind::Gauge,
            help: concat!(stringify!($column), " of SHOW POOLS."),
            labels: &["database", "user"],
            samples: |view| {
                let is_told: fn(&&PoolRow) -> bool = $is_told;
                let rows = pools(view).filter(is_told);
                rows.map(|row| Sample::new([&row.database, &row.user], row.$column.into())).collect()
            },
        }
    };
}

macro_rules! stats {
    ($name:literal, $help:literal, $pick:expr) => {
        Metric {
            name: concat!("pgbouncer_stats_", $name),
            kind: MetricKind::Counter,
            help: $help,
            labels: &["database"],
            samples: |view| by_database(view, $pick),
        }
    };
    // For columns that are 0 for most databases: zero values are left out.
    ($name:literal, $help:literal, $pick:expr, rare) => {
        Metric { samples: |view| occurred(by_database(view, $pick)), ..stats!($name, $help, $pick) }
    };
}

macro_rules! database {
    ($name:literal, $column:literal, $help:literal) => {
        Metric {
            name: concat!("pgbouncer_databases_", $name),
            kind: MetricKind::Gauge,
            help: $help,
            labels: &["name", "host", "port", "database", "force_user", "pool_mode"],
            samples: |view| databases(view, $column),
        }
    };
    // For columns that are 0 for most databases: zero values are left out.
    ($name:literal, $column:literal, $help:literal, rare) => {
        Metric { samples: |view| occurred(databases(view, $column)), ..database!($name, $column, $help) }
    };
}

macro_rules! list {
    ($name:literal, $item:literal, $help:literal) => {
        Metric {
            name: concat!("pgbouncer_", $name),
            kind: MetricKind::Gauge,
            help: $help,
            labels: &[],
            samples: |view| list(view, $item),
        }
    };
}

/// All metrics under the exporter's names.
pub(crate) const CATALOG: &[Metric] = &[
    Metric {
        name: "pgbouncer_up",
        kind: MetricKind::Gauge,
        help: "Always 1.",
        labels: &[],
        samples: |_| vec![Sample::only(1.0)],
    },
    Metric {
        name: "pgbouncer_version_info",
        kind: MetricKind::Gauge,
        help: "The version of PgBouncer that Trunkline is compatible with.",
        labels: &["version"],
        samples: |_| vec![Sample::new([&PGBOUNCER_VERSION.into()], 1.0)],
    },
    pool!("client_active_connections", cl_active),
    pool!("client_active_cancel_connections", cl_active_cancel_req, rare),
    pool!("client_waiting_connections", cl_waiting),
    pool!("client_waiting_cancel_connections", cl_waiting_cancel_req, rare),
    pool!("server_active_connections", sv_active),
    pool!("server_active_cancel_connections", sv_active_cancel, rare),
    pool!("server_being_canceled_connections", sv_being_canceled, rare),
    pool!("server_idle_connections", sv_idle),
    pool!("server_used_connections", sv_used, rare),
    pool!("server_testing_connections", sv_tested, rare),
    pool!("server_login_connections", sv_login, rare),
    Metric {
        name: "pgbouncer_pools_client_maxwait_seconds",
        kind: MetricKind::Gauge,
        help: "maxwait of SHOW POOLS.",
        labels: &["database", "user"],
        samples: |view| {
            let of = |row: &PoolRow| Sample::new([&row.database, &row.user], row.maxwait.as_secs_f64());
            pools(view).map(of).collect()
        },
    },
    stats!("queries_pooled", "query_count of SHOW STATS_TOTALS.", |totals| totals.query_count as f64),
    stats!("queries_duration_seconds", "query_time of SHOW STATS_TOTALS.", |totals| totals.query_time as f64 / 1e6),
    stats!("received_bytes", "bytes_received of SHOW STATS_TOTALS.", |totals| totals.received as f64),
    stats!("sent_bytes", "bytes_sent of SHOW STATS_TOTALS.", |totals| totals.sent as f64),
    stats!("client_wait_seconds", "wait_time of SHOW STATS_TOTALS.", |totals| totals.wait_time as f64 / 1e6, rare),
    stats!("sql_transactions_pooled", "xact_count of SHOW STATS_TOTALS.", |totals| totals.xact_count as f64),
    stats!("server_in_transaction_seconds", "xact_time of SHOW STATS_TOTALS.", |totals| totals.xact_time as f64 / 1e6),
    stats!(
        "client_parses",
        "client_parse_count of SHOW STATS_TOTALS.",
        |totals| totals.client_parse_count as f64,
        rare
    ),
    stats!(
        "server_parses",
        "server_parse_count of SHOW STATS_TOTALS.",
        |totals| totals.server_parse_count as f64,
        rare
    ),
    stats!("binds", "bind_count of SHOW STATS_TOTALS.", |totals| totals.bind_count as f64, rare),
    stats!("server_assignments", "server_assignment_count of SHOW STATS_TOTALS.", |totals| {
        totals.server_assignment_count as f64
    }),
    database!("pool_size", "pool_size", "pool_size of SHOW DATABASES."),
    database!("reserve_pool", "reserve_pool_size", "reserve_pool_size of SHOW DATABASES.", rare),
    database!("max_connections", "max_connections", "max_connections of SHOW DATABASES.", rare),
    database!("current_connections", "current_connections", "current_connections of SHOW DATABASES."),
    database!("paused", "paused", "paused of SHOW DATABASES.", rare),
    database!("disabled", "disabled", "disabled of SHOW DATABASES.", rare),
    list!("databases", "databases", "databases of SHOW LISTS."),
    list!("users", "users", "users of SHOW LISTS."),
    list!("pools", "pools", "pools of SHOW LISTS."),
    list!("free_clients", "free_clients", "free_clients of SHOW LISTS."),
    list!("used_clients", "used_clients", "used_clients of SHOW LISTS."),
    list!("login_clients", "login_clients", "login_clients of SHOW LISTS."),
    list!("free_servers", "free_servers", "free_servers of SHOW LISTS."),
    list!("used_servers", "used_servers", "used_servers of SHOW LISTS."),
    list!("cached_dns_names", "dns_names", "dns_names of SHOW LISTS."),
    list!("cached_dns_zones", "dns_zones", "dns_zones of SHOW LISTS."),
    list!("in_flight_dns_queries", "dns_queries", "dns_queries of SHOW LISTS."),
    Metric {
        name: "pgbouncer_config_max_client_connections",
        kind: MetricKind::Gauge,
        help: "max_client_conn.",
        labels: &[],
        samples: |view| vec![Sample::only(view.settings.max_client_conn.into())],
    },
    Metric {
        name: "pgbouncer_config_max_user_connections",
        kind: MetricKind::Gauge,
        help: "max_user_connections.",
        labels: &[],
        samples: |view| vec![Sample::only(view.settings.max_user_connections.into())],
    },
];

/// Returns a column of `SHOW DATABASES`.
fn databases(view: &View<'_>, column: &str) -> Vec<Sample> {
    let Some(table) = show::find("DATABASES").map(|subject| subject.table(view)) else { return Vec::new() };
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    let labels = ["name", "host", "port", "database", "force_user", "pool_mode"].map(place);
    let Some(wanted) = place(column) else { return Vec::new() };
    let sample = |row: &Vec<Option<String>>| {
        let cell = |place: Option<usize>| -> Arc<str> {
            place.and_then(|place| row.get(place)?.as_deref()).unwrap_or_default().into()
        };
        let value = row.get(wanted)?.as_deref()?.parse().ok()?;
        Some(Sample { labels: labels.map(cell).into(), value: Value::Number(value) })
    };
    table.rows.iter().filter_map(sample).collect()
}

/// Returns an item of `SHOW LISTS`.
fn list(view: &View<'_>, item: &str) -> Vec<Sample> {
    let Some(table) = show::find("LISTS").map(|subject| subject.table(view)) else { return Vec::new() };
    let row = table.rows.iter().find(|row| row.first().and_then(Option::as_deref) == Some(item));
    let value = row.and_then(|row| row.get(1)?.as_deref()?.parse().ok());
    value.into_iter().map(Sample::only).collect()
}
