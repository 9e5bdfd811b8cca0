//! An encrypted connection of a worker.
//!
//! Always true: plain text is delivered only when the worker wants it; between two pieces an idle connection owns no
//! buffer.
//! Not here: when it is read and written (`layer`).

use base::{Origin, Place};

use super::session::{Session, State};
use crate::{Chunk, Completion, Conn, End, Receive, Socket};

/// An encrypted connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) conn: Conn,
    pub(crate) owner: u64,
    pub(crate) stage: Stage,
    /// What the worker wants to receive.
    pub(crate) wish: Option<Receive>,
    /// The beginning of a record whose end has not arrived.
    pub(crate) pending: Vec<u8>,
    /// Decrypted bytes that the worker has not asked for yet.
    pub(crate) plain: Vec<u8>,
    /// Why the stream ended, if the worker does not know yet: received bytes are delivered first.
    pub(crate) untold: Option<End>,
    /// Whether it is in the layer's list of streams that may have something to report.
    pub(crate) is_due: bool,
}

/// The stage of the connection.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The session is with the handshake pool, where it waits or waited at this place.
    Away(Option<Place<Origin>>),
    /// The handshake waits for bytes.
    Handshaking(Box<Session>),
    /// The session is established.
    Open(Box<Session>),
    /// The other side has closed its direction.
    Over(Box<Session>),
    /// The session failed.
    Broken,
}

/// The TLS state of a connection that moves to another worker.
#[derive(Debug)]
pub struct Carried {
    pub(crate) session: Box<Session>,
    pub(crate) pending: Vec<u8>,
    pub(crate) plain: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(conn: Conn, owner: u64, stage: Stage) -> Self {
        Self { conn, owner, stage, wish: None, pending: Vec::new(), plain: Vec::new(), untold: None, is_due: false }
    }

    /// Processes received bytes and keeps the plain text. Returns bytes to be sent, and the state of the session.
    pub(crate) fn hear(&mut self, mut chunk: Chunk) -> (Vec<u8>, State) {
        let Stage::Open(session) = &mut self.stage else { return (Vec::new(), State::Handshaking) };
        let taken = match &mut chunk {
            // Nothing came before it and nobody else reads it, so it is decrypted in place.
            Chunk::Span(span) if self.pending.is_empty() && span.is_alone() => {
                let bytes = span.only().unwrap_or_default();
                let taken = session.take(bytes);
                self.pending.extend_from_slice(&bytes[taken.used..]);
                taken
            }
            chunk => {
                self.pending.extend_from_slice(chunk.bytes());
                let taken = session.take(&mut self.pending);
                if taken.used == self.pending.len() {
                    self.pending = Vec::new();
                } else {
                    self.pending.drain(..taken.used);
                }
                taken
            }
        };
        self.keep(taken.plain);
        (taken.out, taken.state)
    }

    /// Encrypts `plain`. Returns bytes to be sent, and the state of the session. The library may use up pending
    /// received bytes in this call.
    pub(crate) fn encrypt(&mut self, plain: &[u8]) -> (Vec<u8>, State) {
        let (Stage::Open(session) | Stage::Over(session)) = &mut self.stage else { return (Vec::new(), State::Over) };
        let taken = session.encrypt(&mut self.pending, plain);
        self.pending.drain(..taken.used);
        self.keep(taken.plain);
        (taken.out, taken.state)
    }

    fn keep(&mut self, plain: Vec<u8>) {
        if self.plain.is_empty() {
            self.plain = plain;
        } else {
            self.plain.extend_from_slice(&plain);
        }
    }

    /// Records that the stream has ended.
    pub(crate) fn end(&mut self, end: End) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Broken) {
            Stage::Open(session) if matches!(end, End::Eof) => Stage::Over(session),
            _ => Stage::Broken,
        };
        self.untold = Some(end);
    }

    /// Delivers received bytes, if the worker wants them, and then the end.
    pub(crate) fn give(&mut self, done: &mut Vec<Completion<Socket>>) {
        let owner = self.owner;
        if let Some(wish) = self.wish.filter(|_| !self.plain.is_empty()) {
            if wish == Receive::Once {
                self.wish = None;
            }
            let bytes = std::mem::take(&mut self.plain).into();
            done.push(Completion::Received { owner, bytes });
        }
        if self.plain.is_empty() || matches!(self.stage, Stage::Broken) {
            done.extend(self.untold.take().map(|end| Completion::Ended { owner, end }));
        }
    }
}
