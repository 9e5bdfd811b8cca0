//! What a server tells of a statement: the types of its parameters, and its columns.
//!
//! Always true: two shapes differ only if PostgreSQL, too, would find that the result of the statement has changed, or if a
//! parameter has another type.
//! Not here: when shapes are compared (`descriptions`), where they are kept (`names`, `server_statements`).

use std::hash::Hasher;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::statement::Statement;
use crate::hash::{Hashing, hash_of};

/// The shape of a statement, as hashes; 0 for what is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Shape {
    parameters: u64,
    columns: u64,
}

impl Shape {
    /// The shape that a server describes by a `ParameterDescription`, if it has sent one, and the body of a
    /// `RowDescription`, or None for `NoData`.
    pub(super) fn new(parameters: Option<u64>, columns: Option<&[u8]>) -> Self {
        let columns = columns.map_or(NO_COLUMNS, of_columns);
        Self { parameters: parameters.unwrap_or_default(), columns }
    }

    /// Whether the columns are known. Those of a portal are described without its parameters.
    pub(super) fn is_known(self) -> bool {
        self.columns != 0
    }

    /// Whether a client that has been told `self` cannot read what a statement of the `other` shape returns, or would send
    /// it parameters of other types. What is not known of either does not differ.
    pub(super) fn differs(self, other: Self) -> bool {
        let differ = |a: u64, b: u64| a != b && a != 0 && b != 0;
        differ(self.parameters, other.parameters) || differ(self.columns, other.columns)
    }

    /// The same shape, with what only the `other` tells.
    pub(super) fn or(self, other: Self) -> Self {
        let or = |a: u64, b: u64| if a == 0 { b } else { a };
        Self { parameters: or(self.parameters, other.parameters), columns: or(self.columns, other.columns) }
    }
}

/// A statement that a client uses, and that its server has or is sent now.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) statement: Statement,
    /// What the client has been told of it.
    pub(super) told: Shape,
    /// The step that the name depends on, if there is one.
    pub(super) named_by: u64,
    /// What is known of it on the server.
    pub(super) here: Shape,
}

/// A Describe that is on its way.
#[derive(Debug)]
pub(super) struct Describing {
    /// The number of the statement.
    pub(super) statement: u64,
    /// When the server was sent it.
    pub(super) born: u64,
    /// Who is told.
    pub(super) told: Option<Listener>,
}

/// The name by which a client has a statement described.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) name: Rc<[u8]>,
    /// The step that gave the name, while its outcome is not known; otherwise 0.
    pub(super) step: u64,
}

/// A Bind of the portal without a name, where the client describes that next.
#[derive(Debug)]
pub(super) struct LastBind {
    pub(super) statement: u64,
    pub(super) told: Listener,
    /// The number of the Bind.
    pub(super) number: u64,
}

/// A Bind that waits for the description of its statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) statement: u64,
    /// The number of our Describe.
    pub(super) number: u64,
    /// The number that the Bind gets when it comes again; 0 until then.
    pub(super) again: u64,
}

/// Whether a Bind may be sent.
pub(super) enum Fit {
    Yes,
    /// The result of its statement is another than the client has been told.
    No,
    /// That is not known yet.
    Unknown,
}

/// The hash of the body of a `ParameterDescription`.
pub(super) fn of_parameters(body: &[u8]) -> u64 {
    hash_of(body).max(1)
}

/// The hash of the body of a `RowDescription`: of the name of each column, its type, the size of the type and its modifier.
/// PostgreSQL, too, lets a plan have its new result if these are the same (`equalRowTypes`), and does not compare which
/// table they are of. The format is that of a portal.
fn of_columns(body: &[u8]) -> u64 {
    let mut rest = body.get(2..).unwrap_or_default();
    let mut columns = Hashing::default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0)
        && let Some((column, behind)) = rest[end + 1..].split_at_checked(COLUMN_BYTES)
    {
        columns.write(&rest[..=end]);
        columns.write(&column[TYPE_AT..FORMAT_AT]);
        rest = behind;
    }
    columns.finish().max(NO_COLUMNS + 1)
}

/// Of a statement that returns nothing.
const NO_COLUMNS: u64 = 1;
/// The bytes that follow the name of a column: the table's OID, the column's number, the type's OID, the size of the type,
/// the modifier of the type, and the format (PostgreSQL manual, "Message Formats").
const COLUMN_BYTES: usize = 18;
const TYPE_AT: usize = 6;
const FORMAT_AT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, table: u32, kind: u32, modifier: i32, format: u16) -> Vec<u8> {
        let mut body = [name.as_bytes(), b"\0"].concat();
        body.extend_from_slice(&table.to_be_bytes());
        body.extend_from_slice(&1_u16.to_be_bytes());
        body.extend_from_slice(&kind.to_be_bytes());
        body.extend_from_slice(&4_u16.to_be_bytes());
        body.extend_from_slice(&modifier.to_be_bytes());
        body.extend_from_slice(&format.to_be_bytes());
        body
    }

    fn shape(columns: &[Vec<u8>]) -> Shape {
        let body = [&(columns.len() as u16).to_be_bytes()[..], &columns.concat()].concat();
        Shape::new(None, Some(&body))
    }

    #[test]
    fn what_the_columns_are_called_and_their_types_matter_and_nothing_else() {
        let one = shape(&[column("x", 7, 23, -1, 0)]);
        for (other, differs) in [
            (vec![column("x", 7, 23, -1, 0)], false),
            (vec![column("x", 8, 23, -1, 0)], false),
            (vec![column("x", 7, 23, -1, 1)], false),
            (vec![column("y", 7, 23, -1, 0)], true),
            (vec![column("x", 7, 25, -1, 0)], true),
            (vec![column("x", 7, 23, 12, 0)], true),
            (vec![column("x", 7, 23, -1, 0), column("x", 7, 23, -1, 0)], true),
            (vec![], true),
        ] {
            assert_eq!(one.differs(shape(&other)), differs, "{other:?}");
        }
        let none = Shape::new(None, None);
        assert!(one.differs(none) && !none.differs(none) && none.differs(shape(&[])));
    }

    #[test]
    fn what_is_not_known_does_not_differ_and_is_learnt_from_the_other() {
        let columns = shape(&[column("x", 7, 23, -1, 0)]);
        let (int, text) = (of_parameters(&[0, 1, 0, 0, 0, 23]), of_parameters(&[0, 1, 0, 0, 0, 25]));
        let with = |parameters: u64| Shape { parameters, ..columns };
        assert!(with(int).differs(with(text)) && !with(int).differs(columns) && !columns.differs(with(text)));
        assert!(!Shape::default().is_known() && columns.is_known() && !Shape::default().differs(with(int)));
        assert_eq!((columns.or(with(int)), with(text).or(with(int))), (with(int), with(text)));
    }

    #[test]
    fn a_description_that_is_cut_off_has_a_shape_as_well() {
        let whole = [&[0, 1][..], &column("x", 7, 23, -1, 0)].concat();
        for length in 0..whole.len() {
            assert!(Shape::new(None, Some(&whole[..length])).is_known());
        }
    }
}
