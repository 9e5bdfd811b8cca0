//! Tells requesters that their cancel request is over.
//!
//! Always true: a requester is told once, by the end of its connection.
//! Not here: when it is over (`requests`, `peers`).

use measure::CancelRequest;
use reactor::Io;

use crate::letters::{CancelWait, Requester, ToWorker};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The request is over with this result: closes the requester's connection.
    pub(crate) fn end_cancel_request(&mut self, (worker, client): Requester, how: CancelRequest) {
        self.connections.cancel_request_ends(how);
        if worker == self.id {
            self.drop_client(client, "cancel request");
        } else {
            (self.posts.workers[usize::from(worker.0)])(ToWorker::CancelOver(client));
        }
    }

    /// Whether a request has expired: it was in a letter for longer than its requester waits, who may have sent another
    /// query meanwhile.
    pub(crate) fn is_cancel_stale(&self, waits: CancelWait) -> bool {
        waits.until.is_some_and(|until| until <= self.now)
    }
}
