//! The table of a view: the rows of its command with the view's order of columns, and figures computed from two
//! answers.
//!
//! Always true: a counter that has decreased was reset (the pooler was restarted) and gives no figure; neither does a
//! row that is missing in the previous answer, or that has the same key as another row.
//! Not here: which figures a view has (`view`), sorting and filtering (`table`).

use std::collections::HashMap;
use std::time::Duration;

use crate::table::{Cell, Table};
use crate::view::View;

/// A computed column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figure {
    /// The growth of a counter per second. With the first answer, the console's own value in `average`.
    PerSecond {
        /// The name of the column.
        name: &'static str,
        /// The counter.
        of: &'static str,
        /// The factor.
        scale: f64,
        /// The console's column with the same figure for its last period.
        average: Option<&'static str>,
    },
    /// The growth of one counter divided by the growth of another. With the first answer, the console's own value in
    /// `average`, or else the quotient of the counters.
    Each {
        /// The name of the column.
        name: &'static str,
        /// The dividend.
        of: &'static str,
        /// The divisor.
        per: &'static str,
        /// The factor.
        scale: f64,
        /// The console's column with the same figure for its last period.
        average: Option<&'static str>,
    },
}

impl Figure {
    /// The name of the column.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Figure::PerSecond { name, .. } | Figure::Each { name, .. } => name,
        }
    }

    /// Whether a table has the counters for this figure.
    fn is_in(&self, table: &Table) -> bool {
        let has = |column| table.place(column).is_some();
        match *self {
            Figure::PerSecond { of, .. } => has(of),
            Figure::Each { of, per, .. } => has(of) && has(per),
        }
    }

    fn of(&self, pair: &Pair<'_>) -> Option<f64> {
        match *self {
            Figure::PerSecond { of, scale, average, .. } => match pair.has_before {
                true => Some(pair.growth(of)? / pair.seconds? * scale),
                false => Some(pair.number(average?)? * scale),
            },
            Figure::Each { of, per, scale, average, .. } => match (pair.has_before, average) {
                (true, _) => quotient(pair.growth(of)?, pair.growth(per)?, scale),
                (false, Some(average)) => Some(pair.number(average)? * scale),
                (false, None) => quotient(pair.number(of)?, pair.number(per)?, scale),
            },
        }
    }
}

fn quotient(of: f64, per: f64, scale: f64) -> Option<f64> {
    (per > 0.0).then(|| of / per * scale)
}

/// An answer, and when it arrived.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Look {
    /// The time, by any monotonic clock.
    pub(crate) at: Duration,
    /// The answer.
    pub(crate) table: Table,
}

/// The last answer to a command, and the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks<'a> {
    /// The last one.
    pub(crate) now: &'a Look,
    /// The one before.
    pub(crate) before: Option<&'a Look>,
}

/// One row in the last answer and in the one before.
struct Pair<'a> {
    table: &'a Table,
    row: &'a [Cell],
    before: Option<(&'a Table, &'a [Cell])>,
    /// Whether there is a previous answer, with this row or without it.
    has_before: bool,
    seconds: Option<f64>,
}

impl Pair<'_> {
    fn number(&self, column: &str) -> Option<f64> {
        self.table.number(self.row, column)
    }

    fn growth(&self, column: &str) -> Option<f64> {
        let (table, row) = self.before?;
        let growth = self.number(column)? - table.number(row, column)?;
        (growth >= 0.0).then_some(growth)
    }
}

/// The rows of a view, before they are sorted and filtered. `beside` are the answers to the view's second command.
pub(crate) fn shown(view: &View, looks: Looks<'_>, beside: Option<Looks<'_>>) -> Table {
    let table = &looks.now.table;
    let (source, of_source) = match (view.beside, beside) {
        (Some(_), Some(beside)) => (beside, Key::of(&beside.now.table, &["database"])),
        (Some(_), None) => return arranged(view, table, &[], |_| Vec::new()),
        (None, _) => (looks, Key::whole(view, table)),
    };
    let figures: Vec<Figure> = view.figures.iter().copied().filter(|figure| figure.is_in(&source.now.table)).collect();
    let seconds = source.before.map(|before| source.now.at.saturating_sub(before.at).as_secs_f64());
    let now = of_source.rows(&source.now.table);
    let before = source.before.map(|before| of_source.rows(&before.table));
    let of_rows = if view.beside.is_some() { Key::of(table, &["database"]) } else { of_source.clone() };
    let names: Vec<&str> = figures.iter().map(Figure::name).collect();
    arranged(view, table, &names, |row| {
        let key = of_rows.read(table, row);
        let pair = now.get(&key).map(|row| Pair {
            table: &source.now.table,
            row,
            before: source.before.zip(before.as_ref()).and_then(|(look, rows)| Some((&look.table, *rows.get(&key)?))),
            has_before: source.before.is_some(),
            seconds: seconds.filter(|seconds| *seconds > 0.0),
        });
        figures.iter().map(|figure| pair.as_ref().and_then(|pair| figure.of(pair)).map(written)).collect()
    })
}

/// The columns that identify a row.
#[derive(Clone)]
struct Key(Vec<String>);

impl Key {
    fn of(table: &Table, columns: &[&str]) -> Self {
        Self(columns.iter().filter(|column| table.place(column).is_some()).map(|&column| column.to_owned()).collect())
    }

    /// The key columns of the view, and those that identify rows in any table.
    fn whole(view: &View, table: &Table) -> Self {
        let is_text = |name: &str| view.key.contains(&name) || IDENTIFYING.contains(&name);
        Self(table.columns().iter().filter(|name| is_text(name)).cloned().collect())
    }

    fn read<'a>(&self, table: &Table, row: &'a [Cell]) -> Vec<Option<&'a str>> {
        self.0.iter().map(|column| table.value(row, column)).collect()
    }

    /// The rows by their keys, without rows that share a key.
    fn rows<'a>(&self, table: &'a Table) -> HashMap<Vec<Option<&'a str>>, &'a [Cell]> {
        let (mut rows, mut doubles) = (HashMap::with_capacity(table.rows().len()), Vec::new());
        for row in table.rows() {
            let key = self.read(table, row);
            if rows.insert(key.clone(), row.as_slice()).is_some() {
                doubles.push(key);
            }
        }
        for key in &doubles {
            rows.remove(key);
        }
        rows
    }
}

/// A table with the columns in the view's order, figures included.
fn arranged(view: &View, table: &Table, figures: &[&str], mut computed: impl FnMut(&[Cell]) -> Vec<Cell>) -> Table {
    let wanted = view.key.iter().chain(view.first).copied();
    let mut order: Vec<Source> = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    for name in wanted.chain(figures.iter().copied()).chain(table.columns().iter().map(String::as_str)) {
        let from = figures.iter().position(|figure| *figure == name).map(Source::Figure);
        if let Some(from) = from.or_else(|| table.place(name).map(Source::Table))
            && !columns.iter().any(|column| column == name)
        {
            columns.push(name.to_owned());
            order.push(from);
        }
    }
    let rows = table.rows().iter().map(|row| {
        let mut computed = computed(row);
        let cell = |from: &Source| match *from {
            Source::Table(place) => row[place].clone(),
            Source::Figure(place) => computed.get_mut(place).and_then(Option::take),
        };
        order.iter().map(cell).collect()
    });
    let rows = rows.collect();
    Table::made(columns, rows, table.left_out())
}

/// The source of a column.
enum Source {
    Table(usize),
    Figure(usize),
}

/// Formats a figure to about three significant digits.
fn written(figure: f64) -> String {
    match figure.abs() {
        0.0 => "0".to_owned(),
        size if size < 9.995 => format!("{figure:.2}"),
        size if size < 99.95 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

/// Columns that identify rows in any table.
const IDENTIFYING: &[&str] = &["database", "user", "application_name", "id", "statement"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::VIEWS;

    fn view(name: &str) -> &'static View {
        VIEWS.iter().find(|view| view.name == name).expect("a view")
    }

    fn look(seconds: u64, columns: &[&str], rows: &[&[&str]]) -> Look {
        let mut table = Table::new(columns.iter().copied());
        rows.iter().for_each(|row| table.push(row.iter().map(|value| Some(*value))));
        Look { at: Duration::from_secs(seconds), table }
    }

    fn values<'a>(table: &'a Table, column: &str) -> Vec<Option<&'a str>> {
        table.rows().iter().map(|row| table.value(row, column)).collect()
    }

    const STATS: &[&str] = &["database", "total_xact_count", "total_xact_time", "avg_xact_count", "avg_xact_time"];

    #[test]
    fn pools_have_the_figures_of_their_databases() {
        let pools = look(10, &["database", "user", "cl_active"], &[&["a", "u", "1"], &["b", "u", "2"]]);
        let before = look(8, STATS, &[&["a", "100", "1000000", "7", "9"]]);
        let now = look(10, STATS, &[&["a", "120", "1050000", "7", "9"], &["b", "5", "5000", "3", "1000"]]);
        let pools = Looks { now: &pools, before: None };
        let table = shown(view("pools"), pools, Some(Looks { now: &now, before: Some(&before) }));
        assert_eq!(table.columns(), ["database", "user", "cl_active", "xact/s", "xact_ms"]);
        assert_eq!(values(&table, "xact/s"), [Some("10.0"), None]);
        assert_eq!(values(&table, "xact_ms"), [Some("2.50"), None]);
        let table = shown(view("pools"), pools, Some(Looks { now: &now, before: None }));
        assert_eq!(values(&table, "xact/s"), [Some("7.00"), Some("3.00")]);
        assert_eq!(values(&table, "xact_ms"), [Some("0.01"), Some("1.00")]);
        let table = shown(view("pools"), pools, None);
        assert_eq!(table.columns(), ["database", "user", "cl_active"]);
    }

    #[test]
    fn a_counter_that_has_fallen_has_no_rate() {
        let before = look(8, STATS, &[&["a", "100", "1000000", "7", "9"]]);
        let now = look(10, STATS, &[&["a", "3", "100", "7", "9"]]);
        let table = shown(view("stats"), Looks { now: &now, before: Some(&before) }, None);
        assert_eq!(values(&table, "xact/s"), [None]);
    }

    #[test]
    fn two_looks_at_the_same_moment_are_not_divided_by() {
        let now = look(10, STATS, &[&["a", "3", "100", "7", "9"]]);
        let table = shown(view("stats"), Looks { now: &now, before: Some(&now) }, None);
        assert_eq!((values(&table, "xact/s"), values(&table, "xact_ms")), (vec![None], vec![None]));
    }

    #[test]
    fn applications_are_told_apart_by_database_user_and_name() {
        let columns = ["database", "user", "application_name", "transactions", "total_time", "waiting"];
        let before = look(0, &columns, &[&["a", "u", "x", "10", "1000", "500"], &["a", "v", "x", "10", "1000", "0"]]);
        let rows: &[&[&str]] = &[&["a", "v", "x", "20", "3000", "500"], &["a", "u", "x", "10", "1000", "500"]];
        let now = look(1, &columns, rows);
        let table = shown(view("applications"), Looks { now: &now, before: Some(&before) }, None);
        assert_eq!(values(&table, "xact/s"), [Some("10.0"), Some("0")]);
        assert_eq!(values(&table, "waiting%"), [Some("25.0"), None]);
        let table = shown(view("applications"), Looks { now: &now, before: None }, None);
        assert_eq!((values(&table, "xact/s"), values(&table, "waiting%")[1]), (vec![None, None], Some("50.0")));
    }

    #[test]
    fn rows_that_cannot_be_told_apart_have_no_figures() {
        let columns = ["database", "statement", "calls"];
        let rows: &[&[&str]] = &[&["a", "select ?", "10"], &["a", "select ?", "20"], &["b", "select ?", "30"]];
        let (before, now) = (look(0, &columns, rows), look(1, &columns, rows));
        let table = shown(view("statements"), Looks { now: &now, before: Some(&before) }, None);
        assert_eq!(values(&table, "calls/s"), [None, None, Some("0")]);
    }

    #[test]
    fn columns_that_nobody_knows_come_last_and_what_was_left_out_is_told() {
        let answer = look(0, &["brand_new", "user", "database"], &[&["1", "u", "d"]]);
        let table = shown(view("clients"), Looks { now: &answer, before: None }, None);
        assert_eq!(table.columns(), ["database", "user", "brand_new"]);
        assert_eq!(table.rows(), [vec![Some("d".to_owned()), Some("u".to_owned()), Some("1".to_owned())]]);
    }
}
