//! An answer of a console: a table with named columns.
//!
//! Always true: no value contains a character that controls a terminal, whatever the server sent; a table has at most
//! [`ROWS_MAX`] rows and about [`BYTES_MAX`] bytes, and counts the rows that it leaves out.
//! Not here: which columns are shown, and in which order (`view`).

use std::cmp::Ordering;

use conninfo::clean;

/// A value in a table; `None` is NULL.
pub(crate) type Cell = Option<String>;

/// An answer of a console.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
    bytes: usize,
    left_out: usize,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Self {
        Self { columns: columns.into_iter().take(COLUMNS_MAX).map(clean).collect(), ..Self::default() }
    }

    /// Adds a row as the server sent it, or counts it if the table is full.
    pub(crate) fn push<'a>(&mut self, values: impl IntoIterator<Item = Option<&'a str>>) {
        if self.rows.len() >= ROWS_MAX || self.bytes >= BYTES_MAX {
            self.left_out += 1;
            return;
        }
        let mut row: Vec<Cell> = values.into_iter().take(self.columns.len()).map(|value| value.map(clean)).collect();
        row.resize(self.columns.len(), None);
        self.bytes += row.iter().flatten().map(String::len).sum::<usize>();
        self.rows.push(row);
    }

    /// A table made from the rows of another one.
    pub(crate) fn made(columns: Vec<String>, rows: Vec<Vec<Cell>>, left_out: usize) -> Self {
        Self { columns, rows, bytes: 0, left_out }
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows, each with as many cells as there are columns.
    pub(crate) fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Number of rows that the server sent and that were left out.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// The index of a column.
    pub(crate) fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name == column)
    }

    /// The value of a column in a row.
    pub(crate) fn value<'a>(&self, row: &'a [Cell], column: &str) -> Option<&'a str> {
        row.get(self.place(column)?)?.as_deref()
    }

    /// The number in a column of a row.
    pub(crate) fn number(&self, row: &[Cell], column: &str) -> Option<f64> {
        number(self.value(row, column)?)
    }

    /// Whether a column contains numbers only.
    pub(crate) fn is_numeric(&self, place: usize) -> bool {
        let mut values = self.rows.iter().filter_map(|row| row[place].as_deref()).peekable();
        values.peek().is_some() && values.all(|value| number(value).is_some())
    }

    /// Keeps the rows with a value that contains `wanted`, ignoring case.
    pub(crate) fn filter(&mut self, wanted: &str) {
        let wanted = wanted.to_lowercase();
        if !wanted.is_empty() {
            self.rows.retain(|row| row.iter().flatten().any(|value| value.to_lowercase().contains(&wanted)));
        }
    }

    /// Sorts the rows by a column, numbers by their values; NULL comes last in both orders. The sort is stable.
    pub(crate) fn sort(&mut self, place: usize, order: Order) {
        self.rows.sort_by(|left, right| match (&left[place], &right[place]) {
            (Some(left), Some(right)) => match order {
                Order::Rising => compare(left, right),
                Order::Falling => compare(right, left),
            },
            (left, right) => left.is_none().cmp(&right.is_none()),
        });
    }
}

/// The order of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The smallest first.
    Rising,
    /// The largest first.
    Falling,
}

impl Order {
    /// The opposite order.
    pub(crate) fn reverse(self) -> Self {
        match self {
            Order::Rising => Order::Falling,
            Order::Falling => Order::Rising,
        }
    }
}

fn compare(left: &str, right: &str) -> Ordering {
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// Parses a number as consoles write them; words that Rust would accept, such as `inf`, are names here.
fn number(text: &str) -> Option<f64> {
    let is_spelled_so = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    if is_spelled_so { text.parse().ok() } else { None }
}

/// Most rows kept of an answer: more than anybody reads, and few enough to sort after each answer.
pub(crate) const ROWS_MAX: usize = 10_000;

/// Most bytes of values kept; the row that exceeds this is the last.
pub(crate) const BYTES_MAX: usize = 8 << 20;

/// Most columns kept; `SHOW SOCKETS` has 29.
const COLUMNS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use conninfo::CLEAN_CHARS_MAX;

    use super::*;

    fn table(values: &[Option<&str>]) -> Table {
        let mut table = Table::new(["a"]);
        values.iter().for_each(|value| table.push([*value]));
        table
    }

    fn column(table: &Table) -> Vec<Option<&str>> {
        table.rows().iter().map(|row| row[0].as_deref()).collect()
    }

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        let mut hostile = Table::new(["na\x1bme"]);
        hostile.push([Some("\x1b[2J")]);
        assert_eq!((hostile.columns()[0].as_str(), column(&hostile)), ("na\\x1bme", vec![Some("\\x1b[2J")]));
    }

    #[test]
    fn a_full_table_counts_what_it_leaves_out() {
        let mut many = Table::new(["a"]);
        (0..ROWS_MAX + 7).for_each(|_| many.push([Some("1")]));
        assert_eq!((many.rows().len(), many.left_out()), (ROWS_MAX, 7));
        let mut wide = Table::new(["a"]);
        let value = "x".repeat(CLEAN_CHARS_MAX);
        (0..BYTES_MAX / CLEAN_CHARS_MAX + 5).for_each(|_| wide.push([Some(value.as_str())]));
        assert_eq!(wide.left_out(), 5);
    }

    #[test]
    fn a_row_has_as_many_values_as_there_are_columns() {
        let mut table = Table::new(["a", "b"]);
        table.push([Some("1"), Some("2"), Some("3")]);
        table.push([Some("1")]);
        assert_eq!(table.rows(), [vec![Some("1".into()), Some("2".into())], vec![Some("1".into()), None]]);
    }

    #[test]
    fn numbers_are_ordered_as_numbers_and_nothing_comes_last() {
        let values = [Some("10"), None, Some("9.5"), Some("-1"), Some("inf")];
        let mut rising = table(&values);
        rising.sort(0, Order::Rising);
        assert_eq!(column(&rising), [Some("-1"), Some("9.5"), Some("10"), Some("inf"), None]);
        let mut falling = table(&values);
        falling.sort(0, Order::Falling);
        assert_eq!(column(&falling), [Some("inf"), Some("10"), Some("9.5"), Some("-1"), None]);
        assert!(table(&[Some("1"), None]).is_numeric(0));
        assert!(!table(&values).is_numeric(0) && !table(&[None]).is_numeric(0));
    }

    #[test]
    fn a_filter_keeps_rows_with_the_text_in_any_case() {
        let mut filtered = table(&[Some("Billing"), Some("shop"), None]);
        filtered.filter("bill");
        assert_eq!(column(&filtered), [Some("Billing")]);
    }
}
