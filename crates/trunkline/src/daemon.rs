//! `-d`: the pooler leaves its terminal.
//!
//! Always true: whoever started it waits until it serves, and sees why it does not; then nothing ties the two together.
//! It is started again as a program of its own instead of forking: a process that forks keeps of its threads and locks
//! only what happens to work.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use config::Settings;
use nix::unistd::{dup2_stderr, dup2_stdout, setsid};

use crate::args::DETACHED;
use crate::last_words::Fatal;

/// Starts ourselves again in the background, and waits until that one serves.
///
/// # Errors
/// There is no pidfile to find it by, or it did not come up; it has said why.
pub(crate) fn detach(settings: &Settings) -> Result<(), Fatal> {
    if settings.pidfile.is_none() {
        return Err(Fatal("daemon needs pidfile configured".to_owned()));
    }
    let failed = |error: std::io::Error| Fatal(format!("cannot go to the background: {error}"));
    let executable = std::env::current_exe().map_err(failed)?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(executable);
    command.arg0(arguments.next().unwrap_or_else(|| "trunkline".into()));
    // Options may stand before the file, and the file may follow `--`.
    command.arg(format!("--{DETACHED}")).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut word = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut word).map_err(failed)?;
    }
    if word == READY { Ok(()) } else { Err(Fatal("the process in the background did not come up".to_owned())) }
}

/// Tells whoever waits in [`detach`] that we serve, and lets go of the terminal.
///
/// # Errors
/// The system refuses.
pub(crate) fn tell_parent() -> Result<(), Fatal> {
    let failed = |error: std::io::Error| Fatal(format!("cannot go to the background: {error}"));
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
    // It may have gone; that is no reason not to serve.
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
    dup2_stderr(&null).and_then(|()| dup2_stdout(&null)).map_err(|error| failed(error.into()))
}

/// Begins a session without a terminal.
pub(crate) fn leave_session() {
    // It fails only for the leader of a group of processes, and whom [`detach`] has started is none.
    let _ = setsid();
}

const READY: &[u8] = b"up";
