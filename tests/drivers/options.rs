//! The command line of `cargo xtask drivers`.

use std::path::{Path, PathBuf};

/// Which drivers, which cases, through what.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    /// Only these drivers; all when empty.
    drivers: Vec<String>,
    /// Only these cases; all when empty.
    cases: Vec<String>,
    /// Only stages whose name contains this.
    pub(crate) stage: Option<String>,
    /// Whether a driver that cannot be had fails the run.
    pub(crate) strict: bool,
    /// Where what the drivers need is installed.
    pub(crate) folder: PathBuf,
}

impl Options {
    /// Reads the command line.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { drivers: Vec::new(), cases: Vec::new(), stage: None, strict: false, folder: folder() };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} wants a value\n\n{USAGE}"));
            match name.as_str() {
                "--strict" => options.strict = true,
                "--case" => options.cases.push(value()?),
                "--stage" => options.stage = Some(value()?),
                "--help" => return Err(USAGE.to_string()),
                flag if flag.starts_with('-') => return Err(format!("what is {flag}?\n\n{USAGE}")),
                driver => options.drivers.push(driver.to_string()),
            }
        }
        let known = |name: &String| crate::kit::DRIVERS.iter().any(|driver| driver.name == name);
        if let Some(stranger) = options.drivers.iter().find(|name| !known(name)) {
            return Err(format!("no driver is called {stranger}\n\n{USAGE}"));
        }
        if let Some(stranger) = options.cases.iter().find(|name| !crate::cases::CASES.contains(&name.as_str())) {
            return Err(format!("no case is called {stranger}\n\n{USAGE}"));
        }
        Ok(options)
    }

    /// Whether this driver is asked for.
    pub(crate) fn wants(&self, driver: &str) -> bool {
        self.drivers.is_empty() || self.drivers.iter().any(|name| name == driver)
    }

    /// The cases that are asked for, in their order.
    pub(crate) fn wanted_cases(&self) -> impl Iterator<Item = &'static str> {
        let is_wanted = |case: &&str| self.cases.is_empty() || self.cases.iter().any(|name| name == case);
        crate::cases::CASES.into_iter().filter(is_wanted)
    }

    /// Whether this stage is asked for. The direct one always is: without it nobody knows whose failure it was.
    pub(crate) fn wants_stage(&self, name: &str) -> bool {
        name == crate::stage::DIRECT || self.stage.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }
}

fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path)).join("drivers")
}

const USAGE: &str = "\
usage: cargo xtask drivers [DRIVER ...] [--case NAME] [--stage NAME] [--strict]

  DRIVER         psycopg, asyncpg, psycopg2, pgx, pq, pgjdbc, node-postgres,
                 tokio-postgres, sqlx; all without a name
  --case NAME    only this case; may be given again
  --stage NAME   only stages with this in their name: transaction, session, io_uring, epoll
  --strict       a driver that cannot be had here is a failure";
