//! Prepared statements: those of the protocol, and those of SQL.

pub(crate) mod carried;
pub(crate) mod names;
pub(crate) mod statements;
