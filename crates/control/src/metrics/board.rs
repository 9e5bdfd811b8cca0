//! A Grafana dashboard, made from the catalog.
//!
//! Always true: every metric of ours is on it; first a few panels that people look for, then one panel per metric.
//! Not here: the metrics (`catalog`), the alerts (`alerts`).

use serde_json::{Value, json};

use super::{CATALOG, Metric, MetricKind};

/// A panel that people look for first.
struct Panel {
    title: &'static str,
    /// What a high value means.
    about: &'static str,
    expr: &'static str,
    /// The legend of a series.
    legend: &'static str,
    unit: &'static str,
    is_stacked: bool,
}

const PANELS: [Panel; 9] = [
    Panel {
        title: "Where the time of transactions goes",
        about: "The average number of transactions in each phase. waiting: for a server of the pool; first_byte: PostgreSQL works; client_thinking: the client is idle in its transaction.",
        expr: "sum by (phase) (rate(trunkline_phase_seconds_total{SELECTED}[$__rate_interval]))",
        legend: "{{phase}}",
        unit: "none",
        is_stacked: true,
    },
    Panel {
        title: "What clients wait for",
        about: "The average number of clients that wait for a server, by reason.",
        expr: "sum by (reason) (rate(trunkline_wait_reason_seconds_total{SELECTED}[$__rate_interval]))",
        legend: "{{reason}}",
        unit: "none",
        is_stacked: true,
    },
    Panel {
        title: "Wait for a server, 99 of 100 transactions",
        about: "99 of 100 transactions waited no longer than this. The histogram has few buckets.",
        expr: "histogram_quantile(0.99, sum by (le, database) (rate(trunkline_wait_duration_seconds_bucket{SELECTED}[$__rate_interval])))",
        legend: "{{database}}",
        unit: "s",
        is_stacked: false,
    },
    Panel {
        title: "Transactions, 99 of 100",
        about: "99 of 100 transactions lasted no longer than this, from the client's first byte to the last byte of the answer.",
        expr: "histogram_quantile(0.99, sum by (le, database) (rate(trunkline_transaction_duration_seconds_bucket{SELECTED}[$__rate_interval])))",
        legend: "{{database}}",
        unit: "s",
        is_stacked: false,
    },
    Panel {
        title: "Servers in use",
        about: "When as many servers are in use as the pools may have, clients wait.",
        expr: "sum by (database) (trunkline_servers{SELECTED,state=\"active\"})",
        legend: "{{database}}",
        unit: "none",
        is_stacked: false,
    },
    Panel {
        title: "Applications by time",
        about: "The average number of servers that each application uses or waits for.",
        expr: "topk(10, sum by (application_name) (rate(trunkline_application_seconds_total{SELECTED}[$__rate_interval])))",
        legend: "{{application_name}}",
        unit: "none",
        is_stacked: true,
    },
    Panel {
        title: "Servers closed, by cause",
        about: "Each evicted, dirty or lost server costs another login.",
        expr: "sum by (cause) (rate(trunkline_servers_closed_total{SELECTED}[$__rate_interval]))",
        legend: "{{cause}}",
        unit: "ops",
        is_stacked: true,
    },
    Panel {
        title: "Logins, by outcome",
        about: "Each costs the pooler a handshake and a check of the password. An application that keeps its connections has few.",
        expr: "sum by (outcome) (rate(trunkline_logins_total{instance=~\"$instance\"}[$__rate_interval]))",
        legend: "{{outcome}}",
        unit: "ops",
        is_stacked: true,
    },
    Panel {
        title: "Workers",
        about: "The part of the time that each worker is busy; at 1 it is the bottleneck.",
        expr: "rate(trunkline_worker_busy_seconds_total{instance=~\"$instance\"}[$__rate_interval])",
        legend: "{{instance}} {{worker}}",
        unit: "percentunit",
        is_stacked: false,
    },
];

/// Returns the dashboard as JSON, for Grafana's import.
#[must_use]
pub fn board() -> String {
    let mut panels: Vec<Value> = Vec::new();
    for (number, panel) in PANELS.iter().enumerate() {
        panels.push(graph(
            panel.title,
            panel.about,
            panel.expr,
            panel.legend,
            panel.unit,
            panel.is_stacked,
            place(number, 0),
        ));
    }
    let below = (PANELS.len() as u64).div_ceil(COLUMNS) * HEIGHT;
    let each: Vec<Value> =
        CATALOG.iter().enumerate().map(|(number, metric)| single(metric, place(number, below + 1))).collect();
    panels.push(json!({
        "type": "row", "title": "Each metric", "collapsed": true, "panels": each,
        "gridPos": { "h": 1, "w": 24, "x": 0, "y": below },
    }));
    for (panel, id) in panels.iter_mut().zip(1..) {
        panel["id"] = json!(id);
    }
    let board = json!({
        "title": "Trunkline", "uid": "trunkline", "tags": ["postgresql", "pooler"], "schemaVersion": 39, "editable": true,
        "refresh": "30s", "time": { "from": "now-1h", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus" },
            variable("instance", "label_values(trunkline_build_info, instance)"),
            variable("database", "label_values(trunkline_clients{instance=~\"$instance\"}, database)"),
        ] },
        "panels": panels,
    });
    let mut text = serde_json::to_string_pretty(&board).unwrap_or_default();
    text.push('\n');
    text
}

fn variable(name: &str, query: &str) -> Value {
    json!({
        "name": name, "type": "query", "query": query, "datasource": source(), "multi": true, "includeAll": true,
        "current": { "text": "All", "value": "$__all" }, "refresh": 2, "sort": 1,
    })
}

/// Returns the panel of a single metric.
fn single(metric: &Metric, place: Value) -> Value {
    let selected = if metric.labels.contains(&"database") { "SELECTED" } else { "instance=~\"$instance\"" };
    let by = metric.labels.iter().filter(|label| **label != "user").copied().collect::<Vec<_>>();
    let legend = by.iter().map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ");
    let (by, name) = (by.join(", "), metric.name);
    let (expr, unit) = match metric.kind {
        MetricKind::Counter if name.ends_with("_seconds") => {
            (format!("sum by ({by}) (rate({name}_total{{{selected}}}[$__rate_interval]))"), "none")
        }
        MetricKind::Counter => (format!("sum by ({by}) (rate({name}_total{{{selected}}}[$__rate_interval]))"), "ops"),
        MetricKind::Gauge if name.ends_with("_seconds") => (format!("max by ({by}) ({name}{{{selected}}})"), "s"),
        MetricKind::Gauge => (format!("sum by ({by}) ({name}{{{selected}}})"), "none"),
        MetricKind::Histogram => (
            format!(
                "histogram_quantile(0.95, sum by (le, {by}) (rate({name}_bucket{{{selected}}}[$__rate_interval])))"
            ),
            "s",
        ),
    };
    graph(name, metric.help, &expr, &legend, unit, false, place)
}

fn graph(title: &str, about: &str, expr: &str, legend: &str, unit: &str, is_stacked: bool, place: Value) -> Value {
    let expr = expr.replace("SELECTED", "instance=~\"$instance\",database=~\"$database\"");
    let legend = if legend.is_empty() { "{{instance}}" } else { legend };
    json!({
        "type": "timeseries", "title": title, "description": about, "datasource": source(), "gridPos": place,
        "targets": [{ "refId": "A", "expr": expr, "legendFormat": legend, "datasource": source() }],
        "fieldConfig": { "defaults": { "unit": unit, "min": 0, "custom": {
            "fillOpacity": if is_stacked { 40 } else { 5 },
            "stacking": { "mode": if is_stacked { "normal" } else { "none" } },
        } }, "overrides": [] },
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// Returns the grid position of a panel.
fn place(number: usize, below: u64) -> Value {
    let (row, column) = (number as u64 / COLUMNS, number as u64 % COLUMNS);
    json!({ "h": HEIGHT, "w": WIDTH, "x": column * WIDTH, "y": below + row * HEIGHT })
}

const COLUMNS: u64 = 2;
const WIDTH: u64 = 12;
const HEIGHT: u64 = 8;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics::names;

    #[test]
    fn the_board_asks_for_metrics_that_there_are_and_for_all_of_them() {
        let (known, text) = (names().collect::<BTreeSet<String>>(), board());
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let asked: BTreeSet<&str> = words.filter(|word| word.starts_with("trunkline_")).collect();
        let titles: BTreeSet<&str> = CATALOG.iter().map(|metric| metric.name).collect();
        for word in &asked {
            assert!(known.contains(*word) || titles.contains(word), "{word}");
        }
        for metric in CATALOG {
            assert!(asked.contains(metric.name), "{}", metric.name);
        }
        assert!(!text.contains("SELECTED") && !text.contains("{,"), "a variable is not filled in");
    }
}
