//! `SHOW CHURN`: why servers are opened and closed.

use measure::{Closed, Opened};

use worker::letters::Evicted;

use super::pools::all;
use super::view::{MEASURES_PART, Subject, View};
use crate::CONSOLE;
use crate::console::table::{Cell, Column, number, text};

pub(super) const CHURN: Subject = Subject {
    name: "CHURN",
    doc: "How many servers each pool has opened and closed since the start, and why: one row for each cause that has occurred. A small `transactions_per_server` means that logins cost more than the transactions. `evicted_by` names the pools that needed the places of evicted servers: the pools compete for `max_db_connections` or `max_user_connections`.",
    parts: MEASURES_PART,
    own_columns: 0,
    columns: &[
        Column::text("database"),
        Column::text("user"),
        Column::text("event"),
        Column::text("cause"),
        Column::numeric("count"),
        Column::numeric("transactions_per_server"),
        Column::text("evicted_by"),
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
            let by = (cause == Closed::Evicted.word()).then(|| evicted_by(&measures.evicted_by));
            let (database, user) = (text(&*row.database), text(&*row.user));
            rows.push(vec![database, user, text(event), text(cause), number(count), each, by]);
        }
    }
    rows
}

/// Evictors that are not another pool of the same worker.
const OTHERS: &str = "others";

/// Formats evictors as `app/bob 3, others 1`, those with most first.
fn evicted_by(rows: &[Evicted]) -> String {
    let mut rows: Vec<&Evicted> = rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    let name = |row: &Evicted| match &*row.database {
        "" => OTHERS.to_owned(),
        database => format!("{database}/{}", row.user),
    };
    let told: Vec<String> = rows.into_iter().map(|row| format!("{} {}", name(row), row.count)).collect();
    told.join(", ")
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
        let by = |database: &str, user: &str, count| Evicted { database: database.into(), user: user.into(), count };
        measures.evicted_by = vec![by("", "", 1), by("e", "bob", 3)];
        measures.sums.count = 7;
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let snapshot = Snapshot { pools: vec![row], ..Snapshot::default() };
        assert_eq!(
            lines(&table_of("CHURN", &settings, "", &[snapshot])),
            [
                "d|u|opened|client|1|3|NULL",
                "d|u|opened|reserve|1|3|NULL",
                "d|u|closed|evicted|1|NULL|e/bob 3, others 1"
            ]
        );
    }
}
