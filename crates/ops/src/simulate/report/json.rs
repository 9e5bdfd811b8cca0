//! The report for a program.
//!
//! Always true: `schema` changes when a field changes its meaning or goes; times are in seconds. Histograms are complete, as pairs
//! of microseconds and counts, so that reports may be merged.
//! Not here: what the numbers mean (docs/operating/simulate.md).

use serde_json::{Map, Value, json};

use super::super::course::Study;
use super::super::engine::{CLOSED, Counts, OPENED, Outcome, Refused, ServerCounts, seconds_at};
use super::super::experiment::Point;
use super::{Part, Report};
use crate::load::Times;
use crate::theory::staffing::staffing;

pub(super) fn of(report: &Report) -> String {
    let chapters: Vec<Value> = report
        .chapters
        .iter()
        .map(|chapter| match &chapter.part {
            Part::Study(study) => json!({ "title": chapter.title, "words": chapter.words, "studies": [study_of(study)] }),
            Part::Comparison(studies) => {
                json!({ "title": chapter.title, "words": chapter.words, "studies": studies.iter().map(study_of).collect::<Vec<_>>() })
            }
            Part::Table { heads, rows } => json!({ "title": chapter.title, "words": chapter.words, "heads": heads, "rows": rows }),
        })
        .collect();
    let whole = json!({
        "schema": SCHEMA,
        "command": "simulate",
        "way": if report.studies().any(|study| !study.real.is_empty()) { "real" } else { "virtual" },
        "title": report.title,
        "is_complete": report.is_complete(),
        "books_balance": report.balances(),
        "chapters": chapters,
    });
    // A tree of our own making has no key that is not a text.
    serde_json::to_string_pretty(&whole).unwrap_or_default()
}

fn study_of(study: &Study) -> Value {
    let spec = &study.spec;
    let is_single = study.points.len() == 1;
    json!({
        "title": spec.title,
        "seed": spec.seed,
        "replications": spec.replications,
        "duration": spec.duration as f64 / 1e6,
        "warm_up": spec.warm_up as f64 / 1e6,
        "tenants": spec.tenants(),
        "spec": study.tree.text,
        "set": study.tree.changes,
        "swept": study.paths,
        "knee": study.knee,
        "knee_rule": {
            "churn_max": spec.knee.churn_max,
            "cpu_within": spec.knee.cpu_within,
            "p99_max": spec.knee.p99_max.map(|most| most as f64 / 1e6),
        },
        "settings_left_out": study.left_out,
        "real": study.real,
        "took": study.took.as_secs_f64(),
        "settings": study.points.iter().map(|point| setting_of(point, is_single)).collect::<Vec<_>>(),
    })
}

fn setting_of(point: &Point, is_single: bool) -> Value {
    let outcome = &point.total;
    let mut value = json!({
        "values": point.values,
        "runs": point.runs,
        "counted": outcome.seconds,
        "transactions": counts_of(&outcome.counts),
        "servers": servers_of(&outcome.servers),
        "throughput": outcome.throughput(),
        "disconnections": outcome.disconnections(),
        "churn": outcome.churn(),
        "cpu": outcome.cpu,
        "cpu_per_thousand": outcome.cpu_per_thousand(),
        "fairness": outcome.fairness(),
        "servers_peak": outcome.servers_peak,
        "is_unsteady": outcome.is_unsteady,
        "mean": {
            "in_system": outcome.mean.in_system,
            "waiting": outcome.mean.waiting,
            "lent": outcome.mean.lent,
            "open": outcome.mean.open,
            "clients": outcome.mean.clients,
        },
        "wait_mean": { "value": outcome.wait_average(), "interval": outcome.wait_mean },
        "wait": percentiles(&outcome.waits),
        "response": percentiles(&outcome.responses),
        "application_wait": percentiles(&outcome.app_waits),
        "books": outcome.balances.iter().map(|balance| json!({
            "what": balance.what, "left": balance.left, "right": balance.right,
        })).collect::<Vec<_>>(),
    });
    if let (true, Value::Object(fields)) = (is_single, &mut value) {
        details(outcome, fields);
    }
    value
}

/// What would be too much for each of hundreds of settings.
fn details(outcome: &Outcome, fields: &mut Map<String, Value>) {
    let groups = outcome.groups.iter().map(|group| {
        json!({
            "database": group.database, "group": group.group, "tenants": group.tenants,
            "transactions": counts_of(&group.counts), "servers": servers_of(&group.servers),
            "wait": percentiles(&group.waits), "response": percentiles(&group.responses),
        })
    });
    let tenants = outcome.by_tenant.iter().map(|tenant| {
        let group = &outcome.groups[tenant.group as usize];
        json!({
            "database": group.database, "group": group.group, "number": tenant.number,
            "transactions": counts_of(&tenant.counts),
            "servers": tenant.servers.as_ref().map(servers_of),
            "wait": tenant.waits.as_ref().map(percentiles),
        })
    });
    let staff = staffing(&outcome.loads(), 0.01);
    let needed = json!({ "overflow": 0.01, "role_for_each": staff.apart, "shared_login": staff.shared });
    fields.insert("servers_needed".to_owned(), needed);
    fields.insert("groups".to_owned(), groups.collect());
    fields.insert("by_tenant".to_owned(), tenants.collect());
    fields.insert("wait_histogram".to_owned(), histogram(&outcome.waits));
    fields.insert("response_histogram".to_owned(), histogram(&outcome.responses));
}

fn counts_of(counts: &Counts) -> Value {
    let refused: Map<String, Value> = Refused::ALL
        .iter()
        .zip(counts.refused)
        .map(|((_, name), number)| ((*name).to_owned(), number.into()))
        .collect();
    json!({
        "arrived": counts.arrived, "done": counts.done, "failed": counts.failed, "refused": refused,
        "waited": counts.waited as f64 / 1e6, "held": counts.held as f64 / 1e6,
        "executed": counts.executed as f64 / 1e6,
    })
}

fn servers_of(servers: &ServerCounts) -> Value {
    let dialed: Map<String, Value> =
        OPENED.iter().zip(servers.dialed).map(|((_, name), number)| ((*name).to_owned(), number.into())).collect();
    let closed: Map<String, Value> =
        CLOSED.iter().zip(servers.closed).map(|(name, number)| ((*name).to_owned(), number.into())).collect();
    json!({
        "opened": servers.opened, "closed": servers.closings(), "dialed_by_reason": dialed, "closed_by_reason": closed,
        "logins_failed": servers.logins_failed, "logins_given_up": servers.given_up,
    })
}

fn percentiles(times: &Times) -> Value {
    let at = |percentile| seconds_at(times, percentile);
    json!({ "p50": at(50.0), "p95": at(95.0), "p99": at(99.0), "p99_9": at(99.9), "count": times.histogram().len() })
}

fn histogram(times: &Times) -> Value {
    times.histogram().iter_recorded().map(|value| json!([value.value_iterated_to(), value.count_at_value()])).collect()
}

/// The version of the fields.
const SCHEMA: u32 = 1;
