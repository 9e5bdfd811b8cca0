//! A client that listens gets its own notifications before the `ReadyForQuery` that ends their transaction, as from
//! PostgreSQL.
//!
//! Always true: a `ReadyForQuery` is withheld only from a client that listens through the listener and whose transaction may
//! have notified, and no longer than [`PATIENCE`]; the server's messages behind it stay behind it, and are handled, when they are
//! released, as if they arrived now.
//! Not here: which texts may notify (crate `route`), which wait belongs to which answer (`protocol::state::Rounds`).
//!
//! Before a server sends `ReadyForQuery` it has signalled all listening backends (`SignalBackends` in PostgreSQL's
//! `commands/async.c`). So a listener that is queried after that sends what was committed ahead of its answer.

use pool::{ClientKey, ServerKey};
use protocol::state::Probe;
use reactor::{Chunk, Io, Receive};
use wire::backend::TxStatus;
use wire::write;

use crate::data::server::{Server, ServerStage};
use crate::notify::listening::{PATIENCE, Waiter, Withheld};
use crate::planted::are_news_awaited;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a server's `ReadyForQuery` outside of transactions has to wait for the listener.
    pub(crate) fn withholds(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        // Databases without a listener end here.
        let listening = &self.registry.database_at(server.database()).listening;
        // A late listener is not waited for, so the message would be released at once; the answers behind it would
        // recurse within that release.
        if listening.session.is_none() || listening.rounds.are_late() {
            return false;
        }
        let ready = server.client().and_then(|client| self.clients.ready(client));
        let subscriptions = ready.and_then(|ready| ready.session().subscriptions.as_ref());
        are_news_awaited(
            subscriptions.is_some_and(|subscriptions| subscriptions.awaits_own_news())
                && !server.is_released()
                && !self.admin.is_resting()
                && self.server_for_all(server.database()).is_some(),
        )
    }

    /// Withholds a server's `ReadyForQuery`, which ends at `end` in this chunk, and what follows it. What precedes it
    /// was already sent to the client.
    pub(crate) fn withhold(&mut self, key: ServerKey, chunk: &Chunk, end: usize) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let database = server.database();
        let listening = &mut self.registry.database_at_mut(database).listening;
        listening.waits += 1;
        let (number, until) = (listening.waits, self.hands.now + PATIENCE);
        let is_awaited = listening.rounds.comes(Waiter::Server(key, number));
        let following = (end < chunk.len()).then(|| chunk.part(end..chunk.len())).into_iter().collect();
        server.withholds(Withheld { number, until, following, is_paused: false });
        // Notifications that have arrived are sent now, later ones as they arrive.
        if let Some(client) = self.servers.get(key).and_then(Server::client) {
            self.tell_news(client);
        }
        if is_awaited {
            self.ask_listener(database);
            self.arm_server(key);
        } else {
            self.hands.enqueue(Task::Release(key));
        }
    }

    /// A server has sent more while its `ReadyForQuery` is withheld.
    pub(crate) fn withhold_more(&mut self, key: ServerKey, chunk: Chunk) {
        let chunk = self.unpinned(chunk);
        let Some(server) = self.servers.get_mut(key) else { return };
        let Some(withheld) = server.withheld_mut() else { return };
        withheld.following.push_back(chunk);
        if !std::mem::replace(&mut withheld.is_paused, true) {
            self.hands.io.pause(server.conn());
        }
    }

    /// Sends the listener a Sync if anything waits for its answer and its server is free.
    pub(crate) fn ask_listener(&mut self, database: u32) {
        if !self.registry.database_at(database).listening.rounds.wants_question() {
            return;
        }
        let Some(server_key) = self.server_for_all(database) else { return };
        let Some(server) = self.servers.get(server_key) else { return };
        let is_free = server.session().phase.is_running()
            && server.session().cancels_sent == 0
            && server.session().exchange.is_proven();
        let listener = server.client().and_then(|client| self.clients.ready(client));
        let is_torn = listener.is_none_or(|ready| ready.session().is_torn() || ready.session().is_collecting());
        let is_at_rest = server.session().exchange.may_end() && matches!(server.stage(), ServerStage::Lent { .. });
        if is_free && is_at_rest && !is_torn {
            self.registry.database_at_mut(database).listening.rounds.asks();
            self.ask(server_key, Probe::of_nothing());
        }
    }

    /// The listener has answered: all notifications committed before the question have arrived.
    pub(crate) fn listener_has_caught_up(&mut self, server_key: ServerKey, listener: ClientKey) {
        let Some(database) = self.servers.get(server_key).map(|server| server.database()) else { return };
        let level = self.registry.database_at_mut(database).listening.rounds.answered();
        self.hands.enqueue(Task::ReleaseAll { waiters: level, has_caught_up: true });
        self.catch_up(server_key, listener, self.hands.now);
    }

    /// A client has been answered: if it is the listener, a question that had to wait may be sent now.
    pub(crate) fn ask_again(&mut self, client: ClientKey) {
        let Some(ready) = self.clients.ready_listener(client) else { return };
        let Some(database) = self.registry.pool(ready.home()).map(|place| place.database) else { return };
        self.registry.database_at_mut(database).listening.rounds.answers_other();
        self.ask_listener(database);
    }

    /// A client's server has sent `ReadyForQuery`: updates which channels were left, and whether the client may have
    /// notified since.
    pub(crate) fn end_own_news(&mut self, key: ServerKey, client: ClientKey) {
        let Some(exchange) = self.servers.get(key).map(|server| &server.session().exchange) else { return };
        let Some(ready) = self.clients.ready_mut(client) else { return };
        if let Some(session_effects) = &mut ready.session_mut().session_effects {
            session_effects.unlistens.is_ready(exchange.status() == TxStatus::Idle, exchange.owes_client_nothing());
        }
        if exchange.may_end()
            && !ready.session().is_torn()
            && !ready.session().is_collecting()
            && let Some(subscriptions) = &mut ready.session_mut().subscriptions
        {
            subscriptions.transaction_ends();
        }
    }

    /// Sends a client what is withheld from it.
    pub(crate) fn release(&mut self, key: ServerKey) {
        self.end_later(key);
        let Some(server) = self.servers.get_mut(key) else { return };
        let Some(Withheld { mut following, is_paused, .. }) = server.take_withheld() else {
            return;
        };
        if is_paused && !server.is_paused() {
            self.hands.io.receive(server.conn(), Receive::Stream);
        }
        let mut ready = Vec::new();
        write::ready_for_query(&mut ready, TxStatus::Idle);
        server.releases(true);
        self.converse(key, Chunk::Own(ready.into()));
        if let Some(server) = self.servers.get_mut(key) {
            server.releases(false);
        }
        while let Some(chunk) = following.pop_front() {
            match self.servers.get_mut(key) {
                // The chunk before this one ended another transaction that may have notified.
                Some(server) => match server.withheld_mut() {
                    Some(withheld) => withheld.following.push_back(chunk),
                    None => self.converse(key, chunk),
                },
                None => return,
            }
        }
        self.hear_again(key);
    }

    /// Ends these waits, because the listener has caught up (`has_caught_up`) or nothing waits for it any more.
    pub(crate) fn release_all(&mut self, waiters: Vec<Waiter>, has_caught_up: bool) {
        for waiter in waiters {
            match waiter {
                Waiter::Server(key, number) => {
                    let withheld = self.servers.get(key).and_then(|server| server.withheld());
                    if withheld.is_some_and(|withheld| withheld.number == number) {
                        self.release(key);
                    }
                }
                Waiter::Client(key, number) => self.end_listen_wait(key, Some(number), has_caught_up),
            }
        }
    }

    /// The worker is being suspended: nothing is withheld any longer.
    pub(crate) fn release_everybody(&mut self) {
        let withheld =
            self.servers.iter().filter(|(_, server)| server.withheld().is_some() || server.keeps_for_later());
        let keys: Vec<ServerKey> = withheld.map(|(key, _)| key).chain(self.notify.backlog.who_tells()).collect();
        keys.into_iter().for_each(|key| self.release(key));
        for key in self.clients.keys() {
            if self.clients.ready(key).is_some_and(|ready| ready.listen_wait().is_some()) {
                self.end_listen_wait(key, None, false);
            }
            self.give_withheld(key);
        }
    }

    /// Passes on all messages that are kept of a server: it has ended, its client goes, or the worker is being suspended.
    pub(crate) fn end_later(&mut self, key: ServerKey) {
        while let Some(at) = self.notify.backlog.telling.iter().position(|telling| telling.server == key) {
            let Some(telling) = self.notify.backlog.telling.remove(at) else { break };
            self.go_on_telling_all(telling, usize::MAX);
        }
        let Some(later) = self.servers.get_mut(key).and_then(|server| server.later().take()) else { return };
        for chunk in later {
            let Some(server) = self.servers.get_mut(key) else { return };
            let was_released = server.releases(true);
            self.converse(key, chunk);
            if let Some(server) = self.servers.get_mut(key) {
                server.releases(was_released);
            }
        }
        self.receive_next(key);
    }

    /// A server's client has waited long enough for the listener: nothing waits for it any longer, until it answers.
    pub(crate) fn end_waiting_for_listener(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        let everybody = self.registry.database_at_mut(server.database()).listening.rounds.give_up();
        self.release_all(everybody, false);
        self.release(key);
    }

    /// The listener has not answered a client in time: nothing waits for it any longer, until it answers.
    pub(crate) fn join_too_late(&mut self, key: ClientKey) {
        let Some(ready) = self.clients.ready(key) else { return };
        let Some(database) = self.registry.pool(ready.home()).map(|place| place.database) else { return };
        let everybody = self.registry.database_at_mut(database).listening.rounds.give_up();
        self.release_all(everybody, false);
        self.end_listen_wait(key, None, false);
    }
}
