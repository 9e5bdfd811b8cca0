//! `cargo xtask drivers`: drivers of many languages, directly and through the pooler.
//!
//! Always true: each program runs the same cases against PostgreSQL itself and against poolers in front of it; what passes
//! directly and fails through a pooler fails the run. Dependencies are installed below `target/drivers`.
//! Not here: what a case does (a folder for each language beside this file), how its program is built (`tests::kit`), which
//! of them are run (`tests::comparison`).

mod cases;
mod drivers;
mod options;
mod stage;
mod trial;

use std::process::ExitCode;

use tests::{comparison, runner};

use crate::drivers::DRIVERS;
use crate::stage::Scene;

fn main() -> ExitCode {
    runner::exit(comparison::run(options::menu(), &DRIVERS, Scene::set, trial::run))
}
