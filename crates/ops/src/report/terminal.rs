//! Findings for a terminal.
//!
//! Always true: a finding is its place, its evidence and its advice, each on lines of their own; nothing that a file says can drive the terminal.
//! Not here: other formats.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::findings::{Finding, Findings};
use crate::table::Table;

/// The report.
pub(super) fn text(findings: &Findings) -> String {
    let mut page = String::new();
    for file in &findings.examined {
        line(&mut page, 0, &format!("{}: {}", file.file, file.kind));
    }
    for finding in &findings.found {
        page.push('\n');
        told(&mut page, finding);
    }
    muted(&mut page, findings);
    measured(&mut page, findings);
    unevaluated(&mut page, findings);
    page.push('\n');
    line(&mut page, 0, &findings.summary());
    page
}

fn told(page: &mut String, finding: &Finding) {
    let name = if finding.subject.name.is_empty() { String::new() } else { format!(" ({})", finding.subject.name) };
    let head = format!("{} {} {}: {}{name}", finding.severity.letter(), finding.rule, finding.subject, finding.title);
    line(page, 0, &head);
    line(page, 4, &finding.evidence);
    line(page, 4, &format!("do: {}", finding.advice));
    line(page, 4, &format!("why: {} [{}]", finding.formula, finding.source));
}

fn muted(page: &mut String, findings: &Findings) {
    if findings.muted.is_empty() {
        return;
    }
    page.push_str("\nmuted:\n");
    for muted in &findings.muted {
        let (finding, reason) = (&muted.finding, &muted.reason);
        line(page, 2, &format!("{} {}: {}: {reason}", finding.rule, finding.subject, finding.title));
    }
}

fn measured(page: &mut String, findings: &Findings) {
    for one in &findings.measured {
        page.push('\n');
        line(page, 0, &format!("{} ({}):", one.title, one.note));
        let columns: Vec<&str> = one.columns.iter().map(String::as_str).collect();
        let groups: Vec<(&str, &[&str])> = columns.chunks(1).map(|column| ("", column)).collect();
        let mut table = Table::new(&groups).with_words(one.words);
        one.rows.iter().for_each(|(cells, _)| table.row(cells.clone()));
        table.lines().iter().for_each(|text| line(page, 2, text));
    }
}

/// One line for each rule, with all that it needs.
fn unevaluated(page: &mut String, findings: &Findings) {
    let mut rules = BTreeMap::<&str, (Vec<&str>, Option<&str>)>::new();
    for one in &findings.unevaluated {
        let rule = rules.entry(one.rule).or_default();
        if !rule.0.contains(&&*one.needs) {
            rule.0.push(&one.needs);
        }
        rule.1 = rule.1.or(one.known.as_deref());
    }
    if !rules.is_empty() {
        page.push_str("\nnot evaluated:\n");
    }
    // Many rules that lack the same, such as a server, are one line.
    let mut shared = BTreeMap::<String, Vec<&str>>::new();
    for (rule, (needs, known)) in rules {
        let known = known.map_or(String::new(), |known| format!(" (known: {known})"));
        shared.entry(format!("{}{known}", needs.join("; "))).or_default().push(rule);
    }
    let mut lines = Vec::new();
    for (needs, rules) in shared {
        if rules.len() >= SHARED_MIN {
            lines.push((rules[0], format!("{} need {needs}", rules.join(", "))));
        } else {
            lines.extend(rules.into_iter().map(|rule| (rule, format!("{rule} needs {needs}"))));
        }
    }
    lines.sort_unstable();
    lines.iter().for_each(|(_, text)| line(page, 2, text));
}

/// Adds a line whose control characters are escaped.
fn line(page: &mut String, indent: usize, text: &str) {
    page.extend(std::iter::repeat_n(' ', indent));
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = if is_harmful(c) { write!(page, "{}", c.escape_default()) } else { page.write_char(c) };
    }
    page.push('\n');
}

/// Control characters, and those that turn the direction of a line.
fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Rules that lack the same and are told together.
const SHARED_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Muted, Unevaluated};
    use crate::lint::finding;

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let findings = Findings {
            found: vec![finding("L05", "a.ini", 7)],
            muted: vec![Muted { finding: finding("L10", "a\u{1b}[2J.ini", 0), reason: "later".to_owned(), line: 1 }],
            unevaluated: vec![Unevaluated { rule: "L04", title: "t", needs: "--replicas".to_owned(), known: None }],
            ..Findings::default()
        };
        let text = text(&findings);
        for part in [
            "I L05 a.ini:7: a limit that can never bind (default_pool_size)\n    3 x (94 + 18) = 336",
            "\n    do: set the limit to what is meant",
            "muted:\n  L10 a\\u{1b}[2J.ini: a reset after every transaction: later\n",
            "not evaluated:\n  L04 needs --replicas\n",
            "\n1 note, 1 muted, 1 rule not evaluated\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
