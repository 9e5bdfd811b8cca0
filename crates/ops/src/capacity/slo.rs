//! What applications expect of answers, and whether a measured step kept it.
//!
//! Always true: a step that is void, or was not steady, neither keeps an objective nor breaks it. A time that is only known to be longer counts as
//! long as it is known to be.
//! Not here: which load is measured next (`search`).

use std::fmt;

use super::step::Step;

/// A service level objective: a percentile of response times, with what else must hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Slo {
    /// From 50 to 99.99.
    pub(crate) percentile: f64,
    /// The longest time that this percentile may have, in seconds.
    pub(crate) seconds: f64,
    /// The largest share of requests that may fail.
    pub(crate) errors_max: f64,
    /// The smallest share of offered requests that must be answered in time.
    pub(crate) achieved_min: f64,
}

/// What became of a step.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// The objective was kept.
    Kept,
    /// It was not, for this reason.
    Broken(String),
    /// Nothing can be said, for this reason.
    Void(String),
}

impl Verdict {
    /// The word of a table.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken(_) => "broken",
            Self::Void(_) => "void",
        }
    }

    /// Why it was not kept; empty if it was.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Kept => "",
            Self::Broken(reason) | Self::Void(reason) => reason,
        }
    }
}

impl Slo {
    /// The objective that is taken if none is given.
    pub(crate) const DEFAULT: Self =
        Self { percentile: 99.0, seconds: 0.1, errors_max: 0.001, achieved_min: ACHIEVED_MIN };

    /// Reads `p99 50ms`, `p99.9 < 1s` or `50ms`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split([' ', '<', '=']).filter(|word| !word.is_empty()).collect();
        let (percentile, time) = match words[..] {
            [time] => ("p99", time.to_owned()),
            [percentile, time] => (percentile, time.to_owned()),
            [percentile, number, unit] => (percentile, format!("{number}{unit}")),
            _ => return None,
        };
        let percentile: f64 = percentile.strip_prefix('p')?.parse().ok()?;
        let seconds = duration(&time)?;
        let is_fine = (50.0..=99.99).contains(&percentile) && seconds > 0.0;
        is_fine.then_some(Self { percentile, seconds, ..Self::DEFAULT })
    }

    /// Judges a step.
    pub(crate) fn judge(&self, step: &Step) -> Verdict {
        if let Some(why) = &step.void {
            return Verdict::Void(why.clone());
        }
        if (step.requests() as f64) < self.requests_min() {
            return Verdict::Void(format!("only {} requests: no percentile", step.requests()));
        }
        let errors = step.failed as f64 / step.requests() as f64;
        if errors > self.errors_max {
            let first = step.first_failure.as_deref().unwrap_or("no answer");
            return Verdict::Broken(format!("{:.2} % of requests failed ({first})", errors * 100.0));
        }
        let time = step.at(self.percentile);
        if time > self.seconds {
            return Verdict::Broken(format!("p{} is {}", self.percentile, milliseconds(time)));
        }
        // What is open at the end of a short step is no backlog.
        let open = step.offered * step.seconds * (1.0 - self.achieved_min) + step.offered * self.seconds;
        let missing = (step.offered - step.achieved) * step.seconds;
        if missing > open.max(3.0 * (step.offered * step.seconds).sqrt()) {
            return Verdict::Broken(format!("only {:.1} % of what was offered was answered", step.share() * 100.0));
        }
        match &step.unsteady {
            Some(why) => Verdict::Void(format!("not steady: {why}")),
            None => Verdict::Kept,
        }
    }
}

impl Slo {
    /// Fewer requests have no such percentile.
    fn requests_min(&self) -> f64 {
        (1.0 / (1.0 - self.percentile / 100.0)).clamp(REQUESTS_MIN, REQUESTS_MIN_MOST)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{} <= {}", self.percentile, milliseconds(self.seconds))
    }
}

/// `50ms`, `1.5s`, `200us`, in seconds. A number without a unit is of milliseconds.
pub(super) fn duration(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..digits].trim().parse().ok()?;
    let factor = match text[digits..].trim() {
        "us" => 1e-6,
        "" | "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return None,
    };
    Some(number * factor).filter(|seconds| (0.0..=86_400.0).contains(seconds))
}

/// A time for people.
pub(super) fn milliseconds(seconds: f64) -> String {
    match seconds {
        s if s >= 10.0 => format!("{} s", crate::table::short(s)),
        s => format!("{} ms", crate::table::short(s * 1e3)),
    }
}

/// Less than this of what was offered, and there is a backlog.
const ACHIEVED_MIN: f64 = 0.995;
/// Fewer requests have no percentile worth the name.
const REQUESTS_MIN: f64 = 30.0;
const REQUESTS_MIN_MOST: f64 = 2000.0;

#[cfg(test)]
mod tests {
    use super::super::step::tests::step;
    use super::*;

    #[test]
    fn an_objective_is_read_as_people_write_it() {
        for (text, percentile, seconds) in
            [("p99 50ms", 99.0, 0.05), ("p99.9<1.5s", 99.9, 1.5), ("p95 <= 200 ms", 95.0, 0.2), ("30ms", 99.0, 0.03)]
        {
            let slo = Slo::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((slo.percentile, slo.seconds), (percentile, seconds), "{text}");
        }
        for text in ["", "p99", "p100 5ms", "p99 0ms", "p99 5h", "99 5ms", "a b c d"] {
            assert_eq!(Slo::parse(text), None, "{text}");
        }
        assert_eq!(Slo::DEFAULT.to_string(), "p99 <= 100 ms");
    }

    #[test]
    fn a_step_is_judged_by_its_percentile_its_failures_and_what_was_not_answered() {
        let slo = Slo::parse("p99 50ms").expect("an objective");
        let fine = step(100.0, 10.0, 0.02);
        assert_eq!(slo.judge(&fine), Verdict::Kept);
        assert_eq!(slo.judge(&step(100.0, 10.0, 0.06)).word(), "broken");
        let failing = Step { failed: 20, first_failure: Some("53300".to_owned()), ..fine.clone() };
        assert!(slo.judge(&failing).reason().contains("53300"));
        let behind = Step { achieved: 80.0, ..fine.clone() };
        assert!(slo.judge(&behind).reason().contains("80.0 %"), "{:?}", slo.judge(&behind));
        let climbing = Step { unsteady: Some("throughput climbs".to_owned()), ..fine.clone() };
        assert_eq!(slo.judge(&climbing).word(), "void");
        let void = Step { void: Some("the generator is late".to_owned()), ..fine };
        assert_eq!(slo.judge(&void).word(), "void");
        assert!(slo.judge(&step(1.0, 10.0, 0.02)).reason().contains("only 10 requests"));
    }
}
