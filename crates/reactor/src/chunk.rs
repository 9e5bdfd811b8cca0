//! Bytes on their way out.

use std::ops::Range;
use std::rc::Rc;

use crate::Span;

/// Bytes to be sent. Whatever they are, they stay where they are until they are sent.
#[derive(Debug)]
pub enum Chunk {
    /// Received bytes that are sent on.
    Span(Span),
    /// Bytes of our own.
    Own(Box<[u8]>),
    /// Bytes of our own that many are sent.
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

    /// A part of the bytes: a span is shared, what is our own is copied.
    ///
    /// # Panics
    /// When the range does not lie within.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Span(span) => Self::Span(span.slice(range)),
            Self::Own(_) | Self::Shared(_) => Self::Own(self.bytes()[range].into()),
        }
    }

    /// How many bytes.
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
