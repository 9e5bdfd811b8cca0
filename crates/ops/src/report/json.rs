//! Findings as JSON.
//!
//! Always true: `schema` names the shape and its version; a field is added without a new version, and never removed or changed within one.
//! Not here: SARIF, which has a schema of others (`sarif`).

use serde::Serialize;

use crate::findings::{Findings, Rule, Severity};

#[derive(Serialize)]
struct Report<'r> {
    schema: &'static str,
    version: u32,
    command: &'r str,
    program: &'static str,
    summary: Summary,
    #[serde(flatten)]
    findings: &'r Findings,
    rules: Vec<&'r Rule>,
}

#[derive(Serialize)]
struct Summary {
    errors: usize,
    warnings: usize,
    information: usize,
    muted: usize,
    rules_unevaluated: usize,
}

/// The report. Of the rules it has those that fired or could not be judged.
pub(super) fn text(command: &str, findings: &Findings, rules: &[&Rule]) -> String {
    let is_named = |rule: &&&Rule| {
        let fired = findings.found.iter().chain(findings.muted.iter().map(|muted| &muted.finding));
        let mut names = fired.map(|finding| finding.rule).chain(findings.unevaluated.iter().map(|one| one.rule));
        names.any(|name| name == rule.id)
    };
    let report = Report {
        schema: "trunkline.findings",
        version: VERSION,
        command,
        program: concat!("trunkline ", env!("CARGO_PKG_VERSION")),
        summary: Summary {
            errors: findings.count(Severity::Error),
            warnings: findings.count(Severity::Warning),
            information: findings.count(Severity::Information),
            muted: findings.muted.len(),
            rules_unevaluated: findings.rules_unevaluated(),
        },
        findings,
        rules: rules.iter().filter(is_named).copied().collect(),
    };
    // The keys are texts and no value is a map, so that it cannot fail.
    serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
}

/// The version of the shape.
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::finding;

    #[test]
    fn a_program_finds_the_schema_the_counts_and_each_finding() {
        let findings = Findings { found: vec![finding("L04", "a.ini", 3)], ..Findings::default() };
        let rule = Rule {
            id: "L04",
            severity: Severity::Error,
            title: "t",
            condition: "c",
            formula: "f",
            advice: "a",
            source: "s",
        };
        let text = text("lint", &findings, &[&rule, &Rule { id: "L99", ..rule }]);
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&json["schema"], &json["version"]), (&"trunkline.findings".into(), &1.into()));
        assert_eq!(json["summary"]["errors"], 1);
        assert_eq!(json["found"][0]["subject"]["line"], 3);
        assert_eq!(json["found"][0]["severity"], "error");
        assert_eq!(json["rules"].as_array().map(Vec::len), Some(1));
    }
}
