//! Requests that are cancelled before a server has begun with them.
//!
//! Always true: such a request is answered as PostgreSQL answers a cancelled one; what its client has sent behind it is
//! looked at as if it had just arrived.
//! Not here: cancel requests (`cancel`).

use base::Key;
use pool::Event;
use reactor::Io;
use wire::backend::TxStatus;
use wire::write;

use crate::data::client::{Client, ClientStage, Link};
use crate::observe::spans::SpanError;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A waiting client cancels its first held request, which is answered as cancelled.
    pub(crate) fn cancel_waiting(&mut self, key: Key) {
        // Asked anew, since this is a task: a server whose client has lost its link would be nobody's.
        if self.clients.ready(key).is_none_or(|ready| ready.link.waits_since().is_none()) {
            return;
        }
        if self.spans.is_on() {
            self.tell_unserved(key, SpanError::State(*b"57014"));
        }
        let Some(Client { conn, stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(key) else {
            return;
        };
        let Some(syncs) = ready.drop_first_request() else { return };
        let is_delayed = matches!(ready.link, Link::Delayed(_));
        ready.link = Link::None;
        *answered = self.hands.now;
        let (conn, pool, rest) = (*conn, ready.pool, ready.held.take());
        let mut out = Vec::new();
        // A lone Sync, such as the rest of a COPY that has failed, cannot be cancelled: it gets its ReadyForQuery.
        (0..syncs).for_each(|_| write::ready_for_query(&mut out, TxStatus::Idle));
        let detail = match is_delayed {
            true => "The request was delayed by a rate limit.",
            false => "The request was waiting for a server connection.",
        };
        write_cancelled(&mut out, "canceling statement due to user request", detail);
        self.hands.io.send(conn, out.into());
        self.limits.forget_delay(key);
        self.limits.forget_hold(key);
        self.tell_pools(Event::Left { pool, client: key });
        // What the client has sent after that request is looked at as if it had just arrived.
        self.hold_again(key, rest);
        self.resume_client(key);
        // Its timer has waited for the end of the wait.
        self.arm_client(key);
    }
}

/// The answer to a request that was cancelled before a server had begun with it.
pub(crate) fn write_cancelled(out: &mut Vec<u8>, message: &str, detail: &str) {
    let says = write::Says { severity: "ERROR", sqlstate: QUERY_CANCELED, message, detail: Some(detail), hint: None };
    write::error(out, says);
    write::ready_for_query(out, TxStatus::Idle);
}

/// `query_canceled` (`errcodes.txt`).
pub(crate) const QUERY_CANCELED: &str = "57014";
