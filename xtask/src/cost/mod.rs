//! `cargo xtask cost`: what the pooler does for one transaction, counted instead of timed.
//!
//! Always true: each figure is the difference of two runs of the same program that differ in nothing but how many
//! transactions were played, divided by their number; so what starting and stopping cost is in none of them.
//! Not here: throughput and processor time (`bench`).

mod kinds;
mod player;
mod table;
mod valgrind;

use std::ffi::OsString;
use std::fs;

use ops::trial::{Cluster, ClusterShape, Trial, TrialError, free_ports};

use crate::bench::{Answers, Tap};
use crate::house::House;
use crate::setup::{self, Purpose};
use kinds::Kind;
use table::{Figures, Table};
use valgrind::Stage;

/// Counts, prints the table, and writes it or compares it with the one in the repository.
pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let is_writing = match arguments {
        [] => false,
        [only] if only == "--write" => true,
        [only] if only == "--check" => false,
        _ => return Err(USAGE.to_owned()),
    };
    setup::run(&[Purpose::Cost])?;
    let program = std::path::absolute(house.build_release()?).map_err(|error| error.to_string())?;
    let counted = count(&program).map_err(|error| error.to_string())?;
    let now = Table { key: valgrind::key()?, rows: counted };
    let path = house.root().join(PAGE);
    print!("{}", now.page());
    if is_writing {
        return fs::write(&path, now.page()).map_err(|error| format!("cannot write {PAGE}: {error}"));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {PAGE}: {error}"))?;
    let verdict = Table::read(&text).ok_or(format!("{PAGE} is no table of costs: run `{WRITE}`"))?.compare(&now);
    verdict.told.iter().for_each(|line| println!("{line}"));
    match verdict.grown.as_slice() {
        [] => Ok(()),
        grown => Err(format!("{}\nIf that is meant, run `{WRITE}` and commit {PAGE}.", grown.join("\n"))),
    }
}

fn count(program: &std::path::Path) -> Result<Vec<(String, Figures)>, TrialError> {
    let trial = Trial::open("trunkline-cost")?;
    let [port] = free_ports()?;
    let cluster = Cluster::start(&trial, port, ClusterShape { connections_max: 50, buffers_mib: 64, scale: 1 })?;
    let tap = Tap::open(cluster.port(), Answers::Whole);
    let tap = tap.map_err(|why| TrialError::step("no relay before PostgreSQL".into(), why))?;
    let stage = Stage { trial: &trial, program, tap: &tap };
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        // Whatever else happens on the machine can only add to a run.
        let least = |times| {
            let runs = (0..ROUNDS).map(|_| stage.play(kind, times));
            runs.reduce(|least, run| Ok(least?.least(run?))).unwrap_or_else(|| Ok(Figures::default()))
        };
        let figures = least(3 * kind.times())?.less(least(kind.times())?, 2 * kind.times());
        eprintln!("{:<24} {}", kind.name(), figures.words());
        rows.push((kind.name().to_owned(), figures));
    }
    Ok(rows)
}

const ROUNDS: u32 = 3;

const PAGE: &str = "docs/reference/cost.md";
const WRITE: &str = "cargo xtask cost --write";
const USAGE: &str = "usage: cargo xtask cost [--check | --write]";
