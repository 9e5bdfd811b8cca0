//! Metrics: what is counted and measured, as text that Prometheus reads.
//!
//! Always true: everything that is told stands in [`CATALOG`], with its name, type, unit and labels; the reference page, the
//! board and the alerts are made from that. Labels are names of databases, users, hosts and words of ours, never texts of
//! statements.
//! Not here: counting (`worker`), who may read (`http`).

mod catalog;
mod encode;
mod pgbouncer;

use std::sync::Arc;

use worker::letters::{Detail, Parts};

use crate::console::show::{NOTHING, View};

pub(crate) use catalog::CATALOG;

/// One metric: a family of samples with one name.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Without the suffix `_total` of counters.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) samples: fn(&View<'_>) -> Vec<Sample>,
}

/// What kind of number it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It only grows, from 0 at the start of the process.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One number of a metric.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sample {
    /// The values of the metric's labels, in their order.
    pub(crate) labels: Vec<Arc<str>>,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn new<const N: usize>(labels: [&Arc<str>; N], value: f64) -> Self {
        Self { labels: labels.map(Arc::clone).into(), value }
    }

    pub(crate) fn only(value: f64) -> Self {
        Self { labels: Vec::new(), value }
    }
}

/// Which parts of the workers all metrics need.
pub(crate) const PARTS: Parts =
    Parts { pools: true, stats: true, memory: true, pins: true, measures: Detail::Sums, applications: true, ..NOTHING };

/// Content types of the two formats.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics as text: OpenMetrics, or the older format of Prometheus.
pub(crate) fn text(view: &View<'_>, is_open: bool) -> String {
    let families = CATALOG.iter().chain(pgbouncer::CATALOG).map(|metric| (metric, (metric.samples)(view)));
    encode::encode(families.filter(|(_, samples)| !samples.is_empty()).collect(), is_open)
}
