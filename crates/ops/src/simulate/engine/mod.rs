//! A run: the production pools of crate `pool` on a virtual clock, with the applications above them and the server below.
//!
//! Always true: the same spec and the same seed give the same numbers. Nothing here waits: a simulated hour takes as long as its
//! transactions need to be computed.
//! Not here: several runs and what they tell together (`experiment`).

mod applications;
mod clock;
mod conservation;
mod happenings;
mod loans;
mod outcome;
mod quota;
mod run;
mod tally;
#[cfg(test)]
mod tests;
mod traffic;
mod upstream;

pub(crate) use loans::{LoanBook, run_with_loans};
pub(crate) use outcome::{GroupOutcome, Outcome, TenantOutcome, seconds_at};
pub(crate) use run::run;
pub(crate) use tally::{CLOSED, Counts, OPENED, Refused, ServerCounts};
