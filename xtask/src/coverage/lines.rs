//! Coverage by line: from LCOV to a table.
//!
//! Always true: lines of test code are left out; a line that several programs have is covered if one of them has
//! executed it; files are ordered by name.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::tidy;

/// The lines of some crates.
pub(super) struct Report {
    crates: Vec<(String, Vec<File>)>,
}

/// The executable lines of a file, and how often each was executed.
struct File {
    name: String,
    counts: BTreeMap<usize, u64>,
}

impl Report {
    /// Reads LCOV. `text_of` returns the text of a source, which shows which lines are tests.
    pub(super) fn read(lcov: &str, root: &Path, crates: &[&str], text_of: impl Fn(&Path) -> Option<String>) -> Self {
        let mut files: BTreeMap<String, BTreeMap<usize, u64>> = BTreeMap::new();
        let mut present = None;
        for line in lcov.lines() {
            if let Some(path) = line.strip_prefix("SF:") {
                present = Path::new(path).strip_prefix(root).ok().map(|path| path.to_string_lossy().into_owned());
            } else if let (Some(name), Some((line, count))) = (&present, line.strip_prefix("DA:").and_then(counted)) {
                *files.entry(name.clone()).or_default().entry(line).or_default() += count;
            }
        }
        let of = |name: &&str| {
            let prefix = format!("crates/{name}/src/");
            let files = files.iter().filter(|(path, _)| path.starts_with(&prefix));
            let files = files.filter_map(|(path, counts)| {
                File::outside_tests(path, &path[prefix.len()..], counts, &text_of(&root.join(path))?)
            });
            ((*name).to_owned(), files.collect())
        };
        Self { crates: crates.iter().map(of).collect() }
    }

    /// Returns the crates with less coverage than this; a crate without a single line is among them at any percentage.
    pub(super) fn below(&self, percent: u32) -> Vec<&str> {
        let is_below = |files: &[File]| {
            let (covered, all) = sum(files);
            all == 0 || covered * 100 < all * percent as usize
        };
        self.crates.iter().filter(|(_, files)| is_below(files)).map(|(name, _)| name.as_str()).collect()
    }
}

impl File {
    fn outside_tests(path: &str, name: &str, counts: &BTreeMap<usize, u64>, text: &str) -> Option<Self> {
        let is_test = tidy::test_lines(path, text);
        let counts: BTreeMap<usize, u64> =
            counts.iter().filter(|(line, _)| !is_test(**line)).map(|(line, count)| (*line, *count)).collect();
        (!counts.is_empty()).then(|| Self { name: name.to_owned(), counts })
    }

    fn covered(&self) -> usize {
        self.counts.values().filter(|count| **count > 0).count()
    }

    /// The ranges of lines that were never executed; lines between them that are not executable are included.
    fn gaps(&self) -> Vec<(usize, usize)> {
        let mut gaps: Vec<(usize, usize)> = Vec::new();
        let mut is_open = false;
        for (line, count) in &self.counts {
            match gaps.last_mut() {
                Some((_, end)) if is_open && *count == 0 => *end = *line,
                _ if *count == 0 => gaps.push((*line, *line)),
                _ => {}
            }
            is_open = *count == 0;
        }
        gaps
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, files) in &self.crates {
            writeln!(f, "{:<28} {:>6} {:>8} {:>7}  not covered", "", "lines", "covered", "")?;
            for file in files {
                let gaps = file.gaps().iter().map(|gap| words(*gap)).collect::<Vec<_>>().join(" ");
                row(f, &format!("{name}/{}", file.name), file.covered(), file.counts.len())?;
                writeln!(f, "  {gaps}")?;
            }
            let (covered, all) = sum(files);
            row(f, name, covered, all)?;
            writeln!(f, "\n")?;
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, covered: usize, all: usize) -> fmt::Result {
    let percent = covered as f64 * 100.0 / all.max(1) as f64;
    write!(f, "{name:<28} {all:>6} {covered:>8} {percent:>6.1}%")
}

fn words((from, to): (usize, usize)) -> String {
    if from == to { from.to_string() } else { format!("{from}-{to}") }
}

fn sum(files: &[File]) -> (usize, usize) {
    (files.iter().map(File::covered).sum(), files.iter().map(|file| file.counts.len()).sum())
}

/// `DA:line,count`
fn counted(text: &str) -> Option<(usize, u64)> {
    let (line, count) = text.split_once(',')?;
    Some((line.parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "//! A.\nfn a() {\n    b();\n}\n\nfn c() {\n    d();\n}\n#[cfg(test)]\nmod tests {\n    fn e() {}\n}\n";

    fn report(counts: &str) -> Report {
        let lcov = format!("SF:/house/crates/pool/src/a.rs\n{counts}end_of_record\n");
        Report::read(&lcov, Path::new("/house"), &["pool"], |_| Some(SOURCE.to_owned()))
    }

    #[test]
    fn tests_do_not_count_and_gaps_are_told() {
        let told = report("DA:2,1\nDA:3,5\nDA:6,0\nDA:7,0\nDA:11,9\n").to_string();
        assert!(told.contains("pool/a.rs                         4        2   50.0%  6-7\n"), "{told}");
        assert!(told.contains("pool                              4        2   50.0%\n"), "{told}");
    }

    #[test]
    fn a_line_that_any_program_went_through_is_covered() {
        let twice = report("DA:2,0\nDA:3,1\nend_of_record\nSF:/house/crates/pool/src/a.rs\nDA:2,1\nDA:3,0\n");
        assert!(twice.below(100).is_empty(), "{twice}");
    }

    #[test]
    fn the_limit_is_for_each_crate() {
        assert_eq!(report("DA:2,1\nDA:3,0\n").below(90), ["pool"]);
        assert!(report("DA:2,1\nDA:3,1\n").below(90).is_empty());
        assert_eq!(report("").below(0), ["pool"]);
    }

    #[test]
    fn a_file_of_another_house_is_none_of_ours() {
        let lcov = "SF:/elsewhere/crates/pool/src/a.rs\nDA:2,1\nend_of_record\n";
        let report = Report::read(lcov, Path::new("/house"), &["pool"], |_| Some(SOURCE.to_owned()));
        assert_eq!(report.below(1), ["pool"]);
    }
}
