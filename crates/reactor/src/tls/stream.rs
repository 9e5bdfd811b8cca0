//! A secured connection as its worker has it.
//!
//! Always true: plain bytes are given on only when they are asked for; between two pieces a quiet connection owns no buffer.
//! Not here: when it is read and written (`layer`).

use base::{Origin, Place};

use super::session::{Session, State};
use crate::{Chunk, Completion, Conn, End, Receive, Socket};

/// A secured connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) conn: Conn,
    pub(crate) owner: u64,
    pub(crate) stage: Stage,
    /// What the worker asks for.
    pub(crate) wish: Option<Receive>,
    /// The beginning of a record whose end has not come.
    pub(crate) pending: Vec<u8>,
    /// What was said and nobody has asked for.
    pub(crate) plain: Vec<u8>,
    /// Why nothing more comes, if the worker has not been told: what was said before comes first.
    pub(crate) untold: Option<End>,
    /// It is in the list of those that may have something to give.
    pub(crate) is_due: bool,
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Its handshake is with the handshake pool, where it waits or has waited at this place.
    Away(Option<Place<Origin>>),
    /// Its handshake waits for bytes.
    Shaking(Box<Session>),
    /// Bytes go to and fro.
    Open(Box<Session>),
    /// The other side says nothing more.
    Over(Box<Session>),
    /// It is of no more use.
    Broken,
}

/// What goes along with a connection from one worker to another.
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

    /// Takes what was received; what was said is kept. Gives back what is to be sent, and how the session stands.
    pub(crate) fn hear(&mut self, mut chunk: Chunk) -> (Vec<u8>, State) {
        let Stage::Open(session) = &mut self.stage else { return (Vec::new(), State::Shaking) };
        let taken = match &mut chunk {
            // Nothing waits for it and nobody else reads it: it is decrypted where it lies.
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

    /// Encrypts what is to be said; what is left of what was received may turn out to be of use by the way.
    pub(crate) fn say(&mut self, plain: &[u8]) -> (Vec<u8>, State) {
        let (Stage::Open(session) | Stage::Over(session)) = &mut self.stage else { return (Vec::new(), State::Over) };
        let taken = session.say(&mut self.pending, plain);
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

    /// Nothing more is heard of it.
    pub(crate) fn end(&mut self, end: End) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Broken) {
            Stage::Open(session) if matches!(end, End::Eof) => Stage::Over(session),
            _ => Stage::Broken,
        };
        self.untold = Some(end);
    }

    /// Gives on what was said, if it is asked for, and then why nothing more comes.
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
