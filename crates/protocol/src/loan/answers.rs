//! Processes the messages that a server sends to its client, or to us.
//!
//! Always true: the exchange counts every message before it is delivered; bytes for the client are not copied, and go in
//! one span if nothing is inserted; a message without a recipient goes to nobody.
//! Not here: what happens to a loan when its server is ready, and the sending (`worker`).

use std::borrow::Cow;
use std::ops::Range;

use wire::backend::{self, TxStatus};
use wire::frame::{HEADER_BYTES, Part};
use wire::notice::Notice;
use wire::{MESSAGE_BYTES_MAX, Piece, Step, write};

use super::client_session::ClientSession;
use super::server_session::{AnswerFate, ServerSession};
use super::statements::unnamed_fails;
use super::{described, tags};
use crate::exchange::{Answered, ProtocolViolation};
use crate::planted::{carried_header, is_answer};
use crate::vars::{Known, Tracked};

/// Takes the bytes for the client, in the order in which they are to be sent.
pub trait ToClient {
    /// A part of the server's bytes, which may be empty.
    fn part(&mut self, range: Range<usize>);
    /// Bytes of our own.
    fn send(&mut self, bytes: Box<[u8]>);
}

/// What is needed beside the two sessions to process the bytes of a server.
#[derive(Debug)]
pub struct Answers<'a> {
    /// The parameters that PostgreSQL reports.
    pub tracked: &'a Tracked,
    /// Sets of parameters that several sessions share.
    pub known: &'a mut Known,
    /// The parameters that the server reports are the client's as well: the client's session state is not being applied.
    pub shares_parameters: bool,
    /// The client is the session that listens for all other clients.
    pub is_listener: bool,
    /// The client may not open a transaction (`pool_mode = statement`).
    pub is_statement_mode: bool,
    /// A `ReadyForQuery` outside of transactions waits for the session that listens for all.
    pub withholds: bool,
}

/// The progress through the bytes of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The first byte that was not given to the client.
    pub start: usize,
    /// The first byte that was not processed: the bytes between the two are the client's.
    pub at: usize,
}

impl Place {
    /// Gives the client its bytes before this position.
    fn give_up_to(&mut self, end: usize, to_client: &mut impl ToClient) {
        to_client.part(self.start..end);
        self.start = end;
    }
}

/// What concerns more than the two sessions in the bytes of a server.
#[derive(PartialEq, Eq, Debug)]
pub enum ServerEvent<'b> {
    /// Nothing: all bytes have been processed.
    All,
    /// A message that the server does not owe.
    Unexpected {
        /// The kind of the message.
        kind: u8,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An `ErrorResponse` of a server that has no client and owes nothing; its body, if it has arrived completely.
    FatalError(Option<&'b [u8]>),
    /// A `ReadyForQuery` that is withheld, with the bytes up to [`Place::at`].
    Withheld,
    /// It is no longer known which message an answer belongs to.
    Lost,
    /// The answer to a query of our own is longer than any answer may be.
    Endless,
    /// A command that has changed the catalog.
    CatalogChange,
    /// A report of the role of the server's host.
    RoleReport,
    /// An error that is not for the client.
    Error(Cow<'b, [u8]>),
    /// An error for the client, with its SQLSTATE.
    QueryFailed([u8; 5]),
    /// A notification that is not forwarded as received.
    Notification(Cow<'b, [u8]>),
    /// A row of a state probe that reads the functions of the database, of which there may be many.
    Functions,
    /// The server has accepted everything that was sent along with its client's request.
    CaughtUp,
    /// A COPY waits for its data.
    CopyBegins,
    /// The server has refused the request because its plans are outdated; the client is not sent the error.
    Refused,
    /// The server is ready, inside a transaction that is not allowed.
    InTransaction,
    /// The server is ready. The client was given the `ReadyForQuery`, or is to be given the bytes between the positions
    /// of [`Place`].
    Ready {
        /// A query of our own has been answered.
        was_ours: bool,
    },
}

/// A message, or a part of one.
#[derive(Clone, Copy)]
struct MessagePart<'b> {
    piece: &'b Piece,
    body: &'b [u8],
    /// The server was answering a query of our own when this piece came.
    was_ours: bool,
    /// It answers a message of our own that stands between messages of the client.
    is_hidden: bool,
}

/// How a message counts.
enum Counted {
    /// It is for the client, or answers a query of our own.
    Plain,
    /// It answers a message of our own that stands between messages of the client.
    Hidden,
    /// The description of parameters that has been held back is settled, and comes before it.
    BehindParameters,
}

/// What the client receives for a message that begins.
pub(super) enum Gives {
    /// The message as it comes.
    Message,
    /// Nothing.
    Nothing,
    /// These bytes.
    Instead(Box<[u8]>),
}

impl Answers<'_> {
    /// Processes bytes of a server from a position on, up to what concerns more than the two sessions.
    pub fn hear<'b>(
        &mut self,
        client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        bytes: &'b [u8],
        place: &mut Place,
        to_client: &mut impl ToClient,
    ) -> ServerEvent<'b> {
        let from = place.at;
        let heard = self.hear_messages(client, server, bytes, place, to_client);
        if let Some(tally) = &mut server.answer_tally {
            tally.bytes += (place.at - from) as u64;
        }
        heard
    }

    #[inline]
    fn hear_messages<'b>(
        &mut self,
        mut client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        bytes: &'b [u8],
        place: &mut Place,
        to_client: &mut impl ToClient,
    ) -> ServerEvent<'b> {
        let may_be_plain = self.may_be_plain(client.as_deref(), server);
        loop {
            if may_be_plain && let Some(heard) = server.take_plain(bytes, place) {
                return heard;
            }
            if place.at >= bytes.len() {
                return ServerEvent::All;
            }
            if let Some(heard) = self.take_next(client.as_deref_mut(), server, bytes, place, to_client) {
                return heard;
            }
        }
    }

    /// Processes the next message, or the part of it that has arrived.
    pub(super) fn take_next<'b>(
        &mut self,
        client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        bytes: &'b [u8],
        place: &mut Place,
        to_client: &mut impl ToClient,
    ) -> Option<ServerEvent<'b>> {
        match server.scanner.next(bytes, place.at, MESSAGE_BYTES_MAX) {
            Step::Piece(piece) => self.take(client, server, &piece, bytes, place, to_client),
            Step::More => {
                // The torn header is kept by the scanner and sent with the rest of its message.
                to_client.part(place.start..place.at);
                *place = Place { start: bytes.len(), at: bytes.len() };
                Some(ServerEvent::All)
            }
            Step::Bad { kind, .. } => {
                place.give_up_to(place.at, to_client);
                Some(ServerEvent::Unexpected { kind, what: "bad pkt header" })
            }
        }
    }

    fn take<'b>(
        &mut self,
        mut client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        piece: &Piece,
        bytes: &'b [u8],
        place: &mut Place,
        to_client: &mut impl ToClient,
    ) -> Option<ServerEvent<'b>> {
        let (kind, body) = (piece.kind, &bytes[piece.body.clone()]);
        let is_first = matches!(piece.part, Part::First { .. });
        let is_ready = kind == backend::READY_FOR_QUERY;
        // The status stands in the body of a `ReadyForQuery`, so the message is counted when that has arrived.
        let is_counted = if is_ready { piece.is_last() } else { is_first };
        let was_ours = server.exchange.answers_ours(kind);
        if kind == backend::ERROR_RESPONSE && client.is_none() && server.exchange.owes_nothing() {
            return Some(ServerEvent::FatalError(piece.is_whole().then_some(body)));
        }
        if is_ready && !was_ours {
            if server.reported_name.is_some() {
                place.give_up_to(piece.range.start, to_client);
                self.keep_name(client.as_deref_mut(), server, to_client);
            }
            let is_outside = TxStatus::parse(body) == Some(TxStatus::Idle);
            // Before the last answer it is not known yet what the request does that has these effects; and a batch without a Sync,
            // which has no last answer yet, may stand behind this one.
            let is_behind = |client: &ClientSession| {
                let number = server.exchange.unanswered();
                client.session_effects.as_ref().is_some_and(|effects| effects.sets_parameters_behind(number))
            };
            let is_last = |client: &&mut ClientSession| {
                (server.is_applied_along || client.effects_on_parameters().is_some())
                    && server.exchange.count_ready() == 1
                    && !is_behind(client)
            };
            if let Some(client) = client.as_deref_mut().filter(is_last)
                && let Some(vars) = self.vars_after(client, server, is_outside)
            {
                place.give_up_to(piece.range.start, to_client);
                to_client.send(client.becomes(vars, self.tracked, self.known).into());
            }
            if self.withholds && is_outside && !server.repeatable.is_refused() {
                to_client.part(place.start..piece.range.start);
                *place = Place { start: piece.range.end, at: piece.range.end };
                return Some(ServerEvent::Withheld);
            }
        }
        let mut part = MessagePart { piece, body, was_ours, is_hidden: false };
        if is_counted {
            match count(client.as_deref_mut(), server, part) {
                Ok(Counted::Plain) => {}
                Ok(Counted::Hidden) => part.is_hidden = true,
                Ok(Counted::BehindParameters) => {
                    let parameters = server.repeatable.take_parameters();
                    if let Some(parameters) = parameters.filter(|_| client.is_some()) {
                        place.give_up_to(piece.range.start, to_client);
                        to_client.send(parameters);
                    }
                }
                Err(ProtocolViolation) => {
                    place.give_up_to(piece.range.start, to_client);
                    return Some(ServerEvent::Unexpected { kind, what: "unexpected answer" });
                }
            }
        }
        if server.exchange.has_lost_steps() && client.is_some() {
            place.give_up_to(piece.range.start, to_client);
            return Some(ServerEvent::Lost);
        }
        let own = if is_first { self.begin(client.as_deref_mut(), server, part) } else { None };
        // The client may leave in the middle of a message.
        if server.fate == AnswerFate::Swallow || client.is_none() {
            to_client.part(place.start..piece.range.start);
            place.start = piece.range.end;
        }
        own.into_iter().for_each(|bytes| to_client.send(bytes));
        place.at = piece.range.end;
        if was_ours && is_endless(server, piece) {
            return Some(ServerEvent::Endless);
        }
        if is_ready {
            return piece.is_last().then(|| self.ready(client, server, part, place, to_client));
        }
        let has_due = piece.is_last() && server.exchange.has_due();
        let has_client = client.is_some();
        let heard = self.means(client, server, piece, body, was_ours, to_client);
        if has_due {
            give_due(has_client, server, place, to_client);
        }
        heard
    }

    /// Decides what happens to a message that begins. Returns bytes of our own that the client receives before the
    /// message, or instead of it.
    fn begin(
        &self,
        client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        part: MessagePart<'_>,
    ) -> Option<Box<[u8]>> {
        let gives = self.gives(client, server, part);
        server.fate = if matches!(gives, Gives::Message) { AnswerFate::Forward } else { AnswerFate::Swallow };
        match gives {
            Gives::Nothing => None,
            Gives::Instead(bytes) => Some(bytes),
            Gives::Message => carried_header(part.piece.part).map(|carried| server.scanner.header()[..carried].into()),
        }
    }

    fn gives(&self, client: Option<&mut ClientSession>, server: &ServerSession, part: MessagePart<'_>) -> Gives {
        let Some(client) = client else { return Gives::Nothing };
        let MessagePart { piece, body, was_ours, is_hidden } = part;
        let kind = piece.kind;
        if was_ours && is_answer(kind) || is_hidden {
            return Gives::Nothing;
        }
        let is_withheld = match kind {
            // A torn `ReadyForQuery` is given to the client whole when its status has arrived, because it may be withheld then.
            backend::READY_FOR_QUERY => {
                !piece.is_last()
                    || !matches!(piece.part, Part::First { carried: 0, .. })
                    || server.repeatable.is_refused()
            }
            backend::ERROR_RESPONSE => server.repeatable.is_refused(),
            // One that comes in parts is given to the client whole, when it is known what it reports.
            backend::PARAMETER_STATUS if !piece.is_whole() => true,
            backend::PARAMETER_STATUS => return self.gives_status(client, server, body),
            backend::NOTIFICATION_RESPONSE => self.is_listener || client.subscriptions.is_some(),
            // The client is given it with the next answer.
            backend::PARAMETER_DESCRIPTION => server.repeatable.is_sent() && piece.is_whole(),
            // The client was given it when it sent the statement itself.
            backend::NOTICE_RESPONSE => server.exchange.is_hiding(),
            _ => false,
        };
        if is_withheld {
            return Gives::Nothing;
        }
        let reworded = match kind == backend::ERROR_RESPONSE && piece.is_whole() {
            true => client.names.as_deref_mut().and_then(|names| names.reworded(body)),
            false => None,
        };
        match reworded {
            Some(body) => Gives::Instead(message(backend::ERROR_RESPONSE, &body)),
            None => Gives::Message,
        }
    }

    /// The server has sent `ReadyForQuery`.
    fn ready(
        &self,
        client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        MessagePart { piece, was_ours, .. }: MessagePart<'_>,
        place: &mut Place,
        to_client: &mut impl ToClient,
    ) -> ServerEvent<'static> {
        server.tells_lock = false;
        if server.repeatable.is_refused() {
            return ServerEvent::Refused;
        }
        let status = server.exchange.status();
        let is_open = server.exchange.owes_nothing() && status != TxStatus::Idle;
        if self.is_statement_mode && client.is_some() && is_open {
            // The client is not told that its transaction is open, but that it is not allowed.
            to_client.part(place.start..piece.range.start);
            place.start = place.at;
            return ServerEvent::InTransaction;
        }
        if !was_ours && client.is_some() && !matches!(piece.part, Part::First { carried: 0, .. }) {
            let mut ready = Vec::new();
            write::ready_for_query(&mut ready, status);
            to_client.send(ready.into());
        }
        if server.exchange.has_due() {
            give_due(client.is_some(), server, place, to_client);
        }
        ServerEvent::Ready { was_ours }
    }

    /// Handles what any other message means beyond being forwarded.
    fn means<'b>(
        &mut self,
        mut client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        piece: &Piece,
        body: &'b [u8],
        was_ours: bool,
        to_client: &mut impl ToClient,
    ) -> Option<ServerEvent<'b>> {
        let is_first = matches!(piece.part, Part::First { .. });
        match piece.kind {
            backend::NOTICE_RESPONSE if server.exchange.next_step().is_some() => {
                server.server_statements.noticed();
                None
            }
            backend::PARAMETER_STATUS if server.exchange.is_hiding() => None,
            backend::PARAMETER_STATUS => {
                if let Some(body) = server.gather(piece, body) {
                    let is_part = !piece.is_whole() && !was_ours;
                    match client.as_deref().filter(|_| is_part).map(|client| self.gives_status(client, server, &body)) {
                        Some(Gives::Message) => to_client.send(message(backend::PARAMETER_STATUS, &body)),
                        Some(Gives::Instead(own)) => to_client.send(own),
                        Some(Gives::Nothing) | None => {}
                    }
                    return self.parameter(client, server, &body);
                }
                None
            }
            backend::ERROR_RESPONSE => {
                let body = server.gather(piece, body)?;
                if let Some(tally) = server.answer_tally.as_mut().filter(|_| !was_ours) {
                    tally.fails(&body);
                }
                match error_for_client(client, server, &body) {
                    Some(_) if server.repeatable.is_refused() => None,
                    Some(state) => Some(ServerEvent::QueryFailed(state)),
                    None => Some(ServerEvent::Error(body)),
                }
            }
            backend::ROW_DESCRIPTION | backend::NO_DATA if server.server_statements.is_being_described() => {
                described::columns(client, server, piece, body);
                None
            }
            backend::PARAMETER_DESCRIPTION => {
                described::parameters(server, piece, body, was_ours);
                None
            }
            backend::COPY_IN_RESPONSE | backend::COPY_BOTH_RESPONSE if is_first => Some(ServerEvent::CopyBegins),
            // A row of which a part has been gathered is gathered to its end, even if nobody reads it any more.
            backend::DATA_ROW if was_ours && server.is_told_rows() => {
                let body = server.gather(piece, body)?;
                let probe = server.phase.probe_mut()?;
                probe.row(&body);
                probe.reads_functions().then_some(ServerEvent::Functions)
            }
            backend::DATA_ROW if server.tells_lock => {
                let session_effects = client.as_deref_mut().and_then(|client| client.session_effects.as_deref_mut());
                session_effects.into_iter().for_each(|effects| effects.lock_row(body));
                None
            }
            backend::NOTIFICATION_RESPONSE if server.fate == AnswerFate::Swallow => {
                server.gather(piece, body).map(ServerEvent::Notification)
            }
            backend::COMMAND_COMPLETE => {
                if was_ours && !server.exchange.is_ours() {
                    return client.is_some().then_some(ServerEvent::CaughtUp);
                }
                let tag = server.gather(piece, body)?;
                if let Some(tally) = server.answer_tally.as_mut().filter(|_| !was_ours) {
                    tally.completes(&tag);
                }
                tags::completed(client, server, &tag);
                tags::changes_catalog(&tag).then_some(ServerEvent::CatalogChange)
            }
            _ => None,
        }
    }
}

/// A message of ours for a client.
fn message(kind: u8, body: &[u8]) -> Box<[u8]> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    write::message(&mut message, kind, |out| out.extend_from_slice(body));
    message.into()
}

/// Counts a message, and settles steps and the unnamed statement.
fn count(
    mut client: Option<&mut ClientSession>,
    server: &mut ServerSession,
    part: MessagePart<'_>,
) -> Result<Counted, ProtocolViolation> {
    let MessagePart { piece, body, was_ours, .. } = part;
    let answered = server.exchange.answered(piece.kind, body)?;
    let mut counted = if answered == Answered::Hidden { Counted::Hidden } else { Counted::Plain };
    if server.repeatable.is_sent() && !was_ours {
        server.repeatable.answered(piece.kind, piece.is_whole().then_some(body));
        if server.repeatable.has_parameters_due() {
            counted = Counted::BehindParameters;
        }
    }
    if piece.kind == backend::READY_FOR_QUERY {
        server.server_statements.drops_end();
    } else if piece.kind == backend::ERROR_RESPONSE {
        let is_unread = piece.is_whole() && backend::is_conversion_failed(body);
        unnamed_fails(client.as_deref_mut(), server, is_unread);
    }
    if server.exchange.has_outcome() {
        server.server_statements.settle(&mut server.exchange, client.and_then(|client| client.names.as_deref_mut()));
    }
    Ok(counted)
}

/// Gives the client the answers of our own that are due now, if it has not left.
fn give_due(has_client: bool, server: &mut ServerSession, place: &mut Place, to_client: &mut impl ToClient) {
    place.give_up_to(place.at, to_client);
    let due = server.take_due();
    if has_client {
        to_client.send(due);
    }
}

/// Notes an error. Returns its SQLSTATE if it is for the client.
fn error_for_client(client: Option<&mut ClientSession>, server: &mut ServerSession, body: &[u8]) -> Option<[u8; 5]> {
    server.server_statements.refused(body);
    // A query of ours stays at the front until its `ReadyForQuery`, so this holds in however many parts its error came.
    let is_ours = server.exchange.is_ours();
    let client = client.filter(|_| !is_ours)?;
    if let Some(session_effects) = &mut client.session_effects {
        session_effects.effects_in_doubt();
        session_effects.unlistens.fails(server.exchange.count_ready() == 1);
    }
    let notice = Notice::parse(body);
    if notice.is_fatal() {
        server.last_words = Some(format!("{}: {}", notice.severity, notice.message).into());
    }
    Some(notice.sqlstate.as_bytes().try_into().unwrap_or(*b"XX000"))
}

/// Counts what a server answers to a query of our own. Returns whether that is more than any answer may be.
fn is_endless(server: &mut ServerSession, piece: &Piece) -> bool {
    let bytes = piece.range.len();
    match piece.kind {
        backend::NOTIFICATION_RESPONSE => {}
        kind if kind == backend::READY_FOR_QUERY || !server.exchange.is_ours() => server.answer_bytes = 0,
        backend::DATA_ROW => server.answer_bytes += bytes,
        backend::ERROR_RESPONSE if piece.is_last() => server.answer_bytes += OWN_ANSWER_BYTES_MAX / ERRORS_MAX,
        _ => server.answer_bytes += bytes * WORDS_TIMES,
    }
    server.answer_bytes > OWN_ANSWER_BYTES_MAX
}

/// How long the answer to a query of our own may be: a genuine one has the names of 100,000 functions and 16 MiB of their texts.
pub const OWN_ANSWER_BYTES_MAX: usize = 64 << 20;
/// The weight of bytes that are not rows: a genuine answer has few of them,
const WORDS_TIMES: usize = 64;
/// and no more than one error, which is written to the log.
const ERRORS_MAX: usize = 16;

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
