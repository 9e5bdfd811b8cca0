//! How long steps are, and how many there are.
//!
//! Always true: a step is as long as the planned relative error of the mean wait needs, between bounds; what a shorter step reaches instead is known.
//! Not here: which loads are measured (`search`).

use super::slo::Slo;
use crate::theory::mmc::Mmc;

/// The plan of a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Plan {
    /// The relative standard error of the mean wait that steps are made long enough for.
    pub(crate) relative_error: f64,
    /// The shortest step, in seconds.
    pub(crate) seconds_min: f64,
    /// The longest step, in seconds.
    pub(crate) seconds_max: f64,
    /// How often each side of the knee is measured again.
    pub(crate) confirmations: u32,
    /// The relative distance of both sides of the knee at which the search ends.
    pub(crate) resolution: f64,
}

/// What carries the load, as a closed loop has shown it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bound {
    /// The most requests a second.
    pub(crate) rate: f64,
    /// The time for which a request is served, in seconds: with a server if the pooler tells, or else the response time of one alone.
    pub(crate) service: f64,
}

impl Bound {
    /// How many are served at once, at least 1.
    pub(crate) fn servers(&self) -> u32 {
        (self.rate * self.service).round().clamp(1.0, 65_535.0) as u32
    }

    /// Where M/M/c has the knee of an objective, with so many servers of this service: to compare.
    pub(crate) fn knee_in_theory(&self, slo: &Slo) -> f64 {
        Mmc::rate_max(self.servers(), self.service, slo.percentile / 100.0, slo.seconds)
    }

    fn queue(&self, rate: f64) -> Mmc {
        // Near the bound and above it there is no steady state to plan for.
        Mmc {
            servers: self.servers(),
            rate: rate.min(self.rate * STEADY),
            service: f64::from(self.servers()) / self.rate,
        }
    }
}

impl Plan {
    /// A plan for a run that takes about so many minutes.
    pub(crate) fn of(minutes: f64, confirmations: u32) -> Self {
        let steps = STEPS + 2.0 * f64::from(confirmations);
        let each = minutes * 60.0 / steps;
        Self {
            relative_error: 0.05,
            seconds_min: each.clamp(0.5, 30.0),
            seconds_max: (2.0 * each).clamp(0.5, 3600.0),
            confirmations,
            // Short steps do not tell loads apart that are so near.
            resolution: if each < SHORT { 0.06 } else { 0.02 },
        }
    }

    /// The length of a step of this rate, in seconds.
    pub(crate) fn seconds(&self, bound: &Bound, rate: f64) -> f64 {
        let needed = bound.queue(rate).seconds_for(self.relative_error);
        needed.clamp(self.seconds_min, self.seconds_max).max((REQUESTS_WANTED / rate).min(self.seconds_max))
    }

    /// The smallest load of which a step has enough requests for a percentile, as a part of the bound.
    pub(crate) fn first(&self, bound: &Bound) -> f64 {
        (REQUESTS_WANTED / self.seconds_max / bound.rate).clamp(FIRST_MIN, FIRST_MAX)
    }

    /// The relative standard error of the mean wait that a step of this length has.
    pub(crate) fn error_of(bound: &Bound, rate: f64, seconds: f64) -> f64 {
        (bound.queue(rate).seconds_for(1.0) / seconds).sqrt()
    }
}

/// Steps of a search, besides confirmations.
const STEPS: f64 = 20.0;
const SHORT: f64 = 5.0;
/// Above this part of the bound the steps are as long as they are here.
const STEADY: f64 = 0.97;
/// A step of fewer has hardly a 99th percentile.
const REQUESTS_WANTED: f64 = 200.0;
/// Where a search begins, as a part of the bound.
const FIRST_MIN: f64 = 0.05;
const FIRST_MAX: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_as_long_as_its_error_needs_between_bounds() {
        let bound = Bound { rate: 200.0, service: 0.02 };
        let plan =
            Plan { relative_error: 0.05, seconds_min: 30.0, seconds_max: 3000.0, confirmations: 3, resolution: 0.02 };
        assert_eq!(bound.servers(), 4);
        let slo = Slo { seconds: 0.15, ..Slo::DEFAULT };
        assert!((bound.knee_in_theory(&slo) - 164.5).abs() < 0.1, "{}", bound.knee_in_theory(&slo));
        assert!((plan.seconds(&bound, 160.0) / 845.0 - 1.0).abs() < 2e-3, "{}", plan.seconds(&bound, 160.0));
        assert_eq!(plan.seconds(&bound, 500.0), 3000.0);
        let short = Plan { seconds_max: 60.0, ..plan };
        assert_eq!(short.seconds(&bound, 160.0), 60.0);
        assert_eq!((plan.first(&bound), Plan { seconds_max: 4.0, ..short }.first(&bound)), (0.05, 0.25));
        let error = Plan::error_of(&bound, 160.0, 60.0);
        assert!((error / 0.1876 - 1.0).abs() < 1e-2, "{error}");
        assert!(
            Plan::of(20.0, 3).seconds_min >= 30.0
                && Plan::of(1.0, 1).seconds_max < 10.0
                && Plan::of(20.0, 3).seconds_max > 60.0
        );
    }
}
