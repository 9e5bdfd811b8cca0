//! How a command begins that reads its own options: a mistake among them, or what is printed instead of a run.
//!
//! Always true: a mistake goes to standard error, with the exit status that the command has for it; what was asked for goes to standard
//! output.
//! Not here: the options (crate `ops`).

use std::process::ExitCode;

/// Returns the options of a command, or the exit status with which it ends at once. `instead` is what is printed in place of a run.
pub(crate) fn open<O>(
    parsed: Result<O, String>,
    wrong_usage: u8,
    instead: impl FnOnce(&O) -> Option<String>,
) -> Result<O, ExitCode> {
    let options = parsed.map_err(|text| {
        eprintln!("{text}");
        ExitCode::from(wrong_usage)
    })?;
    match instead(&options) {
        Some(text) => {
            print!("{text}");
            Err(ExitCode::SUCCESS)
        }
        None => Ok(options),
    }
}
