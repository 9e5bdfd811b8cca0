//! The report for a person at a terminal.
//!
//! Always true: no control character of a name or an answer reaches the terminal. What was not found is told, with what would be needed.
//! Not here: the report for programs (`formats`) and for browsers (`page`).

use super::attribution::Attribution;
use super::course::Report;
use super::growth::{Growth, Headroom};
use super::knee::{kneedle, power_knee};
use super::measure::Measurement;
use super::outlook;
use super::plan::Plan;
use super::scaling::{Scaling, idle_cost};
use super::search::{End, Search};
use super::slo::{Slo, milliseconds};
use super::step::Phase;
use super::writing::Writing;
use crate::facts::Observed;
use crate::table::{Table, count, short};

/// The report.
pub(crate) fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    if let Some(measured) = &report.measurement {
        lines.extend(measurement(measured));
    }
    if let Some((headroom, growth)) = &report.headroom {
        lines.push(String::new());
        lines.extend(room(headroom, growth.as_ref()));
    }
    if let Some((history, outlooks)) = &report.outlook {
        lines.push(String::new());
        lines.extend(outlook::lines(history, outlooks));
    }
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(0);
    lines[first..].iter().fold(String::new(), |page, line| page + &clean(line) + "\n")
}

fn measurement(measured: &Measurement) -> Vec<String> {
    let mut lines = vec![
        format!("capacity of {}: {}; objective {}", measured.target, measured.workload, measured.slo),
        format!(
            "open loop, arrivals at random, times from the intended arrival; at most {} client connections; seed {}; {:.0} s",
            measured.clients, measured.seed, measured.seconds
        ),
    ];
    if let Some(generator) = &measured.generator {
        lines.push(format!(
            "the generator alone: {} requests/s, {} us of a processor for each",
            count(generator.rate),
            short(generator.cpu)
        ));
    }
    lines.push(String::new());
    lines.extend(closed(measured));
    if let Some(search) = &measured.search {
        lines.push(String::new());
        lines.extend(steps(measured, search));
        lines.push(String::new());
        lines.extend(verdict(measured, search));
    }
    lines.push(String::new());
    lines.extend(limit(measured));
    if let Some(scaling) = &measured.scaling {
        lines.push(String::new());
        lines.extend(scaled(scaling));
    }
    if !measured.idle.is_empty() {
        lines.push(String::new());
        lines.extend(idle(&measured.idle));
    }
    if let Some(attribution) = &measured.attribution {
        lines.push(String::new());
        lines.extend(attributed(attribution));
    }
    lines.extend(measured.notes.iter().map(|note| format!("note: {note}")));
    lines
}

fn closed(measured: &Measurement) -> Vec<String> {
    let mut table = Table::new(&[("closed loop", &["clients", "answers/s", "response, ms", "with a server, ms"])]);
    for closed in &measured.probes {
        table.row(vec![
            closed.clients.to_string(),
            short(closed.throughput),
            short(closed.response * 1e3),
            closed.service.map_or_else(|| "-".to_owned(), |service| short(service * 1e3)),
        ]);
    }
    let mut lines = table.lines();
    if let Some(bound) = measured.bound {
        lines.push(format!(
            "the bound is {} requests/s; each is served for {}, so about {} are served at once",
            short(bound.rate),
            milliseconds(bound.service),
            bound.servers()
        ));
    }
    lines
}

fn steps(measured: &Measurement, search: &Search) -> Vec<String> {
    let heads = ["offered/s", "answered/s", "p50", "p95", "p99", "p99.9", "mean", "+-", "wait", "failed"];
    let mut table = Table::new(&[("", &["step"]), ("requests, ms", &heads), ("", &["verdict"])]).with_words(1);
    for (step, verdict) in search.steps() {
        let ms = |percentile: f64| short(step.at(percentile) * 1e3);
        let error = measured.bound.map(|bound| Plan::error_of(&bound, step.offered, step.seconds));
        table.row(vec![
            step.phase.word().to_owned(),
            verdict.word().to_owned(),
            short(step.offered),
            short(step.achieved),
            ms(50.0),
            ms(95.0),
            ms(99.0),
            ms(99.9),
            short(step.mean() * 1e3),
            error.map_or_else(|| "-".to_owned(), |error| format!("{:.0} %", (error * 100.0).min(999.0))),
            step.wait().map_or_else(|| "-".to_owned(), |wait| format!("{:.0} %", wait / step.mean() * 100.0)),
            count(step.failed as f64),
        ]);
    }
    let mut lines = table.lines();
    let reasons = search.steps().iter().filter(|(_, verdict)| !verdict.reason().is_empty());
    lines.extend(
        reasons.map(|(step, verdict)| format!("{} at {}/s: {}", verdict.word(), short(step.offered), verdict.reason())),
    );
    lines.push(
        "+- is the relative standard error that the mean wait of a step of this length has; wait is the part of the mean that is not \
         with a server"
            .to_owned(),
    );
    lines
}

fn verdict(measured: &Measurement, search: &Search) -> Vec<String> {
    let mut lines = Vec::new();
    match (&measured.knee, search.end()) {
        (Some(knee), end) => {
            let early = if end == Some(&End::Found) { "" } else { "; not confirmed, because it was ended early" };
            lines.push(format!(
                "knee: {} requests/s keep {} ({} to {}, {} steps{early})",
                short(knee.rate.value),
                measured.slo,
                short(knee.rate.low),
                short(knee.rate.high),
                knee.steps
            ));
        }
        (None, end) => lines.push(format!("no knee: {}", without(end, search))),
    }
    let curve = curve(search, &measured.slo);
    if let (Some(kneedle), Some(power)) = (kneedle(&curve), power_knee(&curve)) {
        lines.push(format!(
            "  to compare, never the answer: Kneedle {}, largest throughput over response {}{}",
            short(kneedle),
            short(power),
            measured.bound.map_or(String::new(), |bound| format!(
                ", M/M/{} in theory {}",
                bound.servers(),
                short(bound.knee_in_theory(&measured.slo))
            ))
        ));
    }
    lines.extend(recovery(search, &measured.slo));
    lines
}

fn without(end: Option<&End>, search: &Search) -> String {
    let most = search.levels().iter().rev().find(|level| level.is_carried()).map(|level| level.rate);
    let at_least = most.map_or(String::new(), |rate| format!("; {} requests/s were carried", short(rate)));
    match end {
        Some(End::NoneBroken) => format!("every load kept the objective{at_least}"),
        Some(End::NoneKept) => "no load kept the objective".to_owned(),
        Some(End::Void(why)) => format!("the run is void: {why}{at_least}"),
        Some(End::Found | End::Early) | None => format!("it was ended early{at_least}"),
    }
}

/// The time of recovery is a result by itself.
fn recovery(search: &Search, slo: &Slo) -> Vec<String> {
    let of = |phase: Phase| search.steps().iter().map(|(step, _)| step).find(|step| step.phase == phase);
    let mut lines = Vec::new();
    if let Some(step) = of(Phase::Recovery) {
        let said = match step.recovered_after(slo.percentile) {
            Some(seconds) => format!("p{} was within the objective again after {seconds:.0} s", slo.percentile),
            None => format!("p{} was not within the objective again in {:.0} s", slo.percentile, step.seconds),
        };
        lines.push(format!("after an overload, at {} requests/s: {said}", short(step.offered)));
    }
    if let Some(step) = of(Phase::Descent) {
        let up = search
            .steps()
            .iter()
            .map(|(step, _)| step)
            .filter(|other| other.phase == Phase::Climb && other.void.is_none());
        let near = up.min_by(|a, b| (a.offered - step.offered).abs().total_cmp(&(b.offered - step.offered).abs()));
        if let Some(near) = near {
            lines.push(format!(
                "on the way down, at {} requests/s: p{} is {}; on the way up it was {} at {}",
                short(step.offered),
                slo.percentile,
                milliseconds(step.at(slo.percentile)),
                milliseconds(near.at(slo.percentile)),
                short(near.offered)
            ));
        }
    }
    lines
}

/// Loads on the way up, and the percentile of the objective in seconds, in ascending order.
pub(crate) fn curve(search: &Search, slo: &Slo) -> Vec<(f64, f64)> {
    let steps = search.steps().iter().filter(|(step, _)| {
        step.void.is_none() && !matches!(step.phase, Phase::Recovery | Phase::Descent) && step.requests() > 0
    });
    let mut curve: Vec<(f64, f64)> = steps.map(|(step, _)| (step.offered, step.at(slo.percentile))).collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    curve.dedup_by(|a, b| (a.0 - b.0).abs() < 1e-9 * b.0);
    curve
}

fn limit(measured: &Measurement) -> Vec<String> {
    let limit = measured.evidence.limit();
    let most = measured.probes.last().map_or(0, |closed| closed.clients);
    let mut lines = vec![format!("what limits, with {most} clients that never rest: {}", limit.word())];
    for look in measured.evidence.looks() {
        let mark = if look.is_it == Some(true) && look.limit == limit { "->" } else { "  " };
        lines.push(format!("{mark} {:<18} {}", look.limit.word(), look.seen));
    }
    lines
}

fn scaled(scaling: &Scaling) -> Vec<String> {
    let mut table = Table::new(&[("scaling", &["clients", "answers/s", "law"])]);
    for closed in &scaling.points {
        let law =
            scaling.fit.as_ref().map_or_else(|_| "-".to_owned(), |fit| short(fit.usl.at(f64::from(closed.clients))));
        table.row(vec![closed.clients.to_string(), short(closed.throughput), law]);
    }
    let mut lines = table.lines();
    match &scaling.fit {
        Ok(fit) => {
            let coefficient = |name: &str, one: &crate::theory::usl::Coefficient| match one.is_bound {
                true => format!("{name} 0 (the points would have it below)"),
                false => {
                    format!("{name} {:.4} ({:.4} to {:.4})", one.estimate.value, one.estimate.low, one.estimate.high)
                }
            };
            lines.push(format!(
                "Universal Scalability Law: {}, {}, {}",
                coefficient("contention", &fit.alpha),
                coefficient("coherence", &fit.beta),
                coefficient("one alone", &fit.gamma)
            ));
        }
        Err(why) => lines.push(format!("no law: {why}")),
    }
    lines.push(match &scaling.peak {
        Ok(peak) => format!("highest with {} clients ({} to {})", short(peak.value), short(peak.low), short(peak.high)),
        Err(why) => format!("where throughput is highest is not claimed: {why}"),
    });
    lines.extend(scaling.predictions.iter().map(|(n, told)| match told {
        Ok(x) => format!("{n} clients: {} answers/s by the law", short(*x)),
        Err(why) => format!("{n} clients: {why}"),
    }));
    lines
}

fn idle(points: &[(u32, f64)]) -> Vec<String> {
    let mut table = Table::new(&[("beside idle connections", &["idle", "answers/s"])]);
    points.iter().for_each(|(idle, rate)| table.row(vec![count(f64::from(*idle)), short(*rate)]));
    let mut lines = table.lines();
    let pairs: Vec<(f64, f64)> = points.iter().map(|(idle, rate)| (f64::from(*idle), *rate)).collect();
    lines.push(match idle_cost(&pairs) {
        Some(cost) if cost.has(0.0) => "what they cost is less than the error of these measurements".to_owned(),
        Some(cost) => format!(
            "a thousand of them take {:.1} % of throughput ({:.1} to {:.1})",
            cost.value * 100.0,
            cost.low * 100.0,
            cost.high * 100.0
        ),
        None => "what they cost is not told: at least three different numbers are needed".to_owned(),
    });
    lines
}

fn attributed(attribution: &Attribution) -> Vec<String> {
    let mut lines = Vec::new();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    match &attribution.tables {
        Ok(shares) if shares.is_empty() => lines.push("shares of tables: no table was touched".to_owned()),
        Ok(shares) => {
            let heads = ["blocks", "rows read", "rows written", "time (estimate)"];
            let mut table = Table::new(&[("", &["table"]), ("shares", &heads)]).with_words(1);
            for share in shares.iter().take(TABLES_SHOWN) {
                table.row(vec![
                    share.table.clone(),
                    percent(share.blocks),
                    percent(share.rows),
                    percent(share.writes),
                    share.time.map_or_else(|| "-".to_owned(), percent),
                ]);
            }
            lines.extend(table.lines());
        }
        Err(why) => lines.push(format!("shares of tables: not evaluated: needs {why}")),
    }
    lines.push(match &attribution.untold {
        Ok(untold) => format!(
            "of {} of statements, {} are of unknown tables and {} of none; they wrote {} MB of the log",
            milliseconds(untold.milliseconds / 1e3),
            percent(untold.unknown),
            percent(untold.without),
            short(untold.wal_bytes / 1e6)
        ),
        Err(why) => format!("shares of time: not evaluated: needs {why}"),
    });
    lines.push(written(&attribution.writing));
    lines.extend(hot(&attribution.hot));
    lines
}

fn written(writing: &Observed<Writing>) -> String {
    let writing = match writing {
        Ok(writing) => writing,
        Err(why) => return format!("what was written: not evaluated: needs {why}"),
    };
    let a_second = |amount: f64| short(writing.rate(amount));
    let dirtied = match &writing.dirtied {
        Ok(pages) => format!("{} pages a second became dirty", a_second(*pages)),
        Err(why) => format!("how many pages became dirty is not known (needs {why})"),
    };
    let by = match writing.checkpoint_share() {
        Some(share) => format!(
            "{} a second were written to the disk, {:.0} % of them by checkpoints ({} by time, {} asked for)",
            a_second(writing.pages()),
            share * 100.0,
            count(writing.grown.timed),
            count(writing.grown.requested)
        ),
        None => "none was written to the disk".to_owned(),
    };
    format!("the server wrote {} MB of the log a second; {dirtied}; {by}", short(writing.rate(writing.grown.log) / 1e6))
}

fn hot(hot: &Observed<Vec<super::attribution::HotTable>>) -> Vec<String> {
    match hot {
        Ok(relations) => {
            let heads = ["buffers", "used often", "of those dirty"];
            let mut table = Table::new(&[("", &["buffers hold"]), ("", &heads)]).with_words(1);
            for one in relations.iter().take(TABLES_SHOWN) {
                let dirty = if one.hot > 0.0 { one.dirty / one.hot } else { 0.0 };
                table.row(vec![
                    one.name.clone(),
                    count(one.buffers),
                    count(one.hot),
                    format!("{:.0} %", dirty * 100.0),
                ]);
            }
            table.lines()
        }
        Err(why) if why == "--hot-set" => Vec::new(),
        Err(why) => vec![format!("hot set: not evaluated: needs {why}")],
    }
}

fn room(headroom: &Headroom, growth: Option<&Growth>) -> Vec<String> {
    let mut lines = vec![format!(
        "headroom: {:.0} % ({} of {} are used)",
        headroom.share() * 100.0,
        short(headroom.now),
        short(headroom.limit)
    )];
    if let Some(growth) = growth {
        let said = match headroom.periods(growth.part) {
            Some(periods) => format!(
                "ln({} / {}) / ln(1 + {}) = {} {}s, {:.0} days",
                short(headroom.limit),
                short(headroom.now),
                growth.part,
                short(periods),
                growth.period,
                periods * growth.days
            ),
            None => "for ever, as it does not grow".to_owned(),
        };
        lines.push(format!("it lasts {said}"));
    }
    lines
}

fn clean(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

const TABLES_SHOWN: usize = 20;
