//! The location of PostgreSQL's programs.
//!
//! Distributions keep `initdb` and `postgres` off the `PATH`, so their usual directories are searched as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::TrialError;

/// A directory with all of PostgreSQL's programs that a trial needs, of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    directory: PathBuf,
    /// The version that `postgres --version` prints, for example `15.20 (Debian 15.20-0+deb12u1)`.
    pub version: String,
}

impl Programs {
    /// Searches every directory of `PATH`, then the directories of the distributions (newest version first), then the
    /// one that `pg_config` prints.
    ///
    /// # Errors
    /// No directory has all programs.
    pub fn find() -> Result<Self, TrialError> {
        let directory = candidates().into_iter().find(|directory| has_all(directory));
        let directory = directory.ok_or_else(|| TrialError::ProgramsMissing(ADVICE.into()))?;
        let version = version_of(&directory.join("postgres"));
        Ok(Self { directory, version })
    }

    /// The directory of the programs.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of a program.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// How to call `psql`: the bare name if it is on the `PATH`, else its path; `None` if there is none.
    #[must_use]
    pub fn psql(&self) -> Option<String> {
        if search_path().iter().any(|directory| directory.join("psql").is_file()) {
            return Some("psql".into());
        }
        let path = self.path("psql");
        path.is_file().then(|| path.display().to_string())
    }
}

fn candidates() -> Vec<PathBuf> {
    let mut all = search_path();
    for (above, prefix, below) in PLACES {
        all.extend(newest_first(Path::new(above), prefix).into_iter().map(|path| path.join(below)));
    }
    let told = Command::new("pg_config").arg("--bindir").output().ok();
    all.extend(told.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())));
    all
}

fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// The directories in `above` whose names are `prefix` and a number, the largest number first.
fn newest_first(above: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(above).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            // Versions before 10 had two numbers, `9.6`.
            let number = name.to_str()?.strip_prefix(prefix)?.split('.').next()?.parse().ok()?;
            Some((number, entry.path()))
        })
        .collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, path)| path).collect()
}

fn has_all(directory: &Path) -> bool {
    NEEDED.iter().all(|name| directory.join(name).is_file())
}

fn version_of(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.trim().trim_start_matches("postgres (PostgreSQL) ").to_owned()
}

const NEEDED: [&str; 3] = ["initdb", "postgres", "pgbench"];

/// Debian and Ubuntu; the packages of postgresql.org for Red Hat and SUSE.
const PLACES: [(&str, &str, &str); 3] =
    [("/usr/lib/postgresql", "", "bin"), ("/usr", "pgsql-", "bin"), ("/usr/lib", "postgresql", "bin")];

const ADVICE: &str = "PostgreSQL's programs (initdb, postgres, pgbench) are not on this machine.\n\
    On Debian and Ubuntu:   sudo apt-get install postgresql\n\
    On Fedora:              sudo dnf install postgresql-server postgresql-contrib";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first_by_number_and_not_by_letter() {
        let above = std::env::temp_dir().join(format!("trunkline-programs-test-{}", std::process::id()));
        for name in ["9.6", "15", "17", "readme"] {
            fs::create_dir_all(above.join(name)).expect("directory");
        }
        let found = newest_first(&above, "");
        fs::remove_dir_all(&above).expect("removed");
        assert_eq!(found, ["17", "15", "9.6"].map(|name| above.join(name)));
    }
}
