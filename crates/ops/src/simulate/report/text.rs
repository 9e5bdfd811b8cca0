//! The report for a terminal.
//!
//! Always true: it names the way in which load was made, and the seed, so that it can be made again.
//! Not here: tables (`crate::table`).

use super::super::course::Study;
use super::super::engine::{CLOSED, GroupOutcome, OPENED, Outcome, Refused, TenantOutcome, seconds_at};
use super::super::experiment::{Figures, Point};
use super::super::spec::{Arrivals, Spec};
use super::{Chapter, Part, Report};
use crate::table::{Table, count, short};
use crate::theory::staffing::staffing;

pub(super) fn of(report: &Report) -> String {
    let mut lines: Vec<String> = Vec::new();
    let is_story = report.chapters.len() > 1;
    if is_story {
        lines.extend([report.title.clone(), "=".repeat(report.title.chars().count()), String::new()]);
    }
    for chapter in &report.chapters {
        chapter_lines(chapter, is_story, &mut lines);
        lines.push(String::new());
    }
    lines.push(books(report));
    lines.join("\n") + "\n"
}

/// A chapter without its title.
pub(super) fn of_chapter(chapter: &Chapter) -> String {
    let mut lines = Vec::new();
    chapter_lines(chapter, false, &mut lines);
    lines.join("\n")
}

fn chapter_lines(chapter: &Chapter, is_story: bool, lines: &mut Vec<String>) {
    if is_story {
        lines.extend([chapter.title.clone(), "-".repeat(chapter.title.chars().count())]);
    }
    lines.extend(chapter.words.iter().cloned());
    match &chapter.part {
        Part::Study(study) => study_lines(study, lines),
        Part::Comparison(studies) => lines.extend(comparison(studies).lines()),
        Part::Table { heads, rows } => {
            let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
            let mut table = Table::new(&[("", &heads)]);
            rows.iter().for_each(|row| table.row(row.clone()));
            lines.extend(table.lines());
        }
    }
}

fn study_lines(study: &Study, lines: &mut Vec<String>) {
    lines.push(head(&study.spec));
    match &study.points[..] {
        [] => lines.push("Ended before anything was known.".to_owned()),
        [only] if study.paths.is_empty() => single(study, only, lines),
        points => swept(study, points, lines),
    }
    if study.left_out > 0 {
        lines.push(format!("Ended early: {} settings were not simulated.", study.left_out));
    }
}

/// How it was made, so that it can be made again.
fn head(spec: &Spec) -> String {
    let groups = || spec.databases.iter().flat_map(|database| &database.groups);
    let has = |is: fn(&Arrivals) -> bool| groups().any(|group| is(&group.arrivals));
    let is_closed = |arrivals: &Arrivals| matches!(arrivals, Arrivals::Closed { .. });
    let load = match (has(is_closed), groups().any(|group| !is_closed(&group.arrivals))) {
        (true, false) => "closed loop",
        (true, true) => "open and closed loops",
        _ => "open loop",
    };
    let replications = match spec.replications {
        1 => format!("seed {}", spec.seed),
        many => format!("{many} runs, seeds from {}", spec.seed),
    };
    format!(
        "{}: {} tenants in {} databases, {load}, {} s of which the first {} s are not counted, {replications}.",
        spec.title,
        count(f64::from(spec.tenants())),
        spec.databases.len(),
        short(spec.duration as f64 / 1e6),
        short(spec.warm_up as f64 / 1e6),
    )
}

fn single(study: &Study, point: &Point, lines: &mut Vec<String>) {
    let outcome = &point.total;
    lines.push(String::new());
    lines.extend(groups(outcome).lines());
    lines.push(String::new());
    lines.extend(facts(study, point));
    if let Some(table) = tenants(outcome) {
        lines.push(String::new());
        lines.extend(table.lines());
    }
    lines.extend(warnings(outcome));
}

/// A row for each group of tenants, and one for all.
fn groups(outcome: &Outcome) -> Table {
    let mut table = Table::new(&[
        ("", &["database", "tenants", "number"]),
        ("a second", &["arrived", "done"]),
        ("", &["refused"]),
        ("wait in the pooler, ms", &["p50", "p95", "p99", "p99.9"]),
        ("response, ms", &["p50", "p99"]),
        ("servers, a minute", &["opened", "closed"]),
    ])
    .with_words(2);
    let mut row = |database: &str, name: &str, of: &GroupOutcome| {
        let (counts, servers) = (&of.counts, &of.servers);
        let refused = counts.refusals() + counts.failed;
        let share = refused as f64 / counts.arrived.max(1) as f64;
        let millis = |times, percentile| short(seconds_at(times, percentile) * 1e3);
        let minutes = outcome.seconds / 60.0;
        table.row(vec![
            database.to_owned(),
            name.to_owned(),
            of.tenants.to_string(),
            short(counts.arrived as f64 / outcome.seconds),
            short(counts.done as f64 / outcome.seconds),
            percent(share),
            millis(&of.waits, 50.0),
            millis(&of.waits, 95.0),
            millis(&of.waits, 99.0),
            millis(&of.waits, 99.9),
            millis(&of.responses, 50.0),
            millis(&of.responses, 99.0),
            short(servers.opened as f64 / minutes),
            short(servers.closings() as f64 / minutes),
        ]);
    };
    for group in outcome.groups.iter().take(GROUPS_MAX) {
        row(&group.database, &group.group, group);
    }
    if outcome.groups.len() > 1 {
        let all = GroupOutcome {
            database: String::new(),
            group: String::new(),
            tenants: outcome.tenants,
            counts: outcome.counts,
            servers: outcome.servers,
            waits: outcome.waits.clone(),
            responses: outcome.responses.clone(),
        };
        row("all", "", &all);
    }
    table
}

fn facts(study: &Study, point: &Point) -> Vec<String> {
    let outcome = &point.total;
    let mut lines = Vec::new();
    let by = |pairs: Vec<(&str, u64)>| {
        let named: Vec<String> = pairs
            .into_iter()
            .filter(|(_, number)| *number > 0)
            .map(|(name, number)| format!("{name} {}", count(number as f64)))
            .collect();
        if named.is_empty() { "none".to_owned() } else { named.join(", ") }
    };
    let servers = &outcome.servers;
    let opened = OPENED.iter().zip(servers.dialed).map(|((_, name), number)| (*name, number)).collect();
    let closed = CLOSED.iter().copied().zip(servers.closed).collect();
    lines.push(format!("Servers dialed, by reason: {}.", by(opened)));
    lines.push(format!("Servers closed, by reason: {}.", by(closed)));
    if outcome.counts.refusals() + outcome.counts.failed > 0 {
        let mut refused: Vec<(&str, u64)> =
            Refused::ALL.iter().zip(outcome.counts.refused).map(|((_, name), number)| (*name, number)).collect();
        refused.push(("broken off by the server", outcome.counts.failed));
        lines.push(format!("Transactions refused: {}.", by(refused)));
    }
    let interval = point.interval(|figures| figures.disconnections);
    let plus = interval.map_or_else(String::new, |e| format!(" ({} to {})", short(e.low.max(0.0)), short(e.high)));
    lines.push(format!(
        "Disconnections for each tenant and minute: {}{plus}; without those for age: {}.",
        short(outcome.disconnections()),
        short(outcome.churn())
    ));
    let mean = &outcome.mean;
    lines.push(format!(
        "In the mean {} servers were open and {} of them lent ({}), {} clients waited, {} transactions were under way; at most {} servers.",
        short(mean.open),
        short(mean.lent),
        percent(mean.lent / mean.open.max(1e-9)),
        short(mean.waiting),
        short(mean.in_system),
        outcome.servers_peak,
    ));
    let wait = point.interval(|figures| figures.wait_mean).or(outcome.wait_mean);
    let plus = wait
        .map_or_else(String::new, |e| format!(" (95 %: {} to {})", short(e.low.max(0.0) * 1e3), short(e.high * 1e3)));
    lines.push(format!("The mean wait in the pooler was {} ms{plus}.", short(outcome.wait_average() * 1e3)));
    lines.push(format!(
        "The server used {} processor seconds for 1,000 transactions; tenants were served evenly to {} (Jain's index).",
        short(outcome.cpu_per_thousand()),
        percent(outcome.fairness()),
    ));
    let staff = staffing(&outcome.loads(), 0.01);
    lines.push(format!(
        "By Poisson's law, so many servers suffice for 99 % of the time: {} with a role for each tenant, {} if all tenants shared a login.",
        count(staff.apart as f64),
        count(staff.shared as f64)
    ));
    let warm_up = study.spec.warm_up as f64 / 1e6 * point.runs.len() as f64;
    let transactions = outcome.counts.done as f64 * (outcome.seconds + warm_up) / outcome.seconds;
    if study.real.is_empty() {
        lines.push(format!(
            "Simulated in {:.2} s: about {} transactions a second.",
            study.took.as_secs_f64(),
            count(transactions / study.took.as_secs_f64().max(1e-6))
        ));
    }
    lines
}

/// The tenants whose servers were closed most often, if there are several.
fn tenants(outcome: &Outcome) -> Option<Table> {
    let mut list: Vec<_> = outcome.by_tenant.iter().filter(|tenant| tenant.servers.is_some()).collect();
    if list.len() < 2 {
        return None;
    }
    let closed = |tenant: &&TenantOutcome| tenant.servers.map_or(0, |servers| servers.closings());
    list.sort_by_key(|tenant| (std::cmp::Reverse(closed(tenant)), tenant.group, tenant.number));
    let mut table = Table::new(&[
        ("most often disconnected", &["database", "tenant"]),
        ("", &["done/s", "refused", "wait, ms", "p99", "opened", "closed", "evicted", "idle", "age"]),
    ])
    .with_words(2);
    for tenant in list.into_iter().take(TENANTS_SHOWN) {
        let Some(servers) = tenant.servers else { continue };
        let group = &outcome.groups[tenant.group as usize];
        let counts = &tenant.counts;
        table.row(vec![
            group.database.clone(),
            format!("{}-{}", group.group, tenant.number),
            short(counts.done as f64 / outcome.seconds),
            (counts.refusals() + counts.failed).to_string(),
            short(counts.waited as f64 / 1e3 / counts.attached.max(1) as f64),
            tenant.waits.as_ref().map_or_else(String::new, |waits| short(seconds_at(waits, 99.0) * 1e3)),
            servers.opened.to_string(),
            servers.closings().to_string(),
            (servers.closed[0] + servers.closed[1]).to_string(),
            servers.closed[2].to_string(),
            servers.closed[3].to_string(),
        ]);
    }
    Some(table)
}

fn warnings(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    if outcome.is_unsteady {
        lines.push(
            "NOT STEADY: waits were still changing in the second half. These numbers are of a passage, not of a state; simulate longer."
                .to_owned(),
        );
    }
    if !outcome.is_complete {
        lines.push("ENDED EARLY: these numbers are of a shorter time.".to_owned());
    }
    lines
}

/// A row for each setting of a sweep, and the knee.
fn swept(study: &Study, points: &[Point], lines: &mut Vec<String>) {
    lines.push(String::new());
    let heads: Vec<&str> = study.paths.iter().map(String::as_str).collect();
    let mut table = Table::new(&[
        ("", &heads),
        ("", &["done/s", "refused"]),
        ("wait, ms", &["mean", "p99"]),
        ("", &["response p99, ms"]),
        ("for each tenant and minute", &["disconnected", "95 %"]),
        ("", &["CPU s/1000", "servers"]),
    ])
    .with_words(study.paths.len());
    let shown = points.len().min(SETTINGS_SHOWN);
    for point in &points[..shown] {
        let mut cells = point.values.clone();
        let disconnected = point.interval(|figures| figures.disconnections);
        cells.extend([
            short(point.mean(|f| f.throughput)),
            percent(point.mean(|f| f.refused_share)),
            short(point.mean(|f| f.wait_mean) * 1e3),
            short(point.total.wait(99.0) * 1e3),
            short(point.total.response(99.0) * 1e3),
            short(point.mean(|f| f.disconnections)),
            disconnected.map_or_else(String::new, |e| format!("{}-{}", short(e.low.max(0.0)), short(e.high))),
            short(point.mean(|f: &Figures| f.cpu_per_thousand)),
            short(point.mean(|f| f.servers_open)),
        ]);
        table.row(cells);
    }
    lines.extend(table.lines());
    if shown < points.len() {
        lines.push(format!("... and {} more settings (--format json has all of them)", points.len() - shown));
    }
    lines.push(String::new());
    lines.extend(knee_lines(study));
    lines.push(format!("It took {:.1} s.", study.took.as_secs_f64()));
}

/// What the sweep says about the smallest value that is good enough.
fn knee_lines(study: &Study) -> Vec<String> {
    let rule = &study.spec.knee;
    let [path] = &study.paths[..] else { return Vec::new() };
    let response = rule
        .p99_max
        .map_or_else(String::new, |most| format!(", p99 of responses at most {} ms", short(most as f64 / 1e3)));
    let asked = format!(
        "at most {} disconnections for each tenant and minute other than for age, processor time within {} of the last setting's{response}",
        short(rule.churn_max),
        percent(rule.cpu_within),
    );
    match &study.knee {
        Some(knee) => vec![format!(
            "The knee: {path} = {} (95 %: {} to {}) is the smallest value from which on all is well: {asked}.",
            short(knee.at),
            short(knee.low),
            short(knee.high),
        )],
        None if !study.is_complete() => vec!["No knee is told, because it was ended early.".to_owned()],
        None if study.points.iter().any(|point| point.x.is_none()) => Vec::new(),
        None => vec![format!("No knee: not even the last setting is well. Asked for: {asked}.")],
    }
}

/// Specs side by side.
fn comparison(studies: &[Study]) -> Table {
    let mut table = Table::new(&[
        ("", &["spec"]),
        ("", &["done/s", "refused"]),
        ("wait, ms", &["mean", "p99"]),
        ("closed for each tenant and minute", &["all", "evicted", "for minima", "idle", "age"]),
        ("", &["CPU s/1000", "servers"]),
    ]);
    for study in studies {
        let Some(point) = study.points.first() else { continue };
        let outcome = &point.total;
        let each = |place: usize| {
            short(outcome.servers.closed[place] as f64 / f64::from(outcome.tenants.max(1)) / outcome.seconds * 60.0)
        };
        table.row(vec![
            study.spec.title.clone(),
            short(outcome.throughput()),
            percent(outcome.refused_share()),
            short(outcome.wait_average() * 1e3),
            short(outcome.wait(99.0) * 1e3),
            short(outcome.disconnections()),
            each(0),
            each(1),
            each(2),
            each(3),
            short(outcome.cpu_per_thousand()),
            short(outcome.mean.open),
        ]);
    }
    table
}

/// Whether all books balance, and which do not.
pub(super) fn books(report: &Report) -> String {
    let outcomes: Vec<&Outcome> = report.studies().flat_map(|study| &study.points).map(|point| &point.total).collect();
    let looked_at: usize = outcomes.iter().map(|outcome| outcome.balances.len()).sum();
    let wrong: Vec<String> = outcomes
        .iter()
        .flat_map(|outcome| outcome.balances.iter().filter(|balance| !balance.holds()).chain([]))
        .map(|balance| format!("  {}: {} and {}", balance.what, balance.left, balance.right))
        .chain(outcomes.iter().flat_map(|outcome| outcome.broken.iter().map(|what| format!("  {what}"))))
        .take(20)
        .collect();
    if wrong.is_empty() {
        return format!("All {} books balance.", count(looked_at as f64));
    }
    format!(
        "BOOKS DO NOT BALANCE, so these numbers are wrong, or the pooler or the server is; please report it:\n{}",
        wrong.join("\n")
    )
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        p if p.abs() < 0.01 => format!("{p:.4} %"),
        p if p.abs() < 10.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

const GROUPS_MAX: usize = 40;
const TENANTS_SHOWN: usize = 10;
const SETTINGS_SHOWN: usize = 200;
