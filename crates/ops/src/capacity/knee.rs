//! The knee: the largest load that keeps the objective, with an interval; and two other points that are called so, to compare.
//!
//! Always true: the knee lies between a load that was carried and one that was not, both measured; where there is no such pair there is no knee,
//! only a bound. Neither Kneedle nor the largest power is ever the answer.
//! Not here: which loads are measured (`search`).

use super::search::Search;
use super::slo::Slo;
use super::step::Step;
use crate::theory::estimate::Estimate;

/// The knee of a load curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Knee {
    /// Requests a second, with the interval between the largest load that was always carried and the smallest that never was.
    pub(crate) rate: Estimate,
    /// Steps on both sides.
    pub(crate) steps: usize,
}

/// The knee that a search has found.
pub(crate) fn knee_of(search: &Search, slo: &Slo) -> Option<Knee> {
    let (low, high) = search.sides()?;
    let levels = search.levels();
    let always = levels.iter().take_while(|level| level.broken == 0).last().map_or(0.0, |level| level.rate);
    let never =
        levels.iter().rev().take_while(|level| level.kept == 0).last().map_or(f64::INFINITY, |level| level.rate);
    let side = |rate: f64| -> Vec<&Step> {
        let steps = search.steps().iter().map(|(step, _)| step);
        steps.filter(|step| step.void.is_none() && (step.offered / rate - 1.0).abs() < 1e-9).collect()
    };
    let (below, above) = (side(low), side(high));
    let value = crossing((low, time_of(&below, slo)?), (high, time_of(&above, slo)?), slo.seconds);
    Some(Knee {
        rate: Estimate { value, low: always.min(low), high: never.max(high) },
        steps: below.len() + above.len(),
    })
}

/// The percentile of steps of one load together, in seconds.
fn time_of(steps: &[&Step], slo: &Slo) -> Option<f64> {
    let (first, rest) = steps.split_first()?;
    let mut times = first.times.clone();
    for step in rest {
        times.add(&step.times).ok()?;
    }
    Some(times.value_at_quantile(slo.percentile / 100.0) as f64 / 1e6)
}

/// Where the time reaches the limit, on a curve that is exponential between two points.
fn crossing((low, time_low): (f64, f64), (high, time_high): (f64, f64), limit: f64) -> f64 {
    if time_low >= limit || time_high <= limit {
        // Something else than the time decided, or chance: between both nothing is known.
        return if time_low >= limit || time_high <= time_low { low } else { f64::midpoint(low, high) };
    }
    let share = (limit / time_low).ln() / (time_high / time_low).ln();
    low + (high - low) * share
}

/// Kneedle: where the normalised curve of times over loads is farthest below its chord. `None` for fewer than three loads.
pub(crate) fn kneedle(points: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let (wide, tall) = (last.0 - first.0, last.1 - first.1);
    if points.len() < 3 || wide <= 0.0 || tall <= 0.0 {
        return None;
    }
    let below = |point: &(f64, f64)| (point.0 - first.0) / wide - (point.1 - first.1) / tall;
    points.iter().max_by(|a, b| below(a).total_cmp(&below(b))).map(|point| point.0)
}

/// Kleinrock's power: where throughput over response time is largest.
pub(crate) fn power_knee(points: &[(f64, f64)]) -> Option<f64> {
    let measured = points.iter().filter(|point| point.1 > 0.0);
    measured.max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1))).map(|point| point.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::mmc::Mmc;

    #[test]
    fn other_knees_are_where_theory_has_them() {
        let curve: Vec<(f64, f64)> = (1..100_u32)
            .map(|percent| f64::from(percent) / 100.0 * 50.0)
            .map(|rate| (rate, Mmc { servers: 1, rate, service: 0.02 }.wait_mean() + 0.02))
            .collect();
        // M/M/1 has its largest power at half its load.
        assert!(power_knee(&curve).is_some_and(|rate| (rate - 25.0).abs() < 1.0), "{:?}", power_knee(&curve));
        assert!(kneedle(&curve).is_some_and(|rate| rate > 40.0 && rate < 49.0), "{:?}", kneedle(&curve));
        assert_eq!((kneedle(&curve[..2]), power_knee(&[])), (None, None));
    }

    #[test]
    fn a_crossing_is_between_its_points() {
        let at = crossing((100.0, 0.05), (110.0, 0.2), 0.1);
        assert!((at - 105.0).abs() < 1e-9, "{at}");
        assert_eq!(crossing((100.0, 0.05), (110.0, 0.06), 0.1), 105.0);
        assert_eq!(crossing((100.0, 0.2), (110.0, 0.3), 0.1), 100.0);
    }
}
