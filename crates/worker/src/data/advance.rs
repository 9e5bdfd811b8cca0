//! The question what a session keeps goes behind a client's request, in one packet, where its text tells already that it will be asked.
//!
//! Always true: the request is one statement that leaves the server outside of a transaction, whatever comes of it, and neither waits for data nor
//! for another request; what the client says meanwhile waits for the answer. The time of the question begins when the request has been answered.
//! Not here: what is asked (`question`), that it has been answered (`answered`), what a text tells (`protocol::state`).

use pool::{ClientKey, ServerKey};
use protocol::loan::Life;
use protocol::request::is_of_one_statement;
use reactor::Io;
use wire::write;

use crate::data::client::Ready;
use crate::data::server::{Server, Stage as ServerStage};
use crate::worker::Worker;

/// Whether these bytes of a client, which its server was sent when it owed nothing, will have that asked.
pub(crate) fn are_asked_about(ready: &Ready, server: &Server, bytes: &[u8]) -> bool {
    let (client, server_session) = (&ready.session, &server.session);
    let is_asked_for =
        client.session_effects.as_ref().is_some_and(|session_effects| session_effects.is_asked_for_by_one());
    let is_lent = matches!(server.stage, ServerStage::Lent { .. }) && server_session.life.is_running();
    let is_alone =
        client.subscriptions.is_none() && ready.held.is_none() && !client.is_torn() && !client.is_collecting();
    let is_plain =
        server_session.cancels_sent == 0 && server_session.exchange.is_proven() && !server_session.again.is_sent();
    is_asked_for && is_lent && is_alone && is_plain && is_of_one_statement(bytes)
}

impl Server {
    /// Whether the question that was asked behind the client's request is answered next, at a `ReadyForQuery`. Where that answers something of
    /// ours, or nobody has the server any more, there is none.
    pub(crate) fn comes_to_probe(&mut self, was_ours: bool) -> bool {
        let is_lent = matches!(self.stage, ServerStage::Lent { .. });
        let is_next = was_ours || is_lent && self.session.exchange.is_ours();
        is_next && self.session.life.comes_to_probe(was_ours).is_some()
    }
}

impl<I: Io> Worker<I> {
    /// Sends the question behind such a request.
    pub(crate) fn ask_in_advance(&mut self, server_key: ServerKey, client_key: ClientKey) {
        if self.awaits_lock_row(server_key, client_key) {
            return;
        }
        let Some(probe) = self.question_of(server_key, client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let mut out = Vec::new();
        write::query(&mut out, &probe.question());
        server.session.exchange.asks_ours();
        server.session.makings_asked = self.registry.databases[server.database as usize].function_catalog.makings();
        server.session.life.becomes(Life::Foreseeing(Box::new(probe)));
        self.io.send(server.conn, out.into());
    }

    /// A server comes from another process, which has sent the question behind a request: what the client says waits for the answer here, too. What was
    /// asked is not known here, so that the answer is worth nothing, and the question is asked again.
    pub(crate) fn expect_probe_in_advance(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(mut probe) = self.question_of(server_key, client_key) else { return };
        probe.cancel();
        if let Some(server) = self.servers.get_mut(server_key) {
            server.session.life.becomes(Life::Foreseeing(Box::new(probe)));
        }
    }
}
