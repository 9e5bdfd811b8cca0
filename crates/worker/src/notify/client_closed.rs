//! A client goes that may be the listener, or still has withheld messages to get.
//!
//! Always true: nothing waits for a listener that has gone.
//! Not here: how a client is closed (`data::close`).

use base::Key;
use pool::ClientKey;
use reactor::Io;

use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::server::Server;
use crate::tasks::{ClientClose, Task};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client goes: if it is the listener, nothing waits for it any longer.
    pub(crate) fn listener_goes(&mut self, client: ClientKey) {
        let Some(ready) = self.clients.ready_listener(client) else { return };
        let Some(database) = self.registry.pool(ready.pool).map(|place| place.database) else { return };
        let listening = &mut self.registry.databases[database as usize].listening;
        if listening.session.take_if(|session| *session == client).is_some() {
            let everybody = listening.rounds.ends();
            self.enqueue(Task::ReleaseAll { waiters: everybody, has_caught_up: false });
        }
    }

    /// A client goes: its server's withheld messages are sent to it first. Returns whether there are any, and the
    /// client is closed after them.
    pub(crate) fn is_closed_later(&mut self, key: Key, how: impl FnOnce() -> ClientClose) -> bool {
        let Some(Client { stage: ClientStage::Ready(Ready { link: Link::Loan(server), is_leaving, .. }), .. }) =
            self.clients.get_mut(key)
        else {
            return false;
        };
        let server = *server;
        let keeps = |row: &Server| row.withheld.is_some() || row.later.is_some();
        let has_more =
            self.servers.get(server).is_some_and(keeps) || self.notify.backlog.who_tells().any(|who| who == server);
        if has_more && !std::mem::replace(is_leaving, true) {
            self.enqueue(Task::Release(server));
            self.enqueue(Task::Close { client: key, how: how() });
        }
        has_more
    }
}
