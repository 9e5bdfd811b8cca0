//! `trunkline capacity --replay`: its exit statuses.
//!
//! Always true: the report goes to standard output or its file.
//! Not here: the replay (crate `ops`).

use std::ffi::OsString;
use std::process::ExitCode;

use ops::replay::{ReplayError, ReplayOptions, USAGE, run};

use crate::opening::open;

/// Plays a recording with the arguments after `trunkline capacity`.
pub(crate) fn replay(args: Vec<OsString>) -> ExitCode {
    let instead = |options: &ReplayOptions| options.wants_help().then(|| USAGE.to_owned());
    let options = match open(ReplayOptions::parse(args.into_iter()), WRONG_USAGE, instead) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(ReplayError::Usage(text)) => {
            eprintln!("trunkline capacity: {text}");
            ExitCode::from(WRONG_USAGE)
        }
        Err(ReplayError::Failed(text)) => {
            eprintln!("trunkline capacity: {text}");
            ExitCode::from(FAILED)
        }
    }
}

/// The command line or the recording is wrong.
const WRONG_USAGE: u8 = 2;
/// A target cannot be used, or the report cannot be written.
const FAILED: u8 = 3;
