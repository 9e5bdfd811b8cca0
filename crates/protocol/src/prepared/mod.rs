//! Prepared statements with names, for clients that have another server with each transaction.
//!
//! A client's names are its own ([`Names`]). What it prepares is kept once for all clients of a worker ([`StatementRegistry`]), under a
//! name of ours that is the same on every server. Each server has some of these statements ([`ServerStatements`]); what a client uses and
//! its server lacks is prepared there first, and nobody sees the answer. What no client has any more is kept for as long as servers have it and
//! there is room ([`Statement`]).
//!
//! Always true: a statement counts as being on a server from the moment it is sent until the server says otherwise, by an
//! error or by skipping it; what may or may not be there is closed before it is prepared; a client is answered in the order
//! in which it asked, and never for what the server has skipped.
//! The statement without a name is its client's, too ([`Unnamed`]).
//! Not here: portals, which nobody looks at; what SQL has prepared (`state`); who owes whom how many answers (`exchange`); where the bytes come from and go (`worker::statements`).

mod account;
mod again;
mod head;
mod names;
mod own;
mod pack;
mod reading;
mod refusal;
mod registry;
mod server_statements;
mod statement;
mod unnamed;

use std::rc::Rc;

pub use account::{Account, Charge};
pub use again::{Again, Kept, may_be_refused};
pub use head::{Ask, Head, concerns, given_name, head, head_of_unnamed};
pub use names::Names;
pub use own::Said;
pub use pack::{Gathered, PackedNames, PackedServerStatements, PackedStatement, Unpacking};
pub use registry::StatementRegistry;
pub use server_statements::{Moment, ServerStatements, Sides, Way};
pub use statement::Statement;
pub use unnamed::{PackedUnnamed, Unnamed};

/// Bytes for a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// Made for this moment.
    Own(Vec<u8>),
    /// A text that is kept, too long to be copied.
    Shared(Rc<[u8]>),
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Statements that clients have prepared.
    pub client_parses: u64,
    /// Statements that were prepared on servers.
    pub server_parses: u64,
    /// Statements that clients have bound.
    pub binds: u64,
}

/// What all clients of a worker may make it remember of statements and names, in bytes. Whoever wants more is let go.
pub const HELD_BYTES_MAX: usize = 256 << 20;

/// The longest name of a statement or portal that is understood.
pub const NAME_BYTES_MAX: usize = 65_536;

/// As much of a name of a statement or portal as PostgreSQL looks at: it keeps them in tables whose keys are strings of `NAMEDATALEN`, and what is longer
/// is cut off there without a word, be it in the middle of a character (`StorePreparedStatement`, `CreatePortal`).
#[must_use]
pub fn cut(name: &[u8]) -> &[u8] {
    &name[..name.len().min(base::NAME_BYTES_MAX)]
}

/// What a statement is called on servers, before its number. PgBouncer's word, since people look for it in
/// `pg_prepared_statements`.
const PREFIX: &str = "PGBOUNCER_";

/// Whether a server may have a statement of this name that no client has given it.
fn is_ours(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes()) || name.starts_with(b"TRUNKLINE_")
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod server_statements_tests;
