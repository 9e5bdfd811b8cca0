//! `cargo xtask drivers`: real drivers of the languages that people use, directly and through the pooler.
//!
//! Always true: each program runs the same cases against PostgreSQL itself and against poolers in front of it; what passes
//! there and fails here fails the run. What is installed for it goes below `target/drivers`.
//! Not here: what a case does (a folder for each language beside this file), and how it is made (`kit`).

mod cases;
mod kit;
mod matrix;
mod options;
mod stage;
mod trial;

use std::process::ExitCode;
use std::sync::Arc;

use tests::place::Place;
use tests::runner;

use crate::kit::Kit;
use crate::matrix::Matrix;
use crate::options::Options;
use crate::stage::Scene;

fn main() -> ExitCode {
    runner::exit(run())
}

fn run() -> Result<(), String> {
    let options = Options::read(std::env::args().skip(1))?;
    let place = Arc::new(Place::find()?);
    let scene = Scene::set(&place);
    let mut matrix = Matrix::default();
    for driver in kit::DRIVERS.iter().filter(|driver| options.wants(driver.name)) {
        match Kit::prepare(driver, &options.folder) {
            Ok(kit) => trial::run(&scene, &kit, &options, &mut matrix),
            Err(reason) => matrix.skip(driver.name, &reason),
        }
    }
    matrix.verdict(options.strict)
}
