//! pgbench as the load: its options, and the parsing of its output.
//!
//! Not here: what the machine did meanwhile (`reading`); a caller measures that while the load runs.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{Trial, TrialError, USER};

/// Which statements pgbench runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// `-S`: one row by its key.
    SelectOnly,
    /// The default script, like TPC-B: seven statements in a transaction, five of which write.
    TpcB,
}

/// The query protocol (`-M`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Query.
    Simple,
    /// Parse, Bind, Describe, Execute, Sync for each statement.
    Extended,
    /// Parse once for each statement and client, then Bind, Describe, Execute, Sync.
    Prepared,
}

/// One run of pgbench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The port to connect to.
    pub port: u16,
    /// The database to connect to.
    pub database: &'static str,
    /// Number of clients.
    pub clients: u32,
    /// The duration in seconds. pgbench's alarm already runs while its clients log in, so the time for logins is
    /// missing from the work.
    pub seconds: u32,
    /// The statements.
    pub script: Script,
    /// The query protocol.
    pub protocol: Protocol,
    /// Whether each transaction uses a new connection (`-C`).
    pub is_reconnecting: bool,
    /// Whether connections use TLS.
    pub is_secured: bool,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadOutcome {
    /// All clients worked to the end.
    Done(LoadResult),
    /// Some client failed; the first error of pgbench.
    Failed(String),
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadResult {
    /// Number of transactions.
    pub transactions: u64,
    /// Transactions per second; includes the time of connecting if each transaction connects, else logins do not count.
    pub tps: f64,
    /// Mean time of a transaction in milliseconds; includes the time of connecting if each transaction connects.
    pub mean_ms: f64,
    /// The 99th percentile of transaction times in milliseconds. Unknown if each transaction connects, because pgbench
    /// starts its clock after connecting.
    pub p99_ms: Option<f64>,
}

impl Load {
    /// Runs the load, and calls `watch` many times a second meanwhile.
    ///
    /// # Errors
    /// pgbench cannot be started, or we are interrupted. A load that fails is an outcome and not an error.
    pub fn run(&self, trial: &Trial, watch: &mut dyn FnMut(Duration)) -> Result<LoadOutcome, TrialError> {
        let mut command = trial.command(&trial.programs.path("pgbench"));
        self.tell(&mut command);
        let patience = Duration::from_secs(u64::from(self.seconds + self.clients / 10 + 30));
        let ended = trial.run(NAME, &mut command, patience, watch);
        let mut latencies_us = take_latencies(trial);
        let status = match ended {
            Ok(status) => status,
            Err(TrialError::Interrupted) => return Err(TrialError::Interrupted),
            Err(why) => return Ok(LoadOutcome::Failed(why.to_string())),
        };
        if !status.success() {
            return Ok(LoadOutcome::Failed(first_complaint(&trial.complaints(NAME))));
        }
        let p99_ms = if self.is_reconnecting { None } else { percentile(&mut latencies_us, 99.0).map(|us| us / 1e3) };
        match result_in(&trial.output(NAME), self.is_reconnecting) {
            Some(result) => Ok(LoadOutcome::Done(LoadResult { p99_ms, ..result })),
            None => Ok(LoadOutcome::Failed(why_no_figures(&trial.output(NAME), self.seconds))),
        }
    }

    fn tell(&self, command: &mut Command) {
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER, "-n"]);
        command.args(["-c", &self.clients.to_string(), "-j", &self.clients.min(THREADS).to_string()]);
        command.args(["-T", &self.seconds.to_string(), "--log", "--log-prefix", NAME, "--sampling-rate", SAMPLING]);
        match self.script {
            Script::SelectOnly => drop(command.arg("-S")),
            Script::TpcB => {}
        }
        match self.protocol {
            Protocol::Simple => {}
            Protocol::Extended => drop(command.args(["-M", "extended"])),
            Protocol::Prepared => drop(command.args(["-M", "prepared"])),
        }
        command.env("PGSSLMODE", if self.is_secured { "require" } else { "disable" });
        if self.is_reconnecting {
            command.arg("-C");
        }
        command.arg(self.database);
    }
}

/// The value that `percent` of all values do not exceed (nearest rank); `None` without values. Sorts the slice.
pub fn percentile(values: &mut [f64], percent: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

/// Reads and removes pgbench's logs of single transactions; the third column is the time in microseconds.
fn take_latencies(trial: &Trial) -> Vec<f64> {
    let mut all = Vec::new();
    for entry in fs::read_dir(trial.scratch.path()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // Further threads add their number: `load.4711`, `load.4711.1`.
        let is_log = name.to_str().and_then(|name| name.strip_prefix(NAME)?.strip_prefix('.'));
        if is_log.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            all.extend(latencies_in(&fs::read_to_string(entry.path()).unwrap_or_default()));
            let _ = fs::remove_file(entry.path());
        }
    }
    all
}

fn latencies_in(log: &str) -> impl Iterator<Item = f64> {
    log.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok())
}

fn result_in(output: &str, is_reconnecting: bool) -> Option<LoadResult> {
    let after = |label: &str| output.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    let number = |text: &str| text.split([' ', '/']).next()?.parse::<f64>().ok();
    let mut tps = output.lines().filter_map(|line| line.strip_prefix("tps = "));
    // Before version 14 there were two such lines, first with the time of connecting, then without it.
    let tps = if is_reconnecting { tps.next() } else { tps.next_back() };
    Some(LoadResult {
        transactions: number(after("number of transactions actually processed:")?)? as u64,
        tps: number(tps?)?,
        mean_ms: number(after("latency average = ")?)?,
        p99_ms: None,
    })
}

/// Without a single transaction pgbench prints no figures.
fn why_no_figures(output: &str, seconds: u32) -> String {
    if output.lines().any(|line| line.trim_end() == "number of transactions actually processed: 0") {
        return format!("not one transaction in {seconds} s: the clients took as long to log in");
    }
    let said = output.lines().last().unwrap_or("nothing");
    format!("pgbench ended well, but said what we do not understand: {said}")
}

fn first_complaint(complaints: &str) -> String {
    let is_real = |line: &&str| line.contains("error:") || line.contains("fatal:") || line.contains("FATAL");
    let mut lines = complaints.lines();
    let line = lines.find(is_real).or(complaints.lines().next()).unwrap_or("pgbench failed without a word");
    line.trim_start_matches("pgbench: ").trim_start_matches("error: ").to_owned()
}

/// The names of pgbench's files in the trial's directory begin with this.
const NAME: &str = "load";

/// pgbench's threads: one keeps up with a pooler's worker, and with a second one the clients are not the bottleneck.
const THREADS: u32 = 2;

/// The share of transactions whose time is logged: enough for a 99th percentile, and cheap.
const SAMPLING: &str = "0.25";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let mut hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut hundred, 99.0), Some(99.0));
        assert_eq!(percentile(&mut hundred, 50.0), Some(50.0));
        assert_eq!(percentile(&mut hundred, 0.0), Some(1.0));
        assert_eq!(percentile(&mut [7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&mut [], 99.0), None);
    }

    #[test]
    fn figures_are_read_out_of_what_pgbench_says() {
        let said = "number of transactions actually processed: 61734\nnumber of failed transactions: 0 (0.000%)\n\
                    latency average = 0.641 ms\ninitial connection time = 12.3 ms\n\
                    tps = 12345.67 (without initial connection time)\n";
        let result = result_in(said, false).expect("figures");
        assert_eq!(result, LoadResult { transactions: 61_734, tps: 12_345.67, mean_ms: 0.641, p99_ms: None });
    }

    #[test]
    fn of_the_two_rates_of_an_old_pgbench_the_right_one_is_taken() {
        let said = "number of transactions actually processed: 100/100\nlatency average = 2.000 ms\n\
                    tps = 90.0 (including connections establishing)\ntps = 99.0 (excluding connections establishing)\n";
        assert_eq!(result_in(said, true).expect("figures").tps, 90.0);
        assert_eq!(result_in(said, false).expect("figures").tps, 99.0);
    }

    #[test]
    fn an_answer_that_is_not_understood_gives_no_figures() {
        assert_eq!(result_in("tps = many", false), None);
    }

    #[test]
    fn a_run_without_a_transaction_is_told_from_one_that_is_not_understood() {
        let said = "duration: 2 s\nnumber of transactions actually processed: 0\n";
        assert!(why_no_figures(said, 2).starts_with("not one transaction in 2 s"));
        assert!(why_no_figures("tps = many", 2).ends_with("understand: tps = many"));
    }

    #[test]
    fn the_first_complaint_is_the_cause_and_not_the_notice_before_it() {
        let said = "pgbench (15.20)\npgbench: error: connection to server failed: FATAL:  sorry, too many clients\n\
                    pgbench: error: could not create connection for client 99\n";
        assert_eq!(first_complaint(said), "connection to server failed: FATAL:  sorry, too many clients");
    }

    #[test]
    fn times_of_transactions_are_the_third_column() {
        let log = "0 199 2241 0 1175850568 995598\n1 2 90 0 1175850568 998079\ncut\n";
        assert_eq!(latencies_in(log).collect::<Vec<_>>(), [2241.0, 90.0]);
    }
}
