//! A request that a server refuses only because a plan is outdated: whether it is to be sent again, and which part of it.
//!
//! Always true: a request that is sent again stood outside a transaction, has changed nothing, and nothing of its answer
//! has reached the client; the new answer describes its rows to the client, which may rely on an earlier description that
//! holds no more.
//! Not here: how the server is made to drop its prepared statements (`worker::data::repeat_request`).

use wire::{backend, frontend};

use crate::planted::answers_request;
use crate::request::{is_one_request, messages};

/// The request that a server works on, where it may have to be sent again.
#[derive(Debug, Default)]
pub struct RepeatableRequest {
    step: Step,
    bytes: Vec<u8>,
    /// A Parse in it was not sent, since the server had the statement.
    relies_on_earlier_parse: bool,
    /// The `ParameterDescription` that the client is given with the next answer, unless that is the refusal.
    parameters: Option<Box<[u8]>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    #[default]
    Nothing,
    /// It was sent, and nothing behind it.
    Sent,
    /// It will not be sent again, and the client has not been given the description of its parameters yet.
    Described,
    /// The server has refused it, and has not sent `ReadyForQuery` yet.
    Refused,
    /// The server is discarding what it has prepared.
    Deallocating,
    /// It is about to be sent again, and whatever is answered then goes to the client.
    Last,
}

impl RepeatableRequest {
    /// A request is sent to a server that owes nothing and is in no transaction.
    pub fn keep(&mut self, bytes: &[u8]) {
        if self.step == Step::Last {
            self.step = Step::Nothing;
            return;
        }
        (self.step, self.relies_on_earlier_parse, self.parameters) = (Step::Sent, false, None);
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// A Parse of the request is not sent, since the server has the statement: tables may have changed since that was
    /// prepared, and the client has never seen it.
    pub(crate) fn relies_on_earlier_parse(&mut self) {
        self.relies_on_earlier_parse = true;
    }

    /// The server describes the parameters of a statement: PostgreSQL does so before it looks whether the plan is outdated.
    /// The client is given that later (`exec_describe_statement_message` in `tcop/postgres.c`).
    pub(crate) fn hold_parameters(&mut self, message: Box<[u8]>) {
        self.parameters = Some(message);
    }

    /// Whether a description of parameters is due, because the server has just sent the next message, or is void.
    pub(crate) fn has_parameters_due(&self) -> bool {
        self.step != Step::Sent && self.parameters.is_some()
    }

    /// What the client is to be given before the message that the server has just sent.
    pub(crate) fn take_parameters(&mut self) -> Option<Box<[u8]>> {
        let is_refused = self.step == Step::Refused;
        self.parameters.take().filter(|_| !is_refused)
    }

    /// The request will not be sent again.
    pub fn forget(&mut self) {
        self.step = if self.parameters.is_some() { Step::Described } else { Step::Nothing };
    }

    /// Whether a request was sent of whose outcome nothing is known yet, or of which the client has not been given all.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        matches!(self.step, Step::Sent | Step::Described)
    }

    /// Whether answers that are no errors concern it: the request was refused, or the client is given a description later.
    #[must_use]
    pub(crate) fn is_looked_at(&self) -> bool {
        self.is_refused() || self.parameters.is_some()
    }

    /// Whether the request is to be sent again.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.step == Step::Refused
    }

    /// The server is told to drop its prepared statements. Returns what is to be sent then.
    pub fn begin_deallocation(&mut self) -> Vec<u8> {
        self.step = Step::Deallocating;
        std::mem::take(&mut self.bytes)
    }

    /// Returns whether the server was told to drop its prepared statements, and has done so.
    pub fn end_deallocation(&mut self) -> bool {
        let is_done = self.step == Step::Deallocating;
        if is_done {
            self.step = Step::Last;
        }
        is_done
    }

    /// Whether this error tells of a plan that is outdated: it says so, or the statement was prepared before this request and
    /// cannot be analysed any more.
    fn is_outdated(&self, error: &[u8]) -> bool {
        backend::is_plan_outdated(error)
            || self.relies_on_earlier_parse && is_analysis_failed(error) && prepares_one(&self.bytes)
    }

    /// The server sends a message of this kind; `error` is the body of an error, if it has arrived completely.
    #[inline]
    pub fn answered(&mut self, kind: u8, error: Option<&[u8]>) {
        match self.step {
            Step::Described => self.step = Step::Nothing,
            Step::Sent => self.begins(kind, error),
            Step::Nothing | Step::Refused | Step::Deallocating | Step::Last => {}
        }
    }

    /// The server begins to answer the request, or refuses it.
    fn begins(&mut self, kind: u8, error: Option<&[u8]>) {
        match kind {
            backend::PARSE_COMPLETE
            | backend::CLOSE_COMPLETE
            | backend::NOTICE_RESPONSE
            | backend::PARAMETER_STATUS
            | backend::PARAMETER_DESCRIPTION
            | backend::NOTIFICATION_RESPONSE => {}
            backend::ERROR_RESPONSE
                if error.is_some_and(|error| self.is_outdated(error))
                    && let Some(from) = refused_from(&self.bytes) =>
            {
                self.bytes.drain(..from);
                self.step = Step::Refused;
            }
            _ if answers_request(kind) => self.step = Step::Nothing,
            _ => {}
        }
    }
}

/// Whether a request gives one statement, and none that the error of another Parse would destroy.
fn prepares_one(bytes: &[u8]) -> bool {
    messages(bytes).filter(|(_, kind, _)| matches!(*kind, frontend::PARSE | frontend::CLOSE)).count() == 1
}

/// Whether PostgreSQL refuses so a statement that does not fit the tables of its database.
fn is_analysis_failed(error: &[u8]) -> bool {
    let state = error.split(|&byte| byte == 0).find_map(|field| field.strip_prefix(b"C"));
    state.is_some_and(|state| state.starts_with(b"42") && state != PERMISSION_DENIED)
}

/// Which statements that a client has prepared before may still exist when it uses them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// None: statements do not follow clients.
    Nothing,
    /// Named ones. An unnamed one is prepared each time: `Parse "" ...`, `Bind "" ""`.
    Named,
    /// Unnamed ones as well, where their text comes again.
    All,
}

/// Whether this may be a request that uses what has been prepared before: by the protocol, or, where the client has such
/// statements, by SQL.
#[must_use]
pub fn may_be_refused(bytes: &[u8], kept: Kept, has_sql_statements: bool) -> bool {
    let follows = kept != Kept::Nothing;
    let is_kept =
        |name: Option<&[u8]>, unnamed: &[u8]| kept == Kept::All || kept == Kept::Named && name != Some(unnamed);
    match bytes.first() {
        _ if bytes.len() > BYTES_MAX => false,
        Some(&frontend::QUERY) => has_sql_statements,
        Some(&(frontend::PARSE | frontend::CLOSE)) => is_kept(bytes.get(5..6), &[0]),
        Some(&frontend::DESCRIBE) => follows && bytes.get(5) == Some(&b'S'),
        Some(&frontend::BIND) => is_kept(bytes.get(5..7), &[0, 0]),
        _ => false,
    }
}

/// The position of the first message in a request that uses a plan: the messages before it only prepare or close, and
/// have been answered. `None` if this is not one complete request, or does not ask for a description of the rows.
fn refused_from(bytes: &[u8]) -> Option<usize> {
    if !is_one_request(bytes) {
        return None;
    }
    let (mut from, mut is_described) = (None, false);
    for (at, kind, body) in messages(bytes) {
        match kind {
            frontend::QUERY => return Some(0),
            // The client knows the number of columns from an earlier description.
            frontend::BIND if result_formats(body)? > 1 => return None,
            frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE => from = from.or(Some(at)),
            _ => {}
        }
        is_described |= kind == frontend::DESCRIBE;
    }
    from.filter(|_| is_described)
}

/// For how many columns a Bind gives a result format one by one (PostgreSQL manual, "Message Formats").
pub(super) fn result_formats(body: &[u8]) -> Option<u16> {
    let mut rest = body;
    for _ in ["portal", "statement"] {
        rest = rest.get(rest.iter().position(|&byte| byte == 0)? + 1..)?;
    }
    let count = |rest: &mut &[u8]| {
        let (count, after) = rest.split_first_chunk()?;
        *rest = after;
        Some(u16::from_be_bytes(*count))
    };
    let formats = usize::from(count(&mut rest)?);
    rest = rest.get(2 * formats..)?;
    for _ in 0..count(&mut rest)? {
        let (length, after) = rest.split_first_chunk()?;
        // NULL has the length -1, and no bytes.
        rest = after.get(usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0)..)?;
    }
    count(&mut rest)
}

/// `insufficient_privilege`, which has nothing to do with how a statement was analysed.
const PERMISSION_DENIED: &[u8] = b"42501";
/// The error of a longer request goes to the client.
const BYTES_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::request_of as request;

    #[test]
    fn a_request_is_said_again_from_where_it_uses_a_plan() {
        let parse: (u8, &[u8]) = (b'P', b"a\0select 1\0\0\0");
        let bind: (u8, &[u8]) = (b'B', b"\0a\0\0\0\0\0\0\0");
        let execute: (u8, &[u8]) = (b'E', b"\0\0\0\0\0");
        let sync: (u8, &[u8]) = (b'S', b"");
        let describe: (u8, &[u8]) = (b'D', b"P\0");
        let length = request(&[parse]).len();
        for (messages, expected) in [
            (vec![bind, describe, execute, sync], Some(0)),
            (vec![parse, bind, describe, execute, sync], Some(length)),
            (vec![parse, describe, sync], Some(length)),
            (vec![bind, execute, sync], None),
            (vec![(b'Q', &b"execute a\0"[..])], Some(0)),
            (vec![parse, sync], None),
            (vec![bind, describe, execute], None),
            (vec![bind, describe, execute, sync, bind], None),
            (vec![bind, (b'd', b""), sync], None),
            (vec![bind, (b'Q', b"\0")], None),
        ] {
            assert_eq!(refused_from(&request(&messages)), expected, "{messages:?}");
        }
        // A value and a NULL; one format for all columns, or one for each of two.
        let values = b"p\0a\0\0\x01\0\x01\0\x02\0\0\0\x03abc\xff\xff\xff\xff";
        for (formats, expected) in [(&b"\0\x01\0\x01"[..], Some(0)), (b"\0\x02\0\x01\0\0", None), (b"", None)] {
            let body = [&values[..], formats].concat();
            assert_eq!(refused_from(&request(&[(b'B', &body), describe, execute, sync])), expected, "{formats:?}");
        }
        let whole = request(&[bind, describe, sync]);
        assert_eq!(refused_from(&whole[..whole.len() - 1]), None);
    }

    #[test]
    fn only_what_uses_what_was_prepared_before_is_kept() {
        for (message, is_kept) in [
            ((b'B', &b"\0a\0"[..]), true),
            ((b'B', b"\0\0\0"), false),
            ((b'B', b"p\0\0"), true),
            ((b'P', b"\0select 1\0\0\0"), false),
            ((b'P', b"a\0select 1\0\0\0"), true),
            ((b'D', b"Sa\0"), true),
            ((b'D', b"P\0"), false),
            ((b'Q', b"execute a\0"), true),
            ((b'S', b""), false),
        ] {
            assert_eq!(may_be_refused(&request(&[message]), Kept::Named, true), is_kept, "{message:?}");
            assert!(!may_be_refused(&request(&[message]), Kept::Nothing, false));
        }
        assert!(!may_be_refused(&request(&[(b'B', &[1; BYTES_MAX])]), Kept::Named, true));
        let unnamed: [(u8, &[u8]); 2] = [(b'P', b"\0select 1\0\0\0"), (b'B', b"\0\0\0\0\0\0\0\0")];
        for message in unnamed {
            assert!(may_be_refused(&request(&[message]), Kept::All, false), "kept where they are reused");
        }
        assert!(!may_be_refused(b"", Kept::All, true));
    }

    #[test]
    fn what_is_said_again_is_told_whatever_is_answered_then() {
        let stale = b"SERROR\0C0A000\0RRevalidateCachedQuery\0\0";
        let parse = request(&[(b'P', b"a\0select 1\0\0\0")]);
        let rest = request(&[(b'B', b"\0a\0\0\0\0\0\0\0"), (b'D', b"P\0"), (b'S', b"")]);
        let mut repeatable = RepeatableRequest::default();
        assert!(!repeatable.end_deallocation());
        repeatable.keep(&[&parse[..], &rest].concat());
        repeatable.answered(backend::PARSE_COMPLETE, None);
        repeatable.answered(backend::ERROR_RESPONSE, Some(stale));
        assert!(repeatable.is_refused() && !repeatable.end_deallocation());
        assert_eq!(repeatable.begin_deallocation(), rest, "what has been answered is not asked twice");
        assert!(!repeatable.is_refused() && repeatable.end_deallocation() && !repeatable.end_deallocation());
        repeatable.keep(&rest);
        assert!(!repeatable.is_sent());
        repeatable.answered(backend::ERROR_RESPONSE, Some(stale));
        assert!(!repeatable.is_refused());
        repeatable.keep(&rest);
        assert!(repeatable.is_sent(), "the next request may be said again");
        repeatable.forget();
        assert!(!repeatable.is_sent());
    }

    #[test]
    fn parameters_are_described_with_the_next_answer_unless_that_is_the_refusal() {
        let stale = b"SERROR\0C0A000\0RRevalidateCachedQuery\0\0";
        let request = request(&[(b'D', b"Sa\0"), (b'S', b"")]);
        for (is_overtaken, kind, error, given) in [
            (false, backend::ROW_DESCRIPTION, None, true),
            (false, backend::ERROR_RESPONSE, Some(&b"SERROR\0C42501\0\0"[..]), true),
            (false, backend::ERROR_RESPONSE, Some(stale), false),
            (true, backend::ROW_DESCRIPTION, None, true),
            (true, backend::ERROR_RESPONSE, Some(stale), true),
        ] {
            let mut repeatable = RepeatableRequest::default();
            repeatable.keep(&request);
            repeatable.answered(backend::PARAMETER_DESCRIPTION, None);
            assert!(!repeatable.has_parameters_due());
            repeatable.hold_parameters(b"t"[..].into());
            if is_overtaken {
                // The client has sent more.
                repeatable.forget();
            }
            assert!(repeatable.is_sent());
            repeatable.answered(kind, error);
            assert_eq!(repeatable.take_parameters().is_some(), given, "{is_overtaken} {kind}");
            assert_eq!((repeatable.is_sent(), repeatable.is_refused()), (false, !given));
        }
    }

    #[test]
    fn a_text_that_was_prepared_earlier_and_cannot_be_analysed_is_outdated() {
        let (parse, rest): ((u8, &[u8]), _) = ((b'P', b"a\0select 1\0\0\0"), [(b'D', &b"Sa\0"[..]), (b'S', b"")]);
        for (messages, is_given, state, is_refused) in [
            (vec![parse], true, "42883", true),
            (vec![parse], true, "42501", false),
            (vec![parse], true, "22012", false),
            (vec![parse], false, "42883", false),
            (vec![parse, parse], true, "42883", false),
            (vec![(b'C', &b"Sb\0"[..]), parse], true, "42883", false),
        ] {
            let mut repeatable = RepeatableRequest::default();
            repeatable.keep(&request(&[&messages[..], &rest].concat()));
            if is_given {
                repeatable.relies_on_earlier_parse();
            }
            repeatable.answered(backend::ERROR_RESPONSE, Some(format!("SERROR\0C{state}\0\0").as_bytes()));
            assert_eq!(repeatable.is_refused(), is_refused, "{messages:?} {is_given} {state}");
        }
    }

    #[test]
    fn an_answer_that_is_told_is_not_asked_for_twice() {
        let stale = b"SERROR\0C0A000\0Mwie auch immer\0RRevalidateCachedQuery\0\0";
        let request = request(&[(b'B', b"\0a\0\0\0\0\0\0\0"), (b'D', b"P\0"), (b'S', b"")]);
        let after = |kinds: &[u8], error: &[u8]| {
            let mut repeatable = RepeatableRequest::default();
            repeatable.keep(&request);
            kinds.iter().for_each(|kind| repeatable.answered(*kind, None));
            repeatable.answered(backend::ERROR_RESPONSE, Some(error));
            repeatable.is_refused()
        };
        assert!(after(b"", stale) && after(b"1N3S", stale));
        assert!(!after(b"", b"SERROR\0C0A000\0Rsomewhere else\0\0"));
        for told in [b"2", b"T", b"n"] {
            assert!(!after(told, stale), "{told:?}");
        }
        assert!(after(b"t", stale), "it is held back");
    }
}
