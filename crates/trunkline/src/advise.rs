//! `trunkline advise`: its exit statuses.
//!
//! Always true: a wrong command line or a wrong spec ends with 2, because 1 says that no size works.
//! Not here: the advice (crate `ops`).

use std::ffi::OsString;
use std::process::ExitCode;

use ops::advise::{AdviseError, AdviseOptions, run, usage};

use crate::opening::open;

/// Advises with the arguments after `trunkline advise`.
pub(crate) fn advise(args: Vec<OsString>) -> ExitCode {
    let instead = |options: &AdviseOptions| options.wants_help().then(usage);
    let options = match open(AdviseOptions::parse(args.into_iter()), WRONG_USAGE, instead) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(AdviseError::Usage(text)) => {
            eprintln!("trunkline advise: {text}\nTry \"trunkline advise --help\".");
            ExitCode::from(WRONG_USAGE)
        }
        Err(AdviseError::Failed(text)) => {
            eprintln!("trunkline advise: {text}");
            ExitCode::from(FAILED)
        }
    }
}

/// The command line or the spec is wrong.
const WRONG_USAGE: u8 = 2;
/// A file cannot be read or written, or a pooler does not answer.
const FAILED: u8 = 3;
