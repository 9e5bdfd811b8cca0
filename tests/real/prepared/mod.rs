//! Prepared statements of the protocol and of SQL.

pub(crate) mod carried;
pub(crate) mod descriptions;
pub(crate) mod names;
pub(crate) mod statements;
pub(crate) mod unnamed;
