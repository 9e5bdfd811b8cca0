//! Whether the pages point at something: the tables of "Where does it happen?" and every link between our pages.
//!
//! Always true: a path in the tables is either from the project's root or, as `pool/queue.rs`, short for
//! `crates/pool/src/queue.rs`.
//! Not here: whether what a page says is true; that is for its reader.

use super::{Finding, Tree, quoted};

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    map(tree, findings);
    for (path, text) in tree.ending(".md") {
        links(tree, path, text, findings);
        tables(path, text, findings);
    }
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

/// A row that stands behind no head is shown as text: a blank line has cut its table.
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

/// The path from the root that `link` means on `page`, unless it leaves the project.
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
}
