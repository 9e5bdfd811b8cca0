//! How durations are spread, from a microsecond to an hour.
//!
//! Always true: memory is fixed, about 2 kB; a quantile is within [`QUANTILE_ERROR`] of the true value; what several
//! threads have recorded is added up without loss.

use crate::{PHASES, Phase, Spent};

/// How far a quantile may be from the true one, as a part of it: half of a bucket, and buckets are a sixteenth wide.
pub const QUANTILE_ERROR: f64 = 0.04;

/// One distribution of microseconds. A duration of less than one counts as nothing, one of more than an hour as an hour.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: hdrhistogram::Histogram<u32>,
    /// Nothing at all is most frequent, and costs least.
    zeros: u64,
    micros: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        // The bounds are constants that the library takes.
        let buckets = hdrhistogram::Histogram::new_with_bounds(1, MICROS_MAX, 1);
        let buckets = buckets.unwrap_or_else(|_| unreachable!("bounds that the library takes"));
        Self { buckets, zeros: 0, micros: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    #[inline]
    pub fn record(&mut self, micros: u32) {
        if micros == 0 {
            self.zeros += 1;
            return;
        }
        self.micros += u64::from(micros);
        self.buckets.saturating_record(u64::from(micros));
    }

    /// Adds what somebody else has recorded.
    pub fn merge(&mut self, other: &Self) {
        self.zeros += other.zeros;
        self.micros += other.micros;
        // They have the same bounds.
        let _ = self.buckets.add(&other.buckets);
    }

    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.zeros + self.buckets.len()
    }

    /// The sum of all, in microseconds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.micros
    }

    /// The duration, in microseconds, that a part of all, such as 0.99, do not exceed; 0 if there are none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count() as f64 * part).ceil() as u64;
        let Some(beyond) = wanted.checked_sub(self.zeros).filter(|beyond| *beyond > 0) else { return 0 };
        let among = beyond as f64 / self.buckets.len().max(1) as f64;
        let value = self.buckets.value_at_quantile(among.min(1.0));
        self.buckets.median_equivalent(value)
    }

    /// How many do not exceed each of these bounds in microseconds, which ascend.
    #[must_use]
    pub fn cumulative(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![self.zeros; bounds.len()];
        for bucket in self.buckets.iter_recorded() {
            let value = self.buckets.median_equivalent(bucket.value_iterated_to());
            let first = bounds.partition_point(|bound| *bound < value);
            counts[first..].iter_mut().for_each(|count| *count += u64::from(bucket.count_at_value()));
        }
        counts
    }
}

/// The distributions of a pool: of whole transactions, and of each phase of theirs.
#[derive(Clone, Debug, Default)]
pub struct Histograms {
    /// Whole transactions.
    pub total: Histogram,
    phases: [Histogram; PHASES.len()],
}

impl Histograms {
    /// Counts a transaction.
    #[inline]
    pub fn record(&mut self, spent: &Spent) {
        self.total.record(u32::try_from(spent.total()).unwrap_or(u32::MAX));
        for (histogram, (phase, _)) in self.phases.iter_mut().zip(PHASES) {
            histogram.record(spent.of(phase));
        }
    }

    /// Adds what somebody else has recorded.
    pub fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        self.phases.iter_mut().zip(&other.phases).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// Of one phase.
    #[must_use]
    pub fn of(&self, phase: Phase) -> &Histogram {
        &self.phases[phase as usize]
    }
}

/// An hour.
const MICROS_MAX: u64 = 3_600_000_000;

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
        assert!(histogram.quantile(1.0) > 3_400_000_000);
        assert_eq!(histogram.cumulative(&[0, 900, 1100, MICROS_MAX * 2]), [90, 90, 99, 100]);
    }

    #[test]
    fn what_two_have_recorded_adds_up() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        (1..=500).for_each(|micros| one.record(micros));
        (501..=1000).for_each(|micros| other.record(micros));
        one.merge(&other);
        let told = one.quantile(0.5) as f64;
        assert!((told - 500.0).abs() / 500.0 <= 2.0 * QUANTILE_ERROR, "{told}");
        assert_eq!((one.count(), one.sum()), (1000, 500_500));
    }

    /// Less than 40 kB for each pool.
    #[test]
    fn memory_is_fixed() {
        let bytes = Histogram::default().buckets.distinct_values() * size_of::<u32>() + size_of::<Histograms>() / 7;
        assert!(7 * bytes < 20_000, "{bytes}");
    }
}
