//! Choices read from the front of an input.
//!
//! Always true: an input that has run out returns zeros, so every input has a meaning.

/// The rest of an input.
pub(crate) struct Draw<'i> {
    rest: &'i [u8],
}

impl<'i> Draw<'i> {
    pub(crate) fn new(input: &'i [u8]) -> Self {
        Self { rest: input }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        byte
    }

    /// One of these values.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }

    /// A seed for a random generator.
    pub(crate) fn number(&mut self) -> u64 {
        u64::from(u16::from_be_bytes([self.byte(), self.byte()]))
    }

    /// Up to so many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'i [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// All bytes that were not taken.
    pub(crate) fn rest(&self) -> &'i [u8] {
        self.rest
    }
}

/// Cuts bytes into parts, in the same places for the same seed.
pub(crate) fn cuts(bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut random = base::Random::new(seed);
    let mut parts = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        // Mostly short parts, because those cut headers.
        let piece_max = if random.below(4) == 0 { rest.len() as u64 } else { 7 };
        let (part, after) = rest.split_at((1 + random.below(piece_max) as usize).min(rest.len()));
        parts.push(part);
        rest = after;
    }
    parts
}
