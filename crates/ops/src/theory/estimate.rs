//! What can be said about a number of which there are samples only: intervals by Student's t, by batches and by resampling.
//!
//! Always true: the same samples and the same seed give the same interval; too few samples give no interval, not a narrow one.
//! Not here: fits of a law (`usl`).

use base::Random;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// An estimate with its interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where the interval ends.
    pub high: f64,
}

impl Estimate {
    /// Whether a number is in the interval.
    #[must_use]
    pub fn has(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }
}

/// How many standard errors of `freedom` degrees an interval of this confidence reaches on each side.
#[must_use]
pub fn t_quantile(freedom: f64, confidence: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |law| law.inverse_cdf(f64::midpoint(1.0, confidence)))
}

/// The mean of independent samples with an interval of this confidence; `None` for fewer than two.
#[must_use]
pub fn mean(samples: &[f64], confidence: f64) -> Option<Estimate> {
    let count = samples.len() as f64;
    if samples.len() < 2 {
        return None;
    }
    let value = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|sample| (sample - value).powi(2)).sum::<f64>() / (count - 1.0);
    let reach = t_quantile(count - 1.0, confidence) * (variance / count).sqrt();
    Some(Estimate { value, low: value - reach, high: value + reach })
}

/// The mean of a series whose neighbours depend on each other, by the means of batches: at least 20, made twice as long until
/// neighbouring batches hardly depend on each other. `None` if the series is too short for that.
#[must_use]
pub fn batch_mean(series: &[f64], confidence: f64) -> Option<Estimate> {
    let mut means: Vec<f64> = series.to_vec();
    while means.len() >= BATCHES_MIN {
        if means.len() < 2 * BATCHES_MIN || autocorrelation(&means) < AUTOCORRELATION_MAX {
            return (autocorrelation(&means) < AUTOCORRELATION_MAX).then(|| mean(&means, confidence)).flatten();
        }
        means = means.chunks_exact(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
    }
    None
}

/// How much each number of a series tells about the next one, from -1 to 1.
#[must_use]
pub fn autocorrelation(series: &[f64]) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
    let variance: f64 = series.iter().map(|number| (number - mean).powi(2)).sum();
    let both: f64 = series.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if variance > 0.0 { both / variance } else { 0.0 }
}

/// Where the beginning of a series that is not like its rest ends (MSER-5): the number of samples to leave out. A result above half of
/// the series means that it was never steady.
#[must_use]
pub fn warm_up(series: &[f64]) -> usize {
    let batches: Vec<f64> = series.chunks_exact(5).map(|batch| batch.iter().sum::<f64>() / 5.0).collect();
    let error_of = |rest: &[f64]| {
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    };
    let usable = batches.len().saturating_sub(5);
    let errors = (0..usable).map(|from| (error_of(&batches[from..]), from));
    errors.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, from)| from * 5)
}

/// The quantile `part` (0 to 1) of a series whose neighbours depend on each other, with an interval by the ranks around it. Each sample counts
/// for as many independent ones as the dependence lets it. `None` if too few samples lie beyond the quantile to tell where it may be.
#[must_use]
pub fn quantile(series: &[f64], part: f64, confidence: f64) -> Option<Estimate> {
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted[((part * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1];
    if series.is_empty() {
        return None;
    }
    let value = at(part);
    let beyond: Vec<f64> = series.iter().map(|number| f64::from(u8::from(*number > value))).collect();
    let samples = series.len() as f64 / dependence(&beyond);
    if samples * part.min(1.0 - part) < BEYOND_MIN {
        return None;
    }
    let reach = normal_quantile(confidence) * (part * (1.0 - part) / samples).sqrt();
    Some(Estimate { value, low: at((part - reach).max(0.0)), high: at((part + reach).min(1.0)) })
}

/// How many samples of a series tell as much as one independent sample, at least 1.
fn dependence(series: &[f64]) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
    let variance: f64 = series.iter().map(|number| (number - mean).powi(2)).sum();
    if variance <= 0.0 {
        return 1.0;
    }
    let mut sum = 1.0;
    // Geyer: once the correlation of two neighbouring distances is not above 0, what follows is noise.
    for lag in (1..series.len().min(LAGS_MAX)).step_by(2) {
        let at = |lag: usize| {
            series.iter().zip(&series[lag.min(series.len())..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
                / variance
        };
        let both = at(lag) + at(lag + 1);
        if both <= 0.0 {
            break;
        }
        sum += 2.0 * both;
    }
    sum.max(1.0)
}

/// How many standard deviations an interval of this confidence reaches on each side by the normal law.
fn normal_quantile(confidence: f64) -> f64 {
    Normal::standard().inverse_cdf(f64::midpoint(1.0, confidence))
}

/// How a series moves.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Trend {
    /// How often chance alone would make a series move as much.
    pub chance: f64,
    /// By how much it moves from its beginning to its end, as a part of its median (Theil and Sen).
    pub change: f64,
}

/// Whether a series climbs or falls all along (Mann and Kendall). `None` for fewer than 8 numbers. Of a long series, means of neighbours are
/// taken.
#[must_use]
pub fn trend(series: &[f64]) -> Option<Trend> {
    let block = series.len().div_ceil(TREND_MAX).max(1);
    let means: Vec<f64> = series.chunks_exact(block).map(|few| few.iter().sum::<f64>() / few.len() as f64).collect();
    let count = means.len() as f64;
    if means.len() < TREND_MIN {
        return None;
    }
    let (mut signs, mut slopes) = (0_i64, Vec::new());
    for (place, early) in means.iter().enumerate() {
        for (more, late) in means[place + 1..].iter().enumerate() {
            signs += late.partial_cmp(early).map_or(0, |order| order as i64);
            slopes.push((late - early) / (more + 1) as f64);
        }
    }
    let mut sorted = means;
    sorted.sort_by(f64::total_cmp);
    let tied: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|same| same.len() as f64)
        .map(|same| same * (same - 1.0) * (2.0 * same + 5.0))
        .sum();
    let variance = (count * (count - 1.0) * (2.0 * count + 5.0) - tied) / 18.0;
    let distance = (signs.unsigned_abs() as f64 - 1.0).max(0.0) / variance.max(f64::MIN_POSITIVE).sqrt();
    slopes.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let change = if median > 0.0 { slopes[slopes.len() / 2] * (count - 1.0) / median } else { 0.0 };
    Some(Trend { chance: 2.0 * Normal::standard().sf(distance), change })
}

/// The interval of `statistic` over samples that are drawn from these again and again (the bootstrap, by percentiles). `None` if there
/// are fewer than two samples, or the statistic has no value for most of the draws.
#[must_use]
pub fn bootstrap<T: Copy>(
    samples: &[T],
    draws: u32,
    confidence: f64,
    seed: u64,
    statistic: impl Fn(&[T]) -> Option<f64>,
) -> Option<Estimate> {
    if samples.len() < 2 {
        return None;
    }
    let value = statistic(samples)?;
    let mut random = Random::new(seed);
    let mut found: Vec<f64> = (0..draws)
        .filter_map(|_| {
            let drawn: Vec<T> = samples.iter().map(|_| samples[random.below(samples.len() as u64) as usize]).collect();
            statistic(&drawn)
        })
        .collect();
    if found.len() * 2 < draws as usize {
        return None;
    }
    found.sort_by(f64::total_cmp);
    let at = |share: f64| found[((found.len() - 1) as f64 * share).round() as usize];
    Some(Estimate { value, low: at((1.0 - confidence) / 2.0), high: at(f64::midpoint(1.0, confidence)) })
}

/// Fewer batches do not show how much they vary.
const BATCHES_MIN: usize = 20;
/// Batches that depend on each other more than this are too short.
const AUTOCORRELATION_MAX: f64 = 0.2;
/// With fewer independent samples beyond a quantile, nothing is known of how far it may be.
const BEYOND_MIN: f64 = 5.0;
/// Dependence over more samples than this is not looked for.
const LAGS_MAX: usize = 1000;
const TREND_MIN: usize = 8;
/// So many numbers have half a million pairs.
const TREND_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_means_holds_the_truth_as_often_as_it_says() {
        let mut held = 0;
        for seed in 0..4000 {
            let mut random = Random::new(seed);
            let samples: Vec<f64> = (0..10).map(|_| random.below(1000) as f64).collect();
            held += u32::from(mean(&samples, 0.95).expect("ten samples").has(499.5));
        }
        assert!((3720..=3840).contains(&held), "{held} of 4000");
        assert_eq!(mean(&[1.0], 0.95), None);
        assert!((t_quantile(9.0, 0.95) - 2.262).abs() < 1e-3);
    }

    #[test]
    fn neighbours_that_depend_on_each_other_make_an_interval_wider() {
        let mut random = Random::new(7);
        let mut level = 0.0;
        let series: Vec<f64> = (0..20_000)
            .map(|_| {
                level = 0.9 * level + random.below(1001) as f64 - 500.0;
                level
            })
            .collect();
        let (naive, batches) = (mean(&series, 0.95).expect("many"), batch_mean(&series, 0.95).expect("many"));
        assert!(batches.high - batches.low > 2.5 * (naive.high - naive.low) && batches.has(0.0));
        assert_eq!(batch_mean(&series[..19], 0.95), None);
    }

    #[test]
    fn the_beginning_that_is_unlike_the_rest_is_found() {
        let mut random = Random::new(3);
        let series: Vec<f64> =
            (0..500).map(|n: u32| f64::from(100_u32.saturating_sub(n)) * 10.0 + random.below(100) as f64).collect();
        assert!((90..=120).contains(&warm_up(&series)), "{}", warm_up(&series));
        let climbing: Vec<f64> = (0..500).map(f64::from).collect();
        assert!(warm_up(&climbing) > 250);
        assert_eq!(warm_up(&[]), 0);
    }

    #[test]
    fn the_interval_of_a_quantile_holds_the_truth_also_where_neighbours_depend_on_each_other() {
        // Each number is repeated four times, so 4,000 of them tell as much as 1,000.
        let held = |repeated: usize| -> u32 {
            (0..500)
                .map(|seed| {
                    let mut random = Random::new(seed);
                    let series: Vec<f64> =
                        (0..1000).flat_map(|_| std::iter::repeat_n(random.below(1_000_000) as f64, repeated)).collect();
                    let found = quantile(&series, 0.95, 0.95).expect("many samples");
                    u32::from(found.has(950_000.0))
                })
                .sum()
        };
        assert!((460..=490).contains(&held(1)), "{}", held(1));
        assert!((455..=495).contains(&held(4)), "{}", held(4));
        let mut random = Random::new(1);
        let few: Vec<f64> = (0..100).map(|_| random.below(1000) as f64).collect();
        assert_eq!(quantile(&few, 0.99, 0.95), None, "one sample lies beyond");
        assert!(quantile(&few, 0.5, 0.95).is_some() && quantile(&[], 0.5, 0.95).is_none());
    }

    #[test]
    fn a_series_that_climbs_has_a_trend_and_one_that_only_varies_has_none() {
        let mut random = Random::new(4);
        let mut level = |slope: f64| -> Vec<f64> {
            (0..60).map(|n| 100.0 + slope * f64::from(n) + random.below(40) as f64).collect()
        };
        let climbing = trend(&level(1.0)).expect("a trend");
        assert!(climbing.chance < 1e-6 && (climbing.change - 0.39).abs() < 0.1, "{climbing:?}");
        let by_chance = (0..1000).filter(|_| trend(&level(0.0)).is_some_and(|trend| trend.chance < 0.05)).count();
        assert!((25..=75).contains(&by_chance), "{by_chance} of 1000");
        assert_eq!(trend(&[1.0; 7]), None);
        assert_eq!(trend(&[1.0; 20]).map(|trend| trend.change), Some(0.0));
    }

    #[test]
    fn resampling_gives_an_interval_of_any_statistic() {
        let samples: Vec<f64> = (0..101).map(f64::from).collect();
        let median = |samples: &[f64]| {
            let mut sorted = samples.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len() / 2).copied()
        };
        let interval = bootstrap(&samples, 1000, 0.95, 1, median).expect("a median");
        assert!(interval.has(50.0) && interval.low > 30.0 && interval.high < 70.0, "{interval:?}");
        assert_eq!(bootstrap(&samples, 10, 0.95, 1, |_| None), None);
    }
}
