//! The session of one server: what it was sent and what it answered, whichever client it has.
//!
//! Always true: the settings and prepared statements recorded here were reported by the server, or were sent to it.
//! Not here: how the server was reached, what its pool wants of it, and when it is closed (`worker`).

use std::borrow::Cow;
use std::rc::Rc;

use base::{Key, Time};
use serde::{Deserialize, Serialize};
use wire::{Piece, Scanner, backend, write};

use super::answer_tally::AnswerTally;
use super::loan_phase::LoanPhase;
use super::requests::ToServer;
use super::set_parameters::SetParameters;
use crate::exchange::Exchange;
use crate::prepared::{Bytes, RepeatableRequest, ServerStatements};
use crate::state::{Overrides, Preparation, SettingStatements};
use crate::vars::Vars;

/// The session of one server.
#[derive(Debug, Default)]
pub struct ServerSession {
    /// Who owes whom how many answers.
    pub exchange: Exchange,
    /// The prepared statements that the server has.
    pub server_statements: ServerStatements,
    /// The parameters that the server reports.
    pub vars: Rc<Vars>,
    /// Those with which its session began, to which the server goes back by a reset.
    pub initial_vars: Rc<Vars>,
    /// Which of them the session has set.
    pub set_parameters: SetParameters,
    /// The settings of the session, where session state follows clients.
    pub overrides: Option<Rc<Overrides>>,
    /// The custom settings (names with a dot) that the session has ever had (`pool::Fingerprint::placeholders`).
    pub placeholders: u64,
    /// Our prepared statements that set these on the server.
    pub setting_statements: SettingStatements,
    /// The queries, in order, that create or drop statements prepared by SQL; they are sent last before a loan.
    pub preparing: Box<[Preparation]>,
    /// The open transaction has changed the catalog.
    pub has_changed_catalog: bool,
    /// The open transaction may have created functions.
    pub makes_functions: bool,
    /// The value of [`FunctionCatalog::creations`](crate::state::FunctionCatalog::creations) when the server was asked for
    /// its functions.
    pub creations_asked: u64,
    /// The client's request, as long as it may have to be sent again.
    pub repeatable: RepeatableRequest,
    /// The last `application_name` that the server reported, if the client's name was sent along with a request and the
    /// server has not reported one since.
    pub reported_name: Option<Box<str>>,
    /// Settings were sent along with the request that the server is answering, and the server reports some of them.
    pub is_applied_along: bool,
    /// The first query that applies session state resets a timeout of the previous session that may cancel this very query.
    pub was_hasty: bool,
    /// When the session state of the current client was sent, the session had state of another.
    pub had_others_state: bool,
    /// Which clients' sequence values the session knows.
    pub sequence_owner: SequenceOwner,
    /// Until when the server stays with its client because of sequence values that the client has drawn.
    pub sequences_until: Option<Time>,
    /// The phase of the loan.
    pub phase: LoanPhase,
    /// A row of the current answer may contain the result of an advisory lock call.
    pub tells_lock: bool,
    /// Since the client's last message, a state probe was compared with the session state that was known already
    /// (`session_verify`).
    pub is_verified: bool,
    /// Where the messages of the server begin and end.
    pub scanner: Scanner,
    /// What happens to the remaining parts of the current message.
    pub fate: AnswerFate,
    /// The received parts of a small message that we read.
    pub collected: Vec<u8>,
    /// The weighted size, in bytes, of the answer to the current query of our own.
    pub answer_bytes: usize,
    /// The severity and message of the fatal `ErrorResponse` that the server has sent its client.
    pub last_words: Option<Box<str>>,
    /// Cancel requests that have been sent to the server and may not have arrived yet.
    pub cancels_sent: u32,
    /// The tally of the answer to the current request, if requests are observed.
    pub answer_tally: Option<Box<AnswerTally>>,
}

/// What happens to all parts of a message from a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum AnswerFate {
    /// The client receives it.
    Forward,
    /// It is discarded.
    #[default]
    Swallow,
}

/// The clients that may have drawn the sequence values known to a server's session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SequenceOwner {
    /// No known client.
    #[default]
    Nobody,
    /// This client.
    One(Key),
    /// More than one client.
    Several,
}

impl SequenceOwner {
    /// Notes that the server is lent to this client.
    pub fn come(&mut self, client: Key) {
        *self = match *self {
            Self::Nobody => Self::One(client),
            Self::One(one) if one == client => Self::One(one),
            _ => Self::Several,
        };
    }

    /// Whether clients other than the current one may be among them.
    #[must_use]
    pub fn are_others(self) -> bool {
        self == Self::Several
    }
}

impl ServerSession {
    /// The session of a server that reports these parameters.
    #[must_use]
    pub fn new(vars: Rc<Vars>) -> Self {
        Self { initial_vars: vars.clone(), vars, ..Self::default() }
    }

    /// The server's session begins with these parameters.
    pub fn begins_with(&mut self, vars: Rc<Vars>) {
        self.initial_vars = vars.clone();
        self.vars = vars;
    }

    /// Whether a message to the client has begun and not ended.
    #[must_use]
    pub fn is_in_message(&self) -> bool {
        self.scanner.is_in_body() && self.fate == AnswerFate::Forward
    }

    /// Whether the server has sent its client a fatal error, completely.
    #[must_use]
    pub fn has_said_all(&self) -> bool {
        self.last_words.is_some() && !self.is_in_message()
    }

    /// Whether `DataRow` messages that answer our own queries are read.
    #[must_use]
    pub fn is_told_rows(&self) -> bool {
        self.phase.probe().is_some() || !self.collected.is_empty()
    }

    /// Returns the body of a message that concerns us once it is complete; of a body above the limit of its kind, the beginning.
    pub(super) fn gather<'b>(&mut self, piece: &Piece, body: &'b [u8]) -> Option<Cow<'b, [u8]>> {
        if piece.is_last() && self.collected.is_empty() {
            return Some(Cow::Borrowed(body));
        }
        let most = if piece.kind == backend::DATA_ROW { ROW_BYTES_MAX } else { SMALL_BYTES_MAX };
        let room = most.saturating_sub(self.collected.len());
        self.collected.extend_from_slice(&body[..body.len().min(room)]);
        piece.is_last().then(|| Cow::Owned(std::mem::take(&mut self.collected)))
    }

    /// Returns the answers that we produce for the client ourselves, now that everything before them has been answered.
    pub fn take_due(&mut self) -> Box<[u8]> {
        let mut out = Vec::new();
        while let Some(kind) = self.exchange.due() {
            write::bare(&mut out, kind);
        }
        out.into()
    }

    /// Makes the server discard the sequence values of other clients, ahead of a message of its client.
    pub(super) fn forget_sequences(&mut self, client: Key, to_server: &mut impl ToServer) {
        let mut query = Vec::new();
        write::query(&mut query, DISCARD_SEQUENCES);
        self.exchange.asks_ours();
        self.repeatable.forget();
        self.sequence_owner = SequenceOwner::One(client);
        to_server.send(Bytes::Own(query));
    }
}

/// The longest row that is read: a function's text may be long.
const ROW_BYTES_MAX: usize = 1 << 20;
/// The longest parameter or error that is read; the rest of a longer one is ignored.
pub(super) const SMALL_BYTES_MAX: usize = 65_536;
/// The query that makes a server forget all sequence values drawn in its session. `currval` and `lastval` fail until new
/// ones are drawn (SQLSTATE 55000).
pub const DISCARD_SEQUENCES: &str = "DISCARD SEQUENCES";

#[cfg(test)]
mod tests {
    use wire::frontend;

    use super::*;
    use crate::state::Probe;
    use crate::vars::Tracked;

    fn key(index: u32) -> Key {
        Key::first(index)
    }

    fn session() -> ServerSession {
        ServerSession::new(Rc::new(Vars::new(&Tracked::new([]))))
    }

    /// A session of a server that has sent the first part of a message.
    fn session_in_a_message(fate: AnswerFate) -> ServerSession {
        let mut session = session();
        session.scanner.next(b"D\0\0\0\x10abc", 0, 1000);
        session.fate = fate;
        session
    }

    #[test]
    fn numbers_belong_to_others_when_a_second_client_has_come() {
        let mut owner = SequenceOwner::Nobody;
        assert!(!owner.are_others());
        for (client, expected) in [
            (1, SequenceOwner::One(key(1))),
            (1, SequenceOwner::One(key(1))),
            (2, SequenceOwner::Several),
            (1, SequenceOwner::Several),
        ] {
            owner.come(key(client));
            assert_eq!(owner, expected);
        }
        assert!(owner.are_others() && !SequenceOwner::One(key(1)).are_others());
    }

    #[test]
    fn a_server_is_in_a_message_while_the_rest_of_one_is_to_come_that_its_client_gets() {
        assert!(!session().is_in_message());
        assert!(session_in_a_message(AnswerFate::Forward).is_in_message());
        assert!(!session_in_a_message(AnswerFate::Swallow).is_in_message());
    }

    #[test]
    fn a_server_has_said_all_when_its_last_error_has_been_told_to_its_end() {
        assert!(!session().has_said_all());
        for (fate, has_said_all) in [(AnswerFate::Forward, false), (AnswerFate::Swallow, true)] {
            let mut session = session_in_a_message(fate);
            assert!(!session.has_said_all());
            session.last_words = Some("FATAL: bye".into());
            assert_eq!(session.has_said_all(), has_said_all);
        }
    }

    #[test]
    fn rows_are_read_while_the_server_is_asked_and_up_to_the_end_of_the_last() {
        let mut session = session();
        assert!(!session.is_told_rows());
        session.collected.push(1);
        assert!(session.is_told_rows());
        session.collected.clear();
        session.phase = LoanPhase::Probing(Box::new(Probe::of_nothing()));
        assert!(session.is_told_rows());
    }

    #[test]
    fn a_new_session_owes_nothing_and_has_nothing() {
        let session = session();
        assert!(session.exchange.may_end() && session.phase.kind() == super::super::loan_phase::LoanPhaseKind::Free);
        assert_eq!(
            (session.placeholders, session.creations_asked, session.answer_bytes, session.cancels_sent),
            (0, 0, 0, 0)
        );
        let flags = [
            session.has_changed_catalog,
            session.makes_functions,
            session.is_applied_along,
            session.was_hasty,
            session.had_others_state,
            session.tells_lock,
            session.is_verified,
        ];
        assert_eq!((flags, &session.last_words), ([false; 7], &None));
    }

    #[derive(Default)]
    struct Sent(Vec<u8>);

    impl ToServer for Sent {
        fn part(&mut self, _: std::ops::Range<usize>) {}

        fn send(&mut self, bytes: Bytes) {
            if let Bytes::Own(bytes) = bytes {
                self.0.extend(bytes);
            }
        }
    }

    #[test]
    fn a_server_that_forgets_numbers_is_asked_so_and_knows_those_of_its_client_only() {
        let (mut session, mut sent) = (session(), Sent::default());
        session.exchange.asked(frontend::QUERY);
        session.repeatable.keep(b"Q");
        session.sequence_owner = SequenceOwner::Several;
        session.forget_sequences(key(7), &mut sent);
        let mut query = Vec::new();
        write::query(&mut query, "DISCARD SEQUENCES");
        assert_eq!(sent.0, query);
        assert_eq!(session.sequence_owner, SequenceOwner::One(key(7)));
        assert!(!session.repeatable.is_sent(), "what stands behind our query is not what was kept");
        assert_eq!(session.exchange.count_ready(), 2);
    }
}
