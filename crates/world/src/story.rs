//! Runs the world of a seed to its verdict, and shortens the plan of a bad one.
//!
//! Always true: a failed assertion of the pooler is a verdict like any other.
//! Not here: what is printed (`main`).

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use reactor::Buffers;

use crate::checks::witness::{Charge, Witness};
use crate::plan::{Plan, clusters};
use crate::state::World;

/// The result of a world.
#[derive(Debug)]
pub struct Outcome {
    /// The first accusation, if there was one.
    pub accusation: Option<(Charge, String)>,
    /// A checksum over all events: the same for two runs of one seed.
    pub sum: u64,
    /// How often each thing happened.
    pub tally: Vec<(&'static str, u64)>,
    /// The last log lines of the simulation, if they were kept.
    pub moments: Vec<String>,
    /// The configuration at the beginning.
    pub configuration: String,
    /// Number of applications and of faults.
    pub parts: (usize, usize),
    /// How long the world lasted, microseconds of its own time.
    pub lasted: u64,
}

/// Runs worlds, one after the other.
#[derive(Debug)]
pub struct Teller {
    buffers: Buffers,
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Default for Teller {
    fn default() -> Self {
        Self { buffers: Buffers::new(BUFFERS) }
    }
}

impl Teller {
    /// Runs the world of a seed; its last `moments` log lines are kept.
    pub fn tell(&mut self, seed: u64, moments: usize) -> Outcome {
        self.live(Plan::draw(seed), moments)
    }

    /// Runs the world of a seed for a comparison of the ways that a transaction may take: how a worker cuts what it sends into
    /// chunks, and its work into turns, makes no difference.
    pub fn tell_uncut(&mut self, seed: u64, moments: usize) -> Outcome {
        self.live(Plan { ignores_cuts: true, ..Plan::draw(seed) }, moments)
    }

    /// Returns the result of the shortest bad plan found for a seed whose whole plan is bad: faults and applications
    /// are removed as long as the plan has the same charge.
    pub fn shorten(&mut self, seed: u64, moments: usize) -> Outcome {
        let mut plan = Plan::draw(seed);
        let charge = self.live(plan.clone(), 0).accusation.map(|(charge, _)| charge);
        let mut is_bad = |plan: &Plan| {
            let seen = self.live(plan.clone(), 0).accusation.map(|(charge, _)| charge);
            seen.is_some() && seen == charge
        };
        for part in [Part::Faults, Part::People] {
            let mut step = part.len(&plan).div_ceil(2);
            while step > 0 {
                let mut at = 0;
                while at < part.len(&plan) {
                    let mut shorter = plan.clone();
                    part.cut(&mut shorter, at, step);
                    let was = part.len(&plan);
                    if is_bad(&shorter) {
                        plan = shorter;
                    }
                    if part.len(&plan) == was {
                        at += step;
                    }
                }
                step /= 2;
            }
        }
        self.live(plan, moments)
    }

    fn live(&mut self, plan: Plan, moments: usize) -> Outcome {
        let parts = (plan.people.len(), plan.faults.len());
        let configuration = plan.shape.text();
        let mut world = World::new(plan, &self.buffers, moments);
        let start = world.witness.now.0;
        let lived = panic::catch_unwind(AssertUnwindSafe(|| world.live()));
        if lived.is_err() {
            let text = LAST_PANIC.with(|text| text.borrow().clone());
            world.witness.accuse(Charge::Panic, text);
        }
        let lasted = world.witness.now.0 - start;
        let mut witness = std::mem::replace(&mut world.witness, Witness::new(0));
        drop(world);
        if self.buffers.free() != self.buffers.count() {
            // Buffers that a bad world has lost do not come back.
            self.buffers = Buffers::new(BUFFERS);
        }
        let mut tally: Vec<_> = witness.tally.drain().collect();
        tally.sort_unstable();
        Outcome {
            accusation: witness.accusation.take(),
            sum: witness.sum,
            tally,
            parts,
            lasted,
            configuration,
            moments: witness.into_moments(),
        }
    }
}

/// What can be removed from a plan.
#[derive(Clone, Copy)]
enum Part {
    Faults,
    People,
}

impl Part {
    fn len(self, plan: &Plan) -> usize {
        match self {
            Self::Faults => plan.faults.len(),
            Self::People => plan.people.len(),
        }
    }

    fn cut(self, plan: &mut Plan, at: usize, count: usize) {
        match self {
            Self::Faults => drop(plan.faults.drain(at..(at + count).min(plan.faults.len()))),
            Self::People => {
                // The others keep their numbers, so their behaviour does not change.
                for (_, person, _) in plan.people.iter_mut().skip(at).take(count) {
                    person.errands = 0;
                }
            }
        }
    }
}

/// Returns whether the plan of a seed has `session_verify`.
#[must_use]
pub fn verifies(seed: u64) -> bool {
    Plan::draw(seed).shape.settings.contains_key("session_verify")
}

/// Returns whether the world of a seed has a cluster.
#[must_use]
pub fn has_cluster(seed: u64) -> bool {
    clusters::is_drawn(seed)
}

/// From now on the message of a failed assertion is kept for the verdict and not printed.
pub fn keep_panics() {
    panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        LAST_PANIC.with(|last| *last.borrow_mut() = text);
    }));
}

/// Number of receive buffers for all workers of a world.
const BUFFERS: u16 = 512;
