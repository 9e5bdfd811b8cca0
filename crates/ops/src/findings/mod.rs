//! What follows from facts: findings, with their evidence, and what could not be judged.
//!
//! Always true: a rule that lacks an input is not evaluated and says what it needs; it is never counted as good. A muted finding is kept, with
//! its reason. No text here repeats a secret, because rules are given none.
//! Not here: the rules (`lint`), how findings are shown (`report`).

mod verdicts;

pub(crate) use verdicts::{Groups, Verdicts};

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// A rule as operators read it. Its texts are written once, in a catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Rule {
    /// Its name, such as `L05`.
    pub(crate) id: &'static str,
    /// How bad it is if the rule fires; a rule may judge single cases otherwise.
    pub(crate) severity: Severity,
    /// What is wrong, in a few words.
    pub(crate) title: &'static str,
    /// When it fires.
    pub(crate) condition: &'static str,
    /// The calculation behind it.
    pub(crate) formula: &'static str,
    /// What to do about it.
    pub(crate) advice: &'static str,
    /// Where it was learned.
    pub(crate) source: &'static str,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// It will break.
    Error,
    /// It probably costs availability or time.
    Warning,
    /// It is good to know.
    Information,
}

impl Severity {
    /// The letter that tables show.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Error => 'E',
            Self::Warning => 'W',
            Self::Information => 'I',
        }
    }

    /// The word for `count` findings.
    pub(crate) fn word(self, count: usize) -> &'static str {
        match (self, count) {
            (Self::Error, 1) => "error",
            (Self::Error, _) => "errors",
            (Self::Warning, 1) => "warning",
            (Self::Warning, _) => "warnings",
            (Self::Information, 1) => "note",
            (Self::Information, _) => "notes",
        }
    }
}

/// What a finding is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(crate) struct Subject {
    /// The file as its name was written.
    pub(crate) file: String,
    /// The line, counted from 1; 0 is the file as a whole.
    pub(crate) line: u32,
    /// The setting, database, user or object.
    pub(crate) name: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// A rule that fired.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    /// The rule.
    pub(crate) rule: &'static str,
    /// How bad this case is.
    pub(crate) severity: Severity,
    /// What is wrong, in a few words.
    pub(crate) title: &'static str,
    /// What it is about.
    pub(crate) subject: Subject,
    /// What was read, with the numbers of the calculation.
    pub(crate) evidence: String,
    /// The calculation.
    pub(crate) formula: &'static str,
    /// What to do about it.
    pub(crate) advice: String,
    /// Where the rule was learned.
    pub(crate) source: &'static str,
}

/// A rule that lacked an input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Unevaluated {
    /// The rule.
    pub(crate) rule: &'static str,
    /// What it would judge.
    pub(crate) title: &'static str,
    /// What it needs.
    pub(crate) needs: String,
    /// What is known all the same.
    pub(crate) known: Option<String>,
}

/// A finding that its file mutes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Muted {
    /// The finding.
    pub(crate) finding: Finding,
    /// Why, as the file says.
    pub(crate) reason: String,
    /// The line of the file that says it.
    pub(crate) line: u32,
}

/// A file that was read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Examined {
    /// Its name as written.
    pub(crate) file: String,
    /// What it is.
    pub(crate) kind: Cow<'static, str>,
}

/// A table of what was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Measured {
    /// What it shows.
    pub(crate) title: String,
    /// From what, over which time.
    pub(crate) note: String,
    /// How many of the first columns contain words.
    #[serde(skip)]
    pub(crate) words: usize,
    /// The names of its columns.
    pub(crate) columns: Vec<String>,
    /// Its rows, each with its share of the whole, from 0 to 1.
    pub(crate) rows: Vec<(Vec<String>, f64)>,
}

/// All that a command has found.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Findings {
    /// What was read.
    pub(crate) examined: Vec<Examined>,
    /// What was found: the worst first, then by rule and place.
    pub(crate) found: Vec<Finding>,
    /// What was found and is muted.
    pub(crate) muted: Vec<Muted>,
    /// What could not be judged.
    pub(crate) unevaluated: Vec<Unevaluated>,
    /// Rules that were evaluated and did not fire.
    pub(crate) good: Vec<&'static str>,
    /// What was measured besides; commands that only read files have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) measured: Vec<Measured>,
}

impl Findings {
    /// The number of findings of a severity that are not muted.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.found.iter().filter(|finding| finding.severity == severity).count()
    }

    /// The worst finding that is not muted.
    pub(crate) fn worst(&self) -> Option<Severity> {
        self.found.iter().map(|finding| finding.severity).min()
    }

    /// The number of rules of which something could not be judged.
    pub(crate) fn rules_unevaluated(&self) -> usize {
        let mut rules: Vec<_> = self.unevaluated.iter().map(|one| one.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules.len()
    }

    /// One line: `1 error, 3 warnings, 2 notes, 1 muted, 12 rules not evaluated`.
    pub(crate) fn summary(&self) -> String {
        let mut parts = Vec::new();
        for severity in [Severity::Error, Severity::Warning, Severity::Information] {
            let count = self.count(severity);
            if count > 0 {
                parts.push(format!("{count} {}", severity.word(count)));
            }
        }
        if parts.is_empty() {
            parts.push("nothing found".to_owned());
        }
        if !self.muted.is_empty() {
            parts.push(format!("{} muted", self.muted.len()));
        }
        match self.rules_unevaluated() {
            0 => {}
            1 => parts.push("1 rule not evaluated".to_owned()),
            rules => parts.push(format!("{rules} rules not evaluated")),
        }
        parts.join(", ")
    }

    /// Brings findings into the order in which they are shown.
    pub(crate) fn sort(&mut self) {
        let key = |finding: &Finding| (finding.severity, finding.rule, finding.subject.clone());
        self.found.sort_by_key(key);
        self.muted.sort_by_key(|muted| key(&muted.finding));
        self.unevaluated.sort_by(|one, other| (one.rule, &one.needs).cmp(&(other.rule, &other.needs)));
    }
}
