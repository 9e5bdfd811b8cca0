//! The readings of all runs, their medians, and their ratios.
//!
//! Always true: a ratio is taken between two runs of the same pass, and the median of these ratios is reported with the
//! smallest and the largest; never the ratio of two medians.

use std::collections::BTreeMap;

use ops::table::{count, short};
use ops::trial::{Cpu, LoadResult};

use super::contestant::Contestant;
use super::scenario::Scenario;

/// A quantity that is read in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    Tps,
    CpuUs,
    CpuUserUs,
    ServerCpuUs,
    MeanMs,
    P99Ms,
    IdleBytes,
    RowGrowthMib,
    StartupMs,
    Messages,
    RoundTrips,
    LoginsPerMinute,
    SlowestMs,
}

impl Metric {
    /// The quantities of a load.
    pub(super) const OF_LOADS: [Self; 5] = [Self::Tps, Self::CpuUs, Self::CpuUserUs, Self::MeanMs, Self::P99Ms];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Tps => "transactions/s",
            Self::CpuUs => "CPU, us",
            Self::CpuUserUs => "user, us",
            Self::ServerCpuUs => "PostgreSQL's CPU, us",
            Self::MeanMs => "mean, ms",
            Self::P99Ms => "p99, ms",
            Self::IdleBytes => "bytes per idle client",
            Self::RowGrowthMib => "growth for a row of 1 GiB, MiB",
            Self::StartupMs => "start to first answer, ms",
            Self::Messages => "messages",
            Self::RoundTrips => "round trips",
            Self::LoginsPerMinute => "server logins a minute",
            Self::SlowestMs => "slowest, ms",
        }
    }

    /// The name in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Tps => "tps",
            Self::CpuUs => "cpu_us_per_transaction",
            Self::CpuUserUs => "cpu_user_us_per_transaction",
            Self::ServerCpuUs => "server_cpu_us_per_transaction",
            Self::MeanMs => "latency_mean_ms",
            Self::P99Ms => "latency_p99_ms",
            Self::IdleBytes => "idle_client_bytes",
            Self::RowGrowthMib => "row_growth_mib",
            Self::StartupMs => "startup_ms",
            Self::Messages => "server_messages_per_transaction",
            Self::RoundTrips => "server_round_trips_per_transaction",
            Self::LoginsPerMinute => "server_logins_per_minute",
            Self::SlowestMs => "latency_max_ms",
        }
    }

    /// A reading as text.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::Tps | Self::IdleBytes | Self::LoginsPerMinute | Self::SlowestMs => count(value),
            _ => short(value),
        }
    }
}

/// The readings of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Readings(BTreeMap<Metric, f64>);

impl Readings {
    pub(super) fn of(metric: Metric, value: f64) -> Self {
        Self(BTreeMap::from([(metric, value)]))
    }

    /// The readings of a load for which a pooler has used so much processor time.
    pub(super) fn of_load(result: LoadResult, used: Cpu) -> Self {
        let each = |us: u64| us as f64 / result.transactions as f64;
        let mut readings = Self::of(Metric::Tps, result.tps);
        readings.set(Metric::CpuUs, each(used.total_us()));
        readings.set(Metric::CpuUserUs, each(used.user_us));
        readings.set(Metric::MeanMs, result.mean_ms);
        if let Some(p99_ms) = result.p99_ms {
            readings.set(Metric::P99Ms, p99_ms);
        }
        readings
    }

    pub(super) fn set(&mut self, metric: Metric, value: f64) {
        self.0.insert(metric, value);
    }

    /// The readings on one line, printed while the bench runs.
    pub(super) fn in_short(&self) -> String {
        let all = self.0.iter().map(|(metric, &value)| format!("{} {}", metric.show(value), metric.label()));
        all.collect::<Vec<_>>().join("  ")
    }
}

/// Several ratios of the same kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// None without values.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let median = median(values)?;
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median, min, max })
    }

    /// For example `0.61 (0.58..0.66)`.
    pub(super) fn show(self) -> String {
        format!("{:.2} ({:.2}..{:.2})", self.median, self.min, self.max)
    }
}

/// All runs of a bench.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    passes: BTreeMap<Scenario, Vec<BTreeMap<Contestant, Readings>>>,
    failures: Vec<String>,
}

impl Tally {
    /// Begins a pass: the runs that are added from now on are compared with each other.
    pub(super) fn begin_pass(&mut self, scenario: Scenario) {
        self.passes.entry(scenario).or_default().push(BTreeMap::new());
    }

    pub(super) fn add(&mut self, scenario: Scenario, contestant: Contestant, readings: Readings) {
        if let Some(pass) = self.passes.get_mut(&scenario).and_then(|passes| passes.last_mut()) {
            pass.insert(contestant, readings);
        }
    }

    pub(super) fn fail(&mut self, scenario: Scenario, contestant: Contestant, why: &str) {
        let line = format!("{}, {}: {why}", scenario.name(), contestant.label());
        eprintln!("failed: {line}");
        self.failures.push(line);
    }

    pub(super) fn absent(&mut self, contestant: Contestant, why: &str) {
        let line = format!("{} could not be measured here: {why}", contestant.label());
        eprintln!("{line}");
        self.failures.push(line);
    }

    /// One line for each failure.
    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The readings of one quantity in all runs of a contestant, in the order of the runs.
    pub(super) fn values(&self, scenario: Scenario, contestant: Contestant, metric: Metric) -> Vec<f64> {
        let passes = self.passes.get(&scenario).into_iter().flatten();
        passes.filter_map(|pass| pass.get(&contestant)?.0.get(&metric).copied()).collect()
    }

    pub(super) fn median(&self, scenario: Scenario, contestant: Contestant, metric: Metric) -> Option<f64> {
        median(&self.values(scenario, contestant, metric))
    }

    /// The ratios of a contestant's readings to PgBouncer's.
    pub(super) fn ratio(&self, scenario: Scenario, contestant: Contestant, metric: Metric) -> Option<Spread> {
        let of = |pass: &BTreeMap<Contestant, Readings>, who| pass.get(&who)?.0.get(&metric).copied();
        let ratio =
            |pass| Some(of(pass, contestant)? / of(pass, Contestant::PgBouncer).filter(|&theirs| theirs > 0.0)?);
        let all: Vec<f64> = self.passes.get(&scenario)?.iter().filter_map(ratio).collect();
        Spread::of(&all)
    }
}

/// The value in the middle, or the mean of the two there.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: Scenario = Scenario::Simple { clients: 64 };

    fn tally(passes: &[(f64, f64)]) -> Tally {
        let mut tally = Tally::default();
        for &(ours, theirs) in passes {
            tally.begin_pass(WHAT);
            tally.add(WHAT, Contestant::Uring, Readings::of(Metric::Tps, ours));
            tally.add(WHAT, Contestant::PgBouncer, Readings::of(Metric::Tps, theirs));
        }
        tally
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_pass_and_not_between_medians() {
        // The machine was twice as fast in the second pass; the ratio of the medians would be the same by chance only.
        let tally = tally(&[(120.0, 100.0), (260.0, 200.0), (110.0, 100.0)]);
        let ratio = tally.ratio(WHAT, Contestant::Uring, Metric::Tps).expect("ratios");
        assert_eq!(ratio, Spread { median: 1.2, min: 1.1, max: 1.3 });
        assert_eq!(ratio.show(), "1.20 (1.10..1.30)");
    }

    #[test]
    fn a_run_without_its_counterpart_gives_no_ratio() {
        let mut tally = tally(&[(100.0, 50.0)]);
        tally.begin_pass(WHAT);
        tally.add(WHAT, Contestant::Uring, Readings::of(Metric::Tps, 1.0));
        let ratio = tally.ratio(WHAT, Contestant::Uring, Metric::Tps).expect("one ratio");
        assert_eq!(ratio, Spread { median: 2.0, min: 2.0, max: 2.0 });
        assert_eq!(tally.ratio(WHAT, Contestant::Epoll, Metric::Tps), None);
        assert_eq!(tally.values(WHAT, Contestant::Uring, Metric::Tps), [100.0, 1.0]);
    }
}
