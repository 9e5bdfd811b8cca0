//! Processes that migrate, several at a time.
//!
//! Always true: none begins before all are loaded, so that they compete; one that does not end in time is killed.
//! Not here: what they migrate.

use std::path::PathBuf;
use std::process::{ChildStdin, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::kit::Kit;
use tests::program::{signal, try_finish, without_preferences};
use tests::wait::try_wait_for;

use crate::stage::Site;
use crate::tools::Tool;

/// One process.
pub(crate) struct Replica {
    pub(crate) name: String,
    pid: u32,
    ready: PathBuf,
    /// It begins when this is closed.
    start: Option<ChildStdin>,
    end: JoinHandle<End>,
}

/// How a process has ended.
pub(crate) struct End {
    pub(crate) status: Option<ExitStatus>,
    pub(crate) words: String,
    pub(crate) at: Instant,
}

impl End {
    /// Returns whether it has succeeded.
    pub(crate) fn is_well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

impl Replica {
    /// Starts a program that will do `verb`.
    fn launch(site: &Site<'_>, tool: &Tool, kit: &Kit, name: &str, verb: &str) -> Result<Self, String> {
        let ready = site.directory.join(name);
        let mut command = kit.command();
        without_preferences(&mut command);
        // The older lib/pq that golang-migrate uses panics with this variable, which it does not support.
        command.env_remove("PGSERVICEFILE");
        command.args(tool.arguments).arg(verb).envs(site.environment());
        command.env("MIGRATIONS_NAME", name).env("MIGRATIONS_READY", &ready);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let (pid, start) = (child.id(), child.stdin.take());
        // A separate thread, so that the time of the end is known, and the output never fills the pipe.
        let end = std::thread::spawn(move || {
            let (status, said) = try_finish(child, REPLICA_MAX);
            End { status, words: in_short(&format!("{}{}", said.out, said.err)), at: Instant::now() }
        });
        Ok(Self { name: name.to_owned(), pid, ready, start, end })
    }

    /// Returns whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_finished()
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        signal(self.pid, Signal::SIGKILL);
    }

    /// Waits for its end.
    pub(crate) fn end(self) -> End {
        self.end.join().expect("the thread only waits")
    }
}

/// Starts so many at once.
///
/// # Errors
/// The output of one that did not get ready.
pub(crate) fn start(
    site: &Site<'_>,
    tool: &Tool,
    kit: &Kit,
    names: &[&str],
    verb: &str,
) -> Result<Vec<Replica>, String> {
    let replicas = names.iter().map(|name| Replica::launch(site, tool, kit, name, verb));
    let mut replicas = replicas.collect::<Result<Vec<_>, _>>()?;
    let are_ready = || replicas.iter().all(|r| r.ready.exists() || r.has_ended()).then_some(());
    let in_time = try_wait_for(REPLICA_MAX, are_ready).is_some();
    replicas.iter_mut().for_each(|replica| drop(replica.start.take()));
    match in_time {
        true => Ok(replicas),
        false => Err("some replicas did not come to the start".to_owned()),
    }
}

/// Some languages print the cause of an error first, and others last.
fn in_short(words: &str) -> String {
    let is_telling =
        |line: &&str| TELLING.iter().any(|word| line.contains(word)) && !line.trim_start().starts_with("at ");
    let lines: Vec<&str> = words.lines().filter(is_telling).collect();
    let last = lines.iter().skip(LINES_MAX.max(lines.len().saturating_sub(LINES_MAX)));
    lines.iter().take(LINES_MAX).chain(last).copied().collect::<Vec<_>>().join("\n  | ")
}

/// For one process, from its start to its end: longer than any tool waits for its lock.
const REPLICA_MAX: Duration = Duration::from_secs(120);

/// Parts of lines that say why something failed.
const TELLING: [&str; 7] = ["rror", "xception", "ERROR", "FATAL", "panic", "Dirty", "lock"];

/// How many of such lines are kept, at each end.
const LINES_MAX: usize = 4;
