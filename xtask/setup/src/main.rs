//! Installs what is missing on this machine for the purposes named on the command line.

use std::ffi::OsString;
use std::process::ExitCode;

use setup::Purpose;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match Purpose::from_arguments(&arguments).and_then(|purposes| setup::run(&purposes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
