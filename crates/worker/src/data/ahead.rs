//! A client's first request goes along with what its server is told first, in one packet, where that is safe, or without that, where it needs nothing.
//!
//! Always true: a request that went along is not run if the server does not take what it is told, for it skips everything up to the
//! next Sync then: there is one in the request, its end, or none. What follows a request before which the server was told nothing waits until
//! the server has been told.
//! Not here: what a server is told (`protocol::state`), when (`catch_up`), what follows from the answer (`answered`).

use pool::{ClientKey, Mode, ServerKey};
use protocol::loan::Life;
use reactor::Io;

use crate::data::client::{Client, Stage};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a client's request can be sent to a server that has other settings, and needs none of the client's.
    pub(crate) fn needs_nothing(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(client_key) else { return false };
        let Some(server) = self.servers.get(server_key) else { return false };
        let place = self.registry.pool(server.pool).filter(|place| place.follows && place.mode != Mode::Session);
        // At its end the server would be asked, and what that has is not what its client is to have.
        if self.active.settings.session_verify || place.is_none() || server.dedicated.is_some() {
            return false;
        }
        let function_catalog = &self.registry.databases[server.database as usize].function_catalog;
        let (said, tracked) = (ready.held_in_one_piece(), &self.active.tracked);
        ready.session.needs_nothing(&server.session, said, &mut self.texts, tracked, function_catalog, self.now)
    }

    /// A server is sent a request that needs nothing of what its client has set.
    pub(crate) fn lend_untold(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        server.lends(client_key, Life::Unapplied);
        if let Some(request) = ready.pop_held() {
            self.forward(client_key, server_key, request);
        }
        self.arm_server(server_key);
    }
}
