//! `SHOW POOLS`: clients and servers by database and user.

use std::collections::BTreeMap;
use std::sync::Arc;

use pool::Mode;
use worker::letters::PoolRow;

use super::view::{MEASURES_PART, Subject, View, load_balance, mode};
use crate::CONSOLE;
use crate::console::table::{Cell, Column, number, text};

pub(super) const POOLS: Subject = Subject {
    name: "POOLS",
    doc: "The pools, one for each database and user of the servers.",
    parts: MEASURES_PART,
    own_columns: 3,
    columns: &[
        Column::text("database"),
        Column::text("user"),
        Column::int("cl_active"),
        Column::int("cl_waiting"),
        Column::int("cl_active_cancel_req"),
        Column::int("cl_waiting_cancel_req"),
        Column::int("sv_active"),
        Column::int("sv_active_cancel"),
        Column::int("sv_being_canceled"),
        Column::int("sv_idle"),
        Column::int("sv_used"),
        Column::int("sv_tested"),
        Column::int("sv_login"),
        Column::int("maxwait"),
        Column::int("maxwait_us"),
        Column::text("pool_mode"),
        Column::text("load_balance_hosts"),
        Column::numeric("wait_p99"),
        Column::int("peak_in_use"),
        Column::text("waits_for"),
    ],
    rows,
};

/// Returns all pools by database and user. Only the console's pool is on several workers; it is included even if
/// unused.
pub(super) fn all(view: &View<'_>) -> BTreeMap<(Arc<str>, Arc<str>), PoolRow> {
    let console = PoolRow::empty(CONSOLE.into(), CONSOLE.into(), Mode::Statement);
    let mut all = BTreeMap::from([((Arc::clone(&console.database), Arc::clone(&console.user)), console)]);
    for row in view.snapshots.iter().flat_map(|snapshot| &snapshot.pools) {
        let key = (Arc::clone(&row.database), Arc::clone(&row.user));
        all.entry(key).and_modify(|sum| add(sum, row)).or_insert_with(|| row.clone());
    }
    all
}

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    all(view).into_values().map(|row| cells(view, &row)).collect()
}

fn cells(view: &View<'_>, row: &PoolRow) -> Vec<Cell> {
    let entry = view.settings.databases.get(&row.database).or_else(|| {
        let mut databases = view.snapshots.iter().flat_map(|snapshot| &snapshot.databases);
        databases.find(|database| database.name == row.database).map(|database| &database.entry)
    });
    let measures = row.measures.as_ref();
    vec![
        text(&*row.database),
        text(&*row.user),
        number(row.cl_active),
        number(row.cl_waiting),
        number(row.cl_active_cancel_req),
        number(row.cl_waiting_cancel_req),
        number(row.sv_active),
        number(row.sv_active_cancel),
        number(row.sv_being_canceled),
        number(row.sv_idle),
        number(row.sv_used),
        number(row.sv_tested),
        number(row.sv_login),
        number(row.maxwait.as_secs()),
        number(row.maxwait.subsec_micros()),
        mode(row.mode),
        entry.and_then(|entry| load_balance(entry)),
        number(measures.and_then(|measures| Some(measures.wait.as_ref()?.quantile(0.99))).unwrap_or(0)),
        number(measures.map_or(0, |measures| measures.peak_lent)),
        measures.and_then(|measures| measures.waits_for).map(|why| why.word().to_owned()),
    ]
}

fn add(sum: &mut PoolRow, row: &PoolRow) {
    sum.cl_active += row.cl_active;
    sum.cl_waiting += row.cl_waiting;
    sum.cl_active_cancel_req += row.cl_active_cancel_req;
    sum.cl_waiting_cancel_req += row.cl_waiting_cancel_req;
    sum.sv_active += row.sv_active;
    sum.sv_active_cancel += row.sv_active_cancel;
    sum.sv_being_canceled += row.sv_being_canceled;
    sum.sv_idle += row.sv_idle;
    sum.sv_used += row.sv_used;
    sum.sv_tested += row.sv_tested;
    sum.sv_login += row.sv_login;
    sum.maxwait = sum.maxwait.max(row.maxwait);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use worker::letters::Snapshot;

    #[test]
    fn the_columns_are_pgbouncers() {
        assert_eq!(
            heads("POOLS"),
            "database s, user s, cl_active i, cl_waiting i, cl_active_cancel_req i, cl_waiting_cancel_req i, \
             sv_active i, sv_active_cancel i, sv_being_canceled i, sv_idle i, sv_used i, sv_tested i, sv_login i, \
             maxwait i, maxwait_us i, pool_mode s, load_balance_hosts s, wait_p99 N, peak_in_use i, waits_for s"
        );
    }

    #[test]
    fn pools_are_in_the_order_of_their_names_and_the_console_is_one_of_them() {
        let settings =
            settings("[databases]\nz = host=a,b load_balance_hosts=disable\na =\n[pgbouncer]\nauth_type=any\n");
        let mut busy = pool_row("z", "v");
        (busy.cl_active, busy.cl_waiting, busy.cl_active_cancel_req, busy.cl_waiting_cancel_req) = (1, 2, 3, 4);
        (busy.sv_active, busy.sv_active_cancel, busy.sv_being_canceled, busy.sv_idle) = (5, 6, 7, 8);
        (busy.sv_used, busy.sv_tested, busy.sv_login) = (9, 10, 11);
        busy.maxwait = std::time::Duration::from_micros(12_000_013);
        let mut console = pool_row(CONSOLE, CONSOLE);
        (console.cl_active, console.mode) = (1, Mode::Statement);
        let first = Snapshot { pools: vec![busy, pool_row("a", "u"), console.clone()], ..Snapshot::default() };
        let second = Snapshot { pools: vec![console], ..Snapshot::default() };
        assert_eq!(
            lines(&table_of("POOLS", &settings, "", &[first, second])),
            [
                "a|u|0|0|0|0|0|0|0|0|0|0|0|0|0|transaction|NULL|0|0|NULL",
                "pgbouncer|pgbouncer|2|0|0|0|0|0|0|0|0|0|0|0|0|statement|NULL|0|0|NULL",
                "z|v|1|2|3|4|5|6|7|8|9|10|11|12|13|transaction|disable|0|0|NULL",
            ]
        );
    }
}
