//! What all threads of a soak share.
//!
//! Always true: the first violation wins and ends the chaos at once; whoever pauses hears of a change of phase.
//! Not here: who does what in which phase (`mod.rs`).

use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::cancels::Board;
use super::era::Era;
use super::eras::Eras;
use super::tally::Tally;

/// What everybody sees.
pub(crate) struct World {
    /// The pooler behind the fault proxy.
    pub(crate) front: SocketAddr,
    /// The pooler itself.
    pub(crate) direct: SocketAddr,
    /// PostgreSQL itself.
    pub(crate) postgres: SocketAddr,
    pub(crate) tally: Tally,
    pub(crate) board: Board,
    pub(crate) eras: Eras,
    pub(crate) begun: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

/// How far the soak is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    /// Anything may happen.
    Chaos,
    /// Whoever is in the middle of something ends it; no new faults.
    Calm,
    /// Everything must work, at once and for everybody.
    Proof,
    /// It is over, well or not.
    Over,
}

struct State {
    phase: Phase,
    violation: Option<String>,
    /// Clients that have nothing open, in `Calm` and in `Proof`.
    arrived: usize,
}

impl World {
    /// For so many clients and witnesses.
    pub(crate) fn new([front, direct, postgres]: [SocketAddr; 3], clients: usize) -> Self {
        let state = State { phase: Phase::Chaos, violation: None, arrived: 0 };
        Self {
            front,
            direct,
            postgres,
            tally: Tally::default(),
            board: Board::new(clients),
            eras: Eras::new(Era::fair()),
            begun: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Goes on to the next phase; never back.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state();
        if state.phase < phase {
            (state.phase, state.arrived) = (phase, 0);
            self.changed.notify_all();
        }
    }

    /// Waits for `time`, but no longer than the phase lasts; whether it lasts on.
    pub(crate) fn pause(&self, phase: Phase, time: Duration) -> bool {
        let still = |state: &mut State| state.phase == phase;
        match self.changed.wait_timeout_while(self.state(), time, still) {
            Ok((state, _)) => state.phase == phase,
            Err(_) => false,
        }
    }

    /// A client has nothing open any more. Waits for the phase after this one.
    pub(crate) fn arrive(&self, phase: Phase) {
        let mut state = self.state();
        state.arrived += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.phase == phase));
    }

    /// Waits until so many clients have arrived; how many are missing.
    pub(crate) fn await_all(&self, count: usize, limit: Duration) -> usize {
        let missing = |state: &mut State| state.arrived < count && state.violation.is_none();
        match self.changed.wait_timeout_while(self.state(), limit, missing) {
            Ok((state, _)) => count - state.arrived.min(count),
            Err(_) => count,
        }
    }

    /// Something is wrong with the pooler. Only the first counts.
    pub(crate) fn accuse(&self, evidence: String) {
        let mut state = self.state();
        state.violation.get_or_insert(evidence);
        state.phase = Phase::Over;
        self.changed.notify_all();
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while he holds the state")
    }
}
