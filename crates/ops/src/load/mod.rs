//! Load: when requests come, how long they take, what is measured of them, and whether the measurement is worth anything.
//!
//! Always true: the same seed asks for the same at the same times; a response time counts from the moment at which the request was to
//! be sent, not from the one at which a client was free for it.
//! Not here: which load a command plays (`simulate`, `capacity`), what follows from it (`theory`, `findings`).

mod law;
mod times;

pub(crate) use law::{Dice, Law, micros};
pub(crate) use times::Times;
