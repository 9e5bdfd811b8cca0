//! A connection has ended: its peer has closed it, or it broke.
//!
//! Always true: what a server has sent before its end is still given to its client.
//! Not here: connections that we close (`close`, `close_server`).

use std::sync::Arc;

use base::Key;
use pool::ServerKey;
use reactor::{End, Io, Level};
use wire::frame::HEADER_BYTES;

use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::server::{Securing, Server, ServerStage};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client has closed its connection, or it broke.
    pub(crate) fn client_ended(&mut self, key: Key, end: &End) {
        if let End::Insecure(why) = end {
            self.log_client(key, Level::Warning, format_args!("TLS handshake error: {why}"));
            self.count_failed_tls(key, why);
        }
        if matches!(self.clients.get(key), Some(Client { stage: ClientStage::Cancelling(_), .. })) {
            // The client does not wait for its cancel request to be delivered; the request goes on.
            self.drop_client(key, "cancel request");
            return;
        }
        let Some(ready) = self.clients.ready(key).filter(|ready| ready.has_said_goodbye()) else {
            self.part_from_client(key, "client unexpected eof");
            return;
        };
        // Its Terminate may be held, unread, behind a probe or in the wait queue of its pool.
        let has_request = ready.held.as_ref().is_some_and(|held| held.len() > HEADER_BYTES);
        if !self.is_heard_out(key, has_request) {
            let is_unserved = has_request && ready.link.server().is_none();
            let why = if is_unserved { CLOSED_UNSERVED } else { "client close request" };
            self.part_from_client(key, why);
        }
    }

    /// Whether a client that has sent its Terminate, and closed its connection, keeps its server until the requests before that
    /// are answered: PostgreSQL runs them, whether or not anybody reads the answers. One that still waits for a server leaves: an
    /// application that gives up and tries again would fill the queue with requests of which nobody wants the answer. So does
    /// one that has not read its answers: the kernel takes no more bytes for it, and its server would stand still.
    fn is_heard_out(&self, key: Key, has_request: bool) -> bool {
        let Some(Ready { link: Link::Loan(server), is_leaving: false, .. }) = self.clients.ready(key) else {
            return false;
        };
        let is_owed = |server: &Server| !server.session.exchange.owes_client_nothing();
        (has_request || self.servers.get(*server).is_some_and(is_owed)) && !self.is_behind(key)
    }

    /// A server has closed its connection, or it broke.
    pub(crate) fn server_ended(&mut self, key: ServerKey, end: &End) {
        if let End::Insecure(why) = end {
            self.log_server(key, Level::Warning, format_args!("TLS handshake error: {why}"));
        }
        // What the server has sent before is still given to its client.
        self.release(key);
        let Some(server) = self.servers.get(key) else { return };
        match &server.stage {
            ServerStage::Securing(Securing::Asked) => {
                let text: Arc<str> = match end {
                    End::Eof | End::Insecure(_) => "server conn crashed? (closed during the request for TLS)".into(),
                    End::Broken(error) => format!("server conn crashed? (during the request for TLS: {error})").into(),
                };
                self.dial_failed(key, pool::Failure::unreachable(text));
            }
            ServerStage::Resolving
            | ServerStage::Connecting(_)
            | ServerStage::Securing(_)
            | ServerStage::Login(_)
            | ServerStage::Introducing => {
                let text: Arc<str> = match end {
                    End::Eof | End::Insecure(_) => "server conn crashed?".into(),
                    End::Broken(error) => format!("server conn crashed? ({error})").into(),
                };
                self.dial_failed(key, pool::Failure::unreachable(text));
            }
            _ => self.server_gone(key),
        }
    }
}

/// Why a client is gone that has closed its connection in the wait queue.
const CLOSED_UNSERVED: &str = "client close request, before its request was sent to a server";
