//! Metrics: counters and measurements as text for Prometheus.
//!
//! Always true: every metric of ours is in [`CATALOG`], with its name, type, unit and labels; the reference page, the
//! board and the alerts are made from that. Labels are names of databases, users, hosts and fixed words, never texts of
//! statements.
//! Not here: counting (`worker`), access control (`http`).

mod alerts;
mod board;
mod catalog;
mod clusters;
mod encode;
mod failures;
mod pgbouncer;

use std::sync::Arc;

use measure::Histogram;

use worker::letters::{Detail, Parts};

use crate::console::show::{NOTHING, View};

pub use alerts::{alert_rules, alert_tests, alerts_reference};
pub use board::board;
pub(crate) use catalog::CATALOG;

/// One metric: a family of samples with one name.
#[derive(Debug)]
pub(crate) struct Metric {
    /// The name without the suffix `_total` of counters.
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) samples: fn(&View<'_>) -> Vec<Sample>,
}

/// The type of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetricKind {
    /// Only grows, from 0 at the start of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution over buckets with upper bounds in seconds.
    Histogram,
}

/// One number of a metric, or one distribution.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sample {
    /// The values of the metric's labels, in their order.
    pub(crate) labels: Vec<Arc<str>>,
    pub(crate) value: Value,
}

/// The value of a sample.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Number(f64),
    Distribution {
        /// The sum of all observations, in seconds.
        sum: f64,
        count: u64,
        /// The number of observations in each bucket, by its upper bound in seconds.
        buckets: Vec<(f64, u64)>,
    },
}

impl Sample {
    pub(crate) fn new<const N: usize>(labels: [&Arc<str>; N], value: f64) -> Self {
        Self { labels: labels.map(Arc::clone).into(), value: Value::Number(value) }
    }

    pub(crate) fn only(value: f64) -> Self {
        Self { labels: Vec::new(), value: Value::Number(value) }
    }

    pub(crate) fn distribution<const N: usize>(labels: [&Arc<str>; N], histogram: &Histogram) -> Self {
        let bounds = BUCKETS.map(|seconds| (seconds * 1e6) as u64);
        let mut below = 0;
        let counts =
            histogram.cumulative(&bounds).into_iter().map(|count| count - std::mem::replace(&mut below, count));
        let mut buckets: Vec<_> = BUCKETS.into_iter().zip(counts).collect();
        buckets.push((f64::INFINITY, histogram.count() - below));
        let (sum, count) = (histogram.sum() as f64 / 1e6, histogram.count());
        Self { labels: labels.map(Arc::clone).into(), value: Value::Distribution { sum, count, buckets } }
    }
}

/// Returns the reference of all metrics, in Markdown.
#[must_use]
pub fn metrics_reference() -> String {
    let row = |metric: &Metric| {
        let (kind, suffix) = match metric.kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
            MetricKind::Histogram => ("histogram", ""),
        };
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        format!("| `{}{suffix}` | {kind} | {labels} | {} |\n", metric.name, metric.help)
    };
    let head = "| name | type | labels | meaning |\n|---|---|---|---|\n";
    let (ours, theirs): (String, String) =
        (CATALOG.iter().map(row).collect(), pgbouncer::CATALOG.iter().map(row).collect());
    format!("{head}{ours}\n## Under the names of the exporter for PgBouncer\n\n{head}{theirs}")
}

/// The parts of the snapshots that the metrics need.
pub(crate) const PARTS: Parts = Parts {
    pools: true,
    stats: true,
    memory: true,
    pins: true,
    hosts: true,
    measures: Detail::Sums,
    applications: true,
    ..NOTHING
};

/// The bucket bounds of histograms, in seconds: few, so that a thousand pools fit into one answer.
const BUCKETS: [f64; 5] = [0.001, 0.01, 0.1, 1.0, 10.0];

/// Content types of the two formats.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics as text: OpenMetrics, or the older Prometheus format.
pub(crate) fn text(view: &View<'_>, is_open: bool) -> String {
    let families = CATALOG.iter().chain(pgbouncer::CATALOG).map(|metric| (metric, (metric.samples)(view)));
    encode::encode(families.filter(|(_, samples)| !samples.is_empty()).collect(), is_open)
}

/// The names of the samples of our metrics.
#[cfg(test)]
fn names() -> impl Iterator<Item = String> {
    CATALOG.iter().flat_map(|metric| {
        let suffixes: &[&str] = match metric.kind {
            MetricKind::Counter => &["_total"],
            MetricKind::Gauge => &[""],
            MetricKind::Histogram => &["_bucket", "_count", "_sum"],
        };
        suffixes.iter().map(|suffix| format!("{}{suffix}", metric.name))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use measure::{Closed, Division, Histograms, Lives, Opened, PHASES, Sums};
    use pool::WaitReason;
    use worker::letters::{ApplicationRow, PoolRow, Snapshot, Totals};

    use super::*;
    use crate::console::show::tests::{pin, pool_row, settings, with_view};

    /// A pool with a value for every metric.
    fn measured(number: u32) -> PoolRow {
        let mut row = pool_row(&format!("database_{number}"), "a_user_of_it");
        let mut division = Division::default();
        PHASES.iter().zip(1..).for_each(|((phase, _), at)| division.enter(base::Time(at * 1000), *phase));
        let spent = division.end(base::Time(90_000)).expect("a transaction");
        let mut histograms = Histograms::default();
        histograms.record(&spent);
        if let Some(measures) = &mut row.measures {
            measures.sums.add(&spent);
            measures.wait = Some(Box::new(histograms.of(PHASES[0].0)));
            measures.total = Some(Box::new(histograms.total.clone()));
            Opened::ALL.into_iter().for_each(|why| measures.lives.opens(why));
            Closed::ALL.into_iter().for_each(|why| measures.lives.closes(why));
            measures.evicted_by = vec![worker::letters::Evicted { database: "e".into(), user: "v".into(), count: 2 }];
            measures.reads = worker::letters::ReadCounts { to_replica: 4, behind: 3, refused: 2, lost: 1 };
        }
        row
    }

    fn snapshot(pools: u32) -> Snapshot {
        let sums = measured(0).measures.expect("measures").sums;
        let application = ApplicationRow { database: "d".into(), user: "u".into(), name: "web".into(), sums };
        let mut connections = measure::Connections::default();
        connections.login_ends(measure::LoginStep::Tls, measure::LoginOutcome::Gone);
        Snapshot {
            pools: (0..pools).map(measured).collect(),
            stats: vec![("d".into(), Totals::default())],
            applications: vec![application],
            probes: vec![("d".into(), [1; protocol::state::PROBED.len()])],
            connections,
            pins: vec![pin(protocol::state::Kind::Lock, "42")],
            ..Snapshot::default()
        }
    }

    const SETTINGS: &str =
        "[databases]\nd = host=a\n[rate_limits]\nr = events=logins rate=1\n[pgbouncer]\nauth_type=any\n";

    #[test]
    fn every_metric_has_a_name_of_its_own_a_sentence_and_a_value_for_each_label() {
        let settings = settings(SETTINGS);
        let names: BTreeSet<_> = CATALOG.iter().chain(pgbouncer::CATALOG).map(|metric| metric.name).collect();
        assert_eq!(names.len(), CATALOG.len() + pgbouncer::CATALOG.len());
        with_view(&settings, &[snapshot(2)], |view| {
            for metric in CATALOG.iter().chain(pgbouncer::CATALOG) {
                assert!(metric.help.ends_with('.'), "{}", metric.name);
                let samples = (metric.samples)(view);
                let labels: BTreeSet<_> = samples.iter().map(|sample| &sample.labels).collect();
                assert_eq!(labels.len(), samples.len(), "{} tells two samples of the same labels", metric.name);
                for sample in &samples {
                    assert_eq!(sample.labels.len(), metric.labels.len(), "{}", metric.name);
                    let is_spread = matches!(sample.value, Value::Distribution { .. });
                    assert_eq!(is_spread, metric.kind == MetricKind::Histogram, "{}", metric.name);
                }
            }
        });
        assert!(CATALOG.iter().all(|metric| metric.name.starts_with("trunkline_")));
        assert_eq!(WaitReason::ALL.len(), 7, "the page and the alerts know each of them");
    }

    #[test]
    fn logins_of_all_workers_are_added_up_and_what_has_not_occurred_is_not_told() {
        with_view(&settings(SETTINGS), &[snapshot(1), snapshot(0)], |view| {
            let told = text(view, true);
            let mut logins = told.lines().filter(|line| line.starts_with("trunkline_logins_total"));
            assert_eq!(logins.next(), Some("trunkline_logins_total{step=\"tls\",outcome=\"gone\"} 2.0"));
            assert_eq!(logins.next(), None);
            assert!(
                told.contains("{database=\"database_0\",user=\"a_user_of_it\",by_database=\"e\",by_user=\"v\"} 2.0")
            );
        });
    }

    /// A thousand pools with typical values: a few causes and phases, one server in use and one free.
    fn ordinary() -> Snapshot {
        let mut ordinary = snapshot(1000);
        for row in &mut ordinary.pools {
            (row.cl_active, row.sv_active, row.sv_idle) = (20, 1, 1);
            if let Some(measures) = &mut row.measures {
                let mut division = Division::default();
                let phases = [(0, 0), (900, 2), (5000, 3)].into_iter();
                phases.for_each(|(at, phase)| division.enter(base::Time(at), PHASES[phase].0));
                measures.sums = Sums::default();
                measures.sums.add(&division.end(base::Time(9000)).expect("a transaction"));
                measures.lives = Lives::default();
                measures.lives.opens(Opened::Client);
                measures.lives.closes(Closed::Idle);
                measures.evicted_by.clear();
                measures.reads = worker::letters::ReadCounts::default();
            }
        }
        ordinary
    }

    #[test]
    fn a_thousand_pools_fit_into_three_megabytes() {
        with_view(&settings(SETTINGS), &[ordinary()], |view| {
            let bytes = text(view, true).len();
            assert!(bytes <= 3 << 20, "{bytes} bytes");
        });
    }

    /// Each database has a pool and an application of its own; in every fourth a client has waited.
    #[test]
    fn a_thousand_databases_fit_into_four_megabytes_and_into_half_a_megabyte_compressed() {
        let mut ordinary = ordinary();
        let name = |number: usize| -> Arc<str> { format!("database_{number}").into() };
        let totals = Totals { xact_count: 12_345, query_count: 23_456, xact_time: 3_456_789, ..Totals::default() };
        let totals =
            Totals { query_time: 2_345_678, received: 1_234_567, sent: 1_234_567, client_login_count: 7, ..totals };
        ordinary.stats = (0..1000).map(|number| (name(number), totals)).collect();
        let application = ordinary.applications.pop().expect("an application");
        let of = |number| ApplicationRow { database: name(number), ..application.clone() };
        ordinary.applications = (0..1000).map(of).collect();
        for row in ordinary.pools.iter_mut().enumerate().filter(|(number, _)| number % 4 > 0).map(|(_, row)| row) {
            let measures = row.measures.as_mut().expect("measures");
            measures.wait = None;
        }
        let lines: String = (0..1000).map(|number| format!("{} = host=10.0.0.7\n", name(number))).collect();
        let settings = settings(&format!("[databases]\n{lines}[pgbouncer]\nauth_type=any\n"));
        with_view(&settings, &[ordinary], |view| {
            let text = text(view, true);
            assert!(text.len() <= 4 << 20, "{} bytes", text.len());
            let packed = crate::http::gzip(&text).len();
            assert!(packed <= 512 << 10, "{packed} bytes compressed");
        });
    }
}
