//! The result of a SHOW: columns and rows.
//!
//! Always true: every row has a cell for every column; a cell is text, whatever its type.
//! Not here: the meaning of the columns (`show`).

use std::borrow::Cow;

use wire::write;

use super::formats::Formats;

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its type.
    pub(crate) kind: ColumnKind,
}

/// The types of columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ColumnKind {
    /// Text and timestamps.
    Text,
    /// Numbers.
    Int,
    /// Large numbers.
    Big,
    /// Counters without a bound.
    Numeric,
    /// Bytes.
    Bytes,
}

/// A value; `None` is SQL's NULL.
pub(crate) type Cell = Option<String>;

/// Columns and rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    /// The columns of all rows.
    pub(crate) columns: &'static [Column],
    /// The rows in the order of the output.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Appends the `RowDescription`.
    pub(crate) fn describe(&self, out: &mut Vec<u8>, formats: &Formats) {
        describe(out, self.columns, formats);
    }

    /// Appends the `DataRow` of one of the rows.
    pub(crate) fn write_row(&self, out: &mut Vec<u8>, row: &[Cell], formats: &Formats) {
        write_row(out, self.columns, row, formats);
    }
}

/// Appends the `DataRow` of a row with these columns.
pub(crate) fn write_row(out: &mut Vec<u8>, columns: &[Column], row: &[Cell], formats: &Formats) {
    let cells = columns.iter().zip(row).enumerate().map(|(place, (column, cell))| match formats.of(place) {
        0 => cell.as_deref().map(|text| Cow::Borrowed(text.as_bytes())),
        _ => cell.as_deref().map(|text| Cow::Owned(column.kind.binary(text))),
    });
    write::data_row(out, cells.collect::<Vec<_>>().into_iter());
}

/// Returns the size of a row in memory.
pub(crate) fn row_bytes(row: &[Cell]) -> usize {
    let cell_bytes = |cell: &Cell| size_of::<Cell>() + cell.as_ref().map_or(0, String::len);
    size_of::<Vec<Cell>>() + row.iter().map(cell_bytes).sum::<usize>()
}

/// Appends the `RowDescription` of these columns.
pub(crate) fn describe(out: &mut Vec<u8>, columns: &[Column], formats: &Formats) {
    let described: Vec<_> = columns.iter().enumerate().map(|(at, column)| column.described(formats.of(at))).collect();
    write::row_description(out, &described);
}

impl Column {
    /// A column of text.
    pub(crate) const fn text(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Text }
    }

    /// A column of numbers.
    pub(crate) const fn int(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Int }
    }

    /// A column of large numbers.
    pub(crate) const fn big(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Big }
    }

    /// A column of counters.
    pub(crate) const fn numeric(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Numeric }
    }

    /// A column of bytes.
    pub(crate) const fn bytes(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Bytes }
    }

    fn described(&self, format: i16) -> write::Column<'static> {
        let (type_oid, type_bytes) = self.kind.oid_and_bytes();
        write::Column { name: self.name, type_oid, type_bytes, format }
    }
}

impl ColumnKind {
    /// Returns the SQL name of the type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int => "int4",
            Self::Big => "int8",
            Self::Numeric => "numeric",
            Self::Bytes => "bytea",
        }
    }

    /// Returns the type's OID and length (`catalog/pg_type.dat`): text, int4, int8, numeric, bytea.
    fn oid_and_bytes(self) -> (u32, i16) {
        match self {
            Self::Text => (25, -1),
            Self::Int => (23, 4),
            Self::Big => (20, 8),
            Self::Numeric => (1700, -1),
            Self::Bytes => (17, -1),
        }
    }
}

/// A cell of text.
pub(crate) fn text(value: impl Into<String>) -> Cell {
    Some(value.into())
}

/// A cell with a number.
pub(crate) fn number(value: impl ToString) -> Cell {
    Some(value.to_string())
}

/// A boolean as 0 or 1.
pub(crate) fn flag(value: bool) -> Cell {
    number(u8::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_description_and_its_rows() {
        const COLUMNS: &[Column] = &[Column::text("a"), Column::int("b"), Column::numeric("c")];
        let mut out = Vec::new();
        let table = Table { columns: COLUMNS, rows: vec![vec![text("x"), number(7), None]] };
        table.describe(&mut out, &Formats::TEXT);
        table.write_row(&mut out, &table.rows[0], &Formats::TEXT);
        let mut expected = b"T\0\0\0\x42\0\x03".to_vec();
        for (name, oid, bytes) in [(b'a', 25_u32, -1_i16), (b'b', 23, 4), (b'c', 1700, -1)] {
            expected.extend([name, 0, 0, 0, 0, 0, 0, 0]);
            expected.extend(oid.to_be_bytes());
            expected.extend(bytes.to_be_bytes());
            expected.extend([0xff, 0xff, 0xff, 0xff, 0, 0]);
        }
        expected.extend(b"D\0\0\0\x14\0\x03\0\0\0\x01x\0\0\0\x017\xff\xff\xff\xff");
        assert_eq!(out, expected);
    }
}
