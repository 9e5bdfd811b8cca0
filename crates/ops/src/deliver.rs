//! Where the report of a command goes.
//!
//! Always true: a reader that has gone, such as `head`, is no failure.
//! Not here: the report.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

/// Writes a report to a file, or to standard output.
///
/// # Errors
/// It cannot be written; in words for an operator.
pub fn deliver(output: Option<&str>, text: &str) -> Result<(), String> {
    match output {
        Some(path) => fs::write(path, text).map_err(|error| format!("cannot write {path}: {error}")),
        None => print(text),
    }
}

/// As [`deliver`]; nobody but its owner may read the file.
pub(crate) fn deliver_privately(output: Option<&str>, text: &str) -> Result<(), String> {
    let Some(path) = output else { return print(text) };
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        // One that was there keeps its rights otherwise.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    });
    written.map_err(|error| format!("cannot write {path}: {error}"))
}

fn print(text: &str) -> Result<(), String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_file_loses_the_rights_of_others() {
        let path = std::env::temp_dir().join(format!("trunkline-deliver-test-{}", std::process::id()));
        fs::write(&path, "old and longer").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("rights");
        deliver_privately(path.to_str(), "new").expect("written");
        let (text, rights) =
            (fs::read_to_string(&path).expect("a text"), fs::metadata(&path).expect("a file").permissions());
        fs::remove_file(&path).expect("removed");
        assert_eq!((text.as_str(), rights.mode() & 0o777), ("new", 0o600));
    }
}
