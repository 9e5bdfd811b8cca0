//! LISTEN without a server: a client that listens only to channels to which the listener listens already.
//!
//! Always true: such a client gets every notification that is committed after its LISTEN was answered, and none that
//! was committed before it sent LISTEN. If anything prevents this, the client gets a server as usual.
//! Not here: how channels come to the listener (`listen`), other waits for the listener (`own_news`), how the wait ends
//! (`complete_listen`).
//!
//! The listener reports what was committed before it was asked ahead of its answer ([`protocol::state::Rounds`]): the
//! client gets none of the notifications before that answer, and all those after it.

use pool::ClientKey;
use reactor::Io;
use wire::frame::HEADER_BYTES;
use wire::frontend;

use crate::notify::listening::{ListenWait, PATIENCE, Waiter};
use crate::planted::has_caught_up_already;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Returns whether the first message of a client without a server, of this length, only listens to channels
    /// to which the listener listens already. Then the client waits for the listener's answer.
    pub(crate) fn begin_listen_wait(&mut self, key: ClientKey, length: u32) -> bool {
        let Some(ready) = self.clients.ready(key) else { return false };
        let Some(place) = self.registry.pool(ready.pool) else { return false };
        let database = place.database as usize;
        // Databases without a listener end here.
        if self.registry.databases[database].listening.session.is_none() || !place.follows {
            return false;
        }
        let is_known =
            ready.session.session_effects.as_ref().is_none_or(|session_effects| !session_effects.unlistens.is_any());
        let first = ready
            .held
            .as_ref()
            .filter(|_| ready.session.scanner.torn_header().is_empty() && is_known)
            .and_then(|held| held.first());
        let message = first.and_then(|bytes| bytes.get(..1 + length as usize));
        let Some((&frontend::QUERY, message)) = message.and_then(<[u8]>::split_first) else { return false };
        let Some((0, text)) = message.get(HEADER_BYTES - 1..).and_then(<[u8]>::split_last) else { return false };
        let (pool, may_ask) = (ready.pool, !self.admin.is_resting() && !self.admin.is_going_down());
        let dialect = self.texts.dialect(&ready.session.vars, &self.active.tracked);
        let Some(listens) = route::listens(text, dialect).filter(|_| may_ask) else { return false };
        let listening = &self.registry.databases[database].listening;
        if !listens.channels.iter().all(|channel| listening.is_heard(channel))
            || self.server_for_all(database as u32).is_none()
            || !self.may_listen_through_all(pool, key, listens.channels.iter().map(|channel| &**channel))
        {
            return false;
        }
        let listening = &mut self.registry.databases[database].listening;
        let number = listening.waits + 1;
        if !listening.rounds.comes(Waiter::Client(key, number)) {
            return false;
        }
        listening.waits = number;
        let until = self.now + PATIENCE;
        if let Some(ready) = self.clients.ready_mut(key) {
            ready.listen_wait =
                Some(Box::new(ListenWait { number, until, channels: listens.channels, tags: listens.tags }));
        }
        if has_caught_up_already() {
            self.enqueue(Task::ReleaseAll { waiters: vec![Waiter::Client(key, number)], has_caught_up: true });
            return true;
        }
        self.ask_listener(database as u32);
        self.arm_client(key);
        true
    }
}
