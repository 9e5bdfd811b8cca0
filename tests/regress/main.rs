//! `cargo xtask regress`: PostgreSQL's own regression tests, directly and through a pooler.
//!
//! Always true: a test whose output is the same both ways passes; any other must be one whose difference is known, with its
//! reason.
//! Not here: where the tests come from (`xtask`); `TRUNKLINE_REGRESS` names the folder of the tests.

mod difference;
mod regression;

use std::path::Path;
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
    let folder = std::env::var("TRUNKLINE_REGRESS").map_err(|_| "run it by `cargo xtask regress`".to_owned())?;
    let mut arguments = std::env::args().skip(1);
    let servers = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => 10,
        (Some("--servers"), Some(count)) => count.parse().map_err(|_| format!("--servers {count}: not a number"))?,
        _ => return Err("usage: cargo xtask regress [--servers COUNT]".to_owned()),
    };
    let place = Arc::new(Place::find()?);
    regression::check(&place, Path::new(&folder), servers)
}

/// Transaction pooling in which sessions follow their clients, with so many servers for each database.
fn pooler(place: &Arc<Place>, postgres: &Postgres, servers: u32) -> Pooler {
    let database = format!("* = host=127.0.0.1 port={}", postgres.port());
    let size = format!("default_pool_size = {servers}");
    let ini = Ini::new(&database).set(&size).set("max_client_conn = 200").secret("postgres", "");
    Pooler::start(place, &ini)
}
