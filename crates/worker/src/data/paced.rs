//! The clients that send much, and how each of them is received from.
//!
//! Always true: those that wait are in the order of their turns; a client stands in the line once, or has gone.
//! Not here: when a client is received from (`pace`).

use std::collections::VecDeque;

use base::Key;
use reactor::BUFFER_BYTES;

/// How a client is received from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Pace {
    /// Whenever it sends.
    #[default]
    Stream,
    /// It waits for its turn.
    Waits,
    /// Once, and again as long as it sends little, so that the beginning of its next long text does not come all at
    /// once; it has done so this many times in a row.
    Once { little: u8 },
}

impl Pace {
    /// Whether so many bytes of a client with this pace have a consequence for it.
    #[inline]
    pub(crate) fn is_touched_by(self, bytes: usize) -> bool {
        (bytes >= MUCH) | (self != Self::Stream)
    }
}

/// The clients that wait to be received from, in the order of their turns.
#[derive(Debug, Default)]
pub(crate) struct Paced(VecDeque<Key>);

impl Paced {
    /// A client, which does not stand in the line yet, waits for its turn.
    pub(super) fn push(&mut self, client: Key) {
        self.0.push_back(client);
    }

    /// The client that has waited longest; it may have gone.
    pub(super) fn pop(&mut self) -> Option<Key> {
        self.0.pop_front()
    }

    /// Whether the next turn of the worker has to follow at once.
    pub(crate) fn is_any_waiting(&self) -> bool {
        !self.0.is_empty()
    }
}

/// From so many bytes on there may be more in the client's socket: a receive buffer is full, or nearly, if it was
/// encrypted.
pub(super) const MUCH: usize = BUFFER_BYTES / 4 * 3;
/// A client that has sent little so many times in a row is received from whenever it sends: that costs a little less.
pub(super) const LITTLE_MAX: u8 = 64;
