//! Who made a cancel request is told that it is over.
//!
//! Always true: whoever made it is told by the end of its connection, once.
//! Not here: when it is over (`requests`, `peers`).

use measure::CancelRequest;
use reactor::Io;

use crate::letters::{Requester, ToWorker, Waits};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The request is over, and has come to this: its connection is closed.
    pub(crate) fn end_cancel_request(&mut self, (worker, client): Requester, how: CancelRequest) {
        self.connections.cancel_request_ends(how);
        if worker == self.id {
            self.drop_client(client, "cancel request");
        } else {
            (self.posts.workers[usize::from(worker.0)])(ToWorker::CancelOver(client));
        }
    }

    /// Whether a request has been given up: it was in a letter for longer than whoever made it waits, who may have asked for something
    /// else meanwhile.
    pub(crate) fn is_cancel_stale(&self, waits: Waits) -> bool {
        waits.until.is_some_and(|until| until <= self.now)
    }
}
