//! The virtual clock: what happens next.
//!
//! Always true: things happen in the order of their times, and those of the same time in the order in which they were planned.
//! Not here: deadlines of the pools, which the pools keep themselves (`Pools::next_deadline`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Key;

/// Something that will happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Next {
    /// A source begins a transaction. Stale if its epoch is another one by then.
    Arrival { source: u32, epoch: u32 },
    /// A modulated source enters its next state.
    State { source: u32 },
    /// A user of a closed loop has thought.
    User { source: u32, user: u32 },
    /// A client of a storm comes.
    StormClient { process: u32 },
    /// A client has logged in at the pooler.
    ClientLoggedIn { client: Key },
    /// A client's statement, or its thinking inside of a transaction, is over.
    Step { client: Key },
    /// A client has perhaps been idle for long.
    ClientIdle { client: Key },
    /// The login of a server has ended.
    ServerLogin { server: Key },
    /// The reset or the check of a server is over.
    ServerClean { server: Key },
    /// A server is closed.
    ServerClosed { server: Key },
    /// An event of the spec.
    Happening { index: u32 },
    /// Its end.
    HappeningEnds { index: u32 },
    /// Processes that a deployment has replaced end.
    ProcessEnds { process: u32 },
    /// Idle servers are closed for minima, as PgBouncer did up to 1.17.
    MinimumRound,
    /// The server, which is down, is tried again.
    TryAgain,
    /// What follows is counted.
    WarmUpEnds,
}

/// All that is planned.
#[derive(Debug, Default)]
pub(super) struct Clock {
    heap: BinaryHeap<Reverse<(u64, u64, Next)>>,
    planned: u64,
}

impl Clock {
    /// Plans something for a time in microseconds.
    pub(super) fn plan(&mut self, at: u64, next: Next) {
        self.planned += 1;
        self.heap.push(Reverse((at, self.planned, next)));
    }

    /// When the next thing happens.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Next)> {
        self.heap.pop().map(|Reverse((at, _, next))| (at, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_planned_first_for_a_time_happens_first() {
        let mut clock = Clock::default();
        for (at, next) in [(7, Next::WarmUpEnds), (5, Next::MinimumRound), (7, Next::MinimumRound)] {
            clock.plan(at, next);
        }
        let all: Vec<_> = std::iter::from_fn(|| clock.pop()).collect();
        assert_eq!(all, [(5, Next::MinimumRound), (7, Next::WarmUpEnds), (7, Next::MinimumRound)]);
    }
}
