//! Compares the dependencies in the manifests with the table of ARCHITECTURE.md.
//!
//! Always true: that page is the only place with the table. It may name a crate that does not exist yet. A dependency
//! for tests obeys the table like any other; only the package `tests`, which tests the whole, may have more.
//! Not here: dependencies from the registry; their reasons are in the root's Cargo.toml.

use super::{Finding, Tree, quoted, table_below};

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(table) = tree.text(PAGE).and_then(|page| table_below(page, HEADING)) else {
        findings.push(Finding::new(PAGE, 1, format!("no table below a heading \"{HEADING}\": write it")));
        return;
    };
    let rows: Vec<Row<'_>> = table.iter().map(|(line, cells)| Row::read(*line, cells)).collect();
    let members: Vec<Member<'_>> =
        tree.ending("Cargo.toml").filter_map(|(path, text)| Member::read(path, text)).collect();
    for member in &members {
        manifest(member, &members, &rows, findings);
        if !member.takes_lints && member.name != "reactor" {
            findings.push(Finding::new(member.path, 1, "no `[lints] workspace = true`: take the lints of the house"));
        }
    }
    doors(tree, &rows, findings);
    tree.ending("Cargo.toml").for_each(|(path, text)| planted(path, text, findings));
}

fn manifest(member: &Member<'_>, members: &[Member<'_>], rows: &[Row<'_>], findings: &mut Vec<Finding>) {
    let Some(row) = rows.iter().find(|row| row.crates.contains(&member.name)) else {
        let what = format!("crate `{}` is not in the table \"{HEADING}\" of {PAGE}: give it a row", member.name);
        findings.push(Finding::new(member.path, 1, what));
        return;
    };
    let wide = |import: &Import<'_>| import.for_tests && member.name == "tests";
    for import in member.imports.iter().filter(|import| !wide(import)) {
        let is_ours = members.iter().any(|other| other.name == import.name);
        if is_ours && !row.may.iter().any(|allowed| allowed.split("::").next() == Some(import.name)) {
            let what = format!(
                "`{}` may not import `{}` (table at {PAGE}:{}): move the code to the floor where it belongs",
                member.name, import.name, row.line
            );
            findings.push(Finding::new(member.path, import.line, what));
        }
    }
}

/// The feature `planted` may only be enabled by a feature of the same name, so that no release has it.
fn planted(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (number, line) in text.lines().enumerate() {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.contains("planted\"") && !entry.starts_with("planted =") {
            let what = "the feature `planted` never ships: pass it down as `planted = [..]` in [features] only";
            findings.push(Finding::new(path, number + 1, what));
        }
    }
}

/// An entry such as `worker::letters` allows one module of a crate only.
fn doors(tree: &Tree, rows: &[Row<'_>], findings: &mut Vec<Finding>) {
    for (path, source) in tree.sources() {
        let Some(row) = super::crate_of(path).and_then(|home| rows.iter().find(|row| row.crates.contains(&home)))
        else {
            continue;
        };
        for (other, door) in row.may.iter().filter_map(|allowed| allowed.split_once("::")) {
            for found in source.paths() {
                if let [first, second, ..] = found.words[..]
                    && first == other
                    && second != door
                {
                    let what =
                        format!("only `{other}::{door}` is open to this crate: it may not name `{other}::{second}`");
                    findings.push(Finding::new(path, found.line, what));
                }
            }
        }
    }
}

/// A row of the table: these crates may import those.
struct Row<'a> {
    line: usize,
    crates: Vec<&'a str>,
    may: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn read(line: usize, cells: &[&'a str]) -> Row<'a> {
        let cell = |at: usize| cells.get(at).map(|cell| quoted(cell).collect()).unwrap_or_default();
        Row { line, crates: cell(0), may: cell(1) }
    }
}

/// A package of the workspace, as read from its manifest.
struct Member<'a> {
    path: &'a str,
    name: &'a str,
    imports: Vec<Import<'a>>,
    takes_lints: bool,
}

struct Import<'a> {
    name: &'a str,
    line: usize,
    for_tests: bool,
}

impl<'a> Member<'a> {
    /// None for a manifest without a package, such as the root's, and for a package that is a workspace of its own.
    fn read(path: &'a str, text: &'a str) -> Option<Member<'a>> {
        if text.lines().any(|line| line.trim() == "[workspace]") {
            return None;
        }
        let (mut name, mut imports, mut section, mut takes_lints) = (None, Vec::new(), "", false);
        for (number, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), number + 1);
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']');
                if let Some((kind, import)) =
                    section.rsplit_once('.').filter(|(kind, _)| kind.ends_with("dependencies"))
                {
                    imports.push(Import { name: import, line: number, for_tests: kind.contains("dev-") });
                }
            } else if let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
                match section {
                    "package" if key == "name" => name = Some(value.trim_matches('"')),
                    "lints" if key == "workspace" => takes_lints = value == "true",
                    _ if section.ends_with("dependencies") => {
                        let import = renamed(value).unwrap_or(key.split('.').next().unwrap_or(key));
                        imports.push(Import { name: import, line: number, for_tests: section.contains("dev-") });
                    }
                    _ => {}
                }
            }
        }
        Some(Member { path, name: name?, imports, takes_lints })
    }
}

/// The real name in `{ package = "name", .. }`.
fn renamed(value: &str) -> Option<&str> {
    let (_, after) = value.split_once("package")?;
    after.split('"').nth(1)
}

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "Who may import whom";

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "## 6. Who may import whom\n\n| crate | may import |\n|---|---|\n| `base` | nothing |\n\
        | `pool`, `route` | `base` |\n| `control` | `base`, `worker::letters` |\n| `worker` | `base` |\n| `tests` | `base` |\n";

    fn crate_toml(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}")
    }

    fn found(members: &[(&str, &str)], source: (&str, &str)) -> Vec<String> {
        let texts: Vec<(String, String)> =
            members.iter().map(|(name, rest)| (format!("crates/{name}/Cargo.toml"), crate_toml(name, rest))).collect();
        let mut files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        files.extend([("ARCHITECTURE.md", TABLE), source]);
        let mut findings = Vec::new();
        check(&Tree::of(&files), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    const NOTHING: (&str, &str) = ("docs/a.md", "");

    #[test]
    fn an_import_in_the_table_is_fine_and_a_crate_to_come_may_be_absent() {
        let members = [("base", ""), ("pool", "[dependencies]\nbase.workspace = true\nsha2.workspace = true\n")];
        assert_eq!(found(&members, NOTHING), [""; 0]);
    }

    #[test]
    fn an_import_upward_is_found_in_each_way_of_writing_it() {
        for line in [
            "[dependencies]\npool.workspace = true\n",
            "[dependencies]\npool = { path = \"../pool\" }\n",
            "[dependencies]\nswimming = { package = \"pool\", path = \"../pool\" }\n",
            "[dependencies.pool]\npath = \"../pool\"\n",
            "[target.'cfg(unix)'.dependencies]\npool.workspace = true\n",
            "[dev-dependencies]\npool.workspace = true\n",
        ] {
            let findings = found(&[("base", line), ("pool", "")], NOTHING);
            assert!(findings.iter().any(|f| f.contains("`base` may not import `pool`")), "{line}: {findings:?}");
        }
    }

    #[test]
    fn only_the_package_tests_may_be_wider_in_its_tests() {
        let line = "[dev-dependencies]\npool.workspace = true\n";
        assert!(found(&[("tests", line), ("pool", ""), ("base", "")], NOTHING).is_empty());
        assert_eq!(found(&[("tests", &line.replace("dev-", "")), ("pool", "")], NOTHING).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert!(found(&[("extra", "")], NOTHING)[0].contains("give it a row"));
    }

    #[test]
    fn a_crate_without_the_lints_of_the_house_is_found() {
        let tree = Tree::of(&[("ARCHITECTURE.md", TABLE), ("crates/base/Cargo.toml", "[package]\nname = \"base\"\n")]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        assert!(findings[0].what.contains("lints"));
    }

    #[test]
    fn a_door_opens_one_module_only() {
        let members = [("base", ""), ("worker", ""), ("control", "[dependencies]\nworker.workspace = true\n")];
        assert!(found(&members, ("crates/control/src/a.rs", "use worker::letters::Letter;")).is_empty());
        let findings = found(&members, ("crates/control/src/a.rs", "use worker::{letters, turn};"));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("worker::turn"));
    }

    #[test]
    fn a_bug_is_planted_by_nobody_who_is_not_asked_to() {
        let fine = "[features]\n# Never \"planted\" by default.\nplanted = [\"base/planted\"]\n";
        assert!(found(&[("base", ""), ("pool", fine)], NOTHING).is_empty());
        for line in [
            "[features]\ndefault = [\"planted\"]\n",
            "[features]\nextra = [\"base/planted\"]\n",
            "[dependencies]\nbase = { workspace = true, features = [\"planted\"] }\n",
            "[dependencies.base]\nfeatures = [\"planted\"]\n",
        ] {
            let findings = found(&[("base", ""), ("pool", line)], NOTHING);
            assert!(findings.iter().any(|f| f.contains("never ships")), "{line}: {findings:?}");
        }
    }

    #[test]
    fn a_page_without_the_table_is_found() {
        let mut findings = Vec::new();
        check(&Tree::of(&[("ARCHITECTURE.md", "# No table\n")]), &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
