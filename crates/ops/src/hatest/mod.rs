//! `trunkline hatest`: what an application sees while servers fail. It writes numbered rows by one or more paths, reads
//! them, and at the end compares what was acknowledged with what is there.
//!
//! Always true: it is an ordinary client of any server, pooler or proxy; it never gives up a path; a write is sent once.
//! Not here: the command line's first word (crate `trunkline`). Begin with `options`, then `Test::run`.

mod answer;
mod check;
mod classic;
mod fault;
mod gaps;
mod ledger;
mod options;
mod reader;
mod report;
mod report_text;
mod run_clock;
mod schedule;
mod session;
mod statements;
mod tally;
mod target;
mod writer;

use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Write as _};
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::{User, geteuid};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

pub(crate) use answer::{Codes, Failure};
pub use options::{HatestOptions, USAGE};
pub(crate) use session::Session;
pub(crate) use target::{HostOfTarget, Machine, Target};

use check::{Checked, Verdict};
use fault::FaultRun;
use options::Named;
use reader::Reader;
use report::{Facts, Report};
use run_clock::{RunClock, Stop};
use schedule::Schedule;
use statements::Statements;
use tally::{PathTally, ReaderTally};
use writer::Writer;

/// Why there is no report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HatestError {
    /// A connection string is wrong.
    Usage(String),
    /// The test could not begin, or its report could not be written.
    Failed(String),
}

/// Runs the test, prints its report, and returns the exit status.
///
/// # Errors
/// The text is for the person at the terminal.
pub fn run(options: &HatestOptions) -> Result<u8, HatestError> {
    let test = Test::prepare(options).map_err(HatestError::Usage)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| HatestError::Failed(error.to_string()))?;
    let report = LocalSet::new().block_on(&runtime, test.run());
    // A lookup of a host name that is under way is not waited for.
    runtime.shutdown_background();
    let report = report.map_err(HatestError::Failed)?;
    let text = if options.is_json { json(&report).map_err(HatestError::Failed)? } else { report_text::text(&report) };
    // The reader may have ended (`| head`).
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(HatestError::Failed(format!("cannot write the report: {error}")))
        }
        Ok(()) | Err(_) => Ok(report.exit_code),
    }
}

fn json(report: &Report) -> Result<String, String> {
    serde_json::to_string_pretty(report).map(|text| text + "\n").map_err(|error| error.to_string())
}

/// A path or a reader.
struct Way<T> {
    name: String,
    target: Rc<Target>,
    tally: Rc<RefCell<T>>,
}

/// A run.
struct Test<'a> {
    options: &'a HatestOptions,
    paths: Vec<Way<PathTally>>,
    readers: Vec<Way<ReaderTally>>,
    verify: Rc<Target>,
    old_primary: Option<Target>,
}

impl<'a> Test<'a> {
    /// Reads the connection strings.
    fn prepare(options: &'a HatestOptions) -> Result<Self, String> {
        let machine = Machine {
            variable: &|name| std::env::var(name).ok(),
            passwords: &passwords,
            user: User::from_uid(geteuid()).ok().flatten().map(|user| user.name),
        };
        let read = |what: String, conninfo: &str| {
            Target::read(conninfo, options.connect_timeout, &machine).map_err(|why| format!("{what}: {why}"))
        };
        let paths = ways("--path", &options.paths, &read, || PathTally::new(options.writers))?;
        let readers = ways("--reader", &options.readers, &read, ReaderTally::default)?;
        let verify = match &options.verify {
            Some(conninfo) => Rc::new(read("--verify".to_owned(), conninfo)?),
            None => paths.first().map(|path| path.target.clone()).ok_or("there is no --path")?,
        };
        let old_primary = options.old_primary.as_ref();
        let old_primary = old_primary.map(|conninfo| read("--old-primary".to_owned(), conninfo)).transpose()?;
        Ok(Self { options, paths, readers, verify, old_primary })
    }

    async fn run(self) -> Result<Report, String> {
        let (sender, mut stop) = Stop::new();
        let sender = Rc::new(sender);
        listen(&sender)?;
        let run = RunClock::start().start_micros;
        let statements = Statements::new(&self.options.table, run);
        let targets: Vec<&Target> = self.paths.iter().map(|path| &*path.target).collect();
        check::prepare(&targets, &statements, &mut stop).await?;
        let clock = RunClock::start();
        self.announce(run);
        let tasks = self.start(&statements, clock, &stop);
        let fault = self.fault(clock, &stop);
        let lines = self.options.is_classic.then(|| self.lines(clock, &stop));
        let _ = stop.before(clock.until(self.options.duration)).await;
        let end = clock.now();
        // Nobody listens any more only if everybody has ended.
        let _ = sender.send(true);
        for task in tasks {
            task.await.map_err(|error| format!("a writer or reader has failed: {error}"))?;
        }
        // A command that still runs is left alone.
        let fault = fault.and_then(|fault| {
            fault.task.abort();
            fault.so_far.get()
        });
        if let Some(lines) = lines {
            lines.abort();
        }
        self.paths.iter().for_each(|path| path.tally.borrow_mut().end(end));
        self.readers.iter().for_each(|reader| reader.tally.borrow_mut().gaps.end(end));
        let verdict = self.verify(&statements).await;
        let mut report = self.report(run, clock, end, fault, verdict);
        if self.options.is_clean && report.exit_code == 0 {
            report.clean_error = check::clean(&self.verify, &statements).await.err();
        }
        Ok(report)
    }

    /// Says what begins, on standard error.
    fn announce(&self, run: i64) {
        let names = |all: &[Named]| all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
        eprintln!(
            "trunkline hatest: run {run} writes to {} for {} s; Ctrl-C ends it earlier",
            names(&self.options.paths),
            self.options.duration.as_secs_f64()
        );
    }

    fn start(&self, statements: &Statements, clock: RunClock, stop: &Stop) -> Vec<JoinHandle<()>> {
        let Self { options, paths, readers, .. } = self;
        let newest_micros = Rc::new(Cell::new(0));
        let mut tasks = Vec::new();
        for path in paths {
            for number in 0..options.writers {
                let writer = Writer {
                    path: path.name.clone(),
                    number,
                    target: path.target.clone(),
                    statements: statements.clone(),
                    schedule: Schedule::of(number, options.writers, options.every),
                    clock,
                    stop: stop.clone(),
                    answer_timeout: options.answer_timeout,
                    tally: path.tally.clone(),
                    newest_micros: newest_micros.clone(),
                };
                tasks.push(spawn_local(writer.run(options.writes_per_writer())));
            }
        }
        let numbers = |path: &'a Named| (0..options.writers).map(|number| (path.name.as_str(), number));
        let writers: Vec<(&str, u32)> = options.paths.iter().flat_map(numbers).collect();
        for (reader, at) in readers.iter().zip(0..) {
            let reader = Reader {
                target: reader.target.clone(),
                sql: statements.newest(&writers),
                schedule: Schedule::of(at, u32::try_from(readers.len()).unwrap_or(1), options.every),
                clock,
                stop: stop.clone(),
                answer_timeout: options.answer_timeout,
                tally: reader.tally.clone(),
                newest_micros: newest_micros.clone(),
            };
            tasks.push(spawn_local(reader.run()));
        }
        tasks
    }

    /// Runs the fault command when its time has come.
    fn fault(&self, clock: RunClock, stop: &Stop) -> Option<FaultTask> {
        let options::Fault { after, command } = self.options.fault.clone()?;
        let paths: Vec<_> = self.paths.iter().map(|path| path.tally.clone()).collect();
        let readers: Vec<_> = self.readers.iter().map(|reader| reader.tally.clone()).collect();
        let mut stop = stop.clone();
        let so_far = Rc::new(Cell::new(None));
        let noted = so_far.clone();
        let task = spawn_local(async move {
            if stop.before(clock.until(after)).await.is_none() {
                return;
            }
            let at = clock.now();
            paths.iter().for_each(|path| path.borrow_mut().fault(at));
            readers.iter().for_each(|reader| reader.borrow_mut().gaps.fault(at));
            let run = FaultRun { at, end: None, code: None };
            noted.set(Some(run));
            noted.set(Some(match fault::start(&command) {
                Ok(ended) => fault::wait(ended, run, clock).await,
                Err(why) => {
                    eprintln!("trunkline hatest: {why}");
                    FaultRun { end: Some(at), code: Some(NO_SHELL), ..run }
                }
            }));
        });
        Some(FaultTask { task, so_far })
    }

    /// Prints a line a second for each path and reader. With JSON they go to standard error.
    fn lines(&self, clock: RunClock, stop: &Stop) -> JoinHandle<()> {
        let paths: Vec<_> = self.paths.iter().map(|path| (path.name.clone(), path.tally.clone())).collect();
        let readers: Vec<_> = self.readers.iter().map(|reader| (reader.name.clone(), reader.tally.clone())).collect();
        let (is_json, mut stop) = (self.options.is_json, stop.clone());
        let mut next = Duration::ZERO;
        spawn_local(async move {
            loop {
                next += classic::LINE_EVERY;
                if stop.before(clock.until(next)).await.is_none() {
                    return;
                }
                let now = clock.now();
                let time = |at: Duration| classic::timestamp(clock.micros(at));
                let path =
                    paths.iter().map(|(name, tally)| classic::path_line(name, &tally.borrow().members, now, &time));
                let reader = readers.iter().map(|(name, tally)| {
                    let tally = tally.borrow();
                    let newest = tally.newest_micros.map(classic::timestamp);
                    classic::reader_line(name, &tally.members, now, newest.as_deref())
                });
                for line in path.chain(reader) {
                    let line = line + "\n";
                    // If nobody reads the lines, the test goes on.
                    let _ = match is_json {
                        true => std::io::stderr().write_all(line.as_bytes()),
                        false => std::io::stdout().write_all(line.as_bytes()),
                    };
                }
            }
        })
    }

    async fn verify(&self, statements: &Statements) -> Result<Verdict, String> {
        let tallies: Vec<_> = self.paths.iter().map(|path| path.tally.borrow()).collect();
        let checked = self.paths.iter().zip(&tallies).map(|(path, tally)| Checked {
            name: &path.name,
            ledgers: tally.writers.iter().map(|writer| &writer.ledger).collect(),
        });
        let checked: Vec<Checked<'_>> = checked.collect();
        check::verify(&self.verify, self.old_primary.as_ref(), statements, &checked).await
    }

    fn report(
        &self,
        run: i64,
        clock: RunClock,
        end: Duration,
        fault: Option<FaultRun>,
        verdict: Result<Verdict, String>,
    ) -> Report {
        let paths: Vec<_> = self.paths.iter().map(|path| path.tally.borrow()).collect();
        let readers: Vec<_> = self.readers.iter().map(|reader| reader.tally.borrow()).collect();
        Report::of(&Facts {
            run,
            table: self.options.table.join("."),
            clock,
            duration: end,
            writers: self.options.writers,
            every: self.options.every,
            fault,
            paths: self.paths.iter().zip(&paths).map(|(path, tally)| (path.name.as_str(), &**tally)).collect(),
            readers: self.readers.iter().zip(&readers).map(|(one, tally)| (one.name.as_str(), &**tally)).collect(),
            verdict,
        })
    }
}

/// The exit code of a command that cannot be started, as of a shell.
const NO_SHELL: i32 = 127;

/// The fault command that may be under way.
struct FaultTask {
    task: JoinHandle<()>,
    so_far: Rc<Cell<Option<FaultRun>>>,
}

fn ways<T>(
    option: &str,
    all: &[Named],
    read: &dyn Fn(String, &str) -> Result<Target, String>,
    tally: impl Fn() -> T,
) -> Result<Vec<Way<T>>, String> {
    let one = |Named { name, conninfo }: &Named| {
        let target = Rc::new(read(format!("{option} {name}"), conninfo)?);
        Ok(Way { name: name.clone(), target, tally: Rc::new(RefCell::new(tally())) })
    };
    all.iter().map(one).collect()
}

/// Reads a file with passwords. As in libpq, a file that others may read is not used.
fn passwords(path: &str) -> Option<String> {
    conninfo::read_private(path).unwrap_or_else(|text| {
        eprintln!("trunkline hatest: {text}");
        None
    })
}

/// The first Ctrl-C ends the run, which is then checked; the second ends the command.
fn listen(stop: &Rc<watch::Sender<bool>>) -> Result<(), String> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let signal = signal(kind).map_err(|error| format!("cannot listen for signals: {error}"))?;
        spawn_local(obey(signal, kind.as_raw_value(), stop.clone()));
    }
    Ok(())
}

async fn obey(mut signal: Signal, number: i32, stop: Rc<watch::Sender<bool>>) {
    while signal.recv().await.is_some() {
        if stop.send_replace(true) {
            // As a shell reports a program that was ended by a signal.
            std::process::exit(128 + number);
        }
        eprintln!("trunkline hatest: checking what is there; once more ends it at once");
    }
}
