//! `cargo xtask migrations`: schema migration tools, directly and through the pooler.
//!
//! Always true: five replicas of a program start at once on a database of their own, on PostgreSQL itself and through
//! poolers in front of it; what ends well directly and not through a pooler fails the run. Dependencies are installed below
//! `target/migrations`.
//! Not here: the programs (a folder for each language beside this file), how each is built (`tests::kit`), which of them are
//! run (`tests::comparison`).

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
