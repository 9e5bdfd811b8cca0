//! `cargo xtask migrations`: the tools by which people change their schemas, directly and through the pooler.
//!
//! Always true: five replicas of a program start at once on a database of their own, on PostgreSQL itself and through
//! poolers in front of it; what ends well there and not here fails the run. What is installed for it goes below
//! `target/migrations`.
//! Not here: the programs (a folder for each language beside this file), how each is made (`tests::kit`), which of them are tried
//! (`tests::comparison`).

mod options;
mod replica;
mod stage;
mod tools;
mod trial;

use std::process::ExitCode;

use tests::{comparison, runner};

use crate::stage::Scene;
use crate::tools::TOOLS;

fn main() -> ExitCode {
    runner::exit(comparison::run(options::menu(), &TOOLS, Scene::set, trial::run))
}
