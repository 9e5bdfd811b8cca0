//! `cargo xtask test`: every test of the project, against the pooler as `make demo` builds it: like the release where a transaction passes, but
//! for link-time optimization, which would take a third of the time that all checks may take.
//!
//! Always true: the tests find that binary in `TRUNKLINE_BIN`; when this ends, no process that a test started is
//! alive. A test that leaves one behind makes the run fail, because the pooler might leave one behind for an operator
//! as well.
//! Not here: PostgreSQL. The tests start their own, as an ordinary user, and stop it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::house::House;
use setup::Purpose;

pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let mut laps = Laps::begin();
    let ended = run_in_laps(house, arguments, &mut laps);
    laps.tell();
    ended
}

fn run_in_laps(house: &House, arguments: &[OsString], laps: &mut Laps) -> Result<(), String> {
    setup::run(&[Purpose::Test])?;
    // Arguments select some of cargo's tests; then nothing else is run.
    let is_whole = arguments.is_empty();
    // One build waits for its last crates on one processor, while the other has many.
    let program = thread::scope(|scope| {
        let rest = scope.spawn(|| {
            build_tests(house, arguments)?;
            if is_whole { crate::world::build(house).map(drop) } else { Ok(()) }
        });
        let program = house.build_demo();
        rest.join().map_err(|_| "test: lost a build".to_owned())??;
        program
    })?;
    laps.end("pooler, tests and world are built");
    let mut command = house.cargo_command();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(arguments).env("TRUNKLINE_BIN", program);
    let outcome = watch(&mut command)?;
    laps.end("the tests run");
    laps.slowest.clone_from(&outcome.tally.slowest);
    println!("\ntests: {}", outcome.tally.words());
    match (outcome.has_succeeded, outcome.left.is_empty()) {
        (true, true) if is_whole => {
            crate::world::prove(house)?;
            laps.end("the world runs");
            Ok(())
        }
        (true, true) => Ok(()),
        (false, _) => Err("test: failed".to_owned()),
        (true, false) => Err(format!("test: {} processes were left behind", outcome.left.len())),
    }
}

fn build_tests(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let mut build = house.cargo_command();
    build.args(["test", "--workspace", "--no-run"]).args(arguments);
    if house.lints_in_builds() {
        build.arg("--all-targets");
    }
    let is_built = build.status().map_err(|error| format!("cannot start cargo: {error}"))?.success();
    is_built.then_some(()).ok_or_else(|| "test: the tests cannot be built".to_owned())
}

/// How long each step takes.
struct Laps {
    begun: Instant,
    laps: Vec<(&'static str, Duration)>,
    slowest: Vec<(Duration, String)>,
}

impl Laps {
    fn begin() -> Self {
        Self { begun: Instant::now(), laps: Vec::new(), slowest: Vec::new() }
    }

    /// Records the time since the step before.
    fn end(&mut self, what: &'static str) {
        self.laps.push((what, self.begun.elapsed()));
        self.begun = Instant::now();
    }

    fn tell(&self) {
        println!("\nwhat took how long");
        for (what, took) in &self.laps {
            println!("  {what:<36} {:>5.0} s", took.as_secs_f32());
        }
        for (took, name) in &self.slowest {
            println!("    {name:<60} {:>5.1} s", took.as_secs_f32());
        }
    }
}

/// The result of a run of tests.
pub(crate) struct Outcome {
    has_succeeded: bool,
    tally: Tally,
    /// The processes that it has left behind.
    left: Vec<String>,
}

impl Outcome {
    pub(crate) fn is_good(&self) -> bool {
        self.has_succeeded && self.left.is_empty()
    }

    pub(crate) fn words(&self) -> String {
        let left = if self.left.is_empty() { String::new() } else { format!(", {} left behind", self.left.len()) };
        format!("{}{left}", self.tally.words())
    }
}

/// Runs tests and prints their output. Processes that they leave behind are named and killed.
pub(crate) fn watch(command: &mut Command) -> Result<Outcome, String> {
    // Orphaned descendants become our children, so that no process of a test can hide.
    nix::sys::prctl::set_child_subreaper(true).map_err(|error| format!("cannot adopt orphans: {error}"))?;
    let mut cargo = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot start cargo: {error}"))?;
    let output = cargo.stdout.take().ok_or("cargo has no output")?;
    // The output is read in a thread: a process that was left behind keeps the pipe open until it is killed.
    let reader = thread::spawn(move || Tally::read(output));
    let status = cargo.wait().map_err(|error| format!("lost cargo: {error}"))?;
    let left = end_orphans()?;
    let tally = reader.join().map_err(|_| "lost the output of the tests")?;
    for orphan in &left {
        println!("left behind by a test, now ended: {orphan}");
    }
    Ok(Outcome { has_succeeded: status.success(), tally, left })
}

/// The sums over all programs: cargo's `test result:` lines, and the lines of the runner in `tests`, which have their
/// own form.
#[derive(Default)]
struct Tally {
    programs: u32,
    counts: BTreeMap<String, u32>,
    /// The tests that took longest, the slowest first.
    slowest: Vec<(Duration, String)>,
}

impl Tally {
    /// Prints the lines as they come, and counts.
    fn read(output: ChildStdout) -> Tally {
        let mut tally = Tally::default();
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally.add(&line);
        }
        tally
    }

    fn add(&mut self, line: &str) {
        if let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) {
            self.add_counts(counts.split("; "));
        } else if let Some((counts, _)) = line.split_once(" failed in ") {
            self.add_counts(format!("{counts} failed").split(", "));
        } else if line.starts_with("test ") && line.contains(": skipped, ") {
            *self.counts.entry("ignored".to_owned()).or_default() += 1;
        } else if let Some((name, seconds)) = timed(line) {
            let place = self.slowest.partition_point(|(other, _)| *other > seconds);
            self.slowest.insert(place, (seconds, name.to_owned()));
            self.slowest.truncate(SLOWEST);
        }
    }

    /// Adds `3 passed`, `0 failed`; a line without a number in front was not a line of counts.
    fn add_counts<'a>(&mut self, counts: impl Iterator<Item = &'a str>) {
        let counts: Vec<(u32, &str)> = counts
            .filter_map(|part| part.split_once(' '))
            .filter_map(|(n, name)| Some((n.parse().ok()?, name)))
            .collect();
        self.programs += u32::from(!counts.is_empty());
        for (number, name) in counts {
            *self.counts.entry(name.to_owned()).or_default() += number;
        }
    }

    fn words(&self) -> String {
        let count = |name| self.counts.get(name).copied().unwrap_or(0);
        format!(
            "{} passed, {} failed, {} ignored, in {} programs",
            count("passed"),
            count("failed"),
            count("ignored"),
            self.programs
        )
    }
}

/// The name of a test and its time, in a line such as `test limits::a_star ... ok (0.2 s)`.
fn timed(line: &str) -> Option<(&str, Duration)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds: f64 = rest.split_once('(')?.1.strip_suffix(" s)")?.parse().ok()?;
    Some((name, Duration::try_from_secs_f64(seconds).ok()?))
}

/// Kills all children, and their children as we adopt them, and returns what they were. Those that are already ending
/// have `GRACE` for it.
fn end_orphans() -> Result<Vec<String>, String> {
    let (begun, mut ended) = (Instant::now(), Vec::new());
    loop {
        let mut alive = children()?;
        alive.retain(|pid| matches!(waitpid(*pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive)));
        if alive.is_empty() && children()?.is_empty() {
            return Ok(ended);
        }
        if begun.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        for pid in alive {
            ended.push(describe(pid));
            // An error means that it has just ended by itself, which is what was wanted.
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, None);
        }
    }
}

/// The children of all threads of this process.
fn children() -> Result<Vec<Pid>, String> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task").map_err(|error| format!("cannot read /proc/self/task: {error}"))? {
        let path = thread.map_err(|error| error.to_string())?.path().join("children");
        // A thread that has just ended has no children.
        let text = fs::read_to_string(path).unwrap_or_default();
        children.extend(text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
    }
    Ok(children)
}

fn describe(pid: Pid) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " ").trim_end())
}

const GRACE: Duration = Duration::from_secs(5);
/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_all_programs_are_added_up() {
        let mut tally = Tally::default();
        tally.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        tally.add("test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s");
        tally.add("test a_test ... ok");
        tally.add("5 passed, 1 failed in 12.3 s");
        tally.add("test cursor: skipped, there is no psycopg2");
        assert_eq!(tally.words(), "12 passed, 3 failed, 2 ignored, in 3 programs");
    }

    #[test]
    fn the_slowest_tests_are_named() {
        let mut tally = Tally::default();
        (0..20).for_each(|number| tally.add(&format!("test a::number_{number} ... ok ({}.5 s)", number % 7)));
        tally.add("test b::another ... FAILED (9.0 s)");
        tally.add("test without_a_time ... ok");
        let names: Vec<_> = tally.slowest.iter().map(|(took, name)| (took.as_secs_f32(), &**name)).collect();
        assert_eq!(names.len(), SLOWEST);
        assert_eq!(names[..2], [(9.0, "b::another"), (6.5, "a::number_13")]);
    }
}
