//! What an operator runs beside the pooler itself, and the machinery under it.
//!
//! Always true: nothing here is part of the path of a byte; the pooler is only ever started as a program of its own.
//! Not here: reading the command line's first word (crate `trunkline`), the bench (`xtask`, which stands on `trial`).

pub mod demo;
pub mod table;
pub mod trial;
