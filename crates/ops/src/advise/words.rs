//! Advice for a terminal.
//!
//! Always true: a decision is shown with all its candidates, the binding one marked; nothing that a file says can drive the terminal.
//! Not here: other formats (`formats`).

use super::Advice;
use super::candidates::{Candidate, Decision, Side, Unit, Verdict};
use super::plan::Plan;
use super::rehearsal::ApplyCheck;
use crate::table::{Table, count, short};

/// The report.
pub(crate) fn text(advice: &Advice) -> String {
    let mut page = String::new();
    let mut say = |text: &str| page.push_str(&format!("{}\n", clean(text)));
    say(&advice.title());
    advice.notes.iter().for_each(|note| say(&format!("  {note}")));
    advice.present.iter().for_each(|line| say(&format!("  now: {line}")));
    let shown = advice.shown_pools();
    let left = advice.sizes.pools.len() - shown.len();
    for decision in shown {
        told(&mut say, decision);
    }
    if left > 0 {
        say(&format!("\n... and {left} smaller pools, which --format json has"));
    }
    let sizes = &advice.sizes;
    let is_single = sizes.pools.len() < 2;
    let databases = sizes.databases.iter().take(if is_single { 0 } else { DATABASES_SHOWN });
    let rest = databases.chain([&sizes.at_work, &sizes.total]).chain(&advice.others);
    rest.for_each(|decision| told(&mut say, decision));
    say("\nto be set:");
    plan(&mut say, &advice.plan());
    if let Some(check) = &advice.check {
        checked(&mut say, check);
    }
    say("");
    say(&format!("verdict: {}", advice.verdict()));
    page
}

fn told(say: &mut dyn FnMut(&str), decision: &Decision) {
    let value = match &decision.verdict {
        Verdict::Chosen { value, .. } => number(*value, decision.unit),
        Verdict::NoSizeWorks { .. } => "no size works".to_owned(),
        Verdict::NotConcluded { .. } => "not concluded".to_owned(),
    };
    say(&format!("\n{} of {}: {value}", decision.setting, decision.subject));
    let binding = match &decision.verdict {
        Verdict::Chosen { binding, .. } => vec![*binding],
        Verdict::NoSizeWorks { floor_by, ceiling_by, .. } => vec![*floor_by, *ceiling_by],
        Verdict::NotConcluded { .. } => Vec::new(),
    };
    for candidate in &decision.candidates {
        say(&line(candidate, decision.unit, binding.contains(&candidate.name)));
    }
    match &decision.verdict {
        Verdict::NoSizeWorks { floor, floor_by, ceiling, ceiling_by, least_bad, remedies } => {
            let (floor, ceiling) = (number(*floor, decision.unit), number(*ceiling, decision.unit));
            say(&format!(
                "  no size works: {floor} are needed ({floor_by}), and more than {ceiling} do harm ({ceiling_by}). This is a capacity problem."
            ));
            for (place, remedy) in remedies.iter().enumerate() {
                let most = if place == 0 { ", which moves it most" } else { "" };
                let enough = remedy.enough.as_ref().map_or(String::new(), |enough| format!("; enough: {enough}"));
                say(&format!(
                    "    {}: {} closes {} % of the distance{most}{enough}",
                    remedy.what,
                    remedy.step,
                    count(remedy.closes * 100.0)
                ));
            }
            say(&format!("  until then: {}, the most that does no harm", number(*least_bad, decision.unit)));
        }
        Verdict::NotConcluded { needs } if !needs.is_empty() => say(&format!("  needed: {needs}")),
        _ => {}
    }
}

fn plan(say: &mut dyn FnMut(&str), plan: &Plan) {
    let value = |value: Option<u32>| value.map_or_else(|| "not concluded".to_owned(), |value| value.to_string());
    for (database, own) in plan.databases.iter().take(DATABASES_SHOWN) {
        let (size, most) = (value(own.pool_size), value(own.max_db_connections));
        say(&format!("  database {database}: pool_size = {size}, max_db_connections = {most}"));
    }
    if plan.databases.len() > DATABASES_SHOWN {
        say(&format!("  ... and {} databases more", plan.databases.len() - DATABASES_SHOWN));
    }
    plan.settings.iter().for_each(|(name, value)| say(&format!("  {name} = {value}")));
}

fn checked(say: &mut dyn FnMut(&str), check: &ApplyCheck) {
    say(&format!(
        "\nsizes around the recommended ones, each in {} runs with other seeds on the virtual clock (p99 are those of the middle run):",
        check.runs
    ));
    let heads = ["servers", "times", "transactions/s", "within SLO/s", "p99 wait, ms", "p99 response, ms"];
    let mut table = Table::new(&[("", &heads)]);
    for tried in &check.tried {
        let performance = &tried.performance;
        let ms = |seconds: f64| short(seconds * 1e3);
        table.row(vec![
            tried.servers.to_string(),
            format!("{:.2}", tried.factor),
            short(performance.throughput),
            short(performance.good),
            ms(performance.wait_p99),
            ms(performance.response_p99),
        ]);
    }
    table.lines().iter().for_each(|line| say(&format!("  {line}")));
    let judged = match check.interval {
        _ if check.regret > REGRET_MAX => "more than 5 %: do not take it as it is",
        Some(interval) if interval.high > REGRET_MAX => {
            "good enough in the mean, but more than 5 % is possible: simulate for longer"
        }
        _ => "good enough",
    };
    let interval = check.interval.map_or(String::new(), |interval| {
        format!(" (95 %: {:.1} to {:.1} %)", interval.low * 100.0, interval.high * 100.0)
    });
    say(&format!("  regret = (best - chosen) / best = {:.1} %{interval}, {judged}", check.regret * 100.0));
}

fn line(candidate: &Candidate, unit: Unit, is_binding: bool) -> String {
    let side = match (candidate.side, candidate.is_counted) {
        (Side::Floor, true) => "floor",
        (Side::Ceiling, true) => "ceiling",
        _ => "compare",
    };
    let value = candidate.value.map_or_else(|| "-".to_owned(), |value| number(value, unit));
    let mark = if is_binding { "  <- binds" } else { "" };
    let from = if candidate.measured.is_empty() { String::new() } else { format!("; {}", candidate.measured) };
    format!("  {side:<8}{value:>8}  {:<27} {}{from}{mark}", candidate.name, candidate.formula)
}

/// A value with its unit.
pub(crate) fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Connections if value.fract() == 0.0 => count(value),
        Unit::Connections => short(value),
        Unit::Seconds => format!("{} s", short(value)),
    }
}

/// Without what could drive a terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// What may be lost by not having the best size.
pub(crate) const REGRET_MAX: f64 = 0.05;
const DATABASES_SHOWN: usize = 20;
