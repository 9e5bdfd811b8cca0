//! Bytes to be sent.

use std::ops::Range;
use std::rc::Rc;

use crate::Span;

/// Bytes to be sent. The memory stays in place until the kernel has taken it.
#[derive(Debug)]
pub enum Chunk {
    /// Received bytes that are forwarded.
    Span(Span),
    /// Bytes that Trunkline wrote.
    Own(Box<[u8]>),
    /// Bytes that Trunkline wrote and sends to many connections.
    Shared(Rc<[u8]>),
}

impl Chunk {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Span(span) => span,
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// A part of the bytes: a span is shared, other bytes are copied.
    ///
    /// # Panics
    /// When the range does not lie within the chunk.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Span(span) => Self::Span(span.slice(range)),
            Self::Own(_) | Self::Shared(_) => Self::Own(self.bytes()[range].into()),
        }
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Span> for Chunk {
    fn from(span: Span) -> Self {
        Self::Span(span)
    }
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes.into())
    }
}
