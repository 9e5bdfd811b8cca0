//! Which requests are looked at to tell statements apart, and what is known of one that is.
//!
//! Always true: where one of n requests is looked at it stands for those since the last one, so that all together stand for all; which it is
//! nobody can foresee who asks n statements by turns.
//! Not here: what follows from one (`data::statements`).

use base::Random;
use measure::{Description, Room, Spent};

/// Chooses requests.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// How many come before the next one, itself included; 0 is none.
    left: u32,
    /// How many there were when it was chosen.
    gap: u32,
    every: u32,
    random: Random,
    /// Rows of statements, in all databases of a worker.
    pub(crate) room: Room,
}

/// A request that is looked at.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// For how many it stands.
    pub(crate) weight: u32,
    /// Which statement it is, if that could be read.
    pub(crate) statement: Option<(u64, Description)>,
    /// Where the time of its transaction had gone before it.
    pub(crate) before: Spent,
}

impl Sampler {
    pub(crate) fn new(every: u32) -> Self {
        let mut sampler =
            Self { left: 0, gap: 0, every: 0, random: Random::new(u64::from(every)), room: Room::new(ROWS_MAX) };
        sampler.look_at(every);
        sampler
    }

    /// One of so many is looked at from now on; 0 is none.
    pub(crate) fn look_at(&mut self, every: u32) {
        if self.every != every {
            self.every = every;
            self.choose();
        }
    }

    /// A request begins. If it is to be looked at, for how many it stands.
    #[inline]
    pub(crate) fn begins(&mut self) -> Option<u32> {
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 { self.chosen() } else { None }
    }

    #[cold]
    fn chosen(&mut self) -> Option<u32> {
        let weight = self.gap;
        self.choose();
        (self.every > 0).then_some(weight)
    }

    fn choose(&mut self) {
        let every = u64::from(self.every);
        self.gap = if every == 0 { u32::MAX } else { (1 + self.random.below(2 * every - 1)) as u32 };
        self.left = self.gap;
    }
}

/// So many statements have a row in one worker.
const ROWS_MAX: u32 = 8000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_looked_at_stand_for_all() {
        for every in [1, 2, 16, 1000] {
            let mut sampler = Sampler::new(every);
            let (mut count, mut stands_for, mut last) = (0, 0, 0);
            for request in 1..=100_000 {
                if let Some(weight) = sampler.begins() {
                    (count, stands_for, last) = (count + 1, stands_for + weight, request);
                }
            }
            assert_eq!(stands_for, last, "all up to the last one");
            let expected = 100_000 / every;
            assert!(count * 10 > expected * 8 && count * 8 < expected * 10, "{count} of {expected}");
        }
    }

    /// An application that asks sixteen statements by turns is seen with all of them.
    #[test]
    fn statements_by_turns_are_all_seen() {
        let mut sampler = Sampler::new(16);
        let mut seen = [0_u32; 16];
        for request in 0..160_000 {
            seen[request % 16] += sampler.begins().unwrap_or(0);
        }
        assert!(seen.iter().all(|calls| (8000..12_000).contains(calls)), "{seen:?}");
    }

    #[test]
    fn none_is_looked_at_until_that_is_asked_for() {
        let mut sampler = Sampler::new(0);
        assert!((0..100_000).all(|_| sampler.begins().is_none()));
        sampler.look_at(1);
        assert_eq!((sampler.begins(), sampler.begins()), (Some(1), Some(1)));
        sampler.look_at(0);
        assert!((0..100_000).all(|_| sampler.begins().is_none()));
    }
}
