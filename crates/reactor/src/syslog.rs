//! The system logs, by datagrams: lines as syslog(3) writes them, or records in the journal's native format.
//!
//! Always true: sending never blocks; what the log does not take at once is lost. Each message is one datagram, and the
//! socket is looked up by its path each time, so that a restarted log is reached again.
//! Not here: the format of lines elsewhere, who is told of lost lines (`log`).

use std::fmt;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use base::Wall;
use jiff::tz::TimeZone;

use crate::log::{Level, local};

/// A system log.
#[derive(Debug)]
pub struct SystemLog {
    socket: UnixDatagram,
    path: PathBuf,
    ident: String,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Syslog { facility: u8 },
    Journal,
}

impl SystemLog {
    /// The syslog that listens at `path`; `facility` is the number of RFC 3164.
    ///
    /// # Errors
    /// The system has no socket left. It is no error if nobody listens at `path`: a log may start later.
    pub fn syslog(path: impl Into<PathBuf>, ident: &str, facility: u8) -> io::Result<Self> {
        Self::new(path.into(), ident, Form::Syslog { facility })
    }

    /// The journal that listens at `path`.
    ///
    /// # Errors
    /// The system has no socket left.
    pub fn journal(path: impl Into<PathBuf>, ident: &str) -> io::Result<Self> {
        Self::new(path.into(), ident, Form::Journal)
    }

    fn new(path: PathBuf, ident: &str, form: Form) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        // A line break in the name would end its field in a journal record.
        let ident = ident.chars().filter(|character| !character.is_control()).collect();
        Ok(Self { socket, path, ident, form })
    }

    /// Sends a message, whose further lines are marked already.
    pub(crate) fn say(&self, wall: Wall, zone: &TimeZone, pid: u32, level: Level, message: &str) -> io::Result<()> {
        let datagram = match self.form {
            Form::Syslog { facility } => {
                let priority = facility * 8 + severity(level);
                let time = local(wall, zone, "%b %e %H:%M:%S");
                format!("<{priority}>{time} {}[{pid}]: {message}", self.ident).into_bytes()
            }
            Form::Journal => self.record(level, message),
        };
        self.socket.send_to(&datagram, &self.path).map(drop)
    }

    /// The journal's native format: a field is a line; a field with line breaks is preceded by its length.
    fn record(&self, level: Level, message: &str) -> Vec<u8> {
        let mut record = format!("PRIORITY={}\nSYSLOG_IDENTIFIER={}\n", severity(level), self.ident).into_bytes();
        if message.contains('\n') {
            record.extend_from_slice(b"MESSAGE\n");
            record.extend_from_slice(&(message.len() as u64).to_le_bytes());
        } else {
            record.extend_from_slice(b"MESSAGE=");
        }
        record.extend_from_slice(message.as_bytes());
        record.push(b'\n');
        record
    }

    /// Whether both send to the same path in the same format, whatever name and facility they carry.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        let is_journal = |log: &Self| log.form == Form::Journal;
        self.path == other.path && is_journal(self) == is_journal(other)
    }

    /// The path at which it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for SystemLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.form == Form::Journal { "the journal" } else { "syslog" };
        write!(f, "{what} at {}", self.path().display())
    }
}

/// The severity of RFC 3164, as PgBouncer maps it.
fn severity(level: Level) -> u8 {
    match level {
        Level::Fatal => 2,
        Level::Error => 3,
        Level::Warning => 4,
        Level::Log => 6,
        Level::Debug | Level::Noise => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs::File;
    use std::io::{Read as _, Seek as _};
    use std::time::Duration;

    use crate::log::LogTarget;

    /// A listener at a path of its own.
    struct Listener {
        socket: UnixDatagram,
        path: PathBuf,
    }

    impl Listener {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("trunkline-syslog-{}-{name}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            let socket = UnixDatagram::bind(&path).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
            Self { socket, path }
        }

        fn hears(&self) -> String {
            let mut bytes = [0; 4096];
            let count = self.socket.recv(&mut bytes).expect("a datagram");
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        }
    }

    impl Drop for Listener {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    const LOCAL3: u8 = 19;

    #[test]
    fn a_line_is_a_datagram_as_syslog_writes_it() {
        let listener = Listener::new("line");
        let log = SystemLog::syslog(&listener.path, "pooler", LOCAL3).expect("a socket");
        let target = LogTarget::new(false, None).with_system_log(log);
        target.write_one(Wall(0), Level::Warning, format_args!("a\nb\x1b"));
        target.write_one(Wall(0), Level::Debug, format_args!("a detail"));
        target.write_one(Wall(0), Level::Log, format_args!("c"));
        let (first, pid) = (listener.hears(), std::process::id());
        assert!(first.starts_with("<156>Jan  1 ") || first.starts_with("<156>Dec 31 "), "{first}");
        assert!(first.ends_with(&format!(" pooler[{pid}]: a\n\tb?")), "{first}");
        assert!(listener.hears().starts_with("<158>"), "what is for looking closely stays out");
    }

    #[test]
    fn the_journal_gets_records() {
        let listener = Listener::new("journal");
        let log = SystemLog::journal(&listener.path, "pooler").expect("a socket");
        let target = LogTarget::new(false, None).with_system_log(log);
        target.write_one(Wall(0), Level::Error, format_args!("alone"));
        target.write_one(Wall(0), Level::Log, format_args!("a\nb"));
        assert_eq!(listener.hears(), "PRIORITY=3\nSYSLOG_IDENTIFIER=pooler\nMESSAGE=alone\n");
        assert_eq!(listener.hears(), "PRIORITY=6\nSYSLOG_IDENTIFIER=pooler\nMESSAGE\n\x04\0\0\0\0\0\0\0a\n\tb\n");
    }

    #[test]
    fn who_does_not_listen_holds_nobody_up_and_is_told_of_once() {
        let listener = Listener::new("full");
        let log = SystemLog::syslog(&listener.path, "pooler", LOCAL3).expect("a socket");
        let path = listener.path.with_extension("file");
        let mut file = File::options().create(true).append(true).read(true).open(&path).expect("a file");
        let target = LogTarget::new(false, Some(file.try_clone().expect("a second handle"))).with_system_log(log);
        let line = || target.write_one(Wall(0), Level::Log, format_args!("x"));
        let mut said = 0_u64;
        while target.lost() < 3 {
            line();
            said += 1;
        }
        // The listener reads again: the number of lost lines is reported there too.
        for _ in 0..said - 3 {
            assert!(listener.hears().ends_with("]: x"));
        }
        line();
        assert!(
            listener
                .hears()
                .ends_with(&format!("syslog at {} takes lines again, 3 were lost", listener.path.display()))
        );
        assert!(listener.hears().ends_with("]: x"));
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("readable");
        std::fs::remove_file(path).expect("removable");
        assert_eq!(text.matches(" LOG x\n").count() as u64, said + 1, "the file has them all");
        assert_eq!(text.matches(" takes no lines, they are lost: it does not keep up\n").count(), 1, "{text}");
        assert_eq!(text.matches(" takes lines again, 3 were lost\n").count(), 1, "{text}");
    }

    /// `RELOAD` and `SET` open the logs anew.
    #[test]
    fn what_was_lost_is_told_by_the_target_that_comes_next() {
        let listener = Listener::new("next");
        let nowhere = listener.path.with_extension("nowhere");
        let syslog = |path: &Path, ident: &str| SystemLog::syslog(path, ident, LOCAL3).expect("a socket");
        let journal = |path: &Path| SystemLog::journal(path, "pooler").expect("a socket");
        let target = |log: SystemLog| LogTarget::new(false, None).with_system_log(log);
        let say = |target: &LogTarget| target.write_one(Wall(0), Level::Log, format_args!("x"));
        let first = target(syslog(&nowhere, "pooler"));
        say(&first);
        let second = target(syslog(&nowhere, "other")).in_place_of(&first);
        say(&second);
        // A worker that has not received the second target yet.
        say(&first);
        assert_eq!((first.lost(), second.lost()), (3, 3));
        let elsewhere = target(syslog(&listener.path, "pooler")).in_place_of(&second);
        say(&elsewhere);
        assert!(listener.hears().ends_with("]: x"), "nothing is missing where nothing was lost");
        let other_kind = target(journal(&nowhere)).in_place_of(&second);
        std::fs::rename(&listener.path, &nowhere).expect("a listener moves");
        say(&other_kind);
        assert!(listener.hears().ends_with("MESSAGE=x\n"), "nothing is missing there either");
        let last = target(syslog(&nowhere, "pooler")).in_place_of(&second);
        say(&last);
        let heard = listener.hears();
        let _ = std::fs::remove_file(&nowhere);
        assert!(heard.ends_with(&format!("syslog at {} takes lines again, 3 were lost", nowhere.display())), "{heard}");
        assert_eq!((last.lost(), elsewhere.lost()), (3, 3));
    }

    #[test]
    fn what_the_journal_does_not_take_is_not_lost() {
        let nowhere = std::env::temp_dir().join(format!("trunkline-no-journal-{}", std::process::id()));
        let log = SystemLog::journal(&nowhere, "pooler").expect("a socket");
        let target = LogTarget::new(false, None).with_system_log_for_stderr(log);
        target.write_one(Wall(0), Level::Log, format_args!("this line is seen on standard error"));
        assert_eq!(target.lost(), 0);
    }

    #[test]
    fn a_name_forges_no_field() {
        let listener = Listener::new("name");
        let log = SystemLog::journal(&listener.path, "a\nPRIORITY=0").expect("a socket");
        LogTarget::new(false, None).with_system_log(log).write_one(Wall(0), Level::Log, format_args!("x"));
        assert_eq!(listener.hears(), "PRIORITY=6\nSYSLOG_IDENTIFIER=aPRIORITY=0\nMESSAGE=x\n");
    }
}
