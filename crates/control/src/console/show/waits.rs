//! `SHOW WAITS`: clients that wait for a server, clients that have one, and the diagnosis.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Id;
use worker::letters::{Detail, Doing, Parts, WaitRow};

use super::view::{MEASURES_PART, Subject, View, moment};
use crate::console::table::{Cell, Column, number, text};
use crate::diagnosis;

pub(super) const WAITS: Subject = Subject {
    name: "WAITS",
    doc: "The clients that wait for a server, with the reason, and the clients that have one, with what they do. The first row says in one sentence what is wrong, if anything is. `ends_in` says when the pooler will end what the client does, and `ends_by` why. Statements are shown without their values.",
    parts: PARTS,
    own_columns: 0,
    columns: &[
        Column::text("what"),
        Column::text("database"),
        Column::text("user"),
        Column::int("place"),
        Column::text("client"),
        Column::text("server"),
        Column::int("remote_pid"),
        Column::text("application_name"),
        Column::text("addr"),
        Column::int("port"),
        Column::text("doing"),
        Column::numeric("for"),
        Column::text("since"),
        Column::numeric("transaction"),
        Column::text("statement"),
        Column::text("keeps"),
        Column::numeric("ends_in"),
        Column::text("ends_by"),
        Column::text("last_error"),
    ],
    rows,
};

/// The parts of the snapshots that the diagnosis needs.
pub(crate) const PARTS: Parts = Parts { waits: true, stats: true, measures: Detail::Sums, ..MEASURES_PART };

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut rows = vec![vec![None; WAITS.columns.len()]];
    rows[0][0] = text("summary");
    rows[0][DOING] = text(diagnosis::of(view).text);
    let errors: BTreeMap<_, _> = view
        .snapshots
        .iter()
        .flat_map(|snapshot| &snapshot.pools)
        .filter_map(|pool| Some(((&pool.database, &pool.user), pool.measures.as_ref()?.failure.as_deref()?)))
        .collect();
    let mut all: Vec<&WaitRow> = view.snapshots.iter().flat_map(|snapshot| &snapshot.waits).collect();
    // Waiters first, the longest of each pool in front; then holders.
    all.sort_by_key(|row| {
        (!waits(row), row.database.clone(), row.user.clone(), std::cmp::Reverse(row.transaction), row.client)
    });
    let mut place = 0;
    let mut pool = None;
    for row in all {
        if pool != Some((&row.database, &row.user)) {
            (pool, place) = (Some((&row.database, &row.user)), 0);
        }
        place += 1;
        rows.push(vec![
            text(if waits(row) { "waiter" } else { "holder" }),
            text(&*row.database),
            text(&*row.user),
            if waits(row) { number(place) } else { None },
            text(Id::Client(row.client).to_string()),
            row.server.map(|(server, _)| Id::Server(server).to_string()),
            row.server.map(|(_, pid)| pid.to_string()),
            text(&*row.application_name),
            text(&*row.addr),
            number(row.port),
            text(row.doing.words()),
            text(seconds(row.doing_for)),
            moment(row.since),
            text(seconds(row.transaction)),
            Some(row.statement.to_string()).filter(|statement| !statement.is_empty()),
            Some(row.pins.to_string()).filter(|pins| !pins.is_empty()),
            row.ends.as_ref().map(|(left, _)| seconds(*left)),
            row.ends.as_ref().map(|(_, why)| why.to_string()),
            errors.get(&(&row.database, &row.user)).map(|error| (*error).to_owned()),
        ]);
    }
    rows
}

fn waits(row: &WaitRow) -> bool {
    matches!(row.doing, Doing::Waits(_) | Doing::Delayed)
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// The column `doing`.
const DOING: usize = 10;
