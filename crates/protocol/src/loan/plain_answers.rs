//! Processes the answers that nobody but the client has to look at: rows, their descriptions, and what ends them.
//!
//! Always true: sessions and exchange are left as `Answers::take` leaves them, which the tests compare; where anything else may
//! have to be done for a message, the message is left to it.
//! Not here: the first part of a message that has not arrived completely, errors, notices, reports, answers to our own
//! queries (`answers`).

use wire::backend::{self, TxStatus};
use wire::frame::HEADER_BYTES;

use super::answers::{Answers, Place, ServerEvent};
use super::client_session::ClientSession;
use super::server_session::{AnswerFate, ServerSession};
use super::tags;
use crate::planted::has_plain_ways;
use crate::request::messages;

impl Answers<'_> {
    /// Whether [`ServerSession::take_plain`] may find anything in these bytes.
    #[inline]
    pub(super) fn may_be_plain(&self, client: Option<&ClientSession>, server: &ServerSession) -> bool {
        !self.is_statement_mode && !self.withholds && client.is_some_and(|client| are_plain(client, server))
    }
}

/// Processes whole messages of a server, outside of statement mode, for as long as the exchange alone has to know of them: as
/// [`Answers::hear`] does, which goes on at [`Place::at`] with whatever else there is. Returns whether the server is ready, up to
/// which its bytes are the client's.
#[inline]
pub fn hear_plain(client: &ClientSession, server: &mut ServerSession, bytes: &[u8], place: &mut Place) -> bool {
    are_plain(client, server) && server.take_plain(bytes, place).is_some()
}

/// Whether nothing of the client is followed, and nothing of the answers.
fn are_plain(client: &ClientSession, server: &ServerSession) -> bool {
    has_plain_ways() && server.answer_tally.is_none() && client.session_effects.is_none()
}

impl ServerSession {
    /// Processes whole messages for as long as the exchange alone has to know of them, where these
    /// [may be plain](Answers::may_be_plain). Returns what has been heard, if that concerns more than the two sessions; otherwise
    /// the message at [`Place::at`], if any, is to be processed as any other.
    #[inline]
    pub(super) fn take_plain(&mut self, bytes: &[u8], place: &mut Place) -> Option<ServerEvent<'static>> {
        if !self.answers_plainly() {
            return None;
        }
        let mut last = None;
        let mut heard = None;
        // Most answers tell the request nothing, once they have begun.
        let mut is_awaited = self.repeatable.is_sent();
        while heard.is_none() {
            let rest = bytes.get(place.at..).unwrap_or_default();
            if !is_awaited && let Some([start, end]) = self.exchange.passes_on(rest, tags::tells_nothing) {
                last = Some(place.at + start);
                place.at += end;
                continue;
            }
            let Some((_, kind, body)) = messages(rest).next() else { break };
            if kind == backend::READY_FOR_QUERY {
                if TxStatus::parse(body).is_none() || self.exchange.answered(kind, body).is_err() {
                    break;
                }
                self.repeatable.answered(kind, None);
                self.server_statements.drops_end();
                heard = Some(ServerEvent::Ready { was_ours: false });
            } else if is_plain(kind, body) && self.exchange.passes(kind) {
                if is_awaited {
                    self.repeatable.answered(kind, None);
                    is_awaited = self.repeatable.is_sent();
                }
            } else {
                break;
            }
            last = Some(place.at);
            place.at += HEADER_BYTES + body.len();
        }
        if let Some(last) = last {
            self.scanner.pass(&bytes[last..]);
            self.fate = AnswerFate::Forward;
        }
        heard
    }

    /// Whether the server answers its client's request, and nothing of the answers is looked at here.
    fn answers_plainly(&self) -> bool {
        self.scanner.is_between()
            && !self.is_applied_along
            && !self.tells_lock
            && !self.repeatable.is_looked_at()
            && self.exchange.is_plain()
            && self.reported_name.is_none()
            && !self.server_statements.is_being_described()
            && self.collected.is_empty()
    }
}

/// Whether the exchange alone has to know of a message that is part of an answer.
#[inline]
fn is_plain(kind: u8, body: &[u8]) -> bool {
    match kind {
        backend::COMMAND_COMPLETE => tags::tells_nothing(body),
        backend::ROW_DESCRIPTION
        | backend::DATA_ROW
        | backend::EMPTY_QUERY_RESPONSE
        | backend::PARSE_COMPLETE
        | backend::BIND_COMPLETE
        | backend::CLOSE_COMPLETE
        | backend::NO_DATA
        | backend::PORTAL_SUSPENDED => true,
        _ => false,
    }
}

#[cfg(test)]
#[path = "plain_answers_tests.rs"]
mod tests;
