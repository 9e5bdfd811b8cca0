//! Checks how long files are.
//!
//! Always true: no file has more than 800 lines of code; only files listed in `xtask/long-files.txt` have more than
//! 500, and that list may only become shorter. Blank lines, comments and `#[cfg(test)]` do not count; a file of tests
//! may have 800.
//! Not here: how long a function may be; the reader judges that.

use super::{Finding, Tree};

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let listed = listed(tree);
    for (path, source) in tree.sources() {
        let lines = source.code_lines();
        let allowed = listed.iter().any(|(_, name)| *name == path) || source.is_test(1);
        if lines > LINES_MAX {
            let what =
                format!("{lines} lines of code, above {LINES_MAX}: cut the file where its promise has an \"and\"");
            findings.push(Finding::new(path, 1, what));
        } else if lines > LINES_WANTED && !allowed {
            let what =
                format!("{lines} lines of code, above {LINES_WANTED}: cut the file where its promise has an \"and\"");
            findings.push(Finding::new(path, 1, what));
        }
    }
    for (line, name) in listed {
        let lines = tree.text(name).map(|text| super::source::Source::read(name, text).code_lines());
        if lines.is_none_or(|lines| lines <= LINES_WANTED) {
            findings.push(Finding::new(LIST, line, format!("{name} is not long (any more): take it off the list")));
        }
    }
}

fn listed(tree: &Tree) -> Vec<(usize, &str)> {
    let lines = tree.text(LIST).unwrap_or_default().lines().enumerate();
    lines
        .map(|(number, line)| (number + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

const LINES_WANTED: usize = 500;
const LINES_MAX: usize = 800;
const LIST: &str = "xtask/long-files.txt";

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/a/src/b.rs";

    fn found(lines: usize, path: &str, list: &str) -> Vec<String> {
        let text = "a();\n".repeat(lines);
        let mut findings = Vec::new();
        check(&Tree::of(&[(path, &text), (LIST, list)]), &mut findings);
        findings.iter().map(|finding| finding.path.clone()).collect()
    }

    #[test]
    fn five_hundred_lines_are_fine_and_one_more_is_not() {
        assert!(found(500, FILE, "").is_empty());
        assert_eq!(found(501, FILE, ""), [FILE]);
    }

    #[test]
    fn a_listed_file_may_be_long_but_not_too_long() {
        assert!(found(800, FILE, &format!("# why\n{FILE}\n")).is_empty());
        assert_eq!(found(801, FILE, FILE), [FILE]);
    }

    #[test]
    fn a_listed_file_that_got_short_or_went_away_must_leave_the_list() {
        assert_eq!(found(500, FILE, FILE), [LIST]);
        assert_eq!(found(1, FILE, "crates/a/src/gone.rs"), [LIST]);
    }

    #[test]
    fn a_file_of_tests_may_reach_eight_hundred() {
        assert!(found(800, "crates/a/src/b_tests.rs", "").is_empty());
        assert_eq!(found(801, "tests/real/b.rs", "").len(), 1);
    }
}
