//! Commands for operators besides the pooler itself, and what they are built on.
//!
//! Always true: nothing here is part of the data path; the pooler is only ever started as a separate program.
//! Not here: the command line's first word (crate `trunkline`), the bench (`xtask`, which uses `trial`).

pub mod advise;
mod arguments;
pub mod capacity;
mod connection;
mod deliver;
pub mod demo;
pub mod doctor;
mod facts;
mod findings;
pub mod hatest;
pub mod lint;
mod load;
pub mod record;
pub mod replay;
mod report;
pub mod simulate;
pub mod table;
pub mod theory;
pub mod trial;

pub use deliver::deliver;
