//! Messages of a listener that wait for a later turn.
//!
//! Always true: they are treated as if they had not been received yet: nothing overtakes them.
//! Not here: how much work a turn does (`backlog`).

use std::collections::VecDeque;

use pool::ServerKey;
use reactor::{Chunk, Io};

use crate::notify::backlog::Broadcast;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a server's new bytes have to wait: it is a listener's server, and earlier work is left.
    pub(crate) fn lines_up(&self, key: ServerKey) -> bool {
        self.notify.backlog.has_left() && self.tells_all(key)
    }

    /// Whether a server's next message may be handled in a later turn, once this turn has done its share.
    pub(crate) fn is_for_later(&self, key: ServerKey) -> bool {
        self.tells_all(key) && self.servers.get(key).is_some_and(|server| server.session().scanner.is_between())
    }

    /// Keeps a server's new bytes behind those already kept.
    pub(crate) fn keep_for_later(&mut self, key: ServerKey, chunk: Chunk) {
        let chunk = self.unpinned(chunk);
        if let Some(later) = self.later_of(key) {
            later.push_back(chunk);
        }
    }

    /// Keeps the rest of a server's bytes, before those already kept.
    pub(crate) fn keep_rest_for_later(&mut self, key: ServerKey, rest: Chunk) {
        let rest = self.unpinned(rest);
        if let Some(later) = self.later_of(key) {
            later.push_front(rest);
        }
    }

    fn later_of(&mut self, key: ServerKey) -> Option<&mut VecDeque<Chunk>> {
        let server = self.servers.get_mut(key)?;
        if server.later().is_none() {
            self.hands.io.pause(server.conn());
            self.notify.backlog.add(Broadcast::HandleKept { server: key });
        }
        Some(server.later().get_or_insert_default())
    }
}
