//! Opens the log file.
//!
//! Always true: opening never blocks, whatever the file is.
//! Not here: what is written to it (`writer`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Opens a file for appending lines to it, and creates it if there is none. A FIFO needs a process that reads it: the
/// system would block until there is one.
///
/// # Errors
/// The file cannot be opened, or it is a FIFO that no process reads.
pub fn open_log_file(path: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::other("it is a FIFO that no process reads"),
        _ => error,
    })?;
    // From now on it may block the thread that writes to it, which nobody waits for.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_fifo_is_opened_only_while_a_process_reads_it() {
        let path = std::env::temp_dir().join(format!("trunkline-fifo-{}", std::process::id()));
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        let name = path.to_str().expect("a path");
        let refused = open_log_file(name).expect_err("nobody reads it");
        assert_eq!(refused.to_string(), "it is a FIFO that no process reads");
        let reads = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path);
        let mut reads = reads.expect("a reader");
        let mut file = open_log_file(name).expect("somebody reads it");
        assert!(!fcntl_getfl(&file).expect("flags").contains(OFlags::NONBLOCK));
        file.write_all(b"line\n").expect("room");
        let mut line = [0; 5];
        reads.read_exact(&mut line).expect("a line");
        assert_eq!(&line, b"line\n");
        std::fs::remove_file(&path).expect("the FIFO");
    }
}
