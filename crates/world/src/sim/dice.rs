//! Chance, determined by the seed.

use std::ops::RangeInclusive;
use std::time::Duration;

use base::Random;

/// One stream of chance. Each part of the world has its own, so removing one part does not change what the others draw.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Random);

impl Dice {
    /// The stream `name` of a seed.
    pub(crate) fn new(seed: u64, name: u64) -> Self {
        let mut mixed = Random::new(seed ^ name.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self(Random::new(mixed.next_u64()))
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        self.0.below(1000) < u64::from(per_mille)
    }

    /// A number of a range.
    pub(crate) fn among(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.0.below(range.end() - range.start() + 1)
    }

    /// A duration of a range, in microseconds.
    pub(crate) fn micros(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_micros(self.among(range))
    }

    /// One of several values.
    pub(crate) fn pick<T: Copy>(&mut self, several: &[T]) -> T {
        several[self.0.below(several.len() as u64) as usize]
    }
}
