//! Servers that are lost: they report their end, break off, or send what the protocol does not allow.
//!
//! Always true: a client that had such a server gets an error, or another server if the lost one was sent nothing; the
//! pool is told.
//! Not here: how a server is closed (`close_server`), connections that end (`connection_ended`), the errors for clients whose
//! server a pool closes (`close`).

use base::Time;
use measure::Closed;
use pool::{ClientKey, Event, ServerKey};
use protocol::fault::{Fault, IDLE_SESSION_TIMEOUT};
use protocol::loan::{OWN_ANSWER_BYTES_MAX, Unlendable};
use reactor::{Io, Level};
use wire::notice::Notice;

use crate::data::client::{Client, Ready};
use crate::data::server::{Server, ServerStage};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// An idle server sends an error: an administrator ended its backend, or PostgreSQL shuts down. `body` is `None`
    /// when the message is incomplete; its rest is not waited for, since the server must not be lent meanwhile.
    pub(crate) fn note_fatal_error(&mut self, key: ServerKey, body: Option<&[u8]>) {
        let line = self.server_prefix(key);
        let said = body.map(Notice::parse);
        match &said {
            Some(Notice { severity, message, .. }) => {
                self.hands.log.about(&line, Level::Warning, format_args!("server said: {severity}: {message}"));
            }
            None => self.hands.log.about(
                &line,
                Level::Warning,
                format_args!("server said an error that has not come whole"),
            ),
        }
        if said.as_ref().is_some_and(|said| said.sqlstate == IDLE_SESSION_TIMEOUT) {
            self.tell_pools(Event::EndedIdle { server: key });
        }
        // PostgreSQL closes the connection after a FATAL or PANIC.
        if said.is_some_and(|said| said.is_fatal()) {
            self.lose_server(key, Closed::Lost, "server conn crashed?");
        } else {
            self.lose_server(key, Closed::Dirty, "idle server got dirty");
        }
    }

    /// The server has sent something that the protocol does not allow here. Neither the server nor its client can go on.
    pub(crate) fn server_violates_protocol(&mut self, key: ServerKey, kind: u8, what: &str) {
        self.protocol_violations += 1;
        let shown = kind.escape_ascii();
        self.log_server(key, Level::Error, format_args!("protocol violation: {what}, message kind '{shown}'"));
        let Some(server) = self.servers.get(key) else { return };
        match server.stage {
            ServerStage::Idle | ServerStage::Cleaning(_) => self.lose_server(key, Closed::Dirty, what),
            ServerStage::Lent { client, .. } => {
                self.lose_server(key, Closed::Dirty, what);
                self.fail_client(client, &Fault::UnexpectedAnswer);
            }
            // A client that was to have this server is told, or gets another one.
            _ => self.dial_failed(key, pool::Failure::unreachable(what)),
        }
    }

    /// It cannot be told any more which answer belongs to which message.
    pub(crate) fn statements_lost(&mut self, key: ServerKey) {
        let client = self.servers.get(key).and_then(Server::client);
        self.lose_server(key, Closed::Dirty, Unlendable::Unproven.words());
        if let Some(client) = client {
            self.fail_client(client, &Fault::StatementsLost);
        }
    }

    /// A server answers a query of our own without end.
    #[cold]
    pub(crate) fn close_endless(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        let (client, is_dialed) =
            (server.client(), !matches!(server.stage, ServerStage::Idle | ServerStage::Cleaning(_)));
        let (line, host) = (self.server_prefix(key), server.host.name().clone());
        let text = format_args!("{ENDLESS}, it is closed (host {host}, more than {} MiB)", OWN_ANSWER_BYTES_MAX >> 20);
        self.hands.log.about(&line, Level::Error, text);
        match client {
            Some(client) => {
                self.lose_server(key, Closed::Dirty, ENDLESS);
                self.fail_client(client, &Fault::AnswerTooLong);
            }
            None if is_dialed => self.dial_failed(key, pool::Failure::unreachable(ENDLESS)),
            None => self.lose_server(key, Closed::Dirty, ENDLESS),
        }
    }

    /// The connection of a logged-in server has ended.
    pub(crate) fn server_gone(&mut self, key: ServerKey) {
        let why = "server conn crashed?";
        let Some(server) = self.servers.get(key) else { return };
        let (waits_since, has_said_all) = (server.session.phase.waits_since(), server.session.has_said_all());
        match server.stage {
            ServerStage::Lent { client } => match waits_since {
                Some(since) => self.lose_before_use(key, client, since, why),
                None if self.survives_replica(key, client, why) => {}
                None if self.has_said_its_last(key) => {
                    self.lose_server(key, Closed::Client, "server closed the stream");
                    self.part_from_client(client, "server closed the stream");
                }
                None if has_said_all => {
                    self.log_last_words(key);
                    self.lose_server(key, Closed::Lost, why);
                    self.part_from_client(client, why);
                }
                None => {
                    let fault = self.loss_in_the_middle(key);
                    self.lose_server(key, Closed::Lost, why);
                    self.fail_client(client, &fault);
                }
            },
            ServerStage::Introducing => self.dial_failed(key, pool::Failure::unreachable(why)),
            _ => self.lose_server(key, Closed::Lost, why),
        }
    }

    /// The error with which the server ended has been forwarded to its client; the log tells it as well.
    fn log_last_words(&mut self, key: ServerKey) {
        let line = self.server_prefix(key);
        if let Some(words) = self.servers.get(key).and_then(|server| server.session.last_words.as_deref()) {
            self.hands.log.about(&line, Level::Warning, format_args!("server said: {words}"));
        }
    }

    /// A cancel request may still hit this server, and nobody can tell when: it is closed, whatever it does.
    pub(crate) fn lose_to_cancel(&mut self, key: ServerKey, why: &str) {
        let Some(server) = self.servers.get(key) else { return };
        let client = server.client();
        let fault = self.loss_in_the_middle(key);
        self.lose_server(key, Closed::Dirty, why);
        if let Some(client) = client {
            self.fail_client(client, &fault);
        }
    }

    /// A server is lost before it was sent its client's request: the request is still held, and goes to another server.
    pub(crate) fn lose_before_use(&mut self, server: ServerKey, client: ClientKey, since: Time, why: &str) {
        let Some(database) = self.servers.get(server).map(|server| server.database) else { return };
        let is_missed = self.keeps_something(client);
        self.lose_server(server, Closed::Lost, why);
        if is_missed {
            self.fail_client(client, &Fault::ServerCrashed);
            return;
        }
        self.lose_given_channels(client, database);
        self.want_again(client, since);
    }

    /// Whether the client has something on its server that it would miss on any other. Possible if the server forgets
    /// its plans or is sent settings again in the middle of a loan. The shared `LISTEN` session misses nothing that its
    /// clients are not told of (`lose_given_channels`).
    pub(crate) fn keeps_something(&self, client: ClientKey) -> bool {
        let client = self.clients.get(client).filter(|client| !client.is_listener);
        client.and_then(Client::ready).is_some_and(Ready::has_pins)
    }
}

/// The reason that is logged for such a server.
const ENDLESS: &str = "answer without end to a query of our own";
