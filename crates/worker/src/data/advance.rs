//! Sends the probe behind a client's request, in one packet, where the text of the request already shows that the probe
//! will be needed.
//!
//! Always true: the request is one statement that leaves the server outside a transaction, whatever its outcome, and
//! that waits neither for data nor for another request; what the client sends meanwhile waits for the probe's answer.
//! The probe's timeout begins when the request has been answered.
//! Not here: what is asked (`probe`), what is done with the answer (`answered`), what a text shows (`protocol::state`).

use pool::{ClientKey, ServerKey};
use protocol::loan::LoanPhase;
use protocol::request::is_of_one_statement;
use reactor::Io;

use crate::data::client::Ready;
use crate::data::server::{Server, ServerStage};
use crate::worker::Worker;

/// Whether these bytes of a client, sent to a server that owed nothing, will make a probe necessary.
pub(crate) fn are_asked_about(ready: &Ready, server: &Server, bytes: &[u8]) -> bool {
    let (client, server_session) = (&ready.session, &server.session);
    let is_asked_for =
        client.session_effects.as_ref().is_some_and(|session_effects| session_effects.is_asked_for_by_one());
    let is_lent = matches!(server.stage, ServerStage::Lent { .. }) && server_session.phase.is_running();
    let is_alone =
        client.subscriptions.is_none() && ready.held.is_none() && !client.is_torn() && !client.is_collecting();
    let is_plain =
        server_session.cancels_sent == 0 && server_session.exchange.is_proven() && !server_session.repeatable.is_sent();
    is_asked_for && is_lent && is_alone && is_plain && is_of_one_statement(bytes)
}

impl Server {
    /// Called at a `ReadyForQuery`: returns whether the answer to the probe behind the client's request comes next. It
    /// does not if this one answers a query of ours, or no client has the server any more.
    pub(crate) fn comes_to_probe(&mut self, was_ours: bool) -> bool {
        let is_lent = matches!(self.stage, ServerStage::Lent { .. });
        let is_next = was_ours || is_lent && self.session.exchange.is_ours();
        is_next && self.session.phase.comes_to_probe(was_ours).is_some()
    }
}

impl<I: Io> Worker<I> {
    /// Sends the probe behind such a request.
    pub(crate) fn ask_in_advance(&mut self, server_key: ServerKey, client_key: ClientKey) {
        if self.awaits_lock_row(server_key, client_key) {
            return;
        }
        let Some(probe) = self.question_of(server_key, client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        server.ask(&mut self.hands.io, &probe.question());
        server.session.creations_asked = self.registry.database_at(server.database).function_catalog.creations();
        server.session.phase.becomes(LoanPhase::Foreseeing(Box::new(probe)));
    }

    /// A server is taken over from another process, which has sent a probe behind a request: what the client sends
    /// waits for the answer here, too. This process does not know what was asked, so it discards the answer and probes
    /// again.
    pub(crate) fn expect_probe_in_advance(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(mut probe) = self.question_of(server_key, client_key) else { return };
        probe.cancel();
        if let Some(server) = self.servers.get_mut(server_key) {
            server.session.phase.becomes(LoanPhase::Foreseeing(Box::new(probe)));
        }
    }
}
