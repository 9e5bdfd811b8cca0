//! `trunkline doctor`: its exit statuses.
//!
//! Always true: the report goes to standard output or its file, what could not be asked to standard error.
//! Not here: the rules (crate `ops`).

use std::ffi::OsString;
use std::process::ExitCode;

use ops::deliver;
use ops::doctor::{DoctorOptions, USAGE, rule_list, run};

use crate::opening::open;

/// Looks at what runs, with the arguments after `trunkline doctor`.
pub(crate) fn doctor(args: Vec<OsString>) -> ExitCode {
    let instead = |options: &DoctorOptions| {
        options.wants_help().then(|| USAGE.to_owned()).or_else(|| options.wants_rules().then(rule_list))
    };
    let options = match open(DoctorOptions::parse(args.into_iter()), WRONG_USAGE, instead) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let outcome = match run(&options) {
        Ok(outcome) => outcome,
        Err(text) => {
            eprintln!("trunkline doctor: {text}\nTry \"trunkline doctor --help\".");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let delivered = deliver(options.output(), &outcome.text);
    for problem in outcome.problems.iter().chain(delivered.as_ref().err()) {
        eprintln!("trunkline doctor: {problem}");
    }
    ExitCode::from(if delivered.is_err() { NOT_DELIVERED } else { outcome.status })
}

/// The command line is wrong.
const WRONG_USAGE: u8 = 4;
/// The report cannot be written, which is told like a server that cannot be asked.
const NOT_DELIVERED: u8 = 3;
