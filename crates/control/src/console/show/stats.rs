//! `SHOW STATS` and the related tables: counters, and their averages per second.
//!
//! The counters are in the order of [`Counts`]; as in PgBouncer, each table names them differently.

use std::collections::BTreeMap;
use std::iter::once;
use std::sync::Arc;

use worker::letters::{Parts, Snapshot};

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};
use crate::history::{COUNTERS, Counts, gather};

pub(super) const STATS: Subject = Subject {
    name: "STATS",
    doc: "The counters of each database since the start, and their averages over the last `stats_period`; times are in microseconds. Slow turns whose cause is not a single database count for the console.",
    parts: PARTS,
    own_columns: 2,
    columns: &[
        Column::text("database"),
        Column::numeric("total_server_assignment_count"),
        Column::numeric("total_xact_count"),
        Column::numeric("total_query_count"),
        Column::numeric("total_received"),
        Column::numeric("total_sent"),
        Column::numeric("total_xact_time"),
        Column::numeric("total_query_time"),
        Column::numeric("total_wait_time"),
        Column::numeric("total_client_parse_count"),
        Column::numeric("total_server_parse_count"),
        Column::numeric("total_bind_count"),
        Column::numeric("total_client_login_count"),
        Column::numeric("avg_server_assignment_count"),
        Column::numeric("avg_xact_count"),
        Column::numeric("avg_query_count"),
        Column::numeric("avg_recv"),
        Column::numeric("avg_sent"),
        Column::numeric("avg_xact_time"),
        Column::numeric("avg_query_time"),
        Column::numeric("avg_wait_time"),
        Column::numeric("avg_client_parse_count"),
        Column::numeric("avg_server_parse_count"),
        Column::numeric("avg_bind_count"),
        Column::numeric("avg_client_login_count"),
        Column::numeric("slow_turn_count"),
        Column::numeric("turn_time_max"),
    ],
    rows: stats,
};

pub(super) const STATS_TOTALS: Subject = Subject {
    name: "STATS_TOTALS",
    doc: "The totals of `SHOW STATS`.",
    parts: PARTS,
    own_columns: 0,
    columns: &[
        Column::text("database"),
        Column::numeric("server_assignment_count"),
        Column::numeric("xact_count"),
        Column::numeric("query_count"),
        Column::numeric("bytes_received"),
        Column::numeric("bytes_sent"),
        Column::numeric("xact_time"),
        Column::numeric("query_time"),
        Column::numeric("wait_time"),
        Column::numeric("client_parse_count"),
        Column::numeric("server_parse_count"),
        Column::numeric("bind_count"),
        Column::numeric("client_login_count"),
    ],
    rows: |view: &View<'_>| by_database(view, |totals, _| totals.0.into()),
};

pub(super) const STATS_AVERAGES: Subject = Subject {
    name: "STATS_AVERAGES",
    doc: "The averages of `SHOW STATS`.",
    parts: PARTS,
    own_columns: 0,
    columns: &[
        Column::text("database"),
        Column::numeric("server_assignment_count"),
        Column::numeric("xact_count"),
        Column::numeric("query_count"),
        Column::numeric("bytes_received"),
        Column::numeric("bytes_sent"),
        Column::numeric("xact_time"),
        Column::numeric("query_time"),
        Column::numeric("wait_time"),
        Column::numeric("avg_client_parse_count"),
        Column::numeric("avg_server_parse_count"),
        Column::numeric("avg_bind_count"),
        Column::numeric("avg_client_login_count"),
    ],
    rows: |view: &View<'_>| by_database(view, |_, averages| averages.0.into()),
};

pub(super) const TOTALS: Subject = Subject {
    name: "TOTALS",
    doc: "The sums of `SHOW STATS` over all databases.",
    parts: PARTS,
    own_columns: 0,
    columns: &[Column::text("name"), Column::numeric("value")],
    rows: totals,
};

const PARTS: Parts = Parts { stats: true, ..NOTHING };

fn stats(view: &View<'_>) -> Vec<Vec<Cell>> {
    let slow = slow_turns(view.snapshots);
    let mut rows = by_database(view, |totals, averages| totals.0.into_iter().chain(averages.0).collect());
    for (row, name) in rows.iter_mut().zip(gather(view.snapshots).keys()) {
        row.extend(slow.get(name).copied().unwrap_or_default().map(number));
    }
    rows
}

/// Returns for each database the number of slow turns, and the longest turn.
fn slow_turns(snapshots: &[Snapshot]) -> BTreeMap<Arc<str>, [u64; 2]> {
    let mut slow: BTreeMap<Arc<str>, [u64; 2]> = BTreeMap::new();
    for (name, totals) in snapshots.iter().flat_map(|snapshot| &snapshot.stats) {
        let [count, longest] = slow.entry(Arc::clone(name)).or_default();
        *count += totals.slow_turn_count;
        *longest = totals.turn_time_max.max(*longest);
    }
    slow
}

fn by_database(view: &View<'_>, pick: fn(Counts, Counts) -> Vec<u64>) -> Vec<Vec<Cell>> {
    let row = |(name, counts): (&Arc<str>, &Counts)| {
        let numbers = pick(*counts, view.history.averages(view.now, name, counts));
        once(text(&**name)).chain(numbers.into_iter().map(number)).collect()
    };
    gather(view.snapshots).iter().map(row).collect()
}

fn totals(view: &View<'_>) -> Vec<Vec<Cell>> {
    let gathered = gather(view.snapshots);
    let totals: Counts = gathered.values().copied().sum();
    let averages = view.history.averages_of_all(view.now, &gathered);
    let rows = |prefix: &'static str, counts: Counts| {
        let row = move |(name, count)| vec![text(format!("{prefix}_{name}")), number(count)];
        NAMES_IN_TOTALS.into_iter().zip(counts.0).map(row)
    };
    let slow = slow_turns(view.snapshots);
    let slow = [
        ("slow_turn_count", slow.values().map(|[count, _]| count).sum()),
        ("turn_time_max", slow.values().map(|[_, longest]| *longest).max().unwrap_or(0)),
    ];
    let slow = slow.map(|(name, count)| vec![text(name), number(count)]);
    rows("total", totals).chain(rows("avg", averages)).chain(slow).collect()
}

const NAMES_IN_TOTALS: [&str; COUNTERS] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
    "client_login_count",
];

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use worker::letters::{Snapshot, Totals};

    const COUNTED: Totals = Totals {
        server_assignment_count: 10,
        xact_count: 20,
        query_count: 30,
        received: 4000,
        sent: 50_000,
        xact_time: 600,
        query_time: 900,
        wait_time: 80,
        client_parse_count: 90,
        server_parse_count: 100,
        bind_count: 110,
        client_login_count: 120,
        error_count: 3,
        slow_turn_count: 2,
        turn_time_max: 6000,
    };

    fn snapshots() -> [Snapshot; 2] {
        let of = |name: &str| Snapshot { stats: vec![(name.into(), COUNTED)], ..Snapshot::default() };
        [of("z"), of("a")]
    }

    #[test]
    fn the_columns_are_pgbouncers_and_ours_behind_them() {
        assert_eq!(
            heads("STATS"),
            "database s, total_server_assignment_count N, total_xact_count N, total_query_count N, total_received N, \
             total_sent N, total_xact_time N, total_query_time N, total_wait_time N, total_client_parse_count N, \
             total_server_parse_count N, total_bind_count N, total_client_login_count N, \
             avg_server_assignment_count N, avg_xact_count N, avg_query_count N, avg_recv N, avg_sent N, \
             avg_xact_time N, avg_query_time N, avg_wait_time N, avg_client_parse_count N, avg_server_parse_count N, \
             avg_bind_count N, avg_client_login_count N, slow_turn_count N, turn_time_max N"
        );
        assert_eq!(
            heads("STATS_TOTALS"),
            "database s, server_assignment_count N, xact_count N, query_count N, bytes_received N, bytes_sent N, \
             xact_time N, query_time N, wait_time N, client_parse_count N, server_parse_count N, bind_count N, \
             client_login_count N"
        );
        assert_eq!(
            heads("STATS_AVERAGES"),
            "database s, server_assignment_count N, xact_count N, query_count N, bytes_received N, bytes_sent N, \
             xact_time N, query_time N, wait_time N, avg_client_parse_count N, avg_server_parse_count N, \
             avg_bind_count N, avg_client_login_count N"
        );
        assert_eq!(heads("TOTALS"), "name s, value N");
    }

    /// The tests look 11 seconds after the start of the averages.
    #[test]
    fn totals_stand_before_averages_and_databases_in_the_order_of_names() {
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let (totals, averages) = ("10|20|30|4000|50000|600|900|80|90|100|110|120", "0|1|2|363|4545|30|30|8|8|9|10|10");
        let zeros = |count| vec!["0"; count].join("|");
        let rows = |row: &str, zeros: String| [format!("a|{row}"), format!("pgbouncer|{zeros}"), format!("z|{row}")];
        let shown = |name| lines(&table_of(name, &settings, "", &snapshots()));
        assert_eq!(shown("STATS"), rows(&format!("{totals}|{averages}|2|6000"), zeros(26)));
        assert_eq!(shown("STATS_TOTALS"), rows(totals, zeros(12)));
        assert_eq!(shown("STATS_AVERAGES"), rows(averages, zeros(12)));
    }

    #[test]
    fn the_totals_sum_all_databases() {
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let shown = lines(&table_of("TOTALS", &settings, "", &snapshots()));
        assert_eq!(shown.len(), 26);
        assert_eq!(shown[..2], ["total_server_assignment_count|20", "total_xact_count|40"]);
        assert_eq!(shown[3..5], ["total_client_bytes|8000", "total_server_bytes|100000"]);
        assert_eq!(shown[8..10], ["total_ps_client_parse_count|180", "total_ps_server_parse_count|200"]);
        assert_eq!(shown[12..14], ["avg_server_assignment_count|1", "avg_xact_count|3"]);
        assert_eq!((shown[17].as_str(), shown[23].as_str()), ("avg_xact_time|30", "avg_client_login_count|21"));
        assert_eq!(shown[24..], ["slow_turn_count|4", "turn_time_max|6000"]);
    }
}
