//! The pidfile.
//!
//! Always true: the process creates it itself or does not start; it is removed when the process ends.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use control::words_of;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::last_words::Fatal;

/// Our pidfile. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Pidfile {
    path: String,
}

/// What was found at the path of the pidfile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Old {
    /// Nothing.
    None,
    /// The file of a process that has ended. It has been removed.
    Stale,
}

/// Checks whether another process holds the pidfile.
///
/// # Errors
/// It does, or may do so.
pub(crate) fn check_old(path: &str) -> Result<Old, Fatal> {
    let taken = || Fatal(format!("pidfile '{path}' exists, another instance running?"));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Old::None),
        Err(error) if error.kind() == ErrorKind::InvalidData => return Err(taken()),
        Err(error) => return Err(Fatal(format!("cannot read pidfile '{path}': {}", words_of(&error)))),
    };
    let pid = text.trim().parse::<i32>().ok().filter(|pid| *pid > 0).ok_or_else(taken)?;
    // In a restarted container this process often has the same process id as its predecessor.
    if pid != Pid::this().as_raw() && is_alive(pid) {
        return Err(taken());
    }
    std::fs::remove_file(path)
        .map_err(|error| Fatal(format!("cannot remove stale pidfile '{path}': {}", words_of(&error))))?;
    Ok(Old::Stale)
}

fn is_alive(pid: i32) -> bool {
    // Any other answer than "no such process" means that the process exists.
    kill(Pid::from_raw(pid), None) != Err(nix::Error::ESRCH)
}

impl Pidfile {
    /// Writes our process id.
    ///
    /// # Errors
    /// Another process was faster, or the file cannot be written.
    pub(crate) fn write(path: &str) -> Result<Self, Fatal> {
        let failed = |error: std::io::Error| Fatal(format!("could not write pidfile '{path}': {}", words_of(&error)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path).map_err(failed)?;
        let written = Self { path: path.to_owned() };
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(written)
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> String {
        let path = std::env::temp_dir().join(format!("trunkline-pidfile-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path.to_str().expect("a name in UTF-8").to_owned()
    }

    #[test]
    fn it_is_made_once_and_goes_with_its_owner() {
        let path = place("once");
        assert_eq!(check_old(&path), Ok(Old::None));
        let ours = Pidfile::write(&path).expect("it can be written");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), format!("{}\n", std::process::id()));
        assert!(Pidfile::write(&path).is_err(), "a second owner");
        drop(ours);
        assert_eq!(check_old(&path), Ok(Old::None));
    }

    #[test]
    fn the_file_of_a_living_process_or_of_nobody_knows_whom_is_left_alone() {
        let path = place("alive");
        for content in ["1\n", "", "nonsense", "-1", "0"] {
            std::fs::write(&path, content).expect("it can be written");
            let text = format!("pidfile '{path}' exists, another instance running?");
            assert_eq!(check_old(&path), Err(Fatal(text)), "{content:?}");
            assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), content);
        }
        std::fs::remove_file(&path).expect("removable");
    }

    #[test]
    fn the_file_of_a_dead_process_is_removed_and_so_is_our_own() {
        let path = place("dead");
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        child.wait().expect("it ends");
        for pid in [child.id(), std::process::id()] {
            std::fs::write(&path, format!("{pid}\n")).expect("it can be written");
            assert_eq!(check_old(&path), Ok(Old::Stale));
            assert_eq!(check_old(&path), Ok(Old::None));
        }
    }
}
