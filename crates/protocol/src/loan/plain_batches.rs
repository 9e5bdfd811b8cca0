//! Processes the bytes of a client that are one batch, which runs one statement and ends with its Sync: the statement without
//! a name that the batch prepares itself, or a named one that its server certainly has.
//!
//! Always true: as for one Query (`plain_requests`), everything is left as the stages of a message leave it, which the tests
//! compare; where anything else may have to be done for the bytes, nothing is done here.
//! Not here: what a text does (crate `route`), batches of other messages (`requests`).

use wire::backend::TxStatus;
use wire::frame::HEADER_BYTES;
use wire::frontend;

use super::client_session::{ClientSession, RequestFate};
use super::reading::name_behind;
use super::requests::{Forwarded, NextStep, Requests, ToServer, keep_for_again};
use super::server_session::ServerSession;
use super::statements::unnamed_reading;
use crate::planted::begins_query;
use crate::prepared::{self, Ask, Bytes, Head, Kept, Tally};
use crate::request::messages;

/// The messages of a batch: a Parse of the unnamed statement, or none; a Bind; a Describe of the unnamed portal, or none; an
/// Execute of that; a Sync.
struct Batch<'b> {
    /// The bodies of Parse and Bind.
    parse: Option<&'b [u8]>,
    bind: &'b [u8],
    /// Where the body of the Bind begins.
    bind_at: usize,
    /// Where the Sync begins.
    sync_at: usize,
    /// How many messages stand before the Sync.
    count: u32,
}

impl Requests<'_> {
    /// Processes bytes that are one such batch. `None` where they are to be processed as any others.
    pub(super) fn take_plain_batch(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        bytes: &[u8],
        to_server: &mut impl ToServer,
    ) -> Option<Forwarded> {
        let may_be = self.follows && self.statements_max > 0 && !self.reuses_unnamed && self.refusals.is_none();
        let has_room = bytes.len() <= self.length_max as usize;
        if !may_be || !has_room || !client.has_plain_statements(server) || !server.is_at_plain_rest() {
            return None;
        }
        let batch = Batch::of(bytes)?;
        let mut unsent = 0..bytes.len();
        let mut tally = Tally::default();
        match batch.parse {
            Some(parse) => {
                let text = name_behind(parse, 1).filter(|_| parse[0] == 0 && batch.bind.starts_with(&[0, 0]))?;
                let class = self.harmless_class(client, text)?;
                client.counting.prepares(&class, false);
                let parse = Some([&bytes[..HEADER_BYTES], parse]);
                let reading = unnamed_reading(client, self.follows);
                let (exchange, account) = (&server.exchange, &client.account);
                client.unnamed.prepares(parse, reading, exchange, account, self.statement_registry);
            }
            None => {
                let Some(Head::Named(Ask::Bind { portal, name, end })) = prepared::head_of_bind(batch.bind) else {
                    return None;
                };
                let names = client.names.as_mut()?;
                let dialect = names.dialect(&client.vars, self.tracked, client.overrides.as_ref());
                let place = (batch.bind.len(), end);
                // Short values are copied: one piece of memory costs the kernel and us less than two.
                let rest = batch.bind_at + end;
                let sent = if bytes.len() - rest <= COPIED_BYTES_MAX { bytes.len() } else { rest };
                let behind = &bytes[rest..sent];
                let bind = server.server_statements.bind_as_told(names, &dialect, (portal, name), place, behind)?;
                self.function_catalog.renew(self.unseen, self.now, self.scopes);
                keep_for_again(client, server, bytes, Kept::Named);
                to_server.send(Bytes::Own(bind));
                unsent.start = sent;
                tally.binds = 1;
            }
        }
        client.counting.executes_unnoted();
        server.is_verified = false;
        let is_alone = unsent.start == 0 && server.exchange.status() == TxStatus::Idle;
        server.exchange.asked_batch(batch.count);
        client.scanner.pass(&bytes[batch.sync_at..]);
        client.fate = RequestFate::Forward;
        Some(Forwarded {
            unsent,
            next_step: NextStep::Go,
            waits: false,
            begun: u32::from(begins_query(true)),
            tally,
            makes_functions: false,
            is_alone,
        })
    }
}

impl ClientSession {
    /// Whether nothing is remembered of the client that a plain batch may concern.
    fn has_plain_statements(&self, server: &ServerSession) -> bool {
        let are_plain = |names: &prepared::Names| names.are_at_rest(&server.exchange) && !names.has_unnamed();
        self.is_unfollowed() && self.names.as_deref().is_none_or(are_plain) && server.exchange.may_step()
    }
}

impl<'b> Batch<'b> {
    /// The batch that these bytes are.
    #[inline]
    fn of(bytes: &'b [u8]) -> Option<Self> {
        let mut first = messages(bytes);
        let (mut at, mut kind, mut bind) = first.next()?;
        let parse = (kind == frontend::PARSE).then_some(bind);
        if parse.is_some() {
            (at, kind, bind) = first.next()?;
        }
        let bind_at = at + HEADER_BYTES;
        let rest = bytes.get(bind_at + bind.len()..).filter(|_| kind == frontend::BIND)?;
        let (is_described, rest) = match rest {
            [frontend::DESCRIBE, 0, 0, 0, 6, b'P', 0, rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        // The name of the portal, and how many rows.
        let [frontend::EXECUTE, 0, 0, 0, 9, 0, _, _, _, _, frontend::SYNC, 0, 0, 0, 4] = rest else { return None };
        let count = 2 + u32::from(parse.is_some()) + u32::from(is_described);
        Some(Self { parse, bind, bind_at, sync_at: bytes.len() - HEADER_BYTES, count })
    }
}

/// So much behind the name of a statement is copied.
const COPIED_BYTES_MAX: usize = 1024;

#[cfg(test)]
#[path = "plain_batches_tests.rs"]
mod tests;
