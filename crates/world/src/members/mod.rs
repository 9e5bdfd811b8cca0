//! A simulated cluster: hosts that share one history, and the agents that promote them.
//!
//! Always true: a member has what it has committed or replayed and nothing else; all the agents' decisions follow from a lock in a store
//! that cannot fail.
//! Not here: sessions (`postgres`), the pooler's own decisions (the crate `cluster`), which troubles a seed draws (`plan::clusters`).

pub(crate) mod history;
pub(crate) mod patroni;
mod tasks;
mod troubles;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::Time;

use crate::plan::Plan;
use crate::plan::streams::Stream;
use crate::sim::dice::Dice;
use history::{History, Member};
use patroni::Agents;
use tasks::Task;

/// The cluster of a world.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) history: Rc<RefCell<History>>,
    agents: Option<Agents>,
    /// What the control thread wants, by number, until it is told the outcome.
    tasks: Vec<Option<Task>>,
    dice: Dice,
    /// How long a question takes at most, microseconds.
    latency: u64,
    /// The members that the troubles in progress are about, by the troubles' places in the plan.
    struck: BTreeMap<u32, usize>,
    /// When the pooler last lost or found the way to a member.
    way_changed: Time,
    /// Since when clients are held.
    held_since: Option<Time>,
}

/// An alarm of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Alarm {
    /// The agent of a member looks at the state of things.
    Loop { host: usize },
    /// The leader lock may have run out.
    Expires,
    /// PostgreSQL on a member has started, if it has not been stopped since.
    Starts { host: usize, stint: u32 },
    /// A promotion is done, if the member has not been stopped since.
    Promoted { host: usize, stint: u32 },
    /// PostgreSQL on a member ends at once, and becomes a standby of another one.
    Stops { host: usize, stint: u32, follows: usize },
    /// An operator puts the members in order.
    Order,
    /// What the control thread wants reaches its target.
    Asked { task: usize },
    /// The control thread is told the outcome.
    Told { task: usize },
}

impl Members {
    /// Whether the pooler has reached every member all the time since.
    pub(crate) fn are_reached_since(&self, since: Time) -> bool {
        since > self.way_changed && self.history.borrow().members.iter().all(Member::is_reached)
    }

    /// The cluster of a plan.
    pub(crate) fn of(plan: &Plan, now: Time) -> Option<Self> {
        let cluster = plan.cluster.as_ref()?;
        let mut dice = Dice::new(plan.seed, Stream::Members.number());
        let primary = dice.among(0..=plan.hosts as u64 - 1) as usize;
        let replicas = plan.shape.databases.iter().filter(|db| db.role == Some("replica")).map(|db| db.name.clone());
        let history = History::new(now, primary, &cluster.lags, cluster.agents.is_some(), replicas.collect());
        Some(Self {
            history: Rc::new(RefCell::new(history)),
            agents: cluster.agents.map(|times| Agents::new(times, plan.hosts, primary, now)),
            tasks: Vec::new(),
            dice,
            latency: cluster.latency,
            struck: BTreeMap::new(),
            way_changed: now,
            held_since: None,
        })
    }
}
