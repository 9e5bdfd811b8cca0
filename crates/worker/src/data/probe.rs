//! What a session keeps, where session state follows clients (`session_state`): servers are probed, and the answers acted upon.
//!
//! Always true: a loan in which session state may have been touched ends only when the server has reported it and all
//! of it is known to follow; otherwise the client keeps the server, which is cleaned up or closed when the client
//! leaves.
//! Not here: how a server is asked (`question`), how its answer is handled (`answered`), what clients may keep (`limits::pins`).

use pool::{ClientKey, ServerKey};
use protocol::loan::apply_effects;
use protocol::vars::Vars;
use reactor::Io;

use crate::data::client::ClientStage;
use crate::data::question::terms;
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
        let Some(terms) = place.map(|place| terms(place, &self.active, self.now)) else { return false };
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
            self.catch_up(server_key, client_key, self.now);
        }
        false
    }

    /// A client has reset parameters that PostgreSQL reports: they go back to the client's startup values, not to those
    /// of the server.
    pub(crate) fn go_back(&mut self, key: ClientKey, vars: Vars) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let ClientStage::Ready(ready) = &mut client.stage else { return };
        let out = ready.session.becomes(vars, &self.active.tracked, &mut self.known_vars);
        self.io.send(client.conn, out.into());
        if self.tracers.is_any() {
            self.find_tracers(key);
        }
    }
}
