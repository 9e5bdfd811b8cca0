//! `trunkline doctor`: what is wrong with a PostgreSQL, its pooler and its machine while they run.
//!
//! Always true: nothing is changed anywhere; what cannot be seen is told as not evaluated, never as good. A server that vanishes in the middle does
//! not hide what was seen before.
//! Not here: what was observed (`facts`), the rules (`rules`), how findings are shown (`report`). Begin with `options`, then `run`.

mod commits;
mod division;
mod measured;
mod options;
mod rules;
mod sampling;

pub use options::{DoctorOptions, USAGE};
pub(crate) use sampling::sample;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use nix::sys::statvfs::statvfs;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::connection::{Line, Progress, Stop, address, console_target, in_database, server_target};
use crate::facts::{
    self, Answers, CONSOLE_COUNTERS, CONSOLE_TABLES, Console, Counters, DATABASE_QUERIES, Host, Inside, Observed,
    PoolUsage, Postgres, RATE_QUERIES, SERVER_QUERIES, Tally, Waits, parse_history, processor_times, starvation,
    thread_waits, usage_of_history,
};
use crate::findings::{Examined, Findings, Muted, Rule, Severity, Verdicts};
use crate::hatest::Target;
use crate::report;
use rules::{Case, DoctorRule, Observations, RULES};

/// What the command did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The report.
    pub text: String,
    /// What could not be asked, in words for an operator.
    pub problems: Vec<String>,
    /// The exit status: 0 nothing or notes, 1 warnings, 2 errors, 3 problems.
    pub status: u8,
}

/// Looks at what the options name.
///
/// # Errors
/// A connection string is wrong, or the system refuses what any program needs; in words for an operator.
pub fn run(options: &DoctorOptions) -> Result<Outcome, String> {
    let visit = Visit::prepare(options)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let seen = LocalSet::new().block_on(&runtime, visit.observe());
    // A lookup of a host name that is under way is not waited for.
    runtime.shutdown_background();
    let (seen, problems) = seen?;
    let findings = judge(&seen, options);
    let status = match findings.worst() {
        _ if !problems.is_empty() => UNREACHABLE,
        Some(Severity::Error) => 2,
        Some(Severity::Warning) => 1,
        Some(Severity::Information) | None => 0,
    };
    let rules: Vec<&Rule> = RULES.iter().map(|rule| &rule.rule).collect();
    let text = report::text(options.format, "doctor", &findings, &rules);
    Ok(Outcome { text, problems, status })
}

/// All rules as Markdown, for the reference page.
#[must_use]
pub fn reference() -> String {
    report::rules_table(RULES.iter().map(|rule| &rule.rule))
}

/// The output of `trunkline doctor --rules`.
#[must_use]
pub fn rule_list() -> String {
    RULES.iter().fold(String::new(), |mut page, DoctorRule { rule, .. }| {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{} {} {}", rule.id, rule.severity.letter(), rule.title);
        page
    })
}

/// A run.
struct Visit<'o> {
    options: &'o DoctorOptions,
    history: Observed<PoolUsage>,
    server: Option<Target>,
    pooler: Option<Target>,
}

/// A server that is being looked at.
struct Patient {
    line: Line,
    /// For the samples.
    second: Observed<Line>,
    /// For commits, if they are tried.
    third: Option<Observed<Line>>,
    postgres: Postgres,
    began: Instant,
}

impl<'o> Visit<'o> {
    fn prepare(options: &'o DoctorOptions) -> Result<Self, String> {
        let named = |option: &str, target: Result<Target, String>| target.map_err(|why| format!("{option}: {why}"));
        let server =
            options.server.as_ref().map(|conninfo| named("--server", server_target(NAME, conninfo))).transpose()?;
        let pooler =
            options.pooler.as_ref().map(|conninfo| named("--pooler", console_target(NAME, conninfo))).transpose()?;
        let history = options.history.as_deref().map_or_else(
            || Ok(Err("--history, the use of the pools over a week".to_owned())),
            |path| history(path).map(Ok).map_err(|why| format!("--history: {why}")),
        )?;
        Ok(Self { options, history, server, pooler })
    }

    async fn observe(&self) -> Result<(Observations, Vec<String>), String> {
        let mut stop = Stop::listen()?;
        let mut problems = Vec::new();
        let mut note = |why: &String| problems.push(why.clone());
        let mut server = absent("--server");
        if let Some(target) = &self.server {
            let named = |why| format!("the server: {why}");
            let admitted =
                stop.or(admit(target, self.options.is_committing)).await.unwrap_or_else(|| Err(INTERRUPTED.to_owned()));
            server = admitted.map_err(named).inspect_err(&mut note);
        }
        let mut pooler = absent("--pooler");
        if let Some(target) = &self.pooler {
            let named = |why| format!("the pooler: {why}");
            let asked = stop.or(ask_console(target)).await.unwrap_or_else(|| Err(INTERRUPTED.to_owned()));
            pooler = asked.map_err(named).inspect_err(&mut note);
        }
        let mut host = absent("--host");
        let pids = pids_of(&server);
        let times = self.options.is_host.then(|| {
            host = Ok(look_at_host(&server, &pids));
            (Instant::now(), processor_times(Path::new("/"), pids.as_deref().unwrap_or_default()))
        });
        let root = Path::new("/");
        let threads = self.options.pooler_pid.map(|pid| (pid, Instant::now(), thread_waits(root, pid)));
        let waits = self.watch(&mut server, pooler.is_ok(), &mut stop).await;
        let starved = match threads {
            None => Err("--pooler-pid".to_owned()),
            Some(_) if self.options.time.is_zero() => Err("a second reading (--seconds)".to_owned()),
            Some((pid, began, before)) => {
                before.and_then(|before| starvation(&before, &thread_waits(root, pid)?, began.elapsed().as_secs_f64()))
            }
        };
        if let (Err(why), Some(pid)) = (&starved, self.options.pooler_pid) {
            note(&format!("the pooler's process {pid}: {why}"));
        }
        if let (Ok(host), Some((began, before))) = (&mut host, times) {
            let seconds = began.elapsed().as_secs_f64();
            if !self.options.time.is_zero() {
                let after = processor_times(Path::new("/"), pids.as_deref().unwrap_or_default());
                let share = |(pid, time): (u32, f64)| Some((pid, (time - before.get(&pid)?) / seconds));
                host.usage = Ok(after.into_iter().filter_map(share).collect());
            }
        }
        let pooler = match pooler {
            Ok((line, mut console, began)) => {
                console.after = self.ask_console_again(line, began, &mut problems).await;
                Ok(console)
            }
            Err(why) => Err(why),
        };
        let server = match server {
            Ok(patient) => Ok(self.dismiss(patient, &mut stop, &mut problems).await),
            Err(why) => Err(why),
        };
        Ok((Observations { server, waits, host, pooler, starved, history: self.history.clone() }, problems))
    }

    /// Lets the time between the readings pass, and samples in it.
    async fn watch(&self, server: &mut Observed<Patient>, has_pooler: bool, stop: &mut Stop) -> Observed<Waits> {
        let time = self.options.time;
        if time.is_zero() {
            return Err("samples of waits (--seconds)".to_owned());
        }
        if self.server.is_none() && self.pooler.is_none() {
            return Err("--server".to_owned());
        }
        let progress = Progress::of(time, "sampling waits");
        let begin = Instant::now();
        let hidden = |postgres: &Postgres| postgres.about.as_ref().ok().and_then(|about| about.sees_sessions().err());
        let waits = match server {
            Ok(patient) if hidden(&patient.postgres).is_some() => Err(hidden(&patient.postgres).unwrap_or_default()),
            Ok(Patient { second: Ok(line), third, postgres, .. }) => {
                let mut other_stop = stop.clone();
                let commits = async {
                    match third {
                        Some(Ok(line)) => Some(commits::probe(line, time, &mut other_stop).await),
                        Some(Err(why)) => Some(Err(why.clone())),
                        None => None,
                    }
                };
                let samples = sampling::sample(line, time, self.options.every, stop, |share| progress.show(share));
                let (waits, commits) = tokio::join!(samples, commits);
                if let Some(commits) = commits {
                    postgres.commits = commits;
                }
                match line.lost() {
                    _ if waits.samples > 0 => Ok(waits),
                    Some(why) => Err(format!("samples of waits ({why})")),
                    None => Err("samples of waits (none was answered)".to_owned()),
                }
            }
            Ok(Patient { second: Err(why), .. }) | Err(why) => Err(why.clone()),
        };
        // A second reading of the rest, at its time.
        if has_pooler || server.is_ok() && waits.is_err() {
            let _ = stop.or(progress.pass(time.saturating_sub(begin.elapsed()))).await;
        }
        progress.end();
        waits
    }

    async fn ask_console_again(
        &self,
        mut line: Line,
        began: Instant,
        problems: &mut Vec<String>,
    ) -> Observed<(f64, Tally)> {
        let seconds = began.elapsed().as_secs_f64();
        let mut answers = Answers::default();
        if !self.options.time.is_zero() {
            line.show(&CONSOLE_COUNTERS, &mut answers).await;
        }
        problems.extend(line.lost().map(|why| format!("the pooler: {why}")));
        line.close().await;
        if self.options.time.is_zero() {
            Err("a second reading (--seconds)".to_owned())
        } else {
            Ok((seconds, Tally::read(&answers)?))
        }
    }

    /// The second reading of the server, then a look into each database: the connections for that are no part of the rates.
    async fn dismiss(&self, patient: Patient, stop: &mut Stop, problems: &mut Vec<String>) -> Postgres {
        let Patient { mut line, second, third, mut postgres, began } = patient;
        let major = postgres.major();
        if !self.options.time.is_zero() {
            let mut answers = Answers::default();
            let seconds = began.elapsed().as_secs_f64();
            line.ask(RATE_QUERIES, major, &mut answers).await;
            postgres.after = line.lost().map_or_else(
                || Ok((seconds, Counters::read(&answers))),
                |why| Err(format!("a second reading ({why})")),
            );
        }
        let lost =
            line.lost().map(str::to_owned).or(second.as_ref().ok().and_then(|line| line.lost().map(str::to_owned)));
        for other in [Some(second), third].into_iter().flatten().flatten() {
            other.close().await;
        }
        problems.extend(lost.clone().map(|why| format!("the server: {why}")));
        line.close().await;
        let names: Vec<String> = postgres
            .databases
            .iter()
            .flatten()
            .filter(|one| one.may_connect && one.name != "template0")
            .map(|one| one.name.clone())
            .collect();
        for name in names {
            let inside = match (&lost, &self.server) {
                (Some(why), _) => Err(why.clone()),
                _ if postgres.inside.len() >= DATABASES_MAX => {
                    Err(format!("only {DATABASES_MAX} databases are looked into"))
                }
                (None, Some(target)) => {
                    let target = in_database(target, &name);
                    let looked = stop.or(look_inside(&target, major)).await;
                    looked.unwrap_or_else(|| Err(INTERRUPTED.to_owned()))
                }
                (None, None) => Err("--server".to_owned()),
            };
            postgres.inside.push((name, inside));
        }
        postgres
    }
}

/// The use of pools that a file tells.
fn history(path: &str) -> Result<PoolUsage, String> {
    let bytes = facts::read(path).map_err(|why| format!("{path}: {why}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{path}: it is not UTF-8"))?;
    let readings = parse_history(&text).map_err(|why| format!("{path}: {why}"))?;
    Ok(usage_of_history(&readings))
}

fn absent<T>(option: &str) -> Observed<T> {
    Err(option.to_owned())
}

/// Connects to a server and reads it for the first time.
async fn admit(target: &Target, is_committing: bool) -> Observed<Patient> {
    let mut line = Line::open(target).await?;
    let mut answers = Answers::default();
    let (settings, rest) = SERVER_QUERIES.split_at(QUERIES_BEFORE_LIMITS);
    line.ask(settings, 0, &mut answers).await;
    let major = Postgres::read("", &answers).major();
    line.limit().await;
    line.ask(rest, major, &mut answers).await;
    let mut second = Line::open(target).await.map_err(|why| format!("a second connection for samples ({why})"));
    if let Ok(second) = &mut second {
        second.limit().await;
    }
    let mut third = None;
    if is_committing {
        third = Some(Line::open(target).await.map_err(|why| format!("a connection for commits ({why})")));
    }
    let began = Instant::now();
    line.ask(RATE_QUERIES, major, &mut answers).await;
    let mut postgres = Postgres::read(&address(target), &answers);
    if is_committing {
        postgres.commits = Err("samples of waits, beside which commits are tried".to_owned());
    }
    Ok(Patient { line, second, third, postgres, began })
}

async fn ask_console(target: &Target) -> Observed<(Line, Console, Instant)> {
    let mut line = Line::open(target).await?;
    let mut answers = Answers::default();
    line.show(&CONSOLE_TABLES, &mut answers).await;
    let began = Instant::now();
    line.show(&CONSOLE_COUNTERS, &mut answers).await;
    let console = Console::read(&address(target), &answers);
    // Something else than a console has none of its tables.
    match &console.databases {
        Err(why) if console.pools.is_err() => Err(why.clone()),
        _ => Ok((line, console, began)),
    }
}

async fn look_inside(target: &Target, major: u32) -> Observed<Inside> {
    let mut line = Line::open(target).await?;
    line.limit().await;
    let mut answers = Answers::default();
    line.ask(DATABASE_QUERIES, major, &mut answers).await;
    line.close().await;
    Ok(Inside::read(&answers))
}

fn pids_of(server: &Observed<Patient>) -> Observed<Vec<u32>> {
    let postgres = &server.as_ref().map_err(String::clone)?.postgres;
    let activity = postgres.activity.as_ref().map_err(String::clone)?;
    Ok(activity.iter().map(|one| one.pid).collect())
}

fn look_at_host(server: &Observed<Patient>, pids: &Observed<Vec<u32>>) -> Host {
    let directory = server.as_ref().ok().and_then(|patient| patient.postgres.setting("data_directory").ok());
    let mut host = Host::read(Path::new("/"), pids, directory);
    // A server of another machine has a directory of that name there.
    if let (Some(directory), true) = (directory, host.processes.is_ok()) {
        host.disk = statvfs(directory).ok().map(|disk| disk.blocks() as f64 * disk.fragment_size() as f64);
    }
    host
}

fn judge(seen: &Observations, options: &DoctorOptions) -> Findings {
    let case = Case { seen, given: &options.given };
    let mut findings = Findings { examined: examined(seen), measured: measured::tables(&case), ..Findings::default() };
    for DoctorRule { rule, check } in RULES {
        let mut verdicts = Verdicts::of(rule);
        check(&case, &mut verdicts);
        let (fired, unevaluated) = verdicts.into_parts();
        if fired.is_empty() && unevaluated.is_empty() {
            findings.good.push(rule.id);
        }
        findings.unevaluated.extend(unevaluated);
        let mute = options.mutes.iter().find(|(name, _)| name == rule.id);
        match mute {
            Some((_, reason)) => {
                let muted = |finding| Muted { finding, reason: reason.clone(), line: 0 };
                findings.muted.extend(fired.into_iter().map(muted));
            }
            None => findings.found.extend(fired),
        }
    }
    findings.sort();
    findings
}

/// What was looked at.
fn examined(seen: &Observations) -> Vec<Examined> {
    let mut examined = Vec::new();
    let mut add = |file: &str, kind: String| examined.push(Examined { file: file.to_owned(), kind: kind.into() });
    if let Ok(server) = &seen.server {
        let words = match &server.about {
            Ok(about) => {
                let role = if about.is_in_recovery { "a standby" } else { "a primary" };
                let rights = if about.has_pg_monitor { "" } else { "; our role has no pg_monitor, and sees little" };
                format!("PostgreSQL {}, {role}{rights}", about.words)
            }
            Err(why) => format!("PostgreSQL? It did not answer: {why}"),
        };
        add(&server.address, words);
    }
    if let Ok(pooler) = &seen.pooler {
        let name = if pooler.is_ours { "the console of Trunkline" } else { "the console of PgBouncer" };
        add(&pooler.address, format!("{name} ({})", pooler.version));
    }
    if seen.host.is_ok() {
        add("host", "this machine".to_owned());
    }
    examined
}

/// The server's version, and its settings.
const QUERIES_BEFORE_LIMITS: usize = 2;
/// Databases that are looked into.
const DATABASES_MAX: usize = 100;
const NAME: &str = "trunkline doctor";
const INTERRUPTED: &str = "a run that is not ended before its time";
/// The exit status if a server or pooler could not be asked everything.
const UNREACHABLE: u8 = 3;
