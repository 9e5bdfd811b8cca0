//! A run that writes down each loan of a server: when it began, and how long it lasted.
//!
//! Always true: at most [`LOANS_MAX`] are written down; a run that has more ends there, and its observed time with it.
//! Not here: what the loans tell about demand (`facts::demand`).

use super::run::{Run, STEPS_BETWEEN_LOOKS};
use crate::simulate::spec::Spec;

/// Runs a spec by a seed, and writes down each loan of a server.
pub(crate) fn run_with_loans(spec: &Spec, seed: u64, goes_on: &mut dyn FnMut(f64) -> bool) -> LoanBook {
    let mut run = Run::new(spec, seed);
    run.loans = Some(Vec::new());
    let mut steps = 0_u64;
    while let Some(at) = run.next_at().filter(|at| *at <= spec.duration && run.loans_until.is_none()) {
        run.step(at);
        steps += 1;
        if steps.is_multiple_of(STEPS_BETWEEN_LOOKS) && !goes_on(run.now as f64 / spec.duration as f64) {
            return LoanBook::of(run, false);
        }
    }
    LoanBook::of(run, true)
}

/// For how long a server was lent to a client. In microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loan {
    /// The place of its pool among the pools of the run.
    pub(crate) pool: u32,
    pub(crate) at: u64,
    pub(crate) held: u64,
}

/// The loans of a run, of those that were over when it ended.
#[derive(Clone, Debug)]
pub(crate) struct LoanBook {
    /// By database, group and the number of the tenant if it has a pool of its own; in the order of their places.
    pub(crate) pools: Vec<(String, String, Option<u32>)>,
    /// In the order of their ends.
    pub(crate) loans: Vec<Loan>,
    /// The time that was observed, in microseconds.
    pub(crate) observed: u64,
    /// The time of statements in the server, and the time for which servers were lent.
    pub(crate) executed: u64,
    pub(crate) held: u64,
    pub(crate) clients_peak: u32,
    pub(crate) is_complete: bool,
}

impl LoanBook {
    fn of(mut run: Run<'_>, is_complete: bool) -> Self {
        let spec = run.spec;
        let end = run.loans_until.unwrap_or(if is_complete { spec.duration } else { run.now });
        let pools = run.pool_rows.iter().map(|row| {
            let group = &run.sources.groups[row.group as usize];
            let name = spec.databases[row.database as usize].name.clone();
            (name, group.group.name.clone(), row.tenant.map(|tenant| tenant - group.first_tenant + 1))
        });
        Self {
            pools: pools.collect(),
            observed: end.saturating_sub(spec.warm_up),
            executed: run.counts.iter().map(|counts| counts.executed).sum(),
            held: run.counts.iter().map(|counts| counts.held).sum(),
            clients_peak: run.clients_peak,
            is_complete,
            loans: run.loans.take().unwrap_or_default(),
        }
    }
}

/// Loans that are written down: 48 MB.
pub(super) const LOANS_MAX: usize = 2_000_000;
