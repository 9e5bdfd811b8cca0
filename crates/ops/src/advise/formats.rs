//! Advice for programs: JSON, values for a chart, and a diff of the configuration file.
//!
//! Always true: `schema` names the shape and its version; a field is added without a new version, and never removed or changed within one. What
//! was not concluded is in no diff and in no values. Only lines of settings that are advised differ.
//! Not here: advice for people (`words`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use similar::TextDiff;

use super::Advice;
use super::plan::{DatabasePlan, Plan};

/// The advice as JSON.
pub(crate) fn json(advice: &Advice) -> String {
    let plan = advice.plan();
    let databases: BTreeMap<&String, Value> = plan
        .databases
        .iter()
        .map(|(name, own)| (name, json!({ "pool_size": own.pool_size, "max_db_connections": own.max_db_connections })))
        .collect();
    let check = advice.check.as_ref().map(|check| {
        let tried: Vec<Value> = check
            .tried
            .iter()
            .map(|tried| {
                let performance = tried.performance;
                json!({
                    "factor": tried.factor, "servers": tried.servers, "throughput": performance.throughput,
                    "within_slo": performance.good, "wait_p99": performance.wait_p99,
                    "response_p99": performance.response_p99, "closings": performance.churn,
                })
            })
            .collect();
        json!({ "regret": check.regret, "slo": check.slo, "tried": tried })
    });
    let whole = json!({
        "schema": "trunkline.advice",
        "version": VERSION,
        "command": "advise",
        "program": concat!("trunkline ", env!("CARGO_PKG_VERSION")),
        "source": advice.origin,
        "is_approximate": advice.is_approximate,
        "observed": { "seconds": advice.seconds, "transactions": advice.loans, "lent_mean": advice.load },
        "notes": advice.notes,
        "now": advice.present,
        "is_impossible": advice.is_impossible(),
        "is_concluded": !advice.is_unknown(),
        "pools": advice.sizes.pools,
        "databases": advice.sizes.databases,
        "at_work": advice.sizes.at_work,
        "total": advice.sizes.total,
        "others": advice.others,
        "plan": { "databases": databases, "settings": plan.settings },
        "apply_check": check,
    });
    // A tree of our own making has no key that is not a text.
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

/// Values for a chart: what to set, by setting and by database.
pub(crate) fn helm(advice: &Advice, replicas: Option<f64>) -> String {
    let plan = advice.plan();
    // A text of JSON is one of YAML.
    let quoted = |text: &str| Value::from(text).to_string();
    let mut page = format!("# {}\n", quoted(&advice.title()).trim_matches('"'));
    let _ = writeln!(page, "# {}", advice.verdict());
    if let Some(replicas) = replicas {
        let _ = writeln!(page, "replicas: {replicas}");
    }
    page.push_str("config:\n  pgbouncer:\n");
    if plan.settings.is_empty() {
        page.truncate(page.len() - 1);
        page.push_str(" {}\n");
    }
    for (name, value) in &plan.settings {
        let _ = writeln!(page, "    {name}: {}", quoted(value));
    }
    page.push_str("  databases:\n");
    let known = plan.databases.iter().filter(|(_, own)| **own != DatabasePlan::default());
    let mut is_empty = true;
    for (name, own) in known {
        is_empty = false;
        let _ = writeln!(page, "    {}:", quoted(name));
        for (key, value) in pairs(*own) {
            let _ = writeln!(page, "      {key}: {value}");
        }
    }
    if is_empty {
        page.truncate(page.len() - 1);
        page.push_str(" {}\n");
    }
    page
}

/// What changes in a configuration file, as a unified diff; empty if nothing does.
pub(crate) fn diff(path: &str, text: &str, plan: &Plan) -> String {
    let changed = rewritten(text, plan);
    let diff = TextDiff::from_lines(text, &changed);
    diff.unified_diff().context_radius(3).header(path, path).to_string()
}

/// The file with the advised values.
fn rewritten(text: &str, plan: &Plan) -> String {
    let mut settings: BTreeMap<&str, String> =
        plan.settings.iter().map(|(name, value)| (*name, value.clone())).collect();
    let named: Vec<&str> = names(text);
    // Databases that the file does not name have the default.
    let others = plan.databases.iter().filter(|(name, _)| !named.contains(&name.as_str()));
    if let Some(size) = others.filter_map(|(_, own)| own.pool_size).max() {
        settings.insert("default_pool_size", size.to_string());
    }
    let (mut section, mut out) = (Section::Other, Vec::new());
    // Where a setting goes that the file does not have: behind the last line of its section that says something.
    let mut place = None;
    for line in text.split_inclusive('\n') {
        let said = line.trim();
        if said.starts_with('[') {
            section = Section::of(said);
        }
        let key = said.split_once('=').map(|(key, _)| key.trim());
        let written = match (section, key) {
            (Section::Settings, Some(key)) => settings.remove(key).map(|value| format!("{key} = {value}")),
            (Section::Databases, Some(name)) => {
                plan.databases.get(name.trim_matches('"')).map(|own| with_pairs(said, pairs(*own)))
            }
            _ => None,
        };
        let end = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
        match written {
            // A line that says the same stays as it is, with its spaces.
            Some(written) if squeezed(&written) != squeezed(said) => out.push(format!("{written}{end}")),
            _ => out.push(line.to_owned()),
        }
        let is_comment = said.starts_with([';', '#']);
        if section == Section::Settings && !said.is_empty() && !is_comment {
            place = Some(out.len());
        }
    }
    if !settings.is_empty() {
        if out.last().is_some_and(|last| !last.ends_with('\n')) {
            out.push("\n".to_owned());
        }
        let place = place.unwrap_or_else(|| {
            out.push("[pgbouncer]\n".to_owned());
            out.len()
        });
        let lines = settings.iter().map(|(name, value)| format!("{name} = {value}\n"));
        out.splice(place..place, lines);
    }
    out.concat()
}

/// The databases that a file names.
fn names(text: &str) -> Vec<&str> {
    let mut section = Section::Other;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = Section::of(line);
        } else if let (Section::Databases, Some((name, _))) = (section, line.split_once('=')) {
            found.push(name.trim().trim_matches('"'));
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Section {
    Settings,
    Databases,
    Other,
}

impl Section {
    fn of(line: &str) -> Self {
        match line.trim_matches(['[', ']']).trim() {
            "pgbouncer" | "trunkline" => Self::Settings,
            "databases" => Self::Databases,
            _ => Self::Other,
        }
    }
}

fn pairs(own: DatabasePlan) -> Vec<(&'static str, u32)> {
    let pairs = [("pool_size", own.pool_size), ("max_db_connections", own.max_db_connections)];
    pairs.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// A database's line with these pairs in place of its own.
fn with_pairs(line: &str, pairs: Vec<(&'static str, u32)>) -> String {
    let mut line = line.to_owned();
    for (key, value) in pairs {
        match place_of(&line, key) {
            Some((begin, end)) => line.replace_range(begin..end, &value.to_string()),
            None => {
                let _ = write!(line, " {key}={value}");
            }
        }
    }
    line
}

/// Where the value of a key is, outside of quotes.
fn place_of(line: &str, key: &str) -> Option<(usize, usize)> {
    let mut is_quoted = false;
    let mut before = ' ';
    for (place, c) in line.char_indices() {
        if c == '\'' {
            is_quoted = !is_quoted;
        }
        let is_key = !is_quoted && (before == ' ' || before == '=') && line[place..].starts_with(key);
        before = c;
        let Some(rest) = is_key.then(|| line[place + key.len()..].trim_start()) else { continue };
        if let Some(value) = rest.strip_prefix('=') {
            let begin = line.len() - value.trim_start().len();
            let length = line[begin..].find(char::is_whitespace).unwrap_or(line.len() - begin);
            return Some((begin, begin + length));
        }
    }
    None
}

fn squeezed(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The version of the shape of JSON.
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "; ours\n[databases]\napp = host=db pool_size=9 password='pool_size=1'\nother = host=db\n\n[pgbouncer]\nlisten_port = 6432\n\
        min_pool_size=5\nquery_wait_timeout   =   27\n\n[users]\nx = pool_mode=session\n";

    fn plan() -> Plan {
        let mut plan = Plan::default();
        let own = |pool_size, max_db_connections| DatabasePlan { pool_size, max_db_connections };
        plan.databases.insert("app".to_owned(), own(Some(12), Some(30)));
        plan.databases.insert("third".to_owned(), own(Some(4), None));
        for (name, value) in [("min_pool_size", "2"), ("max_client_conn", "500"), ("query_wait_timeout", "27")] {
            plan.settings.insert(name, value.to_owned());
        }
        plan
    }

    #[test]
    fn only_lines_that_are_advised_differ() {
        let expected = FILE
            .replace(
                "host=db pool_size=9 password='pool_size=1'",
                "host=db pool_size=12 password='pool_size=1' max_db_connections=30",
            )
            .replace("min_pool_size=5", "min_pool_size = 2")
            .replace("=   27\n", "=   27\ndefault_pool_size = 4\nmax_client_conn = 500\n");
        assert_eq!(rewritten(FILE, &plan()), expected);
        assert_eq!(rewritten(&expected, &plan()), expected);
        assert_eq!(diff("a.ini", &expected, &plan()), "");
        let diff = diff("a.ini", FILE, &plan());
        for line in
            ["--- a.ini\n+++ a.ini\n@@ ", "\n-min_pool_size=5\n+min_pool_size = 2\n", "\n+max_client_conn = 500\n"]
        {
            assert!(diff.contains(line), "{line:?} is not in:\n{diff}");
        }
        assert_eq!(rewritten("", &Plan::default()), "");
        assert_eq!(rewritten("a", &plan()).matches("[pgbouncer]\n").count(), 1);
    }
}
