//! What one rule says about one set of facts, while it is being evaluated.
//!
//! Always true: equal cases become one finding with their number, so that ten thousand databases with one mistake are one line.
//! Not here: the facts.

use std::collections::BTreeMap;

use config::Place;

use super::{Finding, Rule, Severity, Subject, Unevaluated};

/// Collects what a rule says.
pub(crate) struct Verdicts<'r> {
    rule: &'r Rule,
    found: Vec<Finding>,
    /// What it needs, and what is known without it.
    lacking: BTreeMap<String, Option<String>>,
}

impl<'r> Verdicts<'r> {
    /// Nothing yet.
    pub(crate) fn of(rule: &'r Rule) -> Self {
        Self { rule, found: Vec::new(), lacking: BTreeMap::new() }
    }

    /// How severe the rule is unless a case says otherwise.
    pub(crate) fn severity(&self) -> Severity {
        self.rule.severity
    }

    /// The rule fires.
    pub(crate) fn fires(&mut self, at: &Place, name: impl Into<String>, evidence: impl Into<String>) {
        self.fires_as(self.rule.severity, at, name, evidence);
    }

    /// The rule fires, and this case is worse or better than others.
    pub(crate) fn fires_as(
        &mut self,
        severity: Severity,
        at: &Place,
        name: impl Into<String>,
        evidence: impl Into<String>,
    ) {
        let Rule { id, title, formula, advice, source, .. } = *self.rule;
        let subject = Subject { file: at.file.to_string(), line: at.line, name: name.into() };
        self.found.push(Finding {
            rule: id,
            severity,
            title,
            subject,
            evidence: evidence.into(),
            formula,
            advice: advice.to_owned(),
            source,
        });
    }

    /// The rule lacks an input; `known` is what can be said without it. Of several cases that lack the same, the first is told.
    pub(crate) fn needs(&mut self, needs: impl Into<String>, known: Option<String>) {
        let lacking = self.lacking.entry(needs.into()).or_default();
        if lacking.is_none() {
            *lacking = known;
        }
    }

    /// All that was said.
    pub(crate) fn into_parts(self) -> (Vec<Finding>, Vec<Unevaluated>) {
        let Rule { id, title, .. } = *self.rule;
        let lacking = self.lacking.into_iter();
        let unevaluated = lacking.map(|(needs, known)| Unevaluated { rule: id, title, needs, known });
        (self.found, unevaluated.collect())
    }
}

/// Cases that are told together when severity and evidence are equal.
#[derive(Default)]
pub(crate) struct Groups {
    cases: BTreeMap<(Severity, String), (Place, String, usize)>,
}

impl Groups {
    /// Adds a case. The first of equal ones gives its place and name.
    pub(crate) fn add(&mut self, severity: Severity, at: &Place, name: &str, evidence: String) {
        let case = self.cases.entry((severity, evidence)).or_insert_with(|| (at.clone(), name.to_owned(), 0));
        case.2 += 1;
    }

    /// Whether there is no case.
    pub(crate) fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Tells a finding for each group; of very many different ones only the first.
    pub(crate) fn tell(self, verdicts: &mut Verdicts<'_>) {
        let rest = self.cases.len().saturating_sub(GROUPS_MAX);
        for ((severity, evidence), (at, name, count)) in self.cases.into_iter().take(GROUPS_MAX) {
            let name = if count > 1 { format!("{name} and {} more", count - 1) } else { name };
            verdicts.fires_as(severity, &at, name, evidence);
        }
        if let (Some(last), 1..) = (verdicts.found.last_mut(), rest) {
            last.evidence.push_str(&format!(" (and {rest} other cases that are not shown)"));
        }
    }
}

/// Findings of one rule about one file; a reader needs no more to see the pattern.
const GROUPS_MAX: usize = 20;
