//! Programs that run to their end: psql, pgbench, the pooler with `--check`.
//!
//! Always true: a program that does not end in time is killed, and the test fails.
//! Not here: programs that serve (`postgres`, `pooler`).

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::pooler::Pooler;
use crate::wait::try_wait_for;

/// What a program said and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub out: String,
    /// All of its standard error.
    pub err: String,
}

/// What a program said, however it ended.
#[derive(Debug)]
pub struct Said {
    /// All of its standard output.
    pub out: String,
    /// All of its standard error.
    pub err: String,
}

impl Ended {
    /// The exit code; −1 for a program that was killed.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// The standard output of a program that succeeded.
    ///
    /// # Panics
    /// With everything that it said when it failed.
    pub fn success(self) -> String {
        assert!(self.status.success(), "failed with {}:\n{}\n{}", self.status, self.out, self.err);
        self.out
    }

    /// The standard error of a program that failed.
    ///
    /// # Panics
    /// When it succeeded.
    pub fn failure(self) -> String {
        assert!(!self.status.success(), "succeeded, but should have failed:\n{}\n{}", self.out, self.err);
        self.err
    }
}

/// Runs a command to its end.
///
/// # Panics
/// When it cannot be started or does not end within `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Ended {
    let child = start(command);
    finish(child, &format!("{command:?}"), limit)
}

/// Runs a command to its end or, when it has not come to it within `limit`, ends it. How it ended, unless it was ended,
/// and all that it said.
///
/// # Panics
/// When it cannot be started.
pub fn try_run(command: &mut Command, limit: Duration) -> (Option<ExitStatus>, Said) {
    await_end(start(command), limit)
}

fn start(command: &mut Command) -> Child {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"))
}

/// Waits for a child that has been started with its output piped.
///
/// # Panics
/// When it does not end within `limit`.
pub fn finish(child: Child, name: &str, limit: Duration) -> Ended {
    match await_end(child, limit) {
        (Some(status), Said { out, err }) => Ended { status, out, err },
        (None, Said { out, err }) => panic!("{name} did not end within {limit:?}:\n{out}\n{err}"),
    }
}

fn await_end(mut child: Child, limit: Duration) -> (Option<ExitStatus>, Said) {
    let out = gather(child.stdout.take());
    let err = gather(child.stderr.take());
    let status = try_wait_for(limit, || child.try_wait().expect("a child can be waited for"));
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let out = out.join().expect("the output is read");
    let err = err.join().expect("the errors are read");
    (status, Said { out, err })
}

/// psql, quiet, rows only, fields separated by `|`, stopping at the first error.
pub fn psql(pooler: &Pooler, user: &str, database: &str) -> Command {
    let mut command = pooler.place().unleashed("psql");
    command.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-w"]);
    command.args(["-p", &pooler.port().to_string(), "-U", user, "-d", database]);
    // Variables of the person's own environment must not change what is tested.
    command.env_remove("PGOPTIONS").env_remove("PGAPPNAME").env_remove("PGPASSWORD").env("PGPASSFILE", "/dev/null");
    command
}

/// pgbench toward the pooler, without vacuum.
pub fn pgbench(pooler: &Pooler, user: &str, database: &str) -> Command {
    let mut command = pooler.place().unleashed("pgbench");
    command.args(["-n", "-h", "127.0.0.1", "-p", &pooler.port().to_string(), "-U", user]).env("PGDATABASE", database);
    command
}

/// Sends a signal to a child.
///
/// # Panics
/// When it cannot be sent.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).expect("a process number of this system");
    kill(Pid::from_raw(pid), signal).expect("a child can be signalled");
}

fn gather(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}
