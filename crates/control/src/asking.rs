//! The client side of the protocol for control's connections to our own workers, without the sockets: it queries
//! servers through their pools like any client.
//!
//! Always true: no message longer than `MESSAGE_BYTES_MAX` is read, and no more of an answer than the caller allows;
//! rows are handed out one by one and not kept here. If a connection is closed during a query, the query is cancelled,
//! as for any client.
//! Not here: the queries (`secrets`, `sweeper`, `listeners`), the connections (`own_clients`, `run`).

use wire::notice::Notice;
use wire::{backend, frontend, write};

/// The protocol state of one connection.
#[derive(Debug)]
pub(crate) struct ClientProtocol {
    /// Received bytes; those before `read` have been consumed.
    inbox: Vec<u8>,
    read: usize,
    /// The first error of the answer that is under way.
    failure: Option<Failure>,
    /// How many more bytes the current answer may have.
    bytes_left: usize,
}

/// Why a query has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// An ErrorResponse of the server or the worker.
    Said(Box<Notice>),
    /// The connection broke, or the answer was unusable.
    Broken(String),
    /// No answer arrived in time.
    Late,
}

/// A part of the answer to a query.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// The values of a row.
    Row(Vec<Option<&'a [u8]>>),
    /// The answer is complete. After a failure other than an ErrorResponse the connection cannot be used again.
    End(Result<(), Failure>),
}

impl ClientProtocol {
    /// Starts the login at a worker, which authenticates no client of the process itself. The first answer is about the
    /// login.
    pub(crate) fn log_in(parameters: &[(&str, &str)], out: &mut Vec<u8>) -> Self {
        write::startup(out, 0, parameters.iter().copied());
        Self { inbox: Vec::new(), read: 0, failure: None, bytes_left: usize::MAX }
    }

    /// Sends `sql` with one parameter as an unnamed statement, which cannot clash with another client's. `before`, if
    /// not empty, runs first in the same transaction and must return no rows.
    pub(crate) fn ask(
        &mut self,
        before: &str,
        sql: &str,
        (value, type_oid): (&str, u32),
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) {
        if !before.is_empty() {
            write::parse(out, b"", before, [].into_iter());
            write::bind(out, "", [None::<&str>; 0].into_iter());
            write::execute(out);
        }
        write::parse(out, b"", sql, [type_oid].into_iter());
        write::bind(out, "", [Some(value)].into_iter());
        write::execute(out);
        write::bare(out, frontend::SYNC);
        (self.failure, self.bytes_left) = (None, bytes_max);
    }

    /// Sends a simple query whose rows are ignored.
    pub(crate) fn run(&mut self, sql: &str, out: &mut Vec<u8>) {
        write::query(out, sql);
        (self.failure, self.bytes_left) = (None, usize::MAX);
    }

    /// Adds received bytes.
    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        self.inbox.drain(..std::mem::take(&mut self.read));
        self.inbox.extend_from_slice(bytes);
    }

    /// Returns the next part of the answer, once it has arrived.
    pub(crate) fn next(&mut self) -> Option<Part<'_>> {
        loop {
            let (kind, at) = match self.message() {
                Ok(message) => message?,
                Err(error) => return Some(Part::End(Err(Failure::Broken(error)))),
            };
            let left = self.bytes_left.checked_sub(HEADER_BYTES + at.len());
            let Some(left) = left else { return Some(broken("the answer is too long")) };
            self.bytes_left = left;
            let body = &self.inbox[at.clone()];
            match kind {
                backend::READY_FOR_QUERY => return Some(Part::End(self.failure.take().map_or(Ok(()), Err))),
                backend::ERROR_RESPONSE => {
                    let said = Failure::Said(Box::new(Notice::parse(body)));
                    self.failure.get_or_insert(said);
                }
                backend::DATA_ROW => {
                    return Some(match backend::data_row(&self.inbox[at]) {
                        Some(values) => Part::Row(values),
                        None => broken("a row is malformed"),
                    });
                }
                backend::AUTHENTICATION if body != [0; 4] => return Some(broken("a password is asked for")),
                _ => {}
            }
        }
    }

    /// Returns why there will be no answer, since the connection has ended for the reason `why`.
    pub(crate) fn ended(&mut self, why: &str) -> Failure {
        // The server may have sent the reason before the end.
        self.failure.take().unwrap_or_else(|| Failure::Broken(why.to_owned()))
    }

    /// Returns the kind of the next message and the position of its body, once it has arrived.
    fn message(&mut self) -> Result<Option<(u8, std::ops::Range<usize>)>, String> {
        let Some(&[kind, ref length @ ..]) = self.inbox[self.read..].first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length).checked_sub(4).ok_or("a message is malformed")? as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(format!("a message is longer than {MESSAGE_BYTES_MAX} bytes"));
        }
        let body = self.read + HEADER_BYTES..self.read + HEADER_BYTES + length;
        if self.inbox.len() < body.end {
            return Ok(None);
        }
        self.read = body.end;
        Ok(Some((kind, body)))
    }
}

fn broken(text: &str) -> Part<'static> {
    Part::End(Err(Failure::Broken(text.to_owned())))
}

impl Failure {
    /// The failure in words for the log.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Said(notice) => format!("{}: {}", notice.severity, notice.message),
            Self::Broken(words) => words.clone(),
            Self::Late => "no answer in time".to_owned(),
        }
    }
}

/// The longest message that is read: a row with a name and a secret, a row with a lock, an error.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Message type and length.
const HEADER_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outcome and the rows of a query that gets these bytes as its answer before the connection ends.
    fn asked(answer: &[u8], bytes_max: usize) -> (Result<(), Failure>, Vec<String>) {
        let mut protocol = ClientProtocol::log_in(&[("user", "u")], &mut Vec::new());
        protocol.ask("", "q", ("u", 25), bytes_max, &mut Vec::new());
        let mut rows = Vec::new();
        for piece in answer.chunks(3) {
            protocol.hear(piece);
            while let Some(part) = protocol.next() {
                match part {
                    Part::Row(row) => rows.push(format!("{row:?}")),
                    Part::End(end) => return (end, rows),
                }
            }
        }
        (Err(protocol.ended("the connection has ended")), rows)
    }

    fn row(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::data_row(&mut out, [Some(text), None].into_iter());
        out
    }

    fn ready() -> Vec<u8> {
        let mut out = Vec::new();
        write::ready_for_query(&mut out, backend::TxStatus::Idle);
        out
    }

    fn broken(text: &str) -> Result<(), Failure> {
        Err(Failure::Broken(text.to_owned()))
    }

    #[test]
    fn rows_are_handed_over_one_by_one() {
        let answer = [row("a"), row("b"), ready()].concat();
        let rows = ["[Some([97]), None]", "[Some([98]), None]"].map(str::to_owned);
        assert_eq!(asked(&answer, 1000), (Ok(()), rows.to_vec()));
    }

    #[test]
    fn an_answer_is_bounded_as_a_whole_and_each_message_too() {
        let answer = [row("a"), row("b"), ready()].concat();
        assert_eq!(asked(&answer, answer.len()).0, Ok(()));
        assert_eq!(asked(&answer, answer.len() - 1).0, broken("the answer is too long"));
        assert_eq!(
            asked(&row(&"x".repeat(MESSAGE_BYTES_MAX)), usize::MAX).0,
            broken("a message is longer than 65536 bytes")
        );
        // The length is checked before the body is waited for.
        assert_eq!(asked(b"D\x7f\xff\xff\xff", usize::MAX).0, broken("a message is longer than 65536 bytes"));
        assert_eq!(asked(b"D\0\0\0\x03", usize::MAX).0, broken("a message is malformed"));
        assert_eq!(asked(b"D\0\0\0\x06\0\x01", usize::MAX).0, broken("a row is malformed"));
    }

    #[test]
    fn the_first_error_counts() {
        let error = |message| {
            let mut out = Vec::new();
            let (severity, sqlstate) = ("ERROR", "42501");
            write::error(&mut out, write::Says { severity, sqlstate, message, detail: None, hint: None });
            out
        };
        for end in [ready(), Vec::new()] {
            let (outcome, _) = asked(&[error("one"), error("two"), end].concat(), 1000);
            assert_eq!(outcome.expect_err("an error").words(), "ERROR: one");
        }
        assert_eq!(asked(&row("a"), 1000).0.expect_err("no end").words(), "the connection has ended");
    }
}
