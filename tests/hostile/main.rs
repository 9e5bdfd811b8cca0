//! `cargo xtask hostile`: attacks on the real binary, and what a bystander in another database notices of them.
//!
//! Always true: when an attack has affected anybody but the attacker, it exits with 1 and the names.
//! Not here: the attacks and what is measured (`mod.rs`, which `real` shares).

#[path = "mod.rs"]
mod hostile;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tests::place::Place;
use tests::postgres::Postgres;
use tests::runner;

use hostile::attack::{Attack, attacks};
use hostile::table::{self, Row};
use hostile::trial;

fn main() -> ExitCode {
    runner::exit(run())
}

fn run() -> Result<(), String> {
    let options = Options::from_arguments(std::env::args().skip(1))?;
    let wanted: Vec<Attack> = attacks().into_iter().filter(|attack| options.wants(attack)).collect();
    if options.is_list {
        wanted.iter().for_each(|attack| println!("{}", attack.name));
        return Ok(());
    }
    // Floods need file descriptors, here and in the pooler, which inherits the limit.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let place = Arc::new(Place::find()?);
    let postgres = Postgres::start(&place);
    println!("{}", table::head(options.pgbouncer));
    let mut failed = Vec::new();
    for attack in &wanted {
        let ours = trial::run(&place, &postgres, attack, None);
        let theirs = options.pgbouncer.then(|| trial::run(&place, &postgres, attack, Some(Path::new(PGBOUNCER))));
        let row = Row { name: attack.name, ours, theirs };
        println!("{}", table::line(&row));
        failed.extend(row.ours.complaint().map(|what| format!("{}: {what}", attack.name)));
    }
    println!("\n{} attacks, {} failed", wanted.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// The command line.
struct Options {
    /// Parts of names; all attacks when empty.
    only: Vec<String>,
    pgbouncer: bool,
    is_list: bool,
}

impl Options {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options { only: Vec::new(), pgbouncer: false, is_list: false };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--only" => options.only.push(arguments.next().ok_or(USAGE)?),
                "--pgbouncer" => options.pgbouncer = true,
                "--list" => options.is_list = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }

    fn wants(&self, attack: &Attack) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| attack.name.contains(part.as_str()))
    }
}

/// The program of Debian's package.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";
const USAGE: &str = "usage: cargo xtask hostile [--only NAME]... [--pgbouncer] [--list]";
