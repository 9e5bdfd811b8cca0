//! Orders of operators beside new settings: pausing databases, closing servers or clients, reporting when servers are gone.
//!
//! Always true: an order is confirmed exactly once, when it has been carried out or what it waits for has happened,
//! unless it is taken back, as RESUME does with a SUSPEND; an order that stands until it is undone is part of the
//! active configuration, so that pools opened later obey it too.
//! Not here: which orders there are (`standing`), how commands are read (`control::console`), what a pause means to a
//! pool (crate `pool`).

use std::collections::BTreeSet;

use config::derived_names;
use pool::{CloseReason, Event, ServerKey};
use protocol::fault::{EndedBy, Fault};
use reactor::Io;

use crate::admin::standing::{Order, Whose};
use crate::data::client::{Client, ClientStage};
use crate::data::server::{Server, ServerStage};
use crate::letters::ToControl;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Carries out an order, or notes that it waits for something.
    pub(crate) fn obey(&mut self, question: u64, order: Order) {
        let is_done = match order {
            Order::Reconnect(whose) => {
                self.databases_of(&whose)
                    .into_iter()
                    .for_each(|database| self.retire_servers_of(database, EndedBy::Reconnect));
                true
            }
            Order::Kill(whose) => {
                let databases: Vec<u32> = self.databases_of(&whose).into_iter().collect();
                self.remove_databases(&databases, EndedBy::Kill);
                true
            }
            Order::KillClient(id) => self.kill_client(id),
            Order::Trace { place, ref traced } => {
                self.tracers.begin(place, traced.clone());
                self.admin.awaited.push((question, order));
                return;
            }
            Order::EndTrace { place } => {
                self.tracers.end(place);
                self.admin.awaited.push((question, order));
                return;
            }
            Order::ConfirmDrained => {
                // If nothing is left at the end of this turn after all, that is reported again.
                let has_nothing_left = self.has_nothing_left();
                self.admin.is_drained &= has_nothing_left;
                has_nothing_left
            }
            Order::EndLoans(ref cluster) => {
                self.end_loans_at_primary(cluster);
                true
            }
            Order::AwaitUnused(_) | Order::AwaitDrained(_) | Order::AwaitRenewed(_) => {
                self.admin.awaited.push((question, order));
                return;
            }
            Order::Suspend { is_handover } => {
                self.suspend(is_handover);
                self.admin.awaited.push((question, order));
                return;
            }
        };
        (self.hands.posts.control)(ToControl::Obeyed { from: self.hands.id, question, is_done });
    }

    /// The control thread no longer waits for this order.
    pub(crate) fn forget_order(&mut self, question: u64) {
        self.admin.awaited.retain(|(other, _)| *other != question);
    }

    /// Confirms the orders that waited for something that has happened.
    pub(crate) fn report_obeyed(&mut self) {
        if self.admin.awaited.is_empty() {
            return;
        }
        let awaited = std::mem::take(&mut self.admin.awaited);
        let (waiting, come) = awaited.into_iter().partition(|(_, order)| self.is_awaiting(order));
        self.admin.awaited = waiting;
        let come: Vec<_> = come;
        for (question, order) in come {
            let is_done = match order {
                Order::Trace { place, .. } => self.tracers.is_found(place),
                _ => true,
            };
            (self.hands.posts.control)(ToControl::Obeyed { from: self.hands.id, question, is_done });
        }
    }

    fn is_awaiting(&self, order: &Order) -> bool {
        let is_of = |server: &Server, whose: &Whose| match whose {
            Some(name) => self.registry.line_name(server.database()) == name,
            None => true,
        };
        let is_used = |key, server: &Server| {
            matches!(server.stage(), ServerStage::Lent { .. } | ServerStage::Cleaning(_))
                || self.admin.is_yet_to_be_lent(key)
        };
        let mut servers = self.servers.iter();
        match order {
            Order::AwaitUnused(whose) => servers.any(|(key, server)| is_used(key, server) && is_of(server, whose)),
            Order::AwaitDrained(cluster) => servers.any(|(key, server)| {
                is_used(key, server) && !server.outlasts_drain() && self.is_at_primary_of(server, cluster)
            }),
            Order::AwaitRenewed(whose) => {
                servers.any(|(key, server)| self.pools.is_obsolete(key) && is_of(server, whose))
            }
            Order::Suspend { .. } => !self.is_at_rest(),
            Order::Trace { place, .. } | Order::EndTrace { place } => self.tracers.is_spreading(*place),
            Order::Reconnect(_)
            | Order::Kill(_)
            | Order::KillClient(_)
            | Order::EndLoans(_)
            | Order::ConfirmDrained => false,
        }
    }

    /// The numbers of the databases in use that an order concerns.
    fn databases_of(&self, whose: &Whose) -> Vec<u32> {
        match whose {
            Some(name) => {
                let names = std::iter::once(name.to_string()).chain(derived_names(name));
                names.filter_map(|name| self.registry.known_database(&name)).collect()
            }
            None => {
                self.registry.pools().map(|(_, place)| place.database).collect::<BTreeSet<_>>().into_iter().collect()
            }
        }
    }

    /// Servers of a database that exist now are lent to no other client; new clients get the parameters of new servers.
    pub(crate) fn retire_servers_of(&mut self, database: u32, by: EndedBy) {
        for pool in self.registry.pools_of(database) {
            if let Some(place) = self.registry.pool_mut(pool) {
                place.welcome_before = place.welcome.take().or(place.welcome_before.take());
                place.salted = None;
                place.retired_by = by;
            }
            self.tell_pools(Event::Retire { pool });
            self.settle();
        }
        self.close_obsolete_sessions();
        self.renew_listener(database);
        self.settle();
    }

    /// Closes sessions in session mode whose servers are obsolete as soon as they stand outside a transaction, if
    /// `server_fast_close` is set; in other modes servers come back by themselves.
    pub(crate) fn close_obsolete_sessions(&mut self) {
        if !self.hands.active.settings.server_fast_close {
            return;
        }
        let lent = self.servers.iter().filter(|(_, server)| server.client().is_some());
        let keys: Vec<ServerKey> = lent.map(|(key, _)| key).collect();
        for key in keys {
            self.close_obsolete_session(key);
            self.settle();
        }
    }

    /// Closes the client of this number. Returns whether there was one. A client that is still logging in does not
    /// count: its number has not been shown.
    fn kill_client(&mut self, id: u64) -> bool {
        let Some((key, client)) = self.clients.iter().find(|(_, client)| client.id == id && !client.is_own) else {
            return false;
        };
        match &client.stage {
            ClientStage::Greeting(_) => return false,
            ClientStage::Login(login) if login.waits_for().is_none() => return false,
            ClientStage::Cancelling(_) => self.drop_client(key, "admin forced disconnect"),
            ClientStage::Login(_) | ClientStage::Ready(_) | ClientStage::Console(_) => {
                self.fail_client(key, &Fault::AdminDisconnect);
            }
        }
        true
    }

    /// Closes the clients and servers of databases that are gone, or whose pools are.
    pub(crate) fn remove_databases(&mut self, numbers: &[u32], by: EndedBy) {
        if numbers.is_empty() {
            return;
        }
        let pools: BTreeSet<_> = numbers.iter().flat_map(|&number| self.registry.pools_of(number)).collect();
        for key in self.clients.keys() {
            let pool = self.clients.get(key).and_then(Client::pool);
            if pool.is_some_and(|pool| pools.contains(&pool)) {
                self.fail_client(key, &Fault::DatabaseRemoved { by });
                self.settle();
            }
        }
        let why = if by == EndedBy::Kill { CloseReason::Killed } else { CloseReason::DatabaseRemoved };
        for &number in numbers {
            self.close_pools_of(number, why);
        }
    }
}
