//! `trunkline simulate --real`: the same spec against a real server, directly and through poolers.
//!
//! Always true: nothing is written into a server that was not made for the run, unless the command line says that it may be; what was made
//! is removed. Targets are run by turns; a run whose generator was not good enough is void and says so; books that do not balance make the run fail.
//! Not here: the virtual clock (`engine`), which only says what would have been expected.

mod book;
mod cell;
mod expected;
mod facts;
mod incidents;
mod ini;
mod objects;
mod odyssey;
mod play;
mod probe;
mod server;
mod sessions;
mod stage;
mod target;
mod watch;

pub(super) use facts::RealRun;
pub(crate) use target::TargetKind;

use std::time::Instant;

use super::SimulateError;
use super::course::{Study, asked_for, mistaken, settings, watched};
use super::engine::Outcome;
use super::experiment::{knee, point_of};
use super::options::SimulateOptions;
use super::report::{Chapter, Part, Report};
use super::spec::{Happening, Mistake, Spec, SpecTree};
use crate::load::{ratio, turns};
use crate::table::short;
use crate::trial::TrialError;
use cell::Cell;
use objects::Objects;
use stage::Stage;

/// Reads a spec and runs it at each target.
pub(super) fn tell(text: &str, options: &SimulateOptions) -> Result<Report, SimulateError> {
    let (tree, spec, sweeps) = asked_for(text, options)?;
    let settings = settings(&tree, &sweeps)?;
    let targets = match options.targets.is_empty() {
        true => vec![TargetKind::Trunkline(None)],
        false => options.targets.clone(),
    };
    let is_made = options.server.is_none();
    let mistakes: Vec<Mistake> = settings.iter().flat_map(|(_, spec)| unplayable(spec, &targets, is_made)).collect();
    if !mistakes.is_empty() {
        return Err(mistaken(mistakes));
    }
    let mut stage = Stage::open(&settings, &targets, options).map_err(SimulateError::Failed)?;
    let began = Instant::now();
    let cells = run_cells(&mut stage, &settings, &targets)?;
    let paths: Vec<String> = sweeps.iter().map(|sweep| sweep.path.clone()).collect();
    let studies = studies(&tree, &spec, paths, &settings, &targets, cells, began);
    let report = report(&spec, &settings, &targets, studies, &stage);
    if options.keeps {
        stage.wait();
    }
    Ok(report)
}

/// What the real way does not play, at these targets, and at a server that was made for the run or is somebody's.
fn unplayable(spec: &Spec, targets: &[TargetKind], is_made: bool) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut wrong = |text: String| mistakes.push(Mistake { line: 0, text });
    for event in &spec.events {
        match event.what {
            Happening::Restart { .. } if !is_made => wrong(
                "events: \"restart\" restarts a server that is made for the run, and never one that --server names"
                    .to_owned(),
            ),
            Happening::Reload { .. } if targets.iter().any(|target| target.given().is_some()) => wrong(
                "events: \"reload\" needs a configuration that is made of the spec, and not that of a given file"
                    .to_owned(),
            ),
            _ => {}
        }
    }
    if spec.databases.iter().any(|database| database.pooler.limits.mode == pool::Mode::Statement) {
        wrong("pool_mode: with \"statement\" there are no transactions, which --real plays".to_owned());
    }
    if spec.databases.len() > DATABASES_MAX || spec.tenants() > TENANTS_MAX {
        wrong(format!("databases: --real makes at most {DATABASES_MAX} databases and {TENANTS_MAX} tenants"));
    }
    if spec.duration > DURATION_MAX {
        wrong(format!("duration: --real takes it in real time, at most {} hours", DURATION_MAX / 3_600_000_000));
    }
    mistakes
}

/// One run of a setting at a target.
struct Run {
    setting: usize,
    target: usize,
    round: u32,
    cell: Cell,
}

/// Runs all settings at all targets by turns, until it is interrupted.
fn run_cells(
    stage: &mut Stage,
    settings: &[(Vec<String>, Spec)],
    targets: &[TargetKind],
) -> Result<Vec<Run>, SimulateError> {
    let rounds = settings.iter().map(|(_, spec)| spec.replications).max().unwrap_or(1);
    let order = turns(targets.len() * settings.len(), rounds as usize);
    let trial = stage.trial();
    let interrupt = &trial.interrupt;
    let mut runs: Vec<Run> = Vec::new();
    let outcome: Result<(), String> = watched(order.len() as u64, interrupt, |progress| {
        for (number, place) in order.iter().enumerate() {
            let (setting, target) = (place % settings.len(), place / settings.len());
            let round = (number / (targets.len() * settings.len())) as u32;
            let (values, spec) = &settings[setting];
            if interrupt.is_raised() {
                return Ok(());
            }
            let mut seen = 0.0;
            let mut goes_on = |share: f64| {
                progress.advance(share - seen);
                seen = share;
                !interrupt.is_raised()
            };
            let objects = Objects::of(spec);
            let seed = spec.seed + u64::from(round);
            let cell = stage.run(spec, &objects, &targets[target], (setting, number as u32), seed, &mut goes_on);
            let cell = cell.map_err(|why| match values.is_empty() {
                true => format!("{}: {why}", targets[target].name()),
                false => format!("{} with {}: {why}", targets[target].name(), values.join(", ")),
            })?;
            goes_on(1.0);
            runs.push(Run { setting, target, round, cell });
        }
        Ok(())
    });
    match outcome {
        Ok(()) => Ok(runs),
        // What is known by then is told, unless it is nothing.
        Err(_) if interrupt.is_raised() => Ok(runs),
        Err(why) => Err(SimulateError::Failed(why)),
    }
}

/// A study for each target.
fn studies(
    tree: &SpecTree,
    spec: &Spec,
    paths: Vec<String>,
    settings: &[(Vec<String>, Spec)],
    targets: &[TargetKind],
    runs: Vec<Run>,
    began: Instant,
) -> Vec<Study> {
    let mut found: Vec<Vec<Vec<(u32, Outcome)>>> = vec![vec![Vec::new(); settings.len()]; targets.len()];
    let mut real: Vec<Vec<RealRun>> = vec![Vec::new(); targets.len()];
    for run in runs {
        found[run.target][run.setting].push((run.round, run.cell.outcome));
        real[run.target].push(run.cell.facts);
    }
    let mut studies = Vec::new();
    for ((target, outcomes), real) in targets.iter().zip(found).zip(real) {
        let wanted = spec.replications as usize * settings.len();
        let points: Vec<_> =
            settings.iter().zip(outcomes).filter_map(|((values, _), outcomes)| point_of(values, outcomes)).collect();
        let is_line = paths.len() == 1 && points.iter().all(|point| point.x.is_some());
        let knee = if is_line && real.len() == wanted { knee(&points, &spec.knee, spec.seed) } else { None };
        let mut spec = spec.clone();
        spec.title = format!("{}, {}", spec.title, target.name());
        studies.push(Study {
            tree: tree.clone(),
            spec,
            paths: paths.clone(),
            points,
            knee,
            left_out: wanted - real.len(),
            took: began.elapsed(),
            real,
        });
    }
    studies
}

/// The report: the targets side by side, what was to be expected, each target by itself.
fn report(
    spec: &Spec,
    settings: &[(Vec<String>, Spec)],
    targets: &[TargetKind],
    studies: Vec<Study>,
    stage: &Stage,
) -> Report {
    let title = format!("{}, for real", spec.title);
    let mut chapters = Vec::new();
    if studies.len() > 1 && studies.iter().all(|study| study.paths.is_empty()) {
        chapters.push(Chapter {
            title: "The targets side by side".to_owned(),
            words: ratios(&studies, spec.seed),
            part: Part::Comparison(studies.clone()),
        });
    }
    let poolers: Vec<Option<bool>> = targets.iter().map(TargetKind::is_pgbouncer).collect();
    let mut left_out: Vec<Vec<String>> = targets.iter().map(|target| target.left_out(settings)).collect();
    left_out.reverse();
    let expected = expected::table(&studies, settings, &poolers, stage.logins());
    for study in studies {
        let words = std::iter::once(stage.words()).chain(left_out.pop().unwrap_or_default());
        let words = words.chain(study.real.iter().flat_map(RealRun::words)).collect();
        chapters.push(Chapter { title: study.spec.title.clone(), words, part: Part::Study(Box::new(study)) });
    }
    chapters.extend(expected);
    Report { title, chapters }
}

/// The target of a study.
fn name(study: &Study) -> &str {
    study.real.first().map_or("", |run| run.target.as_str())
}

/// How the targets compare, by pairs of the same round.
fn ratios(studies: &[Study], seed: u64) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(first) = studies.first() else { return lines };
    for other in &studies[1..] {
        let pairs = |figure: fn(&super::experiment::Figures) -> f64| -> Vec<(f64, f64)> {
            let runs = |study: &Study| -> Vec<f64> {
                study.points.first().map(|point| point.runs.iter().map(figure).collect()).unwrap_or_default()
            };
            runs(other).into_iter().zip(runs(first)).collect()
        };
        let names = format!("{} over {}", name(other), name(first));
        for (what, pairs) in [
            ("responses (p99)", pairs(|figures| figures.response_p99)),
            ("processor time of the server for a transaction", pairs(|figures| figures.cpu_per_thousand)),
        ] {
            if let Some(ratio) = ratio(&pairs, 0.95, seed) {
                let (value, low, high) = (short(ratio.value), short(ratio.low), short(ratio.high));
                lines.push(format!("{names}, {what}: {value} (95 %: {low} to {high})."));
            }
        }
    }
    if lines.is_empty() {
        lines.push("With --replications 2 or more, ratios are told with their intervals.".to_owned());
    }
    lines
}

impl From<TrialError> for SimulateError {
    fn from(why: TrialError) -> Self {
        Self::Failed(why.to_string())
    }
}

const DATABASES_MAX: usize = 50;
const TENANTS_MAX: u32 = 2000;
/// Eight hours.
const DURATION_MAX: u64 = 8 * 3_600_000_000;
