//! The deadlines of clients and servers, and what happens when one is due.
//!
//! Always true: a row has at most one deadline in the timer wheel; code that changes what a row waits for arms it again. The
//! deadline is computed again when its timer fires, so that a busy row postpones it without touching the wheel.
//! Not here: deadlines of pools, which their machine keeps (crate `pool`).

use std::time::Duration;

use base::{Key, Time};
use measure::Closed;
use pool::{Failure, ServerKey};
use protocol::fault::Fault;
use protocol::loan::LoanPhaseKind;
use reactor::{Conn, Io, Level, TimerId, Wheel};
use wire::backend::TxStatus;
use wire::write;

use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::server::{Server, ServerStage};
use crate::planted::{are_settings_timed, end_of_request, has_hold_expired};
use crate::timers::Timer;
use crate::worker::Worker;

/// What is due at a client's deadline.
pub(crate) enum ClientDue {
    Fault(Fault),
    /// It gets a notice that it waits (`query_wait_notify`).
    Notice,
    /// The listener has not answered in time.
    Late,
    /// It is closed without an error message.
    Farewell,
}

impl<I: Io> Worker<I> {
    /// Puts the client's next deadline into the wheel.
    pub(crate) fn arm_client(&mut self, key: Key) {
        let next = self.next_of_client(key).map(|(at, _)| at);
        if let (Some(at), Some(client)) = (next, self.clients.get_mut(key)) {
            bring_forward(&mut self.hands.timers, &mut client.timer, at, Timer::Client(key));
        }
    }

    /// Puts the server's next deadline into the wheel.
    pub(crate) fn arm_server(&mut self, key: ServerKey) {
        if !self.registry.has_loan_timeouts() && self.is_lent_for_as_long_as_it_takes(key) {
            return;
        }
        let numbers = self.servers.get(key).and_then(Server::sequences_due);
        let withheld = self.servers.get(key).and_then(Server::withheld_until);
        let next = self.next_of_server(key).map(|(at, _)| at).into_iter().chain(numbers).chain(withheld).min();
        if let (Some(at), Some(server)) = (next, self.servers.get_mut(key)) {
            bring_forward(&mut self.hands.timers, server.timer(), at, Timer::Server(key));
        }
    }

    /// Whether a server is lent, and no deadline of it depends on anything but the timeouts of its user.
    fn is_lent_for_as_long_as_it_takes(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        let ServerStage::Lent { client } = server.stage() else { return false };
        let keeps_nothing = |ready: &Ready| {
            let session_effects = ready.session().session_effects.as_ref();
            session_effects.is_none_or(|session_effects| session_effects.pins().is_empty())
        };
        self.clients.ready(*client).is_some_and(keeps_nothing)
            && server.session().phase.is_running()
            && server.session().cancels_sent == 0
            && server.session().sequences_until.is_none()
            && server.withheld().is_none()
    }

    /// Takes the server's deadline out of the wheel.
    pub(crate) fn disarm_server(&mut self, key: ServerKey) {
        if let Some((timer, _)) = self.servers.get_mut(key).and_then(|server| server.timer().take()) {
            self.hands.timers.remove(timer);
        }
    }

    /// The client's next deadline, and what is due then.
    pub(crate) fn next_of_client(&self, key: Key) -> Option<(Time, ClientDue)> {
        let settings = &self.hands.active.settings;
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
                let failure = self.pools.snapshot(self.hands.now, pool).and_then(|snapshot| snapshot.failure);
                // A client may wait for a dedicated server because all slots are taken; then no server is down.
                let may_be_down =
                    |at: &Time| login.request().replication.is_none() || failure.is_some() || *at > self.hands.now;
                let down = limit.map(|limit| client.since + limit).filter(may_be_down);
                let fault = Fault::LoginTimeoutServerDown { cause: failure.map(|failure| failure.words().into()) };
                let down = down.map(|at| (at, ClientDue::Fault(fault)));
                let entry = self.registry.entry_of(pool);
                let wait = entry.and_then(|entry| settings.query_wait_timeout(entry, &login.request().user));
                // A login that waits for its first server waits like a query (PgBouncer, `janitor.c`, `pool_client_maint`).
                let query = end_of_query(since, settings.query_timeout);
                down.into_iter().chain(query).chain(end_of_wait(since, wait)).min_by_key(|(at, _)| *at)
            }
            ClientStage::Ready(ready) => match ready.link() {
                Link::Loan(_) => None,
                Link::None if ready.listen_wait().is_some() => {
                    ready.listen_wait().map(|wait| (wait.until(), ClientDue::Late))
                }
                Link::None => {
                    let limit = self.registry.user_at(ready.session().user).client_idle_timeout;
                    let limit = limit.map(|limit| (limit, Fault::ClientIdleTimeout));
                    let own = ready.session().overrides.as_ref().and_then(|overrides| overrides.idle_limit());
                    let own = own.map(|limit| (limit, Fault::IdleSessionTimeout));
                    let (limit, fault) = limit.into_iter().chain(own).min_by_key(|(limit, _)| *limit)?;
                    Some((client.silent_since() + limit, ClientDue::Fault(fault)))
                }
                Link::Waiting(since) | Link::AsksReplica(since) => {
                    let query = end_of_query(since, settings.query_timeout);
                    let notify = settings.query_wait_notify.filter(|_| !ready.is_notified());
                    let notify = notify.map(|after| (since + after, ClientDue::Notice));
                    query.into_iter().chain(notify).min_by_key(|(at, _)| *at)
                }
                // The timeouts count the whole wait, for the rate limit and for a server.
                Link::Delayed(since) => {
                    let user = &self.registry.pool(ready.pool())?.user_name;
                    let entry = self.registry.entry_of(ready.pool());
                    let wait = entry.and_then(|entry| settings.query_wait_timeout(entry, user));
                    let query = end_of_query(since, settings.query_timeout);
                    query.into_iter().chain(end_of_wait(since, wait)).min_by_key(|(at, _)| *at)
                }
            },
            // The cancel request itself has the same timeout; this one is for a request that was lost together with its
            // server.
            ClientStage::Cancelling(waits) => waits.until.map(|until| (until, ClientDue::Farewell)),
            ClientStage::Console(_) => None,
        }
    }

    /// The server's next deadline, and the error that the client gets then.
    pub(crate) fn next_of_server(&self, key: ServerKey) -> Option<(Time, Fault)> {
        let settings = &self.hands.active.settings;
        let server = self.servers.get(key)?;
        let is_along = server.session().phase.kind() == LoanPhaseKind::ApplyingAlong;
        match server.stage() {
            ServerStage::Connecting(attempt) => {
                let end = self.connect_end(server, attempt);
                // A dial that waits for a descriptor does not try an address yet.
                let is_tried = server.conn() != Conn::NOWHERE;
                end.map(|end| (if is_tried { attempt.due(end) } else { end }, Fault::ServerCrashed))
            }
            ServerStage::Resolving | ServerStage::Securing(_) | ServerStage::Login(_) | ServerStage::Introducing => {
                settings.server_connect_timeout.map(|limit| (server.since() + limit, Fault::ServerCrashed))
            }
            ServerStage::Idle => None,
            ServerStage::Cleaning(cleaning) => {
                let end = cleaning.ends(settings.server_mend_timeout);
                Some((cleaning.cancel_again().map_or(end, |at| at.min(end)), Fault::ServerCrashed))
            }
            // A replication stream has no end, and a base backup takes long.
            ServerStage::Lent { .. } if server.dedicated().is_some() => None,
            // PostgreSQL has answered; the wait for the listener has a limit of its own.
            ServerStage::Lent { .. } if server.withheld().is_some() => None,
            ServerStage::Lent { .. } if server.session().phase.probe().is_some_and(|probe| !probe.is_of_nothing()) => {
                let fault = Fault::StateUnread { secs: settings.server_mend_timeout.as_secs() };
                Some((server.request_time() + settings.server_mend_timeout, fault))
            }
            // Settings sent by themselves take the server no time. Prepared statements may wait for locks, and settings
            // in one packet with a request are answered together with it: for these the query timeouts apply.
            ServerStage::Lent { .. }
                if are_settings_timed(
                    server.session().phase.waits_since().is_some() && server.session().preparing.is_empty(),
                    is_along,
                ) =>
            {
                Some((server.request_time() + settings.server_mend_timeout, Fault::ServerCrashed))
            }
            ServerStage::Lent { .. } => {
                let user = self.registry.pool(server.pool())?.user;
                let limits = self.registry.user_at(user);
                let query = server.query_since().zip(limits.query_timeout);
                let query = query.map(|(since, limit)| (since + limit, Fault::QueryTimeout));
                let xact = server.xact_since().zip(limits.transaction_timeout);
                let xact = xact.map(|(since, limit)| (since + limit, Fault::TransactionTimeout));
                let is_idle_in =
                    server.session().exchange.owes_nothing() && server.session().exchange.status() != TxStatus::Idle;
                let idle = limits.idle_transaction_timeout.filter(|_| is_idle_in);
                let idle = idle.map(|limit| (server.last_received() + limit, Fault::IdleTransactionTimeout));
                let ends = query.into_iter().chain(xact).chain(idle).chain(self.pin_due(key));
                end_of_request(ends.min_by_key(|(at, _)| *at), is_along)
            }
        }
    }

    /// The deadline of a client that keeps its server: the age limit of its pins, or `client_idle_timeout`.
    pub(crate) fn pin_due(&self, key: ServerKey) -> Option<(Time, Fault)> {
        let server = self.servers.get(key)?;
        let Some(client @ Client { stage: ClientStage::Ready(ready), is_own: false, .. }) =
            self.clients.get(server.client()?)
        else {
            return None;
        };
        let session_effects = ready.session().session_effects.as_ref()?;
        let kept = session_effects.pins().oldest().zip(session_effects.kept_since());
        let limit = self.registry.pool(server.pool())?.pin_rules.age_max;
        let too_long = kept.zip(limit).map(|((first, since), limit)| {
            (since + limit, Fault::PinnedTooLong { secs: limit.as_secs(), what: first.hold.words() })
        });
        // Without a pin the loan lasts until the session can be probed, which is after the cancel requests (`probe_session`).
        let is_kept = kept.is_some() || server.session().cancels_sent > 0 && session_effects.is_marked();
        // A client whose next request waits for the end of a cancel request is not idle.
        let waits = ready.held().is_some() && !self.may_forward(key);
        let is_idle = is_kept && server.session().exchange.may_end() && !waits;
        let idle = self.registry.user_at(ready.session().user).client_idle_timeout.filter(|_| is_idle);
        let silent_since = client.silent_since().max(server.answered());
        let idle = idle.map(|limit| (silent_since + limit, Fault::ClientIdleTimeout));
        too_long.into_iter().chain(idle).min_by_key(|(at, _)| *at)
    }

    /// Arms the check for waiting clients, since one may wait from now on.
    #[inline]
    pub(crate) fn arm_watch(&mut self) {
        if let Some(enough) = self.hands.active.settings.log_pool_wait
            && self.registry.watch_mut().asks()
        {
            self.watch_at(self.hands.now + enough);
        }
    }

    pub(crate) fn watch_at(&mut self, at: Time) {
        self.hands.timers.insert(at, Timer::Watch);
    }

    /// Arms the sweep of databases made from `*`, and of pools where `pool_idle_timeout` is set.
    pub(crate) fn arm_sweep(&mut self) {
        self.arm_sweep_in(SWEEP_PERIOD);
    }

    pub(crate) fn arm_sweep_in(&mut self, time: Duration) {
        if self.registry.is_sweep_armed() {
            return;
        }
        let has_pools =
            self.hands.active.settings.pool_idle_timeout.is_some() && self.registry.pools().next().is_some();
        if has_pools || self.registry.databases().any(|(_, place)| place.is_automatic()) {
            self.registry.arms_sweep(true);
            self.hands.timers.insert(self.hands.now + time, Timer::Sweep);
        }
    }

    pub(crate) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Client(key) => self.client_due(key),
            Timer::Server(key) => self.server_due(key),
            Timer::Redial(key) => self.redial(key),
            Timer::Cancel(key) => self.cancel.too_late(key, &mut self.hands),
            Timer::Forward(key) => self.cancel.forward_too_late(key, &mut self.hands, &mut self.names),
            Timer::Claim(key) => self.claim_due(key),
            Timer::Rates(at) => self.rates_due(at),
            Timer::Sweep => self.sweep(),
            Timer::Reports => self.send_reports(),
            Timer::Traced => self.send_traced(),
            Timer::Spans => self.send_spans(),
            Timer::Watch => self.watch_waits(),
            Timer::Outages => self.try_hosts_again(),
            Timer::Moves => self.move_servers(),
        }
    }

    fn client_due(&mut self, key: Key) {
        if let Some(client) = self.clients.get_mut(key) {
            client.timer = None;
        }
        match self.next_of_client(key) {
            Some((at, ClientDue::Fault(fault))) if at <= self.hands.now => {
                let fault = self.explained(key, fault);
                self.fail_client(key, &fault);
            }
            Some((at, ClientDue::Farewell)) if at <= self.hands.now => self.drop_client(key, "cancel_wait_timeout"),
            Some((at, ClientDue::Late)) if at <= self.hands.now => self.join_too_late(key),
            Some((at, ClientDue::Notice)) if at <= self.hands.now => {
                self.tell_that_it_waits(key);
                self.arm_client(key);
            }
            _ => self.arm_client(key),
        }
    }

    fn tell_that_it_waits(&mut self, key: Key) {
        let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        ready.note_notified(true);
        let mut out = Vec::new();
        let says = write::Says {
            severity: "NOTICE",
            sqlstate: "00000",
            message: "No server connection available in postgres backend, client being queued",
            detail: None,
            hint: None,
        };
        write::notice(&mut out, says);
        self.hands.io.send(*conn, out.into());
    }

    fn server_due(&mut self, key: ServerKey) {
        if let Some(server) = self.servers.get_mut(key) {
            *server.timer() = None;
        }
        let withheld = self.servers.get(key).and_then(Server::withheld_until);
        if withheld.is_some_and(|at| at <= self.hands.now) {
            self.end_waiting_for_listener(key);
            self.arm_server(key);
            return;
        }
        let numbers = self.servers.get(key).and_then(Server::sequences_due);
        if numbers.is_some_and(|at| at <= self.hands.now) {
            self.sequences_are_over(key);
            return;
        }
        let Some((_, fault)) = self.next_of_server(key).filter(|(at, _)| *at <= self.hands.now) else {
            self.arm_server(key);
            return;
        };
        let Some(server) = self.servers.get(key) else { return };
        match server.stage() {
            ServerStage::Lent { client } => {
                let (client, is_waiting) = (*client, server.session().phase.waits_since().is_some());
                if server.session().phase.probe().is_some() {
                    self.lose_server(key, Closed::Dirty, "its session could not be read in time");
                } else if is_waiting && matches!(fault, Fault::ServerCrashed) {
                    self.lose_server(
                        key,
                        Closed::Dirty,
                        "did not take over the client's settings in time (server_mend_timeout)",
                    );
                }
                self.fail_client(client, &fault);
                if matches!(fault, Fault::QueryTimeout) {
                    self.hurry_cleaning(key);
                }
            }
            ServerStage::Cleaning(cleaning)
                if self.hands.now < cleaning.ends(self.hands.active.settings.server_mend_timeout) =>
            {
                self.cancel_again(key);
            }
            ServerStage::Cleaning(cleaning) => {
                let why = cleaning.too_late();
                self.log_server(key, Level::Warning, format_args!("was not clean in time ({why})"));
                self.lose_server(key, Closed::Dirty, "could not be made clean in time");
            }
            ServerStage::Idle => {}
            ServerStage::Connecting(_) => self.connect_is_late(key),
            _ => self.dial_failed(key, Failure::unreachable("connect timeout")),
        }
    }

    /// The client has not called `currval` or `lastval` in time: its loan need not be kept for that any longer.
    pub(crate) fn sequences_are_over(&mut self, server_key: ServerKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        server.session_mut().sequences_until = None;
        if let Some(client_key) = server.client() {
            self.forget_sequences(server_key, client_key);
            self.end_loan_if_over(server_key, client_key);
        }
    }

    /// Ends the affinity holds that have expired: their clients have not come back.
    pub(crate) fn end_expired_affinity_holds(&mut self) {
        self.end_affinity_hold_until(self.hands.now);
    }

    /// Ends all affinity holds, because an order may come.
    pub(crate) fn end_all_affinity_holds(&mut self) {
        if let Some(last) = self.affinity_holds.last_deadline() {
            self.end_affinity_hold_until(last);
        }
    }

    fn end_affinity_hold_until(&mut self, now: Time) {
        while let Some((until, server_key)) = self.affinity_holds.take_due(now) {
            let Some(server) = self.servers.get(server_key) else { continue };
            if has_hold_expired(server.affinity_hold().is_waiting_until(until)) {
                self.end_affinity_hold(server_key);
                self.settle();
            }
        }
    }
}

/// Puts a deadline of a row into the wheel, unless the row has one that is not later.
fn bring_forward(timers: &mut Wheel<Timer>, armed: &mut Option<(TimerId, Time)>, at: Time, timer: Timer) {
    if armed.is_some_and(|(_, armed)| armed <= at) {
        return;
    }
    if let Some((old, _)) = armed.take() {
        timers.remove(old);
    }
    *armed = Some((timers.insert(at, timer), at));
}

/// The end of a wait for a server by `query_timeout`.
fn end_of_query(since: Time, limit: Option<Duration>) -> Option<(Time, ClientDue)> {
    let fault = |limit: Duration| Fault::QueryTimeoutWaiting { secs: limit.as_secs(), why: None };
    limit.map(|limit| (since + limit, ClientDue::Fault(fault(limit))))
}

/// The end of a wait for a server by `query_wait_timeout`.
fn end_of_wait(since: Time, limit: Option<Duration>) -> Option<(Time, ClientDue)> {
    let fault = |limit: Duration| Fault::QueryWaitTimeout { secs: limit.as_secs(), why: None };
    limit.map(|limit| (since + limit, ClientDue::Fault(fault(limit))))
}

/// How often the sweep runs; the timeout of databases made from `*` is an hour by default.
pub(crate) const SWEEP_PERIOD: Duration = Duration::from_secs(1);
