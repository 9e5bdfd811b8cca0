//! What a session keeps, where session state follows clients (`session_state`): servers are probed, and the answers acted upon.
//!
//! Always true: a loan in which session state may have been touched ends only when the server has reported it and all of it is
//! known to follow; otherwise the client keeps the server, which is cleaned up or closed when the client leaves. No probe is sent
//! while a cancel request is on its way, which would hit the probe, nor to a server whose answers can no longer be told apart.
//! What differs from what was known (`session_verify`) is counted and logged by name, never by value.
//! Not here: what is asked and what the answer means (`protocol::state`), how the answer is handled (`answered`), what clients may
//! keep (`limits::pins`).

use base::Time;
use measure::Closed;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use protocol::loan::{LoanPhase, Terms, Unlendable, apply_effects};
use protocol::state::Probe;
use protocol::vars::Vars;
use reactor::{Io, Level};
use route::{Knowledge, Unread};
use wire::{frontend, write};

use crate::data::client::ClientStage;
use crate::letters::ActiveConfig;
use crate::registry::PoolPlace;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A loan could end, but its client may have something on the server: that is known, or the server is probed.
    /// Returns whether it is known that the client has nothing there: then the loan may be over.
    pub(crate) fn keep_or_probe(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        if self.settle_lock(server_key, client_key) {
            self.tell_of_pins(server_key, client_key);
            if let Some(fault) = self.refuses_pins(server_key, client_key) {
                self.fail_client(client_key, &fault);
                return false;
            }
            return self.is_over_or_kept(server_key, client_key);
        }
        if self.apply_effects(server_key, client_key) {
            return self.is_over_or_kept(server_key, client_key);
        }
        let ready = self.clients.ready(client_key);
        let is_known = ready.is_some_and(|ready| ready.session.session_effects.is_some() && !ready.is_asked_for());
        if !is_known || !self.move_channels(server_key, client_key) {
            self.probe_session(server_key, client_key, false);
        }
        false
    }

    /// Applies the certain effects of the client's statements to its session. Returns false if the statements may have
    /// done anything else.
    fn apply_effects(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(server) = self.servers.get_mut(server_key) else { return false };
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        let place = self.registry.pool(server.pool).filter(|place| place.follows);
        let Some(terms) = place.map(|place| terms(place, &self.hands.active, self.hands.now)) else { return false };
        let Some(reset) = apply_effects(&mut server.session, &mut ready.session, terms) else { return false };
        if let Some(vars) = reset {
            self.go_back(client_key, vars);
        }
        true
    }

    /// It is known what a client has on its server: returns whether that is nothing, or keeps the server for the client.
    fn is_over_or_kept(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        if !ready.has_pins() {
            return true;
        }
        if !self.move_channels(server_key, client_key) {
            self.arm_server(server_key);
            self.catch_up(server_key, client_key, self.hands.now);
        }
        false
    }

    /// A client has reset parameters that PostgreSQL reports: they go back to the client's startup values, not to those
    /// of the server.
    pub(crate) fn go_back(&mut self, key: ClientKey, vars: Vars) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let ClientStage::Ready(ready) = &mut client.stage else { return };
        let out = ready.session.becomes(vars, &self.hands.active.tracked, &mut self.known_vars);
        self.hands.io.send(client.conn, out.into());
        if self.tracers.is_any() {
            self.find_tracers(key);
        }
    }

    /// The probe for what the session has touched.
    pub(crate) fn question_of(&self, server_key: ServerKey, client_key: ClientKey) -> Option<Probe> {
        let server = self.servers.get(server_key)?;
        let client = self.clients.get(client_key)?;
        let ready = client.ready()?;
        let terms = terms(self.registry.pool(server.pool)?, &self.hands.active, self.hands.now);
        ready.session.question(client.since, terms, &self.registry.database_at(server.database).function_catalog)
    }

    /// Sends a probe to a server.
    pub(crate) fn ask(&mut self, server_key: ServerKey, probe: Probe) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let mut out = Vec::new();
        // A Sync would not tell its answer from that of a stray one.
        if probe.is_of_nothing() && server.session.exchange.is_proven() {
            write::bare(&mut out, frontend::SYNC);
        } else {
            write::query(&mut out, &probe.question());
        }
        let probes = &mut self.registry.database_at_mut(server.database).probes;
        probes.iter_mut().zip(probe.asks_for()).for_each(|(count, is_asked)| *count += u64::from(is_asked));
        server.session.exchange.asks_ours();
        server.session.creations_asked = self.registry.database_at(server.database).function_catalog.creations();
        server.session.phase.becomes(LoanPhase::Probing(Box::new(probe)));
        server.request_time = self.hands.now;
        self.hands.io.send(server.conn, out.into());
    }

    pub(crate) fn learn(&mut self, server: ServerKey, knowledge: Option<Knowledge>) {
        let (Some(row), Some(knowledge)) = (self.servers.get(server), knowledge) else { return };
        let (place, scopes) = self.registry.database_and_scopes(row.database);
        *scopes += 1;
        let what = match place.function_catalog.learn(knowledge, row.session.creations_asked, self.hands.now, *scopes) {
            None | Some(Unread::Nothing) => return,
            Some(Unread::Some) => "functions with longer texts than are read: these may do anything",
            Some(Unread::All) => "more functions than are read: any statement may do anything",
        };
        self.log_server(server, Level::Warning, format_args!("database has {what}"));
    }

    /// Probes a server if that is needed; `unlistens` has the server leave its channels at once.
    pub(crate) fn probe_session(&mut self, server_key: ServerKey, client_key: ClientKey, unlistens: bool) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        if !self.registry.pool(server.pool).is_some_and(|place| place.follows) {
            // The setting has changed. The server is closed when it is given back.
            ready.session.session_effects = None;
            self.end_loan(server_key, client_key);
            return;
        }
        // A cancel request that is still on its way would hit the probe.
        if server.session.cancels_sent > 0 || !ready.is_asked_for() {
            self.arm_server(server_key);
            return;
        }
        if server.session.exchange.is_beyond_proof() {
            // It cannot be told any more which answer belongs to what, so a probe would prove nothing.
            self.lose_server(server_key, Closed::Dirty, Unlendable::Unproven.words());
            self.fail_client(client_key, &Fault::StateLost);
            return;
        }
        if let Some(mut probe) = self.question_of(server_key, client_key) {
            if unlistens {
                probe.unlisten();
            }
            self.ask(server_key, probe);
        }
        self.arm_server(server_key);
    }

    /// Has a server probed at the end of a transaction that has touched nothing, if `session_verify` is on; returns
    /// whether it is to be.
    pub(crate) fn verify_untouched(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        if !self.hands.active.settings.session_verify {
            return false;
        }
        let Some(server) = self.servers.get(server_key) else { return false };
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        let follows = self.registry.pool(server.pool).is_some_and(|place| place.follows);
        if server.session.is_verified || !follows {
            return false;
        }
        let known = server.session.overrides.as_deref().cloned().unwrap_or_default();
        ready.session.session_effects.get_or_insert_default().verify(known);
        true
    }

    /// Counts and logs, without any value, that a server has reported something else than was known.
    pub(crate) fn tell_of_mistake(&mut self, server_key: ServerKey, client_key: ClientKey, what: &str) {
        self.verified.mistaken += 1;
        let server = self.server_prefix(server_key).to_string();
        let server = server.trim_end();
        let text = format_args!("session differs from what was known of it: {what} (session_verify), server {server}");
        self.log_client(client_key, Level::Error, text);
    }
}

/// The rules by which session state follows the clients of a pool.
pub(crate) fn terms<'a>(place: &'a PoolPlace, active: &'a ActiveConfig, now: Time) -> Terms<'a> {
    Terms {
        now,
        tracked: &active.tracked,
        login: &place.user_name,
        server_user: place.user,
        rules: &place.pin_rules,
        verifies: active.settings.session_verify,
    }
}
