//! `trunkline simulate`: its exit statuses.
//!
//! Always true: a wrong command line or a wrong spec ends with 2, as with most programs, because 1 says that books do not balance.
//! Not here: the simulation (crate `ops`).

use std::ffi::OsString;
use std::process::ExitCode;

use ops::simulate::{SimulateError, SimulateOptions, USAGE, run};

use crate::opening::open;

/// Simulates with the arguments after `trunkline simulate`.
pub(crate) fn simulate(args: Vec<OsString>) -> ExitCode {
    let instead = |options: &SimulateOptions| options.wants_help().then(|| USAGE.to_owned());
    let options = match open(SimulateOptions::parse(args.into_iter()), WRONG_USAGE, instead) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(SimulateError::Usage(text)) => {
            eprintln!("trunkline simulate: {text}\nTry \"trunkline simulate --help\".");
            ExitCode::from(WRONG_USAGE)
        }
        Err(SimulateError::Spec(mistakes)) => {
            eprintln!("trunkline simulate: the spec has mistakes:\n{mistakes}");
            ExitCode::from(WRONG_USAGE)
        }
        Err(SimulateError::Failed(text)) => {
            eprintln!("trunkline simulate: {text}");
            ExitCode::from(FAILED)
        }
    }
}

/// The command line or the spec is wrong.
const WRONG_USAGE: u8 = 2;
/// A file cannot be read or written.
const FAILED: u8 = 3;
