//! What a client has said and nobody has looked at.
//!
//! Always true: bytes come out in the order in which they went in. Most wait in one piece, which takes no allocation.
//! Not here: who waits for what (`client`).

use std::collections::VecDeque;

use reactor::Chunk;

/// Bytes in waiting.
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

    /// The bytes, if they have come in one piece.
    pub(crate) fn in_one_piece(&self) -> Option<&[u8]> {
        self.first.as_ref().filter(|_| self.rest.is_empty()).map(Chunk::bytes)
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The bytes in order.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.first.iter().chain(&self.rest).flat_map(|chunk| chunk.bytes().iter().copied())
    }
}
