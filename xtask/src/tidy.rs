//! `cargo xtask tidy`: those rules of the project that a machine can check.
//!
//! Always true: a finding is one line that says where, what, and what to do about it; the checks read a tree of texts
//! in memory, so each of them is tested on a small made-up tree.
//! Not here: formatting and lints (`cargo fmt`, `cargo clippy`), and whether generated pages are fresh (`generate`).

mod imports;
mod pages;
mod sizes;
mod source;
mod visibility;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// Checks the tree at `root`, prints the findings, and fails if there are any.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root).map_err(|error| format!("cannot read {}: {error}", root.display()))?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} findings")),
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    imports::check(tree, &mut findings);
    words::check(tree, &mut findings);
    sizes::check(tree, &mut findings);
    visibility::check(tree, &mut findings);
    pages::check(tree, &mut findings);
    findings.sort();
    findings
}

/// Returns whether a line of a file, counted from 1, is test code.
pub(crate) fn test_lines(path: &str, text: &str) -> impl Fn(usize) -> bool + use<> {
    let source = source::Source::read(path, text);
    move |line| source.is_test(line)
}

/// The texts of the project, by path from its root. A file that is not UTF-8 has an empty text.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    fn read(root: &Path) -> std::io::Result<Tree> {
        let mut tree = Tree { files: BTreeMap::new() };
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() {
                self.files.insert(path, String::from_utf8(fs::read(entry.path())?).unwrap_or_default());
            }
        }
        Ok(())
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns whether there is a file, or a folder with a file in it, at `path`.
    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        self.files.contains_key(path) || self.files.keys().any(|other| other.starts_with(&below))
    }

    /// Every file whose name ends with `ending`, ordered by path.
    fn ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter(move |(path, _)| path.ends_with(ending)).map(|(p, t)| (p.as_str(), t.as_str()))
    }

    /// The Rust sources, read once for all checks that ask about code.
    fn sources(&self) -> impl Iterator<Item = (&str, source::Source)> {
        self.ending(".rs").map(|(path, text)| (path, source::Source::read(path, text)))
    }
}

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The crate that a path belongs to: `crates/NAME/...`, or one of the packages `fuzz`, `tests` and `xtask`.
fn crate_of(path: &str) -> Option<&str> {
    match path.strip_prefix("crates/") {
        Some(rest) => rest.split_once('/').map(|(name, _)| name),
        None => ["fuzz", "tests", "xtask"].into_iter().find(|name| path.starts_with(&format!("{name}/"))),
    }
}

/// The rows of the first table below the heading that contains `heading`: line number and cells, without the
/// table's own head. `None` when there is no such heading or no table below it.
fn table_below<'a>(page: &'a str, heading: &str) -> Option<Vec<(usize, Vec<&'a str>)>> {
    let mut lines = page.lines().enumerate().skip_while(|(_, line)| !(line.starts_with('#') && line.contains(heading)));
    lines.next()?;
    let rows: Vec<_> = lines
        .take_while(|(_, line)| !line.starts_with('#'))
        .skip_while(|(_, line)| !line.starts_with('|'))
        .take_while(|(_, line)| line.starts_with('|'))
        .skip(2)
        .map(|(number, line)| (number + 1, line.trim_matches('|').split('|').map(str::trim).collect()))
        .collect();
    (!rows.is_empty()).then_some(rows)
}

/// The parts in back quotes, in order.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Folders without files of the project.
const SKIPPED: [&str; 2] = [".git", "target"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_place_and_words() {
        assert_eq!(Finding::new("a/b.rs", 7, "too long").to_string(), "a/b.rs:7: too long");
    }

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/a.md", "")]);
        assert!(tree.has("docs/") && tree.has("docs") && tree.has("docs/a.md"));
        assert!(!tree.has("doc"));
    }

    #[test]
    fn the_rows_of_a_table_come_with_their_lines() {
        let page = "# A\n| no | no |\n# B here\ntext\n\n| a | b |\n|---|---|\n| c | `d` |\n\n| other | table |\n";
        assert_eq!(table_below(page, "B here"), Some(vec![(8, vec!["c", "`d`"])]));
        assert_eq!(table_below(page, "nowhere"), None);
    }

    #[test]
    fn the_project_itself_is_found_from_any_crate() {
        assert_eq!(crate_of("crates/pool/src/lib.rs"), Some("pool"));
        assert_eq!(crate_of("tests/real/main.rs"), Some("tests"));
        assert_eq!(crate_of("README.md"), None);
    }
}
