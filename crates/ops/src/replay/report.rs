//! What a replay has shown, as text and JSON.
//!
//! Always true: what was left out, what failed and why a run is void stand in the report; values of statements do not.
//! Not here: the figures (`player`, `comparison`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, stderr};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::comparison::Comparison;
use super::options::ReplayOptions;
use super::player::{Answer, Run};
use super::script::Script;
use crate::load::{Fitness, Tally, reasons_against};
use crate::record::{Recording, Values};
use crate::table::Table;

/// The report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Grows when a field changes its meaning or goes.
    schema: u32,
    recording: String,
    database: String,
    speed: f64,
    seed: u64,
    allows_writes: bool,
    draws_values: bool,
    sessions: usize,
    requests: usize,
    left_out: BTreeMap<&'static str, u64>,
    targets: Vec<Played>,
    comparison: Option<Comparison>,
    /// The texts of statements that are named in the comparison.
    statements: BTreeMap<usize, String>,
    is_cut: bool,
}

/// What was seen of one target, in all of its runs.
#[derive(Debug, Serialize)]
pub(super) struct Played {
    address: String,
    runs: usize,
    done: u64,
    errors: BTreeMap<String, u64>,
    timed_out: u64,
    logins: u64,
    failed_logins: u64,
    login_refusal: Option<String>,
    requests_per_second: f64,
    /// In microseconds, from when a request was to be sent.
    p50: u64,
    p95: u64,
    p99: u64,
    max: u64,
    /// Of that, the wait for the session's request before.
    wait_p99: u64,
    /// Why the figures are worth nothing.
    void: Vec<String>,
    is_cut: bool,
}

impl Played {
    pub(super) fn new(address: String, runs: &[&Run]) -> Self {
        let mut tally = Tally::new(u64::MAX);
        let mut errors = BTreeMap::new();
        for run in runs {
            tally.merge(&run.tally);
            for outcome in run.outcomes.iter().flatten() {
                if let Answer::Refused(code) = &outcome.answer {
                    *errors.entry(code.clone()).or_default() += 1;
                }
            }
        }
        let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
        let offered = tally.offered().max(1) as f64;
        let fitness = Fitness {
            lag_p99: tally.lag.histogram().value_at_quantile(0.99),
            reported_p50: tally.percentile(50.0).micros,
            cpu_share: runs.iter().map(|run| run.cpu_seconds / run.seconds.max(1e-9)).fold(0.0, f64::max),
            achieved: tally.done as f64 / offered,
            is_server_idle: None,
            rate: offered / seconds.max(1e-9),
            rate_max: None,
        };
        Self {
            address,
            runs: runs.len(),
            done: tally.done,
            errors,
            timed_out: tally.timed_out,
            logins: runs.iter().map(|run| run.logins).sum(),
            failed_logins: runs.iter().map(|run| run.failed_logins).sum(),
            login_refusal: runs.iter().find_map(|run| run.refusal.clone()),
            requests_per_second: tally.done as f64 / seconds.max(1e-9),
            p50: tally.percentile(50.0).micros,
            p95: tally.percentile(95.0).micros,
            p99: tally.percentile(99.0).micros,
            max: tally.total.histogram().max(),
            wait_p99: tally.wait.histogram().value_at_quantile(0.99),
            void: reasons_against(&fitness),
            is_cut: runs.iter().any(|run| run.is_cut),
        }
    }
}

impl Report {
    pub(super) fn new(
        options: &ReplayOptions,
        recording: &Recording,
        script: &Script,
        targets: Vec<Played>,
        comparison: Option<Comparison>,
    ) -> Self {
        let named = comparison.iter().flat_map(|comparison| &comparison.different).map(|one| one.statement);
        let text = |number: usize| Some((number, conninfo::clean(&recording.statements.get(number)?.parts.join("?"))));
        Self {
            schema: 1,
            recording: options.file.clone(),
            database: conninfo::clean(&recording.database),
            speed: options.speed,
            seed: options.seed,
            allows_writes: options.may_write,
            draws_values: recording.values == Values::Spread,
            sessions: script.sessions.len(),
            requests: script.requests(),
            left_out: script.left_out.clone(),
            statements: named.filter_map(text).collect(),
            is_cut: targets.iter().any(|target| target.is_cut),
            targets,
            comparison,
        }
    }

    /// The exit status.
    pub(super) fn status(&self) -> u8 {
        let differs = self.comparison.as_ref().is_some_and(|comparison| !comparison.different.is_empty());
        match () {
            () if differs => 1,
            () if self.targets.iter().any(|target| !target.void.is_empty()) => VOID,
            () => 0,
        }
    }

    pub(super) fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| error.to_string())
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}: {} in {} of database {}, at {} times its speed{}",
            self.recording,
            base::counted(self.requests as u64, "request"),
            base::counted(self.sessions as u64, "session"),
            self.database,
            self.speed,
            if self.allows_writes { ", writing" } else { ", reading only" }
        );
        if self.draws_values {
            let _ = writeln!(text, "Values are drawn like those that were recorded (seed {}).", self.seed);
        }
        for (why, count) in &self.left_out {
            let _ = writeln!(text, "Left out: {} ({why})", base::counted(*count, "request"));
        }
        let _ = writeln!(text);
        let mut table = Table::new(&[
            ("", &["target"]),
            ("", &["answered", "errors", "timed out", "per second"]),
            ("response time, ms", &["p50", "p95", "p99", "max"]),
            ("", &["wait p99"]),
        ]);
        for target in &self.targets {
            let millis = |micros: u64| format!("{:.3}", micros as f64 / 1e3);
            table.row(vec![
                target.address.clone(),
                target.done.to_string(),
                target.errors.values().sum::<u64>().to_string(),
                target.timed_out.to_string(),
                format!("{:.1}", target.requests_per_second),
                millis(target.p50),
                millis(target.p95),
                millis(target.p99),
                millis(target.max),
                millis(target.wait_p99),
            ]);
        }
        table.lines().iter().for_each(|line| text.push_str(&format!("{line}\n")));
        for target in &self.targets {
            self.troubles(&mut text, target);
        }
        if let Some(comparison) = &self.comparison {
            self.compared(&mut text, comparison);
        }
        if self.is_cut {
            text.push_str("\nThe replay was ended before its time.\n");
        }
        text
    }

    fn troubles(&self, text: &mut String, target: &Played) {
        let address = &target.address;
        if !target.errors.is_empty() {
            let codes: Vec<String> = target.errors.iter().map(|(code, count)| format!("{code} {count}")).collect();
            let _ = writeln!(text, "\n{address}: errors {}", codes.join(", "));
        }
        if let Some(why) = &target.login_refusal {
            let _ = writeln!(text, "{address}: {} of {} logins failed, as {why}", target.failed_logins, target.logins);
        }
        for why in &target.void {
            let _ = writeln!(text, "{address}: VOID, {why}");
        }
    }

    fn compared(&self, text: &mut String, comparison: &Comparison) {
        let _ = writeln!(
            text,
            "\nAnswers: {} compared, {} differ; {} are not the same twice, and say nothing",
            comparison.compared,
            comparison.different.iter().map(|one| one.count).sum::<u64>(),
            comparison.changing
        );
        for one in comparison.different.iter().take(SHOWN_MAX) {
            let statement = self.statements.get(&one.statement).map_or("", String::as_str);
            let shown: String = statement.chars().take(STATEMENT_CHARS).collect();
            let _ = writeln!(text, "  {} times: {shown}\n    {} | {}", one.count, one.first, one.second);
        }
        if let (Some(times), [first, second]) = (&comparison.times, &self.targets[..]) {
            let _ = writeln!(
                text,
                "Times: {} takes {:.2} of what {} takes (95 % interval {:.2} to {:.2})",
                first.address, times.value, second.address, times.low, times.high
            );
        }
    }
}

/// Why requests are left out, for an error.
pub(super) fn left_out_words(script: &Script) -> String {
    let words: Vec<String> = script.left_out.iter().map(|(why, count)| format!("{count} {why}")).collect();
    if words.is_empty() { String::new() } else { format!(" ({}; --allow-writes plays what writes)", words.join(", ")) }
}

/// The line of the runs, at a terminal.
pub(super) fn progress(script: &Script, runs: usize) -> ProgressBar {
    let last = script.sessions.iter().flatten().map(|planned| planned.at).max().unwrap_or(0);
    if last < SHORT_MICROS || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(runs as u64);
    if let Ok(style) =
        ProgressStyle::with_template("replaying {bar:40} {pos} of {len} runs (Ctrl-C ends it with what is known)")
    {
        bar.set_style(style);
    }
    bar.tick();
    bar
}

const VOID: u8 = 4;
const SHOWN_MAX: usize = 20;
const STATEMENT_CHARS: usize = 160;
const SHORT_MICROS: u64 = 2_000_000;
