//! `SHOW STATEMENTS`: the statements that use most server time.

use measure::{PHASES, StatementSums};
use worker::letters::Parts;

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};

pub(super) const STATEMENTS: Subject = Subject {
    name: "STATEMENTS",
    doc: "The statements that take the most time, the heaviest first, without their values: up to 1,000 of each database, each counted since it got its row. All other statements of a database are its row `other`. A worker samples `track_statements` requests a second, and each stands for all requests since the previous sample. Times are in microseconds and sum to `total_time`. `application` and `route` come from a comment in the statement (sqlcommenter).",
    parts: Parts { statements: true, ..NOTHING },
    own_columns: 0,
    columns: &[
        Column::text("database"),
        Column::text("statement"),
        Column::numeric("calls"),
        Column::numeric("rows"),
        Column::numeric("bytes"),
        Column::numeric("total_time"),
        Column::numeric("waiting"),
        Column::numeric("settings"),
        Column::numeric("first_byte"),
        Column::numeric("streaming"),
        Column::numeric("client_blocked"),
        Column::numeric("client_thinking"),
        Column::numeric("errors"),
        Column::text("errors_by_state"),
        Column::text("application"),
        Column::text("route"),
    ],
    rows,
};

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let of = |pick: fn(&worker::letters::StatementsOf) -> Vec<Vec<Cell>>| {
        view.snapshots.iter().flat_map(|snapshot| &snapshot.statements).flat_map(pick)
    };
    let mut heaviest: Vec<_> = of(|database| {
        let row = |row: &measure::Statement| {
            cells(&database.database, &row.text, &row.sums, [&row.application, &row.route].map(|label| &**label))
        };
        database.rows.iter().map(row).collect()
    })
    .collect();
    heaviest.sort_by_cached_key(|row| std::cmp::Reverse(time(row)));
    heaviest.extend(of(|database| vec![cells(&database.database, "other", &database.folded, ["", ""])]));
    heaviest
}

fn time(row: &[Cell]) -> u64 {
    row[TOTAL_TIME].as_ref().and_then(|time| time.parse().ok()).unwrap_or(0)
}

/// The column `total_time`.
const TOTAL_TIME: usize = 5;

fn cells(database: &str, statement: &str, sums: &StatementSums, labels: [&str; 2]) -> Vec<Cell> {
    let states =
        sums.states.iter().flatten().map(|(state, count)| format!("{}: {count}", String::from_utf8_lossy(state)));
    let states = states.collect::<Vec<_>>().join(", ");
    let mut cells =
        vec![text(database), text(statement), number(sums.time.count), number(sums.rows), number(sums.bytes)];
    cells.push(number(sums.time.total()));
    cells.extend(PHASES.map(|(phase, _)| number(sums.time.of(phase))));
    cells.extend([number(sums.errors), text(states)]);
    cells.extend(labels.map(text));
    cells
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use base::Time;
    use measure::{Call, Description, Division, Heaviest, Phase, Room};
    use worker::letters::{Snapshot, StatementsOf};

    #[test]
    fn the_heaviest_comes_first_and_others_last() {
        let call = |micros: u64, state| {
            let mut division = Division::default();
            division.enter(Time(0), Phase::Waiting);
            division.enter(Time(10), Phase::FirstByte);
            let spent = division.end(Time(micros)).expect("a transaction");
            Call { weight: 2, spent, rows: 1, bytes: 70, state }
        };
        let described =
            |text: &str, route: &str| Description { text: text.into(), application: "".into(), route: route.into() };
        let mut statements = Heaviest::new(Room::new(10));
        statements.add(1, &described("select ?", ""), &call(20, None));
        statements.add(2, &described("update t set a = ?", "/cart"), &call(100, Some(*b"40001")));
        statements.add_unknown(&call(15, None));
        let of = StatementsOf { database: "d".into(), rows: statements.rows().to_vec(), folded: *statements.folded() };
        let snapshot = Snapshot { statements: vec![of], ..Snapshot::default() };
        assert_eq!(
            lines(&table_of("STATEMENTS", &settings("[pgbouncer]\nauth_type=any\n"), "", &[snapshot])),
            [
                "d|update t set a = ?|2|2|140|200|20|0|180|0|0|0|2|40001: 2||/cart",
                "d|select ?|2|2|140|40|20|0|20|0|0|0|0|||",
                "d|other|2|2|140|30|20|0|10|0|0|0|0|||",
            ]
        );
        assert_eq!(STATEMENTS.columns[TOTAL_TIME].name, "total_time");
    }
}
