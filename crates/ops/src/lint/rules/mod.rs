//! The catalog of rules: what each says, and the function that judges it.
//!
//! Always true: a rule is one entry here, and the reference page is written from the entries; a rule reads facts and what was given, and nothing
//! else; its time is linear in the number of databases.
//! Not here: collecting facts, muting, showing.

mod access;
mod around;
mod catalog;
mod limits;
mod pools;
mod sessions;
mod times;
mod totals;

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod around_tests;
#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod pools_tests;
#[cfg(test)]
mod trial;

pub(crate) use catalog::RULES;
#[cfg(test)]
pub(crate) use trial::{Scratch, lint_all};

use crate::facts::{Facts, Patroni, PoolTerms, Pooler, Proxied, Workload};
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
    /// The same, if it has databases.
    Pools(fn(&Case<'_>, &Pooler, &mut Verdicts<'_>)),
    /// Each workload of Kubernetes.
    Workload(fn(&Case<'_>, &Workload, &mut Verdicts<'_>)),
    /// Each configuration of Patroni.
    Patroni(fn(&Case<'_>, &Patroni, &mut Verdicts<'_>)),
    /// Each section of HAProxy.
    Proxied(fn(&Case<'_>, &Proxied, &mut Verdicts<'_>)),
    /// Everything together.
    Whole(fn(&Case<'_>, &mut Verdicts<'_>)),
}

/// What a rule may read besides its subject.
pub(crate) struct Case<'c> {
    pub(crate) facts: &'c Facts,
    pub(crate) given: &'c Given,
}

impl LintRule {
    /// Judges the rule.
    pub(crate) fn judge(&self, case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
        let facts = case.facts;
        match self.check {
            Check::Pooler(check) => each(&facts.poolers, "the configuration of a pooler", case, check, verdicts),
            Check::Pools(check) => {
                for pooler in &facts.poolers {
                    match pooler.lent().next() {
                        Some(_) => check(case, pooler, verdicts),
                        None => verdicts.needs("a database ([databases] has none)", None),
                    }
                }
                each::<Pooler>(&facts.poolers, "the configuration of a pooler", case, |_, _, _| {}, verdicts);
            }
            Check::Workload(check) => each(&facts.workloads, "Kubernetes manifests or values", case, check, verdicts),
            Check::Patroni(check) => each(&facts.patronis, "Patroni's configuration", case, check, verdicts),
            Check::Proxied(check) => each(&facts.proxies, "HAProxy's configuration", case, check, verdicts),
            Check::Whole(check) => check(case, verdicts),
        }
    }
}

/// Judges each of some subjects; without one, the rule says what it needs.
fn each<S>(
    subjects: &[S],
    kind: &str,
    case: &Case<'_>,
    check: fn(&Case<'_>, &S, &mut Verdicts<'_>),
    verdicts: &mut Verdicts<'_>,
) {
    subjects.iter().for_each(|subject| check(case, subject, verdicts));
    if subjects.is_empty() {
        verdicts.needs(kind, None);
    }
}

impl Case<'_> {
    /// The number of processes with this configuration.
    fn replicas(&self) -> Option<f64> {
        let workload = || self.facts.workloads.iter().find_map(|workload| workload.replicas.as_ref());
        self.given.replicas.or_else(|| workload().map(|(replicas, _)| *replicas))
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
