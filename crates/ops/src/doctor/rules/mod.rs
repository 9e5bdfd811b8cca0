//! The rules: what each says, and the function that judges it.
//!
//! Always true: a rule reads facts and nothing else; a fact that is absent makes the rule not evaluated, with the reason that the fact has.
//! Not here: collecting facts, muting, showing.

mod catalog;
mod catalogs;
mod machine;
mod pooled;
mod settings;
mod transactions;
mod work;

#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod trial;

pub(crate) use catalog::RULES;

use config::Place;

use crate::facts::{Console, Host, Observed, PoolUsage, Postgres, Waits};
use crate::findings::{Rule, Verdicts};

use super::options::Given;

/// A rule, and how it is judged.
pub(crate) struct DoctorRule {
    pub(crate) rule: Rule,
    pub(crate) check: fn(&Case<'_>, &mut Verdicts<'_>),
}

/// Everything that was observed, or why not.
#[derive(Clone, Debug)]
pub(crate) struct Observations {
    pub(crate) server: Observed<Postgres>,
    pub(crate) waits: Observed<Waits>,
    pub(crate) host: Observed<Host>,
    pub(crate) pooler: Observed<Console>,
    /// The share of the time for which the pooler waited for a processor.
    pub(crate) starved: Observed<f64>,
    /// The use of pools over a history.
    pub(crate) history: Observed<PoolUsage>,
}

/// What a rule may read.
pub(crate) struct Case<'c> {
    pub(crate) seen: &'c Observations,
    pub(crate) given: &'c Given,
}

impl Case<'_> {
    fn server(&self) -> Observed<&Postgres> {
        self.seen.server.as_ref().map_err(String::clone)
    }

    fn host(&self) -> Observed<&Host> {
        self.seen.host.as_ref().map_err(String::clone)
    }

    fn pooler(&self) -> Observed<&Console> {
        self.seen.pooler.as_ref().map_err(String::clone)
    }

    fn waits(&self) -> Observed<&Waits> {
        self.seen.waits.as_ref().map_err(String::clone)
    }

    /// Processors of the server.
    pub(crate) fn cores(&self) -> Observed<f64> {
        let told = self.given.cores.or(self.seen.host.as_ref().ok().and_then(|host| host.cores.clone().ok()));
        told.ok_or_else(|| "--host or --cores".to_owned())
    }

    /// Memory of the server in bytes.
    fn memory(&self) -> Observed<f64> {
        let told = self.given.memory.or(self.seen.host.as_ref().ok().and_then(|host| host.memory().ok()));
        told.ok_or_else(|| "--host or --memory".to_owned())
    }
}

/// Runs the body of a rule that ends as soon as a fact is absent.
fn judged(verdicts: &mut Verdicts<'_>, body: impl FnOnce(&mut Verdicts<'_>) -> Observed<()>) {
    if let Err(why) = body(verdicts) {
        verdicts.needs(why, None);
    }
}

/// Where a finding is: `server`, `database d`, `pooler`, `host`.
pub(crate) fn at(subject: &str) -> Place {
    Place { file: subject.into(), line: 0 }
}

/// Names, of many only the first.
fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<S> = names.into_iter().collect();
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown.join(", "),
        rest => format!("{} and {rest} more", shown.join(", ")),
    }
}

/// `1 table`, `3 tables`.
fn counted(count: usize, one: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else {
        format!("{} {one}{}", plain(count as f64), if one.ends_with('x') { "es" } else { "s" })
    }
}

/// A number without needless digits.
pub(crate) fn plain(number: f64) -> String {
    if (number - number.round()).abs() < 0.005 || number >= 100.0 {
        // The sum of nothing is -0.
        return crate::table::count(number + 0.0);
    }
    let text = format!("{number:.2}");
    text.trim_end_matches('0').to_owned()
}

/// A size: `512 kB`, `1.5 GB`.
pub(crate) fn size(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut place = 0;
    let mut number = bytes;
    while number >= 1024.0 && place + 1 < units.len() {
        number /= 1024.0;
        place += 1;
    }
    let text = if number >= 10.0 || place == 0 { format!("{number:.0}") } else { format!("{number:.1}") };
    format!("{} {}", text.trim_end_matches(".0"), units[place])
}

/// A time: `35 ms`, `12 s`, `3.5 h`, `4 days`.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 600.0 => format!("{} s", plain((s * 10.0).round() / 10.0)),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// A share of a whole as a percentage: `12 %`.
pub(crate) fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// Names that are shown of many.
const NAMES_MAX: usize = 5;
