//! What all threads of a soak share.
//!
//! Always true: the first violation wins and ends the chaos at once; every paused thread notices a change of phase.
//! Not here: what is done in which phase (`mod.rs`).

use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::cancels::Board;
use super::era::Era;
use super::eras::Eras;
use super::tally::Tally;

/// The state that all threads share.
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
    /// Faults of all kinds are injected.
    Chaos,
    /// Clients finish what they are doing; no new faults.
    Calm,
    /// Every request must be served at once.
    Proof,
    /// The soak is over, successfully or not.
    Over,
}

struct State {
    phase: Phase,
    violation: Option<String>,
    /// How many clients have nothing open, in `Calm` and in `Proof`.
    arrived: usize,
}

impl World {
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

    /// Enters the next phase; never goes back.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state();
        if state.phase < phase {
            (state.phase, state.arrived) = (phase, 0);
            self.changed.notify_all();
        }
    }

    /// Waits for `time`, but at most until the phase ends. Returns whether the phase goes on.
    pub(crate) fn pause(&self, phase: Phase, time: Duration) -> bool {
        let still = |state: &mut State| state.phase == phase;
        match self.changed.wait_timeout_while(self.state(), time, still) {
            Ok((state, _)) => state.phase == phase,
            Err(_) => false,
        }
    }

    /// Reports that a client has nothing open any more, and waits for the next phase.
    pub(crate) fn arrive(&self, phase: Phase) {
        let mut state = self.state();
        state.arrived += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.phase == phase));
    }

    /// Waits until so many clients have arrived. Returns how many are missing.
    pub(crate) fn await_all(&self, count: usize, limit: Duration) -> usize {
        let missing = |state: &mut State| state.arrived < count && state.violation.is_none();
        match self.changed.wait_timeout_while(self.state(), limit, missing) {
            Ok((state, _)) => count - state.arrived.min(count),
            Err(_) => count,
        }
    }

    /// Records a violation by the pooler. Only the first counts.
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
