//! Encodes metrics as text, with `prometheus-client`.
//!
//! Always true: the text is OpenMetrics as the library writes it; in the older format the names of counters carry their
//! suffix in HELP and TYPE lines, and there is no EOF line.

use std::fmt::{self, Write as _};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::{Metric, MetricKind, Sample, Value};

/// Metrics with their samples.
#[derive(Debug)]
struct Families(Vec<(&'static Metric, Vec<Sample>)>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (metric, samples) in &self.0 {
            let kind = match metric.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            for sample in samples {
                let labels: Vec<(&str, &str)> =
                    metric.labels.iter().zip(&sample.labels).map(|(name, value)| (*name, &**value)).collect();
                let mut one = family.encode_family(&labels)?;
                match (&sample.value, metric.kind) {
                    (Value::Number(value), MetricKind::Counter) => {
                        one.encode_counter::<NoLabelSet, _, f64>(value, None)?
                    }
                    (Value::Number(value), _) => one.encode_gauge(value)?,
                    (Value::Distribution { sum, count, buckets }, _) => {
                        one.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

pub(super) fn encode(families: Vec<(&'static Metric, Vec<Sample>)>, is_open: bool) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = text::encode(&mut out, &registry);
    if is_open { out } else { older(&out) }
}

/// Converts OpenMetrics to the older Prometheus format.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        if line == "# EOF" {
            continue;
        }
        if line.starts_with("# HELP ") {
            help = line;
            continue;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let words = help.splitn(4, ' ').nth(3).unwrap_or_default();
            let _ = writeln!(out, "# HELP {name}{suffix} {words}\n# TYPE {name}{suffix} {kind}");
            continue;
        }
        let _ = writeln!(out, "{line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    static CALLS: Metric = Metric {
        name: "calls",
        kind: MetricKind::Counter,
        help: "How often.",
        labels: &["who", "how"],
        samples: |_| Vec::new(),
    };
    static SIZE: Metric = Metric {
        name: "size_bytes",
        kind: MetricKind::Gauge,
        help: "How large.",
        labels: &[],
        samples: |_| Vec::new(),
    };

    fn families() -> Vec<(&'static Metric, Vec<Sample>)> {
        let calls = Sample { labels: vec!["a\"b\\\n".into(), "x".into()], value: Value::Number(3.0) };
        vec![(&CALLS, vec![calls]), (&SIZE, vec![Sample::only(1.5)])]
    }

    #[test]
    fn both_formats_are_written() {
        let calls = "{who=\"a\\\"b\\\\\\n\",how=\"x\"} 3.0";
        assert_eq!(
            encode(families(), true),
            format!(
                "# HELP calls How often.\n# TYPE calls counter\ncalls_total{calls}\n\
                 # HELP size_bytes How large.\n# TYPE size_bytes gauge\nsize_bytes 1.5\n# EOF\n"
            )
        );
        assert_eq!(
            encode(families(), false),
            format!(
                "# HELP calls_total How often.\n# TYPE calls_total counter\ncalls_total{calls}\n\
                 # HELP size_bytes How large.\n# TYPE size_bytes gauge\nsize_bytes 1.5\n"
            )
        );
    }
}
