//! Foundations of all crates: time as a value, keys into tables with a capacity, fair queues, seeded random numbers.
//!
//! Always true: nothing here reads a clock, the environment or any global state, except `planted`, which does not ship.
//! Not here: anything about PostgreSQL.

mod counted;
mod cut;
mod fair;
mod id;
mod key;
mod origin;
pub mod planted;
mod random;
mod slab;
mod time;
mod words;

pub use counted::counted;
pub use cut::cut;
pub use fair::{FairQueue, PeerQueue, Place};
pub use id::Id;
pub use key::{Key, WorkerId};
pub use origin::Origin;
pub use random::Random;
pub use slab::Slab;
pub use time::{Time, Wall, earliest};

/// The longest identifier PostgreSQL keeps (`NAMEDATALEN - 1`), in bytes.
pub const NAME_BYTES_MAX: usize = 63;
