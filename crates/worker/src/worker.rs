//! A worker: its tables, and what every room of it needs.
//!
//! Always true: nothing here knows what an event means; what a machine wants done, and what one room wants of another that is not below it, is queued as a
//! value and done after the event that caused it (`settle`). The name of a connection leads to the row that it was made for, or to none.
//! Not here: what is done, and by whom (`turn`, `settle`, the rooms).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use base::{Key, Slab, Time, WorkerId};
use measure::Connections;
use pool::{Command, Event, Pools};
use protocol::loan::Texts;
use protocol::prepared::StatementRegistry;
use protocol::vars::Known;
use reactor::{Io, Lines, Wheel};

use crate::admin::Admin;
use crate::admission::remembered::RememberedSecrets;
use crate::beside::Beside;
use crate::cancel::Cancels;
use crate::data::affinity_holds::AffinityHolds;
use crate::data::client::Client;
use crate::data::server::Server;
use crate::letters::{ActiveConfig, Posts, ToWorker, Verified};
use crate::limits::Limits;
use crate::measured::Applications;
use crate::notify::Notify;
use crate::planted::is_from_tenant;
use crate::registry::Registry;
use crate::reports::Reports;
use crate::sampled::Sampler;
use crate::spans::Spans;
use crate::stopwatch::Stopwatch;
use crate::tasks::Task;
use crate::timers::Timer;
use crate::tracers::Tracers;

/// One thread of the data plane.
pub struct Worker<I: Io> {
    pub(crate) id: WorkerId,
    pub(crate) io: I,
    pub(crate) inbox: Receiver<ToWorker<I::Socket>>,
    /// Letters that were taken out to find what is in force among them; between two turns, the next of those that are left.
    pub(crate) post: VecDeque<ToWorker<I::Socket>>,
    pub(crate) posts: Posts<I::Socket>,
    pub(crate) active: Arc<ActiveConfig>,
    /// The time of this turn.
    pub(crate) now: Time,
    pub(crate) clients: Slab<Client>,
    /// Servers, under the keys of their slots.
    pub(crate) servers: Beside<Server>,
    pub(crate) pools: Pools,
    pub(crate) registry: Registry,
    /// What servers have told of users' secrets.
    pub(crate) remembered: RememberedSecrets,
    pub(crate) limits: Limits,
    pub(crate) notify: Notify,
    pub(crate) cancel: Cancels,
    pub(crate) admin: Admin<I::Socket>,
    pub(crate) timers: Wheel<Timer>,
    /// What is to be done and has not been done yet.
    pub(crate) tasks: VecDeque<Task>,
    pub(crate) commands_spare: Vec<Command>,
    /// Servers that stay a moment with their clients.
    pub(crate) affinity_holds: AffinityHolds,
    pub(crate) log: Lines,
    /// What the control thread is to be told of.
    pub(crate) reports: Reports,
    /// Whom consoles trace, and what they are to be told of.
    pub(crate) tracers: Tracers,
    /// Sets of parameters in use, so that equal ones are shared.
    pub(crate) known_vars: Known,
    /// What clients have prepared.
    pub(crate) statement_registry: StatementRegistry,
    /// What their texts do to their sessions.
    pub(crate) texts: Texts,
    pub(crate) protocol_surprises: u64,
    /// How logins, TLS handshakes and cancel requests have ended.
    pub(crate) connections: Connections,
    /// How often what was known of a session has been compared with what its server tells, and how often they differed.
    pub(crate) verified: Verified,
    pub(crate) stopwatch: Stopwatch,
    /// What transactions have come to, by application.
    pub(crate) applications: Applications,
    /// Which requests are looked at to tell statements apart.
    pub(crate) sampler: Sampler,
    /// Which traces have spans, and what is to be told of them.
    pub(crate) spans: Spans,
    /// When it began.
    pub(crate) begun: Time,
}

impl<I: Io> std::fmt::Debug for Worker<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({}, {} clients)", self.id.0, self.clients.len())
    }
}

/// Whom a completion concerns: said to the reactor with each connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Client(Key),
    Server(Key),
    Cancel(Key),
    Forward(Key),
}

impl Owner {
    pub(crate) fn to_bits(self) -> u64 {
        let (kind, key) = match self {
            Self::Client(key) => (0, key.to_bits()),
            Self::Server(key) => (1, key.to_bits()),
            Self::Cancel(key) => (2, key.to_bits()),
            Self::Forward(key) => (2, key.to_bits() | FORWARD),
        };
        kind << 62 | (key & KEY_BITS)
    }
}

impl<I: Io> Worker<I> {
    /// The living row that the reactor's word names. A row that was closed in this turn may still be named by what had
    /// happened before.
    pub(crate) fn owner(&self, bits: u64) -> Option<Owner> {
        let index = bits as u32;
        let owner = match bits >> 62 {
            0 => Owner::Client(self.clients.key_at(index)?),
            1 => Owner::Server(self.servers.key_at(index)?),
            _ if bits & FORWARD == 0 => Owner::Cancel(self.cancel.key_at(index)?),
            _ => Owner::Forward(self.cancel.forward_at(index & !(FORWARD as u32))?),
        };
        is_from_tenant((owner.to_bits() ^ bits) & KEY_BITS == 0).then_some(owner)
    }

    /// Tells the pools what happened; what they want done is queued.
    pub(crate) fn tell_pools(&mut self, event: Event) {
        let mut wanted = std::mem::take(&mut self.commands_spare);
        self.pools.handle(self.now, event, &mut wanted);
        self.tasks.extend(wanted.drain(..).map(Task::Pools));
        self.commands_spare = wanted;
    }

    /// Queues what the pools answered to something other than an event.
    pub(crate) fn queue(&mut self, commands: Vec<Command>) {
        self.tasks.extend(commands.into_iter().map(Task::Pools));
    }

    /// Queues what one room wants of another that is not below it.
    pub(crate) fn enqueue(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    /// The users for whom the pools want something done.
    pub(crate) fn users_in_commands(&self) -> impl Iterator<Item = u32> {
        self.tasks.iter().filter_map(|task| match task {
            Task::Pools(Command::Ask { user, .. } | Command::Withdraw { user } | Command::GiveBack { user }) => {
                Some(*user)
            }
            _ => None,
        })
    }
}

/// The bits of an owner that hold its key.
const KEY_BITS: u64 = (1 << 62) - 1;
/// Tells requests for other processes from those for servers. No place in either table has so high a number, and the fourth kind
/// of owner is that of the reactor.
const FORWARD: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    /// With two bits for four kinds of its own a worker took the names that TLS gives to what it has secured.
    #[test]
    fn every_owner_has_a_name_and_leaves_a_kind_to_the_reactor() {
        let key = Key { index: 7, generation: u32::MAX };
        let owners = [Owner::Client(key), Owner::Server(key), Owner::Cancel(key), Owner::Forward(key)];
        let names = owners.map(Owner::to_bits);
        for (place, name) in names.iter().enumerate() {
            assert_ne!(name >> 62, 0b11);
            assert!(!names[..place].contains(name));
        }
    }
}
