//! The Universal Scalability Law: throughput against the number that work at once, `X(N) = gamma N / (1 + alpha (N-1) + beta N (N-1))`.
//!
//! Always true: `alpha` (waiting for each other) and `beta` (agreeing with each other) are never negative. What the points do not
//! show is not claimed: a peak needs points past the bend, and nothing is predicted beyond twice the largest `N`.
//! Not here: the search for the coefficients (`usl_fit`).

use super::estimate::{Estimate, bootstrap, t_quantile};
use super::usl_fit::fit;

/// A measured point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// How many work at once, at least 1.
    pub n: f64,
    /// The throughput, above 0.
    pub x: f64,
    /// The standard deviation of the throughput, above 0; only ratios between points count.
    pub sigma: f64,
}

/// The three coefficients.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Usl {
    /// Contention.
    pub alpha: f64,
    /// Coherence.
    pub beta: f64,
    /// The throughput of one alone.
    pub gamma: f64,
}

impl Usl {
    /// The throughput of `n`.
    #[must_use]
    pub fn at(&self, n: f64) -> f64 {
        self.gamma * n / self.slowdown(n)
    }

    /// How many times longer work takes when `n` work at once than alone.
    #[must_use]
    pub fn slowdown(&self, n: f64) -> f64 {
        1.0 + self.alpha * (n - 1.0) + self.beta * n * (n - 1.0)
    }

    /// Where the throughput is highest; `None` if it never falls.
    #[must_use]
    pub fn peak_at(&self) -> Option<f64> {
        (self.beta > 0.0).then(|| ((1.0 - self.alpha).max(0.0) / self.beta).sqrt().max(1.0))
    }

    /// The throughput that would not be exceeded if `beta` were 0; `None` without contention.
    #[must_use]
    pub fn amdahl_limit(&self) -> Option<f64> {
        (self.alpha > 0.0).then(|| self.gamma / self.alpha)
    }
}

/// A coefficient with its standard error and interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Coefficient {
    /// The estimate and its interval of 95 %.
    pub estimate: Estimate,
    /// The standard error; 0 where the bound was reached.
    pub error: f64,
    /// Whether the estimate is the bound 0, because the points would have it negative.
    pub is_bound: bool,
}

/// The law that fits measured points best.
#[derive(Clone, PartialEq, Debug)]
pub struct UslFit {
    /// The coefficients.
    pub usl: Usl,
    /// Contention.
    pub alpha: Coefficient,
    /// Coherence.
    pub beta: Coefficient,
    /// The throughput of one.
    pub gamma: Coefficient,
    /// The residual standard error, in units of the points' `sigma`.
    pub residual_error: f64,
    points: Vec<Point>,
}

/// Why points do not give a law.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfitted {
    /// Fewer than four points with different `n`: three coefficients leave nothing to judge them by.
    TooFew,
    /// A number that is not positive and finite.
    NotPositive,
    /// The search did not end.
    NoEnd,
}

impl UslFit {
    /// Fits the law.
    ///
    /// # Errors
    /// The points do not allow it.
    pub fn of(points: &[Point]) -> Result<Self, Unfitted> {
        if points.iter().any(|p| [p.n, p.x, p.sigma].iter().any(|number| !(number.is_finite() && *number > 0.0))) {
            return Err(Unfitted::NotPositive);
        }
        if different(points).len() < 4 {
            return Err(Unfitted::TooFew);
        }
        let fitted = fit(points).ok_or(Unfitted::NoEnd)?;
        let reach = t_quantile(points.len() as f64 - 3.0, 0.95);
        let coefficient = |value: f64, error: Option<f64>| Coefficient {
            estimate: Estimate {
                value,
                low: value - reach * error.unwrap_or(0.0),
                high: value + reach * error.unwrap_or(0.0),
            },
            error: error.unwrap_or(0.0),
            is_bound: error.is_none(),
        };
        let usl = fitted.usl;
        let [alpha, beta, gamma] = fitted.errors;
        Ok(Self {
            usl,
            alpha: coefficient(usl.alpha, alpha),
            beta: coefficient(usl.beta, beta),
            gamma: coefficient(usl.gamma, gamma),
            residual_error: fitted.residual_error,
            points: points.to_vec(),
        })
    }

    /// Where the throughput is highest, with an interval for which the residuals are dealt out to the points again and again, by
    /// chance of this seed. `None` if the points show no bend.
    #[must_use]
    pub fn peak(&self, seed: u64) -> Option<Estimate> {
        let (different, peak) = (different(&self.points), self.usl.peak_at()?);
        let shows_bend = different.len() >= DIFFERENT_MIN && different.last().is_some_and(|last| *last > peak);
        if !shows_bend {
            return None;
        }
        let residuals: Vec<f64> = self.points.iter().map(|p| (p.x - self.usl.at(p.n)) / p.sigma).collect();
        let peak_of = |drawn: &[f64]| {
            let moved = self.points.iter().zip(drawn);
            let moved =
                moved.map(|(p, residual)| Point { x: (self.usl.at(p.n) + residual * p.sigma).max(p.x * 1e-3), ..*p });
            fit(&moved.collect::<Vec<_>>())?.usl.peak_at()
        };
        let interval = bootstrap(&residuals, DRAWS, 0.95, seed, peak_of)?;
        Some(Estimate { value: peak, ..interval })
    }

    /// The throughput of `n`; `None` beyond twice the largest measured `n`.
    #[must_use]
    pub fn predict(&self, n: f64) -> Option<f64> {
        let last = different(&self.points).last().copied()?;
        (n >= 1.0 && n <= 2.0 * last).then(|| self.usl.at(n))
    }
}

/// The different numbers that worked at once, in ascending order.
fn different(points: &[Point]) -> Vec<f64> {
    let mut different: Vec<f64> = points.iter().map(|point| point.n).collect();
    different.sort_by(f64::total_cmp);
    different.dedup();
    different
}

/// Fewer different `n` do not show where the throughput bends.
const DIFFERENT_MIN: usize = 6;
const DRAWS: u32 = 500;

#[cfg(test)]
mod tests {
    use base::Random;

    use super::*;

    fn points(list: &[(f64, f64)]) -> Vec<Point> {
        list.iter().map(|&(n, x)| Point { n, x, sigma: 1.0 }).collect()
    }

    fn near(got: f64, wanted: f64, part: f64) {
        assert!((got / wanted - 1.0).abs() < part, "{got} is not {wanted}");
    }

    #[test]
    fn the_coefficients_of_spec_sdm_are_the_published_ones() {
        let sdm = [
            (1.0, 64.9),
            (18.0, 995.9),
            (36.0, 1652.4),
            (72.0, 1853.2),
            (108.0, 1828.9),
            (144.0, 1775.0),
            (216.0, 1702.2),
        ];
        let fit = UslFit::of(&points(&sdm)).expect("a fit");
        near(fit.usl.alpha, 0.027_728_5, 5e-5);
        near(fit.usl.beta, 1.043_66e-4, 5e-5);
        near(fit.usl.gamma, 89.9952, 5e-5);
        near(fit.alpha.error, 0.009_121_7, 5e-4);
        near(fit.beta.error, 1.9875e-5, 5e-4);
        near(fit.gamma.error, 14.2135, 5e-4);
        near(fit.residual_error, 82.85, 5e-4);
        let peak = fit.usl.peak_at().expect("a bend");
        near(peak, 96.52, 5e-5);
        near(fit.usl.at(peak), 1883.9, 5e-5);
        near(fit.usl.amdahl_limit().expect("contention"), 3245.6, 5e-5);
        near(fit.usl.at(1.0 / fit.usl.alpha), 1542.0, 5e-4);
        assert!(fit.peak(1).is_some_and(|peak| peak.has(96.52) && peak.high - peak.low < 80.0), "{:?}", fit.peak(1));
        assert!(fit.predict(432.0).is_some() && fit.predict(433.0).is_none() && fit.predict(0.5).is_none());
    }

    #[test]
    fn a_peak_that_nobody_has_seen_is_not_claimed() {
        let library = [955.16, 1878.91, 2688.01, 3548.68, 4315.54, 5130.43, 5931.37, 6531.08];
        let list: Vec<(f64, f64)> = library.into_iter().zip(1_u32..).map(|(x, n)| (f64::from(n), x)).collect();
        let fit = UslFit::of(&points(&list)).expect("a fit");
        assert_eq!(fit.peak(1), None);
        let faster: Vec<(f64, f64)> = (1..9_u32).map(|n| (f64::from(n), f64::from(n).powf(1.2))).collect();
        let fit = UslFit::of(&points(&faster)).expect("a fit");
        assert!(fit.alpha.is_bound && fit.beta.is_bound && fit.usl.alpha == 0.0 && fit.usl.beta == 0.0, "{fit:?}");
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        assert_eq!(UslFit::of(&points(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (3.0, 2.9)])), Err(Unfitted::TooFew));
        assert_eq!(UslFit::of(&points(&[(1.0, 0.0)])), Err(Unfitted::NotPositive));
        assert_eq!(UslFit::of(&points(&[(1.0, f64::NAN)])), Err(Unfitted::NotPositive));
    }

    /// A number near the standard normal law: the sum of twelve uniform ones.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.below(1 << 32) as f64 / f64::from(u32::MAX)).sum::<f64>() - 6.0
    }

    #[test]
    fn intervals_hold_the_truth_in_about_95_of_100_seeds() {
        let sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0];
        let mut held = [0_u32; 3];
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let mut between =
                |low: f64, high: f64| low + (high - low) * random.below(1 << 20) as f64 / f64::from(1 << 20);
            let truth = Usl { alpha: between(0.02, 0.1), beta: between(2e-4, 2e-3), gamma: between(50.0, 2000.0) };
            let measured: Vec<Point> = sizes
                .iter()
                .map(|&n| Point { n, x: truth.at(n) * (1.0 + 0.03 * normal(&mut random)), sigma: truth.at(n) })
                .collect();
            let fit = UslFit::of(&measured).expect("a fit");
            let pairs = [(fit.alpha, truth.alpha), (fit.beta, truth.beta), (fit.gamma, truth.gamma)];
            for (held, (coefficient, truth)) in held.iter_mut().zip(pairs) {
                *held += u32::from(coefficient.estimate.has(truth));
            }
        }
        assert!(held.iter().all(|held| (1840..=1960).contains(held)), "of 2000: {held:?}");
    }
}
