//! Processes the bytes of a client ([`Requests::hear`]): the requests that nobody but the server has to look at here, which are
//! one Query that leaves nothing behind it, of a client of which nothing is remembered, and plain batches (`plain_batches`); all
//! others message by message.
//!
//! Always true: sessions, exchange and what is known of the database are left as the stages of a message leave them, which
//! the tests compare; where anything else may have to be done for the bytes, nothing is done here.
//! Not here: what a text does (crate `route`), other requests by the extended protocol (`requests`).

use std::rc::Rc;

use route::Class;
use wire::backend::TxStatus;
use wire::frame::HEADER_BYTES;
use wire::frontend;

use super::client_session::{ClientSession, RequestFate};
use super::requests::{Forwarded, NextStep, Requests, ToServer};
use super::server_session::ServerSession;
use crate::planted::{begins_query, has_plain_ways};
use crate::prepared::Tally;
use crate::request::messages;

impl Requests<'_> {
    /// Processes bytes that the client may send to its server.
    pub fn hear(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        bytes: &[u8],
        to_server: &mut impl ToServer,
    ) -> Forwarded {
        match self.take_at_once(client, server, bytes, to_server) {
            Some(forwarded) => forwarded,
            None => self.take_each(client, server, bytes, to_server),
        }
    }

    /// Processes bytes of which nobody but the server has to look at anything. `None` where they are others.
    #[inline]
    pub(super) fn take_at_once(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        bytes: &[u8],
        to_server: &mut impl ToServer,
    ) -> Option<Forwarded> {
        match *bytes.first().filter(|_| has_plain_ways())? {
            frontend::QUERY => self.take_plain(client, server, bytes),
            frontend::PARSE | frontend::BIND => self.take_plain_batch(client, server, bytes, to_server),
            _ => None,
        }
    }

    /// Processes bytes that are one such Query. `None` where they are to be processed as any others.
    #[inline]
    fn take_plain(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        bytes: &[u8],
    ) -> Option<Forwarded> {
        if !client.is_plain() || !server.is_at_plain_rest() || self.refuses_queries || self.refusals.is_some() {
            return None;
        }
        let text = text_of_query(bytes, self.length_max)?;
        if self.follows {
            let class = self.harmless_class(client, text)?;
            client.counting.executes(&class);
        }
        server.is_verified = false;
        let is_alone = self.follows && server.exchange.status() == TxStatus::Idle;
        client.scanner.pass(bytes);
        client.fate = RequestFate::Forward;
        _ = server.exchange.asked(frontend::QUERY);
        Some(Forwarded {
            unsent: 0..bytes.len(),
            next_step: NextStep::Go,
            waits: false,
            begun: u32::from(begins_query(true)),
            tally: Tally::default(),
            makes_functions: false,
            is_alone,
        })
    }

    /// The class of a text that leaves nothing behind it in its session, whether it is executed or prepared. `None` for any other.
    #[inline]
    pub(super) fn harmless_class(&mut self, client: &ClientSession, text: &[u8]) -> Option<Rc<Class>> {
        let Self { function_catalog, scopes, texts, tracked, now, .. } = self;
        function_catalog.renew(self.unseen, *now, scopes);
        if function_catalog.is_due(*now) || function_catalog.asks_for_sequences(client.user) {
            return None;
        }
        // A class that is not plain is found again when the message is read.
        let class = texts.short_class(text, &client.vars, tracked, function_catalog)?;
        let has_more = class.sets_locally
            || class.sequences.are_read
            || !class.mentions.is_empty()
            || !class.statements.is_empty();
        (class.is_harmless() && !has_more).then_some(class)
    }
}

impl ClientSession {
    /// Whether nothing of the client is remembered that a Query may concern.
    fn is_plain(&self) -> bool {
        self.is_unfollowed()
            && self.names.is_none()
            && !self.unnamed.is_given()
            && self.overrides.as_ref().is_none_or(|overrides| overrides.statements().is_empty())
    }

    /// Whether the client is between two messages, and nobody follows what its messages do.
    pub(super) fn is_unfollowed(&self) -> bool {
        self.session_effects.is_none()
            && self.subscriptions.is_none()
            && self.scanner.is_between()
            && self.torn_text.is_none()
            && self.collected.is_none()
            && self.fate != RequestFate::Collect
    }
}

impl ServerSession {
    /// Whether the server owes nothing, and no earlier request is remembered here.
    pub(super) fn is_at_plain_rest(&self) -> bool {
        self.exchange.owes_nothing() && !self.repeatable.is_sent() && !self.server_statements.has_waiting_bind()
    }
}

/// The text of a Query, if the bytes are just that and no longer than `length_max`.
fn text_of_query(bytes: &[u8], length_max: u32) -> Option<&[u8]> {
    let (_, kind, body) = messages(bytes).next()?;
    let is_all = HEADER_BYTES + body.len() == bytes.len() && bytes.len() <= length_max as usize + 1;
    let (last, text) = body.split_last().filter(|_| is_all && kind == frontend::QUERY)?;
    (*last == 0 && memchr::memchr(0, text).is_none()).then_some(text)
}

#[cfg(test)]
#[path = "plain_requests_tests.rs"]
mod tests;
