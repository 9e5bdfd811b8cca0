//! What tests said directly and through the pooler, held side by side.
//!
//! Always true: a difference without a known reason fails.
//! Not here: how the tests are played (`regression`).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::program::try_run;

/// Folders with a file `TEST.out` for each test.
pub(crate) struct Sides<'a> {
    pub(crate) plain: &'a Path,
    pub(crate) pooled: &'a Path,
}

/// Tells how many tests said the same; the names of those that did not, without a known reason, are the error.
pub(crate) fn compare(sides: &Sides, known: &[(&str, &str)]) -> Result<(), String> {
    let files = fs::read_dir(sides.plain).map_err(|error| error.to_string())?.flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.sort();
    let (mut same, mut excused, mut news) = (0, 0, Vec::new());
    for name in names.iter().filter_map(|name| name.strip_suffix(".out")) {
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
    println!("{same} tests say the same, {excused} differ for a reason, {} for none", news.len());
    if news.is_empty() { Ok(()) } else { Err(format!("regress: failed: {}", news.join(", "))) }
}

impl Sides<'_> {
    fn say_the_same(&self, name: &str) -> bool {
        let read = |folder: &Path| fs::read(folder.join(format!("{name}.out"))).unwrap_or_default();
        read(self.plain) == read(self.pooled)
    }
}

const LIMIT: Duration = Duration::from_secs(60);
