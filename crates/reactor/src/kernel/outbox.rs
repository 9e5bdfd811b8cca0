//! The bytes that one connection still has to send.
//!
//! Always true: chunks leave in the order in which they came; an empty outbox owns no memory; however little the kernel
//! takes at a time, not more bytes are copied than are sent.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;

use crate::Chunk;

/// Chunks waiting to be sent. The first is stored inline, since there is rarely a second.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    first: Option<Chunk>,
    /// How many bytes of the first chunk have been sent.
    sent: usize,
    /// Boxed, so that an idle connection is small.
    #[allow(clippy::box_collection)]
    rest: Option<Box<VecDeque<Chunk>>>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.bytes += chunk.len();
        if self.first.is_none() {
            self.first = Some(chunk);
        } else {
            self.rest.get_or_insert_default().push_back(chunk);
        }
    }

    /// Records that the kernel has taken `taken` bytes. Chunks that are sent completely are freed.
    pub(crate) fn advance(&mut self, taken: usize) {
        self.bytes -= taken;
        self.sent += taken;
        while let Some(chunk) = &self.first {
            let length = chunk.len();
            if self.sent < length {
                self.trim();
                return;
            }
            self.sent -= length;
            self.first = self.rest.as_mut().and_then(|rest| rest.pop_front());
            if self.rest.as_ref().is_some_and(|rest| rest.is_empty()) {
                self.rest = None;
            }
        }
        debug_assert!(self.sent == 0, "the kernel took more than it was given");
    }

    /// Frees the sent part of the first chunk. A span is shortened. A chunk in memory of our own is replaced by a copy
    /// of its rest when at least [`KEPT_BYTES_MAX`] have been sent since the last copy, and the rest is neither longer
    /// than that part nor longer than [`COPIED_BYTES_MAX`], so that it can be copied within a turn.
    fn trim(&mut self) {
        let Some(chunk) = &mut self.first else { return };
        let rest = chunk.len() - self.sent;
        let is_due = self.sent >= rest.max(KEPT_BYTES_MAX) && rest <= COPIED_BYTES_MAX;
        match chunk {
            Chunk::Span(span) => span.advance(std::mem::take(&mut self.sent)),
            Chunk::Own(bytes) if is_due => *bytes = bytes[std::mem::take(&mut self.sent)..].into(),
            // Copying bytes that other connections keep would only take more memory.
            Chunk::Shared(bytes) if is_due && Rc::strong_count(bytes) == 1 => {
                *chunk = Chunk::Own(bytes[std::mem::take(&mut self.sent)..].into());
            }
            Chunk::Own(_) | Chunk::Shared(_) => {}
        }
    }

    /// Joins all chunks into one, if together they are so short that copying them costs less than passing each to the
    /// kernel.
    pub(crate) fn join(&mut self) {
        if self.rest.is_some() && self.bytes <= JOINED_BYTES_MAX {
            let mut joined = Vec::with_capacity(self.bytes);
            self.parts().for_each(|part| joined.extend_from_slice(part));
            (self.first, self.sent, self.rest) = (Some(joined.into()), 0, None);
        }
    }

    /// The unsent bytes of the only chunk, if there is exactly one.
    pub(crate) fn only(&self) -> Option<&[u8]> {
        if self.rest.is_none() { self.first.as_ref().map(|chunk| &chunk.bytes()[self.sent..]) } else { None }
    }

    /// Fills `slices` with the first chunks, at most `bytes_max` of their bytes, and returns how many slices were
    /// filled.
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>], bytes_max: usize) -> usize {
        let mut parts = self.parts();
        let (mut count, mut room) = (0, bytes_max);
        for slice in slices {
            let Some(part) = parts.next().filter(|_| room > 0) else { break };
            let bytes = &part[..part.len().min(room)];
            *slice = IoSlice::new(bytes);
            (count, room) = (count + 1, room - bytes.len());
        }
        count
    }

    /// The unsent bytes of each chunk.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let first = self.first.iter().map(|chunk| &chunk.bytes()[self.sent..]);
        first.chain(self.rest.iter().flat_map(|rest| rest.iter()).map(Chunk::bytes))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// Chunks are joined up to this total length.
const JOINED_BYTES_MAX: usize = 1024;
/// This much of a chunk may have been sent before its rest is copied and the chunk freed.
const KEPT_BYTES_MAX: usize = 16 * 1024;
/// A longer rest is not copied in a turn: copying this much takes half a millisecond.
const COPIED_BYTES_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn own(bytes: &[u8]) -> Chunk {
        Chunk::Own(bytes.into())
    }

    fn shown(outbox: &Outbox) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = outbox.gather(&mut slices, usize::MAX);
        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    #[test]
    fn chunks_leave_in_order_whatever_the_kernel_takes() {
        let mut outbox = Outbox::default();
        for part in [&b"abc"[..], b"de", b"fgh"] {
            outbox.push(own(part));
        }
        assert_eq!((outbox.bytes(), shown(&outbox)), (8, b"abcdefgh".to_vec()));
        outbox.advance(4);
        assert_eq!((outbox.bytes(), shown(&outbox)), (4, b"efgh".to_vec()));
        outbox.advance(1);
        assert_eq!(outbox.only(), Some(&b"fgh"[..]));
        outbox.advance(3);
        assert!(outbox.is_empty() && outbox.rest.is_none());
    }

    #[test]
    fn short_chunks_are_joined_and_long_ones_stay_where_they_are() {
        for (length, is_joined) in [(1, true), (JOINED_BYTES_MAX / 2, true), (JOINED_BYTES_MAX / 2 + 1, false)] {
            let mut outbox = Outbox::default();
            outbox.push(own(&vec![1; length]));
            outbox.join();
            outbox.push(Chunk::Shared(vec![2; length].into()));
            let before = shown(&outbox);
            outbox.join();
            assert_eq!((outbox.only().is_some(), outbox.bytes()), (is_joined, 2 * length));
            assert!(shown(&outbox) == before);
            outbox.advance(2 * length);
            assert!(outbox.is_empty() && outbox.rest.is_none());
        }
    }

    #[test]
    fn no_more_is_gathered_than_may_be_sent_at_once() {
        let mut outbox = Outbox::default();
        for part in [&b"abc"[..], b"de", b"fgh"] {
            outbox.push(own(part));
        }
        for (most, lengths) in [(2, vec![2]), (3, vec![3]), (6, vec![3, 2, 1]), (100, vec![3, 2, 3])] {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = outbox.gather(&mut slices, most);
            assert_eq!(slices[..count].iter().map(|slice| slice.len()).collect::<Vec<_>>(), lengths);
        }
    }

    #[test]
    fn a_chunk_sent_to_its_last_byte_is_let_go() {
        let mut outbox = Outbox::default();
        outbox.push(own(b"ab"));
        outbox.push(own(b"cd"));
        outbox.advance(2);
        assert_eq!(shown(&outbox), b"cd");
    }
    /// When a reader took a few bytes at a time, the rest of the chunk was once copied each time.
    #[test]
    fn what_is_left_of_a_chunk_stays_where_it_is_while_it_is_longer_than_what_has_been_sent() {
        for (length, pieces) in [(100_000, 50), (3 * COPIED_BYTES_MAX, 100_000)] {
            for is_shared in [false, true] {
                let bytes: Vec<u8> = (0..length).map(|place| place as u8).collect();
                let mut outbox = Outbox::default();
                outbox.push(if is_shared { Chunk::Shared(bytes.clone().into()) } else { own(&bytes) });
                let (mut sent, mut copied) = (0, 0);
                while let Some(left) = outbox.only() {
                    assert!(*left == bytes[sent..]);
                    let (before, taken) = (left.as_ptr(), pieces.min(left.len()));
                    sent += taken;
                    outbox.advance(taken);
                    copied += match outbox.only() {
                        Some(left) if left.as_ptr() != before.wrapping_add(taken) => left.len(),
                        _ => 0,
                    };
                    let kept = outbox.first.as_ref().map_or(0, Chunk::len);
                    assert!(
                        outbox.bytes() > COPIED_BYTES_MAX
                            || kept <= (2 * outbox.bytes()).max(outbox.bytes() + KEPT_BYTES_MAX)
                    );
                }
                assert!(copied > 0 && copied <= sent && sent == length, "{copied} of {sent}");
            }
        }
    }

    #[test]
    fn what_others_have_too_is_not_copied() {
        let bytes: Rc<[u8]> = vec![1; 100_000].into();
        let mut outbox = Outbox::default();
        outbox.push(Chunk::Shared(bytes.clone()));
        outbox.advance(90_000);
        assert_eq!(outbox.only().map(<[u8]>::as_ptr), Some(bytes[90_000..].as_ptr()));
        outbox.push(own(b"ab"));
        outbox.advance(10_001);
        assert_eq!((outbox.only(), outbox.bytes(), Rc::strong_count(&bytes)), (Some(&b"b"[..]), 1, 1));
    }
}
