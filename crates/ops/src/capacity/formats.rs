//! The report for programs.
//!
//! Always true: `schema` names the shape and its version; a field is added without a new version, and never removed or changed within one. Times
//! are in seconds, rates in requests a second. Histograms are complete, as pairs of microseconds and counts, so that reports may be merged.
//! Not here: the report for people (`words`).

use serde_json::{Value, json};

use super::attribution::Attribution;
use super::course::Report;
use super::growth::{Growth, Headroom};
use super::knee::{kneedle, power_knee};
use super::measure::Measurement;
use super::outlook;
use super::plan::Plan;
use super::probe::Closed;
use super::scaling::{Scaling, idle_cost};
use super::search::{End, Search};
use super::slo::Verdict;
use super::step::{Phase, Step};
use super::words::curve;

/// The report as JSON.
pub(crate) fn json(report: &Report) -> String {
    let forecast = report.outlook.as_ref().map(|(history, outlooks)| outlook::json(history, outlooks));
    let whole = json!({
        "schema": "trunkline.capacity",
        "version": VERSION,
        "command": "capacity",
        "program": concat!("trunkline ", env!("CARGO_PKG_VERSION")),
        "measurement": report.measurement.as_ref().map(measurement),
        "headroom": report.headroom.as_ref().map(|(headroom, growth)| room(headroom, growth.as_ref())),
        "forecast": forecast,
    });
    // A tree of our own making has no key that is not a text.
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

fn measurement(measured: &Measurement) -> Value {
    let looks: Vec<Value> = measured
        .evidence
        .looks()
        .iter()
        .map(|look| json!({ "limit": look.limit.word(), "seen": look.seen, "is_it": look.is_it }))
        .collect();
    let pairs: Vec<(f64, f64)> = measured.idle.iter().map(|(idle, rate)| (f64::from(*idle), *rate)).collect();
    json!({
        "target": measured.target,
        "workload": measured.workload,
        "loop": "open",
        "arrivals": "poisson",
        "seed": measured.seed,
        "clients": measured.clients,
        "seconds": measured.seconds,
        "slo": {
            "percentile": measured.slo.percentile, "seconds": measured.slo.seconds, "errors_max": measured.slo.errors_max,
            "achieved_min": measured.slo.achieved_min,
        },
        "plan": {
            "relative_error": measured.plan.relative_error, "seconds_min": measured.plan.seconds_min,
            "seconds_max": measured.plan.seconds_max, "confirmations": measured.plan.confirmations,
            "resolution": measured.plan.resolution,
        },
        "generator": measured.generator.map(|one| json!({ "rate_max": one.rate, "cpu_us": one.cpu })),
        "closed": measured.probes.iter().map(closed).collect::<Vec<_>>(),
        "bound": measured.bound.map(|bound| json!({ "rate": bound.rate, "service": bound.service, "servers": bound.servers() })),
        "limit": { "resource": measured.evidence.limit().word(), "evidence": looks },
        "search": measured.search.as_ref().map(|search| searched(measured, search)),
        "knee": measured.knee.map(|knee| json!({
            "rate": knee.rate.value, "low": knee.rate.low, "high": knee.rate.high, "steps": knee.steps,
        })),
        "scaling": measured.scaling.as_ref().map(scaling),
        "idle": {
            "points": measured.idle.iter().map(|(idle, rate)| json!({ "idle": idle, "throughput": rate })).collect::<Vec<_>>(),
            "share_per_thousand": idle_cost(&pairs),
        },
        "attribution": measured.attribution.as_ref().map(attribution),
        "notes": measured.notes,
    })
}

fn closed(closed: &Closed) -> Value {
    json!({
        "clients": closed.clients, "throughput": closed.throughput, "response": closed.response, "service": closed.service,
        "failed": closed.failed,
    })
}

fn searched(measured: &Measurement, search: &Search) -> Value {
    let (end, why) = match search.end() {
        Some(End::Found) => ("found", None),
        Some(End::NoneBroken) => ("every load kept the objective", None),
        Some(End::NoneKept) => ("no load kept the objective", None),
        Some(End::Void(why)) => ("void", Some(why)),
        Some(End::Early) | None => ("ended early", None),
    };
    let curve = curve(search, &measured.slo);
    let steps = search.steps().iter().map(|(step, verdict)| stepped(measured, step, verdict));
    let recovered = search.steps().iter().find(|(step, _)| step.phase == Phase::Recovery);
    let recovered = recovered.and_then(|(step, _)| step.recovered_after(measured.slo.percentile));
    json!({
        "end": end,
        "why": why,
        "steps": steps.collect::<Vec<_>>(),
        "recovered_after": recovered,
        "compare": { "kneedle": kneedle(&curve), "power": power_knee(&curve), "mmc": measured.bound.map(|bound| bound.knee_in_theory(&measured.slo)) },
    })
}

fn stepped(measured: &Measurement, step: &Step, verdict: &Verdict) -> Value {
    let histogram: Vec<(u64, u64)> =
        step.times.iter_recorded().map(|entry| (entry.value_iterated_to(), entry.count_at_value())).collect();
    json!({
        "phase": step.phase.word(), "offered": step.offered, "achieved": step.achieved, "seconds": step.seconds,
        "requests": step.requests(), "failed": step.failed, "first_failure": step.first_failure,
        "p50": step.at(50.0), "p95": step.at(95.0), "p99": step.at(99.0), "p999": step.at(99.9), "mean": step.mean(),
        "service": step.service, "wait": step.wait(), "limit": step.evidence.limit().word(),
        "mean_error": measured.bound.map(|bound| Plan::error_of(&bound, step.offered, step.seconds)),
        "verdict": verdict.word(), "reason": verdict.reason(), "histogram_us": histogram,
    })
}

fn scaling(scaling: &Scaling) -> Value {
    let fit = scaling.fit.as_ref().ok().map(|fit| {
        let one = |one: &crate::theory::usl::Coefficient| json!({ "estimate": one.estimate, "error": one.error, "is_bound": one.is_bound });
        json!({ "alpha": one(&fit.alpha), "beta": one(&fit.beta), "gamma": one(&fit.gamma), "residual_error": fit.residual_error })
    });
    let predictions = scaling.predictions.iter();
    let predictions = predictions
        .map(|(n, told)| json!({ "clients": n, "throughput": told.as_ref().ok(), "refused": told.as_ref().err() }));
    json!({
        "points": scaling.points.iter().map(closed).collect::<Vec<_>>(),
        "law": fit,
        "no_law": scaling.fit.as_ref().err(),
        "peak": scaling.peak.as_ref().ok(),
        "no_peak": scaling.peak.as_ref().err(),
        "predictions": predictions.collect::<Vec<_>>(),
    })
}

fn attribution(attribution: &Attribution) -> Value {
    let tables = attribution.tables.as_ref().map(|tables| {
        let one = tables.iter().map(|share| {
            json!({
                "table": share.table, "blocks": share.blocks, "rows_read": share.rows, "rows_written": share.writes,
                "time_estimate": share.time,
            })
        });
        one.collect::<Vec<_>>()
    });
    let hot = attribution.hot.as_ref().map(|relations| {
        let one = relations.iter().map(
            |one| json!({ "relation": one.name, "buffers": one.buffers, "used_often": one.hot, "dirty": one.dirty }),
        );
        one.collect::<Vec<_>>()
    });
    let writing = attribution.writing.as_ref().map(|writing| {
        json!({
            "seconds": writing.seconds, "log_bytes": writing.grown.log, "pages_dirtied": writing.dirtied.as_ref().ok(),
            "pages_dirtied_needs": writing.dirtied.as_ref().err(),
            "pages_written": {
                "checkpoints": writing.grown.checkpoints, "background_writer": writing.grown.writer, "others": writing.grown.sessions,
            },
            "checkpoint_share": writing.checkpoint_share(),
            "checkpoints": { "timed": writing.grown.timed, "requested": writing.grown.requested },
        })
    });
    json!({
        "writing": writing.as_ref().ok(),
        "writing_needs": writing.as_ref().err(),
        "tables": tables.as_ref().ok(),
        "tables_need": tables.as_ref().err(),
        "time": attribution.untold.as_ref().ok().map(|untold| json!({
            "seconds": untold.milliseconds / 1e3, "unknown": untold.unknown, "without_table": untold.without, "wal_bytes": untold.wal_bytes,
        })),
        "time_needs": attribution.untold.as_ref().err(),
        "hot_set": hot.as_ref().ok(),
        "hot_set_needs": hot.as_ref().err(),
    })
}

fn room(headroom: &Headroom, growth: Option<&Growth>) -> Value {
    let periods = growth.and_then(|growth| headroom.periods(growth.part));
    json!({
        "now": headroom.now, "limit": headroom.limit, "share": headroom.share(),
        "growth": growth.map(|growth| json!({ "part": growth.part, "period": growth.period })),
        "periods": periods,
        "days": periods.zip(growth).map(|(periods, growth)| periods * growth.days),
    })
}

/// The version of the shape of JSON.
const VERSION: u32 = 1;
