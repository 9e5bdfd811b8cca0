//! What the programs of Rust's drivers share: the settings, and how they report the outcome of a case.
//!
//! Always true: a case fails by an error or a panic, and the others continue; each has its own time limit.
//! Not here: the cases.

use std::error::Error;
use std::fmt::Display;
use std::panic::Location;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// The settings of a program.
pub struct Given {
    pub port: u16,
    pub sockets: String,
    pub database: String,
    pub secret: String,
    /// direct, transaction or session
    pub mode: String,
    pub ca: String,
    pub cert: String,
    pub key: String,
}

/// Why a case did not pass.
#[derive(Debug)]
pub enum Failure {
    /// It did not do what it should.
    Failed(String),
    /// The driver cannot do this, or it makes no sense here.
    Impossible(String),
}

pub type Outcome = Result<(), Failure>;

/// A case that has begun.
pub type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A case, by its name.
pub type Case = (&'static str, fn() -> Running);

/// Any error fails the case, with the line of it.
impl<E: Error> From<E> for Failure {
    #[track_caller]
    fn from(error: E) -> Self {
        Self::Failed(format!("line {}: {}", Location::caller().line(), whole(&error)))
    }
}

impl Given {
    /// Reads the environment.
    pub fn read() -> Self {
        let told = |name: &str| std::env::var(format!("DRIVERS_{name}")).unwrap_or_default();
        Self {
            port: told("PORT").parse().expect("DRIVERS_PORT is a port"),
            sockets: told("SOCKETS"),
            database: told("DATABASE"),
            secret: told("SECRET"),
            mode: told("MODE"),
            ca: told("CA"),
            cert: told("CERT"),
            key: told("KEY"),
        }
    }

    pub fn is_direct(&self) -> bool {
        self.mode == "direct"
    }

    /// Ends a case that makes no sense with PostgreSQL itself.
    pub fn through_pooler(&self) -> Outcome {
        match self.is_direct() {
            true => impossible("PostgreSQL has no console"),
            false => Ok(()),
        }
    }

    /// The SQLSTATE for a wrong password. Like PgBouncer, the pooler has one code for everything that it refuses at a login.
    pub fn auth_wrong_code(&self) -> &'static str {
        if self.is_direct() { "28P01" } else { "08P01" }
    }

    /// A query that is still running when its client vanishes. PostgreSQL itself lets it run on, so it is short there.
    pub fn slept_midway(&self, mark: &str) -> String {
        format!("select pg_sleep({}) /* {mark} */", if self.is_direct() { 3 } else { 50 })
    }

    /// Checks an answer to an unnamed statement that was prepared one round trip earlier: the answer, or the code of the
    /// error that came instead.
    pub fn unnamed(&self, found: Result<&str, &str>, wanted: &str) -> Outcome {
        match found {
            Ok(answer) if answer == wanted => Ok(()),
            other => Err(Failure::Failed(format!("a foreign answer: {other:?}, not {wanted}"))),
        }
    }
}

/// Ends a case that is impossible.
pub fn impossible(reason: &str) -> Outcome {
    Err(Failure::Impossible(reason.into()))
}

/// A value that nobody else asks for, so that an answer shows whose it is.
pub fn tag(name: &str, number: usize) -> String {
    format!("{name}-{}-{number}", std::process::id())
}

/// An error with all its causes.
pub fn whole(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        words = format!("{words}: {deeper}");
        cause = deeper.source();
    }
    words
}

/// Fails the case when these differ.
#[track_caller]
pub fn same<A: std::fmt::Debug + PartialEq<B>, B: std::fmt::Debug>(what: impl Display, found: A, wanted: B) {
    check(found == wanted, format_args!("{what}: {found:?}, not {wanted:?}"));
}

/// Fails the case when this does not hold.
#[track_caller]
pub fn check(holds: bool, words: impl Display) {
    assert!(holds, "line {}: {words}", Location::caller().line());
}

/// A query that runs longer than a case may, with a mark.
pub fn slept(mark: &str) -> String {
    format!("select pg_sleep(50) /* {mark} */")
}

/// The query that counts how many other sessions run a query with this mark.
pub fn is_running(mark: &str) -> String {
    format!(
        "select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and query like '%{mark}%'"
    )
}

/// Waits a little before the next check.
pub async fn look_again(mark: &str, begun: Instant) {
    check(begun.elapsed() < Duration::from_secs(20), format_args!("{mark} does not run"));
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Runs so many at once; fails with all their errors.
pub async fn together<F>(count: usize, one: impl Fn(usize) -> F) -> Outcome
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let tasks: Vec<_> = (0..count).map(|number| tokio::spawn(one(number))).collect();
    let (mut failures, mut impossible) = (Vec::new(), None);
    for task in tasks {
        match task.await {
            Ok(Ok(())) => {}
            Ok(Err(Failure::Failed(words))) => failures.push(words),
            Ok(Err(other)) => impossible = Some(other),
            Err(panic) => failures.push(words_of(panic)),
        }
    }
    match (failures.is_empty(), impossible) {
        (false, _) => Err(Failure::Failed(failures.join("; "))),
        (true, Some(impossible)) => Err(impossible),
        (true, None) => Ok(()),
    }
}

/// Runs the cases that are named on the command line.
pub fn run(driver: &str, cases: &[Case]) {
    say(&format!("version {}", version(driver)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    for name in std::env::args().skip(1) {
        say(&format!("begin {name}"));
        let case = cases.iter().find(|(known, _)| *known == name);
        let verdict = match case {
            None => "fail the program has no such case".to_owned(),
            Some((_, case)) => runtime.block_on(verdict(case())),
        };
        say(&format!("case {name} {verdict}"));
    }
    // Tasks that a failed case has left must not delay the end of the program.
    runtime.shutdown_background();
}

async fn verdict(case: Running) -> String {
    let task = tokio::spawn(case);
    let stop = task.abort_handle();
    match tokio::time::timeout(CASE_MAX, task).await {
        Ok(Ok(Ok(()))) => "pass".to_owned(),
        Ok(Ok(Err(Failure::Failed(words)))) => format!("fail {words}"),
        Ok(Ok(Err(Failure::Impossible(words)))) => format!("none {words}"),
        Ok(Err(panic)) => format!("fail {}", words_of(panic)),
        Err(_) => {
            stop.abort();
            format!("fail {CASE_MAX:?} have passed")
        }
    }
}

fn words_of(panic: tokio::task::JoinError) -> String {
    let Ok(payload) = panic.try_into_panic() else { return "it was given up".to_owned() };
    let words = payload.downcast_ref::<String>().cloned();
    words.or_else(|| payload.downcast_ref::<&str>().map(|words| (*words).to_owned())).unwrap_or_default()
}

/// The driver's version in the lock file.
fn version(driver: &str) -> &'static str {
    let name = format!("name = \"{driver}\"\nversion = \"");
    let lock = include_str!("../Cargo.lock");
    lock.split_once(&*name).and_then(|(_, rest)| rest.split('"').next()).unwrap_or("?")
}

fn say(line: &str) {
    println!("{}", line.split_whitespace().collect::<Vec<_>>().join(" "));
}

/// The cases, named by their functions.
#[macro_export]
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        &[$((stringify!($name), || -> $crate::Running { Box::pin($name()) })),+]
    };
}

/// The time limit of a case.
const CASE_MAX: Duration = Duration::from_secs(60);

/// `lock_timeout`: shorter than that.
pub const LOCK_MAX: &str = "20s";

/// The size of a big value.
pub const BIG: usize = 64 << 20;

