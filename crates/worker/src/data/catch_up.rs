//! Applies the settings of a client to its server. The client's first request is sent in one packet with the settings
//! where that is safe, or without them, where it depends on none.
//!
//! Always true: a client's request reaches a server that has all settings that the request needs, or that nothing has
//! changed; what follows is returned as a value. A request that went along with settings is not run if the server
//! refuses the settings, because the server then skips everything up to the next Sync, and the request has none, or
//! only at its end. What follows a request that was sent without the settings waits until the server has them.
//! Not here: which statements the server is sent (`protocol::state`), what follows from the answer (`answered`).

use std::rc::Rc;

use base::Time;
use measure::Phase;
use pool::{ClientKey, Mode, ServerKey};
use protocol::loan::{Differences, LoanPhase, StateMessages};
use protocol::vars::Vars;
use reactor::{Io, Level};

use crate::data::accepted::hash;
use crate::data::client::{Client, ClientStage};
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Sends a server the settings of its client that differ, and then the client's request: in the same packet, if that is safe.
    pub(crate) fn catch_up(&mut self, server_key: ServerKey, client_key: ClientKey, since: Time) {
        if self.catches_up(server_key, client_key, since) {
            self.hands.enqueue(Task::ForwardHeld(client_key));
        }
    }

    /// Sends a server the settings of its client that differ, with the client's request in the same packet, if that is
    /// safe. Returns whether nothing had to be sent, so that the client's held bytes may be forwarded now.
    pub(crate) fn catches_up(&mut self, server_key: ServerKey, client_key: ClientKey, since: Time) -> bool {
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        let Some(server) = self.servers.get_mut(server_key) else { return false };
        if server.session.phase.probe().is_some() {
            // A probe was sent meanwhile; the settings are sent after its answer.
            return false;
        }
        server.request_time = self.hands.now;
        let function_catalog = &self.registry.database_at(server.database).function_catalog;
        let is_same = Rc::ptr_eq(&server.session.vars, &ready.session.vars);
        let follows = is_same || self.registry.pool(server.pool).is_some_and(|place| place.follows);
        let differences =
            Differences::of(&server.session, &ready.session, &self.hands.active.tracked, follows, function_catalog);
        if differences.are_none() {
            server.session.applies_nothing(&ready.session);
            server.lends(client_key, LoanPhase::Running);
            return true;
        }
        if differences.are_of_settings_only() && self.needs_nothing(server_key, client_key) {
            self.lend_unapplied(server_key, client_key);
            return false;
        }
        let are_accepted = (differences.settings || differences.parameters) && self.are_parameters_accepted(client_key);
        let Some(Client { stage: ClientStage::Ready(ready), tracers, .. }) = self.clients.get_mut(client_key) else {
            return false;
        };
        let is_traced = *tracers != 0;
        let Some(server) = self.servers.get_mut(server_key) else { return false };
        if differences.settings
            && let Some(place) = self.registry.pool(server.pool)
        {
            let (theirs, ours) = (server.session.overrides.as_deref(), ready.session.overrides.as_deref());
            server.resetting = place.accepted_parameters.unknown_resets(theirs, ours);
        }
        let may_go_along =
            are_accepted && server.resetting.is_empty() && ready.session.says_one_request(ready.held_in_one_piece());
        let StateMessages { out, is_along, texts } =
            server.session.apply(&ready.session, client_key, differences, may_go_along, &self.hands.active.tracked);
        if out.is_empty() {
            server.lends(client_key, LoanPhase::Running);
            return true;
        }
        server.lends(client_key, if is_along { LoanPhase::ApplyingAlong } else { LoanPhase::ApplyingBefore(since) });
        ready.meter.division.go_on(self.hands.now, Phase::Waiting, Phase::Settings);
        self.hands.io.send(server.conn, out.into());
        let along = if is_along { ready.pop_held() } else { None };
        if self.hands.active.settings.verbose > 0 {
            let line = self.server_prefix(server_key);
            for sql in &texts {
                self.hands.log.about(&line, Level::Debug, format_args!("varcache_apply: {sql}"));
            }
        }
        if is_traced {
            self.trace_settings(client_key, texts);
        }
        if let Some(along) = along {
            self.forward(client_key, server_key, along);
        }
        self.arm_server(server_key);
        false
    }

    /// Whether a client's request can be sent to a server that lacks the client's settings, since it depends on none of them.
    fn needs_nothing(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(ready) = self.clients.ready(client_key) else { return false };
        let Some(server) = self.servers.get(server_key) else { return false };
        let place = self.registry.pool(server.pool).filter(|place| place.follows && place.mode != Mode::Session);
        // At its end the server would be probed, and the server's settings are not those of the client.
        if self.hands.active.settings.session_verify || place.is_none() || server.dedicated.is_some() {
            return false;
        }
        let function_catalog = &self.registry.database_at(server.database).function_catalog;
        let (request, tracked) = (ready.held_in_one_piece(), &self.hands.active.tracked);
        ready.session.needs_nothing(
            &server.session,
            request,
            &mut self.texts,
            tracked,
            function_catalog,
            self.hands.now,
        )
    }

    /// Sends a server a request that depends on none of the client's settings.
    fn lend_unapplied(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        server.lends(client_key, LoanPhase::Unapplied);
        if let Some(request) = ready.pop_held() {
            self.forward(client_key, server_key, request);
        }
        self.arm_server(server_key);
    }

    /// Whether a server of the pool has accepted the startup parameters of this client, or the same ones of another client.
    pub(crate) fn are_parameters_accepted(&mut self, key: ClientKey) -> bool {
        let Some(ready) = self.clients.ready_mut(key) else { return false };
        let Some(place) = self.registry.pool_mut(ready.pool) else { return false };
        let is_latest = |latest: &Rc<Vars>| {
            Rc::ptr_eq(latest, &ready.session.initial_vars) && ready.session.initial_overrides.is_none()
        };
        if !ready.are_parameters_accepted && place.accepted_parameters.latest.as_ref().is_some_and(is_latest) {
            ready.are_parameters_accepted = true;
        } else if !ready.are_parameters_accepted
            && place.accepted_parameters.has(hash(ready, &self.hands.active.tracked))
        {
            ready.are_parameters_accepted = true;
            place.accepted_parameters.latest =
                ready.session.initial_overrides.is_none().then(|| ready.session.initial_vars.clone());
        }
        ready.are_parameters_accepted
    }

    /// A server has accepted the startup parameters of this client.
    pub(crate) fn startup_parameters_accepted(&mut self, key: ClientKey) {
        let Some(ready) = self.clients.ready_mut(key) else { return };
        if !std::mem::replace(&mut ready.are_parameters_accepted, true) {
            let hash = hash(ready, &self.hands.active.tracked);
            if let Some(place) = self.registry.pool_mut(ready.pool) {
                place.accepted_parameters.add(hash);
            }
        }
    }
}
