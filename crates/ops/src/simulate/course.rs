//! The course of a simulation: spec, settings, runs with a progress bar, knee, report.
//!
//! Always true: nothing is run before the whole spec, in all its settings, has been checked. Ctrl-C ends with what is known.
//! Not here: exit statuses of wrong usage (crate `trunkline`).

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::SimulateError;
use super::experiment::{Knee, Point, Progress, knee, run_all};
use super::options::{SimulateOptions, SpecSource};
use super::presets;
use super::real::RealRun;
use super::spec::{Mistake, Spec, SpecTree};
use super::sweep::{Sweep, plain};
use crate::trial::Interrupt;

/// A spec with the settings of its sweeps, and what came of them.
#[derive(Clone, Debug)]
pub(super) struct Study {
    /// The spec as it was written, and what was set.
    pub(super) tree: SpecTree,
    /// The spec without what is swept.
    pub(super) spec: Spec,
    /// The paths that are swept.
    pub(super) paths: Vec<String>,
    pub(super) points: Vec<Point>,
    pub(super) knee: Option<Knee>,
    /// Settings that were not simulated, because it was ended early.
    pub(super) left_out: usize,
    /// The time that it took.
    pub(super) took: Duration,
    /// What real runs tell besides; empty if it was simulated.
    pub(super) real: Vec<RealRun>,
}

impl Study {
    /// Whether the books of all runs balance.
    pub(super) fn balances(&self) -> bool {
        self.points.iter().all(|point| point.total.balances())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.left_out == 0 && self.points.iter().all(|point| point.total.is_complete)
    }
}

/// The text of a spec.
pub(super) fn text_of(source: &SpecSource) -> Result<String, SimulateError> {
    match source {
        SpecSource::Preset(name) => {
            presets::find(name).map(|preset| preset.text.to_owned()).map_err(SimulateError::Usage)
        }
        SpecSource::File(path) => read_file(path).map_err(SimulateError::Failed),
    }
}

fn read_file(path: &str) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|why| format!("cannot read \"{path}\": {why}"))?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("\"{path}\" has {size} bytes; at most {FILE_BYTES_MAX} are read"));
    }
    std::fs::read_to_string(path).map_err(|why| format!("cannot read \"{path}\": {why}"))
}

/// Reads a spec with the values and sweeps that the options say.
pub(super) fn asked_for(text: &str, options: &SimulateOptions) -> Result<(SpecTree, Spec, Vec<Sweep>), SimulateError> {
    let mut tree = SpecTree::parse(text).map_err(mistaken)?;
    for (path, value) in &options.values {
        tree.set(path, value).map_err(|why| SimulateError::Usage(format!("--set: {why}")))?;
    }
    let spec = read_spec(&tree)?;
    let mut sweeps = options.sweeps.clone();
    if let (true, Some(sweep)) = (sweeps.is_empty(), &spec.sweep) {
        sweeps.push(Sweep::parse(sweep).map_err(|why| SimulateError::Usage(format!("sweep: {why}")))?);
    }
    Ok((tree, spec, sweeps))
}

/// Reads a spec and runs it with its sweeps.
pub(super) fn study(text: &str, options: &SimulateOptions, interrupt: &Interrupt) -> Result<Study, SimulateError> {
    let (tree, spec, sweeps) = asked_for(text, options)?;
    study_of(&tree, spec, &sweeps, options.threads, interrupt)
}

/// Runs the settings of sweeps.
pub(super) fn study_of(
    tree: &SpecTree,
    spec: Spec,
    sweeps: &[Sweep],
    threads: usize,
    interrupt: &Interrupt,
) -> Result<Study, SimulateError> {
    let began = Instant::now();
    let settings = settings(tree, sweeps)?;
    let threads = threads_of(threads);
    let found = with_progress(&settings, threads, interrupt);
    let left_out = found.iter().filter(|point| point.is_none()).count();
    let mut points: Vec<Point> = found.into_iter().flatten().collect();
    let is_line = sweeps.len() == 1 && sweeps[0].numbers().is_some();
    let is_whole = left_out == 0 && points.iter().all(|point| point.total.is_complete);
    let mut found = if is_line && is_whole { knee(&points, &spec.knee, spec.seed) } else { None };
    while let Some(between) =
        found.filter(|_| left_out == 0 && !interrupt.is_raised()).and_then(|knee| halfway(&knee, &sweeps[0], &spec))
    {
        let sweep = Sweep { path: sweeps[0].path.clone(), values: vec![plain(between)] };
        let more = with_progress(&self::settings(tree, &[sweep])?, threads, interrupt);
        points.extend(more.into_iter().flatten());
        points.sort_by(|a, b| a.x.unwrap_or(0.0).total_cmp(&b.x.unwrap_or(0.0)));
        found = knee(&points, &spec.knee, spec.seed);
    }
    let paths = sweeps.iter().map(|sweep| sweep.path.clone()).collect();
    Ok(Study {
        tree: tree.clone(),
        spec,
        paths,
        points,
        knee: found,
        left_out,
        took: began.elapsed(),
        real: Vec::new(),
    })
}

/// Runs specs that have nothing to do with each other, at once.
pub(super) fn studies_of(specs: Vec<(SpecTree, Spec)>, threads: usize, interrupt: &Interrupt) -> Vec<Study> {
    let began = Instant::now();
    let (trees, specs): (Vec<SpecTree>, Vec<Spec>) = specs.into_iter().unzip();
    let settings: Vec<(Vec<String>, Spec)> = specs.into_iter().map(|spec| (Vec::new(), spec)).collect();
    let points = with_progress(&settings, threads_of(threads), interrupt);
    let mut studies = Vec::new();
    for ((tree, (_, spec)), point) in trees.into_iter().zip(settings).zip(points) {
        studies.push(Study {
            tree,
            spec,
            paths: Vec::new(),
            left_out: usize::from(point.is_none()),
            points: point.into_iter().collect(),
            knee: None,
            took: began.elapsed(),
            real: Vec::new(),
        });
    }
    studies
}

/// 0 is as many as there are processors.
pub(super) fn threads_of(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    }
}

/// A value between the knee and the one below it, until they are neighbours: whole numbers, or one server of a database.
fn halfway(knee: &Knee, sweep: &Sweep, spec: &Spec) -> Option<f64> {
    let below = knee.below?;
    let numbers = sweep.numbers()?;
    let of_database = |database: &super::spec::Database| database.groups.iter().map(|group| group.tenants).sum::<u32>();
    let slots = spec.databases.iter().map(of_database).max().unwrap_or(1).max(1);
    let step = match &sweep.path {
        path if path.ends_with("conns_per_tenant") => 1.0 / f64::from(slots),
        _ if numbers.iter().all(|number| number.fract() == 0.0) => 1.0,
        _ => (numbers[numbers.len() - 1] - numbers[0]) / 100.0,
    };
    if knee.at - below < 1.5 * step {
        return None;
    }
    let middle = (f64::midpoint(knee.at, below) / step).round() * step;
    let is_between = middle > below + step * 0.25 && middle < knee.at - step * 0.25;
    is_between.then_some(middle)
}

/// All combinations of the values of sweeps.
pub(super) fn settings(tree: &SpecTree, sweeps: &[Sweep]) -> Result<Vec<(Vec<String>, Spec)>, SimulateError> {
    let mut combined: Vec<(Vec<String>, SpecTree)> = vec![(Vec::new(), tree.clone())];
    for sweep in sweeps {
        let mut more = Vec::new();
        for (values, tree) in &combined {
            for value in &sweep.values {
                let mut tree = tree.clone();
                tree.set(&sweep.path, value).map_err(|why| SimulateError::Usage(format!("--sweep: {why}")))?;
                more.push(([&values[..], std::slice::from_ref(value)].concat(), tree));
            }
        }
        combined = more;
    }
    combined.into_iter().map(|(values, tree)| read_spec(&tree).map(|spec| (values, spec))).collect()
}

pub(super) fn read_spec(tree: &SpecTree) -> Result<Spec, SimulateError> {
    Spec::read(tree, &read_file).map_err(mistaken)
}

pub(super) fn mistaken(list: Vec<Mistake>) -> SimulateError {
    let lines: Vec<String> = list.iter().take(MISTAKES_MAX).map(ToString::to_string).collect();
    let more = match list.len().saturating_sub(MISTAKES_MAX) {
        0 => String::new(),
        more => format!("\n... and {more} more"),
    };
    SimulateError::Spec(format!("{}{more}", lines.join("\n")))
}

/// Runs all settings.
pub(super) fn with_progress(
    settings: &[(Vec<String>, Spec)],
    threads: usize,
    interrupt: &Interrupt,
) -> Vec<Option<Point>> {
    let all = settings.iter().map(|(_, spec)| u64::from(spec.replications)).sum();
    watched(all, interrupt, |progress| run_all(settings, threads, progress))
}

/// Does `all` runs. After two seconds a bar shows how far they are; a signal ends them.
pub(super) fn watched<T>(all: u64, interrupt: &Interrupt, runs: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let progress = &progress;
        scope.spawn(move || {
            let began = Instant::now();
            let bar = ProgressBar::with_draw_target(Some(all * 1000), ProgressDrawTarget::hidden());
            if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent} %  {eta} left") {
                bar.set_style(style);
            }
            while is_over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if interrupt.is_raised() {
                    progress.is_over.store(true, Ordering::Relaxed);
                }
                if began.elapsed() >= BAR_AFTER && bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.set_position((progress.runs() * 1e3) as u64);
            }
            bar.finish_and_clear();
        });
        let found = runs(progress);
        drop(over);
        found
    })
}

const FILE_BYTES_MAX: u64 = 256 << 20;
const MISTAKES_MAX: usize = 50;
const LOOK: Duration = Duration::from_millis(100);
/// What is over sooner needs no bar.
const BAR_AFTER: Duration = Duration::from_secs(2);
