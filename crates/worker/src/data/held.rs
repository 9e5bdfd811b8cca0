//! Bytes of a client that nothing has looked at yet.
//!
//! Always true: bytes come out in the order in which they went in. Most wait in one piece, which takes no allocation.
//! Not here: what they wait for (`hear`).

use std::collections::VecDeque;

use reactor::Chunk;
use serde::{Deserialize, Serialize};
use wire::frontend;

/// Held bytes.
#[derive(Debug, Default)]
pub(crate) struct Held {
    first: Option<Chunk>,
    rest: VecDeque<Chunk>,
    bytes: usize,
}

impl Held {
    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.bytes += chunk.len();
        if self.first.is_none() {
            self.first = Some(chunk);
        } else {
            self.rest.push_back(chunk);
        }
    }

    /// Puts a chunk before all others.
    pub(crate) fn push_front(&mut self, chunk: Chunk) {
        self.bytes += chunk.len();
        if let Some(second) = self.first.replace(chunk) {
            self.rest.push_front(second);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.first.take()?;
        self.first = self.rest.pop_front();
        self.bytes -= chunk.len();
        Some(chunk)
    }

    /// Removes so many bytes from the front, without copying those behind them in what was received.
    pub(crate) fn drop_front(&mut self, mut count: usize) {
        while count > 0 {
            let Some(chunk) = self.pop() else { return };
            if chunk.len() > count {
                self.push_front(chunk.part(count..chunk.len()));
                return;
            }
            count -= chunk.len();
        }
    }

    /// The bytes, if they came in one piece.
    pub(crate) fn in_one_piece(&self) -> Option<&[u8]> {
        self.first.as_ref().filter(|_| self.rest.is_empty()).map(Chunk::bytes)
    }

    /// The first piece.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.first.as_ref().map(Chunk::bytes)
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The pieces in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.first.iter().chain(&self.rest).map(Chunk::bytes)
    }

    /// The bytes in order.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.chunks().flat_map(|bytes| bytes.iter().copied())
    }
}

/// The first request of a client that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FirstRequest {
    /// How many lone Syncs stand before it.
    pub(super) syncs: usize,
    /// Where it ends: with the message that is answered by `ReadyForQuery`.
    pub(super) end: usize,
}

/// Which messages of a client without a server are skipped: the rest of a request that a rate limit has rejected, as
/// PostgreSQL skips it after an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Skips {
    #[default]
    Nothing,
    /// One message, which is a whole request.
    Message,
    /// Everything up to a Sync.
    UpToSync,
}

impl Skips {
    /// Whether a message of this kind is the last to be skipped.
    pub(crate) fn end_with(self, kind: u8) -> bool {
        self == Self::Message || self == Self::UpToSync && kind == frontend::SYNC
    }
}

/// The first request in these bytes; `None` if its last message is incomplete.
pub(crate) fn first_request(bytes: &[u8]) -> Option<FirstRequest> {
    let (mut at, mut syncs, mut has_begun) = (0, 0, false);
    loop {
        let (&kind, rest) = bytes.get(at..)?.split_first()?;
        let length = u32::from_be_bytes(*rest.first_chunk::<4>()?) as usize;
        let end = at.checked_add(1)?.checked_add(length)?;
        if end > bytes.len() {
            return None;
        }
        match kind {
            frontend::SYNC if !has_begun => syncs += 1,
            frontend::QUERY | frontend::SYNC | frontend::FUNCTION_CALL => return Some(FirstRequest { syncs, end }),
            _ => has_begun = true,
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use wire::write;

    use super::*;

    #[test]
    fn the_first_request_ends_with_the_message_that_ready_answers() {
        let mut bytes = Vec::new();
        write::query(&mut bytes, "select 1");
        let first = bytes.len();
        write::query(&mut bytes, "select 2");
        assert_eq!(first_request(&bytes), Some(FirstRequest { syncs: 0, end: first }));
        let mut batch = Vec::new();
        write::bare(&mut batch, frontend::EXECUTE);
        assert_eq!(first_request(&batch), None);
        write::bare(&mut batch, frontend::SYNC);
        assert_eq!(first_request(&batch), Some(FirstRequest { syncs: 0, end: batch.len() }));
        assert_eq!(first_request(&batch[..batch.len() - 1]), None);
        assert_eq!(first_request(b""), None);
    }

    #[test]
    fn bytes_are_removed_from_the_front_across_pieces() {
        for (count, left) in [(0, "abcdef"), (2, "cdef"), (3, "def"), (4, "ef"), (6, ""), (9, "")] {
            let mut held = Held::default();
            for piece in ["abc", "def"] {
                held.push(Chunk::Own(piece.as_bytes().into()));
            }
            held.drop_front(count);
            assert_eq!((held.bytes().collect::<Vec<_>>(), held.len()), (left.as_bytes().to_vec(), left.len()));
        }
    }

    #[test]
    fn a_sync_alone_is_no_request() {
        let mut bytes = Vec::new();
        write::bare(&mut bytes, frontend::SYNC);
        write::bare(&mut bytes, frontend::SYNC);
        assert_eq!(first_request(&bytes), None);
        write::query(&mut bytes, "select 1");
        assert_eq!(first_request(&bytes), Some(FirstRequest { syncs: 2, end: bytes.len() }));
    }
}
