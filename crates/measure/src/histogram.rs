//! Histograms of durations, from a microsecond to more than an hour.
//!
//! Always true: memory is fixed, about 2 kB; a quantile is within [`QUANTILE_ERROR`] of the true value. Recording costs about
//! ten instructions, because it is done for each transaction; the known libraries need several times as many.

use crate::{PHASES, Phase, Spent};

/// The largest relative error of a quantile: half the width of a bucket, which is at most a sixteenth of its value.
pub const QUANTILE_ERROR: f64 = 0.04;

/// A histogram of durations in microseconds. A duration of more than 71 minutes counts as 71 minutes.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Each value up to 31 has a bucket of its own; above, each power of two is divided into sixteen buckets.
    buckets: Box<[u32; BUCKETS]>,
    count: u64,
    micros: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0, micros: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    #[inline]
    pub fn record(&mut self, micros: u32) {
        self.count += 1;
        self.micros += u64::from(micros);
        let bucket = &mut self.buckets[place(micros)];
        *bucket = bucket.saturating_add(1);
    }

    /// A copy of the histogram with as many durations of 0 added, which are not recorded, as make `count` in all.
    fn with_zeros(&self, count: u64) -> Self {
        let mut all = self.clone();
        let zeros = count.saturating_sub(self.count);
        all.count += zeros;
        all.buckets[0] = all.buckets[0].saturating_add(u32::try_from(zeros).unwrap_or(u32::MAX));
        all
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all durations, in microseconds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.micros
    }

    /// The quantile `part`, such as 0.99, in microseconds; 0 if there are no durations.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count as f64 * part).ceil() as u64;
        let mut below = 0;
        for (place, count) in self.buckets.iter().enumerate() {
            below += u64::from(*count);
            if below >= wanted && below > 0 {
                return middle(place);
            }
        }
        0
    }

    /// The number of durations up to each of these ascending bounds, in microseconds.
    #[must_use]
    pub fn cumulative(&self, bounds: &[u64]) -> Vec<u64> {
        let (mut below, mut at) = (0, 0);
        let count = |bound: &u64| {
            while at < BUCKETS && middle(at) <= *bound {
                below += u64::from(self.buckets[at]);
                at += 1;
            }
            below
        };
        bounds.iter().map(count).collect()
    }
}

/// The index of the bucket of a duration.
#[inline]
fn place(micros: u32) -> usize {
    let shift = (u32::BITS - 5).saturating_sub(micros.leading_zeros());
    (shift * 16 + (micros >> shift)) as usize
}

/// The middle of a bucket.
fn middle(place: usize) -> u64 {
    if place < 32 {
        return place as u64;
    }
    let shift = place / 16 - 1;
    let low = ((place - shift * 16) as u64) << shift;
    low + (1 << shift) / 2
}

/// 32 values with their own buckets, and sixteen buckets for each of 27 powers of two.
const BUCKETS: usize = 464;

/// The histograms of a pool: of whole transactions, and of each phase.
#[derive(Clone, Debug, Default)]
pub struct Histograms {
    /// Whole transactions.
    pub total: Histogram,
    phases: [Histogram; PHASES.len()],
}

impl Histograms {
    /// Counts a transaction. A phase of no time is not recorded by itself, but [`Histograms::of`] counts it as 0.
    #[inline]
    pub fn record(&mut self, spent: &Spent) {
        self.total.record(u32::try_from(spent.total()).unwrap_or(u32::MAX));
        for (histogram, (phase, _)) in self.phases.iter_mut().zip(PHASES) {
            let micros = spent.of(phase);
            if micros > 0 {
                histogram.record(micros);
            }
        }
    }

    /// The histogram of one phase.
    #[must_use]
    pub fn of(&self, phase: Phase) -> Histogram {
        self.phases[phase as usize].with_zeros(self.total.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_their_error_over_all_magnitudes() {
        for value in [1, 2, 9, 31, 32, 33, 47, 100, 999, 4711, 123_456, 7_654_321, 999_999_999, 3_599_999_999] {
            let mut histogram = Histogram::default();
            (0..1000).for_each(|_| histogram.record(value));
            for part in [0.5, 0.99, 1.0] {
                let told = histogram.quantile(part) as f64;
                let error = (told - f64::from(value)).abs() / f64::from(value);
                assert!(error <= QUANTILE_ERROR, "{value} is told as {told}");
            }
            assert_eq!((histogram.count(), histogram.sum()), (1000, 1000 * u64::from(value)));
        }
    }

    #[test]
    fn what_is_nothing_and_what_is_more_than_an_hour_counts() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.99), histogram.count()), (0, 0));
        (0..90).for_each(|_| histogram.record(0));
        (0..9).for_each(|_| histogram.record(1000));
        histogram.record(u32::MAX);
        assert_eq!((histogram.count(), histogram.quantile(0.5), histogram.quantile(0.9)), (100, 0, 0));
        assert!((960..=1040).contains(&histogram.quantile(0.95)));
        assert!(histogram.quantile(1.0) > 4_100_000_000);
        assert_eq!(histogram.cumulative(&[0, 900, 1100, u64::MAX]), [90, 90, 99, 100]);
    }

    #[test]
    fn every_duration_is_in_a_bucket_around_it() {
        let mut last = 0;
        for place_of in 0..BUCKETS {
            assert_eq!(place(u32::try_from(middle(place_of)).expect("an hour and more")), place_of);
            assert!(place_of == 0 || middle(place_of) > last);
            last = middle(place_of);
        }
        assert_eq!((place(u32::MAX), place(31), place(32), place(33), place(34)), (BUCKETS - 1, 31, 32, 32, 33));
    }

    #[test]
    fn phases_that_take_no_time_are_counted_all_the_same() {
        let mut division = crate::Division::default();
        division.enter(base::Time(0), Phase::FirstByte);
        let mut histograms = Histograms::default();
        histograms.record(&division.end(base::Time(10)).expect("a transaction"));
        let waits = histograms.of(Phase::Waiting);
        assert_eq!((waits.count(), waits.quantile(0.99), histograms.of(Phase::FirstByte).quantile(0.5)), (1, 0, 10));
    }

    /// Less than 20 kB for each pool.
    #[test]
    fn memory_is_fixed() {
        let bytes = (1 + PHASES.len()) * (BUCKETS * size_of::<u32>() + size_of::<Histogram>());
        assert!(bytes < 20_000, "{bytes}");
    }
}
