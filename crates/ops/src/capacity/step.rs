//! One step of a measurement: a load that was offered for a time, and what was measured.
//!
//! Always true: times are in seconds; percentiles are of one histogram, never means of percentiles. A response time counts from the moment at which
//! the request was to be sent.
//! Not here: how a step is run (`rig`), what it proves (`slo`).

use hdrhistogram::Histogram;

use super::evidence::Evidence;

/// What is to be measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ask {
    /// Requests a second.
    pub(crate) rate: f64,
    /// For how long, in seconds.
    pub(crate) seconds: f64,
    /// A load that comes before, without a pause, and is not measured: its rate and its seconds.
    pub(crate) before: Option<(f64, f64)>,
    /// What for.
    pub(crate) phase: Phase,
}

/// Why a step is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// On the way up.
    Climb,
    /// Between a load that was fine and one that was not.
    Bisection,
    /// Once more.
    Confirmation,
    /// After more than can be carried.
    Recovery,
    /// On the way down.
    Descent,
}

impl Phase {
    /// The word of a table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Climb => "climb",
            Self::Bisection => "bisect",
            Self::Confirmation => "confirm",
            Self::Recovery => "recover",
            Self::Descent => "descend",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) phase: Phase,
    /// Requests a second that were to be sent.
    pub(crate) offered: f64,
    /// Requests a second that were answered without an error, within the step.
    pub(crate) achieved: f64,
    /// How long it took, without what was left out as warming up.
    pub(crate) seconds: f64,
    /// Response times in microseconds; what was not answered counts as long as it waited.
    pub(crate) times: Histogram<u64>,
    /// Requests that failed or were given up.
    pub(crate) failed: u64,
    /// What the first failure said.
    pub(crate) first_failure: Option<String>,
    /// The mean time for which a request had a server.
    pub(crate) service: Option<f64>,
    /// Requests of each second of the step, and those of them that took longer than the objective allows.
    pub(crate) slices: Vec<(u64, u64)>,
    /// Why nothing follows from the step: the generator was too slow.
    pub(crate) void: Option<String>,
    /// Why it was not steady.
    pub(crate) unsteady: Option<String>,
    /// What was observed of pooler, server and machine meanwhile.
    pub(crate) evidence: Evidence,
}

impl Step {
    /// Requests with a response time.
    pub(crate) fn requests(&self) -> u64 {
        self.times.len()
    }

    /// A percentile of response times, in seconds.
    pub(crate) fn at(&self, percentile: f64) -> f64 {
        self.times.value_at_quantile(percentile / 100.0) as f64 / 1e6
    }

    /// The mean response time, in seconds.
    pub(crate) fn mean(&self) -> f64 {
        self.times.mean() / 1e6
    }

    /// The mean of what is not service, if the service is known.
    pub(crate) fn wait(&self) -> Option<f64> {
        self.service.map(|service| (self.mean() - service).max(0.0))
    }

    /// The part of what was offered that was answered.
    pub(crate) fn share(&self) -> f64 {
        if self.offered > 0.0 { self.achieved / self.offered } else { 1.0 }
    }

    /// From which second on the rest of the step kept an objective for this percentile; `None` if it never did.
    pub(crate) fn recovered_after(&self, percentile: f64) -> Option<f64> {
        let allowed = 1.0 - percentile / 100.0;
        let (mut requests, mut late) = (0, 0);
        let mut since = None;
        for (second, (more, more_late)) in self.slices.iter().enumerate().rev() {
            requests += more;
            late += more_late;
            // A percentile of few is chance, and the last seconds may have had bad luck.
            if requests >= REQUESTS_MIN && late as f64 <= allowed * requests as f64 {
                since = Some(second as f64);
            }
        }
        since
    }
}

const REQUESTS_MIN: u64 = 20;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A step of which every response took so long.
    pub(crate) fn step(rate: f64, seconds: f64, response: f64) -> Step {
        let mut times = Histogram::new(3).expect("three digits");
        times.record_n((response * 1e6) as u64, (rate * seconds) as u64).expect("a growing histogram");
        Step {
            phase: Phase::Climb,
            offered: rate,
            achieved: rate,
            seconds,
            times,
            failed: 0,
            first_failure: None,
            service: None,
            slices: Vec::new(),
            void: None,
            unsteady: None,
            evidence: Evidence::default(),
        }
    }

    #[test]
    fn the_time_of_recovery_is_when_the_rest_is_within_the_objective() {
        let slices = vec![(100, 100), (100, 100), (100, 40), (100, 1), (100, 0), (100, 2), (100, 0)];
        let step = Step { slices, ..step(100.0, 7.0, 0.02) };
        assert_eq!(step.recovered_after(99.0), Some(3.0));
        assert_eq!(step.recovered_after(99.9), Some(6.0));
        let never = Step { slices: vec![(100, 100); 5], ..step };
        assert_eq!(never.recovered_after(99.0), None);
    }
}
