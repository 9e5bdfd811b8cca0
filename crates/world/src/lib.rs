//! The world: whole workers on a simulated network, between simulated PostgreSQL servers and simulated applications,
//! with faults and checkers, in one thread, on one virtual clock, from one seed. For tests only.
//!
//! Always true: the same seed and the same binary give the same events, byte for byte.
//! Not here: anything that ships.
//!
//! To read it, begin with `state` and `world`, then `plan`, then `checks`.

mod app;
mod checks;
mod faults;
mod members;
mod plan;
mod postgres;
mod sim;
mod state;
mod story;
mod world;

pub use checks::witness::Charge;
pub use story::{Outcome, Teller, has_cluster, keep_panics, verifies};

/// Returns the message that begins at `at`, once it is complete: its type, its body, and where the next one begins.
fn message_at(input: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let header = input.get(at..at + 5)?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let end = at + 1 + length;
    Some((header[0], input.get(at + 5..end)?, end))
}
