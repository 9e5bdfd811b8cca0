//! How often the primary changes.
//!
//! Always true: at most [`FLAPPING`] times are kept.
//! Not here: who the primary is (`cluster`).

use std::collections::VecDeque;
use std::time::Duration;

use base::Time;

/// The last changes of the primary.
#[derive(Debug, Default)]
pub(crate) struct Changes(VecDeque<Time>);

impl Changes {
    /// The primary has changed. Returns what an operator should know, if that happens all the time.
    pub(crate) fn happens(&mut self, now: Time) -> Option<String> {
        self.0.push_back(now);
        self.0.retain(|time| now.since(*time) <= FLAPPING_TIME);
        let (count, secs) = (self.0.len(), FLAPPING_TIME.as_secs());
        (count >= FLAPPING).then(|| {
            self.0.clear();
            format!("the primary has changed {count} times within {secs} s")
        })
    }
}

/// So many changes in this time are reported.
const FLAPPING: usize = 5;
const FLAPPING_TIME: Duration = Duration::from_secs(60);
