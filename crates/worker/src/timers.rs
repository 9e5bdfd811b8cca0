//! Deadlines of clients, servers and cancel requests.
//!
//! Always true: a row has at most one deadline in the wheel; when it fires the row is asked anew what is due, so that a row
//! that is busy moves its deadline without touching the wheel.
//! Not here: deadlines of pools, which are the machine's own (crate `pool`).

use base::planted::{self, Planted};
use base::{Key, Time};
use pool::{Failure, ServerKey};
use protocol::fault::Fault;
use protocol::loan::Phase;
use reactor::{Io, Level};
use wire::backend::TxStatus;
use wire::write;

use crate::data::client::{Client, Link, Stage as ClientStage};
use crate::data::server::{Server, Stage};
use crate::turn::Worker;

/// What a deadline is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// A client's login, idleness or wait.
    Client(Key),
    /// A server's dial, loan or cleaning.
    Server(ServerKey),
    /// A dial that found no descriptor.
    Redial(ServerKey),
    /// A cancel request's patience.
    Cancel(Key),
    /// The patience of a cancel request for another process.
    Forward(Key),
    /// A client's statement that needs a database to itself has not been answered promptly.
    Claim(Key),
    /// Somebody whom a rate limit delays, or the end of one that held somebody back.
    Rates(Time),
    /// A look at the pools that nobody uses, and at the databases that were made from `*`.
    Sweep,
}

/// What is due at a client.
enum ClientDue {
    Fault(Fault),
    /// It is told that it waits.
    Notice,
    /// The session that listens for all has not answered in time.
    Late,
    /// It is closed without a word.
    Farewell,
}

impl<I: Io> Worker<I> {
    pub(crate) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Client(key) => self.client_due(key),
            Timer::Server(key) => self.server_due(key),
            Timer::Redial(key) => self.redial(key),
            Timer::Cancel(key) => self.cancel_too_late(key),
            Timer::Forward(key) => self.forward_too_late(key),
            Timer::Claim(key) => self.claim_due(key),
            Timer::Rates(at) => self.rates_due(at),
            Timer::Sweep => self.sweep(),
        }
    }

    /// Makes sure that the wheel knows the client's next deadline.
    pub(crate) fn arm_client(&mut self, key: Key) {
        let next = self.next_of_client(key).map(|(at, _)| at);
        let Some(client) = self.clients.get_mut(key) else { return };
        match (next, client.timer) {
            (None, _) => {}
            (Some(at), Some((_, armed))) if armed <= at => {}
            (Some(at), old) => {
                if let Some((old, _)) = old {
                    self.timers.remove(old);
                }
                client.timer = Some((self.timers.insert(at, Timer::Client(key)), at));
            }
        }
    }

    /// Makes sure that the wheel knows the server's next deadline.
    pub(crate) fn arm_server(&mut self, key: ServerKey) {
        let numbers = self.servers.get(key).and_then(Server::numbers_due);
        let withheld = self.servers.get(key).and_then(Server::withheld_until);
        let next = self.next_of_server(key).map(|(at, _)| at).into_iter().chain(numbers).chain(withheld).min();
        let Some(server) = self.servers.get_mut(key) else { return };
        match (next, server.timer) {
            (None, _) => {}
            (Some(at), Some((_, armed))) if armed <= at => {}
            (Some(at), old) => {
                if let Some((old, _)) = old {
                    self.timers.remove(old);
                }
                server.timer = Some((self.timers.insert(at, Timer::Server(key)), at));
            }
        }
    }

    /// Takes the server's deadline out of the wheel.
    pub(crate) fn disarm_server(&mut self, key: ServerKey) {
        if let Some((timer, _)) = self.servers.get_mut(key).and_then(|server| server.timer.take()) {
            self.timers.remove(timer);
        }
    }

    /// The client's next deadline and what is due then.
    fn next_of_client(&self, key: Key) -> Option<(Time, ClientDue)> {
        let settings = &self.force.settings;
        let client = self.clients.get(key)?;
        match &client.stage {
            ClientStage::Greeting(_) => {
                settings.client_login_timeout.map(|limit| (client.since + limit, ClientDue::Fault(Fault::LoginTimeout)))
            }
            ClientStage::Login(login) => {
                let limit = settings.client_login_timeout;
                let Some((pool, since)) = login.waits_since() else {
                    return limit.map(|limit| (client.since + limit, ClientDue::Fault(Fault::LoginTimeout)));
                };
                let failure = self.pools.snapshot(pool).and_then(|snapshot| snapshot.failure);
                // Who waits for a server of its own may wait because all places are taken, and then no server is down.
                let may_be_down =
                    |at: &Time| login.request.replication.is_none() || failure.is_some() || *at > self.now;
                let down = limit.map(|limit| client.since + limit).filter(may_be_down);
                let fault = Fault::LoginTimeoutServerDown { cause: failure.map(|failure| failure.text) };
                let down = down.map(|at| (at, ClientDue::Fault(fault)));
                let entry = self
                    .places
                    .pool(pool)
                    .and_then(|place| self.places.databases[place.database as usize].entry.as_ref());
                let wait = entry.and_then(|entry| settings.query_wait_timeout(entry, &login.request.user));
                let wait = wait
                    .map(|limit| (since + limit, ClientDue::Fault(Fault::QueryWaitTimeout { secs: limit.as_secs() })));
                // A login that waits for its first server waits like a query (PgBouncer, `janitor.c`, `pool_client_maint`).
                let query = settings.query_timeout;
                let query = query.map(|limit| (since + limit, ClientDue::Fault(Fault::QueryTimeoutWaiting)));
                down.into_iter().chain(query).chain(wait).min_by_key(|(at, _)| *at)
            }
            ClientStage::Ready(ready) => match ready.link {
                Link::Loan(_) => None,
                Link::None if ready.joins.is_some() => {
                    ready.joins.as_ref().map(|joining| (joining.until, ClientDue::Late))
                }
                Link::None => {
                    let limit = self.places.users[ready.session.user as usize].client_idle_timeout?;
                    Some((client.silent_since() + limit, ClientDue::Fault(Fault::ClientIdleTimeout)))
                }
                Link::Waiting(since) => {
                    let query = settings.query_timeout;
                    let query = query.map(|limit| (since + limit, ClientDue::Fault(Fault::QueryTimeoutWaiting)));
                    let notify = settings.query_wait_notify.filter(|_| !ready.is_notified);
                    let notify = notify.map(|after| (since + after, ClientDue::Notice));
                    query.into_iter().chain(notify).min_by_key(|(at, _)| *at)
                }
                // As long as it waits in all it may, whatever it waits for.
                Link::Delayed(since) => {
                    let query = settings.query_timeout;
                    let query = query.map(|limit| (since + limit, ClientDue::Fault(Fault::QueryTimeoutWaiting)));
                    let place = self.places.pool(ready.pool)?;
                    let entry = self.places.databases[place.database as usize].entry.as_ref();
                    let user = &place.user_name;
                    let wait = entry.and_then(|entry| settings.query_wait_timeout(entry, user));
                    let wait = wait.map(|limit| {
                        (since + limit, ClientDue::Fault(Fault::QueryWaitTimeout { secs: limit.as_secs() }))
                    });
                    query.into_iter().chain(wait).min_by_key(|(at, _)| *at)
                }
            },
            // The request itself has the same patience; this is for one that got lost with its worker's server.
            ClientStage::Cancelling(waits) => waits.until.map(|until| (until, ClientDue::Farewell)),
            ClientStage::Console(_) => None,
        }
    }

    fn client_due(&mut self, key: Key) {
        if let Some(client) = self.clients.get_mut(key) {
            client.timer = None;
        }
        match self.next_of_client(key) {
            Some((at, ClientDue::Fault(fault))) if at <= self.now => self.fail_client(key, &fault),
            Some((at, ClientDue::Farewell)) if at <= self.now => self.drop_client(key, "cancel_wait_timeout"),
            Some((at, ClientDue::Late)) if at <= self.now => self.join_too_late(key),
            Some((at, ClientDue::Notice)) if at <= self.now => {
                self.tell_that_it_waits(key);
                self.arm_client(key);
            }
            _ => self.arm_client(key),
        }
    }

    fn tell_that_it_waits(&mut self, key: Key) {
        let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        ready.is_notified = true;
        let mut out = Vec::new();
        let says = write::Says {
            severity: "NOTICE",
            sqlstate: "00000",
            message: "No server connection available in postgres backend, client being queued",
            detail: None,
            hint: None,
        };
        write::notice(&mut out, says);
        self.io.send(*conn, out.into());
    }

    /// The server's next deadline and what a client is told then.
    fn next_of_server(&self, key: ServerKey) -> Option<(Time, Fault)> {
        let settings = &self.force.settings;
        let server = self.servers.get(key)?;
        let is_along = server.session.life.phase() == Phase::ApplyingAlong;
        match &server.stage {
            Stage::Resolving | Stage::Connecting | Stage::Securing(_) | Stage::Login(_) | Stage::Introducing => {
                settings.server_connect_timeout.map(|limit| (server.since + limit, Fault::ServerCrashed))
            }
            Stage::Idle => None,
            Stage::Cleaning(cleaning) => {
                let end = cleaning.ends(settings.server_mend_timeout);
                Some((cleaning.cancel_again.map_or(end, |at| at.min(end)), Fault::ServerCrashed))
            }
            // A stream has no end, and a base backup takes its time.
            Stage::Lent { .. } if server.private.is_some() => None,
            // PostgreSQL has answered; how long that is withheld has a limit of its own.
            Stage::Lent { .. } if server.withheld.is_some() => None,
            Stage::Lent { .. } if server.session.life.probe().is_some_and(|probe| !probe.is_of_nothing()) => {
                let fault = Fault::StateUnread { secs: settings.server_mend_timeout.as_secs() };
                Some((server.asked + settings.server_mend_timeout, fault))
            }
            Stage::Lent { .. } if is_along && planted::is(Planted::MendTimeoutForRequests) => {
                Some((server.asked + settings.server_mend_timeout, Fault::ServerCrashed))
            }
            Stage::Lent { .. } if is_along && planted::is(Planted::AlongUntimed) => None,
            // Settings that the server is told by themselves take it no time. Statements that it prepares may wait for locks, and settings in
            // the packet of a request are answered together with that: there the limits of queries hold.
            Stage::Lent { .. }
                if server.session.life.waits_since().is_some() && server.session.preparing.is_empty() =>
            {
                Some((server.asked + settings.server_mend_timeout, Fault::ServerCrashed))
            }
            Stage::Lent { .. } => {
                let user = self.places.pool(server.pool)?.user;
                let limits = &self.places.users[user as usize];
                let query = server.query_since.zip(limits.query_timeout);
                let query = query.map(|(since, limit)| (since + limit, Fault::QueryTimeout));
                let xact = server.xact_since.zip(limits.transaction_timeout);
                let xact = xact.map(|(since, limit)| (since + limit, Fault::TransactionTimeout));
                let is_idle_in =
                    server.session.exchange.owes_nothing() && server.session.exchange.status() != TxStatus::Idle;
                let idle = limits.idle_transaction_timeout.filter(|_| is_idle_in);
                let idle = idle.map(|limit| (server.heard + limit, Fault::IdleTransactionTimeout));
                query.into_iter().chain(xact).chain(idle).chain(self.pin_due(key)).min_by_key(|(at, _)| *at)
            }
        }
    }

    fn server_due(&mut self, key: ServerKey) {
        if let Some(server) = self.servers.get_mut(key) {
            server.timer = None;
        }
        let withheld = self.servers.get(key).and_then(Server::withheld_until);
        if withheld.is_some_and(|at| at <= self.now) {
            self.end_waiting_for_listener(key);
            self.arm_server(key);
            return;
        }
        let numbers = self.servers.get(key).and_then(Server::numbers_due);
        if numbers.is_some_and(|at| at <= self.now) {
            self.numbers_are_over(key);
            return;
        }
        let Some((_, fault)) = self.next_of_server(key).filter(|(at, _)| *at <= self.now) else {
            self.arm_server(key);
            return;
        };
        let Some(server) = self.servers.get(key) else { return };
        match &server.stage {
            Stage::Lent { client } => {
                let (client, is_told_first) = (*client, server.session.life.waits_since().is_some());
                if server.session.life.probe().is_some() {
                    self.lose_server(key, "its session could not be read in time");
                } else if is_told_first && matches!(fault, Fault::ServerCrashed) {
                    self.lose_server(key, "did not take over the client's settings in time (server_mend_timeout)");
                }
                self.fail_client(client, &fault);
                if matches!(fault, Fault::QueryTimeout) {
                    self.hurry_cleaning(key);
                }
            }
            Stage::Cleaning(cleaning) if self.now < cleaning.ends(self.force.settings.server_mend_timeout) => {
                self.cancel_again(key);
            }
            Stage::Cleaning(cleaning) => {
                let why = cleaning.too_late();
                let line = self.server_prefix(key);
                self.log.add(Level::Warning, format_args!("{line}was not clean in time ({why})"));
                self.lose_server(key, "could not be made clean in time");
            }
            Stage::Idle => {}
            _ => self.dial_failed(key, Failure::unreachable("connect timeout")),
        }
    }
}
