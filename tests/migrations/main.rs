//! `cargo xtask migrations`: the tools by which people change their schemas, directly and through the pooler.
//!
//! Always true: five replicas of a program start at once on a database of their own, on PostgreSQL itself and through
//! poolers in front of it; what ends well there and not here fails the run. What is installed for it goes below
//! `target/migrations`.
//! Not here: the programs (a folder for each language beside this file), and how each is made (`tests::kit`).

mod options;
mod replica;
mod stage;
mod tools;
mod trial;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tests::choice::Choice;
use tests::kit::Kit;
use tests::matrix::Matrix;
use tests::place::Place;
use tests::runner;

use crate::stage::Scene;
use crate::tools::TOOLS;

fn main() -> ExitCode {
    runner::exit(run())
}

fn run() -> Result<(), String> {
    let choice = Choice::read(options::menu(), std::env::args().skip(1))?;
    let place = Arc::new(Place::find()?);
    let scene = Scene::set(&place);
    let mut matrix = Matrix::of("migrations");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    for tool in TOOLS.iter().filter(|tool| choice.wants(tool.name)) {
        match Kit::prepare(tool.language, tool.program, &sources, &choice.folder()) {
            Ok(kit) => trial::run(&scene, tool, &kit, &choice, &mut matrix),
            Err(reason) => matrix.skip(tool.name, &reason),
        }
    }
    matrix.verdict(choice.strict)
}
