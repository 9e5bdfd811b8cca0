//! `trunkline record`: its exit statuses.
//!
//! Always true: the recording goes to standard output or its file, how much it is to standard error.
//! Not here: the recording (crate `ops`).

use std::ffi::OsString;
use std::process::ExitCode;

use ops::record::{RecordOptions, USAGE, run};

use crate::opening::open;

/// Records with the arguments after `trunkline record`.
pub(crate) fn record(args: Vec<OsString>) -> ExitCode {
    let instead = |options: &RecordOptions| options.wants_help().then(|| USAGE.to_owned());
    let options = match open(RecordOptions::parse(args.into_iter()), WRONG_USAGE, instead) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(summary) => {
            eprint!("{summary}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("trunkline record: {text}");
            ExitCode::from(FAILED)
        }
    }
}

/// The command line is wrong.
const WRONG_USAGE: u8 = 2;
/// The pooler cannot be asked, or the file cannot be written.
const FAILED: u8 = 3;
