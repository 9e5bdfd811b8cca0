//! What to set: the values of all decisions, by setting and database.
//!
//! Always true: a value that was not concluded is absent, so that nobody sets it by mistake. All pools of a database have one size, that of the
//! largest.
//! Not here: why (`sizing`, `times`), how it is written (`formats`).

use std::collections::BTreeMap;

use super::Advice;
use super::candidates::{Decision, Unit};

/// What to set.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Plan {
    /// By database.
    pub(crate) databases: BTreeMap<String, DatabasePlan>,
    /// Settings of the pooler as a whole, by name, with their values as text.
    pub(crate) settings: BTreeMap<&'static str, String>,
}

/// What to set for a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DatabasePlan {
    pub(crate) pool_size: Option<u32>,
    pub(crate) max_db_connections: Option<u32>,
}

impl Plan {
    pub(crate) fn of(advice: &Advice) -> Self {
        let mut plan = Self::default();
        for (database, pool) in advice.databases_of_pools.iter().zip(&advice.sizes.pools) {
            let of_database = plan.databases.entry(database.clone()).or_default();
            of_database.pool_size = of_database.pool_size.max(whole(pool));
        }
        for decision in &advice.sizes.databases {
            plan.databases.entry(decision.subject.clone()).or_default().max_db_connections = whole(decision);
        }
        for decision in &advice.others {
            if let Some(value) = decision.verdict.value() {
                plan.settings.insert(decision.setting, text_of(value, decision.unit));
            }
        }
        plan
    }
}

fn whole(decision: &Decision) -> Option<u32> {
    decision.verdict.value().map(|value| value.max(1.0) as u32)
}

/// As the configuration has it: whole connections; seconds to a thousandth.
fn text_of(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Connections => format!("{}", value.max(0.0) as u64),
        Unit::Seconds if value >= 10.0 => format!("{:.0}", value.floor()),
        Unit::Seconds => crate::simulate::plain((value * 1e3).round().max(1.0) / 1e3),
    }
}
