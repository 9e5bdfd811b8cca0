//! What operators order beside new settings: to pause databases, to close servers or clients, to tell when servers are gone.
//!
//! Always true: an order is answered exactly once, when it has been carried out or what it waits for has come, unless it is
//! taken back, as a SUSPEND is by waking up; what stands until it is undone is part of what is in force, so that pools opened later obey it too.
//! Not here: what operators say (`control::console`), what a pause means to a pool (crate `pool`).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::Key;
use pool::{CloseReason, Event, Mode, PoolKey, ServerKey};
use protocol::fault::Fault;
use reactor::Io;

use crate::data::client::{Link, Stage as ClientStage};
use crate::data::server::{Server, Stage};
use crate::letters::{Shutdown, ToControl};
use crate::turn::Worker;

/// What operators have ordered and not undone. A reload changes nothing about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// PAUSE: no client gets a server.
    pub is_paused: bool,
    /// PAUSE of one database, or KILL: no client of these gets a server.
    pub paused: BTreeSet<Arc<str>>,
    /// DISABLE: nobody new is let in to these databases.
    pub disabled: BTreeSet<Arc<str>>,
}

impl Standing {
    /// Whether clients of a database get no server.
    #[must_use]
    pub fn pauses(&self, database: &str) -> bool {
        self.is_paused || self.paused.contains(database)
    }

    /// Whether somebody new of a database is let in, and gets a server.
    #[must_use]
    pub fn serves(&self, database: &str) -> bool {
        !self.pauses(database) && !self.disabled.contains(database)
    }

    /// Pauses everything, or a database.
    pub fn pause(&mut self, whose: &Whose) {
        match whose {
            Some(name) => drop(self.paused.replace(Arc::clone(name))),
            None => self.is_paused = true,
        }
    }

    /// Ends the pause of everything, or of a database.
    pub fn resume(&mut self, whose: &Whose) {
        match whose {
            Some(name) => drop(self.paused.take(name)),
            None => self.is_paused = false,
        }
    }

    /// Forgets databases that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.paused.retain(|name| is_there(name));
        self.disabled.retain(|name| is_there(name));
    }
}

/// The databases that an order is about: this one, or all of them.
pub type Whose = Option<Arc<str>>;

/// What is to be done once, and answered with [`ToControl::Obeyed`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// RECONNECT: no server that is there now serves another client.
    Reconnect(Whose),
    /// KILL: every client and every server goes at once.
    Kill(Whose),
    /// `KILL_CLIENT`: the client of this number goes at once.
    KillClient(u64),
    /// Before the process ends: whether nothing is left that the shutdown waits for. Whoever was on the way from one worker to
    /// another when both were drained is seen now.
    ConfirmDrained,
    /// PAUSE: answered when no client has a server, and none is being made clean.
    AwaitUnused(Whose),
    /// `WAIT_CLOSE`: answered when no server from before the last RECONNECT or change of its settings is left.
    AwaitRenewed(Whose),
    /// SUSPEND: answered when nothing of any conversation is under way.
    Suspend {
        /// Another process is to have all conversations, and those on servers with TLS it cannot have: their transactions are
        /// waited for.
        is_handover: bool,
    },
}

impl<I: Io> Worker<I> {
    /// Carries out an order, or notes that it waits for something.
    pub(crate) fn obey(&mut self, question: u64, order: Order) {
        let is_done = match order {
            Order::Reconnect(whose) => {
                self.databases_of(&whose).into_iter().for_each(|database| self.retire_servers_of(database));
                true
            }
            Order::Kill(whose) => {
                let databases: Vec<_> = self.databases_of(&whose).into_iter().map(|number| number as usize).collect();
                self.remove_databases(&databases);
                true
            }
            Order::KillClient(id) => self.kill_client(id),
            Order::ConfirmDrained => {
                // If it is so at the end of this turn after all, that is told anew.
                let has_nothing_left = self.has_nothing_left();
                self.is_drained &= has_nothing_left;
                has_nothing_left
            }
            Order::AwaitUnused(_) | Order::AwaitRenewed(_) => {
                self.awaited.push((question, order));
                return;
            }
            Order::Suspend { is_handover } => {
                self.suspend(is_handover);
                self.awaited.push((question, order));
                return;
            }
        };
        (self.posts.control)(ToControl::Obeyed { from: self.id, question, is_done });
    }

    /// Nobody waits for this any longer.
    pub(crate) fn forget_order(&mut self, question: u64) {
        self.awaited.retain(|(other, _)| *other != question);
    }

    /// Answers the orders whose waiting is over.
    pub(crate) fn report_obeyed(&mut self) {
        if self.awaited.is_empty() {
            return;
        }
        let awaited = std::mem::take(&mut self.awaited);
        let (waiting, come) = awaited.into_iter().partition(|(_, order)| self.is_awaiting(order));
        self.awaited = waiting;
        let come: Vec<_> = come;
        for (question, _) in come {
            (self.posts.control)(ToControl::Obeyed { from: self.id, question, is_done: true });
        }
    }

    fn is_awaiting(&self, order: &Order) -> bool {
        let is_of = |server: &Server, whose: &Whose| match whose {
            Some(name) => self.places.databases[server.database as usize].name == *name,
            None => true,
        };
        let mut servers = self.servers.iter();
        match order {
            Order::AwaitUnused(whose) => servers.any(|(key, server)| {
                let is_used = matches!(server.stage, Stage::Lent { .. } | Stage::Cleaning(_));
                (is_used || self.is_yet_to_be_lent(key)) && is_of(server, whose)
            }),
            Order::AwaitRenewed(whose) => {
                servers.any(|(key, server)| self.pools.is_obsolete(key) && is_of(server, whose))
            }
            Order::Suspend { .. } => !self.is_at_rest(),
            Order::Reconnect(_) | Order::Kill(_) | Order::KillClient(_) | Order::ConfirmDrained => false,
        }
    }

    /// The numbers of the databases in use that an order is about.
    fn databases_of(&self, whose: &Whose) -> Vec<u32> {
        match whose {
            Some(name) => self.places.known_database(name).into_iter().collect(),
            None => self.places.pools().map(|(_, place)| place.database).collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }

    /// Servers of a database that are there now serve nobody else; clients are greeted with what new ones say.
    pub(crate) fn retire_servers_of(&mut self, database: u32) {
        for pool in self.pools_of(database) {
            if let Some(place) = self.places.pool_mut(pool) {
                place.welcome_before = place.welcome.take().or(place.welcome_before.take());
                place.salted = None;
            }
            self.tell_pools(Event::Retire { pool });
            self.settle();
        }
        self.close_obsolete_sessions();
        self.renew_listener(database);
    }

    /// Sessions whose servers are obsolete end as soon as they stand outside a transaction, if the operator wants that
    /// (`server_fast_close`); in other modes servers come back by themselves.
    pub(crate) fn close_obsolete_sessions(&mut self) {
        if !self.force.settings.server_fast_close {
            return;
        }
        let lent = self.servers.iter().filter(|(_, server)| server.client().is_some());
        let keys: Vec<ServerKey> = lent.map(|(key, _)| key).collect();
        for key in keys {
            self.close_obsolete_session(key);
            self.settle();
        }
    }

    /// The same for one that has just become ready.
    pub(crate) fn close_obsolete_session(&mut self, key: ServerKey) {
        if !self.force.settings.server_fast_close || !self.pools.is_obsolete(key) {
            return;
        }
        let Some(server) = self.servers.get(key).filter(|server| server.session.exchange.may_end()) else { return };
        let is_session = self.places.pool(server.pool).is_some_and(|place| place.mode == Mode::Session);
        if let Some(client) = server.client().filter(|_| is_session) {
            self.lose_server(key, CloseReason::ConfigurationChanged.as_str());
            self.fail_client(client, &Fault::ConfigurationChanged);
        }
    }

    /// Whether there was such a client. One that is still logging in is none: nobody has seen its number.
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

    /// Has a pool pause or go on, as it is ordered now.
    pub(crate) fn stand(&mut self, pool: PoolKey) {
        let is_ending = self.shutdown == Some(Shutdown::WaitForServers);
        let Some(place) = self.places.pool_mut(pool) else { return };
        let is_paused = is_ending || self.force.standing.pauses(&place.database_name);
        if std::mem::replace(&mut place.is_paused, is_paused) != is_paused {
            let database = place.database;
            self.tell_pools(if is_paused { Event::Pause { pool } } else { Event::Resume { pool } });
            self.settle();
            if is_paused {
                self.renew_listener(database);
            }
        }
    }

    /// For a shutdown that waits for servers: idle ones go now, the others when they come back, and nobody gets another.
    pub(crate) fn pause_for_good(&mut self) {
        for client in self.waiting_clients() {
            self.fail_client(client, &Fault::ServersShuttingDown);
            self.settle();
        }
        self.places.pool_keys().into_iter().for_each(|pool| self.stand(pool));
    }

    /// The clients that wait for a server.
    fn waiting_clients(&self) -> Vec<Key> {
        let waits = |stage: &ClientStage| match stage {
            ClientStage::Ready(ready) => matches!(ready.link, Link::Waiting(_) | Link::Delayed(_)),
            ClientStage::Login(login) => login.waits_for().is_some(),
            _ => false,
        };
        self.clients.iter().filter(|(_, client)| waits(&client.stage)).map(|(key, _)| key).collect()
    }
}
