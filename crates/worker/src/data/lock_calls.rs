//! Statements that only take or release an advisory lock: the row of their answer tells whether they did, so that no
//! probe is needed.
//!
//! Always true: a row is read as that answer only if the statement was sent to a server that owed nothing before it.
//! Not here: which statements these are (`route`), how often a lock is held (`protocol::state`), locks without a known
//! holder (`admin::stranded_locks`).

use pool::{ClientKey, ServerKey};
use protocol::state::SessionEffects;
use reactor::Io;

use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client has sent one statement to a server that owed nothing: returns whether its answer will tell all about its lock.
    pub(crate) fn awaits_lock_row(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let is_awaited = self.session_effects_of(client_key).is_some_and(SessionEffects::awaits_lock_row);
        if is_awaited && let Some(server) = self.servers.get_mut(server_key) {
            server.session.tells_lock = true;
        }
        is_awaited
    }

    /// Notes the locks of a client from that answer. Returns false if the server has to be probed, also if only to
    /// compare (`session_verify`).
    pub(crate) fn settle_lock(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(server) = self.servers.get(server_key) else { return false };
        if !self.registry.pool(server.pool).is_some_and(|place| place.follows) {
            return false;
        }
        let is_verified = self.hands.active.settings.session_verify;
        let known = is_verified.then(|| server.session.overrides.as_deref().cloned().unwrap_or_default());
        let now = self.hands.now;
        let Some(session_effects) =
            self.session_effects_of(client_key).filter(|session_effects| session_effects.is_asked_for())
        else {
            return false;
        };
        if !session_effects.settle_lock(now) {
            return false;
        }
        if let Some(known) = known.filter(|_| session_effects.pins().is_empty()) {
            session_effects.verify(known);
            return false;
        }
        true
    }

    fn session_effects_of(&mut self, client: ClientKey) -> Option<&mut SessionEffects> {
        self.clients.ready_mut(client)?.session.session_effects.as_deref_mut()
    }
}
