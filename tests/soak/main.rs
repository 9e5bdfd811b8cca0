//! `cargo xtask soak`: minutes of chaos around the real binary and a real PostgreSQL.
//!
//! Always true: it exits with 1 and the evidence when anybody saw what was not his.
//! Not here: what is done and checked (`mod.rs`, which `real` shares).

#[path = "mod.rs"]
mod soak;

mod arguments;

use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tests::place::Place;
use tests::postgres::Postgres;
use tests::runner;

fn main() -> ExitCode {
    runner::exit(run())
}

fn run() -> Result<(), String> {
    let options = arguments::read(std::env::args().skip(1))?;
    // Every client has a descriptor here, two in the proxy, and one in the pooler, which inherits the limit.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let place = Arc::new(Place::find()?);
    let postgres = Postgres::start(&place);
    soak::run(&place, &postgres, &options)
}
