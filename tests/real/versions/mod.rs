//! Features that are new in a version of PostgreSQL.

pub(crate) mod postgres17;
pub(crate) mod postgres18;
