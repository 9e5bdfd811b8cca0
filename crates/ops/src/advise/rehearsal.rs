//! Trying sizes on the virtual clock before anybody sets them: the pooler's own pools, with the applications of a spec.
//!
//! Always true: all sizes meet the same seeds, so that differences between them are not those of chance.
//! Not here: where the sizes come from (`sizing`).

use super::plan::{DatabasePlan, Plan};
use crate::simulate::{Performance, Spec, performances};
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
    pub(crate) performance: Performance,
}

/// The recommended sizes beside others.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ApplyCheck {
    /// By size.
    pub(crate) tried: Vec<Tried>,
    /// (best - chosen) / best, of the transactions that are answered within the SLO, or of all if there is none.
    pub(crate) regret: f64,
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
        let specs = sizes.iter().map(|(_, _, spec)| spec.clone()).collect();
        let found = performances(specs, slo, self.interrupt)?;
        let tried: Vec<Tried> = sizes
            .into_iter()
            .zip(found)
            .map(|((factor, servers, _), performance)| Tried { factor, servers, performance })
            .collect();
        let best = tried.iter().map(|tried| tried.performance.good).fold(0.0, f64::max);
        let (_, chosen) = self.scaled(plan, 1.0);
        let chosen = tried.iter().find(|tried| tried.servers == chosen)?.performance.good;
        let regret = if best > 0.0 { (best - chosen) / best } else { 0.0 };
        Some(ApplyCheck { tried, regret, slo })
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
