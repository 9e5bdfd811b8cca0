//! `cargo xtask world`: simulated days of whole workers, from seeds, and the proof that they find planted bugs.
//!
//! Always true: all runs use the same binary, with the bugs of `base::planted` built in and none planted unless
//! `--planted` asks for that. So the proof is about the binary that searches.
//! Not here: the world itself (`crates/world`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::house::House;

/// Passes the arguments on to the world.
pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let program = build(house)?;
    tell(&program, arguments)
}

/// What every change has to pass: the seeds that were bad once, many new ones, some by both ways of a transaction, some twice, every planted bug.
pub(crate) fn prove(house: &House) -> Result<(), String> {
    let program = build(house)?;
    let known = house.root().join("crates/world/seeds.txt");
    tell(&program, &["--known".into(), known.into()])?;
    tell(&program, &["--seeds".into(), SEEDS.into()])?;
    tell(&program, &["--both-ways".into(), "--seeds".into(), COMPARED.into()])?;
    for seed in TOLD_TWICE {
        let [first, second] = [(), ()].map(|()| story(&program, seed));
        if first? != second? {
            return Err(format!("world: seed {seed} tells two different stories"));
        }
    }
    println!("seeds {TOLD_TWICE:?} tell the same story twice, byte for byte");
    let recorded = house.root().join("crates/world/planted.txt");
    tell(&program, &["--planted".into(), "--recorded".into(), recorded.into()])
}

/// Builds the world with the bugs that can be planted.
pub(crate) fn build(house: &House) -> Result<PathBuf, String> {
    let mut command = house.optimizing_cargo_command();
    command.args(["build", "--quiet", "--profile", "world", "--package", "world", "--features", "planted"]);
    let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err("world: it does not build".to_owned());
    }
    Ok(house.target().join("world").join("world"))
}

fn tell(program: &PathBuf, arguments: &[OsString]) -> Result<(), String> {
    let status = Command::new(program).args(arguments).status().map_err(|error| format!("cannot start: {error}"))?;
    status.success().then_some(()).ok_or_else(|| "world: failed".to_owned())
}

/// The complete log of a world.
fn story(program: &PathBuf, seed: &str) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.args(["--seed", seed, "--whole", "--moments", "10000000"]);
    let output = command.output().map_err(|error| format!("cannot start: {error}"))?;
    output.status.success().then_some(output.stdout).ok_or_else(|| format!("world: seed {seed} is bad"))
}

/// Number of seeds in every run of the tests.
const SEEDS: &str = "800";
/// Number of seeds that are told with the plain ways of transactions and without.
const COMPARED: &str = "40";
/// Seeds that are run twice and compared.
const TOLD_TWICE: [&str; 3] = ["2", "7", "40"];
