//! Repeats a request that a server refused only because a plan is out of date ("cached plan must not change result
//! type"), after a DEALLOCATE ALL.
//!
//! Always true: the client waits as for any answer, and a cancel request that it has sent hits no query of ours.
//! Not here: which requests are repeated, and from which message on (`protocol::prepared`).

use pool::ServerKey;
use protocol::loan::LoanPhase;
use reactor::{Chunk, Io, Level};

use crate::data::cancelled::write_cancelled;
use crate::data::client::{Client, ClientStage};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A server that has refused a request is ready again. It deallocates all statements at once: if one plan is out of
    /// date, others are. Returns false if the request was cancelled meanwhile and has been answered so: then the server
    /// is ready for another request.
    pub(crate) fn repeat_request(&mut self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get_mut(key) else { return true };
        let Some(client_key) = server.client() else { return true };
        let Some(Client { stage: ClientStage::Ready(ready), conn, .. }) = self.clients.get_mut(client_key) else {
            return true;
        };
        if server.session.cancels_sent > 0 {
            // The cancel request would hit our DEALLOCATE ALL. The client wanted its request cancelled, so it is
            // answered as cancelled.
            server.session.repeatable.forget();
            let mut out = Vec::new();
            write_cancelled(&mut out, "canceling statement due to user request", "Its plan was being made anew.");
            self.hands.io.send(*conn, out.into());
            return false;
        }
        let bytes = server.session.repeatable.begin_deallocation();
        ready.held.get_or_insert_default().push_front(Chunk::Own(bytes.into()));
        server.session.phase.becomes(LoanPhase::Deallocating(self.hands.now));
        server.ask(&mut self.hands.io, "DEALLOCATE ALL");
        server.session.preparing = Box::default();
        self.uncount(key);
        if let Some(server) = self.servers.get_mut(key) {
            (server.query_since, server.xact_since) = (None, None);
        }
        if self.hands.active.settings.verbose > 0 {
            self.log_server(key, Level::Debug, format_args!("plans are out of date: statements are prepared anew"));
        }
        self.arm_server(key);
        true
    }
}
