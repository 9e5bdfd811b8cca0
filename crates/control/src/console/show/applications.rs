//! `SHOW APPLICATIONS`: where the time of each application's transactions goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use measure::{PHASES, Sums};
use worker::letters::Parts;

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};

pub(super) const APPLICATIONS: Subject = Subject {
    name: "APPLICATIONS",
    doc: "Where the time of transactions has gone since the start, by database, user and `application_name`. Times are in microseconds and sum to `total_time`. A worker counts 500 applications separately; one that has done nothing for 10 minutes gives its row to another. All others are the row `other`.",
    parts: Parts { applications: true, ..NOTHING },
    own_columns: 0,
    columns: &[
        Column::text("database"),
        Column::text("user"),
        Column::text("application_name"),
        Column::numeric("transactions"),
        Column::numeric("total_time"),
        Column::numeric("waiting"),
        Column::numeric("settings"),
        Column::numeric("first_byte"),
        Column::numeric("streaming"),
        Column::numeric("client_blocked"),
        Column::numeric("client_thinking"),
    ],
    rows,
};

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut sums: BTreeMap<Application, Sums> = BTreeMap::new();
    let mut other = Sums::default();
    for snapshot in view.snapshots {
        for row in &snapshot.applications {
            sums.entry((row.database.clone(), row.user.clone(), row.name.clone())).or_default().merge(&row.sums);
        }
        other.merge(&snapshot.other_applications);
    }
    let mut rows: Vec<_> = sums
        .iter()
        .map(|((database, user, name), sums)| cells([text(&**database), text(&**user), text(&**name)], sums))
        .collect();
    rows.push(cells([None, None, text("other")], &other));
    rows
}

/// A database, a user and an `application_name`.
type Application = (Arc<str>, Arc<str>, Box<str>);

fn cells(names: [Cell; 3], sums: &Sums) -> Vec<Cell> {
    let times = PHASES.map(|(phase, _)| number(sums.of(phase)));
    names.into_iter().chain([number(sums.count), number(sums.total())]).chain(times).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use base::Time;
    use measure::{Division, Phase};
    use worker::letters::{ApplicationRow, Snapshot};

    #[test]
    fn workers_are_summed_and_the_phases_sum_to_the_total() {
        let mut division = Division::default();
        division.enter(Time(0), Phase::Waiting);
        division.enter(Time(30), Phase::FirstByte);
        let spent = division.end(Time(100)).expect("a transaction");
        let mut sums = Sums::default();
        sums.add(&spent);
        let row = ApplicationRow { database: "d".into(), user: "u".into(), name: "web".into(), sums };
        let snapshot = || Snapshot { applications: vec![row.clone()], other_applications: sums, ..Snapshot::default() };
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        assert_eq!(
            lines(&table_of("APPLICATIONS", &settings, "", &[snapshot(), snapshot()])),
            ["d|u|web|2|200|60|0|140|0|0|0", "NULL|NULL|other|2|200|60|0|140|0|0|0"]
        );
    }
}
