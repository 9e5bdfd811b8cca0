//! The console's tables as JSON.
//!
//! Always true: a row is an object whose keys are the columns, in their order; numbers are numbers, NULL is null.

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

use crate::console::table::{Cell, Column, ColumnKind, Table};

/// Returns a table as `{"rows": [{...}, ...]}`.
pub(crate) fn table(table: &Table) -> String {
    serde_json::to_string(&Rows(table)).unwrap_or_default()
}

/// Returns new rows for a reader that follows a table: `{"next": N, "rows": [{...}, ...]}`, where the reader passes N
/// in its next request.
pub(crate) fn followed(next: u64, table: &Table) -> String {
    serde_json::to_string(&Followed { next, rows: List(table) }).unwrap_or_default()
}

#[derive(serde::Serialize)]
struct Followed<'t> {
    next: u64,
    rows: List<'t>,
}

struct Rows<'t>(&'t Table);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("rows", &List(self.0))?;
        map.end()
    }
}

struct List<'t>(&'t Table);

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.0.rows.len()))?;
        for row in &self.0.rows {
            rows.serialize_element(&Row { columns: self.0.columns, cells: row })?;
        }
        rows.end()
    }
}

struct Row<'t> {
    columns: &'t [Column],
    cells: &'t [Cell],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(Some(self.columns.len()))?;
        for (column, cell) in self.columns.iter().zip(self.cells) {
            match (cell, column.kind) {
                (None, _) => row.serialize_entry(column.name, &())?,
                (Some(text), ColumnKind::Text | ColumnKind::Bytes) => row.serialize_entry(column.name, text)?,
                (Some(text), ColumnKind::Int | ColumnKind::Big | ColumnKind::Numeric) => match text.parse::<i64>() {
                    Ok(number) => row.serialize_entry(column.name, &number)?,
                    Err(_) => match text.parse::<f64>() {
                        Ok(number) => row.serialize_entry(column.name, &number)?,
                        Err(_) => row.serialize_entry(column.name, text)?,
                    },
                },
            }
        }
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::table::{number, text};

    #[test]
    fn a_table_is_a_list_of_objects() {
        const COLUMNS: &[Column] =
            &[Column::text("z"), Column::int("b"), Column::numeric("c"), Column::text("d"), Column::numeric("e")];
        let rows = vec![vec![text("\"<&"), number(7), number(u64::MAX), None, number(1.5)]];
        let expected = r#"{"rows":[{"z":"\"<&","b":7,"c":1.8446744073709552e+19,"d":null,"e":1.5}]}"#;
        assert_eq!(table(&Table { columns: COLUMNS, rows }), expected);
        assert_eq!(table(&Table { columns: COLUMNS, rows: Vec::new() }), r#"{"rows":[]}"#);
    }
}
