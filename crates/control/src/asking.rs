//! A client of our own workers: it asks servers through their pools, as any other.
//!
//! Always true: no message is received that is longer than `MESSAGE_BYTES_MAX`, and of an answer no more than who asks allows;
//! rows are handed over one by one and kept by nobody here. A client that is dropped in the middle has its query cancelled, as any.
//! Not here: what is asked (`secrets`, `sweeper`, `listeners`).

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use wire::notice::Notice;
use wire::{backend, frontend, write};

use crate::source::words_of;

/// One connection.
#[derive(Debug)]
pub(crate) struct Asker {
    stream: UnixStream,
    /// What has come; all before `read` has been read.
    inbox: Vec<u8>,
    read: usize,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// A server, or a worker, says so.
    Said(Box<Notice>),
    /// What went wrong on the way.
    Broken(String),
}

/// Both ends of a connection to ourselves: that of who asks, and that of the worker.
pub(crate) fn pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (near, far) = UnixStream::pair()?;
    Ok((near, far.into_std()?.into()))
}

impl Asker {
    /// Logs in over `near`, whose other end is with a worker, which asks its own for no proof.
    pub(crate) async fn log_in(near: UnixStream, parameters: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut asker = Self { stream: near, inbox: Vec::new(), read: 0 };
        let mut packet = Vec::new();
        write::startup(&mut packet, 0, parameters.iter().copied());
        asker.send(&packet).await?;
        asker.answer(usize::MAX, |_| ControlFlow::Continue(())).await?;
        Ok(asker)
    }

    /// Asks by a statement without a name, so that it meets no other client's, with one value of this type. The values of each row are
    /// handed over, until that has had enough; then the connection is of no more use. Before it, in the same transaction,
    /// something may be said that has no rows.
    pub(crate) async fn ask(
        &mut self,
        before: &str,
        sql: &str,
        (value, type_oid): (&str, u32),
        bytes_max: usize,
        row: impl FnMut(&[Option<&[u8]>]) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let mut messages = Vec::new();
        if !before.is_empty() {
            write::parse(&mut messages, b"", before, [].into_iter());
            write::bind(&mut messages, "", [None::<&str>; 0].into_iter());
            write::execute(&mut messages);
        }
        write::parse(&mut messages, b"", sql, [type_oid].into_iter());
        write::bind(&mut messages, "", [Some(value)].into_iter());
        write::execute(&mut messages);
        write::bare(&mut messages, frontend::SYNC);
        self.send(&messages).await?;
        self.answer(bytes_max, row).await
    }

    /// Asks by a simple query whose rows are of no interest.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        let mut message = Vec::new();
        write::query(&mut message, sql);
        self.send(&message).await?;
        self.answer(usize::MAX, |_| ControlFlow::Continue(())).await
    }

    /// Waits for the end of the connection, and reads what comes before that. May be given up at any time.
    pub(crate) async fn end(&mut self) {
        while self.receive().await.is_ok() {}
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).await.map_err(|error| Failure::Broken(words_of(&error)))
    }

    /// Reads until `ReadyForQuery`.
    async fn answer(
        &mut self,
        bytes_max: usize,
        mut row: impl FnMut(&[Option<&[u8]>]) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let (mut failure, mut bytes_left) = (None, bytes_max);
        loop {
            let (kind, body) = match self.receive().await {
                Ok(message) => message,
                // Why the connection ended has been said.
                Err(error) => return Err(failure.unwrap_or(Failure::Broken(error))),
            };
            let left = bytes_left.checked_sub(HEADER_BYTES + body.len());
            bytes_left = left.ok_or_else(|| Failure::Broken("the answer is too long".to_owned()))?;
            match kind {
                backend::READY_FOR_QUERY => return failure.map_or(Ok(()), Err),
                backend::ERROR_RESPONSE => {
                    failure.get_or_insert(Failure::Said(Box::new(Notice::parse(body))));
                }
                backend::DATA_ROW => {
                    let values = backend::data_row(body);
                    let values = values.ok_or_else(|| Failure::Broken("a row is malformed".to_owned()))?;
                    if row(&values).is_break() {
                        return Ok(());
                    }
                }
                backend::AUTHENTICATION if body != [0; 4] => {
                    return Err(Failure::Broken("a password is asked for".to_owned()));
                }
                _ => {}
            }
        }
    }

    /// The next message: its kind and its body. May be given up at any time.
    async fn receive(&mut self) -> Result<(u8, &[u8]), String> {
        loop {
            let unread = &self.inbox[self.read..];
            if let Some(&[kind, ref length @ ..]) = unread.first_chunk::<HEADER_BYTES>() {
                let length = u32::from_be_bytes(*length).checked_sub(4).ok_or("a message is malformed")? as usize;
                if length > MESSAGE_BYTES_MAX {
                    return Err(format!("a message is longer than {MESSAGE_BYTES_MAX} bytes"));
                }
                let start = self.read + HEADER_BYTES;
                if self.inbox.len() >= start + length {
                    self.read = start + length;
                    return Ok((kind, &self.inbox[start..start + length]));
                }
            }
            self.inbox.drain(..std::mem::take(&mut self.read));
            self.inbox.reserve(RECEIVED_BYTES);
            match self.stream.read_buf(&mut self.inbox).await {
                Ok(0) => return Err("the connection has ended".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(words_of(&error)),
            }
        }
    }
}

impl Failure {
    /// In words for the log.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Said(notice) => format!("{}: {}", notice.severity, notice.message),
            Self::Broken(words) => words.clone(),
        }
    }
}

/// The longest message that is received: a name and a secret, a lock, an error.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// How much is received at once.
const RECEIVED_BYTES: usize = 8 * 1024;
/// Kind and length.
const HEADER_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a question, and the rows, where this is answered.
    fn asked(answer: &[u8], bytes_max: usize, rows_max: usize) -> (Result<(), Failure>, Vec<String>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async {
            let (near, mut far) = UnixStream::pair().expect("a pair");
            far.write_all(answer).await.expect("room");
            far.shutdown().await.expect("a connection");
            let mut asker = Asker { stream: near, inbox: Vec::new(), read: 0 };
            let mut rows = Vec::new();
            let outcome = asker.ask("", "q", ("u", 25), bytes_max, |row| {
                rows.push(format!("{row:?}"));
                if rows.len() < rows_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            (outcome.await, rows)
        })
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
    fn rows_are_handed_over_until_it_is_enough() {
        let answer = [row("a"), row("b"), row("c"), ready()].concat();
        assert_eq!(
            asked(&answer, 1000, 9),
            (
                Ok(()),
                vec!["[Some([97]), None]".to_owned(), "[Some([98]), None]".to_owned(), "[Some([99]), None]".to_owned()]
            )
        );
        assert_eq!(asked(&answer, 1000, 1).1.len(), 1);
    }

    #[test]
    fn an_answer_is_bounded_as_a_whole_and_each_message_too() {
        let answer = [row("a"), row("b"), ready()].concat();
        assert_eq!(asked(&answer, answer.len(), 9).0, Ok(()));
        assert_eq!(asked(&answer, answer.len() - 1, 9).0, broken("the answer is too long"));
        assert_eq!(
            asked(&row(&"x".repeat(MESSAGE_BYTES_MAX)), usize::MAX, 9).0,
            broken("a message is longer than 65536 bytes")
        );
        // It is not waited for what is not received.
        assert_eq!(asked(b"D\x7f\xff\xff\xff", usize::MAX, 9).0, broken("a message is longer than 65536 bytes"));
        assert_eq!(asked(b"D\0\0\0\x03", usize::MAX, 9).0, broken("a message is malformed"));
        assert_eq!(asked(b"D\0\0\0\x06\0\x01", usize::MAX, 9).0, broken("a row is malformed"));
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
            let (outcome, _) = asked(&[error("one"), error("two"), end].concat(), 1000, 9);
            assert_eq!(outcome.expect_err("an error").words(), "ERROR: one");
        }
        assert_eq!(asked(&row("a"), 1000, 9).0.expect_err("no end").words(), "the connection has ended");
    }
}
