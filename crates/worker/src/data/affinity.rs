//! Affinity holds: a server stays for a moment with a client that may come back at once, where every waiting client
//! would need other settings on it.
//!
//! Always true: a server is held only while no client waits that could use it without new settings, and only if its
//! settings are those of its client; no server stays held once an operator gives an order. The list of them is in the order of
//! time; the server of a row need not be held any more.
//! Not here: for how long and how often (`pool::affinity_hold`), how settings are sent to a server (`catch_up`), holds
//! that expire (`deadlines`).

use std::collections::VecDeque;
use std::rc::Rc;

use base::Time;
use pool::{ClientKey, ServerKey};
use protocol::loan::{differ, is_between};
use reactor::Io;

use crate::data::client::{Client, ClientStage};
use crate::data::server::ServerStage;
use crate::observe::tracers::What;
use crate::planted::is_like;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A loan could end. Returns whether the server is held for its client instead.
    pub(crate) fn is_held_for_affinity(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        if self.limits.counts_transactions() && self.goes_one_by_one(client_key) {
            // A rate limit has to count the client's next transaction.
            return false;
        }
        let Some(server) = self.servers.get_mut(server_key) else { return false };
        let Some(Client { stage: ClientStage::Ready(ready), is_listener, tracers, .. }) =
            self.clients.get_mut(client_key)
        else {
            return false;
        };
        if self.pools.is_returned_at_once(server.pool, server.fingerprint()) {
            return false;
        }
        let is_ending = self.admin.is_going_down() || self.admin.is_resting() || self.pools.is_obsolete(server_key);
        let is_clean = server.session.may_be_given_back();
        // A parameter that the client has RESET goes back to the client's startup value, not to the server's: the next
        // loan sends it.
        let is_like_client =
            is_like(Rc::ptr_eq(&server.session.vars, &ready.session.vars) && !differ(&server.session, &ready.session));
        // Where reads are routed, it is decided for each request who answers it.
        let is_routed = ready.routing().is_some();
        if *is_listener || is_ending || !is_clean || !is_like_client || is_routed {
            return false;
        }
        let Some(until) = server.affinity_hold.begin(&mut ready.hold_history, self.hands.now) else { return false };
        let is_traced = *tracers != 0;
        self.affinity_holds.add(until, server_key);
        // What the client has sent meanwhile is its next request.
        if ready.held.is_some() || ready.is_paused {
            self.hands.enqueue(Task::ForwardHeld(client_key));
        }
        if is_traced {
            self.trace(client_key, |_, _| Some(What::Stays));
        }
        true
    }

    /// Ends the loan of a server that is held for its client, if the client has not come back.
    pub(crate) fn end_affinity_hold(&mut self, server_key: ServerKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let ServerStage::Lent { client: client_key } = server.stage else { return };
        if !server.session.phase.is_running() {
            return;
        }
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        if !is_between(&server.session, &ready.session) {
            return;
        }
        server.affinity_hold.end_in_vain(&mut ready.hold_history);
        self.end_loan(server_key, client_key);
    }
}

/// Held servers, and some whose hold has ended, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct AffinityHolds {
    rows: VecDeque<(Time, ServerKey)>,
}

impl AffinityHolds {
    pub(super) fn add(&mut self, until: Time, server: ServerKey) {
        self.rows.push_back((until, server));
    }

    /// Takes the first row whose time has come.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<(Time, ServerKey)> {
        let is_due = self.rows.front().is_some_and(|(until, _)| *until <= now);
        if is_due { self.rows.pop_front() } else { None }
    }

    pub(crate) fn last_deadline(&self) -> Option<Time> {
        self.rows.back().map(|(until, _)| *until)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(until, _)| *until)
    }
}
