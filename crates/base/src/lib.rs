//! What every floor stands on: time as a value, keys into tables with a capacity, seeded randomness.
//!
//! Always true: nothing here reads a clock, the environment or any global state, but for `planted`, which does not ship.
//! Not here: anything about PostgreSQL.

mod key;
pub mod planted;
mod random;
mod slab;
mod time;

pub use key::{Key, WorkerId};
pub use random::Random;
pub use slab::Slab;
pub use time::{Time, Wall};

/// The longest identifier PostgreSQL keeps (`NAMEDATALEN - 1`), in bytes.
pub const NAME_BYTES_MAX: usize = 63;
