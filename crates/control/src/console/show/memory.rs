//! `SHOW MEM`: the tables of the workers, summed over all workers.

use worker::letters::{Parts, TableRow};

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};

pub(super) const MEM: Subject = Subject {
    name: "MEM",
    doc: "How much memory the workers' tables take.",
    parts: Parts { memory: true, ..NOTHING },
    own_columns: 0,
    columns: &[
        Column::text("name"),
        Column::int("size"),
        Column::int("used"),
        Column::int("free"),
        Column::int("memtotal"),
    ],
    rows,
};

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut sums: Vec<TableRow> = Vec::new();
    for table in view.snapshots.iter().flat_map(|snapshot| &snapshot.tables) {
        match sums.iter_mut().find(|sum| sum.name == table.name) {
            Some(sum) => (sum.used, sum.free) = (sum.used + table.used, sum.free + table.free),
            None => sums.push(table.clone()),
        }
    }
    sums.iter().map(cells).collect()
}

fn cells(table: &TableRow) -> Vec<Cell> {
    let total = table.size * (table.used + table.free);
    vec![text(table.name), number(table.size), number(table.used), number(table.free), number(total)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use worker::letters::Snapshot;

    #[test]
    fn the_columns_are_pgbouncers() {
        assert_eq!(heads("MEM"), "name s, size i, used i, free i, memtotal i");
    }

    #[test]
    fn tables_of_one_name_are_one_row_in_the_workers_order() {
        let table = |name, used| TableRow { name, size: 10, used, free: 1 };
        let snapshot = |used| Snapshot { tables: vec![table("z", used), table("a", 0)], ..Snapshot::default() };
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let shown = table_of("MEM", &settings, "", &[snapshot(3), snapshot(4)]);
        assert_eq!(lines(&shown), ["z|10|7|2|90", "a|10|0|2|20"]);
    }
}
