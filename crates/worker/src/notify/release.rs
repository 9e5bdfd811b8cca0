//! Sends clients the messages that were withheld from them.
//!
//! Always true: they are handled as if they arrived now, in the order in which they arrived.
//! Not here: what is withheld, and why (`own_news`).

use pool::{ClientKey, ServerKey};
use reactor::{Chunk, Io, Receive};
use wire::backend::TxStatus;
use wire::write;

use crate::data::server::Server;
use crate::notify::listening::{Waiter, Withheld};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Sends a client what is withheld from it.
    pub(crate) fn release(&mut self, key: ServerKey) {
        self.end_later(key);
        let Some(server) = self.servers.get_mut(key) else { return };
        let Some(Withheld { mut following, is_paused, .. }) = server.withheld.take().map(|withheld| *withheld) else {
            return;
        };
        if is_paused && !server.is_paused {
            self.io.receive(server.conn, Receive::Stream);
        }
        let mut ready = Vec::new();
        write::ready_for_query(&mut ready, TxStatus::Idle);
        server.is_released = true;
        self.converse(key, Chunk::Own(ready.into()), 0);
        if let Some(server) = self.servers.get_mut(key) {
            server.is_released = false;
        }
        while let Some(chunk) = following.pop_front() {
            match self.servers.get_mut(key) {
                // The chunk before this one ended another transaction that may have notified.
                Some(Server { withheld: Some(withheld), .. }) => withheld.following.push_back(chunk),
                Some(_) => self.converse(key, chunk, 0),
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
                    let withheld = self.servers.get(key).and_then(|server| server.withheld.as_ref());
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
        let withheld = self.servers.iter().filter(|(_, server)| server.withheld.is_some() || server.later.is_some());
        let keys: Vec<ServerKey> = withheld.map(|(key, _)| key).chain(self.notify.backlog.who_tells()).collect();
        keys.into_iter().for_each(|key| self.release(key));
        for key in self.clients.keys() {
            if self.clients.ready(key).is_some_and(|ready| ready.listen_wait.is_some()) {
                self.end_listen_wait(key, None, false);
            }
        }
    }

    /// Passes on all messages that are kept of a server: it has ended, its client goes, or the worker is being suspended.
    pub(crate) fn end_later(&mut self, key: ServerKey) {
        while let Some(at) = self.notify.backlog.telling.iter().position(|telling| telling.server == key) {
            let Some(telling) = self.notify.backlog.telling.remove(at) else { break };
            self.go_on_telling_all(telling, usize::MAX);
        }
        let Some(later) = self.servers.get_mut(key).and_then(|server| server.later.take()) else { return };
        for chunk in later {
            let Some(server) = self.servers.get_mut(key) else { return };
            let was_released = std::mem::replace(&mut server.is_released, true);
            self.converse(key, chunk, 0);
            if let Some(server) = self.servers.get_mut(key) {
                server.is_released = was_released;
            }
        }
        self.receive_next(key);
    }

    /// A server's client has waited long enough for the listener: nothing waits for it any longer, until it answers.
    pub(crate) fn end_waiting_for_listener(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        let everybody = self.registry.databases[server.database as usize].listening.rounds.give_up();
        self.release_all(everybody, false);
        self.release(key);
    }

    /// The listener has not answered a client in time: nothing waits for it any longer, until it answers.
    pub(crate) fn join_too_late(&mut self, key: ClientKey) {
        let Some(ready) = self.clients.ready(key) else { return };
        let Some(database) = self.registry.pool(ready.pool).map(|place| place.database) else { return };
        let everybody = self.registry.databases[database as usize].listening.rounds.give_up();
        self.release_all(everybody, false);
        self.end_listen_wait(key, None, false);
    }
}
