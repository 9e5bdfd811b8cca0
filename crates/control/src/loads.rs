//! The recent load of the workers.
//!
//! Always true: the earlier sample that the present is compared with is at least a second old, if one was taken then.

use std::time::Duration;

use base::Time;
use worker::letters::Snapshot;

/// How long each worker had been busy and alive at two samples.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    older: Vec<(Duration, Duration)>,
    newer: Vec<(Duration, Duration)>,
    at: Time,
}

impl Loads {
    /// Takes a sample, at most one per `EVERY`.
    pub(crate) fn note(&mut self, now: Time, snapshots: &[Snapshot]) {
        if now.since(self.at) >= EVERY {
            let loads = snapshots.iter().map(|snapshot| (snapshot.busy, snapshot.alive)).collect();
            self.older = std::mem::replace(&mut self.newer, loads);
            self.at = now;
        }
    }

    /// Returns the sample that the present is compared with.
    pub(crate) fn before(&self) -> &[(Duration, Duration)] {
        &self.older
    }
}

const EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_at_least_a_second_old() {
        let mut loads = Loads::default();
        let look = |millis| vec![Snapshot { busy: Duration::from_millis(millis), ..Snapshot::default() }];
        loads.note(Time(10_000_000), &look(1));
        loads.note(Time(10_500_000), &look(2));
        assert!(loads.before().is_empty());
        loads.note(Time(11_000_000), &look(3));
        assert_eq!(loads.before(), [(Duration::from_millis(1), Duration::ZERO)]);
    }
}
