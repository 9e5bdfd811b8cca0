//! What must be equal at the end of every run, found by two ways: a simulation whose books do not balance tells nothing.
//!
//! Always true: all equalities are exact, in whole transactions, servers and microseconds.
//! Not here: whether the numbers agree with theory, which tests ask.

use base::Time;
use pool::Snapshot;

use super::run::Run;
use super::tally::{Counts, ServerCounts};

/// An equality that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Balance {
    pub(crate) what: &'static str,
    pub(crate) left: u64,
    pub(crate) right: u64,
}

impl Balance {
    pub(crate) fn holds(&self) -> bool {
        self.left == self.right
    }
}

/// Compares the books of a run that has ended. Its areas must have been advanced to its end.
pub(super) fn balances(run: &Run<'_>) -> Vec<Balance> {
    let (mut all, mut servers) = (Counts::default(), ServerCounts::default());
    run.counts.iter().for_each(|counts| all.add(counts));
    run.pool_rows.iter().for_each(|row| servers.add(&row.counts));
    let left = run.in_progress();
    let snapshots: Vec<Snapshot> =
        run.pool_rows.iter().filter_map(|row| run.pools.snapshot(Time(run.now), row.key)).collect();
    let of = |count: fn(&Snapshot) -> u32| snapshots.iter().map(|snapshot| u64::from(count(snapshot))).sum::<u64>();
    let open: u64 = run.pool_rows.iter().map(|row| row.open).sum();
    let dialing: u64 = run.pool_rows.iter().map(|row| row.dialing).sum();
    let kept = run.poolers.iter().any(|pooler| pooler.limits.mode == pool::Mode::Session);
    let waited_by_pools = snapshots.iter().map(|snapshot| snapshot.waited.total()).sum();
    let mut list = vec![
        Balance {
            what: "arrived = done + failed + refused + in progress",
            left: all.arrived,
            right: all.done + all.failed + all.refusals() + left.transactions,
        },
        Balance {
            what: "Little, in the system: area under the number = sum of the times",
            left: run.areas.area.in_system,
            right: all.in_system + left.in_system,
        },
        Balance {
            what: "Little, in the queues: area under the number = sum of the waits",
            left: run.areas.area.waiting,
            right: all.waited + left.waited,
        },
        Balance { what: "the pools' own sum of waits = ours", left: waited_by_pools, right: all.waited + left.waited },
        Balance {
            what: "dialed = opened + failed + given up + being dialed",
            left: servers.dials(),
            right: servers.opened + servers.logins_failed + servers.given_up + dialing,
        },
        Balance { what: "opened = closed + open", left: servers.opened, right: servers.closings() + open },
        Balance {
            what: "open servers = idle + lent + being cleaned, in the pools",
            left: open,
            right: of(|pool| pool.idle) + of(|pool| pool.lent) + of(|pool| pool.cleaning) + of(|pool| pool.checking),
        },
        Balance { what: "servers being dialed, in the pools", left: dialing, right: of(|pool| pool.dialing) },
        Balance { what: "lent servers = transactions that have one", left: of(|pool| pool.lent), right: left.lent },
        Balance { what: "waiting clients, in the pools", left: of(|pool| pool.waiting), right: left.waiting },
        Balance {
            what: "got a server = done + failed + have one",
            left: if kept { 0 } else { all.attached },
            right: if kept { 0 } else { all.done + all.failed + left.lent },
        },
    ];
    if !kept {
        list.push(Balance {
            what: "Little, with a server: area under the number = sum of the times",
            left: run.areas.area.lent,
            right: all.held + left.held,
        });
    }
    list.push(Balance { what: "databases above their limits", left: above_limits(run), right: 0 });
    list.push(Balance { what: "contradictions", left: run.broken.len() as u64, right: 0 });
    list
}

/// How many databases ever had more servers than they may have. A limit that a reload lowers does not count.
fn above_limits(run: &Run<'_>) -> u64 {
    let databases = run.spec.databases.iter().zip(&run.database_peak).enumerate();
    databases
        .filter(|(number, (database, peak))| {
            let tenants = database.groups.iter().map(|group| group.tenants).sum();
            let (first, now) = (database.pooler.database_limit(tenants), run.poolers[*number].database_limit(tenants));
            first > 0 && now > 0 && **peak > first.max(now)
        })
        .count() as u64
}
