//! TLS with servers: whether to request it, and what a server answers.
//!
//! Always true: `SSLRequest` is sent once, before any other message, and only over TCP; a server that refuses TLS gets
//! nothing that must not be sent in clear text.
//! Not here: the handshake (`reactor::tls`); TLS with clients (`admission::accept`).

use std::sync::Arc;

use measure::HandshakePeer;
use pool::{Failure, ServerKey};
use reactor::tls::{Demand, Security, Side};
use reactor::{Address, Conn, Io, Level, Receive};
use wire::write;

use crate::data::server::{Securing, ServerStage};
use crate::planted::is_refusal;
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// Whether to send `SSLRequest` to this server.
    pub(crate) fn asks_for_tls(&self, key: ServerKey) -> bool {
        let address = self.servers.get(key).and_then(|server| server.address());
        self.hands.active.tls.demand.is_some() && matches!(address, Some(Address::Tcp(_)))
    }

    /// Whether this server must use TLS and cannot, because the certificates or keys for it could not be read.
    pub(crate) fn lacks_tls(&self, key: ServerKey) -> bool {
        let address = self.servers.get(key).and_then(|server| server.address());
        self.hands.active.settings.server_tls_sslmode.forbids_clear_text()
            && self.hands.active.tls.demand.is_none()
            && matches!(address, Some(Address::Tcp(_)))
    }

    /// Sends `SSLRequest` to a server.
    pub(crate) fn ask_for_tls(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.enters(ServerStage::Securing(Securing::Asked));
        request_tls(&mut self.hands.io, server.conn());
    }

    /// A server has answered `SSLRequest`.
    pub(crate) fn tls_answered(&mut self, key: ServerKey, bytes: &[u8]) {
        let Some(server) = self.servers.get(key) else { return };
        let ServerStage::Securing(Securing::Asked) = server.stage() else { return };
        let (conn, host) = (server.conn(), server.host().name().clone());
        let is_forbidden = self.hands.active.settings.server_tls_sslmode.forbids_clear_text();
        match tls_answer(bytes, is_forbidden) {
            Ok(true) => {}
            Ok(false) => return self.begin_server_login(key),
            Err(why) => return self.dial_failed(key, Failure::unreachable(why)),
        }
        // A reload may have switched off TLS meanwhile.
        let demand = self.hands.active.tls.demand.clone();
        let begun = demand.clone().ok_or_else(|| "it has just been switched off".to_owned());
        let begun = begun.and_then(|demand| begin_tls(&mut self.hands.io, conn, Owner::Server(key), demand, host));
        if let Err(why) = begun {
            self.log_server(key, Level::Error, format_args!("cannot begin TLS: {why}"));
            self.dial_failed(key, Failure::unreachable("sslreq processing failed"));
        } else if let Some(server) = self.servers.get_mut(key) {
            server.enters(ServerStage::Securing(Securing::Shaking));
            server.shakes_hands(demand);
        }
    }

    /// The TLS handshake with a server is complete: begins the login.
    pub(crate) fn server_secured(&mut self, key: ServerKey, security: Arc<Security>) {
        if self.hands.active.settings.log_connections {
            self.log_server(key, Level::Log, format_args!("SSL established: {}", security.summary));
        }
        self.count_handshake(HandshakePeer::Server, &security);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.set_security(security);
        self.begin_server_login(key);
    }
}

/// Sends `SSLRequest`; the answer is one byte.
pub(crate) fn request_tls(io: &mut impl Io, conn: Conn) {
    let mut out = Vec::new();
    write::ssl_request(&mut out);
    io.send(conn, out.into());
    io.receive(conn, Receive::Once);
}

/// Interprets a server's answer to `SSLRequest`: whether the server speaks TLS.
///
/// # Errors
/// Why the connection cannot be used after this answer.
pub(crate) fn tls_answer(bytes: &[u8], is_clear_text_forbidden: bool) -> Result<bool, &'static str> {
    match bytes {
        [b'S'] => Ok(true),
        [b'N'] if is_refusal(is_clear_text_forbidden) => Err(TLS_REFUSED),
        [b'N'] => Ok(false),
        // Someone on the network has injected the rest.
        [b'S' | b'N', ..] => Err("received unencrypted data after SSL response"),
        _ => Err("bad sslreq answer"),
    }
}

/// Begins the TLS handshake with a server that has agreed.
///
/// # Errors
/// Why it could not be begun.
pub(crate) fn begin_tls(
    io: &mut impl Io,
    conn: Conn,
    owner: Owner,
    demand: Arc<Demand>,
    host: Arc<str>,
) -> Result<(), String> {
    let side = Side::Calling { demand, host };
    io.secure(conn, owner.to_bits(), &side, &[]).map_err(|error| error.to_string())
}

/// The error for a server that does not speak TLS where TLS is required.
pub(crate) const TLS_REFUSED: &str = "server refused SSL";
