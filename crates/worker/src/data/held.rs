//! What a client has said and nobody has looked at.
//!
//! Always true: bytes come out in the order in which they went in. Most wait in one piece, which takes no allocation.
//! Not here: who waits for what (`client`).

use std::collections::VecDeque;

use reactor::Chunk;
use wire::Scanner;

use crate::cancel::requests::first_request;
use crate::data::client::Ready;

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

    /// The bytes that have come first, in one piece.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.first.as_ref().map(Chunk::bytes)
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

impl Ready {
    /// The first bytes that are held.
    pub(crate) fn pop_held(&mut self) -> Option<Chunk> {
        let held = self.held.as_mut()?;
        let chunk = held.pop();
        if held.is_empty() {
            self.held = None;
        }
        chunk
    }

    /// What it has said and nobody has looked at, if that has come in one piece.
    pub(crate) fn held_in_one_piece(&self) -> Option<&[u8]> {
        self.held.as_ref().and_then(|held| held.in_one_piece())
    }

    /// Forgets the first request that is held, if it is there whole, and the Syncs that stand alone before it: how many.
    pub(crate) fn drop_first_request(&mut self) -> Option<usize> {
        let held = self.held.as_ref()?;
        let mut bytes: Vec<u8> = self.session.scanner.torn_header().to_vec();
        bytes.extend(held.bytes());
        let first = first_request(&bytes)?;
        bytes.drain(..first.end);
        self.session.scanner = Scanner::default();
        self.held = (!bytes.is_empty()).then(|| {
            let mut held = Held::default();
            held.push(bytes.into());
            Box::new(held)
        });
        Some(first.syncs)
    }

    /// The kind and declared length of the message that begins next, as far as its header is here.
    pub(crate) fn next_header(&self) -> Option<(u8, u32)> {
        let mut header = [0; 5];
        let torn = self.session.scanner.torn_header();
        let held = self.held.iter().flat_map(|held| held.bytes());
        let mut bytes = torn.iter().copied().chain(held);
        for place in &mut header {
            *place = bytes.next()?;
        }
        Some((header[0], u32::from_be_bytes([header[1], header[2], header[3], header[4]])))
    }
}
