//! A client's first request is sent in one packet with the settings that its server lacks, where that is safe, or
//! without them, where it depends on none.
//!
//! Always true: a request that went along with settings is not run if the server refuses the settings, because the
//! server then skips everything up to the next Sync, and the request has none, or only at its end. What follows a
//! request that was sent without the settings waits until the server has them.
//! Not here: which statements set them (`protocol::state`), when they are sent (`catch_up`), what follows from the
//! answer (`answered`).

use pool::{ClientKey, Mode, ServerKey};
use protocol::loan::Life;
use reactor::Io;

use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a client's request can be sent to a server that lacks the client's settings, since it depends on none of them.
    pub(crate) fn needs_nothing(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(ready) = self.clients.ready(client_key) else { return false };
        let Some(server) = self.servers.get(server_key) else { return false };
        let place = self.registry.pool(server.pool).filter(|place| place.follows && place.mode != Mode::Session);
        // At its end the server would be probed, and the server's settings are not those of the client.
        if self.active.settings.session_verify || place.is_none() || server.dedicated.is_some() {
            return false;
        }
        let function_catalog = &self.registry.databases[server.database as usize].function_catalog;
        let (request, tracked) = (ready.held_in_one_piece(), &self.active.tracked);
        ready.session.needs_nothing(&server.session, request, &mut self.texts, tracked, function_catalog, self.now)
    }

    /// Sends a server a request that depends on none of the client's settings.
    pub(crate) fn lend_unapplied(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        server.lends(client_key, Life::Unapplied);
        if let Some(request) = ready.pop_held() {
            self.forward(client_key, server_key, request);
        }
        self.arm_server(server_key);
    }
}
