//! Installs on a bare Debian machine what demo, tests and bench need.
//!
//! Always true: when everything is there, nothing is started and the network is not used. Packages come from the
//! distribution, without recommended ones, and no service is started by their installation: the demo, the tests and the
//! bench start their own PostgreSQL and stop it. Debian creates an empty cluster `main` when it installs PostgreSQL;
//! that cluster stays stopped.
//! Not here: Rust and a linker, without which this would not run. A package of its own without dependencies, so that `make demo` does
//! not wait for `xtask` to be built.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the machine must be able to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Purpose {
    /// Run `trunkline demo`.
    Demo,
    /// Run the tests.
    Test,
    /// Compare with PgBouncer.
    Bench,
    /// Count instructions with valgrind.
    Cost,
    /// Run PostgreSQL's regression tests.
    Regress,
    /// Run PostgreSQL's isolation tests.
    Isolation,
    /// Open the page in a browser. The package is large, and tests of the page are skipped without it.
    Page,
    /// Run a Patroni cluster; only installed on demand.
    Lab,
    /// Build PostgreSQL's parser; only installed on demand.
    Oracle,
}

impl Purpose {
    /// The purposes on the command line; demo, test and bench when none is named.
    ///
    /// # Errors
    /// A word that names no purpose.
    pub fn from_arguments(arguments: &[OsString]) -> Result<Vec<Purpose>, String> {
        let one = |argument: &OsString| match argument.to_str() {
            Some("demo") => Ok(Purpose::Demo),
            Some("test") => Ok(Purpose::Test),
            Some("bench") => Ok(Purpose::Bench),
            Some("cost") => Ok(Purpose::Cost),
            Some("page") => Ok(Purpose::Page),
            Some("oracle") => Ok(Purpose::Oracle),
            Some("lab") => Ok(Purpose::Lab),
            _ => Err(format!(
                "usage: setup [demo|test|bench|cost|page|oracle|lab]: {} is none of these",
                argument.to_string_lossy()
            )),
        };
        match arguments {
            [] => Ok(vec![Purpose::Demo, Purpose::Test, Purpose::Bench]),
            some => some.iter().map(one).collect(),
        }
    }
}

/// Installs what is missing for these purposes.
///
/// # Errors
/// What is missing and could not be installed, with the command that installs it.
pub fn run(purposes: &[Purpose]) -> Result<(), String> {
    let missing = missing(purposes);
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let packages = packages.join(" ");
    let by_hand = format!("apt-get update && apt-get install -y --no-install-recommends {packages}");
    if which("apt-get", &[]).is_none() {
        let names: Vec<&str> = missing.iter().map(|need| need.what).collect();
        return Err(format!("missing: {}. Install it; on Debian it would be: {by_hand}", names.join(", ")));
    }
    let Some(mut shell) = root_shell() else {
        return Err(format!("missing packages; run this, then try again:\n\n  sudo sh -c '{by_hand}'\n"));
    };
    eprintln!("installing {packages}");
    let script = SCRIPT.replace("PACKAGES", &packages);
    let status = shell.arg(script).status().map_err(|error| format!("cannot start a shell: {error}"))?;
    let still = self::missing(purposes);
    match (status.success(), still.first()) {
        (true, None) => Ok(()),
        (true, Some(need)) => Err(format!("{} was installed, but {} is still not found", need.package, need.what)),
        (false, _) => Err(format!("the installation failed; by hand it is, as root:\n\n  {by_hand}\n")),
    }
}

/// A root shell that asks for no password; its script is its next argument.
fn root_shell() -> Option<Command> {
    // The files of a process below /proc belong to its effective user.
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        let mut shell = Command::new("sh");
        shell.arg("-c");
        return Some(shell);
    }
    let sudo = which("sudo", &[])?;
    let may = Command::new(&sudo).args(["-n", "true"]).output().is_ok_and(|output| output.status.success());
    may.then(|| {
        let mut shell = Command::new(sudo);
        shell.args(["-n", "sh", "-c"]);
        shell
    })
}

/// The first of the usual folders (`PATH`, then `more`) that holds the program `name`.
#[must_use]
pub fn which(name: &str, more: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(more.iter().cloned());
    folders.map(|folder| folder.join(OsStr::new(name))).find(|program| program.is_file())
}

struct Need {
    what: &'static str,
    package: &'static str,
    purposes: &'static [Purpose],
    is_there: fn() -> bool,
}

fn missing(purposes: &[Purpose]) -> Vec<&'static Need> {
    let wanted = |need: &&Need| need.purposes.iter().any(|purpose| purposes.contains(purpose));
    NEEDS.iter().filter(wanted).filter(|need| !(need.is_there)()).collect()
}

/// Debian keeps the server's programs in a folder for each version.
fn postgres_folders() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).collect()
}

fn has_postgres() -> bool {
    let folders = postgres_folders();
    ["initdb", "postgres", "pg_ctl", "psql", "pgbench"].iter().all(|name| which(name, &folders).is_some())
}

fn has_valgrind() -> bool {
    ["valgrind", "vgdb"].iter().all(|name| which(name, &[]).is_some())
}

fn has_pgbouncer() -> bool {
    which("pgbouncer", &[PathBuf::from("/usr/sbin")]).is_some()
}

/// The library that bindgen loads to read C headers, and the compiler's own headers.
fn has_libclang() -> bool {
    let versions = || fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders = versions().filter(|folder| folder.to_string_lossy().contains("/llvm-"));
    folders.any(|folder| {
        let has = |name: &str| fs::read_dir(folder.join(name)).is_ok_and(|mut entries| entries.next().is_some());
        let is_library = |name: &OsString| name.to_string_lossy().starts_with("libclang");
        let mut libraries = fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
        has("lib/clang") && libraries.any(|entry| is_library(&entry.file_name()))
    })
}

fn has_psycopg() -> bool {
    Path::new("/usr/lib/python3/dist-packages/psycopg2/__init__.py").is_file()
}

fn has_patroni() -> bool {
    which("patroni", &[]).is_some()
}

fn has_python_etcd() -> bool {
    Path::new("/usr/lib/python3/dist-packages/etcd/__init__.py").is_file()
}

fn has_etcd() -> bool {
    which("etcd", &[]).is_some()
}

fn has_haproxy() -> bool {
    which("haproxy", &[PathBuf::from("/usr/sbin")]).is_some()
}

fn has_ip() -> bool {
    which("ip", &[PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]).is_some()
}

fn has_promtool() -> bool {
    which("promtool", &[]).is_some()
}

fn has_chromium() -> bool {
    which("chromium", &[]).is_some()
}

/// The regression tester of PostgreSQL, and the server headers for its library, which are in another package.
fn has_pg_regress() -> bool {
    let has_headers = |version: &OsStr| Path::new("/usr/include/postgresql").join(version).join("server/c.h").is_file();
    let mut folders = postgres_folders().into_iter();
    folders.any(|bin| {
        let runner = bin.join("../lib/pgxs/src/test/regress/pg_regress");
        runner.is_file() && bin.parent().and_then(Path::file_name).is_some_and(has_headers)
    })
}

/// What the isolation tester of PostgreSQL is built with, besides its source.
fn has_libpq_headers() -> bool {
    Path::new("/usr/include/postgresql/pg_config.h").is_file() && which("pg_config", &[]).is_some()
}

const NEEDS: [Need; 14] = [
    Need {
        what: "PostgreSQL (initdb, postgres, pg_ctl, psql, pgbench)",
        package: "postgresql",
        purposes: &[Purpose::Demo, Purpose::Test, Purpose::Bench, Purpose::Cost, Purpose::Oracle, Purpose::Lab],
        is_there: has_postgres,
    },
    Need {
        what: "pg_regress and the headers of PostgreSQL's server",
        package: "postgresql-server-dev-all",
        purposes: &[Purpose::Regress],
        is_there: has_pg_regress,
    },
    Need {
        what: "the headers of libpq",
        package: "libpq-dev",
        purposes: &[Purpose::Isolation],
        is_there: has_libpq_headers,
    },
    Need { what: "libclang", package: "libclang-14-dev", purposes: &[Purpose::Oracle], is_there: has_libclang },
    Need {
        what: "valgrind and vgdb",
        package: "valgrind",
        purposes: &[Purpose::Test, Purpose::Cost],
        is_there: has_valgrind,
    },
    Need {
        what: "pgbouncer",
        package: "pgbouncer",
        purposes: &[Purpose::Bench, Purpose::Lab],
        is_there: has_pgbouncer,
    },
    Need { what: "Patroni", package: "patroni", purposes: &[Purpose::Lab], is_there: has_patroni },
    Need { what: "etcd for Patroni", package: "python3-etcd", purposes: &[Purpose::Lab], is_there: has_python_etcd },
    Need { what: "etcd", package: "etcd-server", purposes: &[Purpose::Lab], is_there: has_etcd },
    Need { what: "HAProxy", package: "haproxy", purposes: &[Purpose::Lab], is_there: has_haproxy },
    Need { what: "ip", package: "iproute2", purposes: &[Purpose::Lab], is_there: has_ip },
    Need {
        what: "psycopg2 for python3",
        package: "python3-psycopg2",
        purposes: &[Purpose::Test, Purpose::Lab],
        is_there: has_psycopg,
    },
    Need {
        what: "promtool, which tries alerts",
        package: "prometheus",
        purposes: &[Purpose::Test],
        is_there: has_promtool,
    },
    Need {
        what: "Chromium, which opens the page",
        package: "chromium",
        purposes: &[Purpose::Page],
        is_there: has_chromium,
    },
];

/// Debian starts the services that it installs unless `policy-rc.d` forbids it (invoke-rc.d(8)); the file is created
/// and removed only if there was none. The package lists are fetched when there are none, and again when the
/// installation fails, because old lists name packages that no longer exist.
const SCRIPT: &str = r#"
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
install() {
    apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends PACKAGES
}
update() {
    apt-get -q -o DPkg::Lock::Timeout=120 update
}
ls /var/lib/apt/lists/*_Packages* > /dev/null 2>&1 || update
install || { update && install; }
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_word_everything_is_wanted() {
        assert_eq!(Purpose::from_arguments(&[]).map(|purposes| purposes.len()), Ok(3));
        assert_eq!(Purpose::from_arguments(&["bench".into()]), Ok(vec![Purpose::Bench]));
        assert!(Purpose::from_arguments(&["bnech".into()]).is_err());
    }

    #[test]
    fn the_demo_wants_postgres_and_nothing_else() {
        let wanted: Vec<&str> =
            NEEDS.iter().filter(|need| need.purposes.contains(&Purpose::Demo)).map(|need| need.package).collect();
        assert_eq!(wanted, ["postgresql"]);
    }
}
