//! Findings as SARIF 2.1.0, which code reviews and editors read.
//!
//! Always true: a muted finding is a result with a suppression, and what could not be judged is a notification of the run, so that no reader takes
//! either for good.
//! Not here: our own shape (`json`).

use serde_json::{Value, json};

use crate::findings::{Finding, Findings, Muted, Rule, Severity};

/// The report.
pub(super) fn text(command: &str, findings: &Findings, rules: &[&Rule]) -> String {
    let results = findings.found.iter().map(|finding| result(finding, rules, None));
    let muted = findings.muted.iter().map(|muted| result(&muted.finding, rules, Some(muted)));
    let unevaluated = findings.unevaluated.iter().map(|one| {
        let known = one.known.as_ref().map_or(String::new(), |known| format!(" (known: {known})"));
        json!({
            "level": "note",
            "message": { "text": format!("not evaluated: {} needs {}{known}", one.rule, one.needs) },
            "associatedRule": { "id": one.rule },
        })
    });
    let report = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": format!("trunkline {command}"),
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| described(rule)).collect::<Vec<_>>(),
            } },
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": unevaluated.collect::<Vec<_>>(),
            }],
            "results": results.chain(muted).collect::<Vec<_>>(),
        }],
    });
    // The keys are texts, so that it cannot fail.
    serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
}

fn described(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.title },
        "fullDescription": { "text": rule.condition },
        "help": { "text": format!("{}. {} [{}]", rule.advice, rule.formula, rule.source) },
        "defaultConfiguration": { "level": level(rule.severity) },
    })
}

fn result(finding: &Finding, rules: &[&Rule], muted: Option<&Muted>) -> Value {
    let Finding { rule, severity, title, subject, evidence, advice, .. } = finding;
    let name = if subject.name.is_empty() { String::new() } else { format!(" ({})", subject.name) };
    let mut location = json!({ "physicalLocation": { "artifactLocation": { "uri": uri(&subject.file) } } });
    if subject.line > 0 {
        location["physicalLocation"]["region"] = json!({ "startLine": subject.line });
    }
    let mut result = json!({
        "ruleId": rule,
        "level": level(*severity),
        "message": { "text": format!("{title}{name}: {evidence}. {advice}") },
        "locations": [location],
    });
    if let Some(index) = rules.iter().position(|known| known.id == *rule) {
        result["ruleIndex"] = json!(index);
    }
    if let Some(muted) = muted {
        result["suppressions"] = json!([{ "kind": "inSource", "justification": muted.reason }]);
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Information => "note",
    }
}

/// The name of a file as a URI: relative unless the name is absolute.
fn uri(file: &str) -> String {
    let mut uri = if file.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in file.trim_start_matches("./").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Unevaluated;
    use crate::lint::finding;

    #[test]
    fn a_review_reads_level_place_and_suppression() {
        let rule = Rule {
            id: "L04",
            severity: Severity::Error,
            title: "t",
            condition: "c",
            formula: "f",
            advice: "a",
            source: "s",
        };
        let findings = Findings {
            found: vec![finding("L04", "etc/my file.ini", 3)],
            muted: vec![Muted { finding: finding("L10", "/a.ini", 0), reason: "later".to_owned(), line: 1 }],
            unevaluated: vec![Unevaluated { rule: "L04", title: "t", needs: "--replicas".to_owned(), known: None }],
            ..Findings::default()
        };
        let json: Value = serde_json::from_str(&text("lint", &findings, &[&rule])).expect("JSON");
        let run = &json["runs"][0];
        assert_eq!(json["version"], "2.1.0");
        assert_eq!(run["tool"]["driver"]["rules"][0]["defaultConfiguration"]["level"], "error");
        let [found, muted] = &run["results"].as_array().expect("results")[..] else { panic!("{run:#}") };
        let place = &found["locations"][0]["physicalLocation"];
        assert_eq!(
            (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
            (&json!("etc/my%20file.ini"), &json!(3))
        );
        assert_eq!((&found["level"], &found["ruleIndex"]), (&json!("error"), &json!(0)));
        assert_eq!(muted["suppressions"][0], json!({ "kind": "inSource", "justification": "later" }));
        assert_eq!(
            muted["locations"][0]["physicalLocation"],
            json!({ "artifactLocation": { "uri": "file:///a.ini" } })
        );
        let note = &run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"];
        assert_eq!(note, "not evaluated: L04 needs --replicas");
    }
}
