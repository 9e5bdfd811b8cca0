//! A run: the production pools of crate `pool` on a virtual clock, with the applications above them and the server below.
//!
//! Always true: the same spec and the same seed give the same numbers. Nothing here waits: a simulated hour takes as long as its
//! transactions need to be computed.
//! Not here: several runs and what they tell together (`experiment`).

mod applications;
mod asking;
mod clock;
mod conservation;
mod happenings;
mod loans;
mod outcome;
mod quota;
mod run;
mod sources;
mod tally;
#[cfg(test)]
mod tests;
mod traffic;
mod upstream;

pub(crate) use asking::{Ask, Asked, Asking};
pub(crate) use conservation::Balance;
pub(crate) use loans::{LoanBook, run_with_loans};
pub(crate) use outcome::{GroupOutcome, Means, Outcome, TenantOutcome, overall, seconds_at};
pub(crate) use run::{Measured, SLICES, run, run_with_work};
pub(crate) use tally::{CLOSED, Counts, LIFETIME, OPENED, Refused, ServerCounts, Slice};
