//! The overview that the page shows, as JSON: `/api/v1/overview`, and once a second on `/api/v1/stream`.
//!
//! Always true: counters are totals since the start, so that a reader can compute the change between two reads; times
//! are in microseconds.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Id;
use measure::{Closed, Opened, PHASES, Sums};
use serde_json::{Map, Value, json};
use worker::letters::{Doing, Parts, Totals, WaitRow};

use crate::CONSOLE;
use crate::console::show::{self, View};
use crate::diagnosis;
use crate::events::Events;
use crate::http::json;

/// The parts of the snapshots that the overview needs.
pub(crate) const PARTS: Parts =
    Parts { waits: true, stats: true, pools: true, pins: true, applications: true, ..show::MEASURES_PART };

/// Returns the overview. `state` says whether the pooler serves clients, or why not.
pub(crate) fn overview(view: &View<'_>, state: &str) -> String {
    let diagnosis = diagnosis::of(view);
    let cause = diagnosis.cause.word();
    let body = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "now": view.wall.0 as f64 / 1e6,
        "state": state,
        "is_well": cause == "well",
        "cause": cause,
        "sentence": diagnosis.text,
        "workers": workers(view),
        "databases": databases(view),
        "pools": pools(view),
        "waits": waits(view),
        "pins": view.snapshots.iter().map(|snapshot| snapshot.pins.len()).sum::<usize>(),
    });
    body.to_string()
}

/// Returns the number of changes to the events (`next`), and the rows of `SHOW EVENTS` that have changed since `since`
/// changes.
pub(crate) fn news(events: &Events, since: u64) -> String {
    json::followed(events.changes(), &show::event_table(events.since(since)))
}

fn workers(view: &View<'_>) -> Vec<Value> {
    let worker = |snapshot: &worker::letters::Snapshot| json!({ "busy": snapshot.busy.as_micros() as u64, "alive": snapshot.alive.as_micros() as u64 });
    view.snapshots.iter().map(worker).collect()
}

/// Returns for each database its clients, servers and counters, and the time of its transactions by phase.
fn databases(view: &View<'_>) -> Vec<Value> {
    let mut sums: BTreeMap<&Arc<str>, Sums> = BTreeMap::new();
    let mut totals: BTreeMap<&Arc<str>, Totals> = BTreeMap::new();
    let mut clients: BTreeMap<&Arc<str>, [u32; 3]> = BTreeMap::new();
    for snapshot in view.snapshots {
        for pool in snapshot.pools.iter().filter(|pool| *pool.database != *CONSOLE) {
            let sum = sums.entry(&pool.database).or_default();
            if let Some(measures) = &pool.measures {
                sum.merge(&measures.sums);
            }
            let [connected, waiting, servers] = clients.entry(&pool.database).or_default();
            *connected += pool.cl_active + pool.cl_waiting;
            *waiting += pool.cl_waiting;
            *servers += pool.sv_active + pool.sv_idle + pool.sv_used + pool.sv_tested + pool.sv_login;
        }
        for (name, counted) in &snapshot.stats {
            let total = totals.entry(name).or_default();
            total.xact_count += counted.xact_count;
            total.query_count += counted.query_count;
            total.received += counted.received;
            total.sent += counted.sent;
        }
    }
    let one = |(name, sum): (&Arc<str>, Sums)| {
        let total = totals.get(name).copied().unwrap_or_default();
        let [connected, waiting, servers] = clients.get(name).copied().unwrap_or_default();
        json!({
            "name": &**name,
            "clients": connected,
            "waiting": waiting,
            "servers": servers,
            "transactions": total.xact_count,
            "queries": total.query_count,
            "received": total.received,
            "sent": total.sent,
            "time": phases(&sum),
        })
    };
    sums.into_iter().map(one).collect()
}

fn phases(sum: &Sums) -> Map<String, Value> {
    PHASES.iter().map(|(phase, name)| ((*name).to_owned(), json!(sum.of(*phase)))).collect()
}

fn pools(view: &View<'_>) -> Vec<Value> {
    let rows = view.snapshots.iter().flat_map(|snapshot| &snapshot.pools).filter(|pool| *pool.database != *CONSOLE);
    let one = |pool: &worker::letters::PoolRow| {
        let measures = pool.measures.as_deref();
        let causes = |words: Vec<(&str, u64)>| -> Map<String, Value> {
            words
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(word, count)| (word.to_owned(), json!(count)))
                .collect()
        };
        let lives = measures.map(|measures| measures.lives).unwrap_or_default();
        let quantile = |part| measures.and_then(|measures| Some(measures.wait.as_ref()?.quantile(part))).unwrap_or(0);
        json!({
            "database": &*pool.database,
            "user": &*pool.user,
            "clients": pool.cl_active + pool.cl_waiting,
            "waiting": pool.cl_waiting,
            "active": pool.sv_active,
            "idle": pool.sv_idle + pool.sv_used,
            "opening": pool.sv_login,
            "cleaning": pool.sv_tested + pool.sv_being_canceled,
            "limit": measures.map_or(0, |measures| measures.limit),
            "peak": measures.map_or(0, |measures| measures.peak_lent),
            "max_wait": pool.maxwait.as_micros() as u64,
            "waits_for": measures.and_then(|measures| measures.waits_for).map(|why| why.word()),
            "failure": measures.and_then(|measures| measures.failure.as_deref()),
            "wait_p50": quantile(0.5),
            "wait_p99": quantile(0.99),
            "transactions": measures.map_or(0, |measures| measures.sums.count),
            "time": measures.map(|measures| phases(&measures.sums)),
            "opened": causes(Opened::ALL.map(|why| (why.word(), lives.opened(why))).into()),
            "closed": causes(Closed::ALL.map(|why| (why.word(), lives.closed(why))).into()),
        })
    };
    rows.map(one).collect()
}

/// Returns the longest waiters, and the longest transactions with a server; at most `SHOWN` of each.
fn waits(view: &View<'_>) -> Vec<Value> {
    let is_waiter = |row: &&WaitRow| matches!(row.doing, Doing::Waits(_) | Doing::Delayed);
    let mut rows: Vec<&WaitRow> = view.snapshots.iter().flat_map(|snapshot| &snapshot.waits).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.transaction));
    let (waiters, holders): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_waiter);
    let one = |row: &WaitRow| {
        json!({
            "waits": is_waiter(&row),
            "database": &*row.database,
            "user": &*row.user,
            "client": Id::Client(row.client).to_string(),
            "server": row.server.map(|(server, _)| Id::Server(server).to_string()),
            "remote_pid": row.server.map(|(_, pid)| pid),
            "application": &*row.application_name,
            "addr": format!("{}:{}", row.addr, row.port),
            "doing": row.doing.words(),
            "for": row.doing_for.as_micros() as u64,
            "transaction": row.transaction.as_micros() as u64,
            "statement": &*row.statement,
            "keeps": &*row.pins,
        })
    };
    waiters.into_iter().take(SHOWN).chain(holders.into_iter().take(SHOWN)).map(one).collect()
}

const SHOWN: usize = 100;
