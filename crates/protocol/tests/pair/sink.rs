//! Collects what the machines of a loan send to one side.
//!
//! Always true: bytes stand in the order in which they were sent. The package `fuzz` includes this file, too.

use std::ops::Range;

use protocol::loan::{ToClient, ToServer};
use protocol::prepared::Bytes;

/// Collects the bytes for one side.
pub(crate) struct Sink<'a> {
    pub(crate) of: &'a [u8],
    pub(crate) out: &'a mut Vec<u8>,
}

impl ToServer for Sink<'_> {
    fn part(&mut self, range: Range<usize>) {
        self.out.extend_from_slice(&self.of[range]);
    }

    fn send(&mut self, bytes: Bytes) {
        match bytes {
            Bytes::Own(bytes) => self.out.extend_from_slice(&bytes),
            Bytes::Shared(bytes) => self.out.extend_from_slice(&bytes),
        }
    }
}

impl ToClient for Sink<'_> {
    fn part(&mut self, range: Range<usize>) {
        self.out.extend_from_slice(&self.of[range]);
    }

    fn send(&mut self, bytes: Box<[u8]>) {
        self.out.extend_from_slice(&bytes);
    }
}
