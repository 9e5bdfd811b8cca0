//! Laws by which times are drawn, and the dice that draw them.
//!
//! Always true: the same seed gives the same times; a drawn time is between 0 and an hour, in microseconds.
//! Not here: when something is drawn (`engine`).

use std::convert::Infallible;

use base::Random;
use rand_core::TryRng;
use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::{Distribution, Exp1, StandardNormal};

/// A law of times. Parameters are in seconds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Law {
    Constant(f64),
    Exponential {
        mean: f64,
    },
    /// `scv` is the variance over the squared mean.
    Lognormal {
        mean: f64,
        scv: f64,
    },
    /// `second` with this probability, else `first`.
    TwoPoint {
        first: f64,
        second: f64,
        probability: f64,
    },
    /// The inverse of a distribution: shares from 0 to 1 with their times, ascending, straight lines between them.
    Quantiles(Vec<(f64, f64)>),
}

impl Law {
    pub(crate) const ZERO: Self = Self::Constant(0.0);

    /// The mean in seconds.
    pub(crate) fn mean(&self) -> f64 {
        match self {
            Self::Constant(seconds) => *seconds,
            Self::Exponential { mean } | Self::Lognormal { mean, .. } => *mean,
            Self::TwoPoint { first, second, probability } => first + (second - first) * probability,
            Self::Quantiles(points) => {
                points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1)).sum()
            }
        }
    }

    /// Draws a time in microseconds.
    pub(crate) fn draw(&self, dice: &mut Dice) -> u64 {
        let seconds = match self {
            Self::Constant(seconds) => *seconds,
            Self::Exponential { mean } => mean * dice.exponential(),
            Self::Lognormal { mean, scv } => {
                let variance = (1.0 + scv).ln();
                let normal: f64 = StandardNormal.sample(dice);
                mean * (normal * variance.sqrt() - variance / 2.0).exp()
            }
            Self::TwoPoint { first, second, probability } => {
                if dice.part() < *probability {
                    *second
                } else {
                    *first
                }
            }
            Self::Quantiles(points) => {
                let part = dice.part();
                let above = points.partition_point(|(share, _)| *share <= part).clamp(1, points.len() - 1);
                let ((low, from), (high, to)) = (points[above - 1], points[above]);
                from + (to - from) * (part - low) / (high - low)
            }
        };
        micros(seconds)
    }
}

/// Seconds as microseconds, at most an hour.
pub(crate) fn micros(seconds: f64) -> u64 {
    // Adding a half and cutting is what rounding does, without a call.
    (seconds.clamp(0.0, 3600.0) * 1e6 + 0.5) as u64
}

/// Chance by a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Random);

impl Dice {
    /// Streams of the same seed do not depend on each other.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Random::new(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        let seed = random.next_u64();
        Self(Random::new(seed))
    }

    /// A number from 0 up to, not including, 1.
    pub(crate) fn part(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number by the exponential law of mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        Exp1.sample(self)
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0.below(u64::from(bound)) as u32
    }

    /// One of several places, by their weights.
    pub(crate) fn place(&mut self, weights: &WeightedAliasIndex<f64>) -> usize {
        weights.sample(self)
    }
}

impl TryRng for Dice {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.0.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_times_have_the_mean_of_their_law() {
        let laws = [
            Law::Constant(0.02),
            Law::Exponential { mean: 0.02 },
            Law::Lognormal { mean: 0.02, scv: 2.0 },
            Law::TwoPoint { first: 0.005, second: 0.155, probability: 0.1 },
            Law::Quantiles(vec![(0.0, 0.001), (0.5, 0.01), (0.99, 0.1), (1.0, 0.5)]),
        ];
        for law in laws {
            let mut dice = Dice::new(1, 2);
            let drawn: u64 = (0..200_000).map(|_| law.draw(&mut dice)).sum();
            let mean = drawn as f64 / 200_000.0 / 1e6;
            assert!((mean / law.mean() - 1.0).abs() < 0.02, "{law:?}: {mean} and {}", law.mean());
        }
    }

    #[test]
    fn a_seed_tells_the_same_story_and_streams_differ() {
        let draw = |seed, stream| Dice::new(seed, stream).part().to_bits();
        assert_eq!(draw(1, 1), draw(1, 1));
        assert!(draw(1, 1) != draw(1, 2) && draw(1, 1) != draw(2, 1));
    }
}
