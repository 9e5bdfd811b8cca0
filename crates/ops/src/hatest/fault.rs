//! The command that causes a failure.
//!
//! Always true: its output goes to standard error, so that a report as JSON stays alone on standard output.

use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::sync::oneshot;

use super::run_clock::RunClock;

/// How the command went. All times count from the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FaultRun {
    /// When it was started.
    pub(crate) at: Duration,
    /// When it ended, if it has.
    pub(crate) end: Option<Duration>,
    /// Its exit code; `None` if it has not ended, or a signal has ended it.
    pub(crate) code: Option<i32>,
}

/// Starts the command; what is returned becomes its exit code, or nothing if a signal ends it. It is waited for in a thread
/// of its own, and if the run ends first, it is left alone.
///
/// # Errors
/// There is no shell.
pub(crate) fn start(command: &str) -> Result<oneshot::Receiver<Option<i32>>, String> {
    let child = Command::new("/bin/sh").arg("-c").arg(command).stdin(Stdio::null()).stdout(std::io::stderr()).spawn();
    let mut child = child.map_err(|error| format!("cannot start /bin/sh for --fault: {error}"))?;
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let code = child.wait().ok().and_then(|status| status.code());
        // The run may have ended.
        let _ = sender.send(code);
    });
    Ok(receiver)
}

/// Waits for the end of the command.
pub(crate) async fn wait(ended: oneshot::Receiver<Option<i32>>, mut run: FaultRun, clock: RunClock) -> FaultRun {
    run.code = ended.await.ok().flatten();
    run.end = Some(clock.now());
    run
}
