//! What a server owes for what it was sent, one thing for each message or row of messages.
//!
//! Always true: each kind says by what it is paid.
//! Not here: the order in which it is paid (`exchange`).

use serde::{Deserialize, Serialize};
use wire::backend;

/// What the server owes, in the order in which it must pay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Owed {
    /// Messages of the extended protocol in a row, with this many answers to come. Stays until its Sync is paid.
    Batch { answers: u32 },
    /// One message of the extended protocol whose outcome `prepared` waits for. Stands in the place of a batch, or in one.
    Step(Step),
    /// A `ReadyForQuery` for a Query.
    Query,
    /// A `ReadyForQuery` for a `FunctionCall`.
    Function,
    /// A `ReadyForQuery` for a Sync.
    Sync,
    /// A `ReadyForQuery` for a Query of our own, whose answers no client sees.
    Ours,
    /// So many answers to messages of ours in the extended protocol, which no client sees. Stands before a request of the client and
    /// has no Sync of its own.
    OursAlong { answers: u32 },
    /// Nothing. Here the client has sent the end of a COPY that the server had not begun: if what stands before begins one,
    /// it reads up to here; otherwise the server drops it. Never the first in the queue.
    CopyEnd,
}

impl Owed {
    /// Whether no client sees what is answered.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours | Self::OursAlong { .. })
    }

    /// Whether nothing is owed for it.
    pub(crate) fn is_paid(&self) -> bool {
        matches!(self, Self::Batch { answers: 0 } | Self::CopyEnd)
    }
}

/// A message of the extended protocol about which more must be known than that it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Step {
    /// The client's: the server's answer is the client's.
    Client,
    /// Ours, between those of the client: nobody sees its answer, only its error.
    Hidden,
    /// The server is not asked: this kind of answer is due when everything before it is answered.
    Given(u8),
}

/// Whether a message says that a step has been taken. We do not execute what has rows.
pub(crate) fn is_outcome(step: Step, kind: u8) -> bool {
    match kind {
        backend::PARSE_COMPLETE | backend::CLOSE_COMPLETE => true,
        backend::BIND_COMPLETE | backend::COMMAND_COMPLETE => step == Step::Hidden,
        _ => false,
    }
}
