//! `cargo xtask soak`: minutes of chaos around the real binary and a real PostgreSQL.
//!
//! Always true: the program exits with 1 and prints the evidence when a client received data of another client.
//! Not here: the soak and its checks (`mod.rs`, which `real` shares).

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
    // Every client needs a descriptor here, two in the proxy, and one in the pooler, which inherits the limit.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let place = Arc::new(Place::find()?);
    let postgres = Postgres::start(&place);
    soak::run(&place, &postgres, &options)
}
