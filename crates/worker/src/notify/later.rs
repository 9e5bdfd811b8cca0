//! What a session for all has told waits for another turn.
//!
//! Always true: it is as if that had not been received yet: nothing overtakes it.
//! Not here: how much a turn does (`backlog`).

use std::collections::VecDeque;

use pool::ServerKey;
use reactor::{Chunk, Io};

use crate::notify::backlog::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a server has to wait with what has come: it tells many, and something is to be done before.
    pub(crate) fn lines_up(&self, key: ServerKey) -> bool {
        self.notify.backlog.has_left() && self.tells_all(key)
    }

    /// Whether the next message of a server is looked at in another turn, if this one has done so much.
    pub(crate) fn is_for_later(&self, key: ServerKey) -> bool {
        self.tells_all(key) && self.servers.get(key).is_some_and(|server| server.session.scanner.is_between())
    }

    /// More has come from a server, behind what is kept. It is as if that had not been received yet: nothing overtakes it.
    pub(crate) fn keep_for_later(&mut self, key: ServerKey, chunk: Chunk) {
        let chunk = self.unpinned(chunk);
        if let Some(later) = self.later_of(key) {
            later.push_back(chunk);
        }
    }

    /// The rest of what has come from a server is kept, before what is kept already.
    pub(crate) fn keep_rest_for_later(&mut self, key: ServerKey, rest: Chunk) {
        let rest = self.unpinned(rest);
        if let Some(later) = self.later_of(key) {
            later.push_front(rest);
        }
    }

    fn later_of(&mut self, key: ServerKey) -> Option<&mut VecDeque<Chunk>> {
        let server = self.servers.get_mut(key)?;
        if server.later.is_none() {
            self.io.pause(server.conn);
            self.notify.backlog.add(Task::GoOn { server: key });
        }
        Some(server.later.get_or_insert_default())
    }
}
