//! The unnamed statement of a client among its messages: as PostgreSQL's unnamed statement, or, with
//! `reuse_unnamed_statements`, under a name.
//!
//! Always true: a statement that is treated as a named one is the one in force.
//! Not here: which one is in force (`prepared::Unnamed`).

use wire::frontend;

use super::{Extent, Following, is_settled};
use crate::fault::Fault;
use crate::loan::client_session::ClientSession;
use crate::loan::server_session::ServerSession;
use crate::prepared::{self, Ask, Bytes, UnnamedReading};

impl Following<'_> {
    pub(super) fn brings_unnamed(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        out: &mut Vec<Bytes>,
    ) -> Result<(), Fault> {
        let parameters = (&client.vars, self.tracked);
        let ServerSession { server_statements, exchange, .. } = server;
        client.unnamed.bring(parameters, server_statements, exchange, &mut self.tally, out)
    }

    /// What is asked of the unnamed statement, if it is treated as a named one because its text has come before.
    pub(super) fn as_named<'b>(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        kind: u8,
        body: &'b [u8],
        extent: Extent,
    ) -> Option<Ask<'b>> {
        if kind != frontend::PARSE {
            // If a Close was skipped, that name may have come back although another statement has been given since.
            let statement = client.names.as_ref().and_then(|names| names.statement(b""));
            let is_there = statement.is_some_and(|statement| client.unnamed.is(statement.text()));
            if !is_there && !self.reuses {
                return None;
            }
            let ask = prepared::head_of_unnamed(kind, body)?;
            return (is_there || self.is_named_again(client, server)).then_some(ask);
        }
        // `ServerStatements`, too, requires good order before it answers for the server. Here it is required because an
        // unnamed statement whose Parse fails is gone (`exec_parse_message` in PostgreSQL's `tcop/postgres.c`), while a
        // named one stays what it was.
        let may_be = self.reuses
            && !matches!(extent, Extent::Part)
            && server.exchange.may_step()
            && server.exchange.is_in_good_order();
        let ask = if may_be { prepared::head_of_unnamed(kind, body) } else { None };
        match ask {
            Some(Ask::Parse { text, .. }) if self.statement_registry.comes_again(text) => ask,
            _ => {
                if let Some(names) = client.names.as_mut().filter(|names| names.has_unnamed()) {
                    names.forget_unnamed();
                }
                None
            }
        }
    }

    /// Whether the unnamed statement, which came back because the server skipped what came behind it, is on the server under a
    /// name, and is treated as a named one again. A failed transaction refuses the Parse that would bring it there.
    fn is_named_again(&mut self, client: &mut ClientSession, server: &mut ServerSession) -> bool {
        if !self.reuses || server.exchange.is_in_good_order() {
            return false;
        }
        let Some(statement) = client.unnamed.sent_renamed(&server.exchange).cloned() else { return false };
        let mut out = Vec::new();
        let mut sides = self.sides(client, &mut server.exchange, false, &[], &mut out);
        server.server_statements.names_again(statement, &mut sides).unwrap_or(false)
    }
}

/// How the Parse of an unnamed statement is read that the client sends now. `follows`: session state follows the client.
pub(in crate::loan) fn unnamed_reading(client: &ClientSession, follows: bool) -> UnnamedReading {
    let class = client.session_effects.as_ref().and_then(|effects| effects.unnamed().cloned());
    UnnamedReading { vars: (follows && is_settled(client)).then(|| client.vars.clone()), class, statement: None }
}

/// Forgets the unnamed statement, which a simple query destroys; `text` is that query, if all of it has come.
pub(super) fn forget_unnamed(client: &mut ClientSession, server: &ServerSession, text: Option<&[u8]>) {
    if client.unnamed.is_given() {
        client.unnamed.queries(text.is_some_and(<[u8]>::is_ascii), &server.exchange);
    }
    if let Some(names) = client.names.as_mut().filter(|names| names.has_unnamed()) {
        names.forget_unnamed();
    }
}

/// An error restores the unnamed statement that PostgreSQL still has. `is_unread`: the server could not convert the message at
/// which it has failed.
#[cold]
pub(in crate::loan) fn unnamed_fails(client: Option<&mut ClientSession>, server: &mut ServerSession, is_unread: bool) {
    if let (Some(failure), Some(client)) = (server.exchange.failure(), client)
        && client.unnamed.fails(&failure, is_unread)
    {
        client.restore_unnamed();
    }
}
