//! Programs that must not outlive us, and the script that ends them if we cannot.
//!
//! Always true: a program started as [`Kept`] is ended when its guard is dropped. If we end without dropping guards (a
//! panic that aborts, `kill -9`), the keeper ends it: a small shell script that learns by a pipe what we have started,
//! and sees by the end of that pipe that we are gone. The keeper also removes the directory of the trial. The kernel's
//! `PR_SET_PDEATHSIG` is not used: it needs unsafe code between fork and exec, and removes no files.

use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::TrialError;

/// The script that cleans up if we cannot.
#[derive(Debug)]
pub struct Keeper {
    script: Child,
}

impl Keeper {
    /// Starts the keeper in a process group of its own, so that the terminal's Ctrl-C does not reach it.
    ///
    /// # Errors
    /// There is no `/bin/sh`.
    pub fn start() -> Result<Self, TrialError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "trunkline-keeper"]).current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let script = command.spawn().map_err(|why| TrialError::step("cannot start /bin/sh".into(), why))?;
        Ok(Self { script })
    }

    /// Sends the keeper one line. Errors are ignored: without a keeper there is nothing else to do.
    pub(super) fn tell(&self, what: &str, which: impl Display) {
        if let Some(mut pipe) = self.script.stdin.as_ref() {
            let _ = writeln!(pipe, "{what} {which}");
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

/// The signal that makes a program shut down at once, but cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownSignal {
    /// SIGQUIT, for PostgreSQL, PgBouncer and Trunkline.
    Quit,
    /// SIGTERM, for programs that are no servers.
    Terminate,
}

impl ShutdownSignal {
    fn signal(self) -> Signal {
        match self {
            Self::Quit => Signal::SIGQUIT,
            Self::Terminate => Signal::SIGTERM,
        }
    }

    /// The program's entry in the keeper's list: `QUIT:4711`.
    fn entry(self, pid: u32) -> String {
        let name = match self {
            Self::Quit => "QUIT",
            Self::Terminate => "TERM",
        };
        format!("{name}:{pid}")
    }
}

/// A running program that is ended when this guard is dropped.
#[derive(Debug)]
pub struct Kept {
    child: Child,
    signal: ShutdownSignal,
    keeper: Rc<Keeper>,
}

impl Kept {
    /// Starts a program in a process group of its own, so that it receives signals from us and not from the terminal.
    ///
    /// # Errors
    /// As `Command::spawn`.
    pub fn start(keeper: &Rc<Keeper>, command: &mut Command, signal: ShutdownSignal) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        keeper.tell("started", signal.entry(child.id()));
        Ok(Self { child, signal, keeper: Rc::clone(keeper) })
    }

    /// The process id of the running program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status of the program, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal to a program that has not been found to have ended.
    pub(super) fn send(&self, signal: Signal) {
        // The child has not been waited for, so its process id cannot belong to another process.
        let _ = kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX)), signal);
    }

    /// Sends the signal, waits, and kills the program after [`GRACE`].
    fn end(&mut self) {
        self.send(self.signal.signal());
        self.await_end();
    }

    /// Waits for a program that was told to end, and kills it after [`GRACE`].
    pub(super) fn await_end(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        let (say, hear) = mpsc::channel();
        thread::scope(|scope| {
            let child = &mut self.child;
            scope.spawn(move || say.send(child.wait()));
            if hear.recv_timeout(GRACE).is_err() {
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.end();
        }
        self.keeper.tell("ended", self.signal.entry(self.child.id()));
    }
}

const SCRIPT: &str = include_str!("keeper.sh");

/// How long a program may take to shut down before it is killed. PostgreSQL kills its own stragglers after 5 s.
const GRACE: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    #[test]
    fn a_program_ends_with_its_guard() {
        let keeper = Rc::new(Keeper::start().expect("keeper"));
        let kept = Kept::start(&keeper, &mut sleeper(), ShutdownSignal::Terminate).expect("sleep");
        let proc = format!("/proc/{}", kept.pid());
        assert!(std::fs::exists(&proc).expect("/proc"));
        drop(kept);
        assert!(!std::fs::exists(&proc).expect("/proc"));
    }

    #[test]
    fn the_keeper_clears_up_when_no_guard_was_dropped() {
        let directory = std::env::temp_dir().join(format!("trunkline-keeper-test-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("directory");
        let keeper = Keeper::start().expect("keeper");
        let mut spared = sleeper().spawn().expect("sleep");
        let mut taken = sleeper().spawn().expect("sleep");
        keeper.tell("made", directory.display());
        keeper.tell("started", ShutdownSignal::Terminate.entry(spared.id()));
        keeper.tell("started", ShutdownSignal::Terminate.entry(taken.id()));
        keeper.tell("ended", ShutdownSignal::Terminate.entry(spared.id()));
        let waiting = thread::spawn(move || taken.wait().expect("its end"));
        drop(keeper);
        assert!(!waiting.join().expect("thread").success());
        assert!(!directory.exists());
        assert!(spared.try_wait().expect("its state").is_none(), "what had ended for us is not the keeper's");
        spared.kill().and_then(|()| spared.wait()).expect("its end");
    }
}
