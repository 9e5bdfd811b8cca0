//! What a run tells: rates, waits, openings and closings, utilisation, and whether its books balance.
//!
//! Always true: what is counted is what happened after the warm-up; books are balanced over the whole run.
//! Not here: several runs (`experiment`), how it is shown (`report`).

use super::conservation::{Balance, balances};
use super::run::{Before, Run};
use super::tally::{Counts, LIFETIME, Levels, ServerCounts, Slice};
use crate::load::Times;
use crate::theory::estimate::{Estimate, batch_mean, warm_up};

/// The outcome of one run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Whether the run came to its end.
    pub(crate) is_complete: bool,
    /// The seconds that were counted.
    pub(crate) seconds: f64,
    pub(crate) tenants: u32,
    pub(crate) counts: Counts,
    pub(crate) servers: ServerCounts,
    /// In microseconds.
    pub(crate) waits: Times,
    pub(crate) responses: Times,
    /// Until a client of the process was free and had logged in.
    pub(crate) app_waits: Times,
    pub(crate) groups: Vec<GroupOutcome>,
    pub(crate) by_tenant: Vec<TenantOutcome>,
    /// Means over time.
    pub(crate) mean: Means,
    /// Processor seconds of the server.
    pub(crate) cpu: f64,
    /// The mean wait in seconds with its interval by batch means, if the run is long enough for one.
    pub(crate) wait_mean: Option<Estimate>,
    /// Whether the waits had not become steady by the middle of the run.
    pub(crate) is_unsteady: bool,
    /// The most servers that the databases had, together.
    pub(crate) servers_peak: u32,
    /// Equal parts of the counted time, in their order.
    pub(crate) slices: Vec<Slice>,
    pub(crate) balances: Vec<Balance>,
    /// Contradictions in words.
    pub(crate) broken: Vec<String>,
}

/// The tenants of one group.
#[derive(Clone, Debug)]
pub(crate) struct GroupOutcome {
    pub(crate) database: String,
    pub(crate) group: String,
    pub(crate) tenants: u32,
    pub(crate) counts: Counts,
    pub(crate) servers: ServerCounts,
    pub(crate) waits: Times,
    pub(crate) responses: Times,
}

/// One tenant.
#[derive(Clone, Debug)]
pub(crate) struct TenantOutcome {
    /// Which group.
    pub(crate) group: u32,
    /// From 1, in its group.
    pub(crate) number: u32,
    pub(crate) counts: Counts,
    /// Of its own pool; `None` if it shares one.
    pub(crate) servers: Option<ServerCounts>,
    /// The waits in the pooler, unless there are very many tenants.
    pub(crate) waits: Option<Times>,
}

/// Means over time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Means {
    pub(crate) in_system: f64,
    pub(crate) waiting: f64,
    pub(crate) lent: f64,
    pub(crate) open: f64,
    pub(crate) clients: f64,
}

impl Outcome {
    pub(super) fn of(mut run: Run<'_>, is_complete: bool) -> Self {
        run.areas.advance(run.now);
        let before = run.before.take().unwrap_or_else(|| Before {
            counts: Vec::new(),
            servers: Vec::new(),
            areas: Default::default(),
            login_cpu: 0.0,
        });
        let counted = run.now.saturating_sub(run.spec.warm_up).max(1);
        let by_tenant = by_tenant(&run, &before);
        let groups = by_group(&run, &before, &by_tenant);
        let (mut counts, mut servers) = (Counts::default(), ServerCounts::default());
        groups.iter().for_each(|group| {
            counts.add(&group.counts);
            servers.add(&group.servers);
        });
        let waits: Vec<f64> = run.slices.iter().filter(|slice| slice.attached > 0).map(mean_of).collect();
        let executed = counts.executed as f64 / 1e6 * run.spec.server.cpu_share;
        Self {
            is_complete,
            seconds: counted as f64 / 1e6,
            tenants: run.tenants.len() as u32,
            counts,
            servers,
            by_tenant,
            groups,
            mean: means(&run.areas.area, &before.areas.area, counted),
            cpu: executed + run.login_cpu - before.login_cpu,
            wait_mean: batch_mean(&waits, 0.95).map(|mean| overall(mean, &counts)),
            is_unsteady: is_complete && warm_up(&waits) * 2 > waits.len() && !waits.is_empty(),
            servers_peak: run.database_peak.iter().sum(),
            balances: balances(&run),
            slices: std::mem::take(&mut run.slices),
            broken: std::mem::take(&mut run.broken),
            waits: run.waits,
            responses: run.responses,
            app_waits: run.app_waits,
        }
    }

    /// Transactions per second.
    pub(crate) fn throughput(&self) -> f64 {
        self.counts.done as f64 / self.seconds
    }

    /// The share of transactions that were refused or failed.
    pub(crate) fn refused_share(&self) -> f64 {
        let all = self.counts.done + self.counts.failed + self.counts.refusals();
        (self.counts.failed + self.counts.refusals()) as f64 / all.max(1) as f64
    }

    /// Servers closed for each tenant and minute, for other reasons than their age.
    pub(crate) fn churn(&self) -> f64 {
        let closed = self.servers.closings() - self.servers.closed[LIFETIME];
        closed as f64 / f64::from(self.tenants.max(1)) / self.seconds * 60.0
    }

    /// Servers closed for each tenant and minute, for any reason.
    pub(crate) fn disconnections(&self) -> f64 {
        self.servers.closings() as f64 / f64::from(self.tenants.max(1)) / self.seconds * 60.0
    }

    /// Processor seconds of the server for a thousand transactions.
    pub(crate) fn cpu_per_thousand(&self) -> f64 {
        self.cpu / self.counts.done.max(1) as f64 * 1e3
    }

    /// A percentile of the waits in the pooler, in seconds.
    pub(crate) fn wait(&self, percentile: f64) -> f64 {
        seconds_at(&self.waits, percentile)
    }

    /// A percentile of the response times, in seconds.
    pub(crate) fn response(&self, percentile: f64) -> f64 {
        seconds_at(&self.responses, percentile)
    }

    /// The mean wait in the pooler, in seconds.
    pub(crate) fn wait_average(&self) -> f64 {
        self.counts.waited as f64 / 1e6 / (self.counts.attached + self.counts.refusals()).max(1) as f64
    }

    /// How evenly tenants are served, from 1 over their number to 1 (Jain): of what each asked for, the share that was done.
    pub(crate) fn fairness(&self) -> f64 {
        let asked = self.by_tenant.iter().filter(|tenant| tenant.counts.arrived > 0);
        let shares: Vec<f64> = asked.map(|t| t.counts.done as f64 / t.counts.arrived as f64).collect();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        if squares > 0.0 { shares.iter().sum::<f64>().powi(2) / shares.len() as f64 / squares } else { 1.0 }
    }

    /// The mean number of servers in use of each tenant.
    pub(crate) fn loads(&self) -> Vec<f64> {
        self.by_tenant.iter().map(|tenant| tenant.counts.held as f64 / 1e6 / self.seconds).collect()
    }

    /// Adds another run of the same spec, by another seed.
    pub(crate) fn merge(&mut self, other: &Self) {
        let (old, new) = (self.seconds, other.seconds);
        let blend = |a: f64, b: f64| (a * old + b * new) / (old + new);
        self.mean = Means {
            in_system: blend(self.mean.in_system, other.mean.in_system),
            waiting: blend(self.mean.waiting, other.mean.waiting),
            lent: blend(self.mean.lent, other.mean.lent),
            open: blend(self.mean.open, other.mean.open),
            clients: blend(self.mean.clients, other.mean.clients),
        };
        self.seconds += other.seconds;
        self.counts.add(&other.counts);
        self.servers.add(&other.servers);
        self.cpu += other.cpu;
        self.waits.merge(&other.waits);
        self.responses.merge(&other.responses);
        self.app_waits.merge(&other.app_waits);
        for (group, more) in self.groups.iter_mut().zip(&other.groups) {
            group.counts.add(&more.counts);
            group.servers.add(&more.servers);
            group.waits.merge(&more.waits);
            group.responses.merge(&more.responses);
        }
        for (tenant, more) in self.by_tenant.iter_mut().zip(&other.by_tenant) {
            tenant.counts.add(&more.counts);
            if let (Some(waits), Some(more)) = (&mut tenant.waits, &more.waits) {
                waits.merge(more);
            }
            if let (Some(servers), Some(more)) = (&mut tenant.servers, &more.servers) {
                servers.add(more);
            }
        }
        for (slice, more) in self.slices.iter_mut().zip(&other.slices) {
            slice.attached += more.attached;
            slice.waited += more.waited;
            slice.done += more.done;
        }
        self.is_complete &= other.is_complete;
        self.is_unsteady |= other.is_unsteady;
        self.servers_peak = self.servers_peak.max(other.servers_peak);
        if self.balances() {
            self.balances.clone_from(&other.balances);
        }
        self.broken.extend_from_slice(&other.broken);
    }

    /// Forgets what is told apart by tenant, by group and by time, of which many settings would keep too much.
    pub(crate) fn forget_details(&mut self) {
        (self.by_tenant, self.groups, self.slices) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// Whether all books balance.
    pub(crate) fn balances(&self) -> bool {
        self.balances.iter().all(Balance::holds)
    }
}

/// A percentile in seconds.
pub(crate) fn seconds_at(times: &Times, percentile: f64) -> f64 {
    times.histogram().value_at_quantile(percentile / 100.0) as f64 / 1e6
}

fn mean_of(slice: &Slice) -> f64 {
    slice.waited as f64 / 1e6 / slice.attached as f64
}

/// The interval of the mean of all waits: parts of a run with many transactions count for more than the batches let them, so the
/// interval is moved to the true mean.
pub(crate) fn overall(batches: Estimate, counts: &Counts) -> Estimate {
    let value = counts.waited as f64 / 1e6 / counts.attached.max(1) as f64;
    let moved = value - batches.value;
    Estimate { value, low: batches.low + moved, high: batches.high + moved }
}

fn means(area: &Levels, before: &Levels, counted: u64) -> Means {
    let mean = |now: u64, before: u64| (now - before) as f64 / counted as f64;
    Means {
        in_system: mean(area.in_system, before.in_system),
        waiting: mean(area.waiting, before.waiting),
        lent: mean(area.lent, before.lent),
        open: mean(area.open, before.open),
        clients: mean(area.clients, before.clients),
    }
}

fn by_tenant(run: &Run<'_>, before: &Before) -> Vec<TenantOutcome> {
    let tenants = run.tenants.iter().zip(&run.counts).enumerate();
    tenants
        .map(|(index, (tenant, counts))| {
            let earlier = before.counts.get(index).copied().unwrap_or_default();
            let row = tenant.pool.map(|pool| pool.index as usize).filter(|row| run.pool_rows[*row].tenant.is_some());
            let servers = row.map(|row| {
                let earlier = before.servers.get(row).copied().unwrap_or_default();
                run.pool_rows[row].counts.since(&earlier)
            });
            TenantOutcome {
                group: tenant.group,
                number: index as u32 - run.sources.groups[tenant.group as usize].first_tenant + 1,
                counts: counts.since(&earlier),
                servers,
                waits: run.tenant_waits.get(index).cloned(),
            }
        })
        .collect()
}

fn by_group(run: &Run<'_>, before: &Before, by_tenant: &[TenantOutcome]) -> Vec<GroupOutcome> {
    let mut groups: Vec<GroupOutcome> = run
        .sources
        .groups
        .iter()
        .zip(&run.group_times)
        .map(|(row, times)| GroupOutcome {
            database: run.spec.databases[row.database as usize].name.clone(),
            group: row.group.name.clone(),
            tenants: row.group.tenants,
            counts: Counts::default(),
            servers: ServerCounts::default(),
            waits: times.waits.clone(),
            responses: times.responses.clone(),
        })
        .collect();
    for tenant in by_tenant {
        groups[tenant.group as usize].counts.add(&tenant.counts);
    }
    for (index, row) in run.pool_rows.iter().enumerate() {
        let earlier = before.servers.get(index).copied().unwrap_or_default();
        groups[row.group as usize].servers.add(&row.counts.since(&earlier));
    }
    groups
}
