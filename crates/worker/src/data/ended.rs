//! A connection has ended: its peer has closed it, or it broke.
//!
//! Always true: what a server has said before its end is its client's all the same.
//! Not here: connections that we close (`close`, `close_server`).

use std::sync::Arc;

use base::Key;
use pool::ServerKey;
use reactor::{End, Io, Level};

use crate::data::client::{Client, Stage as ClientStage};
use crate::data::server::Stage;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client has closed its connection, or it broke.
    pub(crate) fn client_ended(&mut self, key: Key, end: &End) {
        if let End::Insecure(why) = end {
            let line = self.client_prefix(key);
            self.log.about(&line, Level::Warning, format_args!("TLS handshake error: {why}"));
        }
        if matches!(self.clients.get(key), Some(Client { stage: ClientStage::Cancelling(_), .. })) {
            // It does not wait for its request to be done; the request goes its way.
            self.drop_client(key, "cancel request");
            return;
        }
        // Its Terminate may wait behind a question to its server, or in the queue of its pool: nobody has looked at it.
        let has_said_goodbye = match self.clients.get(key) {
            Some(Client { stage: ClientStage::Ready(ready), .. }) => ready.has_said_goodbye(),
            _ => false,
        };
        self.part_from_client(key, if has_said_goodbye { "client close request" } else { "client unexpected eof" });
    }

    /// A server has closed its connection, or it broke.
    pub(crate) fn server_ended(&mut self, key: ServerKey, end: &End) {
        if let End::Insecure(why) = end {
            let line = self.server_prefix(key);
            self.log.about(&line, Level::Warning, format_args!("TLS handshake error: {why}"));
        }
        // What it has said before is its client's all the same.
        self.release(key);
        let Some(server) = self.servers.get(key) else { return };
        match &server.stage {
            Stage::Resolving | Stage::Connecting | Stage::Securing(_) | Stage::Login(_) | Stage::Introducing => {
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
