//! The world: whole workers on a simulated network, before fake PostgreSQLs, with fake applications, faults and checkers,
//! in one thread, on one virtual clock, out of one seed. For tests only.
//!
//! Always true: the same seed and the same binary tell the same story, byte for byte.
//! Not here: anything that ships.
//!
//! To read it, begin with `world`, then `plan`, then `checkers`.

mod agenda;
mod app;
mod board;
mod checkers;
mod console;
mod counters;
mod crew;
mod dice;
mod evict;
mod fairness;
mod faults;
mod force;
mod gate;
mod group;
mod hands;
mod judge;
mod lengths;
mod listeners;
mod marks;
mod net;
mod operator;
mod overdue;
mod peers;
mod phases;
mod plan;
mod postgres;
mod rates;
mod replicas;
mod seats;
mod secrets;
mod session;
mod silence;
mod sql;
mod story;
mod takeover;
mod troubles;
mod veil;
mod witness;
mod world;

pub use story::{Outcome, Teller, keep_panics, verifies};
pub use witness::Charge;

/// The message that begins at `at`, once it is here whole: its kind, its body, and where the next one begins.
fn message_at(input: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let header = input.get(at..at + 5)?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let end = at + 1 + length;
    Some((header[0], input.get(at + 5..end)?, end))
}
