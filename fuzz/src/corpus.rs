//! The seeds of a target: small inputs, made by hand from real conversations or left by mended failures.
//!
//! Always true: they come in the order of their names, so that a search tells the same story on every machine.
//! Not here: what `cargo fuzz` gathers beside them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A seed and the name of its file.
pub type Seed = (String, Vec<u8>);

/// The folder of this package.
#[must_use]
pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the seeds of a target lie.
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
