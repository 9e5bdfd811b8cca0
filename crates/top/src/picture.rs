//! One picture as plain text, for scripts and for files.
//!
//! Always true: it contains every row and every column in full width, and no control sequences.
//! Not here: the interactive screen (`screen`, `draw`).

use ratatui::text::Span;

use crate::sentence::Sentence;
use crate::table::Table;

/// The text of a picture.
pub(crate) fn picture(title: &str, sentence: Option<&Sentence>, view: &str, table: &Table) -> String {
    let mut lines = vec![title.to_owned()];
    lines.extend(sentence.map(|sentence| sentence.text.clone()));
    lines.push(String::new());
    let columns = table.columns();
    let widths: Vec<usize> = (0..columns.len()).map(|place| natural_width(table, place)).collect();
    let is_numeric: Vec<bool> = (0..columns.len()).map(|place| table.is_numeric(place)).collect();
    let line = |values: &mut dyn Iterator<Item = &str>| {
        let cells = values.zip(&widths).zip(&is_numeric).map(|((value, width), is_numeric)| {
            let blank = " ".repeat(width.saturating_sub(width_of(value)));
            if *is_numeric { blank + value } else { value.to_owned() + &blank }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.push(line(&mut columns.iter().map(String::as_str)));
    for row in table.rows() {
        lines.push(line(&mut row.iter().map(|cell| cell.as_deref().unwrap_or_default())));
    }
    let rows = if table.rows().len() == 1 { "row" } else { "rows" };
    lines.push(format!("({view}: {} {rows}{})", table.rows().len(), left_out(table)));
    lines.join("\n") + "\n"
}

/// The width at which a column shows all of each value.
pub(crate) fn natural_width(table: &Table, place: usize) -> usize {
    let values = table.rows().iter().filter_map(|row| row[place].as_deref());
    values.map(width_of).chain([width_of(&table.columns()[place])]).max().unwrap_or(0)
}

/// The columns of a terminal that a text takes.
pub(crate) fn width_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// A note about rows that were left out.
pub(crate) fn left_out(table: &Table) -> String {
    match table.left_out() {
        0 => String::new(),
        count => format!(", {count} more left out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_all_of_each_value_in_columns() {
        let mut table = Table::new(["database", "cl_waiting", "waits_for"]);
        table.push([Some("shop"), Some("2"), Some("a very long reason with 日本")]);
        table.push([Some("a"), Some("11"), None]);
        let sentence = Sentence { text: "The pool is too small.".to_owned(), is_well: false };
        assert_eq!(
            picture("console", Some(&sentence), "pools", &table),
            "console\nThe pool is too small.\n\n\
             database  cl_waiting  waits_for\n\
             shop               2  a very long reason with 日本\n\
             a                 11\n\
             (pools: 2 rows)\n"
        );
    }

    #[test]
    fn what_was_left_out_is_told() {
        let table = Table::made(vec!["a".to_owned()], Vec::new(), 3);
        assert_eq!(picture("t", None, "clients", &table), "t\n\na\n(clients: 0 rows, 3 more left out)\n");
    }
}
