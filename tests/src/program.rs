//! Programs that run to their end: psql, pgbench, the pooler with `--check`.
//!
//! Always true: a program that does not end in time is killed, and the test fails.
//! Not here: programs that serve (`postgres`, `pooler`).

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::pooler::Pooler;
use crate::wait::{LIMIT, try_wait_for};

/// The output of a program, and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub out: String,
    /// All of its standard error.
    pub err: String,
}

/// The output of a program, however it ended.
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
    /// With all its output, when it failed.
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

/// Runs a command to its end, or kills it after `limit`. Returns how it ended, unless it was killed, and its output.
///
/// # Panics
/// When it cannot be started.
pub fn try_run(command: &mut Command, limit: Duration) -> (Option<ExitStatus>, Said) {
    try_finish(start(command), limit)
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
    match try_finish(child, limit) {
        (Some(status), Said { out, err }) => Ended { status, out, err },
        (None, Said { out, err }) => panic!("{name} did not end within {limit:?}:\n{out}\n{err}"),
    }
}

/// Waits for a child that was started with its output piped, and kills it after `limit`. Returns how it ended, unless it was
/// killed, and its output.
///
/// # Panics
/// When it cannot be waited for.
pub fn try_finish(mut child: Child, limit: Duration) -> (Option<ExitStatus>, Said) {
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

/// The last lines of a program's output, for a report.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().rev().take(LINES_MAX).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n  | ")
}

/// Removes settings of the user's environment that would affect a program of libpq.
pub fn without_preferences(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command.env("PGPASSFILE", "/dev/null").env("PGSERVICEFILE", "/dev/null");
}

/// psql, quiet, rows only, fields separated by `|`, stopping at the first error.
pub fn psql(pooler: &Pooler, user: &str, database: &str) -> Command {
    let mut command = pooler.place().unleashed("psql");
    command.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-w"]);
    command.args(["-p", &pooler.port().to_string(), "-U", user, "-d", database]);
    // Variables of the user's environment must not affect the test.
    command.env_remove("PGOPTIONS").env_remove("PGAPPNAME").env_remove("PGPASSWORD").env("PGPASSFILE", "/dev/null");
    command
}

/// pgbench toward the pooler, without vacuum.
pub fn pgbench(pooler: &Pooler, user: &str, database: &str) -> Command {
    let mut command = pooler.place().unleashed("pgbench");
    command.args(["-n", "-h", "127.0.0.1", "-p", &pooler.port().to_string(), "-U", user]).env("PGDATABASE", database);
    command
}

/// A pgbench that runs until it is ended, however long the test takes.
#[derive(Debug)]
pub struct Bench(Option<Child>);

impl Bench {
    /// Starts it; `input` is a script for `-f /dev/stdin`.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command, input: &str) -> Self {
        command.args(["-T", "3600", "-P", "1"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("pgbench starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("pgbench reads its script");
        Self(Some(child))
    }

    /// Ends it.
    ///
    /// # Panics
    /// With its output, when any of its transactions or connections has failed, or it has ended by itself.
    pub fn end(mut self) {
        let mut child = self.0.take().expect("only here and in the end is it taken");
        let ended = child.try_wait().expect("a child can be waited for");
        if ended.is_none() {
            signal(child.id(), Signal::SIGTERM);
        }
        let said = finish(child, "pgbench", LIMIT);
        assert!(ended.is_none(), "pgbench has given up: {said:?}");
        // `progress: 1.0 s, 2000.1 tps, lat 0.5 ms stddev 0.1, 0 failed`: the number of failures since PostgreSQL 15.
        let is_failure = |line: &str| line.contains(" failed") && !line.ends_with(", 0 failed");
        assert!(!said.err.lines().any(is_failure), "{said:?}");
        assert!(["error", "FATAL", "abort"].iter().all(|word| !said.err.contains(word)), "{said:?}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends a signal to a child.
///
/// # Panics
/// When it cannot be sent.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).expect("a process number of this system");
    kill(Pid::from_raw(pid), signal).expect("a child can be signalled");
}

/// Ends all children of this process. A process that handles SIGQUIT ends at once and takes its own children along, as
/// PostgreSQL does; others are killed.
pub fn end_children() {
    let signal_all = |how: Signal| {
        for child in children() {
            let _ = kill(child, how);
        }
    };
    signal_all(Signal::SIGQUIT);
    if try_wait_for(Duration::from_secs(5), || children().is_empty().then_some(())).is_none() {
        signal_all(Signal::SIGKILL);
    }
}

/// Our running children, from the kernel's list of all processes: `PID (NAME) STATE PARENT ...`, where the name may contain
/// any characters.
fn children() -> Vec<Pid> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, parent) = (words.next(), words.next());
        if state != Some("Z") && parent == Some(&own) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
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

const LINES_MAX: usize = 12;
