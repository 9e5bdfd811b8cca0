//! Advice for programs: JSON, values for a chart, and a diff of the configuration file.
//!
//! Always true: `schema` names the shape and its version; a field is added without a new version, and never removed or changed within one. What
//! was not concluded is in no diff and in no values. Only lines of settings that are advised differ, and all of them.
//! Not here: advice for people (`words`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

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
        let interval = check.interval.map(|interval| [interval.low, interval.high]);
        json!({ "regret": check.regret, "interval": interval, "runs": check.runs, "slo": check.slo, "tried": tried })
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

/// Reads a file by its name.
pub(crate) type Reader<'r> = &'r dyn Fn(&str) -> io::Result<Vec<u8>>;

/// What changes in a configuration file and in those that it includes, as a unified diff; empty if nothing does.
///
/// # Errors
/// The file cannot be read. An included one that cannot be read is passed by.
pub(crate) fn diff(path: &str, read: Reader<'_>, plan: &Plan) -> io::Result<String> {
    let files = Files::read(path, read)?;
    let changed = rewritten(&files.lines, plan);
    let diffs = files.names.iter().enumerate().map(|(file, name)| {
        let text =
            |lines: &[Line]| lines.iter().filter(|(of, _)| *of == file).map(|(_, line)| &**line).collect::<String>();
        let (before, after) = (text(&files.lines), text(&changed));
        if before == after {
            return String::new();
        }
        TextDiff::from_lines(&before, &after).unified_diff().context_radius(3).header(name, name).to_string()
    });
    Ok(diffs.collect())
}

/// A line with its end, and the number of its file.
type Line = (usize, String);

/// A configuration file with what it includes: its lines in the order in which a pooler reads them. A file that is included again is there once,
/// so that none of its lines is changed twice.
struct Files {
    names: Vec<String>,
    lines: Vec<Line>,
}

impl Files {
    fn read(path: &str, read: Reader<'_>) -> io::Result<Self> {
        let text = |name: &str| read(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let lines_of = |text: String| text.split_inclusive('\n').map(str::to_owned).rev().collect::<Vec<String>>();
        let mut files = Self { names: vec![path.to_owned()], lines: Vec::new() };
        // What is left of each file, the last line first; the innermost file comes last.
        let mut open = vec![(0, lines_of(text(path)?))];
        while let Some((file, rest)) = open.last_mut() {
            let file = *file;
            let Some(line) = rest.pop() else {
                open.pop();
                continue;
            };
            let included = line.trim().strip_prefix("%include").filter(|name| name.starts_with([' ', '\t']));
            let included = included.map(|name| name.trim().to_owned());
            files.lines.push((file, line));
            if let Some(name) = included.filter(|name| files.names.len() < FILES_MAX && !files.names.contains(name))
                && let Ok(text) = text(&name)
            {
                files.names.push(name);
                open.push((files.names.len() - 1, lines_of(text)));
            }
        }
        Ok(files)
    }
}

/// The lines with the advised values.
fn rewritten(lines: &[Line], plan: &Plan) -> Vec<Line> {
    let mut settings: BTreeMap<&str, String> =
        plan.settings.iter().map(|(name, value)| (*name, value.clone())).collect();
    let named: Vec<&str> = names(lines);
    // Databases that the files do not name have the default.
    let others = plan.databases.iter().filter(|(name, _)| !named.contains(&name.as_str()));
    if let Some(size) = others.filter_map(|(_, own)| own.pool_size).max() {
        settings.insert("default_pool_size", size.to_string());
    }
    let mut unsaid = settings.clone();
    let (mut section, mut out) = (Section::Other, Vec::<Line>::new());
    // Where a setting goes that the files do not have: behind the last line of its section that says something.
    let mut place = None;
    for (file, line) in lines {
        let said = line.trim();
        if said.starts_with('[') {
            section = Section::of(said);
        }
        let key = said.split_once('=').map(|(key, _)| key.trim());
        let written = match (section, key) {
            // The last line that says a setting is in force, and the ones before it would mislead a reader.
            (Section::Settings, Some(key)) => settings.get(key).map(|value| {
                unsaid.remove(key);
                format!("{key} = {value}")
            }),
            (Section::Databases, Some(name)) => {
                plan.databases.get(name.trim_matches('"')).map(|own| with_pairs(said, pairs(*own)))
            }
            _ => None,
        };
        let end = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
        match written {
            // A line that says the same stays as it is, with its spaces.
            Some(written) if squeezed(&written) != squeezed(said) => out.push((*file, format!("{written}{end}"))),
            _ => out.push((*file, line.clone())),
        }
        let is_comment = said.starts_with([';', '#']);
        if section == Section::Settings && !said.is_empty() && !is_comment {
            place = Some(out.len());
        }
    }
    if unsaid.is_empty() {
        return out;
    }
    let place = place.unwrap_or_else(|| {
        end_with_newline(out.iter_mut().rfind(|(file, _)| *file == 0));
        // Behind the last line of what is read there is no other section.
        out.push((0, "[pgbouncer]\n".to_owned()));
        out.len()
    });
    end_with_newline(out[..place].last_mut());
    let file = out[place - 1].0;
    let lines = unsaid.iter().map(|(name, value)| (file, format!("{name} = {value}\n"))).collect::<Vec<_>>();
    out.splice(place..place, lines);
    out
}

fn end_with_newline(line: Option<&mut Line>) {
    if let Some((_, line)) = line.filter(|(_, line)| !line.ends_with('\n')) {
        line.push('\n');
    }
}

/// The databases that the files name.
fn names(lines: &[Line]) -> Vec<&str> {
    let mut section = Section::Other;
    let mut found = Vec::new();
    for line in lines.iter().map(|(_, line)| line.trim()) {
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
/// As many as a pooler includes.
const FILES_MAX: usize = 1000;

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
        assert_eq!(rewritten_text(FILE, &plan()), expected);
        assert_eq!(rewritten_text(&expected, &plan()), expected);
        let of = |text: &str| diff("a.ini", &|_| Ok(text.as_bytes().to_vec()), &plan()).expect("a file");
        assert_eq!(of(&expected), "");
        let diff = of(FILE);
        for line in
            ["--- a.ini\n+++ a.ini\n@@ ", "\n-min_pool_size=5\n+min_pool_size = 2\n", "\n+max_client_conn = 500\n"]
        {
            assert!(diff.contains(line), "{line:?} is not in:\n{diff}");
        }
        assert_eq!(rewritten_text("", &Plan::default()), "");
        assert_eq!(rewritten_text("a", &plan()).matches("[pgbouncer]\n").count(), 1);
    }

    fn rewritten_text(text: &str, plan: &Plan) -> String {
        let lines: Vec<Line> = text.split_inclusive('\n').map(|line| (0, line.to_owned())).collect();
        rewritten(&lines, plan).into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn a_value_is_changed_in_the_file_that_says_it() {
        let read = |name: &str| {
            match name {
            "a.ini" => Ok(b"[databases]\n%include db.ini\n%include gone.ini\n[pgbouncer]\n%include pools.ini\nlisten_port = 1\n%include pools.ini\n".to_vec()),
            // A section goes on in an included file.
            "db.ini" => Ok(b"app = host=db pool_size=9\n%include a.ini\n".to_vec()),
            "pools.ini" => Ok(b"min_pool_size = 5".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
        };
        let diff = diff("a.ini", &read, &plan()).expect("files");
        let changed: Vec<&str> = diff.lines().filter(|line| line.starts_with(['+', '-'])).collect();
        assert_eq!(
            changed,
            [
                "--- a.ini",
                "+++ a.ini",
                "+default_pool_size = 4",
                "+max_client_conn = 500",
                "+query_wait_timeout = 27",
                "--- db.ini",
                "+++ db.ini",
                "-app = host=db pool_size=9",
                "+app = host=db pool_size=12 max_db_connections=30",
                "--- pools.ini",
                "+++ pools.ini",
                "-min_pool_size = 5",
                "+min_pool_size = 2",
            ],
            "{diff}"
        );
        let why = super::diff("gone.ini", &read, &plan()).expect_err("no file");
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
    }

    /// Reads what is in a list of files.
    fn listed(files: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> io::Result<Vec<u8>> {
        move |name| {
            let found = files.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
        }
    }

    fn changes(files: &'static [(&'static str, &'static str)], name: &'static str, value: &str) -> Vec<String> {
        let mut plan = Plan::default();
        plan.settings.insert(name, value.to_owned());
        let diff = diff(files[0].0, &listed(files), &plan).expect("files");
        diff.lines().filter(|line| line.starts_with(['+', '-'])).map(str::to_owned).collect()
    }

    #[test]
    fn a_value_is_changed_wherever_it_is_said_for_the_last_one_counts() {
        let files = &[
            ("a.ini", "[pgbouncer]\ndefault_pool_size = 20\n%include local.ini\nmin_pool_size = 1\n"),
            ("local.ini", "default_pool_size = 50\n"),
        ];
        let expected = [
            "--- a.ini",
            "+++ a.ini",
            "-default_pool_size = 20",
            "+default_pool_size = 30",
            "--- local.ini",
            "+++ local.ini",
            "-default_pool_size = 50",
            "+default_pool_size = 30",
        ];
        assert_eq!(changes(files, "default_pool_size", "30"), expected);
        // One of them says so already.
        assert_eq!(changes(files, "default_pool_size", "20"), [&expected[4..7], &["+default_pool_size = 20"]].concat());
    }

    #[test]
    fn a_section_that_is_added_begins_on_a_line_of_its_own() {
        let files = &[("a.ini", "[databases]\n%include x"), ("x", "app = host=db\n")];
        assert_eq!(
            changes(files, "min_pool_size", "1"),
            ["--- a.ini", "+++ a.ini", "-%include x", "+%include x", "+[pgbouncer]", "+min_pool_size = 1"]
        );
    }
}
