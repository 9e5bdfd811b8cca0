//! What the applications of a spec ask for when no pool is ever too small: the demand that sizes are made for.
//!
//! Always true: nothing waits for a server and no server is slower than alone, so the loans are the demand and not what a size made of it.
//! Not here: which size follows (`advise`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::SimulateError;
use super::course::{mistaken, read_spec, text_of, threads_of, watched, with_progress};
use super::engine::{LoanBook, run_with_loans};
use super::experiment::Point;
use super::options::SpecSource;
use super::spec::{Behaviour, Happening, Spec, SpecTree};
use crate::facts::{Demand, Origin, PoolDemand};
use crate::load::Law;
use crate::theory::replay::Arrival;
use crate::trial::Interrupt;

/// Reads a spec and replaces some of its values.
///
/// # Errors
/// The spec cannot be read, or has mistakes.
pub(crate) fn spec_of(source: &SpecSource, values: &[(String, String)]) -> Result<(SpecTree, Spec), SimulateError> {
    parsed(&text_of(source)?, values)
}

fn parsed(text: &str, values: &[(String, String)]) -> Result<(SpecTree, Spec), SimulateError> {
    let mut tree = SpecTree::parse(text).map_err(mistaken)?;
    for (path, value) in values {
        tree.set(path, value).map_err(|why| SimulateError::Usage(format!("--set: {why}")))?;
    }
    let spec = read_spec(&tree)?;
    Ok((tree, spec))
}

/// A spec that is written in a test.
#[cfg(test)]
pub(crate) fn spec_of_text(text: &str) -> Result<(SpecTree, Spec), SimulateError> {
    parsed(text, &[])
}

/// The knee of a sweep of a preset.
#[cfg(test)]
pub(crate) fn knee_of(preset: &str, values: &[(&str, &str)], sweep: &str) -> Option<super::experiment::Knee> {
    let values: Vec<_> = values.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    let (tree, spec) = spec_of(&SpecSource::Preset(preset.to_owned()), &values).ok()?;
    let sweep = super::sweep::Sweep::parse(sweep).ok()?;
    super::course::study_of(&tree, spec, &[sweep], 2, &Interrupt::listen().ok()?).ok()?.knee
}

/// Simulates a spec without limits. `None` if it was ended before it was over.
pub(crate) fn demand_of(spec: &Spec, interrupt: &Interrupt) -> Option<Demand> {
    let free = without_limits(spec);
    let book = watched(1, interrupt, |progress| {
        run_with_loans(&free, free.seed, &mut |share| {
            progress.set(share);
            !progress.is_over.load(Ordering::Relaxed)
        })
    });
    book.is_complete.then(|| demand(spec, book))
}

/// The demand in a book of loans.
fn demand(spec: &Spec, book: LoanBook) -> Demand {
    let seconds = book.observed as f64 / 1e6;
    let mut loans: Vec<Vec<Arrival>> = vec![Vec::new(); book.pools.len()];
    for loan in &book.loans {
        loans[loan.pool as usize].push(Arrival { at: loan.at, service: loan.held });
    }
    let mut pools: Vec<PoolDemand> = Vec::new();
    for ((database, group, tenant), mut loans) in book.pools.into_iter().zip(loans) {
        loans.sort_by_key(|loan| loan.at);
        let user = tenant.map_or(group.clone(), |tenant| format!("{group} {tenant}"));
        pools.push(PoolDemand::of_loans(&database, &user, seconds, loans));
    }
    pools.sort_by(|a, b| a.database.cmp(&b.database));
    let computing = (book.held > 0).then(|| book.executed as f64 * spec.server.cpu_share / book.held as f64);
    Demand {
        origin: Origin::EveryLoan(format!("a simulation of \"{}\" without limits, seed {}", spec.title, spec.seed)),
        pools,
        seconds,
        is_of_one_process: false,
        computing,
        sampled: None,
        clients_peak: Some(book.clients_peak),
        notes: Vec::new(),
    }
}

/// The same applications with as many servers as they want, which are there at once and never slower than alone.
fn without_limits(spec: &Spec) -> Spec {
    let mut free = spec.clone();
    for database in &mut free.databases {
        let pooler = &mut database.pooler;
        (pooler.database_max, pooler.user_max, pooler.clients_max, pooler.per_tenant) = (0, 0, 0, None);
        pooler.behaviour = Behaviour::Trunkline;
        let limits = &mut pooler.limits;
        (limits.servers_max, limits.servers_min, limits.reserve_max, limits.reserve_after) = (MANY, 0, 0, None);
        (limits.dials_max, limits.wait_max, limits.idle_max, limits.check_after) = (MANY, None, None, None);
        limits.lifetime_max = Some(YEAR);
    }
    let server = &mut free.server;
    (server.login, server.login_cpu, server.connections_max) = (Law::ZERO, 0.0, 0);
    (server.cores, server.contention) = (None, None);
    // A server that restarts is no demand, and other settings are not either.
    free.events.retain(|event| !matches!(event.what, Happening::Restart { .. } | Happening::Reload { .. }));
    free
}

/// What a setting of a spec achieves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Performance {
    /// Transactions a second.
    pub(crate) throughput: f64,
    /// Of these, those within the limit of response times, if there is one.
    pub(crate) good: f64,
    /// Seconds.
    pub(crate) wait_p99: f64,
    pub(crate) response_p99: f64,
    /// Servers closed for each tenant and minute, for other reasons than their age.
    pub(crate) churn: f64,
}

/// Simulates specs at once. `None` if they were ended early.
pub(crate) fn performances(specs: Vec<Spec>, slo: Option<f64>, interrupt: &Interrupt) -> Option<Vec<Performance>> {
    let settings: Vec<(Vec<String>, Spec)> = specs.into_iter().map(|spec| (Vec::new(), spec)).collect();
    let points = with_progress(&settings, threads_of(0), interrupt);
    let of_point = |point: Option<Point>| {
        let outcome = point?.total;
        let within = slo.map_or(1.0, |slo| {
            let histogram = outcome.responses.histogram();
            histogram.count_between(0, (slo * 1e6) as u64) as f64 / histogram.len().max(1) as f64
        });
        outcome.is_complete.then(|| Performance {
            throughput: outcome.throughput(),
            good: outcome.throughput() * within,
            wait_p99: outcome.wait(99.0),
            response_p99: outcome.response(99.0),
            churn: outcome.churn(),
        })
    };
    points.into_iter().map(of_point).collect()
}

/// More servers than anything wants.
const MANY: u32 = 100_000;
const YEAR: Duration = Duration::from_secs(365 * 86_400);
