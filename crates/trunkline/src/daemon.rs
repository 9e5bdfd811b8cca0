//! `-d`: the pooler moves to the background.
//!
//! Always true: the starting process waits until the pooler serves, and shows why it does not; after that nothing
//! connects the two. The pooler is started again as a new program instead of forking, because a forked process keeps
//! only one of its threads, and locks in any state.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use config::Settings;
use nix::unistd::{dup2_stderr, dup2_stdout, setsid};

use crate::args::DETACHED;
use crate::last_words::Fatal;

/// Starts this program again in the background, and waits until it serves.
///
/// # Errors
/// No pidfile is configured, or the process did not come up; it has reported why.
pub(crate) fn detach(settings: &Settings) -> Result<(), Fatal> {
    if settings.pidfile.is_none() {
        return Err(Fatal("daemon needs pidfile configured".to_owned()));
    }
    let failed = |error: std::io::Error| Fatal(format!("cannot go to the background: {error}"));
    let executable = std::env::current_exe().map_err(failed)?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(executable);
    command.arg0(arguments.next().unwrap_or_else(|| "trunkline".into()));
    // Options may precede the file, and the file may follow `--`.
    command.arg(format!("--{DETACHED}")).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut word = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut word).map_err(failed)?;
    }
    if word == READY { Ok(()) } else { Err(Fatal("the process in the background did not come up".to_owned())) }
}

/// Reports to the process that waits in [`detach`] that we serve, and detaches from the terminal.
///
/// # Errors
/// The system refuses.
pub(crate) fn tell_parent() -> Result<(), Fatal> {
    let failed = |error: std::io::Error| Fatal(format!("cannot go to the background: {error}"));
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
    // The parent may have ended; that is no reason not to serve.
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
    dup2_stderr(&null).and_then(|()| dup2_stdout(&null)).map_err(|error| failed(error.into()))
}

/// Starts a session without a terminal.
pub(crate) fn leave_session() {
    // `setsid` fails only for the leader of a process group, which a process started by [`detach`] is not.
    let _ = setsid();
}

const READY: &[u8] = b"up";
