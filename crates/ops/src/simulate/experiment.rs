//! Several runs: replications by seeds, the settings of a sweep, and the knee.
//!
//! Always true: all settings meet the same seeds, so differences between them are not those of chance alone; the results do not depend
//! on how many threads computed them.
//! Not here: one run (`engine`), how it is shown (`report`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;

use super::engine::{Outcome, run};
use super::spec::{KneeRule, Spec};
use crate::theory::estimate::{Estimate, mean};
use base::Random;

/// A setting and what its runs told.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// What is swept, with its value.
    pub(crate) values: Vec<String>,
    /// The value as a number.
    pub(crate) x: Option<f64>,
    /// By replication.
    pub(crate) runs: Vec<Figures>,
    /// All runs together.
    pub(crate) total: Outcome,
}

/// What one run told, in numbers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) throughput: f64,
    /// Disconnections for each tenant and minute.
    pub(crate) disconnections: f64,
    /// Without those for age.
    pub(crate) churn: f64,
    /// Processor seconds for a thousand transactions.
    pub(crate) cpu_per_thousand: f64,
    /// Seconds.
    pub(crate) wait_mean: f64,
    pub(crate) wait_p99: f64,
    pub(crate) response_p99: f64,
    pub(crate) refused_share: f64,
    pub(crate) servers_open: f64,
}

impl Figures {
    fn of(outcome: &Outcome) -> Self {
        Self {
            throughput: outcome.throughput(),
            disconnections: outcome.disconnections(),
            churn: outcome.churn(),
            cpu_per_thousand: outcome.cpu_per_thousand(),
            wait_mean: outcome.wait_average(),
            wait_p99: outcome.wait(99.0),
            response_p99: outcome.response(99.0),
            refused_share: outcome.refused_share(),
            servers_open: outcome.mean.open,
        }
    }
}

impl Point {
    /// The mean of a figure over all runs.
    pub(crate) fn mean(&self, figure: fn(&Figures) -> f64) -> f64 {
        self.runs.iter().map(figure).sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// With its interval of 95 %, if there are several runs.
    pub(crate) fn interval(&self, figure: fn(&Figures) -> f64) -> Option<Estimate> {
        mean(&self.runs.iter().map(figure).collect::<Vec<_>>(), 0.95)
    }
}

/// How far a set of runs is, for a display.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// In millionths of a run.
    done: AtomicU64,
    /// Whether to end with what is known.
    pub(crate) is_over: AtomicBool,
}

impl Progress {
    /// Notes that the only run is over to this share.
    pub(crate) fn set(&self, share: f64) {
        self.done.store((share * 1e6) as u64, Ordering::Relaxed);
    }

    /// Notes that a part of a run is over.
    pub(crate) fn advance(&self, share: f64) {
        self.done.fetch_add((share * 1e6) as u64, Ordering::Relaxed);
    }

    /// How many runs are over, with parts of those under way.
    pub(crate) fn runs(&self) -> f64 {
        self.done.load(Ordering::Relaxed) as f64 / 1e6
    }
}

/// Runs settings, each by all its replications, on so many threads. `None` for those that were not begun when it was to end.
pub(crate) fn run_all(settings: &[(Vec<String>, Spec)], threads: usize, progress: &Progress) -> Vec<Option<Point>> {
    let jobs: Vec<(usize, u32)> = settings
        .iter()
        .enumerate()
        .flat_map(|(setting, (_, spec))| (0..spec.replications).map(move |replication| (setting, replication)))
        .collect();
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Vec<(u32, Outcome)>>> = Mutex::new(vec![Vec::new(); settings.len()]);
    let work = || {
        while let Some((setting, replication)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if progress.is_over.load(Ordering::Relaxed) {
                return;
            }
            let spec = &settings[*setting].1;
            let outcome = run_one(spec, spec.seed + u64::from(*replication), progress);
            let mut outcomes = outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            outcomes[*setting].push((*replication, outcome));
        }
    };
    std::thread::scope(|scope| {
        (1..threads.clamp(1, jobs.len().max(1))).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let is_sweep = settings.len() > 1;
    let points = settings.iter().zip(outcomes).map(|((values, _), outcomes)| point_of(values, outcomes));
    let mut points: Vec<Option<Point>> = points.collect();
    points.iter_mut().flatten().filter(|_| is_sweep).for_each(|point| point.total.forget_details());
    points
}

fn run_one(spec: &Spec, seed: u64, progress: &Progress) -> Outcome {
    let mut seen = 0;
    let mut goes_on = |share: f64| {
        let millionths = (share * 1e6) as u64;
        progress.done.fetch_add(millionths.saturating_sub(seen), Ordering::Relaxed);
        seen = seen.max(millionths);
        !progress.is_over.load(Ordering::Relaxed)
    };
    let outcome = run(spec, seed, &mut goes_on);
    goes_on(1.0);
    outcome
}

pub(crate) fn point_of(values: &[String], mut outcomes: Vec<(u32, Outcome)>) -> Option<Point> {
    outcomes.sort_by_key(|(replication, _)| *replication);
    let runs = outcomes.iter().map(|(_, outcome)| Figures::of(outcome)).collect();
    let mut outcomes = outcomes.into_iter().map(|(_, outcome)| outcome);
    let mut total = outcomes.next()?;
    outcomes.for_each(|outcome| total.merge(&outcome));
    let x = values.first().and_then(|value| value.parse().ok());
    Some(Point { values: values.to_vec(), x, runs, total })
}

/// The smallest value of a sweep from which on everything is good enough.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Knee {
    /// The value.
    pub(crate) at: f64,
    /// The swept value below it, at which something was not good enough; `None` if the smallest value is fine.
    pub(crate) below: Option<f64>,
    /// The interval of 95 % by resampled replications; from `below` to `at` with a single one.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The knee of points that ascend; `None` if even the largest value is not good enough.
pub(crate) fn knee(points: &[Point], rule: &KneeRule, seed: u64) -> Option<Knee> {
    let replications = points.iter().map(|point| point.runs.len()).min().filter(|count| *count > 0)?;
    let all: Vec<usize> = (0..replications).collect();
    let place = knee_place(points, rule, &all)?;
    let x = |place: usize| points[place].x.unwrap_or(f64::NAN);
    let below = place.checked_sub(1).map(x);
    let mut found: Vec<f64> = Vec::new();
    let mut random = Random::new(seed);
    for _ in 0..if replications > 1 { DRAWS } else { 0 } {
        let drawn: Vec<usize> = all.iter().map(|_| random.below(replications as u64) as usize).collect();
        // Where even the largest value is not good enough, the knee is at least there.
        found.push(knee_place(points, rule, &drawn).map_or_else(|| x(points.len() - 1), x));
    }
    found.sort_by(f64::total_cmp);
    let at = |share: f64| found.get(((found.len().max(1) - 1) as f64 * share).round() as usize).copied();
    // The true knee is above the value that was not good enough, however sure the others are.
    let low = at(0.025).unwrap_or(x(place)).min(below.unwrap_or(x(place)));
    Some(Knee { at: x(place), below, low, high: at(0.975).unwrap_or(x(place)).max(x(place)) })
}

/// The place of the knee, as these replications tell it.
fn knee_place(points: &[Point], rule: &KneeRule, replications: &[usize]) -> Option<usize> {
    let mean = |point: &Point, figure: fn(&Figures) -> f64| {
        replications.iter().map(|run| figure(&point.runs[*run])).sum::<f64>() / replications.len() as f64
    };
    let plateau = mean(points.last()?, |figures| figures.cpu_per_thousand);
    let is_fine = |point: &Point| {
        mean(point, |figures| figures.churn) <= rule.churn_max
            && mean(point, |figures| figures.cpu_per_thousand) <= plateau * (1.0 + rule.cpu_within)
            && rule.p99_max.is_none_or(|most| mean(point, |figures| figures.response_p99) <= most as f64 / 1e6)
            && mean(point, |figures| figures.refused_share) <= REFUSED_MAX
    };
    let fine_at_end = points.iter().rev().take_while(|point| is_fine(point)).count();
    (fine_at_end > 0).then(|| points.len() - fine_at_end)
}

const DRAWS: u32 = 1000;
/// A setting that refuses more than this share of the transactions is not good enough.
const REFUSED_MAX: f64 = 0.001;
