//! What one connection has still to send.
//!
//! Always true: chunks leave in the order in which they came; an empty outbox owns no memory.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::Chunk;

/// Chunks waiting to be sent, the first one inline since there is rarely a second.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    first: Option<Chunk>,
    /// A box, so that a connection at rest is small.
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

    /// The kernel has taken so many bytes. Chunks that are sent whole are let go.
    pub(crate) fn advance(&mut self, mut taken: usize) {
        self.bytes -= taken;
        while let Some(chunk) = &mut self.first {
            let len = chunk.len();
            if taken < len {
                chunk_advance(chunk, taken);
                return;
            }
            taken -= len;
            self.first = self.rest.as_mut().and_then(|rest| rest.pop_front());
            if self.rest.as_ref().is_some_and(|rest| rest.is_empty()) {
                self.rest = None;
            }
        }
        debug_assert!(taken == 0, "the kernel took more than it was given");
    }

    /// Makes one chunk of several, if they are so short together that to copy them costs less than to tell the kernel of each.
    pub(crate) fn join(&mut self) {
        if self.rest.is_some() && self.bytes <= JOINED_BYTES_MAX {
            let mut joined = Vec::with_capacity(self.bytes);
            let chunks = self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()));
            chunks.for_each(|chunk| joined.extend_from_slice(chunk.bytes()));
            (self.first, self.rest) = (Some(joined.into()), None);
        }
    }

    /// The one chunk there is, if there is just one.
    pub(crate) fn only(&self) -> Option<&Chunk> {
        if self.rest.is_none() { self.first.as_ref() } else { None }
    }

    /// The first chunks, as many as `slices` has room for, and not more than `bytes_max` of their bytes; how many.
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>], bytes_max: usize) -> usize {
        let mut chunks = self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()));
        let (mut count, mut room) = (0, bytes_max);
        for slice in slices {
            let Some(chunk) = chunks.next().filter(|_| room > 0) else { break };
            let bytes = &chunk.bytes()[..chunk.len().min(room)];
            *slice = IoSlice::new(bytes);
            (count, room) = (count + 1, room - bytes.len());
        }
        count
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

fn chunk_advance(chunk: &mut Chunk, taken: usize) {
    match chunk {
        Chunk::Span(span) => span.advance(taken),
        Chunk::Own(bytes) => *bytes = bytes[taken..].into(),
        Chunk::Shared(bytes) => *chunk = Chunk::Own(bytes[taken..].into()),
    }
}

/// Chunks are joined up to this length.
const JOINED_BYTES_MAX: usize = 1024;

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
        assert_eq!(outbox.only().map(Chunk::bytes), Some(&b"fgh"[..]));
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
}
