//! `cargo xtask oracle`: compares what `route` reads in SQL with what PostgreSQL's own parser reads.
//!
//! Always true: the parser comes from crates.io, and PostgreSQL's regression tests from the source package of the
//! distribution; both stay in cargo's target folder.
//! Not here: the comparison (`tests/oracle`).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house::{House, become_program};
use setup::{Purpose, which};

pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    setup::run(&[Purpose::Oracle])?;
    let target = house.target().join("oracle");
    let folder = target.to_string_lossy();
    house.cargo(["build", "--release", "--manifest-path", "tests/oracle/Cargo.toml", "--target-dir", &folder])?;
    let program = target.join("release").join("oracle");
    let is_option = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    let has_folder = arguments.first().is_some_and(|first| !is_option(first));
    let sql =
        if has_folder { None } else { Some(postgres_source(&target)?.join("src/test/regress/sql").into_os_string()) };
    Err(become_program(&program, sql.iter().chain(arguments)))
}

/// Fetches the needed part of PostgreSQL's source once: its regression and isolation tests, and the files that the
/// isolation tester is built from.
pub(crate) fn postgres_source(target: &Path) -> Result<PathBuf, String> {
    let home = target.join("postgresql");
    if let Some(found) = find_source(&home) {
        return Ok(found);
    }
    if which("apt-get", &[]).is_none() {
        return Err(
            "no apt-get to fetch PostgreSQL's source with: name a folder of .sql files, such as src/test/regress/sql"
                .into(),
        );
    }
    fs::create_dir_all(home.join("lists/partial"))
        .map_err(|error| format!("cannot make {}: {error}", home.display()))?;
    eprintln!("fetching the source package of PostgreSQL into {}", home.display());
    let status = Command::new("sh").arg("-c").arg(FETCH).current_dir(&home).status();
    match status {
        Ok(status) if status.success() => {
            find_source(&home).ok_or_else(|| format!("no tests of PostgreSQL below {}", home.display()))
        }
        Ok(_) => Err("PostgreSQL's source package cannot be had; name a folder of .sql files instead".into()),
        Err(error) => Err(format!("cannot start a shell: {error}")),
    }
}

fn find_source(home: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(home).ok()?.flatten().map(|entry| entry.path());
    let has_all = |folder: &PathBuf| NEEDED.iter().all(|part| folder.join(part).is_dir());
    folders.into_iter().find(has_all)
}

const NEEDED: [&str; 6] = [
    "src/test/regress/sql",
    "src/test/isolation/specs",
    "src/include/common",
    "src/interfaces/libpq",
    "src/common",
    "src/port",
];

/// Uses its own list of package sources, so the machine's list does not change, and root is not needed.
const FETCH: &str = r#"
set -e
. /etc/os-release
version=$(ls /usr/lib/postgresql | sort -n | tail -1)
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $VERSION_CODENAME main" > sources.list
options="-q -o Dir::Etc::SourceList=$PWD/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$PWD/lists
    -o Dir::Cache=$PWD -o APT::Sandbox::User= -o Debug::NoLocking=1"
apt-get $options update
apt-get $options source --download-only "postgresql-$version"
tar xf postgresql-"$version"_*.orig.tar.* --wildcards '*/src/test/regress/*' '*/src/test/isolation/*' '*/src/include/*' \
    '*/src/interfaces/libpq/*' '*/src/common/*' '*/src/port/*'
"#;
