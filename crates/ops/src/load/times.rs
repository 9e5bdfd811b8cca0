//! Histograms of times that can be merged.
//!
//! Always true: a time counts with its digits from a microsecond to a day; nothing that is recorded is lost.
//! Not here: the pooler's own histograms, of fixed size and two digits (`measure`).

use hdrhistogram::Histogram;

/// The percentiles of a time, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// With this many significant digits, 1 to 5.
    pub(crate) fn new(digits: u8) -> Self {
        Self(Histogram::new(digits).expect("one to five digits are a histogram"))
    }

    pub(crate) fn note(&mut self, micros: u64) {
        // It grows as it has to, so this cannot fail.
        let _ = self.0.record(micros.min(MICROS_MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // It grows as it has to, so adding cannot fail.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

/// A day; longer times count as one.
const MICROS_MAX: u64 = 86_400_000_000;
