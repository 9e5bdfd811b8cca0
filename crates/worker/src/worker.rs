//! A worker: its tables, and what all its modules need.
//!
//! Always true: nothing here knows what an event means; commands of the machines, and what one module needs from
//! another that is not below it, are queued as values and carried out after the event that caused them (`settle`). The
//! owner bits of a connection lead to the row that they were made for, or to none.
//! Not here: what is done, and by which module (`turn`, `settle`, the modules).

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use base::{Key, Time};
use measure::Failures;
use pool::{Command, Event, Pools};
use protocol::loan::Texts;
use protocol::prepared::StatementRegistry;
use protocol::vars::Known;
use reactor::Io;

use crate::admin::Admin;
use crate::admission::remembered::RememberedSecrets;
use crate::beside::Beside;
use crate::cancel::Cancels;
use crate::data::affinity::AffinityHolds;
use crate::data::client::Clients;
use crate::data::pace::Paced;
use crate::data::server::Server;
use crate::hands::Hands;
use crate::letters::{ToWorker, Verified};
use crate::limits::Limits;
use crate::measured::Applications;
use crate::notify::Notify;
use crate::observe::sampled::Sampler;
use crate::observe::spans::Spans;
use crate::observe::tracers::Tracers;
use crate::planted::is_from_tenant;
use crate::reads::Reads;
use crate::recent_load::RecentLoad;
use crate::registry::Registry;
use crate::reports::Reports;
use crate::stopwatch::Stopwatch;
use crate::tasks::Task;
use crate::upstream::host_names::HostNames;
use crate::upstream::observed_hosts::ObservedHosts;

/// One thread of the data plane.
pub struct Worker<I: Io> {
    pub(crate) hands: Hands<I>,
    pub(crate) inbox: Receiver<ToWorker<I::Socket>>,
    /// Letters that were taken from `inbox` in the search for new configurations; between two turns, letters left over
    /// for the next one.
    pub(crate) post: VecDeque<ToWorker<I::Socket>>,
    pub(crate) clients: Clients,
    /// Servers, under the keys of their slots.
    pub(crate) servers: Beside<Server>,
    pub(crate) pools: Pools,
    pub(crate) registry: Registry,
    /// Addresses of host names, and the dials that wait for them.
    pub(crate) names: HostNames,
    /// Secrets of users that servers have returned for `auth_query`.
    pub(crate) remembered: RememberedSecrets,
    pub(crate) limits: Limits,
    pub(crate) notify: Notify,
    pub(crate) reads: Reads,
    pub(crate) cancel: Cancels,
    pub(crate) admin: Admin<I::Socket>,
    pub(crate) commands_spare: Vec<Command>,
    /// Clients that send much, and wait to be received from.
    pub(crate) paced: Paced,
    /// Servers that are held briefly for their last clients.
    pub(crate) affinity_holds: AffinityHolds,
    /// Events to be reported to the control thread.
    pub(crate) reports: Reports,
    /// Which clients the consoles trace, and the traced events to be sent.
    pub(crate) tracers: Tracers,
    /// Sets of parameters in use, so that equal ones are shared.
    pub(crate) known_vars: Known,
    /// The prepared statements of all clients, each text once.
    pub(crate) statement_registry: StatementRegistry,
    /// What the texts of statements do to their sessions.
    pub(crate) texts: Texts,
    pub(crate) protocol_violations: u64,
    /// What has failed in the last seconds.
    pub(crate) failures: Failures,
    /// What has been seen of its hosts.
    pub(crate) hosts: ObservedHosts,
    /// How often the known session state was compared with what the server reports (`session_verify`), and how often
    /// they differed.
    pub(crate) verified: Verified,
    pub(crate) stopwatch: Stopwatch,
    /// Counters of transactions by `application_name`.
    pub(crate) applications: Applications,
    /// Chooses the requests that are sampled for `SHOW STATEMENTS`.
    pub(crate) sampler: Sampler,
    /// Which traces have spans, and the spans to be exported.
    pub(crate) spans: Spans,
    /// When the worker started.
    pub(crate) begun: Time,
    /// How busy it was a second ago.
    pub(crate) recent_load: RecentLoad,
}

impl<I: Io> std::fmt::Debug for Worker<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({}, {} clients)", self.hands.id.0, self.clients.len())
    }
}

/// The connection that a completion concerns; the reactor is given these bits with each connection.
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
    /// The live row that the reactor's bits name. Completions may still name a row that was closed earlier in this
    /// turn, because they happened before.
    pub(crate) fn owner(&self, bits: u64) -> Option<Owner> {
        let index = bits as u32;
        let owner = match bits >> 62 {
            0 => Owner::Client(self.clients.key_at(index)?),
            1 => Owner::Server(self.servers.key_at(index)?),
            _ if bits & FORWARD == 0 => Owner::Cancel(self.cancel.key_at(index)?),
            _ => Owner::Forward(self.cancel.forward_key_at(index & !(FORWARD as u32))?),
        };
        is_from_tenant((owner.to_bits() ^ bits) & KEY_BITS == 0).then_some(owner)
    }

    /// Reports an event to the pools and queues their commands.
    pub(crate) fn tell_pools(&mut self, event: Event) {
        self.with_pools(|pools, now, wanted| pools.handle(now, event, wanted));
    }

    /// Has the pools do something at this time, and queues the commands that they want carried out.
    pub(crate) fn with_pools<T>(&mut self, act: impl FnOnce(&mut Pools, Time, &mut Vec<Command>) -> T) -> T {
        let mut wanted = std::mem::take(&mut self.commands_spare);
        let result = act(&mut self.pools, self.hands.now, &mut wanted);
        self.hands.tasks.extend(wanted.drain(..).map(Task::Pools));
        self.commands_spare = wanted;
        result
    }

    /// The users for whom commands to the ledger are queued.
    pub(crate) fn users_in_commands(&self) -> impl Iterator<Item = u32> {
        self.hands.tasks.iter().filter_map(|task| match task {
            Task::Pools(Command::Ask { user, .. } | Command::Withdraw { user } | Command::GiveBack { user }) => {
                Some(*user)
            }
            _ => None,
        })
    }
}

/// The bits of an owner that hold its key.
const KEY_BITS: u64 = (1 << 62) - 1;
/// Distinguishes cancel requests for other processes from those for servers. No index of either table reaches this bit,
/// and the fourth kind of owner belongs to the reactor.
const FORWARD: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    /// When all four kinds were used by the worker, its owners collided with the names that the TLS layer gives to
    /// secured connections.
    #[test]
    fn every_owner_has_a_name_and_leaves_a_kind_to_the_reactor() {
        let key = Key { index: 7, generation: std::num::NonZeroU32::MAX };
        let owners = [Owner::Client(key), Owner::Server(key), Owner::Cancel(key), Owner::Forward(key)];
        let names = owners.map(Owner::to_bits);
        for (place, name) in names.iter().enumerate() {
            assert_ne!(name >> 62, 0b11);
            assert!(!names[..place].contains(name));
        }
    }
}
