//! What a soak is told.

use std::time::Duration;

/// How long, with whom, and by which draw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// How long the chaos lasts; healing and the last checks come after.
    pub(crate) time: Duration,
    /// What all draws begin with. The machine's own timing is not in it: a seed repeats the plan, not the moment.
    pub(crate) seed: u64,
    /// `io_backend`, or what the pooler finds best.
    pub(crate) kernel: Option<String>,
    /// How many clients.
    pub(crate) clients: usize,
}
