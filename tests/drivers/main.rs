//! `cargo xtask drivers`: real drivers of the languages that people use, directly and through the pooler.
//!
//! Always true: each program runs the same cases against PostgreSQL itself and against poolers in front of it; what passes
//! there and fails here fails the run. What is installed for it goes below `target/drivers`.
//! Not here: what a case does (a folder for each language beside this file), and how its program is made (`tests::kit`).

mod cases;
mod drivers;
mod options;
mod stage;
mod trial;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tests::choice::Choice;
use tests::kit::Kit;
use tests::matrix::Matrix;
use tests::place::Place;
use tests::runner;

use crate::drivers::DRIVERS;
use crate::stage::Scene;

fn main() -> ExitCode {
    runner::exit(run())
}

fn run() -> Result<(), String> {
    let choice = Choice::read(options::menu(), std::env::args().skip(1))?;
    let place = Arc::new(Place::find()?);
    let scene = Scene::set(&place);
    let mut matrix = Matrix::of("drivers");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers");
    for driver in DRIVERS.iter().filter(|driver| choice.wants(driver.name)) {
        match Kit::prepare(driver.language, driver.program, &sources, &choice.folder()) {
            Ok(kit) => trial::run(&scene, driver, &kit, &choice, &mut matrix),
            Err(reason) => matrix.skip(driver.name, &reason),
        }
    }
    matrix.verdict(choice.strict)
}
