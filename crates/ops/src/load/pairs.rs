//! Targets compared by turns.
//!
//! Always true: what drifts evenly while a comparison runs touches all targets alike.
//! Not here: what is compared.

use crate::theory::estimate::{Estimate, bootstrap};

/// In which order `targets` are run for so many rounds, each of which runs all: there and back (ABBA for two of them).
pub(crate) fn turns(targets: usize, rounds: usize) -> Vec<usize> {
    let forward = |round: &usize| round.is_multiple_of(2);
    let round = |round: usize| -> Vec<usize> {
        let order = 0..targets;
        if forward(&round) { order.collect() } else { order.rev().collect() }
    };
    (0..rounds).flat_map(round).collect()
}

/// The first figure of pairs over the second, with an interval by resampled pairs. `None` for fewer than two pairs.
pub(crate) fn ratio(pairs: &[(f64, f64)], confidence: f64, seed: u64) -> Option<Estimate> {
    bootstrap(pairs, DRAWS, confidence, seed, |pairs| {
        let (first, second) = pairs.iter().fold((0.0, 0.0), |(a, b), pair| (a + pair.0, b + pair.1));
        (second > 0.0).then_some(first / second)
    })
}

const DRAWS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Dice;

    #[test]
    fn targets_are_run_there_and_back() {
        assert_eq!(turns(2, 4), [0, 1, 1, 0, 0, 1, 1, 0]);
        assert_eq!(turns(3, 2), [0, 1, 2, 2, 1, 0]);
        assert_eq!(turns(1, 2), [0, 0]);
    }

    /// A machine that becomes slower by a tenth from run to run: the pairs know nothing of it.
    #[test]
    fn a_drift_of_the_machine_does_not_move_the_ratio() {
        let mut held = 0;
        for seed in 0..200 {
            let mut dice = Dice::new(seed, 1);
            let mut figures = [Vec::new(), Vec::new()];
            for (number, target) in turns(2, 12).into_iter().enumerate() {
                let truth = [12.0, 10.0][target] * (1.0 + 0.1 * number as f64);
                figures[target].push(truth * (0.98 + 0.04 * dice.part()));
            }
            let pairs: Vec<_> = figures[0].iter().copied().zip(figures[1].iter().copied()).collect();
            held += u32::from(ratio(&pairs, 0.95, 1).is_some_and(|ratio| ratio.has(1.2)));
        }
        assert!(held >= 170, "{held} of 200");
        assert_eq!(ratio(&[(1.0, 2.0)], 0.95, 1), None);
    }
}
