//! `trunkline hatest`: its exit statuses.
//!
//! Always true: a wrong command line ends with 2, as with most programs, because 1 says that a write was lost.
//! Not here: the test (crate `ops`).

use std::ffi::OsString;
use std::process::ExitCode;

use ops::hatest::{HatestError, HatestOptions, USAGE, run};

use crate::opening::open;

/// Runs the test with the arguments after `trunkline hatest`.
pub(crate) fn hatest(args: Vec<OsString>) -> ExitCode {
    let instead = |options: &HatestOptions| options.wants_help().then(|| USAGE.to_owned());
    let options = match open(HatestOptions::parse(args.into_iter()), WRONG_USAGE, instead) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(HatestError::Usage(text)) => {
            eprintln!("trunkline hatest: {text}\nTry \"trunkline hatest --help\".");
            ExitCode::from(WRONG_USAGE)
        }
        Err(HatestError::Failed(text)) => {
            eprintln!("trunkline hatest: {text}");
            ExitCode::from(NOT_TESTED)
        }
    }
}

/// The command line is wrong.
const WRONG_USAGE: u8 = 2;
/// Nothing could be written or checked.
const NOT_TESTED: u8 = 3;
