//! The server of the listener: which one it gets, and when that is given up.
//!
//! Always true: the listener never waits for a server that is kept by a client only because that client listens.
//! Not here: which client listens to what (`channels`), the listener's queries (`control::listeners`).

use base::Key;
use pool::{ClientKey, Event, ServerKey};
use protocol::state::Kind;
use reactor::{Address, Io};

use crate::data::client::{Client, ClientStage, Link, Ready, has_subscriptions};
use crate::data::server::Server;
use crate::notify::listening::Listening;
use crate::tasks::{ClientClose, Task};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Finds a server for the listener among those that listen for a client already, so that no channel has to be
    /// moved, and a pool that is full of clients waiting for the listener cannot block it. Returns whether there is
    /// one.
    pub(crate) fn find_for_listener(&mut self, listener: ClientKey) -> bool {
        let Some(ready) = self.clients.ready_listener(listener) else { return false };
        // Starts from the servers, because a pool may have a thousand times as many listening clients.
        let pool = ready.pool();
        let lent = self.servers.iter().filter(|(_, server)| server.pool() == pool);
        let lent = lent.filter_map(|(key, server)| Some((key, server.client()?)));
        let listening: Vec<_> = lent.filter(|(_, client)| has_subscriptions(&self.clients, *client)).collect();
        listening.into_iter().any(|(server, client)| self.give_to_listener(server, client))
    }

    /// Gives the listener, if it waits for a server, one that does nothing but listen for this client.
    pub(crate) fn give_to_listener(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        if !self.listens_for_all(server_key, client_key) || !self.may_forward(server_key) {
            return false;
        }
        let Some(server) = self.servers.get(server_key) else { return false };
        let (pool, number) = (server.pool(), server.database());
        let is_at_rest = server.session().exchange.may_end()
            && server.session().exchange.is_proven()
            && server.session().cancels_sent == 0;
        let Some(listener) = self.registry.database_at(number).listening.session else { return false };
        let since = match self.clients.get(listener).map(|client| &client.stage) {
            Some(ClientStage::Ready(ready)) if ready.pool() == pool => match ready.link() {
                Link::Waiting(since) => since,
                _ => return false,
            },
            _ => return false,
        };
        let Some(Client { stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(client_key) else {
            return false;
        };
        let only_listens = ready.session().session_effects.as_ref().is_some_and(|session_effects| {
            !session_effects.is_asked_for() && session_effects.pins().kinds().all(|kind| kind == Kind::Channel)
        });
        if !is_at_rest || !only_listens || ready.session().is_torn() || ready.session().is_collecting() {
            return false;
        }
        let session = ready.session_mut();
        let (Some(session_effects), Some(subscriptions)) = (&mut session.session_effects, &mut session.subscriptions)
        else {
            return false;
        };
        subscriptions.knows_losses(self.registry.database_at(number).listening.losses);
        session_effects.channels().for_each(|channel| subscriptions.listener_listens(channel));
        subscriptions.void_mark();
        subscriptions.move_to_listener();
        let pins = session_effects.leave();
        ready.takes(Link::None);
        *answered = (*answered).max(server.answered());
        self.unlink_flow(client_key, server_key);
        self.tell_pools(Event::Left { pool, client: listener });
        if let Some(ready) = self.clients.ready_mut(listener) {
            ready.takes(Link::Loan(server_key));
            ready.session_mut().session_effects.get_or_insert_default().comes_keeping(pins);
        }
        self.tell_pools(Event::TakeOutsideSize { server: server_key });
        self.catch_up(server_key, listener, since);
        if self.registry.has_idle_timeouts() {
            self.arm_client(client_key);
        }
        self.hands.enqueue(Task::ForwardHeld(client_key));
        true
    }

    /// Limits have changed: where only one server is allowed, a listener would leave none for requests. Clients with a
    /// server of their own keep listening on it; those without one are disconnected, because they would get no
    /// notifications. The listener itself may be away and about to log in.
    pub(crate) fn end_lonely_listening(&mut self) {
        for number in self.registry.database_numbers() {
            let place = self.registry.database_at(number);
            let Listening { session, channels, .. } = &place.listening;
            let mut who = session.iter().chain(channels.values().flat_map(|channel| &channel.clients));
            let pool = who.find_map(|client| self.clients.ready(*client)).map(|ready| ready.pool());
            if pool.is_none_or(|pool| self.may_listen_beside(pool)) {
                continue;
            }
            self.end_listening_for_all(number, "they may have one server only");
            self.renew_listener(number);
        }
    }

    /// The listener's server is to be given up: the listener is closed, and logs in again to get another one.
    pub(crate) fn renew_listener(&mut self, database: u32) {
        let is_its_own = |key: &ClientKey| {
            let place = self.clients.ready_listener(*key).and_then(|ready| self.registry.pool(ready.pool()));
            place.is_some_and(|place| place.database == database)
        };
        let listeners: Vec<ClientKey> = self.clients.iter().map(|(key, _)| key).filter(is_its_own).collect();
        for key in listeners {
            self.part_from_client(key, "the server that listens for all is given up");
        }
    }

    /// A statement needs the database at this address without other sessions: closes a listener on whose channels no
    /// client listens.
    pub(crate) fn end_idle_listener(&mut self, database: u32, address: &Address) {
        let listening = &self.registry.database_at(database).listening;
        let Some(server) = self.server_for_all(database).and_then(|server| self.servers.get(server)) else { return };
        let is_there = server.address() == Some(address);
        if is_there && listening.channels.values().all(|channel| channel.clients.is_empty()) {
            self.renew_listener(database);
        }
    }

    /// A client goes: if it is the listener, nothing waits for it any longer.
    pub(crate) fn listener_goes(&mut self, client: ClientKey) {
        let Some(ready) = self.clients.ready_listener(client) else { return };
        let Some(database) = self.registry.pool(ready.pool()).map(|place| place.database) else { return };
        let listening = &mut self.registry.database_at_mut(database).listening;
        if listening.session.take_if(|session| *session == client).is_some() {
            let everybody = listening.rounds.ends();
            self.hands.enqueue(Task::ReleaseAll { waiters: everybody, has_caught_up: false });
        }
    }

    /// A client goes: its server's withheld messages are sent to it first. Returns whether there are any, and the
    /// client is closed after them.
    pub(crate) fn is_closed_later(&mut self, key: Key, how: impl FnOnce() -> ClientClose) -> bool {
        let Some(ready) = self.clients.ready_mut(key) else { return false };
        let Link::Loan(server) = ready.link() else { return false };
        let keeps = |row: &Server| row.withheld().is_some() || row.keeps_for_later();
        let has_more =
            self.servers.get(server).is_some_and(keeps) || self.notify.backlog.who_tells().any(|who| who == server);
        if has_more && !self.clients.ready_mut(key).is_some_and(Ready::leaves) {
            self.hands.enqueue(Task::Release(server));
            self.hands.enqueue(Task::Close { client: key, how: how() });
        }
        has_more
    }
}
