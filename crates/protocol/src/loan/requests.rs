//! Processes the messages that a client sends to its server.
//!
//! Always true: messages that are not replaced go to the server as received, in one span if nothing is inserted; the
//! exchange counts every message before it goes to the server.
//! Not here: when a client may send something to a server at all, and the sending (`worker`).

use std::ops::Range;
use std::rc::Rc;

use base::{Key, Time};
use wire::backend::TxStatus;
use wire::frame::{HEADER_BYTES, Part};
use wire::{Piece, Scanner, Step, frontend, write};

use super::client_session::{ClientSession, RequestFate};
use super::reading::{Reading, Texts, may_name_ours};
use super::server_session::ServerSession;
use super::statements::{Following, Taken};
use crate::exchange::Asked;
use crate::fault::Fault;
use crate::planted::{begins_query, has_plain_ways, leave_to_the_rest};
use crate::prepared::{Bytes, CatalogVersion, Kept, StatementRegistry, Tally, may_be_refused};
use crate::state::{Asking, FunctionCatalog, PinRules, Unseen};
use crate::vars::Tracked;

/// Takes the bytes for the server, in the order in which they are to be sent.
pub trait ToServer {
    /// A part of the client's bytes, which may be empty.
    fn part(&mut self, range: Range<usize>);
    /// Bytes of our own.
    fn send(&mut self, bytes: Bytes);
}

/// What is needed beside the two sessions to process the bytes of a client.
#[derive(Debug)]
pub struct Requests<'a> {
    /// The time.
    pub now: Time,
    /// The client.
    pub client: Key,
    /// The longest message that is accepted, by its length word.
    pub length_max: u32,
    /// `max_prepared_statements`; 0 where statements do not follow clients.
    pub statements_max: usize,
    /// `reuse_unnamed_statements`.
    pub reuses_unnamed: bool,
    /// `disable_pqexec`.
    pub refuses_queries: bool,
    /// Each request waits until the previous one is answered, because transactions are counted (rate limits).
    pub one_by_one: bool,
    /// Session state follows the clients of the pool.
    pub follows: bool,
    /// What is done about functions that may have changed the session unseen.
    pub unseen: Unseen,
    /// What clients of the pool may hold on its servers; None where session state does not follow them, or nothing is refused.
    pub refusals: Option<Rc<PinRules>>,
    /// The number of the user that the server is logged in as.
    pub server_user: u32,
    /// How often the catalog of the database has changed.
    pub changes: u64,
    /// The statements of all clients.
    pub statement_registry: &'a mut StatementRegistry,
    /// The texts that have been classified so far.
    pub texts: &'a mut Texts,
    /// The parameters that PostgreSQL reports.
    pub tracked: &'a Tracked,
    /// What is known of the database's functions and settings.
    pub function_catalog: &'a mut FunctionCatalog,
    /// The last scope number given to such knowledge.
    pub scopes: &'a mut u32,
}

/// The result of processing bytes of a client.
#[derive(PartialEq, Debug)]
pub struct Forwarded {
    /// The part that is still to be sent to the server, behind everything that went to [`ToServer`].
    pub unsent: Range<usize>,
    /// What to do after that.
    pub next_step: NextStep,
    /// The rest waits for answers, because the server owes too many, or because the next request is counted by itself.
    pub waits: bool,
    /// How many requests began while nothing was owed to the client.
    pub begun: u32,
    /// The counters of prepared statements.
    pub tally: Tally,
    /// The client begins to create functions, or objects that call functions.
    pub makes_functions: bool,
    /// Everything went to the server as received, and the server owed nothing before; a state probe may be pipelined behind it.
    pub is_alone: bool,
}

/// What to do when the bytes of a client have been sent.
#[derive(PartialEq, Debug)]
pub enum NextStep {
    /// Nothing: all bytes have been processed.
    Go,
    /// The bytes from this position on wait.
    Hold(usize),
    /// These bytes, which replace the rest, wait.
    HoldInstead(Vec<u8>),
    /// These bytes replace the rest, and are processed next.
    Instead(Vec<u8>),
    /// The client leaves (`Terminate`).
    Leave,
    /// The client cannot continue.
    Fail(Fault),
}

/// The progress through the bytes of a client.
pub(super) struct Progress<'b, S> {
    pub(super) bytes: &'b [u8],
    /// The first byte that has not been sent.
    start: usize,
    /// The first byte that has not been processed.
    at: usize,
    begun: u32,
    to_server: &'b mut S,
}

impl<S: ToServer> Progress<'_, S> {
    /// Sends the bytes before a message.
    pub(super) fn send_before(&mut self, piece: &Piece) {
        self.to_server.part(self.start..piece.range.start);
        self.start = piece.range.start;
    }

    /// Sends bytes of our own before a message.
    pub(super) fn insert(&mut self, piece: &Piece, own: impl IntoIterator<Item = Bytes>) {
        self.send_before(piece);
        own.into_iter().for_each(|bytes| self.to_server.send(bytes));
    }
}

/// The stages that process each message, in this order.
struct Stages<'a> {
    refusals: Option<Rc<PinRules>>,
    reading: Option<Reading<'a>>,
    following: Following<'a>,
    client_key: Key,
    length_max: u32,
    refuses_queries: bool,
    /// The next message was read when it came for the first time, and has waited since.
    has_read: bool,
}

impl Requests<'_> {
    /// Processes bytes that the client may send to its server, message by message.
    pub(super) fn take_each(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        bytes: &[u8],
        to_server: &mut impl ToServer,
    ) -> Forwarded {
        let follows = self.follows;
        let function_catalog = (&mut *self.function_catalog, self.server_user, self.unseen, &mut *self.scopes);
        let following = Following {
            max: self.statements_max,
            follows,
            reuses: self.reuses_unnamed,
            statement_registry: self.statement_registry,
            catalog_version: CatalogVersion { now: self.now, changes: self.changes },
            tracked: self.tracked,
            tally: Tally::default(),
        };
        let mut stages = Stages {
            refusals: self.refusals.take(),
            reading: follows.then(|| Reading::new(self.texts, function_catalog, client, self.tracked, self.now)),
            following,
            client_key: self.client,
            length_max: self.length_max,
            refuses_queries: self.refuses_queries,
            has_read: server.server_statements.has_waiting_bind(),
        };
        server.is_verified = false;
        let is_between = follows && server.exchange.owes_nothing() && server.exchange.status() == TxStatus::Idle;
        let is_between = is_between && client.session_effects.as_mut().is_none_or(|effects| effects.begins_request());
        keep_for_again(client, server, bytes, stages.following.kept());
        let mut progress = Progress { bytes, start: 0, at: 0, begun: 0, to_server };
        let (mut waits, mut next_step) = (false, NextStep::Go);
        while progress.at < bytes.len() && (client.scanner.is_in_body() || !server.exchange.is_full()) {
            if let passed @ 1.. = stages.pass(client, server, &bytes[progress.at..]) {
                progress.at += passed;
                continue;
            }
            waits = self.one_by_one && client.next_waits(&server.exchange, bytes[progress.at])
                || client.unnamed.is_in_doubt(&server.exchange) && client.unnamed_waits(&bytes[progress.at..])
                || client.names_wait(&server.exchange, bytes[progress.at]);
            if waits {
                break;
            }
            let piece = match client.scanner.next(bytes, progress.at, self.length_max) {
                Step::Piece(piece) => piece,
                Step::More => {
                    // The torn header is kept by the scanner and sent with the rest of its message.
                    progress.to_server.part(progress.start..progress.at);
                    progress.start = bytes.len();
                    break;
                }
                Step::Bad { .. } => {
                    next_step = NextStep::Fail(Fault::BadHeader { header: *client.scanner.header() });
                    break;
                }
            };
            if let Err(end) = stages.take(client, server, &mut progress, &piece) {
                next_step = end;
                break;
            }
        }
        let Progress { start, at, begun, .. } = progress;
        waits |= server.exchange.is_full();
        if next_step == NextStep::Go && waits && at < bytes.len() {
            next_step = NextStep::Hold(at);
        }
        let mut end = bytes.len();
        if next_step != NextStep::Go {
            end = at;
            if matches!(next_step, NextStep::Hold(_) | NextStep::HoldInstead(_)) {
                waits = true;
                // A server that refuses the part of a request that it has skips all up to the Sync, which waits.
                server.repeatable.forget();
            }
        }
        // A client that creates functions repeatedly is reported once, until its transaction has ended.
        let makes = stages.reading.is_some_and(|reading| reading.makes_functions);
        let makes_functions = makes && !server.makes_functions;
        server.makes_functions |= makes_functions;
        let is_alone = start == 0 && end == bytes.len() && is_between;
        let tally = stages.following.tally;
        Forwarded { unsent: start..end, next_step, waits, begun, tally, makes_functions, is_alone }
    }
}

impl Stages<'_> {
    /// Counts the messages that end a batch, each a [`plain_part`], where the stages have nothing else to do for them. Returns
    /// how many bytes these messages have.
    #[inline]
    fn pass(&self, client: &mut ClientSession, server: &mut ServerSession, bytes: &[u8]) -> usize {
        let Some(mut next) = plain_part(bytes).filter(|_| self.may_pass(client, server)) else { return 0 };
        let mut last;
        let mut end = 0;
        loop {
            let (kind, length) = next;
            server.exchange.asked_in_batch(kind);
            (last, end) = (end, end + length);
            // What stands behind a Sync belongs to another batch.
            if kind == frontend::SYNC || server.exchange.is_full() {
                break;
            }
            let Some(more) = plain_part(&bytes[end..]) else { break };
            next = more;
        }
        client.scanner.pass(&bytes[last..]);
        client.fate = RequestFate::Forward;
        end
    }

    /// Whether the stages have nothing to do for a [`plain_part`] but to count it.
    #[inline]
    fn may_pass(&self, client: &ClientSession, server: &ServerSession) -> bool {
        let ServerSession { exchange, .. } = server;
        // The first message of a batch begins a request, and in a COPY or behind an error it means something else.
        let is_in_batch = exchange.is_in_batch() && !self.has_read && self.refusals.is_none();
        let is_plain = client.session_effects.is_none()
            && client.subscriptions.is_none()
            && client.scanner.is_between()
            && client.fate != RequestFate::Collect
            && client.torn_text.is_none();
        let is_settled = || {
            !client.unnamed.is_in_doubt(exchange)
                && client.names.as_ref().is_none_or(|names| names.are_at_rest(exchange))
        };
        has_plain_ways() && is_in_batch && is_plain && self.length_max >= PLAIN_PART_LENGTH_MAX && is_settled()
    }

    /// Processes a framed message, or a part of one.
    ///
    /// # Errors
    /// Returns what to do instead of continuing.
    fn take(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        progress: &mut Progress<'_, impl ToServer>,
        piece: &Piece,
    ) -> Result<(), NextStep> {
        let bytes = progress.bytes;
        if let (Some(rules), Some(reading)) = (&self.refusals, &mut self.reading)
            && let Some(mut message) = reading.refused(rules, client, piece, bytes)
        {
            message.extend_from_slice(&bytes[piece.range.end..]);
            return Err(NextStep::Instead(message));
        }
        if self.following.deallocates(client, server, progress, piece) {
            progress.begun += 1;
            (progress.start, progress.at) = (piece.range.end, piece.range.end);
            return Ok(());
        }
        if std::mem::take(&mut self.has_read) {
            server.server_statements.comes_again(&server.exchange);
        } else {
            self.read(client, server, progress, piece);
        }
        if self.refuses_queries && piece.kind == frontend::QUERY && matches!(piece.part, Part::First { .. }) {
            client.fate = RequestFate::Drop;
            return Err(NextStep::Fail(Fault::QueryDisallowed));
        }
        let was_at_rest = server.exchange.owes_client_nothing();
        match self.following.take(client, server, progress, piece) {
            Taken::Not => {}
            Taken::Counted => {
                progress.at = piece.range.end;
                progress.begun += u32::from(was_at_rest && !server.exchange.owes_client_nothing());
                return Ok(());
            }
            Taken::UpTo(here) => {
                (progress.start, progress.at) = (here, piece.range.end);
                progress.begun += u32::from(was_at_rest && !server.exchange.owes_client_nothing());
                return Ok(());
            }
            Taken::Waits(instead) => {
                progress.begun += u32::from(was_at_rest && !server.exchange.owes_client_nothing());
                // The message begins anew when it comes again.
                (client.scanner, client.fate) = (Scanner::default(), RequestFate::Forward);
                return Err(instead.map_or(NextStep::Hold(piece.range.start), NextStep::HoldInstead));
            }
            Taken::Wrong(why) => return Err(NextStep::Fail(why)),
        }
        if let Part::First { carried, body_bytes } = piece.part {
            if piece.kind == frontend::TERMINATE {
                if !server.exchange.answers_first() {
                    return Err(NextStep::Leave);
                }
                // PostgreSQL reads it when the requests before it are answered. What stands behind it is never read.
                (client.scanner, client.fate) = (Scanner::default(), RequestFate::Forward);
                let mut terminate = Vec::new();
                write::bare(&mut terminate, frontend::TERMINATE);
                return Err(NextStep::HoldInstead(terminate));
            }
            count(client, server, counted(server, piece.kind, body_bytes)).map_err(NextStep::Fail)?;
            let begins = was_at_rest && !server.exchange.owes_client_nothing();
            progress.begun += u32::from(begins_query(begins));
            if carried > 0 && client.fate == RequestFate::Forward {
                let torn = &client.scanner.header()[..usize::from(carried)];
                progress.to_server.send(Bytes::Own(torn.to_vec()));
            }
        }
        progress.start = dropped(client, piece, progress.start, progress.to_server);
        progress.at = piece.range.end;
        Ok(())
    }

    /// Notes what a message may do to the session, and sends what the server needs before it.
    fn read(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        progress: &mut Progress<'_, impl ToServer>,
        piece: &Piece,
    ) {
        let Some(reading) = &mut self.reading else { return };
        if self.following.max == 0 && may_name_ours(piece, progress.bytes) {
            server.setting_statements.doubt();
        }
        reading.read(client, self.following.statement_registry, piece, progress.bytes);
        server.placeholders |= reading.placeholders;
        if let Some(effects) = &mut client.session_effects {
            effects.note_place(server.exchange.number());
        }
        if let Some(class) = reading.says_names.take() {
            self.following.brings(client, server, progress, piece, &class);
        } else if piece.kind == frontend::EXECUTE
            && matches!(piece.part, Part::First { .. })
            && let Some(names) = &mut client.names
        {
            names.executes(server.exchange.number());
        }
        if let Some(asking) = client.counting.asking() {
            reading.note_asker(client.user);
            let is_between = server.exchange.owes_nothing() && server.exchange.is_proven();
            if asking == Asking::First && is_between && server.sequence_owner.are_others() {
                progress.send_before(piece);
                server.forget_sequences(self.client_key, progress.to_server);
            }
        }
    }
}

/// Keeps a request that begins when nothing is owed, if the server may refuse it only because its plans are outdated.
pub(super) fn keep_for_again(client: &ClientSession, server: &mut ServerSession, bytes: &[u8], kept: Kept) {
    let has_statements = client.overrides.as_ref().is_some_and(|overrides| !overrides.statements().is_empty());
    if server.repeatable.is_sent() {
        server.repeatable.forget();
    } else if may_be_refused(bytes, kept, has_statements)
        && server.exchange.owes_client_nothing()
        && server.exchange.status() == TxStatus::Idle
        && !client.is_torn()
    {
        server.repeatable.keep(bytes);
    }
}

/// The longest [`plain_part`], by its length word.
const PLAIN_PART_LENGTH_MAX: u32 = 9;

/// The kind and the length of the first message, if it is one of those that end nearly every batch: a Describe or an Execute of
/// the unnamed portal, or a Sync.
#[inline]
fn plain_part(bytes: &[u8]) -> Option<(u8, usize)> {
    let (&[kind, ref length @ ..], body) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let length = u32::from_be_bytes(*length);
    let is_plain = match kind {
        frontend::SYNC => length == 4,
        frontend::DESCRIBE => length == 6 && body.starts_with(b"P\0"),
        frontend::EXECUTE => length == PLAIN_PART_LENGTH_MAX && body.len() >= 5 && body[0] == 0,
        _ => false,
    };
    is_plain.then_some((kind, 1 + length as usize))
}

/// As which kind a message counts. PostgreSQL refuses a Flush that has a body, as it would refuse a Describe, unless it reads
/// a COPY.
fn counted(server: &ServerSession, kind: u8, body_bytes: u32) -> u8 {
    let is_refused = kind == frontend::FLUSH && body_bytes > 0 && !server.exchange.is_copying_in();
    if is_refused { frontend::DESCRIBE } else { kind }
}

/// Counts the beginning of a message in the exchange.
fn count(client: &mut ClientSession, server: &mut ServerSession, kind: u8) -> Result<(), Fault> {
    client.fate = match server.exchange.asked(kind) {
        Asked::Forward => RequestFate::Forward,
        Asked::Drop => RequestFate::Drop,
        Asked::Unexpected => {
            client.fate = RequestFate::Drop;
            let in_copy = server.exchange.is_copying_in();
            return Err(if in_copy { Fault::UnexpectedInCopy } else { Fault::UnknownMessage });
        }
    };
    Ok(())
}

/// Leaves out a part that nobody receives. Returns the position from which the rest is unsent.
fn dropped(client: &ClientSession, piece: &Piece, start: usize, to_server: &mut impl ToServer) -> usize {
    if client.fate == RequestFate::Drop {
        to_server.part(start..piece.range.start);
        return piece.range.end;
    }
    leave_to_the_rest(piece, |range| to_server.part(range));
    start
}
