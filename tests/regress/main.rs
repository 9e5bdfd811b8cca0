//! `cargo xtask regress`: PostgreSQL's own regression and isolation tests, directly and through a pooler.
//!
//! Always true: a test whose output is the same both ways passes; any other must have a known difference with a reason.
//! Not here: where the tests come from (`xtask`); `TRUNKLINE_REGRESS` names the folder of PostgreSQL's source.

mod difference;
mod isolation;
mod regression;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::runner;

fn main() -> ExitCode {
    runner::exit(regress())
}

fn regress() -> Result<(), String> {
    let source = std::env::var("TRUNKLINE_REGRESS").map_err(|_| "run it by `cargo xtask regress`".to_owned())?;
    let source = PathBuf::from(source);
    let choice = Choice::from_arguments(std::env::args().skip(1))?;
    let place = Arc::new(Place::find()?);
    let regression = match choice.only {
        Only::Isolation(_) => Ok(()),
        _ => regression::check(&place, &source, choice.servers),
    };
    let isolation = match &choice.only {
        Only::Regression => Ok(()),
        Only::Isolation(spec) => isolation::check(&place, &source, spec.as_deref()),
        Only::All => isolation::check(&place, &source, None),
    };
    match (regression, isolation) {
        (Err(one), Err(other)) => Err(format!("{one}\n{other}")),
        (one, other) => one.and(other),
    }
}

struct Choice {
    /// For the regression tests; the isolation tests need as many servers as sessions wait.
    servers: u32,
    only: Only,
}

enum Only {
    All,
    Regression,
    /// All specs, or this one.
    Isolation(Option<String>),
}

impl Choice {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Choice, String> {
        let mut choice = Choice { servers: 10, only: Only::All };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(USAGE)?;
            match name.as_str() {
                "--servers" => {
                    choice.servers = value.parse().map_err(|_| format!("--servers {value}: not a number"))?
                }
                "--only" => choice.only = Only::from_name(&value)?,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(choice)
    }
}

impl Only {
    fn from_name(name: &str) -> Result<Only, String> {
        match name.split_once('/') {
            None if name == "regression" => Ok(Only::Regression),
            None if name == "isolation" => Ok(Only::Isolation(None)),
            Some(("isolation", spec)) => Ok(Only::Isolation(Some(spec.to_owned()))),
            _ => Err(USAGE.to_owned()),
        }
    }
}

/// A pooler in transaction mode whose sessions follow their clients, with so many servers for each database.
fn pooler(place: &Arc<Place>, postgres: &Postgres, servers: u32) -> Pooler {
    let database = format!("* = host=127.0.0.1 port={}", postgres.port());
    let size = format!("default_pool_size = {servers}");
    let ini = Ini::new(&database).set(&size).set("max_client_conn = 200").secret("postgres", "");
    Pooler::start(place, &ini)
}

const USAGE: &str = "usage: cargo xtask regress [--servers COUNT] [--only regression|isolation|isolation/SPEC]";
