//! Keys of rows in tables.

use std::fmt;
use std::num::NonZeroU32;

/// The key of one row of a [`Slab`](crate::Slab): the place of the row, and the generation of that place. A stale key is
/// harmless, because the next row in the same place has another generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The place in the table.
    pub index: u32,
    /// The generation of the place, counted from 1. Never 0, so that an `Option<Key>` takes no more than 8 bytes.
    pub generation: NonZeroU32,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

impl Key {
    /// The key of no row: no table has so many places.
    pub const NOWHERE: Self = Self::first(u32::MAX);

    /// The key of the first row at a place.
    #[must_use]
    pub const fn first(index: u32) -> Self {
        Self { index, generation: NonZeroU32::MIN }
    }

    /// Packs the key into one word, with the index in the low half.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.index)
    }

    /// The reverse of [`Key::to_bits`]; of bits that no key has, [`Key::NOWHERE`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        NonZeroU32::new((bits >> 32) as u32)
            .map_or(Self::NOWHERE, |generation| Self { index: (bits & 0xffff_ffff) as u32, generation })
    }
}

/// The number of a worker, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(pub u8);
