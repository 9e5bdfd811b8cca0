//! The real binary in front of a real PostgreSQL.
//!
//! Always true: all tests share one throw-away cluster, and each has a pooler and (where servers are counted) a database
//! of its own, so that they can run side by side.
//! Not here: conversations that need a server that misbehaves byte by byte (`talk`).

mod cancel;
mod comparison;
mod console;
mod house;
mod logins;
mod operation;
mod pooling;
mod prepared;
mod replication;
mod sessions;
mod versions;

#[path = "../hostile/mod.rs"]
mod hostile;
#[path = "../soak/mod.rs"]
mod soak;

use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tests::runner::{self, Alone, Options, Test};

use crate::house::House;

fn main() -> ExitCode {
    let options = Options::from_arguments();
    if options.is_list() {
        list().iter().for_each(|(name, _, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    // Thousands of clients need as many descriptors, here and in the pooler, which inherits the limit.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let house = match House::open() {
        Ok(house) => house,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    let house = &house;
    let tests = list()
        .into_iter()
        .map(|(name, alone, body)| Test { name: name.to_owned(), alone, body: Box::new(move || body(house)) })
        .collect();
    match runner::run(tests, &options) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

type Entry = (&'static str, Alone, fn(&House));

/// Every test: `build.rs` finds them by the form of their declaration.
fn list() -> Vec<Entry> {
    include!(concat!(env!("OUT_DIR"), "/real.rs"))
}
