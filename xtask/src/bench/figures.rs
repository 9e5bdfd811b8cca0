//! The figures that Trunkline must reach, and whether it does.

use super::contestant::Contestant;
use super::scenario::Scenario;
use super::tally::{Metric, Tally};

/// One figure to reach.
pub(super) struct Figure {
    scenario: Scenario,
    contestant: Contestant,
    metric: Metric,
    kind: Kind,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Kind {
    /// The ratio to PgBouncer's value.
    Ratio,
    /// The value itself.
    Value,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// The result of a figure.
pub(super) struct Finding {
    /// The bound, as text.
    pub(super) wanted: String,
    /// The measured value, as text and as a number.
    pub(super) found: String,
    pub(super) value: Option<f64>,
    pub(super) verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Met,
    Missed,
    NotMeasured,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::NotMeasured => "not measured",
        }
    }
}

impl Figure {
    pub(super) fn all() -> Vec<Self> {
        let simple = |clients| Scenario::Simple { clients };
        let extended = |clients| Scenario::Extended { clients };
        let tenants = |clients| Scenario::Tenants { clients };
        let mut all = Vec::new();
        for scenario in [simple(64), extended(64)] {
            all.push(ratio(scenario, Contestant::Uring, Metric::CpuUs, Bound::AtMost(0.70)));
            all.push(ratio(scenario, Contestant::Epoll, Metric::CpuUs, Bound::AtMost(0.95)));
        }
        for (scenario, least) in [(simple(64), 1.20), (extended(64), 1.20), (simple(400), 1.10), (extended(400), 1.10)]
        {
            all.push(ratio(scenario, Contestant::Uring, Metric::Tps, Bound::AtLeast(least)));
        }
        for scenario in [simple(64), extended(64), simple(400), extended(400)] {
            all.push(ratio(scenario, Contestant::Uring, Metric::P99Ms, Bound::AtMost(1.0)));
        }
        all.push(ratio(Scenario::Prepared { clients: 64 }, Contestant::Uring, Metric::CpuUs, Bound::AtMost(0.70)));
        all.push(ratio(Scenario::Tls { clients: 64 }, Contestant::Uring, Metric::CpuUs, Bound::AtMost(0.75)));
        all.push(ratio(Scenario::TlsConnect { clients: 8 }, Contestant::Uring, Metric::CpuUs, Bound::AtMost(0.60)));
        for clients in [240, 360] {
            all.push(ratio(tenants(clients), Contestant::Uring, Metric::Tps, Bound::AtLeast(1.30)));
        }
        all.push(value(tenants(240), Contestant::Uring, Metric::LoginsPerMinute, Bound::AtMost(4350.0)));
        all.push(value(tenants(360), Contestant::Uring, Metric::SlowestMs, Bound::AtMost(2500.0)));
        for contestant in Contestant::OURS {
            let connect = Scenario::Connect { clients: 8 };
            let idle = Scenario::Idle { clients: 10_000 };
            let startup = Scenario::Startup { databases: 10_000 };
            all.push(ratio(connect, contestant, Metric::CpuUs, Bound::AtMost(1.0)));
            all.push(value(idle, contestant, Metric::IdleBytes, Bound::AtMost(600.0)));
            all.push(value(Scenario::Row, contestant, Metric::RowGrowthMib, Bound::AtMost(8.0)));
            all.push(value(startup, contestant, Metric::StartupMs, Bound::AtMost(1000.0)));
        }
        all
    }

    pub(super) fn judge(&self, tally: &Tally) -> Finding {
        let (value, found) = match self.kind {
            Kind::Ratio => {
                let ratio = tally.ratio(self.scenario, self.contestant, self.metric);
                (ratio.map(|ratio| ratio.median), ratio.map(|ratio| ratio.show()))
            }
            Kind::Value => {
                let value = tally.median(self.scenario, self.contestant, self.metric);
                (value, value.map(|value| self.metric.show(value)))
            }
        };
        Finding {
            wanted: self.wanted(),
            found: found.unwrap_or_else(|| "-".into()),
            value,
            verdict: value.map_or(Verdict::NotMeasured, |value| self.bound.verdict(value)),
        }
    }

    fn wanted(&self) -> String {
        let (name, who, label) = (self.scenario.name(), self.contestant.key(), self.metric.label());
        let (word, bound) = match self.bound {
            Bound::AtMost(most) => ("at most", most),
            Bound::AtLeast(least) => ("at least", least),
        };
        match self.kind {
            Kind::Value => format!("{name}, {who}: {label} {word} {bound}"),
            Kind::Ratio => {
                // A ratio has no unit.
                let label = label.split_once(',').map_or(label, |(label, _)| label);
                format!("{name}, {who}: {label} {word} {bound:.2} times PgBouncer's")
            }
        }
    }
}

impl Bound {
    fn verdict(self, value: f64) -> Verdict {
        let is_met = match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        };
        if is_met { Verdict::Met } else { Verdict::Missed }
    }
}

fn ratio(scenario: Scenario, contestant: Contestant, metric: Metric, bound: Bound) -> Figure {
    Figure { scenario, contestant, metric, kind: Kind::Ratio, bound }
}

fn value(scenario: Scenario, contestant: Contestant, metric: Metric, bound: Bound) -> Figure {
    Figure { scenario, contestant, metric, kind: Kind::Value, bound }
}

#[cfg(test)]
mod tests {
    use super::super::tally::Readings;
    use super::*;

    const IDLE: Scenario = Scenario::Idle { clients: 10_000 };

    #[test]
    fn a_figure_is_met_at_its_bound_and_missed_beyond() {
        assert_eq!(Bound::AtMost(0.7).verdict(0.7), Verdict::Met);
        assert_eq!(Bound::AtMost(0.7).verdict(0.71), Verdict::Missed);
        assert_eq!(Bound::AtLeast(1.2).verdict(1.19), Verdict::Missed);
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let findings: Vec<Verdict> =
            Figure::all().iter().map(|figure| figure.judge(&Tally::default()).verdict).collect();
        assert!(findings.iter().all(|&verdict| verdict == Verdict::NotMeasured));
    }

    #[test]
    fn memory_is_judged_by_itself_and_without_pgbouncer() {
        let mut tally = Tally::default();
        tally.begin_pass(IDLE);
        tally.add(IDLE, Contestant::Epoll, Readings::of(Metric::IdleBytes, 601.0));
        let figure = value(IDLE, Contestant::Epoll, Metric::IdleBytes, Bound::AtMost(600.0));
        let finding = figure.judge(&tally);
        assert_eq!((finding.verdict, finding.found.as_str()), (Verdict::Missed, "601"));
        assert_eq!(finding.wanted, "idle, epoll: bytes per idle client at most 600");
    }

    #[test]
    fn every_figure_is_about_something_that_a_whole_run_measures() {
        let all = Scenario::all(&[]);
        assert!(Figure::all().iter().all(|figure| all.contains(&figure.scenario)));
    }
}
