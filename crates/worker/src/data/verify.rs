//! Compares what is known of a session with what its server reports, where that is wanted (`session_verify`).
//!
//! Always true: what differs is counted and logged by name, never by value.
//! Not here: the comparison (`protocol::state::Seen::verdict`), what is known without asking (`probe`, `lock_calls`).

use pool::{ClientKey, ServerKey};
use reactor::{Io, Level};

use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Has a server probed at the end of a transaction that has touched nothing, if `session_verify` is on; returns
    /// whether it is to be.
    pub(crate) fn verify_untouched(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        if !self.active.settings.session_verify {
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
