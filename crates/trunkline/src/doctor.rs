//! `trunkline doctor`: its exit statuses.
//!
//! Always true: the report goes to standard output or its file, what could not be asked to standard error.
//! Not here: the rules (crate `ops`).

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

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

fn deliver(output: Option<&str>, text: &str) -> Result<(), String> {
    match output {
        Some(path) => std::fs::write(path, text).map_err(|error| format!("cannot write {path}: {error}")),
        // A reader that has gone, such as `head`, is no failure.
        None => match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
            _ => Ok(()),
        },
    }
}

/// The command line is wrong.
const WRONG_USAGE: u8 = 4;
/// The report cannot be written, which is told like a server that cannot be asked.
const NOT_DELIVERED: u8 = 3;
