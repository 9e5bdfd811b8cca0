//! Whether a loan is over, and its end.
//!
//! Always true: a loan is over by the rules of its pool when its server owes nothing and stands outside a transaction, and all
//! that the session keeps is known to follow the client. A server is given back only then, and when neither an incomplete message
//! nor a cancel request is on its way to it; otherwise it is cleaned up first or closed.
//! Not here: what a session keeps (`probe`), what its server needs then (`protocol::loan`), which client gets the server next
//! (crate `pool`).

use measure::Closed;
use pool::{ClientKey, CloseReason, Mode, ServerKey};
use protocol::fault::Fault;
use protocol::loan::{Ended, doubt_what_was_read, is_between};
use protocol::state::Counted;
use reactor::Io;

use crate::data::client::{Client, ClientStage, Link};
use crate::data::server::ServerStage;
use crate::planted::ends_obsolete;
use crate::tasks::Task;
use crate::upstream::cleanup::reset_of;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Ends the loan if it is over by the rules of its pool.
    pub(crate) fn end_loan_if_over(&mut self, server_key: ServerKey, client_key: ClientKey) {
        // Looking may show that the client has nothing on its server; then the loan is looked at again.
        while self.ends_or_continues(server_key, client_key) {}
    }

    /// Ends the loan if it is known to be over by the rules of its pool. Returns whether it has become known that the
    /// client has nothing on its server: then this is to be called once more.
    fn ends_or_continues(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(server) = self.servers.get_mut(server_key) else { return false };
        server.affinity_hold.come_back();
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        // In session mode a loan lasts as long as its client, and so does the loan of a dedicated server in any mode.
        let is_session = server.dedicated.is_some()
            || self.registry.pool(server.pool).is_none_or(|place| place.mode == Mode::Session);
        if is_session {
            self.arm_server(server_key);
            if ends_obsolete(self.hands.active.settings.server_fast_close) {
                self.close_obsolete_session(server_key);
            }
            return false;
        }
        // A message that the server sends unasked may have begun; its end belongs to the same client.
        if !is_between(&server.session, &ready.session) || server.session.is_in_message() {
            self.arm_server(server_key);
            return false;
        }
        doubt_what_was_read(&mut server.session, &mut ready.session);
        let counted = ready.session.counting.ends();
        let mut is_marked = ready.is_marked();
        if counted != Counted::Neither || server.session.sequences_until.is_some() {
            is_marked = self.count_sequences(server_key, client_key, counted);
        }
        if is_marked || self.verify_untouched(server_key, client_key) {
            return self.keep_or_probe(server_key, client_key);
        } else if !self.is_held_for_affinity(server_key, client_key) {
            self.end_loan(server_key, client_key);
        }
        false
    }

    /// Ends the loan if the bytes that the client has just sent are the rest of something that its server no longer
    /// waits for, such as the data of a COPY that has failed. Not while more is held, which may be the rest of a
    /// header.
    pub(crate) fn end_loan_after(&mut self, key: ClientKey, server_key: ServerKey) {
        let Some(ready) = self.clients.ready(key) else { return };
        let server = self.servers.get(server_key).filter(|_| ready.held.is_none() && ready.has_loan_of(server_key));
        if server.is_some_and(|server| is_between(&server.session, &ready.session)) {
            self.end_loan_if_over(server_key, key);
        } else {
            self.arm_server(server_key);
        }
    }

    /// Closes a server and its client in session mode if the server is obsolete and stands between two transactions
    /// (`server_fast_close`).
    pub(crate) fn close_obsolete_session(&mut self, key: ServerKey) {
        if !self.hands.active.settings.server_fast_close || !self.pools.is_obsolete(key) {
            return;
        }
        let Some(server) = self.servers.get(key).filter(|server| server.session.exchange.may_end()) else { return };
        let is_session = self.registry.pool(server.pool).is_some_and(|place| place.mode == Mode::Session);
        if let Some(client) = server.client().filter(|_| is_session) {
            let by = self.ender_of(key);
            self.lose_server(key, Closed::Obsolete, CloseReason::ConfigurationChanged.as_str());
            self.fail_client(client, &Fault::ConfigurationChanged { by });
        }
    }

    /// Ends a loan whose server is clean.
    pub(crate) fn end_loan(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let (mut has_held, mut is_traced, mut is_timed) = (false, false, self.registry.has_idle_timeouts());
        if let Some(Client { stage: ClientStage::Ready(ready), answered, tracers, .. }) =
            self.clients.get_mut(client_key)
        {
            ready.link = Link::None;
            ready.comes_home();
            has_held = ready.held.is_some();
            *answered = (*answered).max(server.answered);
            is_traced = *tracers != 0;
            is_timed |= ready.session.overrides.as_ref().is_some_and(|overrides| overrides.acts_at_rest());
        }
        match server.session.ends(|| reset_of(&self.pools, &self.hands.active, server.pool)) {
            Ended::Clean => {
                server.stage = ServerStage::Idle;
                self.unlink_flow(client_key, server_key);
                self.give_back(server_key);
            }
            ended => {
                self.take_back(server_key, ended);
                self.unlink_flow(client_key, server_key);
            }
        }
        if is_traced {
            self.trace_return(client_key, server_key);
        }
        // What the client sent meanwhile begins its next request, if it has read most of its answers.
        if has_held && !self.is_behind(client_key) {
            self.hands.enqueue(Task::ForwardHeld(client_key));
        }
        if is_timed {
            self.arm_client(client_key);
        }
    }
}
