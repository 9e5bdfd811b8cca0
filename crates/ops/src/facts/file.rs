//! Reading a file that an operator names.
//!
//! Always true: only regular files are opened, so that nothing waits on a pipe or a device; a file has a largest size.
//! Not here: what the file says.

use std::fs::File;
use std::io::{self, Read as _};

/// Returns the contents of a regular file.
///
/// # Errors
/// It cannot be read, is no regular file, or is larger than [`FILE_BYTES_MAX`].
pub(crate) fn read(path: &str) -> io::Result<Vec<u8>> {
    let refused = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text.to_owned());
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(refused(if about.is_dir() { "it is a directory" } else { "it is not a regular file" }));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refused("it is larger than 64 MiB"));
    }
    Ok(bytes)
}

/// The largest file: a hundred times the file of 10,000 databases.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;
