//! `trunkline capacity`: its exit statuses.
//!
//! Always true: a wrong command line ends with 2, because 1 says that there is no room.
//! Not here: the measurement (crate `ops`).

use std::ffi::OsString;
use std::process::ExitCode;

use ops::capacity::{CapacityError, CapacityOptions, USAGE, run};

use crate::opening::open;

/// Measures with the arguments after `trunkline capacity`.
pub(crate) fn capacity(args: Vec<OsString>) -> ExitCode {
    let instead = |options: &CapacityOptions| options.wants_help().then(|| USAGE.to_owned());
    let options = match open(CapacityOptions::parse(args.into_iter()), WRONG_USAGE, instead) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(CapacityError::Usage(text)) => {
            eprintln!("trunkline capacity: {text}\nTry \"trunkline capacity --help\".");
            ExitCode::from(WRONG_USAGE)
        }
        Err(CapacityError::Failed(text)) => {
            eprintln!("trunkline capacity: {text}");
            ExitCode::from(FAILED)
        }
    }
}

/// The command line is wrong.
const WRONG_USAGE: u8 = 2;
/// Something cannot be read, reached or written.
const FAILED: u8 = 3;
