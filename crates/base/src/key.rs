//! Names of rows in tables.

use std::fmt;

/// The name of one row of a [`Slab`](crate::Slab): its place, and which tenant of that place is meant. A key outlives
/// its row harmlessly, since the next tenant has another generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The place in the table.
    pub index: u32,
    /// Which tenant of that place, counted from 1; never 0.
    pub generation: u32,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

impl Key {
    /// A key in one word: the place in the low half.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The reverse of [`Key::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self { index: (bits & 0xffff_ffff) as u32, generation: (bits >> 32) as u32 }
    }
}

/// Which worker, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(pub u8);
