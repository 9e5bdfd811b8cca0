//! The catalog of rules: what each says, and the function that judges it.
//!
//! Always true: a rule is one entry here, and the reference page is written from the entries; a rule reads facts and what was given, and nothing
//! else; its time is linear in the number of databases.
//! Not here: collecting facts, muting, showing.

mod access;
mod catalog;
mod limits;
mod pools;
mod sessions;
mod times;
mod totals;

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod pools_tests;
#[cfg(test)]
mod trial;

pub(crate) use catalog::RULES;
#[cfg(test)]
pub(crate) use trial::{Scratch, lint_all};

use crate::facts::{Facts, PoolTerms, Pooler};
use crate::findings::{Rule, Verdicts};

use super::options::Given;

/// A rule, and how it is judged.
pub(crate) struct LintRule {
    pub(crate) rule: Rule,
    pub(crate) check: Check,
}

/// What a rule looks at.
pub(crate) enum Check {
    /// Each pooler's configuration.
    Pooler(fn(&Case<'_>, &Pooler, &mut Verdicts<'_>)),
}

/// What a rule may read besides its subject.
pub(crate) struct Case<'c> {
    pub(crate) facts: &'c Facts,
    pub(crate) given: &'c Given,
}

impl LintRule {
    /// Judges the rule.
    pub(crate) fn judge(&self, case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
        match self.check {
            Check::Pooler(check) => {
                case.facts.poolers.iter().for_each(|pooler| check(case, pooler, verdicts));
                if case.facts.poolers.is_empty() {
                    verdicts.needs("the configuration of a pooler", None);
                }
            }
        }
    }
}

impl Case<'_> {
    /// The number of processes with this configuration.
    fn replicas(&self) -> Option<f64> {
        self.given.replicas
    }

    /// The smallest and the largest number of users of a database.
    fn users(&self, pool: &PoolTerms) -> Option<(f64, f64)> {
        if pool.user.is_some() { Some((1.0, 1.0)) } else { self.given.tenants }
    }
}

/// `10`, or `10 to 15`.
fn span((low, high): (f64, f64)) -> String {
    if (high - low).abs() < 0.005 { plain(low) } else { format!("{} to {}", plain(low), plain(high)) }
}

/// A number without needless digits: `336`, `1,344`, `1.33`.
fn plain(number: f64) -> String {
    if (number - number.round()).abs() < 0.005 {
        return crate::table::count(number);
    }
    let text = format!("{number:.2}");
    text.trim_end_matches('0').to_owned()
}

/// A time: `120 s`, `0.25 s`, `5 days`.
fn seconds(time: f64) -> String {
    if time >= 2.0 * DAY { format!("{} days", plain(time / DAY)) } else { format!("{} s", plain(time)) }
}

/// Seconds of a day.
const DAY: f64 = 86_400.0;
