//! `trunkline lint`: its exit statuses, and its share of `--check`.
//!
//! Always true: the report goes to standard output, what could not be read to standard error.
//! Not here: the rules (crate `ops`).

use std::ffi::OsString;
use std::process::ExitCode;

use ops::deliver;
use ops::lint::{LintOptions, rule_list, run, usage};

use crate::opening::open;

/// Judges files, with the arguments after `trunkline lint`.
pub(crate) fn lint(args: Vec<OsString>) -> ExitCode {
    let instead =
        |options: &LintOptions| options.wants_help().then(usage).or_else(|| options.wants_rules().then(rule_list));
    let options = match open(LintOptions::parse(args.into_iter()), WRONG_USAGE, instead) {
        Ok(options) => options,
        Err(status) => return status,
    };
    judge(&options)
}

/// Judges a file that Trunkline is to read.
pub(crate) fn beside_check(config: &str) -> ExitCode {
    judge(&LintOptions::for_trunkline(config))
}

fn judge(options: &LintOptions) -> ExitCode {
    let outcome = run(options);
    let delivered = deliver(options.output(), &outcome.text);
    for problem in outcome.problems.iter().chain(delivered.as_ref().err()) {
        eprintln!("trunkline lint: {problem}");
    }
    ExitCode::from(if delivered.is_err() { NOT_DELIVERED } else { outcome.status })
}

/// The command line is wrong.
const WRONG_USAGE: u8 = 4;
/// The report cannot be written, which is told like a file that cannot be read.
const NOT_DELIVERED: u8 = 3;
