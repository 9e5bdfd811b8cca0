//! How busy a worker was a moment ago, so that a single look at it tells how busy it is at present.
//!
//! Always true: what is compared with the present is at least a second old, once the worker has run for that long, and
//! no older than two seconds unless the worker slept in between.
//! Not here: what is done with it (`control::diagnosis`).

use std::time::Duration;

/// How long the worker had been busy and alive at two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecentLoad {
    older: (Duration, Duration),
    newer: (Duration, Duration),
}

impl RecentLoad {
    /// Whether the next moment is to be noted.
    pub(crate) fn is_due(&self, alive: Duration) -> bool {
        alive.saturating_sub(self.newer.1) >= EVERY
    }

    pub(crate) fn note(&mut self, busy: Duration, alive: Duration) {
        self.older = std::mem::replace(&mut self.newer, (busy, alive));
    }

    /// What the present is compared with.
    pub(crate) fn before(&self) -> (Duration, Duration) {
        self.older
    }
}

const EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_has_become_busy_is_compared_with_a_moment_of_the_last_two_seconds() {
        let mut load = RecentLoad::default();
        let millis = Duration::from_millis;
        // It slept for a minute, and has not slept since.
        for alive in (60_000..63_000).step_by(100) {
            if load.is_due(millis(alive)) {
                load.note(millis(alive - 60_000), millis(alive));
            }
            let (busy, before) = load.before();
            if alive >= 62_000 {
                assert!((1000..2000).contains(&(millis(alive) - before).as_millis()), "{alive}: {before:?}");
                assert_eq!(millis(alive - 60_000) - busy, millis(alive) - before, "busy all the time");
            }
        }
    }
}
