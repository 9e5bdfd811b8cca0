//! How many servers of a pool were wanted at once, as readings now and then saw it: servers at work, and clients that waited for one.
//!
//! Always true: a reading counts for the time until the next one; a quantile is told only if at least five readings are beyond it; what happens
//! between two readings is not seen, so that gaps between uses are the longer ones.
//! Not here: reading (`advise::sources`), loans that are all known (`demand`).

use super::demand::{Hold, Levels, Slots};

/// What readings saw of a pool, or of all pools together.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Sampled {
    readings: usize,
    /// The mean time between two readings, in seconds.
    between: f64,
    levels: Levels,
    mean: f64,
    variance: f64,
    /// The share of the demand that waited for a server.
    waiting: f64,
}

/// A pool at a reading.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Seen {
    /// In seconds since any origin.
    pub(crate) at: f64,
    /// Servers at work.
    pub(crate) active: u32,
    /// Clients that wait for one.
    pub(crate) waiting: u32,
}

impl Seen {
    fn wanted(self) -> u32 {
        self.active.saturating_add(self.waiting)
    }
}

impl Sampled {
    /// What readings saw, in the order of their times. `None` if no time is between them.
    pub(crate) fn of(seen: &[Seen]) -> Option<Self> {
        let seconds = seen.last()?.at - seen.first()?.at;
        if seconds <= 0.0 {
            return None;
        }
        let mut sampled = Self { readings: seen.len(), between: seconds / (seen.len() - 1) as f64, ..Self::default() };
        let (mut sum, mut squares, mut waiting) = (0.0, 0.0, 0.0);
        for pair in seen.windows(2) {
            let (time, wanted) = (pair[1].at - pair[0].at, pair[0].wanted().min(LEVEL_MAX));
            sampled.levels.add(wanted as usize, (time * 1e6) as u64);
            sum += f64::from(wanted) * time;
            squares += f64::from(wanted).powi(2) * time;
            waiting += f64::from(pair[0].waiting) * time;
        }
        sampled.mean = sum / seconds;
        sampled.variance = (squares / seconds - sampled.mean.powi(2)).max(0.0);
        sampled.waiting = if sum > 0.0 { waiting / sum } else { 0.0 };
        Some(sampled)
    }

    /// The number of readings, and the mean time between two of them in words.
    pub(crate) fn words(&self) -> String {
        format!("{} readings, {} s apart", crate::table::count(self.readings as f64), crate::table::short(self.between))
    }

    /// What a report says of it.
    pub(crate) fn note(&self) -> String {
        format!(
            "simultaneous demand is that of {}, not of every change; 500 readings tell a 99th percentile, fewer leave it to Poisson's law. Gaps between \
             uses are those that such readings see, the longer ones",
            self.words()
        )
    }

    /// Whether there are enough readings beyond a quantile to tell it.
    pub(crate) fn tells(&self, share: f64) -> bool {
        self.readings as f64 * (1.0 - share) + 1e-9 >= BEYOND_MIN
    }

    /// The number that was not exceeded for this share of the time, if there were `times` as much traffic: its mean grows with the traffic, what is
    /// above it with the square root. `None` if there are too few readings.
    pub(crate) fn quantile(&self, share: f64, times: f64) -> Option<f64> {
        let level = f64::from(self.levels.quantile(share).filter(|_| self.tells(share))?);
        Some(self.mean * times + (level - self.mean) * times.sqrt())
    }

    /// The squared coefficient of variation of the times between arrivals that makes demand vary as it did: 1 for random arrivals, more for bursts, less
    /// for regular ones. `None` if it cannot be told: too few readings, too far apart, or many waited, so that the size of the pool shaped the demand.
    ///
    /// Without a limit of servers, the variance of their number over its mean is 1 + (scv - 1) x I, where I is the integral of the squared survival
    /// function of holding over its mean: 1/2 for exponential times, 1 for times that are all alike.
    pub(crate) fn scv_of_arrivals(&self, hold: Hold) -> Option<f64> {
        let is_shaped = self.waiting > WAITING_MAX || self.mean <= 0.0;
        if self.readings < READINGS_MIN || self.between > BETWEEN_MAX || is_shaped {
            return None;
        }
        // Readings within one holding time are of the same loans.
        let independent = self.readings as f64 * (self.between / (2.0 * hold.mean.max(1e-9))).min(1.0);
        let peakedness = self.variance / self.mean;
        let by_chance = SPREADS * (2.0 / independent.max(1.0)).sqrt();
        if (peakedness - 1.0).abs() <= by_chance {
            return Some(1.0);
        }
        Some((1.0 + (peakedness - 1.0) * (1.0 + hold.scv)).clamp(0.0, SCV_MAX))
    }
}

/// The gaps between two uses of each server that readings saw, if the one that was given back last is used next: the n-th server is in use while n or
/// more are.
pub(crate) fn gaps(seen: &[Seen]) -> Vec<Slots> {
    let slots = seen.iter().map(|seen| seen.active).max().unwrap_or(0).min(SLOTS_MAX) as usize;
    let mut gaps: Vec<Vec<f64>> = vec![Vec::new(); slots];
    // Since when each is free; `None` while it is in use, and before its first use.
    let mut free: Vec<Option<f64>> = vec![None; slots];
    let mut active = 0;
    for reading in seen {
        let now = (reading.active as usize).min(slots);
        for slot in active..now {
            gaps[slot].extend(free[slot].take().map(|since| reading.at - since));
        }
        for since in free.iter_mut().take(active).skip(now) {
            *since = Some(reading.at);
        }
        active = now;
    }
    let slot = |mut gaps: Vec<f64>| {
        gaps.sort_by(f64::total_cmp);
        let place = ((gaps.len() as f64 * 0.95).ceil() as usize).saturating_sub(1);
        Slots { uses: gaps.len() as u64, gap_p95: gaps.get(place).copied().unwrap_or(0.0) }
    };
    gaps.into_iter().map(slot).collect()
}

/// What a histogram says by its quantiles: the variance over the squared mean. `quantiles` are the 50th, 90th, 99th, 99.9th percentile and the largest;
/// between two of them values are taken as spread evenly on a scale of logarithms.
pub(crate) fn scv_of_quantiles(quantiles: [f64; 5]) -> f64 {
    let [median, p90, ..] = quantiles;
    if median <= 0.0 || quantiles.windows(2).any(|pair| pair[1] < pair[0]) {
        return 1.0;
    }
    // What is below the median is as far from it as the 90th percentile, on that scale.
    let bounds = [median * median / p90, median, p90, quantiles[2], quantiles[3], quantiles[4]];
    let (mut mean, mut square) = (0.0, 0.0);
    for (pair, share) in bounds.windows(2).zip([0.5, 0.4, 0.09, 0.009, 0.001]) {
        let (low, high) = (pair[0], pair[1]);
        let width = (high / low).ln();
        let is_point = width < 1e-6;
        mean += share * if is_point { low } else { (high - low) / width };
        square += share * if is_point { low * low } else { (high * high - low * low) / (2.0 * width) };
    }
    (square / (mean * mean) - 1.0).max(0.0)
}

/// Readings that have to be beyond a quantile.
const BEYOND_MIN: f64 = 5.0;
/// Fewer readings tell no variance worth the name.
const READINGS_MIN: usize = 500;
/// Farther apart, the time of day is in the variance, too; in seconds.
const BETWEEN_MAX: f64 = 1.0;
/// Of the demand, the share that may have waited.
const WAITING_MAX: f64 = 0.02;
/// Standard deviations that are taken for chance.
const SPREADS: f64 = 2.0;
/// More is no law of arrivals but a change of traffic.
const SCV_MAX: f64 = 25.0;
/// More than any pool has at once.
const LEVEL_MAX: u32 = 1 << 17;
const SLOTS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use base::Random;

    fn seen(between: f64, wanted: impl IntoIterator<Item = (u32, u32)>) -> Vec<Seen> {
        let seen =
            |(place, (active, waiting)): (usize, (u32, u32))| Seen { at: place as f64 * between, active, waiting };
        wanted.into_iter().enumerate().map(seen).collect()
    }

    #[test]
    fn a_quantile_is_told_if_enough_readings_are_beyond_it() {
        let few = Sampled::of(&seen(0.05, (0..499).map(|n| (n % 10, 0)))).expect("readings");
        assert_eq!((few.quantile(0.99, 1.0), few.tells(0.9)), (None, true));
        let many = Sampled::of(&seen(0.05, (0..1001).map(|n| (n % 10, n % 10 / 9)))).expect("readings");
        assert_eq!((many.quantile(0.5, 1.0), many.quantile(0.99, 1.0)), (Some(4.0), Some(10.0)));
        assert_eq!(many.words(), "1,001 readings, 0.050 s apart");
        // The mean is 4.6; four times as much traffic has twice the spread.
        let grown = many.quantile(0.99, 4.0).expect("a quantile");
        assert!((grown - (4.0 * 4.6 + 2.0 * 5.4)).abs() < 1e-6, "{grown}");
        assert_eq!((Sampled::of(&[]), Sampled::of(&seen(0.0, [(1, 0), (1, 0)]))), (None, None));
    }

    #[test]
    fn bursts_are_told_from_random_and_from_regular_arrivals() {
        let hold = Hold { mean: 0.02, scv: 1.0 };
        let mut random = Random::new(7);
        // A sum of many rare events is Poisson's.
        let mut poisson = |mean: u32| (0..mean * 100).filter(|_| random.below(100) == 0).count() as u32;
        let of = |wanted: Vec<u32>| {
            let sampled = Sampled::of(&seen(0.05, wanted.into_iter().map(|wanted| (wanted, 0))));
            sampled.and_then(|sampled| sampled.scv_of_arrivals(hold))
        };
        assert_eq!(of((0..1200).map(|_| poisson(6)).collect()), Some(1.0));
        // Three come together: the variance is three times as large.
        let bursts = of((0..1200).map(|_| 3 * poisson(2)).collect()).expect("a figure");
        assert!((3.8..6.2).contains(&bursts), "{bursts}");
        assert_eq!(of(vec![4; 1200]), Some(0.0), "four loops without pause");
        assert_eq!(of(vec![4; 100]), None, "too few");
        let waited = Sampled::of(&seen(0.05, vec![(4, 1); 1200])).expect("readings");
        assert_eq!(waited.scv_of_arrivals(hold), None, "the size shaped it");
    }

    #[test]
    fn gaps_are_those_of_the_server_that_is_used_least() {
        // Two at work, then one, then two again a second later; never none.
        let list = (0..41).map(|n| (if n % 2 == 0 { 2 } else { 1 }, 0));
        assert_eq!(gaps(&seen(1.0, list)), [Slots { uses: 0, gap_p95: 0.0 }, Slots { uses: 20, gap_p95: 1.0 }]);
        assert_eq!(gaps(&[]), []);
    }

    #[test]
    fn quantiles_tell_how_much_times_differ() {
        let exponential = [0.5, 0.9, 0.99, 0.999, 0.9999].map(|share: f64| -(1.0 - share).ln());
        let scv = scv_of_quantiles(exponential);
        assert!((0.8..1.2).contains(&scv), "{scv}");
        assert!(scv_of_quantiles([20.0; 5]) < 1e-9, "they are all alike");
        // Nine of ten take 5 ms, the tenth 155 ms: 5.1 in truth.
        let two = scv_of_quantiles([5.0, 5.0, 155.0, 155.0, 155.0]);
        assert!((2.0..8.0).contains(&two), "{two}");
        assert!((scv_of_quantiles([0.0; 5]) - 1.0).abs() < 1e-9);
    }
}
