//! Checks for forbidden words: what a crate must not use, left-over markers, a file without a header.
//!
//! Always true: a word in a string is never a finding. Test code may read files and the environment; it may not sleep,
//! open a socket or read a clock.
//! Not here: which crate may import which (`imports`).

use std::collections::BTreeSet;

use super::source::{CodePath, Source, Token};
use super::{Finding, Tree, crate_of};

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, source) in tree.sources() {
        touched(path, &source, findings);
        hooks(path, &source, findings);
        statics(path, &source, findings);
        unsafe_code(path, &source, findings);
        markers_in_source(path, &source, findings);
        former_names(path, &source, findings);
    }
    promises(tree, findings);
    markers_in_pages(tree, findings);
}

/// Paths that the crate of this file must not name.
fn touched(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    let Some(home) = crate_of(path).filter(|_| path.starts_with("crates/")) else { return };
    let is_below = BELOW_THE_WORKER.contains(&home);
    let rules: Vec<&Rule> = RULES.iter().filter(|rule| rule.everywhere || is_below).collect();
    for found in source.paths() {
        let broken = rules.iter().find(|rule| found.contains(rule.wanted) && !(found.is_test && rule.fine_in_tests));
        if let Some(rule) = broken {
            findings.push(Finding::new(
                path,
                found.line,
                format!("`{}` in crate `{home}`: {}", rule.wanted, rule.instead),
            ));
        }
    }
}

/// Planted bugs may be named in one file of each crate only, so that the rest reads without them.
fn hooks(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    let is_allowed = path.ends_with("/src/planted.rs") || path.starts_with("crates/world/");
    if is_allowed || !path.starts_with("crates/") {
        return;
    }
    let is_hook =
        |found: &CodePath| ["base::planted", "planted::is", "Planted"].iter().any(|name| found.contains(name));
    let lines: BTreeSet<usize> = source.paths().iter().filter(|found| is_hook(found)).map(|found| found.line).collect();
    let what = "a planted bug outside `planted.rs`: ask a function there that is named after the rule it breaks";
    findings.extend(lines.into_iter().map(|line| Finding::new(path, line, what)));
}

/// Global state: a static that can change. One is allowed, which no release contains.
fn statics(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    let is_below = crate_of(path).is_some_and(|home| BELOW_THE_WORKER.contains(&home));
    let tokens = source.tokens();
    for (at, (line, token)) in tokens.iter().enumerate() {
        if *token != Token::Word("static") || !is_below {
            continue;
        }
        let kind = tokens[at + 1..].iter().map(|(_, token)| *token);
        let mut kind = kind.take_while(|token| !matches!(token, Token::Sign(b'=' | b';' | b'{')));
        let changes = kind.any(|token| matches!(token, Token::Word(word) if is_changeable(word)));
        let is_the_planted_one = path == PLANTED && source.has_feature_above(*line);
        if changes && !is_the_planted_one {
            findings.push(Finding::new(
                path,
                *line,
                "a static that can change: let an owner hold the value and pass it in",
            ));
        }
    }
}

fn is_changeable(word: &str) -> bool {
    word == "mut" || word.starts_with("Atomic") || word.ends_with("Cell") || matches!(word, "Mutex" | "RwLock")
}

fn unsafe_code(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    if path.starts_with("crates/reactor/") {
        return;
    }
    for (line, token) in source.tokens() {
        if token == Token::Word("unsafe") {
            findings.push(Finding::new(
                path,
                line,
                "`unsafe` outside `reactor`: find a safe way, or give `reactor` a door for it",
            ));
        }
    }
}

fn markers_in_source(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    for (line, text) in source.comment_lines() {
        findings.extend(marker_in(text).map(|marker| left_over(path, line, marker)));
    }
    let tokens = source.tokens();
    for pair in tokens.windows(2) {
        if let [(line, Token::Word(word @ ("todo" | "unimplemented"))), (_, Token::Sign(b'!'))] = pair {
            findings.push(left_over(path, *line, word));
        }
    }
}

/// Types with a name that was given up for a better one.
fn former_names(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    if !path.starts_with("crates/") {
        return;
    }
    for pair in source.tokens().windows(2) {
        let [(line, Token::Word("struct" | "enum" | "trait" | "type")), (_, Token::Word(name))] = pair else {
            continue;
        };
        if let Some((_, instead)) = FORMER_NAMES.iter().find(|(former, _)| former == name) {
            findings.push(Finding::new(path, *line, format!("`{name}` is a name that was given up: say {instead}")));
        }
    }
}

fn markers_in_pages(tree: &Tree, findings: &mut Vec<Finding>) {
    for ending in [".md", ".toml", ".talk", ".txt", ".sh", ".py", "Makefile", ".ci/run"] {
        for (path, text) in tree.ending(ending) {
            for (number, line) in text.lines().enumerate() {
                findings.extend(marker_in(line).map(|marker| left_over(path, number + 1, marker)));
            }
        }
    }
}

fn marker_in(line: &str) -> Option<&'static str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find_map(|word| MARKERS.into_iter().find(|marker| *marker == word))
}

fn left_over(path: &str, line: usize, marker: &str) -> Finding {
    Finding::new(path, line, format!("left-over marker `{marker}`: do it, or take it out"))
}

fn promises(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.ending(".rs") {
        if path.starts_with("crates/") && !text.starts_with("//!") {
            findings.push(Finding::new(
                path,
                1,
                "no promise: open with `//!`: what it is for, what is always true, what is not here",
            ));
        }
    }
}

/// Names that a PostgreSQL engineer would not have guessed, and what they were.
const FORMER_NAMES: [(&str, &str); 11] = [
    ("Courier", "`Transfer`: what carries an online restart"),
    ("Ender", "`EndedBy`: who ended a server or a client"),
    ("Farewell", "the message: `Terminate`, a FATAL error"),
    ("Hindrance", "`WaitCause`: why a client was not served"),
    ("LastWord", "`FinalMessage` of an online restart"),
    ("Present", "`Hands` of the control thread: its clocks, its configuration, its letter boxes"),
    ("Spell", "`WaitPeriod`: a time in which clients of a pool wait"),
    ("Stations", "`Stages` of a message"),
    ("Surprise", "`ProtocolViolation`"),
    ("Then", "`NextStep`"),
    ("Unfit", "`Unlendable`: why a server is not lent any more"),
];

struct Rule {
    wanted: &'static str,
    instead: &'static str,
    fine_in_tests: bool,
    everywhere: bool,
}

const fn below(wanted: &'static str, instead: &'static str) -> Rule {
    Rule { wanted, instead, fine_in_tests: false, everywhere: false }
}

/// The crates without I/O, clock or threads.
const BELOW_THE_WORKER: [&str; 7] = ["base", "wire", "auth", "protocol", "pool", "config", "route"];

/// The file with the static for the planted bug, which exists under its feature only.
const PLANTED: &str = "crates/base/src/planted.rs";

const MARKERS: [&str; 3] = ["TODO", "FIXME", "XXX"];

const RULES: [Rule; 14] = [
    Rule {
        wanted: "thread::sleep",
        instead: "wait for the thing itself, or tell a machine what time it is",
        fine_in_tests: false,
        everywhere: true,
    },
    below("std::thread", "threads are started in `trunkline` and live in `worker` and `control`"),
    below("thread::spawn", "threads are started in `trunkline` and live in `worker` and `control`"),
    below("thread_local", "let an owner hold the value and pass it in"),
    below("std::net", "sockets live in `reactor`; for an address as a value take `core::net`"),
    below("unix::net", "sockets live in `reactor`"),
    below("time::Instant", "take the time as an argument (`base::Time`)"),
    below("Instant::now", "take the time as an argument (`base::Time`)"),
    below("time::SystemTime", "take the time as an argument (`base::Wall`)"),
    below("SystemTime::now", "take the time as an argument (`base::Wall`)"),
    below("OnceLock", "let an owner hold the value and pass it in"),
    below("LazyLock", "let an owner hold the value and pass it in"),
    Rule { fine_in_tests: true, ..below("std::env", "take the value as an argument") },
    Rule { fine_in_tests: true, ..below("std::fs", "take the bytes, or a function that reads them, as an argument") },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_that_was_given_up_does_not_come_back() {
        let text = "//! Of it.\n\nenum Spell { Begins }\n\nfn spell(spell: Spell) {}\n";
        assert_eq!(
            found("crates/pool/src/wait.rs", text),
            [
                "crates/pool/src/wait.rs:3: `Spell` is a name that was given up: say `WaitPeriod`: a time in which clients of a pool wait"
            ]
        );
    }

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_clock_below_the_worker_is_found_however_it_is_imported() {
        for code in
            ["use std::time::Instant;", "use std::time::{Duration, Instant};", "use std::{fmt, time::SystemTime};"]
        {
            assert_eq!(lines("crates/pool/src/a.rs", &format!("//! A.\n{code}\n")), [2], "{code}");
        }
        assert!(found("crates/worker/src/a.rs", "//! A.\nuse std::time::Instant;\n").is_empty());
        assert!(found("crates/pool/src/a.rs", "//! A.\nuse std::time::Duration;\n").is_empty());
    }

    #[test]
    fn threads_sockets_files_and_the_environment_are_found_below_the_worker() {
        for name in ["thread", "net", "env", "fs"] {
            assert_eq!(lines("crates/wire/src/a.rs", &format!("//! A.\n\nuse std::{name};\n")), [3], "{name}");
        }
        assert!(found("crates/config/src/a.rs", "//! A.\nuse core::net::IpAddr;\n").is_empty());
    }

    #[test]
    fn a_test_may_read_a_file_but_not_ask_a_clock() {
        let text = "//! A.\n#[cfg(test)]\nmod tests {\n    use std::fs;\n    use std::time::Instant;\n}\n";
        assert_eq!(lines("crates/pool/src/a.rs", text), [5]);
    }

    #[test]
    fn state_that_everybody_could_change_is_found() {
        for code in [
            "static mut N: u8 = 0;",
            "static N: AtomicU64 = AtomicU64::new(0);",
            "static N: Mutex<u8> = Mutex::new(0);",
            "use std::sync::OnceLock;",
            "static N: LazyLock<u8> = LazyLock::new(f);",
            "thread_local! {}",
        ] {
            assert!(!found("crates/base/src/a.rs", &format!("//! A.\n{code}\n")).is_empty(), "{code}");
        }
        assert!(found("crates/base/src/a.rs", "//! A.\nstatic NAMES: [&'static str; 1] = [\"a\"];\n").is_empty());
    }

    #[test]
    fn the_planted_bug_is_remembered_under_its_feature_only() {
        let with = "//! A.\n#[cfg(feature = \"planted\")]\nstatic N: AtomicU8 = AtomicU8::new(0);\n";
        let without = "//! A.\nstatic N: AtomicU8 = AtomicU8::new(0);\n";
        assert!(found(PLANTED, with).is_empty());
        assert_eq!(lines(PLANTED, without), [2]);
        assert_eq!(lines("crates/base/src/a.rs", with), [3]);
    }

    #[test]
    fn planted_bugs_are_named_in_one_file_of_each_crate() {
        let text =
            "//! A.\nuse base::planted::{self, Planted};\nfn a() -> bool {\n    b() && !planted::is(Planted::C)\n}\n";
        assert_eq!(lines("crates/pool/src/a.rs", text), [2, 4]);
        assert!(found("crates/pool/src/planted.rs", text).is_empty());
        assert!(found("crates/pool/src/a.rs", "//! A.\nuse crate::planted::rings_by;\n").is_empty());
        assert!(found("crates/world/src/a.rs", "//! A.\nuse base::planted::{Planted, plant};\n").is_empty());
    }

    #[test]
    fn nobody_sleeps_under_crates_not_even_a_test() {
        let text = "//! A.\n#[cfg(test)]\nmod tests {\n    fn a() { std::thread::sleep(b); }\n}\n";
        assert_eq!(lines("crates/control/src/a.rs", text), [4]);
        assert!(found("tests/real/a.rs", text).is_empty());
    }

    #[test]
    fn unsafe_lives_in_the_reactor_only() {
        assert_eq!(lines("crates/worker/src/a.rs", "//! A.\nfn a() { unsafe { b() } }\n"), [2]);
        assert!(found("crates/reactor/src/a.rs", "//! A.\nfn a() { unsafe { b() } }\n").is_empty());
        assert!(found("crates/worker/src/a.rs", "//! No unsafe here.\nconst A: &str = \"unsafe\";\n").is_empty());
    }

    #[test]
    fn left_over_markers_are_found_in_code_comments_and_pages() {
        let marker = MARKERS[0];
        assert_eq!(lines("crates/ops/src/a.rs", &format!("//! A.\n// {marker}: later\n")), [2]);
        assert_eq!(lines("crates/ops/src/a.rs", "//! A.\nfn a() { todo!() }\n"), [2]);
        assert_eq!(lines("crates/ops/src/a.rs", "//! A.\nfn a() { unimplemented!(\"b\") }\n"), [2]);
        assert_eq!(lines("docs/a.md", &format!("words\n{marker} words\n")), [2]);
        assert!(found("docs/a.md", "mktemp /tmp/a.XXXXXX\n").is_empty());
    }

    #[test]
    fn a_file_without_a_promise_is_found() {
        assert_eq!(lines("crates/pool/src/a.rs", "use a::b;\n"), [1]);
        assert!(found("tests/a.rs", "use a::b;\n").is_empty());
    }
}
