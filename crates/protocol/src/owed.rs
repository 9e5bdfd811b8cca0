//! Answers that a server owes, one item for each message or run of messages that it was sent.
//!
//! Always true: each variant says which messages of the server pay for it.
//! Not here: the order in which it is paid (`exchange`).

use serde::{Deserialize, Serialize};
use wire::frame::HEADER_BYTES;
use wire::{backend, frontend};

/// What the server owes, in the order in which it must pay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Owed {
    /// Consecutive messages of the extended protocol, with this many answers to come. Stays until its Sync is paid.
    Batch { answers: u32 },
    /// One message of the extended protocol whose outcome `prepared` waits for. Stands in place of a batch, or inside
    /// one.
    Step(Step),
    /// A `ReadyForQuery` for a Query.
    Query,
    /// A `ReadyForQuery` for a `FunctionCall`.
    Function,
    /// A `ReadyForQuery` for a Sync.
    Sync,
    /// A `ReadyForQuery` for a Query of our own, whose answers no client sees.
    Ours,
    /// This many answers to messages of ours in the extended protocol, which no client sees. Stands before a request of
    /// the client and has no Sync of its own.
    OursAlong { answers: u32 },
    /// Nothing. At this point the client has sent the end of a COPY that the server had not begun: if the item before it
    /// begins a COPY, that COPY reads up to here; otherwise the server drops the end. Never the first in the queue.
    CopyEnd,
}

impl Owed {
    /// Whether the answer is to a query of our own, so that no client sees it.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours | Self::OursAlong { .. })
    }

    /// Takes a message of the server that is part of the answer and changes nothing but how many are still owed. Returns whether it was
    /// one.
    #[inline]
    pub(crate) fn counts(&mut self, kind: u8) -> bool {
        match self {
            Self::Batch { answers: answers @ 1.. } => match kind {
                backend::PARSE_COMPLETE
                | backend::BIND_COMPLETE
                | backend::CLOSE_COMPLETE
                | backend::NO_DATA
                | backend::ROW_DESCRIPTION
                | backend::COMMAND_COMPLETE
                | backend::EMPTY_QUERY_RESPONSE
                | backend::PORTAL_SUSPENDED => {
                    *answers -= 1;
                    true
                }
                _ => is_of_rows(kind) || kind == backend::PARAMETER_DESCRIPTION,
            },
            Self::Query => {
                is_of_rows(kind)
                    || matches!(
                        kind,
                        backend::ROW_DESCRIPTION | backend::EMPTY_QUERY_RESPONSE | backend::COMMAND_COMPLETE
                    )
            }
            _ => false,
        }
    }

    /// [`Owed::counts`] for the whole messages at the start of `bytes`, up to one that it does not count, or that belongs to a COPY
    /// or describes parameters, or whose tag tells something. Returns where the last of them begins, and where it ends.
    #[inline]
    pub(crate) fn counts_on(&mut self, bytes: &[u8], tells_nothing: impl Fn(&[u8]) -> bool) -> Option<[usize; 2]> {
        let (mut left, each) = match self {
            Self::Query => (1, 0),
            Self::Batch { answers } => (*answers, 1),
            _ => return None,
        };
        let (mut found, mut at) = (None, 0);
        while left > 0
            && let Some(&[kind, ref length @ ..]) = bytes.get(at..)?.first_chunk::<HEADER_BYTES>()
            && let Some(body) = bytes.get(at + HEADER_BYTES..at + 1 + u32::from_be_bytes(*length) as usize)
        {
            match kind {
                backend::DATA_ROW => {}
                backend::COMMAND_COMPLETE if !tells_nothing(body) => break,
                backend::ROW_DESCRIPTION | backend::COMMAND_COMPLETE | backend::EMPTY_QUERY_RESPONSE => left -= each,
                backend::PARSE_COMPLETE
                | backend::BIND_COMPLETE
                | backend::CLOSE_COMPLETE
                | backend::NO_DATA
                | backend::PORTAL_SUSPENDED
                    if each == 1 =>
                {
                    left -= 1;
                }
                _ => break,
            }
            found = Some([at, at + HEADER_BYTES + body.len()]);
            at += HEADER_BYTES + body.len();
        }
        if let Self::Batch { answers } = self {
            *answers = left;
        }
        found
    }

    /// The number of messages of a client, or of ours among them, whose answers it stands for, Syncs aside.
    pub(crate) fn messages(&self) -> u64 {
        match *self {
            Self::Batch { answers } => answers.into(),
            Self::Step(_) | Self::Query | Self::Function => 1,
            Self::Sync | Self::Ours | Self::OursAlong { .. } | Self::CopyEnd => 0,
        }
    }

    /// The message whose outcome must be known, if it stands for one.
    pub(crate) fn step(self) -> Option<Step> {
        match self {
            Self::Step(step) => Some(step),
            _ => None,
        }
    }

    /// Whether nothing is owed for this item.
    pub(crate) fn is_paid(&self) -> bool {
        matches!(self, Self::Batch { answers: 0 } | Self::CopyEnd)
    }
}

/// Whether a message of the server is a row, or belongs to a COPY to the client.
#[inline]
fn is_of_rows(kind: u8) -> bool {
    matches!(kind, backend::DATA_ROW | backend::COPY_OUT_RESPONSE | frontend::COPY_DATA | frontend::COPY_DONE)
}

/// A message of the extended protocol whose outcome must be known, not only that it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Step {
    /// A message of the client: the client gets the server's answer.
    Client,
    /// A message of ours between those of the client: its answer is hidden, except an error.
    Hidden,
    /// Not sent to the server: we give this kind of answer ourselves when everything before it is answered.
    Given(u8),
    /// A Describe of the client: the client gets the server's answer, and we read it.
    ClientDescribe,
    /// A Describe of ours between the messages of the client: we read the answer, and it is hidden, except an error.
    HiddenDescribe,
}

impl Step {
    /// Whether its answer is hidden from the client.
    pub(crate) fn is_hidden(self) -> bool {
        matches!(self, Self::Hidden | Self::HiddenDescribe)
    }

    /// Whether it is answered by a description.
    pub(crate) fn describes(self) -> bool {
        matches!(self, Self::ClientDescribe | Self::HiddenDescribe)
    }

    /// Whom the answer to it is for.
    pub(crate) fn answered(self) -> Answered {
        if self.is_hidden() { Answered::Hidden } else { Answered::Forward }
    }
}

/// The outcome of a step. Outcomes come in the order of the steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The step was answered as expected.
    Done,
    /// The step failed, or was skipped because an earlier message failed.
    Undone,
}

/// Whom a server's message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// It is forwarded to the client.
    Forward,
    /// It answers a query of our own.
    Ours,
    /// It answers a message of our own that was inserted between the client's messages.
    Hidden,
}

/// Whether a message of the server reports that a step is done. We never execute a step that returns rows.
pub(crate) fn is_outcome(step: Step, kind: u8) -> bool {
    match kind {
        backend::ROW_DESCRIPTION | backend::NO_DATA => step.describes(),
        _ if step.describes() => false,
        backend::PARSE_COMPLETE | backend::CLOSE_COMPLETE => true,
        backend::BIND_COMPLETE | backend::COMMAND_COMPLETE => step == Step::Hidden,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use base::Random;

    use super::*;

    #[test]
    fn messages_together_are_counted_as_each_of_them() {
        let kinds = b"DTCI123nstHdcZSEAx";
        let tells_nothing = |tag: &[u8]| tag == b"SELECT 1\0";
        let is_left_out = |kind: u8| b"Hdct".contains(&kind);
        let mut random = Random::new(5);
        let mut counted = 0;
        for _ in 0..20_000 {
            let answers = random.below(5) as u32;
            let owed = [Owed::Query, Owed::Batch { answers }, Owed::Batch { answers: 3 }, Owed::Function, Owed::Sync];
            let mut each = owed[random.below(5) as usize];
            let mut together = each;
            let (mut bytes, mut expected, mut has_ended) = (Vec::new(), None, false);
            for _ in 0..random.below(7) {
                let among = if random.below(3) == 0 { kinds.len() as u64 } else { 9 };
                let kind = kinds[random.below(among) as usize];
                let body: &[u8] =
                    [&b"SELECT 1\0"[..], b"DISCARD ALL\0", b""][random.below(9).saturating_sub(6) as usize];
                let start = bytes.len();
                bytes.push(kind);
                bytes.extend_from_slice(&(4 + body.len() as u32).to_be_bytes());
                bytes.extend_from_slice(body);
                let is_told = kind == backend::COMMAND_COMPLETE && !tells_nothing(body);
                has_ended |= is_told || is_left_out(kind) || !each.counts(kind);
                if !has_ended {
                    expected = Some([start, bytes.len()]);
                }
            }
            bytes.extend_from_slice([b"D\0\0\0\x09ab", &b"D\0\0"[..], b"D\0\0\0\x03", b""][random.below(4) as usize]);
            assert_eq!(together.counts_on(&bytes, tells_nothing), expected, "{bytes:?}");
            if !has_ended {
                assert_eq!(together, each);
            }
            counted += u32::from(expected.is_some());
        }
        assert!(counted > 2_000, "{counted}");
    }
}
