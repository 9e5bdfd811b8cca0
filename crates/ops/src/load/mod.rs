//! Load: when requests come, how long they take, what is measured of them, and whether the measurement is worth anything.
//!
//! Always true: the same seed asks for the same at the same times; a response time counts from the moment at which the request was to
//! be sent, not from the one at which a client was free for it.
//! Not here: which load a command plays (`simulate`, `capacity`), what follows from it (`theory`, `findings`).

mod channel;
mod check;
mod driver;
mod law;
mod null;
mod pairs;
mod poll;
mod request;
mod self_check;
mod session;
mod steady;
mod tally;
mod times;

pub(crate) use check::{Fitness, reasons_against};
pub(crate) use driver::Driver;
pub(crate) use law::{Dice, Law, micros};
#[cfg(test)]
pub(crate) use null::NullResponder;
pub(crate) use pairs::{ratio, turns};
pub(crate) use request::{Effort, Ended, Lane, Order, Patience, Request, Step, Traffic};
pub(crate) use self_check::{Capability, capability};
pub(crate) use session::{Login, LoginTimes, Place, Refused};
pub(crate) use steady::steadiness;
pub(crate) use tally::{End, Passage, Tally};
pub(crate) use times::Times;
