//! What a cluster is told, what it wants done, and what it does.
//!
//! Always true: they are values; members and agents are told by their places in the configuration.
//! Not here: decisions (`cluster`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::agents::{AgentAnswer, AgentMember};
use crate::member::Checked;
use crate::replayed::Replayed;
use crate::store::StoreAnswer;
use crate::switchover::Summary;

/// The settings of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The time between two checks of a member while all is well.
    pub check_interval: Duration,
    /// How long clients are held at most.
    pub hold_timeout: Duration,
    /// How long a switchover waits for open transactions.
    pub drain_timeout: Duration,
    /// Whether writes stop before the lease of the primary can have run out.
    pub is_fencing: bool,
    /// Whether there is a command that demotes the primary.
    pub can_demote: bool,
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The check of a member has ended.
    Checked {
        /// The member.
        member: usize,
        /// Its answer.
        outcome: Checked,
    },
    /// An agent has answered, or not.
    AgentTold {
        /// The agent.
        agent: usize,
        /// The answer.
        answer: Result<AgentAnswer, Arc<str>>,
    },
    /// The store of the agents has answered, or not.
    StoreTold(Result<StoreAnswer, Arc<str>>),
    /// Something in the store has changed, or it cannot be watched.
    StoreChanged(Result<(), Arc<str>>),
    /// The replication slots of a member, by their distance; `None` if it was not asked after all, or has not answered.
    SlotsTold {
        /// The member.
        member: usize,
        /// Its slots.
        slots: Option<Vec<SlotLag>>,
    },
    /// An operator wants another primary: this one, or the one that has received most.
    Switchover(Option<Arc<str>>),
    /// The operator has given up.
    Cancel,
    /// The primary has written a checkpoint, or why not.
    Checkpointed {
        /// Which one.
        number: u64,
        /// The outcome.
        written: Result<(), Arc<str>>,
    },
    /// No client that was held has a server.
    Drained,
    /// The agents have switched over, or the primary has been demoted; or why not.
    HandedOver(Result<(), Arc<str>>),
    /// The target has been promoted, or why not.
    Promoted(Result<(), Arc<str>>),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Check a member; [`Event::Checked`] must follow.
    Check(usize),
    /// Ask an agent; [`Event::AgentTold`] must follow.
    AskAgent(usize),
    /// Ask the store of the agents at this one of its addresses; [`Event::StoreTold`] must follow.
    AskStore(usize),
    /// Wait for a change in the store; [`Event::StoreChanged`] must follow, sooner or later.
    WatchStore {
        /// One of its addresses.
        address: usize,
        /// The last revision that is known.
        revision: u64,
    },
    /// Ask a member for its replication slots; [`Event::SlotsTold`] must follow.
    AskSlots(usize),
    /// Where clients may write from now on.
    Gate(Gate),
    /// The primary is back: waiting clients need not wait for the next attempt.
    TryHosts,
    /// These members are suspect, and no others: what begins now had better begin elsewhere.
    Suspects(Vec<usize>),
    /// A replica does not answer any more: who reads there need not wait for it.
    LeaveReplica(usize),
    /// The cluster has these members from now on; another machine must take the place of this one.
    Members(Vec<AgentMember>),
    /// What replicas have replayed, all that answer; clients may read there what was written before.
    Replayed(Vec<Replayed>),
    /// Tell when no client has a server of the primary; [`Event::Drained`] follows.
    Drain,
    /// Close the servers that are still lent.
    EndLoans,
    /// Write a checkpoint on a member; [`Event::Checkpointed`] must follow.
    Checkpoint {
        /// The member.
        member: usize,
        /// Which one: several may be under way, for different switchovers.
        number: u64,
    },
    /// Have the agents switch over; [`Event::HandedOver`] must follow.
    AskSwitchover {
        /// The agent to be asked.
        agent: usize,
        /// The agents' name of the primary.
        from: Arc<str>,
        /// The agents' name of the target.
        to: Arc<str>,
    },
    /// Demote the primary in favour of another member; [`Event::HandedOver`] must follow.
    Demote {
        /// The primary.
        from: usize,
        /// The target.
        to: usize,
    },
    /// Promote a member; [`Event::Promoted`] must follow.
    Promote(usize),
    /// Something that an operator should know.
    Tell(News),
    /// The switchover is over, or was refused.
    SwitchedOver(Result<Summary, String>),
}

/// How far a replication slot is behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotLag {
    /// Its name.
    pub slot: Arc<str>,
    /// By how many bytes of the write-ahead log it is behind what its host has written.
    pub lag: u64,
}

/// Something that an operator should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct News {
    /// Whether it is no good news.
    pub is_warning: bool,
    /// What.
    pub text: String,
}

/// Where clients of the primary may write.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Gate {
    /// At any host that proves to be a primary: nothing has been found out yet.
    #[default]
    Any,
    /// At this host, by its host and port, if it proves to be a primary.
    Only(Arc<str>),
    /// Nowhere for now: transactions that have begun may end, new ones wait.
    Held,
    /// Nowhere: another host may be promoted at any moment.
    Fenced,
}

/// What a cluster does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No primary has been found yet.
    Unknown,
    /// The primary is known and answers.
    Steady,
    /// Clients are held, and open transactions are waited for.
    Draining,
    /// Clients are held.
    Hold,
    /// The primary does not answer, or is none any more.
    Failover,
    /// There has been no primary for longer than clients are held; replicas can be read.
    Degraded,
    /// The lease of the primary may have run out.
    Fenced,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Unknown, Self::Steady, Self::Draining, Self::Hold, Self::Failover, Self::Degraded, Self::Fenced];

    /// The word used in tables and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Steady => "steady",
            Self::Draining => "draining",
            Self::Hold => "hold",
            Self::Failover => "failover",
            Self::Degraded => "degraded",
            Self::Fenced => "fenced",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
