//! The options of a soak.

use std::time::Duration;

/// Duration, clients and seed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// How long the chaos lasts; healing and the last checks come after.
    pub(crate) time: Duration,
    /// Seed of all draws. It does not determine the timing of the machine: the same seed repeats the plan, not the exact
    /// moments.
    pub(crate) seed: u64,
    /// `io_backend`, or what the pooler selects by itself.
    pub(crate) kernel: Option<String>,
    /// How many clients.
    pub(crate) clients: usize,
}
