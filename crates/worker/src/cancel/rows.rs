//! The rows of clients and servers that a cancel request is about: they are looked up here, once, and passed on as values.
//!
//! Always true: nothing here decides what becomes of a request, or changes a row but for the count of requests under way.
//! Not here: how a request proceeds (`requests`, `peers`); what its end means to a server (`upstream::cleanup`).

use base::Key;
use config::ProxyProtocol;
use pool::ServerKey;
use protocol::cancel::CancelKey;
use reactor::Io;

use crate::cancel::aim::Target;
use crate::cancel::requests::{Meant, Reached};
use crate::cancel::tables::Legacy;
use crate::data::client::{ClientStage, Link};
use crate::data::server::Server;
use crate::letters::{CancelWait, CancelWish};
use crate::observe::tracers::What;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client has sent a cancel request with this key.
    pub(crate) fn route_cancel(&mut self, key: &[u8], requester: Key, waits: CancelWait) {
        if let Some(wish) = self.cancel.route(key, requester, waits, &mut self.hands, &mut self.names) {
            self.cancel(wish);
        }
    }

    /// Cancels what the client of this key runs or waits for.
    pub(crate) fn cancel(&mut self, wish: CancelWish) {
        let Some(CancelWish { key, requester, .. }) = self.cancel.heed(wish, &mut self.hands) else { return };
        let client = self.cancel.client_of(key.name()).filter(|client| self.is_key_of(*client, &key));
        let meant = client.map_or(Meant::Unknown, |client| self.meant_for(client));
        if let Some(client) = client {
            self.trace(client, |_, _| Some(What::Cancelled));
        }
        self.cancel.cancel(meant, requester, &mut self.hands);
    }

    /// Sends a cancel request of our own to this server. Returns whether it is on its way.
    pub(crate) fn cancel_server(&mut self, key: ServerKey) -> bool {
        let target = self.servers.get(key).and_then(|server| Target::of(key, server));
        target.is_some_and(|target| self.cancel.aim(target, None, &mut self.hands))
    }

    /// A server is about to be closed in the middle of a statement, which is cancelled too: its backend would notice the end of the
    /// connection only when it answers.
    pub(crate) fn cancel_last(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key).filter(|server| server.session().exchange.is_at_work()) else {
            return;
        };
        let legacy = Legacy { cancel_key: server.cancel_key().into(), header: self.proxy_protocol_of(server) };
        if let Some(target) = Target::of(key, server) {
            self.cancel.aim_last(target, legacy, &mut self.hands);
        }
    }

    /// The second connection to a server is established.
    pub(crate) fn cancel_connected(&mut self, key: Key) {
        let server = self.cancel.server_of(key).and_then(|server| self.servers.get(server));
        let header = server.map_or(ProxyProtocol::Off, |server| self.proxy_protocol_of(server));
        if self.cancel.connected(key, header, &mut self.hands) {
            self.send_cancel(key);
        }
    }

    /// The second connection to a server is ready.
    pub(crate) fn send_cancel(&mut self, key: Key) {
        let server = self.cancel.server_of(key).and_then(|server| self.servers.get_mut(server));
        self.cancel.send(key, server.map(Reached::of), &mut self.hands);
    }

    /// Whether this is the complete key of the client.
    fn is_key_of(&self, client: Key, key: &CancelKey) -> bool {
        match self.clients.get(client).map(|client| &client.stage) {
            Some(ClientStage::Ready(ready)) => ready.cancel_key() == key,
            Some(ClientStage::Console(console)) => console.cancel_key() == key,
            _ => false,
        }
    }

    /// What a request with the key of this client is meant for.
    fn meant_for(&self, client: Key) -> Meant {
        match self.clients.get(client).map(|client| &client.stage) {
            Some(ClientStage::Ready(ready)) => match ready.link() {
                Link::Loan(key) => match self.servers.get(key) {
                    Some(server) if server.session().exchange.is_running() => Meant::Query(Target::of(key, server)),
                    _ => Meant::Nothing(Some(self.client_prefix(client))),
                },
                Link::Waiting(_) | Link::AsksReplica(_) | Link::Delayed(_) => Meant::Wait(client),
                Link::None => Meant::Nothing(Some(self.client_prefix(client))),
            },
            Some(ClientStage::Console(console)) if console.is_busy() => Meant::Command(client),
            _ => Meant::Nothing(None),
        }
    }
}

impl Target {
    /// The query that a server runs; `None` if it can be sent no cancel request.
    fn of(key: ServerKey, server: &Server) -> Option<Self> {
        let address = server.address().cloned().filter(|_| !server.cancel_key().is_empty())?;
        let demand = server.demand().cloned().filter(|_| server.security().is_some());
        let secret = demand.map(|demand| (demand, server.host().name().clone()));
        Some(Self { server: key, pool: server.pool(), query_number: server.query_number(), address, secret })
    }
}

impl<'a> Reached<'a> {
    fn of(server: &'a mut Server) -> Self {
        let (query_number, is_running) = (server.query_number(), server.session().exchange.is_running());
        let (cancel_key, under_way) = server.key_and_cancels();
        Self { query_number, is_running, cancel_key, under_way }
    }
}
