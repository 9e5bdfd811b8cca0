//! The formats of result values: text, or PostgreSQL's binary formats if a driver asks for them.
//!
//! Always true: every cell can be written in both formats; a number outside the range of its type is clamped.
//! Not here: columns and rows (`table`).

use super::table::ColumnKind;

/// The result formats of Bind: none means text for all columns, one applies to all, otherwise there is one for each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Formats(Vec<i16>);

impl Formats {
    /// Text for all columns.
    pub(crate) const TEXT: Self = Self(Vec::new());

    /// Checks the format codes for a result with `columns` columns.
    ///
    /// # Errors
    /// The SQLSTATE and text of the error.
    pub(crate) fn new(codes: Vec<i16>, columns: usize) -> Result<Self, (&'static str, String)> {
        if let Some(code) = codes.iter().find(|code| !(0..=1).contains(*code)) {
            return Err(("22023", format!("unsupported format code: {code}")));
        }
        if codes.len() > 1 && codes.len() != columns {
            let count = codes.len();
            return Err(("08P01", format!("bind message has {count} result formats but query has {columns} columns")));
        }
        Ok(Self(codes))
    }

    /// Returns the format of a column: 0 is text, 1 is binary.
    pub(crate) fn of(&self, place: usize) -> i16 {
        match &self.0[..] {
            [] => 0,
            [all] => *all,
            each => each.get(place).copied().unwrap_or(0),
        }
    }
}

impl ColumnKind {
    /// Encodes a cell as PostgreSQL's `send` function of its type does.
    pub(crate) fn binary(self, cell: &str) -> Vec<u8> {
        // Cells of these kinds are integers; anything unparsable is a number beyond the range of the type.
        let number = || cell.parse::<i128>().unwrap_or(i128::MAX);
        let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
        match self {
            Self::Text => cell.as_bytes().to_vec(),
            Self::Int => (number().clamp(i32::MIN.into(), i32::MAX.into()) as i32).to_be_bytes().to_vec(),
            Self::Big => (number().clamp(least, most) as i64).to_be_bytes().to_vec(),
            Self::Numeric => numeric(number()),
            Self::Bytes => unhex(cell),
        }
    }
}

/// Decodes the output format of `byteaout`.
fn unhex(cell: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        cell.chars().skip(BYTEA_PREFIX).filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Encodes an integer as `numeric_send` does: digits to the base of 10,000, highest first, without trailing zeros.
fn numeric(number: i128) -> Vec<u8> {
    let mut digits: Vec<i16> = Vec::new();
    let mut rest = number.unsigned_abs();
    while rest > 0 {
        digits.push((rest % NUMERIC_BASE) as i16);
        rest /= NUMERIC_BASE;
    }
    let weight = digits.len().saturating_sub(1) as i16;
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let digits = &digits[zeros..];
    let sign = if number < 0 { NUMERIC_NEGATIVE } else { 0 };
    let head = [digits.len() as i16, weight, sign, 0];
    head.iter().chain(digits.iter().rev()).flat_map(|part| part.to_be_bytes()).collect()
}

/// The number of characters before the digits of a `bytea`.
const BYTEA_PREFIX: usize = 2;
const NUMERIC_BASE: u128 = 10_000;
const NUMERIC_NEGATIVE: i16 = 0x4000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from `numeric_send`, `int4send` and `int8send` of PostgreSQL 15.
    #[test]
    fn numbers_are_sent_as_postgresql_sends_them() {
        let hex = |kind: ColumnKind, cell: &str| {
            kind.binary(cell).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        for (cell, sent) in [
            ("0", "0000000000000000"),
            ("7", "00010000000000000007"),
            ("10000", "00010001000000000001"),
            ("12345678", "000200010000000004d2162e"),
            ("100000001", "0003000200000000000100000001"),
            ("18446744073709551615", "000500040000000007341a5802e103bb064f"),
            ("-5", "00010000400000000005"),
        ] {
            assert_eq!(hex(ColumnKind::Numeric, cell), sent, "{cell}");
        }
        assert_eq!(hex(ColumnKind::Int, "-2"), "fffffffe");
        assert_eq!(hex(ColumnKind::Int, "5000000000"), "7fffffff");
        assert_eq!(hex(ColumnKind::Big, "5000000000"), "000000012a05f200");
        assert_eq!(ColumnKind::Text.binary("käse"), "käse".as_bytes());
    }

    #[test]
    fn formats_are_for_all_columns_or_for_each() {
        let of = |codes: &[i16]| {
            let formats = Formats::new(codes.to_vec(), 3).expect("good formats");
            [0, 1, 2].map(|place| formats.of(place))
        };
        assert_eq!(of(&[]), [0, 0, 0]);
        assert_eq!(of(&[1]), [1, 1, 1]);
        assert_eq!(of(&[0, 1, 0]), [0, 1, 0]);
        assert_eq!(Formats::new(vec![2], 3), Err(("22023", "unsupported format code: 2".to_owned())));
        let text = "bind message has 2 result formats but query has 3 columns".to_owned();
        assert_eq!(Formats::new(vec![0, 1], 3), Err(("08P01", text)));
    }
}
