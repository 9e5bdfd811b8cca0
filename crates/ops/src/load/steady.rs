//! Whether a run had settled: where its beginning ends, and whether it still drifted.
//!
//! Always true: a run whose beginning reaches into its second half, or whose throughput still moves, is not steady, whatever its mean.
//! Not here: intervals (`theory::estimate`).

use super::tally::Sample;
use crate::theory::estimate::{Trend, trend, warm_up};

/// Whether a run had settled.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Steadiness {
    /// The requests that were to be sent before this time are its beginning; in microseconds.
    pub(crate) begins: u64,
    /// How its throughput moved, if there are enough seconds to tell.
    pub(crate) drift: Option<Trend>,
    /// Why it is not steady; empty if it is.
    pub(crate) reasons: Vec<String>,
}

/// Judges the requests of a run, in the order in which they were to be sent, and its answers in each whole second.
pub(crate) fn steadiness(samples: &[Sample], per_second: &[u32]) -> Steadiness {
    let mut reasons = Vec::new();
    let block = samples.len().div_ceil(BLOCKS_MAX).max(1);
    let means: Vec<f64> = samples
        .chunks(block)
        .map(|block| block.iter().map(|sample| sample.total as f64).sum::<f64>() / block.len() as f64)
        .collect();
    let place = warm_up(&means);
    let begins = samples.get(place * block).map_or(0, |sample| if place == 0 { 0 } else { sample.at });
    if place * 2 > means.len() {
        reasons.push("its times had not settled by the middle of the run".to_owned());
    }
    let rates: Vec<f64> = per_second.iter().map(|count| f64::from(*count)).collect();
    let drift = trend(&rates);
    if let Some(drift) = drift.filter(|drift| drift.chance < CHANCE_MAX && drift.change.abs() > CHANGE_SEEN_MIN) {
        let way = if drift.change > 0.0 { "climbing" } else { "falling" };
        reasons.push(format!("its throughput was still {way}, by {:.0} % over the run", drift.change.abs() * 100.0));
    }
    Steadiness { begins, drift, reasons }
}

/// Means of blocks of requests, so that the search for the beginning stays quick.
const BLOCKS_MAX: usize = 4000;
/// A drift that chance would make more often than this is none.
const CHANCE_MAX: f64 = 0.01;
/// A drift of less than this part over the whole run changes no figure that is reported.
const CHANGE_SEEN_MIN: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Dice;

    fn run(total: impl Fn(u64, &mut Dice) -> f64) -> Vec<Sample> {
        let mut dice = Dice::new(1, 1);
        (0..30_000).map(|n| Sample { at: n * 1000, total: total(n, &mut dice) as u64 }).collect()
    }

    /// A published capacity test whose throughput climbed from 12.7 to 27.0 thousand a second while it was measured: its mean is no
    /// capacity.
    #[test]
    fn a_run_that_still_climbs_is_not_steady() {
        let mut dice = Dice::new(2, 1);
        let climbing: Vec<u32> = (0..60)
            .map(|second| (12_700.0 + 14_300.0 * f64::from(second) / 59.0 + 3000.0 * (dice.part() - 0.5)) as u32)
            .collect();
        let found = steadiness(&run(|_, dice| 5000.0 + 1000.0 * dice.part()), &climbing);
        assert!(found.reasons.len() == 1 && found.reasons[0].contains("still climbing"), "{found:?}");
        assert!((found.drift.expect("a drift").change - 0.72).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn an_even_run_is_steady_and_its_cold_beginning_is_left_out() {
        let mut dice = Dice::new(3, 1);
        let even: Vec<u32> = (0..30).map(|_| (1000.0 + 60.0 * (dice.part() - 0.5)) as u32).collect();
        let cold = run(|n, dice| 4000.0 + 2000.0 * dice.part() + if n < 3000 { 40_000.0 } else { 0.0 });
        let found = steadiness(&cold, &even);
        assert!(found.reasons.is_empty(), "{found:?}");
        assert!((2_900_000..4_000_000).contains(&found.begins), "{found:?}");
    }

    /// A queue that grows all the time.
    #[test]
    fn times_that_never_settle_are_not_steady() {
        let found = steadiness(&run(|n, _| n as f64 * 10.0), &[1000; 30]);
        assert!(found.reasons.iter().any(|reason| reason.contains("not settled")), "{found:?}");
        assert!(steadiness(&[], &[]).reasons.is_empty());
    }
}
