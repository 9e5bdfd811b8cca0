//! Checks references in pages and comments: the tables of "Where does it happen?", links between our pages, and names
//! of sources.
//!
//! Always true: a path in the tables is either from the project's root or, as `pool/queue.rs`, short for
//! `crates/pool/src/queue.rs`. Elsewhere leading folders may be left out too, and a file name alone is not checked.
//! Not here: whether a page is right.

use std::collections::BTreeSet;

use super::{Finding, Tree, quoted};

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    map(tree, findings);
    for (path, text) in tree.ending(".md") {
        links(tree, path, text, findings);
        tables(path, text, findings);
    }
    sources(tree, findings);
}

fn map(tree: &Tree, findings: &mut Vec<Finding>) {
    let page = tree.text(PAGE).unwrap_or_default();
    let map = page.lines().enumerate().skip_while(|(_, line)| !(line.starts_with("## ") && line.contains(HEADING)));
    let map = map.skip(1).take_while(|(_, line)| !line.starts_with("## "));
    let mut rows = map.filter(|(_, line)| line.starts_with('|')).peekable();
    if rows.peek().is_none() {
        findings.push(Finding::new(PAGE, 1, format!("no table below a heading \"{HEADING}\": write it")));
    }
    for (line, row) in rows.map(|(number, row)| (number + 1, row)) {
        for path in row.trim_matches('|').split('|').skip(1).flat_map(quoted).filter(|word| is_path(word)) {
            if !tree.has(path) && !short(path).is_some_and(|full| tree.has(&full)) {
                findings.push(Finding::new(PAGE, line, format!("`{path}` does not exist: say where it happens now")));
            }
        }
    }
}

fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".rs")
}

fn short(path: &str) -> Option<String> {
    path.split_once('/').map(|(name, rest)| format!("crates/{name}/src/{rest}"))
}

fn links(tree: &Tree, page: &str, text: &str, findings: &mut Vec<Finding>) {
    for (number, line) in text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !target.contains(':') && !resolved(page, file).is_some_and(|path| tree.has(&path)) {
                findings.push(Finding::new(page, number + 1, format!("the link to `{file}` leads nowhere: mend it")));
            }
        }
    }
}

/// Finds rows without a table head: a blank line above them has ended their table, so they would be shown as text.
fn tables(page: &str, text: &str, findings: &mut Vec<Finding>) {
    let mut is_code = false;
    let mut is_table = false;
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    for (at, line) in lines.iter().enumerate() {
        is_code ^= line.starts_with("```");
        let is_row = !is_code && line.starts_with('|');
        let is_headed = lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
        if is_row && !is_table && !is_headed {
            findings.push(Finding::new(page, at + 1, "a row of no table: take the blank line above it away"));
        }
        is_table = is_row;
    }
}

/// Resolves a link on `page` to a path from the root, unless it leaves the project.
fn resolved(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Finds names of sources that do not exist (any more).
fn sources(tree: &Tree, findings: &mut Vec<Finding>) {
    let short = tree.ending(".rs").map(|(path, _)| path.replacen("/src/", "/", 1));
    let known: BTreeSet<String> = short.chain(tree.ending(".rs").map(|(path, _)| path.to_owned())).collect();
    let known: BTreeSet<&str> = known.iter().flat_map(|path| tails(path)).collect();
    for (path, source) in tree.sources() {
        named(path, source.comment_lines(), &known, findings);
    }
    for ending in [".md", "seeds.txt"] {
        for (path, text) in tree.ending(ending).filter(|(path, _)| !FOREIGN.contains(path)) {
            let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
            // The tables of this page are checked by `map`.
            named(path, lines.filter(|(_, line)| path != PAGE || !line.starts_with('|')), &known, findings);
        }
    }
}

/// A path, and its shorter forms without leading folders.
fn tails(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.split_once('/').map(|(_, tail)| tail))
}

fn named<'a>(
    path: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    known: &BTreeSet<&str>,
    findings: &mut Vec<Finding>,
) {
    for (line, text) in lines {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_-./".contains(c));
        // A leading slash belongs to an address, or separates two words.
        let words = words.map(|word| word.trim_end_matches('.')).filter(|word| !word.starts_with('/'));
        for word in words.filter(|word| word.contains('/') && word.ends_with(".rs") && !known.contains(word)) {
            findings.push(Finding::new(path, line, format!("`{word}` does not exist: say where that stands now")));
        }
    }
}

/// Pages that name files of other programs.
const FOREIGN: [&str; 1] = ["docs/operating/habits.md"];

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "Where does it happen?";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::of(files), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    const MAP: &str = "## Where does it happen?\n\n| question | file |\n|---|---|\n\
        | why a `new/word` | `pool/dial.rs` (`may_end`), `docs/a.md` |\n";

    #[test]
    fn a_path_of_the_map_must_exist() {
        assert!(found(&[("ARCHITECTURE.md", MAP), ("crates/pool/src/dial.rs", ""), ("docs/a.md", "")]).is_empty());
        let findings = found(&[("ARCHITECTURE.md", MAP), ("docs/a.md", "")]);
        assert_eq!(findings, ["ARCHITECTURE.md:5: `pool/dial.rs` does not exist: say where it happens now"]);
        let two = format!(
            "{MAP}\n### More\n\n| question | file |\n|---|---|\n| a | `docs/b.md` |\n## Ratchets\n| a |\n|---|\n| `docs/c.md` |\n"
        );
        let findings = found(&[("ARCHITECTURE.md", &two), ("crates/pool/src/dial.rs", ""), ("docs/a.md", "")]);
        assert_eq!(findings, ["ARCHITECTURE.md:11: `docs/b.md` does not exist: say where it happens now"]);
    }

    #[test]
    fn a_page_without_the_map_is_found() {
        assert_eq!(found(&[("ARCHITECTURE.md", "# Words\n")]).len(), 1);
    }

    #[test]
    fn a_row_must_stand_in_a_table() {
        let page = "| a |\n|---|\n| b |\n\n| c |\n| d |\n```\n| e |\n```\n\n| f |\n|---|\n";
        assert_eq!(
            found(&[("ARCHITECTURE.md", MAP), ("crates/pool/src/dial.rs", ""), ("docs/a.md", page)]),
            ["docs/a.md:5: a row of no table: take the blank line above it away"]
        );
    }

    #[test]
    fn a_link_must_lead_somewhere() {
        let page = "[a](../b.md#part) [c](https://example.org) [d](#here) [e](gone.md)\n";
        let findings =
            found(&[("ARCHITECTURE.md", MAP), ("crates/pool/src/dial.rs", ""), ("docs/a.md", page), ("b.md", "")]);
        assert_eq!(findings, ["docs/a.md:1: the link to `gone.md` leads nowhere: mend it"]);
    }

    /// Returns the findings for this file beside two sources.
    fn told(path: &str, text: &str) -> Vec<String> {
        let others = [("crates/pool/src/a/queue.rs", "//! A.\n"), ("tests/real/b.rs", "//! B.\n")];
        let map = [("ARCHITECTURE.md", MAP), ("crates/pool/src/dial.rs", ""), ("docs/a.md", "")];
        found(&[&map[..], &others, &[(path, text)]].concat())
    }

    #[test]
    fn a_file_that_a_comment_names_must_exist() {
        let wanted =
            |line| [format!("crates/wire/src/c.rs:{line}: `pool/queue.rs` does not exist: say where that stands now")];
        assert_eq!(told("crates/wire/src/c.rs", "//! C.\n//! Not here: who waits (`pool/queue.rs`).\n"), wanted(2));
        assert_eq!(told("crates/wire/src/c.rs", "//! C.\n\n/// See pool/queue.rs.\nfn a() {}\n"), wanted(3));
        for name in ["pool/a/queue.rs", "crates/pool/src/a/queue.rs", "a/queue.rs", "real/b.rs", "queue.rs", "gone.rs"]
        {
            assert!(told("crates/wire/src/c.rs", &format!("//! C ({name}, `x`).\n")).is_empty(), "{name}");
        }
    }

    #[test]
    fn code_and_addresses_and_the_files_of_others_are_left_alone() {
        assert!(
            told(
                "crates/wire/src/c.rs",
                "//! https://docs.rs/a and https://a.rs/b/c.rs\nconst A: &str = \"a/b.rs\";\n"
            )
            .is_empty()
        );
        assert!(told("docs/operating/habits.md", "`src/config.rs`\n").is_empty());
    }

    #[test]
    fn pages_and_the_list_of_seeds_name_what_is_there() {
        assert_eq!(told("THREATS.md", "`worker/d.rs`, `pool/a/queue.rs`\n").len(), 1);
        assert_eq!(told("crates/world/seeds.txt", "1 was bad (world/gate.rs, `dress`)\n").len(), 1);
    }
}
