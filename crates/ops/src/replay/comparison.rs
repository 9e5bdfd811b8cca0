//! What two targets have in common: whether they answer the same, and how long it takes.
//!
//! Always true: an answer that differs between two runs against the same target is no difference between targets.
//! Not here: the runs (`player`).

use std::collections::BTreeMap;

use serde::Serialize;

use super::player::{Outcome, Run};
use crate::load::ratio;
use crate::theory::estimate::Estimate;

/// The comparison of two targets.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(super) struct Comparison {
    /// Requests that both targets answered.
    pub(super) compared: u64,
    /// Those whose answers changed between two runs against the same target, or would if it had been asked twice.
    pub(super) changing: u64,
    /// Statements with answers that differ.
    pub(super) different: Vec<Difference>,
    /// The time of the first target over that of the second, for the same requests.
    pub(super) times: Option<Estimate>,
}

/// A statement that two targets answer differently.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Difference {
    /// The number of the statement in the recording.
    pub(super) statement: usize,
    /// How often.
    pub(super) count: u64,
    /// An example of both answers.
    pub(super) first: String,
    pub(super) second: String,
}

/// Compares the runs against one target with those against another.
pub(super) fn compare(first: &[&Run], second: &[&Run], seed: u64) -> Comparison {
    let mut comparison = Comparison::default();
    let mut different = BTreeMap::<usize, Difference>::new();
    let mut pairs = Vec::new();
    let count = first.iter().chain(second).map(|run| run.outcomes.len()).min().unwrap_or(0);
    for number in 0..count {
        let of = |runs: &[&Run]| -> Option<Vec<Outcome>> {
            runs.iter().map(|run| run.outcomes[number].clone()).collect::<Option<Vec<_>>>()
        };
        let (Some(ours), Some(theirs)) = (of(first), of(second)) else { continue };
        let (Some(one), Some(other)) = (ours.first(), theirs.first()) else { continue };
        comparison.compared += 1;
        let mean =
            |outcomes: &[Outcome]| outcomes.iter().map(|one| one.took as f64).sum::<f64>() / outcomes.len() as f64;
        if pairs.len() < PAIRS_MAX {
            pairs.push((mean(&ours), mean(&theirs)));
        }
        let is_steady = |outcomes: &[Outcome]| outcomes.iter().all(|one| one.answer == outcomes[0].answer);
        if !is_steady(&ours) || !is_steady(&theirs) {
            comparison.changing += 1;
        } else if one.answer != other.answer {
            let difference = different.entry(one.statement).or_insert_with(|| Difference {
                statement: one.statement,
                count: 0,
                first: one.answer.words(),
                second: other.answer.words(),
            });
            difference.count += 1;
        }
    }
    comparison.different = different.into_values().collect();
    comparison.times = ratio(&pairs, CONFIDENCE, seed);
    comparison
}

const CONFIDENCE: f64 = 0.95;
/// More pairs make the interval no better, and drawing from them slow.
const PAIRS_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::player::Answer;

    fn run(answers: &[u64], took: u64) -> Run {
        let outcome = |digest: &u64| {
            let answer =
                if *digest == 0 { Answer::Refused("42P01".into()) } else { Answer::Rows { rows: 1, digest: *digest } };
            Some(Outcome { statement: 0, answer, took })
        };
        Run { outcomes: answers.iter().map(outcome).collect(), ..Run::default() }
    }

    #[test]
    fn a_difference_is_one_only_if_each_target_agrees_with_itself() {
        let (a1, a2) = (run(&[1, 2, 3, 1], 10), run(&[1, 2, 9, 1], 10));
        let (b1, b2) = (run(&[1, 5, 3, 0], 20), run(&[1, 5, 3, 0], 20));
        let comparison = compare(&[&a1, &a2], &[&b1, &b2], 1);
        assert_eq!((comparison.compared, comparison.changing), (4, 1));
        let [only] = &comparison.different[..] else { panic!("{comparison:?}") };
        assert_eq!(only.count, 2);
        assert!(comparison.times.is_some_and(|times| times.has(0.5)));
    }

    #[test]
    fn what_was_not_answered_is_not_compared() {
        let mut a = run(&[1, 2], 10);
        a.outcomes[0] = None;
        let comparison = compare(&[&a], &[&run(&[7, 2], 10)], 1);
        assert_eq!((comparison.compared, comparison.different.len()), (1, 0));
    }
}
