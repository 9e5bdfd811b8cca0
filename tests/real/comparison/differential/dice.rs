//! Random draws from a seed.
//!
//! Always true: the same seed gives the same draws.
//! Not here: what is drawn.

use base::Random;

/// A source of random choices.
#[derive(Debug)]
pub(super) struct Dice {
    random: Random,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }

    /// A seed for something else.
    pub(super) fn seed(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// A number between `least` and `most`, both included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below(most - least + 1)
    }

    /// True in so many cases of a hundred.
    pub(super) fn percent(&mut self, times: u64) -> bool {
        self.random.below(100) < times
    }

    /// One of the values.
    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize].clone()
    }

    /// One of the values, by weight.
    pub(super) fn weighed<T: Clone>(&mut self, from: &[(u64, T)]) -> T {
        let mut left = self.random.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in from {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return choice.clone(),
            }
        }
        from[0].1.clone()
    }
}
