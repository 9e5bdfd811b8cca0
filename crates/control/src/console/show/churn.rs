//! `SHOW CHURN`: why servers are opened and closed.

use measure::{Closed, Opened};

use super::pools::all;
use super::view::{MEASURES_PART, Subject, View};
use crate::CONSOLE;
use crate::console::table::{Cell, Column, number, text};

pub(super) const CHURN: Subject = Subject {
    name: "CHURN",
    doc: "How many servers each pool has opened and closed since the start, and why: a row for each cause that has occurred. `transactions_per_server` says how long a server lasts; where it is small, connections cost more than they carry.",
    parts: MEASURES_PART,
    columns: &[
        Column::text("database"),
        Column::text("user"),
        Column::text("event"),
        Column::text("cause"),
        Column::numeric("count"),
        Column::numeric("transactions_per_server"),
    ],
    rows,
};

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for row in all(view).into_values().filter(|row| *row.database != *CONSOLE) {
        let Some(measures) = &row.measures else { continue };
        let opened = Opened::ALL.map(|why| ("opened", why.word(), measures.lives.opened(why)));
        let closed = Closed::ALL.map(|why| ("closed", why.word(), measures.lives.closed(why)));
        let all: u64 = opened.iter().map(|(.., count)| count).sum();
        for (event, cause, count) in opened.into_iter().chain(closed).filter(|(.., count)| *count > 0) {
            let each = if event == "opened" {
                measures.sums.count.checked_div(all).map(|each| each.to_string())
            } else {
                None
            };
            rows.push(vec![text(&*row.database), text(&*row.user), text(event), text(cause), number(count), each]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use worker::letters::Snapshot;

    #[test]
    fn a_cause_has_a_row_once_it_has_occurred() {
        let mut row = pool_row("d", "u");
        let measures = row.measures.as_mut().expect("measures");
        measures.lives.opens(Opened::Client);
        measures.lives.opens(Opened::Reserve);
        measures.lives.closes(Closed::Evicted);
        measures.sums.count = 7;
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let snapshot = Snapshot { pools: vec![row], ..Snapshot::default() };
        assert_eq!(
            lines(&table_of("CHURN", &settings, "", &[snapshot])),
            ["d|u|opened|client|1|3", "d|u|opened|reserve|1|3", "d|u|closed|evicted|1|NULL"]
        );
    }
}
