//! Dedicated servers: each belongs to one client from its login to its end, as replication needs it.
//!
//! Always true: a dedicated server is assigned to a client before it is dialed, and bound to that client after the login; by
//! the table of moves (`slot`) it is never idle and never lent. Until then the client is either in the queue or has a server
//! assigned. If the login fails without being refused, the client gets back its place in the queue.
//! Not here: the other servers and clients of the pool (`pool`), the messages between client and server (`worker`).

use base::Time;

use crate::planted::waits_again;
use crate::pool::{Pool, Tables, first_since};
use crate::queue::{Waiter, WaitingFor};
use crate::quotas::Demand;
use crate::slot::{Move, Owner, State};
use crate::wanted::Source;
use crate::{CloseReason, Command, Failure, FailureKind, Fingerprint, Refusal, ServerKey};

impl Pool {
    /// Queues a client for a dedicated server. The client must not wait anywhere yet.
    pub(crate) fn wants_dedicated(&mut self, tables: &mut Tables, waiter: Waiter, out: &mut Vec<Command>) {
        if self.is_closed {
            out.push(Command::Refuse { client: waiter.client, why: Refusal::DatabaseRemoved });
        } else {
            self.dedicated.join(&mut tables.waiters, waiter);
        }
    }

    /// Removes from the queue the client for which the next dedicated server is dialed.
    pub(crate) fn next_owner(&mut self, tables: &mut Tables) -> Option<Owner> {
        let waiter = self.dedicated.pop(&mut tables.waiters)?;
        Some(Owner { client: waiter.client, since: waiter.since })
    }

    /// Handles a completed dedicated login.
    pub(crate) fn dedicated_ready(
        &mut self,
        now: Time,
        tables: &mut Tables,
        server: ServerKey,
        out: &mut Vec<Command>,
    ) {
        let Some(owner) = tables.slots.get(server).and_then(|slot| slot.owner) else { return };
        if self.servers.shift(&mut tables.slots, server, Move::Bind, now) {
            self.logins.dedicated_succeeded();
            out.push(Command::Bind { client: owner.client, server, waited: now.since(owner.since) });
        }
    }

    /// Handles a failed dedicated login, whose slot is free already. A refusal says nothing about the logins of other clients,
    /// which need neither the REPLICATION attribute nor a `pg_hba.conf` rule for replication.
    pub(crate) fn dedicated_failed(
        &mut self,
        tables: &mut Tables,
        owner: Owner,
        began: Time,
        failure: Failure,
        out: &mut Vec<Command>,
    ) {
        if failure.kind == FailureKind::Refused {
            out.push(Command::Refuse { client: owner.client, why: Refusal::DedicatedRefused(failure) });
            return;
        }
        self.logins.failed(failure, began, &mut tables.random);
        self.queue_again(tables, owner);
    }

    /// Closes a dedicated server that is being dialed, and queues its client for another one.
    pub(crate) fn renounce(
        &mut self,
        now: Time,
        tables: &mut Tables,
        server: ServerKey,
        why: CloseReason,
        out: &mut Vec<Command>,
    ) {
        let owner = tables.slots.get(server).and_then(|slot| slot.owner);
        self.expire(now, tables, server, why, out);
        if let Some(owner) = owner {
            self.queue_again(tables, owner);
        }
    }

    /// Closes idle servers while the first client in line needs a dedicated server and there is no place for it.
    pub(crate) fn make_room(&mut self, now: Time, tables: &mut Tables, out: &mut Vec<Command>) {
        while self.is_dedicated_stuck(now, tables) {
            let Some(server) = self.servers.list(State::Idle).oldest() else { return };
            self.expire(now, tables, server, CloseReason::Evicted, out);
        }
    }

    /// Whether the first client in line needs a dedicated server for which an idle server has to be closed. If so, returned
    /// servers are not lent to the clients behind it, because under a steady load its turn would never come.
    pub(crate) fn is_dedicated_stuck(&self, now: Time, tables: &Tables) -> bool {
        let in_flight = self.servers.count(State::Dialing) + self.servers.count(State::Dedicating);
        let may_dial = !self.is_closed && !self.is_paused() && self.logins.may_begin(in_flight, &self.limits, now);
        if !may_dial || !self.is_dedicated_first(tables) {
            return false;
        }
        let is_in_line = self.demand != Demand::None && self.servers.count(State::Closing) == 0;
        is_in_line || self.is_too_full(tables)
    }

    /// Whether the pool has no place for the clients that wait for a dedicated server. While other clients wait too, only the
    /// first of them counts.
    fn is_too_full(&self, tables: &Tables) -> bool {
        if self.limits.dedicated_max.is_some() || self.limits.servers_max == 0 {
            return false;
        }
        let wanted = if self.waiting.is_empty() { self.dedicated.len() } else { self.dedicated.len().min(1) };
        let staying = self.servers.staying() - self.outside_size_count();
        debug_assert!(self.counted(tables) >= staying, "what is being closed is counted too");
        staying.saturating_add(wanted) > self.limits.servers_max
    }

    /// Whether the client that has waited longest of all needs a dedicated server.
    pub(crate) fn is_dedicated_first(&self, tables: &Tables) -> bool {
        let others = first_since([&self.waiting, &self.greeting], tables);
        let first = first_since([&self.dedicated], tables);
        first.is_some_and(|first| others.is_none_or(|other| first <= other))
    }

    /// The limit against which the next dedicated server would count; `None` if none is needed or there is no place. `shared`
    /// is the same for an ordinary server.
    pub(crate) fn dedicated_place(&self, tables: &Tables, shared: Option<Source>) -> Option<Source> {
        if self.dedicated.is_empty() {
            return None;
        }
        match self.limits.dedicated_max {
            None => shared,
            Some(max) => (self.servers.dedicated(&tables.slots) < max).then_some(Source::Size),
        }
    }

    /// How many servers count against the size of the pool.
    pub(crate) fn counted(&self, tables: &Tables) -> u32 {
        let dedicated = if self.limits.dedicated_max.is_some() { self.servers.dedicated(&tables.slots) } else { 0 };
        self.servers.total() - dedicated - self.outside_size_count()
    }

    fn queue_again(&mut self, tables: &mut Tables, owner: Owner) {
        let waiter = Waiter::new(owner.client, self.key, WaitingFor::Dedicated, owner.since, Fingerprint::default());
        if let Some(waiter) = waits_again(waiter) {
            self.dedicated.join(&mut tables.waiters, waiter);
        }
    }
}
