//! Trying sizes on the virtual clock before anybody sets them: the pooler's own pools, with the applications of a spec.
//!
//! Always true: all sizes meet the same seeds, so that differences between them are not those of chance; what is lost by a choice is told by several
//! seeds, with its interval.
//! Not here: where the sizes come from (`sizing`).

use super::plan::{DatabasePlan, Plan};
use crate::simulate::{Performance, Spec, performances};
use crate::theory::estimate::{Estimate, mean};
use crate::trial::Interrupt;

/// Sizes can be tried.
pub(crate) trait Rehearsal {
    /// What happens to a database whose pools have this size, under these limits of the database. `None` if it cannot be tried.
    fn limits(&self, database: &str, size: u32, limits: &[u32]) -> Option<Vec<Performance>>;
}

/// There is no spec, so nothing can be tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Never;

impl Rehearsal for Never {
    fn limits(&self, _: &str, _: u32, _: &[u32]) -> Option<Vec<Performance>> {
        None
    }
}

/// A spec whose sizes are replaced.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) interrupt: &'a Interrupt,
}

impl Rehearsal for Stage<'_> {
    fn limits(&self, database: &str, size: u32, limits: &[u32]) -> Option<Vec<Performance>> {
        let mut alone = self.spec.clone();
        alone.databases.retain(|own| own.name == database);
        let specs = limits.iter().map(|limit| {
            let plan = DatabasePlan { pool_size: Some(size), max_db_connections: Some(*limit) };
            let mut spec = alone.clone();
            spec.databases.iter_mut().for_each(|own| set(own, plan));
            spec
        });
        performances(specs.collect(), None, self.interrupt)
    }
}

/// A size that was tried beside the recommended one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tried {
    /// What the recommended sizes were multiplied with.
    pub(crate) factor: f64,
    /// The servers of all databases, as configured.
    pub(crate) servers: u32,
    /// Means of all runs; of percentiles those of the middle run.
    pub(crate) performance: Performance,
}

/// The recommended sizes beside others.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ApplyCheck {
    /// By size.
    pub(crate) tried: Vec<Tried>,
    /// (best - chosen) / best, of the transactions that are answered within the SLO, or of all if there is none; in the mean of all runs.
    pub(crate) regret: f64,
    /// With its interval of 95 %, by the same sizes in runs with other seeds.
    pub(crate) interval: Option<Estimate>,
    /// Runs of each size.
    pub(crate) runs: u32,
    pub(crate) slo: Option<f64>,
}

impl Stage<'_> {
    /// Tries sizes around a plan. `None` if it was ended early.
    pub(crate) fn apply_check(&self, plan: &Plan, slo: Option<f64>) -> Option<ApplyCheck> {
        let mut sizes: Vec<(f64, u32, Spec)> = Vec::new();
        for factor in FACTORS {
            let (spec, servers) = self.scaled(plan, factor);
            if sizes.iter().all(|(_, known, _)| *known != servers) {
                sizes.push((factor, servers, spec));
            }
        }
        let with_seed =
            |spec: &Spec, run: u32| Spec { seed: spec.seed + u64::from(run * spec.replications), ..spec.clone() };
        let runs = sizes.iter().flat_map(|(_, _, spec)| (0..RUNS).map(move |run| with_seed(spec, run)));
        let found = performances(runs.collect(), slo, self.interrupt)?;
        let by_size: Vec<&[Performance]> = found.chunks(RUNS as usize).collect();
        let tried: Vec<Tried> = sizes
            .iter()
            .zip(&by_size)
            .map(|((factor, servers, _), runs)| Tried { factor: *factor, servers: *servers, performance: middle(runs) })
            .collect();
        let best = (0..tried.len()).max_by(|a, b| tried[*a].performance.good.total_cmp(&tried[*b].performance.good))?;
        let (_, servers) = self.scaled(plan, 1.0);
        let chosen = tried.iter().position(|tried| tried.servers == servers)?;
        let regret = |best: f64, chosen: f64| if best > 0.0 { (best - chosen) / best } else { 0.0 };
        let by_run: Vec<f64> =
            by_size[best].iter().zip(by_size[chosen]).map(|(best, chosen)| regret(best.good, chosen.good)).collect();
        Some(ApplyCheck {
            regret: regret(tried[best].performance.good, tried[chosen].performance.good),
            interval: mean(&by_run, 0.95),
            runs: RUNS,
            tried,
            slo,
        })
    }

    /// The spec with the sizes of a plan, multiplied, and the servers that it may have then.
    fn scaled(&self, plan: &Plan, factor: f64) -> (Spec, u32) {
        let (mut spec, mut servers) = (self.spec.clone(), 0);
        let times = |value: u32| ((f64::from(value) * factor).round() as u32).max(1);
        for database in &mut spec.databases {
            let Some(own) = plan.databases.get(&database.name) else { continue };
            let own = DatabasePlan {
                pool_size: own.pool_size.map(times),
                max_db_connections: own.max_db_connections.map(times),
            };
            servers += own.max_db_connections.or(own.pool_size).unwrap_or(0);
            set(database, own);
        }
        (spec, servers)
    }
}

/// Runs of one size together: means, and of percentiles those of the middle run.
fn middle(runs: &[Performance]) -> Performance {
    let mean = |figure: fn(&Performance) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len().max(1) as f64;
    let median = |figure: fn(&Performance) -> f64| {
        let mut figures: Vec<f64> = runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or(0.0)
    };
    Performance {
        throughput: mean(|run| run.throughput),
        good: mean(|run| run.good),
        wait_p99: median(|run| run.wait_p99),
        response_p99: median(|run| run.response_p99),
        churn: mean(|run| run.churn),
    }
}

/// Gives a database these sizes and no others.
fn set(database: &mut crate::simulate::Database, plan: DatabasePlan) {
    let pooler = &mut database.pooler;
    if let Some(size) = plan.pool_size {
        pooler.limits.servers_max = size;
        pooler.limits.servers_min = pooler.limits.servers_min.min(size);
        (pooler.limits.reserve_max, pooler.user_max) = (0, 0);
    }
    if let Some(most) = plan.max_db_connections {
        (pooler.database_max, pooler.per_tenant) = (most, None);
    }
}

const FACTORS: [f64; 9] = [0.5, 0.67, 0.8, 0.9, 1.0, 1.15, 1.4, 2.0, 3.0];
/// Runs of each size, with other seeds.
const RUNS: u32 = 5;
