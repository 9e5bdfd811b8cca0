//! The seeds of a target: small inputs, made by hand from real conversations or from failures that were fixed.
//!
//! Always true: they are ordered by name, so that a search runs the same way on every machine.
//! Not here: the corpus that `cargo fuzz` collects beside them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The name of a seed's file, and the seed.
pub type Seed = (String, Vec<u8>);

/// The folder of this package.
#[must_use]
pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the seeds of a target.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    home().join("corpus").join(target)
}

/// Reads the seeds of a target.
///
/// # Errors
/// The folder or one of the files cannot be read.
pub fn seeds(target: &str) -> io::Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    for entry in fs::read_dir(folder(target))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "seed") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            seeds.push((name, fs::read(&path)?));
        }
    }
    seeds.sort();
    Ok(seeds)
}
