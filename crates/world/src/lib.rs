//! The world: whole workers on a simulated network, before fake PostgreSQLs, with fake applications, faults and checkers,
//! in one thread, on one virtual clock, out of one seed. For tests only.
//!
//! Always true: the same seed and the same binary tell the same story, byte for byte.
//! Not here: anything that ships.
//!
//! To read it, begin with `world`, then `plan`, then `checkers`.

mod agenda;
mod app;
mod checkers;
mod dice;
mod fairness;
mod faults;
mod hands;
mod net;
mod phases;
mod plan;
mod postgres;
mod session;
mod sql;
mod story;
mod witness;
mod world;

pub use story::{Outcome, Teller, keep_panics};
pub use witness::Charge;
