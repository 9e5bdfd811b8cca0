//! Counts how logins, TLS handshakes and cancel requests end.
//!
//! Always true: connections of the control thread are not counted; a connection that moves to its home worker or to
//! another process has not ended.
//! Not here: what is counted (`measure`).

use base::Key;
use measure::{HandshakeOutcome, HandshakePeer, LoginOutcome, LoginStep};
use protocol::fault::Fault;
use reactor::Io;
use reactor::tls::Security;

use crate::data::client::{Client, ClientStage};
use crate::data::server::{Securing, Server, ServerStage};
use crate::worker::Worker;

/// The outcome of a login whose client gets this error.
pub(crate) fn outcome_of(fault: &Fault) -> LoginOutcome {
    match fault {
        Fault::LoginTimeout | Fault::LoginTimeoutServerDown { .. } => LoginOutcome::TimedOut,
        _ => LoginOutcome::Refused,
    }
}

impl<I: Io> Worker<I> {
    /// A client is closed. If it was logging in, counts the end of its login, and of its TLS handshake if that was under way.
    pub(crate) fn count_login_end(&mut self, key: Key, outcome: LoginOutcome) {
        let Some(Client { stage, is_own: false, .. }) = self.clients.get(key) else { return };
        let step = match stage {
            ClientStage::Greeting(greeting) if greeting.is_shaking() => LoginStep::Tls,
            ClientStage::Greeting(_) => LoginStep::Startup,
            ClientStage::Login(login) => login.step(),
            ClientStage::Ready(_) | ClientStage::Console(_) | ClientStage::Cancelling(_) => return,
        };
        if step == LoginStep::Tls {
            self.hands.connections.handshake_ends(HandshakePeer::Client, HandshakeOutcome::Failed);
        }
        self.hands.connections.login_ends(step, outcome);
    }

    /// Counts a completed TLS handshake.
    pub(crate) fn count_handshake(&mut self, with: HandshakePeer, security: &Security) {
        let how = if security.is_resumed { HandshakeOutcome::Resumed } else { HandshakeOutcome::Full };
        self.hands.connections.handshake_ends(with, how);
    }

    /// A dial has failed; counts a failed TLS handshake if one was under way.
    pub(crate) fn count_failed_handshake(&mut self, server: Key) {
        if let Some(ServerStage::Securing(Securing::Shaking)) = self.servers.get(server).map(Server::stage) {
            self.hands.connections.handshake_ends(HandshakePeer::Server, HandshakeOutcome::Failed);
        }
    }
}
