//! `trunkline lint`: what will break, or cost time, in configurations; nothing is connected to.
//!
//! Always true: files are only read; the time is linear in what they say. A file that cannot be read does not hide what is found in others, but
//! the exit status tells it before anything else.
//! Not here: what was observed (`facts`), the rules (`rules`), how findings are shown (`report`).

mod mute;
mod options;
mod rules;

pub use options::{LintOptions, usage};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use config::Loaded;

use crate::facts::{self, Facts, Kind, Program};
use crate::findings::{Examined, Finding, Findings, Muted, Rule, Severity, Verdicts};
use crate::report;
use mute::Mute;
use options::Given;
use rules::{Case, RULES};

/// What the command did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The report.
    pub text: String,
    /// Files that could not be read, in words for an operator.
    pub problems: Vec<String>,
    /// The exit status: 0 nothing or notes, 1 warnings, 2 errors, 3 problems.
    pub status: u8,
}

/// Judges files.
#[must_use]
pub fn run(options: &LintOptions) -> Outcome {
    let (findings, problems) = judge_files(options);
    let status = match findings.worst() {
        _ if !problems.is_empty() => UNREADABLE,
        Some(Severity::Error) => 2,
        Some(Severity::Warning) => 1,
        Some(Severity::Information) | None => 0,
    };
    let rules: Vec<&Rule> = every_rule().collect();
    let text = report::text(options.format, "lint", &findings, &rules);
    Outcome { text, problems, status }
}

/// One line for the log of a pooler that starts: `lint: 1 error, 3 warnings; trunkline lint --kind trunkline FILE shows them`. `None` if there is neither.
/// Only rules that need nothing but the configuration are evaluated, and no file is opened but those of the configuration, for their mutes.
/// Mutes of a file that is not a regular one, such as a pipe, do not hold: it cannot be read a second time.
#[must_use]
pub fn at_start(path: &str, loaded: &Loaded) -> Option<String> {
    line_of_start(path, loaded, &facts::read)
}

fn line_of_start(path: &str, loaded: &Loaded, read: &dyn Fn(&str) -> io::Result<Vec<u8>>) -> Option<String> {
    let pooler = facts::pooler_of(path, &loaded.settings, loaded, Program::Trunkline);
    let facts = Facts { poolers: vec![pooler], ..Facts::default() };
    let mut mutes = Mutes::default();
    for file in loaded.files.iter().collect::<BTreeSet<_>>() {
        mutes.add(file, &read(file).unwrap_or_default());
    }
    let findings = judge(&facts, &Given::default(), &mutes);
    let counts = [Severity::Error, Severity::Warning].map(|severity| (severity, findings.count(severity)));
    let parts: Vec<String> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(severity, count)| format!("{count} {}", severity.word(count)))
        .collect();
    (!parts.is_empty())
        .then(|| format!("lint: {}; trunkline lint --kind trunkline {path} shows them", parts.join(", ")))
}

/// All rules as Markdown, for the reference page.
#[must_use]
pub fn reference() -> String {
    report::rules_table(every_rule())
}

/// The options that say what no file says, as Markdown.
#[must_use]
pub fn options_reference() -> String {
    options::reference()
}

/// The output of `trunkline lint --rules`.
#[must_use]
pub fn rule_list() -> String {
    every_rule().fold(String::new(), |mut page, rule| {
        let _ = writeln!(page, "{} {} {}", rule.id, rule.severity.letter(), rule.title);
        page
    })
}

fn every_rule() -> impl Iterator<Item = &'static Rule> {
    OWN.iter().chain(RULES.iter().map(|rule| &rule.rule))
}

fn judge_files(options: &LintOptions) -> (Findings, Vec<String>) {
    let mut facts = Facts::default();
    let mut mutes = Mutes::default();
    let mut problems = Vec::new();
    let mut examined = Vec::new();
    for (path, kind) in &options.files {
        match observe(path, *kind, &mut facts, &mut mutes) {
            Ok(kind) => examined.push(Examined { file: path.clone(), kind: kind.into() }),
            Err(why) => problems.push(format!("{path}: {why}")),
        }
    }
    let mut findings = judge(&facts, &options.given, &mutes);
    findings.examined = examined;
    (findings, problems)
}

/// Reads one file.
fn observe(path: &str, kind: Option<Kind>, facts: &mut Facts, mutes: &mut Mutes) -> Result<&'static str, String> {
    let bytes = facts::read(path).map_err(|error| error.to_string())?;
    let kind = match kind {
        Some(_) if bytes.contains(&0) => return Err("it is a binary file".to_owned()),
        Some(kind) => kind,
        None => Kind::of(&bytes)?,
    };
    mutes.add(path, &bytes);
    let text = || String::from_utf8(bytes.clone()).map_err(|_| "it is not UTF-8".to_owned());
    let program = match kind {
        Kind::Pgbouncer => Some(Program::Pgbouncer),
        Kind::Trunkline => Some(Program::Trunkline),
        _ => None,
    };
    let outcome = match kind {
        Kind::Ini | Kind::Pgbouncer | Kind::Trunkline => return observe_ini(path, program, facts, mutes),
        Kind::Odyssey => {
            for file in facts::read_odyssey(path, &text()?, &|name| facts::read(name), facts) {
                mutes.add(&file, &facts::read(&file).unwrap_or_default());
            }
            Ok(())
        }
        Kind::Haproxy => {
            facts::read_haproxy(path, &text()?, facts);
            Ok(())
        }
        Kind::Kubernetes => facts::read_kubernetes(path, &text()?, facts),
        Kind::Patroni => facts::read_patroni(path, &text()?, facts),
    };
    outcome.map(|()| kind.name()).map_err(|(line, why)| format!("line {line}: {why}"))
}

/// Reads a file in PgBouncer's dialect, and all that it includes.
fn observe_ini(
    path: &str,
    program: Option<Program>,
    facts: &mut Facts,
    mutes: &mut Mutes,
) -> Result<&'static str, String> {
    let files = facts::read_ini(path, &|name| facts::read(name), program, facts)?;
    for file in files.iter().collect::<BTreeSet<_>>().into_iter().filter(|file| ***file != *path) {
        mutes.add(file, &facts::read(file).unwrap_or_default());
    }
    let is_ours = facts.poolers.last().is_some_and(|pooler| pooler.program == Program::Trunkline);
    Ok(if is_ours { Kind::Trunkline.name() } else { Kind::Pgbouncer.name() })
}

/// The mutes of files, by file.
#[derive(Default)]
struct Mutes(BTreeMap<Arc<str>, Vec<Mute>>);

impl Mutes {
    fn add(&mut self, file: &str, bytes: &[u8]) {
        let mutes = mute::mutes(bytes);
        if !mutes.is_empty() {
            self.0.insert(file.into(), mutes);
        }
    }

    /// The mute that holds for a finding. Mistakes cannot be muted.
    fn of(&self, finding: &Finding) -> Option<&Mute> {
        let is_own = OWN.iter().any(|rule| rule.id == finding.rule);
        let mutes = self.0.get(&*finding.subject.file).filter(|_| !is_own)?;
        mutes.iter().find(|mute| !mute.reason.is_empty() && mute.rules.iter().any(|rule| rule == finding.rule))
    }
}

fn judge(facts: &Facts, given: &Given, mutes: &Mutes) -> Findings {
    let case = Case { facts, given };
    let mut findings = Findings::default();
    let mut found = mistakes(facts);
    for rule in RULES {
        let mut verdicts = Verdicts::of(&rule.rule);
        rule.judge(&case, &mut verdicts);
        let (fired, unevaluated) = verdicts.into_parts();
        if fired.is_empty() && unevaluated.is_empty() {
            findings.good.push(rule.rule.id);
        }
        found.extend(fired);
        findings.unevaluated.extend(unevaluated);
    }
    let mut used = BTreeSet::new();
    for finding in found {
        match mutes.of(&finding) {
            Some(mute) => {
                used.insert((finding.subject.file.clone(), mute.line));
                let (reason, line) = (mute.reason.clone(), mute.line);
                findings.muted.push(Muted { finding, reason, line });
            }
            None => findings.found.push(finding),
        }
    }
    findings.found.extend(wrong_mutes(mutes, &used));
    findings.sort();
    findings
}

/// What is wrong with the files themselves.
fn mistakes(facts: &Facts) -> Vec<Finding> {
    let mut verdicts = Verdicts::of(&OWN[0]);
    for (at, text) in facts.mistakes.iter().take(MISTAKES_MAX) {
        verdicts.fires(at, "", text.clone());
    }
    if let Some((at, _)) = facts.mistakes.get(MISTAKES_MAX) {
        let rest = facts.mistakes.len() - MISTAKES_MAX;
        verdicts.fires(at, "", format!("and {rest} more mistakes, which are not shown"));
    }
    verdicts.into_parts().0
}

/// Mutes without a reason, of rules that do not exist, or that mute nothing.
fn wrong_mutes(mutes: &Mutes, used: &BTreeSet<(String, u32)>) -> Vec<Finding> {
    let [mut unfounded, mut idle] = [Verdicts::of(&OWN[1]), Verdicts::of(&OWN[2])];
    for (file, mutes) in &mutes.0 {
        for mute in mutes {
            let at = config::Place { file: Arc::clone(file), line: mute.line };
            let names = mute.rules.join(",");
            let is_known = |rule: &String| RULES.iter().any(|known| known.rule.id == *rule);
            if mute.rules.is_empty() || !mute.rules.iter().all(is_known) {
                unfounded.fires(&at, names.clone(), format!("\"{names}\" is no rule"));
            } else if mute.reason.is_empty() {
                unfounded.fires(&at, names.clone(), format!("{names} is to be ignored without a reason, and is not"));
            } else if !used.contains(&(file.to_string(), mute.line)) {
                idle.fires(&at, names.clone(), format!("{names} finds nothing in this file that could be ignored"));
            }
        }
    }
    unfounded.into_parts().0.into_iter().chain(idle.into_parts().0).collect()
}

/// Rules about the files themselves.
const OWN: [Rule; 3] = [
    Rule {
        id: "F01",
        severity: Severity::Error,
        title: "a mistake in the file",
        condition: "The file says something that its program would not take. What can be read is judged all the same.",
        formula: "grammar and catalog of the program",
        advice: "correct the line",
        source: "as `trunkline --check`",
    },
    Rule {
        id: "F02",
        severity: Severity::Warning,
        title: "a rule is muted without a reason",
        condition: "A comment mutes a rule without saying why, or names a rule that does not exist. It mutes nothing.",
        formula: "lint: ignore RULE without words after it",
        advice: "write why behind the rule: ; lint: ignore L05 the limit is for later",
        source: "whoever reads the file next",
    },
    Rule {
        id: "F03",
        severity: Severity::Information,
        title: "a mute that mutes nothing",
        condition: "A comment mutes a rule that does not fire in its file, perhaps because what it was about has been mended.",
        formula: "lint: ignore RULE, and no finding of RULE",
        advice: "remove the comment",
        source: "whoever reads the file next",
    },
];

/// The exit status if a file cannot be read.
const UNREADABLE: u8 = 3;
/// Mistakes that are shown.
const MISTAKES_MAX: usize = 100;

#[cfg(test)]
mod lint_tests;
#[cfg(test)]
pub(crate) use lint_tests::finding;
