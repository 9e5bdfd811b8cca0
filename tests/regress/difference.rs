//! Compares the output of tests directly and through the pooler.
//!
//! Always true: a difference without a known reason fails; an output that PostgreSQL itself expects is never a difference.
//! Not here: how the tests are run (`regression`, `isolation`).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::program::try_run;

/// Folders with a file `TEST.out` for each test.
pub(crate) struct Sides<'a> {
    pub(crate) plain: &'a Path,
    pub(crate) pooled: &'a Path,
    /// The outputs that PostgreSQL expects, of which it may allow several (`TEST.out`, `TEST_1.out`, ...), one directly and
    /// another through the pooler.
    pub(crate) expected: Option<&'a Path>,
}

/// Prints how many tests have the same output; the error names those that have another one without a known reason.
pub(crate) fn compare(kind: &str, sides: &Sides, known: &[(&str, &str)]) -> Result<(), String> {
    let files = fs::read_dir(sides.plain).map_err(|error| error.to_string())?.flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.sort();
    let (mut same, mut excused, mut as_expected, mut news) = (0, 0, 0, Vec::new());
    for name in names.iter().filter_map(|name| name.strip_suffix(".out")) {
        as_expected += usize::from(sides.is_expected(sides.plain, name));
        if sides.say_the_same(name) {
            same += 1;
        } else if let Some((_, why)) = known.iter().find(|(known, _)| *known == name) {
            excused += 1;
            println!("{name:<12} differs: {why}");
        } else {
            let paths = [sides.plain, sides.pooled].map(|folder| folder.join(format!("{name}.out")));
            let (_, said) = try_run(Command::new("diff").args(paths), LIMIT);
            println!("{name}: differs, and nobody knows why\n{}", said.out);
            news.push(name.to_owned());
        }
    }
    println!("{kind}: {same} tests say the same, {excused} differ for a reason, {} for none", news.len());
    if sides.expected.is_some() {
        println!("{kind}: {as_expected} of {} say directly what PostgreSQL expects", same + excused + news.len());
    }
    if news.is_empty() { Ok(()) } else { Err(format!("{kind}: failed: {}", news.join(", "))) }
}

impl Sides<'_> {
    fn say_the_same(&self, name: &str) -> bool {
        read(self.pooled, name) == read(self.plain, name) || self.is_expected(self.pooled, name)
    }

    /// Returns whether the output of a side is one of PostgreSQL's expected outputs.
    fn is_expected(&self, side: &Path, name: &str) -> bool {
        let said = read(side, name);
        let is_it = |suffix: &str| self.expected.is_some_and(|folder| read(folder, &format!("{name}{suffix}")) == said);
        said.is_some() && ["", "_1", "_2", "_3"].iter().any(|suffix| is_it(suffix))
    }
}

fn read(folder: &Path, name: &str) -> Option<Vec<u8>> {
    fs::read(folder.join(format!("{name}.out"))).ok()
}

const LIMIT: Duration = Duration::from_secs(60);
