//! A comparison: programs in other languages, each run directly and through the pooler.
//!
//! Always true: a program that cannot be built on this machine is skipped, with the reason; sources are in the folder beside
//! this one that has the comparison's name, and their dependencies go to a folder of the same name below `target`.
//! Not here: how a program is built (`kit`), what it is run against (the `trial` of each comparison).

use std::path::Path;
use std::sync::Arc;

use crate::choice::{Choice, Menu};
use crate::kit::{Kit, Language};
use crate::matrix::Matrix;
use crate::place::Place;

/// A program that is compared.
#[derive(Debug)]
pub struct Program {
    /// Its official name, also used on the command line.
    pub name: &'static str,
    /// Its language.
    pub language: Language,
    /// Its name in the folder of its language.
    pub file: &'static str,
}

impl AsRef<Self> for Program {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Runs each selected program; `set` prepares the servers.
///
/// # Errors
/// What is wrong with the command line or the machine, or that programs have failed.
pub fn run<P: AsRef<Program>, S>(
    menu: Menu,
    programs: &[P],
    set: impl FnOnce(&Arc<Place>) -> S,
    try_one: impl Fn(&S, &P, &Kit, &Choice, &mut Matrix),
) -> Result<(), String> {
    let (name, choice) = (menu.folder, Choice::read(menu, std::env::args().skip(1))?);
    let scene = set(&Arc::new(Place::find()?));
    let mut matrix = Matrix::of(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    for tried in programs {
        let Program { name, language, file } = *tried.as_ref();
        if !choice.wants(name) {
            continue;
        }
        match Kit::prepare(language, file, &sources, &choice.folder()) {
            Ok(kit) => try_one(&scene, tried, &kit, &choice, &mut matrix),
            Err(reason) => matrix.skip(name, &reason),
        }
    }
    matrix.verdict(choice.strict)
}
