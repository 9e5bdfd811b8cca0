//! Keys of rows in tables.

use std::fmt;

/// The key of one row of a [`Slab`](crate::Slab): the place of the row, and the generation of that place. A stale key is
/// harmless, because the next row in the same place has another generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The place in the table.
    pub index: u32,
    /// The generation of the place, counted from 1; never 0.
    pub generation: u32,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

impl Key {
    /// Packs the key into one word, with the index in the low half.
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

/// The number of a worker, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(pub u8);
