//! Finds the boundaries of messages in a stream of bytes, however the stream is split into reads.
//!
//! Always true: any split of the same bytes yields the same messages. Messages are never collected here; their pieces are
//! referenced. Only an incomplete header is kept, because without a whole header it is unknown where the message goes; the
//! kept bytes are available again with the first [`Piece`].
//! Not here: startup packets, which have no kind byte (see [`crate::startup`]).

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Finds messages in a stream of bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Scanner {
    header: [u8; HEADER_BYTES],
    /// How many bytes of an incomplete header have been seen; less than [`HEADER_BYTES`].
    have: u8,
    /// How many body bytes of the current message are still to come.
    left: u32,
}

/// A piece of one message, as ranges of the bytes given to [`Scanner::next`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The kind byte of the message.
    pub kind: u8,
    /// Whether this is the first piece of the message.
    pub part: Part,
    /// The range of the piece, including the header bytes that are in this input.
    pub range: Range<usize>,
    /// The range of the body bytes of this piece.
    pub body: Range<usize>,
    /// How many body bytes are still to come after this piece; 0 if the message ends with it.
    pub left: u32,
}

/// The position of a piece in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The first piece, with which the header is complete.
    First {
        /// How many header bytes came with earlier calls, 0 to 4. They are not in the range of this piece;
        /// [`Scanner::header`] still has them.
        carried: u8,
        /// The length of the whole body.
        body_bytes: u32,
    },
    /// A later piece.
    Later,
}

impl Piece {
    /// Whether the message ends with this piece.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.left == 0
    }

    /// Whether this piece has the whole message, except perhaps for header bytes that came earlier.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.left == 0 && matches!(self.part, Part::First { .. })
    }
}

/// What [`Scanner::next`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A piece of a message; the next call continues at the end of its range.
    Piece(Piece),
    /// All given bytes are consumed, and more are needed.
    More,
    /// The declared length is invalid. The stream cannot be parsed any further.
    Bad {
        /// The kind byte of the message.
        kind: u8,
        /// The declared length, including the four length bytes.
        length: u32,
    },
}

impl Scanner {
    /// Parses `bytes` from `at` on. `length_max` bounds the declared length.
    pub fn next(&mut self, bytes: &[u8], at: usize, length_max: u32) -> Step {
        if self.left > 0 {
            return self.later(bytes, at);
        }
        let rest = &bytes[at..];
        if self.have == 0 && rest.len() >= HEADER_BYTES {
            self.header.copy_from_slice(&rest[..HEADER_BYTES]);
            return self.first(bytes, at, HEADER_BYTES, 0, length_max);
        }
        let carried = self.have;
        let here = rest.len().min(HEADER_BYTES - usize::from(carried));
        self.header[usize::from(carried)..usize::from(carried) + here].copy_from_slice(&rest[..here]);
        if usize::from(carried) + here < HEADER_BYTES {
            self.have += here as u8;
            return Step::More;
        }
        self.have = 0;
        self.first(bytes, at, here, carried, length_max)
    }

    fn first(&mut self, bytes: &[u8], at: usize, header_here: usize, carried: u8, length_max: u32) -> Step {
        let kind = self.header[0];
        let length = u32::from_be_bytes([self.header[1], self.header[2], self.header[3], self.header[4]]);
        if length < 4 || length > length_max {
            return Step::Bad { kind, length };
        }
        let body_bytes = length - 4;
        let body_start = at + header_here;
        let here = (bytes.len() - body_start).min(body_bytes as usize);
        self.left = body_bytes - here as u32;
        let part = Part::First { carried, body_bytes };
        Step::Piece(Piece {
            kind,
            part,
            range: at..body_start + here,
            body: body_start..body_start + here,
            left: self.left,
        })
    }

    fn later(&mut self, bytes: &[u8], at: usize) -> Step {
        let here = (bytes.len() - at).min(self.left as usize);
        if here == 0 {
            return Step::More;
        }
        self.left -= here as u32;
        let range = at..at + here;
        Step::Piece(Piece {
            kind: self.header[0],
            part: Part::Later,
            range: range.clone(),
            body: range,
            left: self.left,
        })
    }

    /// Notes a whole message that was found without [`Scanner::next`], between two messages.
    ///
    /// # Panics
    /// The message is shorter than a header.
    #[inline]
    pub fn pass(&mut self, message: &[u8]) {
        debug_assert!(self.is_between(), "a message within another");
        self.header.copy_from_slice(&message[..HEADER_BYTES]);
    }

    /// The header of the message to which the last piece belongs.
    #[must_use]
    pub fn header(&self) -> &[u8; HEADER_BYTES] {
        &self.header
    }

    /// The bytes of an incomplete header that have been seen so far.
    #[must_use]
    pub fn torn_header(&self) -> &[u8] {
        &self.header[..usize::from(self.have)]
    }

    /// Whether the stream is at a message boundary.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.have == 0 && self.left == 0
    }

    /// Whether a part of a message body is still to come.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        self.left > 0
    }
}

/// Bytes of a header: the kind and the length.
pub const HEADER_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All messages of a stream that is split into these parts.
    fn messages(parts: &[&[u8]]) -> Vec<(u8, Vec<u8>)> {
        let mut scanner = Scanner::default();
        let mut found: Vec<(u8, Vec<u8>)> = Vec::new();
        for part in parts {
            let mut at = 0;
            while at < part.len() {
                match scanner.next(part, at, u32::MAX) {
                    Step::Piece(piece) => {
                        if let Part::First { .. } = piece.part {
                            found.push((piece.kind, Vec::new()));
                        }
                        found.last_mut().expect("a first piece").1.extend_from_slice(&part[piece.body.clone()]);
                        at = piece.range.end;
                    }
                    Step::More => break,
                    Step::Bad { .. } => panic!("a bad length in a good stream"),
                }
            }
        }
        assert!(scanner.is_between());
        found
    }

    fn stream(bodies: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, body) in bodies {
            bytes.push(*kind);
            bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            bytes.extend_from_slice(body);
        }
        bytes
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_messages(
            bodies in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        ) {
            let bytes = stream(&bodies);
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.push(0);
            places.push(bytes.len());
            places.sort_unstable();
            let parts: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(messages(&parts), bodies);
        }

        #[test]
        fn random_bytes_never_panic_and_always_move_on(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut scanner = Scanner::default();
            let mut at = 0;
            while at < bytes.len() {
                match scanner.next(&bytes, at, 1000) {
                    Step::Piece(piece) => { prop_assert!(piece.range.end > at); at = piece.range.end; }
                    Step::More => break,
                    Step::Bad { length, .. } => { prop_assert!(!(4..=1000).contains(&length)); break; }
                }
            }
        }
    }

    #[test]
    fn one_byte_at_a_time_is_a_split_too() {
        let bodies = vec![(b'Q', b"select 1\0".to_vec()), (b'S', vec![])];
        let bytes = stream(&bodies);
        let parts: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(messages(&parts), bodies);
    }

    #[test]
    fn a_torn_header_is_handed_out_with_the_first_piece() {
        let mut scanner = Scanner::default();
        assert_eq!(scanner.next(b"Z\0\0", 0, 100), Step::More);
        assert_eq!(scanner.torn_header(), b"Z\0\0");
        let Step::Piece(piece) = scanner.next(b"\0\x05I", 0, 100) else { panic!("the message is whole") };
        assert_eq!(piece.part, Part::First { carried: 3, body_bytes: 1 });
        assert_eq!(&scanner.header()[..3], b"Z\0\0");
        assert_eq!(piece.body, 2..3);
        assert!(piece.is_whole());
    }

    #[test]
    fn a_length_that_no_message_can_have_is_bad() {
        for length in [0_u32, 3, 101, u32::MAX] {
            let mut bytes = vec![b'Q'];
            bytes.extend_from_slice(&length.to_be_bytes());
            assert_eq!(Scanner::default().next(&bytes, 0, 100), Step::Bad { kind: b'Q', length });
        }
    }
}
