//! The directory of a trial.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{Keeper, SystemUser, TrialError};

/// A directory that belongs to the trial's system user and is removed with this guard, with all that is in it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    keeper: Rc<Keeper>,
}

impl Scratch {
    /// Creates the directory in `$TMPDIR` or `/tmp`, closed to other users.
    ///
    /// # Errors
    /// The directory cannot be created or given to the trial's user.
    pub fn create(prefix: &str, system_user: &SystemUser, keeper: &Rc<Keeper>) -> Result<Self, TrialError> {
        let above = Some(std::env::temp_dir()).filter(|path| system_user.may_enter(path));
        let above = above.unwrap_or_else(|| PathBuf::from("/tmp"));
        let failed = |why: io::Error| TrialError::step(format!("cannot make a directory in {}", above.display()), why);
        let path = create_new(&above, prefix).map_err(failed)?;
        keeper.tell("made", path.display());
        let scratch = Self { path, keeper: Rc::clone(keeper) };
        system_user.own(&scratch.path).map_err(failed)?;
        Ok(scratch)
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that the trial's user can read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, system_user: &SystemUser, name: &str, text: &str) -> Result<PathBuf, TrialError> {
        let path = self.path.join(name);
        let written = fs::write(&path, text).and_then(|()| system_user.own(&path));
        written.map_err(|why| TrialError::step(format!("cannot write {}", path.display()), why))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If a program still writes there, the directory cannot be removed now and is left to the keeper.
        if fs::remove_dir_all(&self.path).is_ok() {
            self.keeper.tell("removed", self.path.display());
        }
    }
}

fn create_new(above: &Path, prefix: &str) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let path = above.join(format!("{prefix}-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && number < NUMBER_MAX => number += 1,
            Err(why) => return Err(why),
        }
    }
}

/// How many leftover directories of the same name are skipped.
const NUMBER_MAX: u32 = 100;
