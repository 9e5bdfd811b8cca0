//! How the tests of rules run: a file's text and options in, the findings out.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::findings::Findings;
use crate::lint::options::LintOptions;

/// A file that exists until the end of a test.
pub(crate) struct Scratch(std::path::PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("trunkline-lint-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("a name of text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.0.parent().map(std::fs::remove_dir_all);
    }
}

/// The findings in files with these texts.
pub(crate) fn lint_all(texts: &[&str], words: &[&str]) -> Findings {
    let files: Vec<Scratch> = texts.iter().map(|text| Scratch::new("file", text)).collect();
    let words = words.iter().copied().chain(files.iter().map(Scratch::path)).map(std::ffi::OsString::from);
    let options = LintOptions::parse(words).expect("options");
    let (findings, problems) = crate::lint::judge_files(&options);
    assert!(problems.is_empty(), "{problems:?}");
    findings
}

/// The findings in one file of PgBouncer's dialect with these settings and databases.
pub(crate) fn ini(settings: &str, databases: &str, words: &[&str]) -> Findings {
    lint_all(&[&format!("[pgbouncer]\n{settings}\n[databases]\n{databases}\n")], words)
}

/// What a rule says: its findings' evidence, or `needs ...`, or nothing.
pub(crate) fn said(findings: &Findings, rule: &str) -> Vec<String> {
    let found = findings.found.iter().filter(|finding| finding.rule == rule);
    let found = found.map(|finding| format!("{} {}", finding.severity.letter(), finding.evidence));
    let needs = findings.unevaluated.iter().filter(|one| one.rule == rule);
    found.chain(needs.map(|one| format!("needs {}", one.needs))).collect()
}

/// Asserts that a rule says something that contains each part.
pub(crate) fn expect(findings: &Findings, rule: &str, parts: &[&str]) {
    let said = said(findings, rule);
    let is_said = |part: &&&str| said.iter().any(|text| text.contains(**part));
    let missing: Vec<_> = parts.iter().filter(|part| !is_said(part)).collect();
    assert!(missing.is_empty() && !said.is_empty(), "{rule}: {missing:?} is not in {said:#?}");
}

/// Asserts that a rule neither fires nor lacks anything.
pub(crate) fn expect_good(findings: &Findings, rule: &str) {
    assert!(findings.good.contains(&rule), "{rule}: {:#?}", said(findings, rule));
}
