//! The scripts of what drivers send on their own, and the page about them.
//!
//! Not here: how a script is read (the crate `habits`), and what is measured with it (`bench`).

use std::fs;
use std::path::Path;

use habits::Habit;

/// The folder of the scripts and of `setup.sql`, which creates the tables that they use.
pub(crate) const FOLDER: &str = "tests/habits";

/// Reads all scripts, ordered by name.
pub(crate) fn read(root: &Path) -> Result<Vec<Habit>, String> {
    let folder = root.join(FOLDER);
    let failed = |error| format!("cannot read {}: {error}", folder.display());
    let mut habits = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if let Some(name) = Habit::name_of(&name) {
            let text = fs::read_to_string(folder.join(format!("{name}.sql"))).map_err(failed)?;
            habits.push(Habit::read(name, &text)?);
        }
    }
    habits.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(habits)
}
