//! What the answers of a server mean for the prepared statements that it and its client have.
//!
//! Always true: an answer that we give ourselves stands between whole messages of the server.
//! Not here: what a client says of statements (`protocol::loan`), what a server has (`protocol::prepared`).

use base::Key;
use pool::ServerKey;
use protocol::fault::Fault;
use protocol::prepared::Names;
use reactor::{Io, Level};
use wire::backend;
use wire::frame::HEADER_BYTES;
use wire::write;

use crate::client::{Client, Stage};
use crate::look::without_statements;
use crate::server::Server;
use crate::turn::Worker;

impl<I: Io> Worker<I> {
    /// The server has answered: what that means for its statements and those of its client.
    pub(crate) fn settle_statements(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let client = server.client().and_then(|client| self.clients.get_mut(client));
        server.session.stock.settle(&mut server.session.exchange, client.and_then(names));
    }

    /// Gives the client the answers that its server was not asked for and that come now.
    pub(crate) fn give_due(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if !server.session.exchange.has_due() || server.session.scanner.is_in_body() {
            return;
        }
        let mut out = Vec::new();
        while let Some(kind) = server.session.exchange.due() {
            write::bare(&mut out, kind);
        }
        self.give_client_own(key, out.into());
    }

    /// The server has said that all its statements are gone.
    pub(crate) fn statements_dropped(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.session.told_by.doubt();
        let client = server.client().filter(|_| !server.session.exchange.is_ours());
        let mut client = client.and_then(|client| self.clients.get_mut(client));
        without_statements(&mut server.session.overrides);
        if let Some(Client { stage: Stage::Ready(ready), .. }) = client.as_deref_mut() {
            // Those too that could not be prepared here.
            without_statements(&mut ready.session.overrides);
        }
        server.session.stock.drop_all(client.and_then(names));
    }

    /// The server has said that a statement is gone that its client has dropped by SQL.
    pub(crate) fn statement_dropped(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key).filter(|server| server.session.stock.is_dropping()) else {
            return;
        };
        let client = server.client().and_then(|client| self.clients.get_mut(client));
        server.session.stock.dropped(client.and_then(names));
    }

    /// It cannot be told any more which answer is whose.
    pub(crate) fn statements_lost(&mut self, key: ServerKey) {
        let client = self.servers.get(key).and_then(Server::client);
        self.lose_server(key, crate::mend::UNPROVEN);
        if let Some(client) = client {
            self.fail_client(client, &Fault::StatementsLost);
        }
    }

    /// Says in the log which statement it was.
    pub(crate) fn explain_statement(&mut self, client: Key, fault: &Fault) {
        let (name, what) = match fault {
            Fault::StatementUnknown { name } => (name, "not found"),
            Fault::StatementInUse { name } => (name, "was already prepared"),
            _ => return,
        };
        let line = self.client_prefix(client);
        self.log.add(Level::Error, format_args!("{line}prepared statement '{name}' {what}"));
    }
}

/// The names of a client.
fn names(client: &mut Client) -> Option<&mut Names> {
    match &mut client.stage {
        Stage::Ready(ready) => ready.session.names.as_deref_mut(),
        _ => None,
    }
}

/// An error of a server, as its client is to read it, where that is not as it was sent.
pub(crate) fn reworded_for(client: &mut Client, body: &[u8]) -> Option<Box<[u8]>> {
    let body = names(client)?.reworded(body)?;
    let mut error = Vec::with_capacity(HEADER_BYTES + body.len());
    write::message(&mut error, backend::ERROR_RESPONSE, |out| out.extend_from_slice(&body));
    Some(error.into())
}
