//! Named prepared statements, for clients that have another server in each transaction.
//!
//! Each client has its own names ([`Names`]). A statement that a client prepares is kept once for all clients of a worker
//! ([`StatementRegistry`]), under a name of ours that is the same on every server. Each server has some of these
//! statements ([`ServerStatements`]); a statement that a client uses and its server lacks is prepared there first, and
//! the answer is hidden. A statement that no client has any more is kept as long as servers have it and there is room
//! ([`Statement`]).
//!
//! Always true: a statement counts as being on a server from the moment it is sent until the server reports otherwise, by
//! an error or by skipping it; a statement that may or may not be there is closed before it is prepared; a client is
//! answered in the order in which it asked, and never for what the server has skipped; the unnamed statement follows its
//! client as well ([`Unnamed`]).
//! Not here: portals, which are not followed; statements prepared by SQL (`state`); who owes whom how many answers
//! (`exchange`); where the bytes come from and go (`loan`).

mod account;
mod contest;
mod descriptions;
mod head;
mod messages;
mod names;
mod outdated_plan;
mod own;
mod pack;
mod reading;
mod refusal;
mod registry;
mod server_statements;
mod shape;
mod statement;
mod unnamed;

use std::rc::Rc;

pub use account::{Account, Charge};
pub use head::{Ask, Head, concerns, given_name, head, head_of_bind, head_of_unnamed};
pub use names::Names;
pub use outdated_plan::{Kept, RepeatableRequest, may_be_refused};
pub use own::MentionedNames;
pub use pack::{Gathered, PackedNames, PackedServerStatements, PackedStatement, Unpacking};
pub use registry::StatementRegistry;
pub use server_statements::{CatalogVersion, ServerStatements, Sides, Way};
pub use statement::Statement;
pub use unnamed::{PackedUnnamed, Unnamed, UnnamedReading};

/// Bytes for a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// Written for this message.
    Own(Vec<u8>),
    /// A kept text that is too long to be copied.
    Shared(Rc<[u8]>),
}

/// Counters of prepared statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Statements that clients have prepared.
    pub client_parses: u64,
    /// Statements that were prepared on servers.
    pub server_parses: u64,
    /// Statements that clients have bound.
    pub binds: u64,
}

/// The memory, in bytes, that all clients of a worker may take for statements and names. A client that needs more is
/// disconnected.
pub const HELD_BYTES_MAX: usize = 256 << 20;

/// The longest name of a statement or portal that is understood.
pub const NAME_BYTES_MAX: usize = 65_536;

/// The part of a statement's or portal's name that PostgreSQL uses: the keys of its hash tables are strings of
/// `NAMEDATALEN`, and a longer name is truncated silently, even in the middle of a character (`StorePreparedStatement`,
/// `CreatePortal`).
#[must_use]
pub fn cut(name: &[u8]) -> &[u8] {
    &name[..name.len().min(base::NAME_BYTES_MAX)]
}

/// The prefix of a statement's name on servers, before its number. It is PgBouncer's, because people look for it in
/// `pg_prepared_statements`.
const PREFIX: &str = "PGBOUNCER_";

/// Whether a server may have a statement of this name that no client has given it.
fn is_ours(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes()) || name.starts_with(b"TRUNKLINE_")
}

/// A name for the log, shortened and without line breaks.
fn shown(name: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(&name[..name.len().min(SHOWN_BYTES_MAX)]);
    text.replace(char::is_control, "?").into()
}

/// How much of a name is logged.
const SHOWN_BYTES_MAX: usize = 256;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod server_statements_tests;
