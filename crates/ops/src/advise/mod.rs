//! `trunkline advise`: sizes for pools, with every bound that led to them.
//!
//! Always true: a recommendation is never made from too few samples; a floor above a ceiling is told as such and never rounded away.
//! Not here: how waits and demand are computed (`theory`), exit statuses of a wrong command line (crate `trunkline`).

mod candidates;
mod ceilings;
mod course;
mod formats;
mod need;
mod options;
mod page;
mod plan;
mod rehearsal;
mod sizing;
mod sources;
mod terms;
#[cfg(test)]
mod tests;
mod times;
mod words;

pub use course::{AdviseError, run};
pub use options::{AdviseOptions, usage};

use candidates::{Decision, Verdict};
use plan::Plan;
use rehearsal::{ApplyCheck, Rehearsal};
use sizing::Sizes;
use terms::Terms;

use crate::facts::Demand;
use crate::table::{count, short};

/// All that is advised.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Advice {
    pub(crate) origin: String,
    pub(crate) is_approximate: bool,
    pub(crate) seconds: f64,
    pub(crate) loans: u64,
    pub(crate) load: f64,
    pub(crate) notes: Vec<String>,
    /// What the configuration says now.
    pub(crate) present: Vec<String>,
    /// The database of each pool.
    pub(crate) databases_of_pools: Vec<String>,
    pub(crate) sizes: Sizes,
    pub(crate) others: Vec<Decision>,
    pub(crate) check: Option<ApplyCheck>,
}

/// The advice for a demand.
pub(crate) fn advise(demand: &Demand, terms: &Terms, rehearsal: &dyn Rehearsal) -> Advice {
    let sizes = sizing::sizes(demand, terms, rehearsal);
    let others = times::others(demand, terms, &sizes);
    Advice {
        origin: demand.origin.text().to_owned(),
        is_approximate: demand.origin.is_approximate(),
        seconds: demand.seconds,
        loans: demand.pools.iter().map(|pool| pool.loans).sum(),
        load: demand.load(),
        notes: demand.notes.clone(),
        present: Vec::new(),
        databases_of_pools: demand.pools.iter().map(|pool| pool.database.clone()).collect(),
        sizes,
        others,
        check: None,
    }
}

impl Advice {
    /// The first line of a report.
    pub(crate) fn title(&self) -> String {
        let about = if self.is_approximate { " (approximate)" } else { "" };
        format!(
            "advice from {}{about}: {} transactions of {} pools in {} s, {} servers lent in the mean",
            self.origin,
            count(self.loans as f64),
            self.sizes.pools.len(),
            count(self.seconds),
            short(self.load)
        )
    }

    /// What to set.
    pub(crate) fn plan(&self) -> Plan {
        Plan::of(self)
    }

    /// The largest pools.
    pub(crate) fn shown_pools(&self) -> Vec<&Decision> {
        let mut pools: Vec<&Decision> = self.sizes.pools.iter().collect();
        let rank = |pool: &Decision| pool.verdict.value().unwrap_or(0.0);
        pools.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        pools.truncate(POOLS_SHOWN);
        pools
    }

    /// Whether a need is above what does harm.
    pub(crate) fn is_impossible(&self) -> bool {
        let sizes = &self.sizes;
        let sized = sizes.pools.iter().chain(&sizes.databases).chain([&sizes.at_work, &sizes.total]);
        sized.chain(&self.others).any(|decision| decision.verdict.is_impossible())
    }

    /// Whether the server's connections could not be concluded, because a pool has no size.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.sizes.total.verdict, Verdict::NotConcluded { .. })
    }

    /// One sentence.
    pub(crate) fn verdict(&self) -> String {
        if self.is_unknown() {
            let known = self.sizes.pools.iter().filter(|pool| pool.verdict.value().is_some()).count();
            let all = self.sizes.pools.len();
            return format!("not concluded: too little was observed ({known} of {all} pools have a size)");
        }
        let total = self.sizes.total.verdict.value().unwrap_or(0.0);
        match self.is_impossible() {
            true => "no size works: a need is above what does harm, see above".to_owned(),
            false => format!("{} connections to the server", count(total)),
        }
    }
}

const POOLS_SHOWN: usize = 3;
