//! A client leaves its server, whatever the state of the loan.
//!
//! Always true: a server that is not known to be clean is cleaned up first, or closed; it is lent to no client before.
//! Not here: why the client leaves (`close`), what its server needs (`protocol::loan`), how that is done
//! (`upstream::cleanup`).

use measure::Closed;
use pool::{ClientKey, Event, Return, ServerKey};
use protocol::loan::doubt_what_was_read;
use protocol::state::Probe;
use reactor::Io;

use crate::data::client::Link;
use crate::data::server::Server;
use crate::planted::{is_nobody_elses, leave_unsent};
use crate::upstream::cleanup::reset_of;
use crate::upstream::dedicated::CLIENT_GONE_IN_THE_MIDDLE;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Separates a client from its server, whatever the state of the loan.
    pub(crate) fn abandon(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        ready.link = Link::None;
        // A probe that asks nothing needs no answer.
        if server.session.phase.probe().is_some_and(Probe::is_of_nothing) {
            server.session.phase.take_probe();
        }
        server.session.repeatable.forget();
        if is_nobody_elses(server.dedicated.is_some(), server.session.exchange.may_end()) {
            self.leave_dedicated(server_key);
            return;
        }
        doubt_what_was_read(&mut server.session, &mut ready.session);
        if server.session.sequences_until.is_some() {
            self.forget_sequences(server_key, client_key);
        }
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        leave_unsent(&mut ready.held, &mut self.hands.io, server.conn);
        let reset = reset_of(&self.pools, &self.hands.active, server.pool);
        let ended = server.session.is_left(&mut ready.session, reset);
        self.take_back(server_key, ended);
    }

    /// Gives a clean server back to its pool.
    pub(crate) fn give_back(&mut self, server: ServerKey) {
        let fingerprint = self.servers.get(server).map(Server::fingerprint).unwrap_or_default();
        if self.pools.take_back(self.hands.now, server, fingerprint) {
            return;
        }
        self.tell_pools(Event::Returned { server, as_: Return::Clean, fingerprint });
    }

    /// Closes a dedicated server whose client has gone: no other client could use it.
    pub(crate) fn leave_dedicated(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let is_at_rest = server.session.exchange.may_end();
        let why = if is_at_rest { "replication client was closed" } else { CLIENT_GONE_IN_THE_MIDDLE };
        self.lose_server(key, Closed::Dirty, why);
    }

    /// Values of sequences that a client has drawn here are no longer a reason to keep the server.
    pub(crate) fn forget_sequences(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        if let Some(statement) =
            ready.session.session_effects.as_mut().and_then(|session_effects| session_effects.lets_go_of_sequences())
        {
            self.registry.database_at_mut(server.database).function_catalog.numbers.in_vain(&statement);
        }
    }
}
