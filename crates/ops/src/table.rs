//! A table for a terminal: numbers are right-aligned, and groups of columns have a common heading.

/// A table while it is being filled.
#[derive(Clone, Debug, Default)]
pub struct Table {
    groups: Vec<(String, usize)>,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    /// How many of the first columns contain words.
    words: usize,
}

impl Table {
    /// A table with groups of columns: each group has a heading (which may be empty) and the names of its columns.
    #[must_use]
    pub fn new(groups: &[(&str, &[&str])]) -> Self {
        Self {
            groups: groups.iter().map(|(title, heads)| ((*title).to_owned(), heads.len())).collect(),
            heads: groups.iter().flat_map(|(_, heads)| heads.iter().map(|&head| head.to_owned())).collect(),
            rows: Vec::new(),
            words: 1,
        }
    }

    /// Sets how many of the first columns contain words; the default is one.
    #[must_use]
    pub fn with_words(mut self, columns: usize) -> Self {
        self.words = columns;
        self
    }

    /// Adds a row. Missing cells are empty, and surplus cells are dropped.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as lines. Words are left-aligned, numbers right-aligned.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let mut lines = Vec::new();
        if self.groups.iter().any(|(title, _)| !title.is_empty()) {
            lines.push(self.titles(&widths));
        }
        lines.push(self.line(&self.heads, &widths));
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths)));
        lines
    }

    /// Widths of the columns, so that every cell and every group's heading fits.
    fn widths(&self) -> Vec<usize> {
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let mut widths: Vec<usize> = (0..self.heads.len())
            .map(|column| cells(column).chain(self.heads.get(column)).map(|cell| width(cell)).max().unwrap_or(0))
            .collect();
        let mut first = 0;
        for (title, columns) in &self.groups {
            let group = &mut widths[first..first + columns];
            let wide: usize = group.iter().sum::<usize>() + columns.saturating_sub(1);
            if let Some(last) = group.last_mut() {
                *last += width(title).saturating_sub(wide);
            }
            first += columns;
        }
        widths
    }

    fn titles(&self, widths: &[usize]) -> String {
        let mut line = String::new();
        let mut first = 0;
        for (title, columns) in &self.groups {
            let wide = widths[first..first + columns].iter().sum::<usize>() + columns.saturating_sub(1);
            push(&mut line, title, wide, first >= self.words, if first == 0 { 0 } else { GROUP_GAP });
            first += columns;
        }
        line.trim_end().to_owned()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        let mut column = 0;
        for (_, columns) in &self.groups {
            for place in 0..*columns {
                let cell = cells.get(column).map_or("", String::as_str);
                let gap = match (column, place) {
                    (0, _) => 0,
                    (_, 0) => GROUP_GAP,
                    _ => 1,
                };
                push(&mut line, cell, widths[column], column >= self.words, gap);
                column += 1;
            }
        }
        line.trim_end().to_owned()
    }
}

fn push(line: &mut String, cell: &str, wide: usize, is_number: bool, gap: usize) {
    let padding = " ".repeat(wide.saturating_sub(width(cell)));
    line.push_str(&" ".repeat(gap));
    line.push_str(&if is_number { padding + cell } else { cell.to_owned() + &padding });
}

/// The columns of a terminal that a text takes. All our texts have characters of single width.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// A number with thousands separators: `12,345`.
#[must_use]
pub fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A positive number to about three digits: `0.123`, `1.23`, `12.3`, `1,234`.
#[must_use]
pub fn short(number: f64) -> String {
    match number {
        n if n >= 100.0 => count(n),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n => format!("{n:.3}"),
    }
}

/// Spaces before a group of columns.
const GROUP_GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_groups_as_their_heading() {
        let mut table = Table::new(&[("", &["who"]), ("a long heading", &["a", "b"]), ("c", &["d"])]);
        table.row(["me", "1", "22", "333"].map(String::from).to_vec());
        assert_eq!(
            table.lines(),
            [
                "     a long heading    c", //
                "who  a            b    d",
                "me   1           22  333",
            ]
        );
    }

    #[test]
    fn words_stand_to_the_left() {
        let mut table = Table::new(&[("", &["what"]), ("", &["who"]), ("", &["much"])]).with_words(2);
        table.row(["tea", "Sisyphus", "7"].map(String::from).to_vec());
        assert_eq!(table.lines(), ["what  who       much", "tea   Sisyphus     7"]);
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(["1,234,567", "999", "0"].to_vec(), [count(1_234_567.4), count(999.0), count(-1.0)]);
        assert_eq!(["0.123", "1.23", "12.3", "1,234"].to_vec(), [0.1234, 1.234, 12.34, 1234.4].map(short));
    }
}
