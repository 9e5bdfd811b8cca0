//! Runs the tests of a binary, a few at a time, and reports how they ended.
//!
//! Always true: a panic ends its test only; the caller's guards are dropped before the program ends, unless a test hangs:
//! then all children are ended, and the run as well.
//! Not here: what is tested.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::program::end_children;
use crate::watch::Watch;

/// One test.
pub struct Test<'a> {
    /// Its name, for the filter and the report.
    pub name: String,
    /// Whether it must run while no other does, because it measures or needs the whole machine.
    pub alone: Alone,
    /// Its body; it fails by a panic.
    pub body: Box<dyn Fn() + Send + Sync + 'a>,
}

impl std::fmt::Debug for Test<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "test {}", self.name)
    }
}

/// Whether a test shares the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alone {
    /// It may run beside others.
    No,
    /// It runs when no other does.
    Yes,
    /// As `Yes`, and only when the filter names it, because it takes long.
    OnlyWhenNamed,
}

impl Alone {
    /// The time after which a test counts as hanging. It is generous: the test's own waits together have shorter limits.
    fn limit(self) -> Option<Duration> {
        match self {
            Self::No => Some(Duration::from_secs(300)),
            Self::Yes => Some(Duration::from_secs(600)),
            // As long as it is asked to.
            Self::OnlyWhenNamed => None,
        }
    }
}

/// What the command line asks for: names (or parts of names) to run, `--list`, `--jobs N`.
#[derive(Debug)]
pub struct Options {
    names: Vec<String>,
    list: bool,
    jobs: usize,
}

impl Options {
    /// Reads the command line. Flags that cargo gives to every test binary are ignored.
    pub fn from_arguments() -> Self {
        let mut options = Self { names: Vec::new(), list: false, jobs: JOBS };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => options.list = true,
                "--jobs" => options.jobs = arguments.next().and_then(|jobs| jobs.parse().ok()).unwrap_or(JOBS),
                flag if flag.starts_with('-') => {}
                name => options.names.push(name.to_string()),
            }
        }
        options
    }

    /// Returns whether the names are only to be listed.
    pub fn is_list(&self) -> bool {
        self.list
    }

    fn wants(&self, test: &Test<'_>) -> bool {
        if self.names.is_empty() {
            return test.alone != Alone::OnlyWhenNamed;
        }
        self.names.iter().any(|name| test.name.contains(name.as_str()))
    }
}

/// Returns the exit code of a test program, and prints the reason of a failure.
pub fn exit(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the names of all tests.
pub fn list(tests: &[Test<'_>]) {
    tests.iter().for_each(|test| println!("{}: test", test.name));
}

/// Runs the selected tests. Returns whether all of them passed.
pub fn run(tests: Vec<Test<'_>>, options: &Options) -> bool {
    // The place and the message help; a backtrace of the runner does not.
    std::panic::set_hook(Box::new(|panic| {
        let name = std::thread::current().name().unwrap_or("?").to_string();
        let place = panic.location().map_or(String::new(), |location| location.to_string());
        let words = panic.payload().downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.payload().downcast_ref::<&str>().copied()).unwrap_or("no words");
        eprintln!("{name}: {place}:\n  {words}");
    }));
    let begun = Instant::now();
    let wanted: Vec<_> = tests.into_iter().filter(|test| options.wants(test)).collect();
    let (together, alone): (VecDeque<_>, VecDeque<_>) = wanted.into_iter().partition(|test| test.alone == Alone::No);
    let failed = Mutex::new(Vec::new());
    let watch = Watch::begin(hung);
    let mut passed = together.len() + alone.len();
    for (tests, jobs) in [(together, options.jobs), (alone, 1)] {
        let queue = Mutex::new(tests);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(test) = next(&queue) {
                        run_one(&test, &failed, &watch)
                    }
                });
            }
        });
    }
    let failed = failed.into_inner().expect("no test holds the list");
    passed -= failed.len();
    println!("\n{passed} passed, {} failed in {:.1} s", failed.len(), begun.elapsed().as_secs_f32());
    failed.iter().for_each(|name| println!("failed: {name}"));
    failed.is_empty()
}

/// Reports that a test has nothing to test here, and why.
pub fn skip(reason: &str) {
    let name = std::thread::current().name().unwrap_or("?").to_string();
    println!("test {name}: skipped, {reason}");
}

fn next<'a>(queue: &Mutex<VecDeque<Test<'a>>>) -> Option<Test<'a>> {
    queue.lock().expect("no test holds the queue").pop_front()
}

/// When one test hangs, the others cannot be trusted to end, and no thread can be killed.
fn hung(name: &str, limit: Duration) -> ! {
    println!("test {name} ... FAILED: it hangs, {limit:?} have passed; the run ends here");
    println!("failed: {name}");
    end_children();
    println!("what it has written is left in {}", crate::place::scratch().display());
    std::process::exit(1)
}

fn run_one(test: &Test<'_>, failed: &Mutex<Vec<String>>, watch: &Watch) {
    let begun = Instant::now();
    let _watched = test.alone.limit().map(|limit| watch.over(&test.name, limit));
    // A separate thread: its name is in the panic message, and `skip` and others find the test's name by it.
    let ended = std::thread::scope(|scope| {
        let body = || catch_unwind(AssertUnwindSafe(|| (test.body)())).is_ok();
        let thread = std::thread::Builder::new().name(test.name.clone()).spawn_scoped(scope, body);
        thread.expect("a thread starts").join().unwrap_or(false)
    });
    let outcome = if ended { "ok" } else { "FAILED" };
    println!("test {} ... {outcome} ({:.1} s)", test.name, begun.elapsed().as_secs_f32());
    if !ended {
        failed.lock().expect("no test holds the list").push(test.name.clone());
    }
}

const JOBS: usize = 4;
