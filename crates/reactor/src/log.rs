//! Log lines, in PgBouncer's shape: `2026-01-31 12:00:00.123 UTC [4711] LOG message`, or as JSON objects (`json`).
//!
//! Always true: a batch of lines is written before the call returns, as long as the log keeps up: with one system call
//! per file, and one per line to a system log. A log that does not keep up or cannot be written delays nobody: its lost
//! lines are counted, and once it can be written again, a line in it tells how many were lost.
//! Not here: what is worth a line; the thread that writes to standard error and to the file (`writer`); the protocols
//! of the system logs (`syslog`).

mod file;
mod json;
mod subject;
mod writer;

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::Wall;
use jiff::tz::TimeZone;

use crate::syslog::SystemLog;

pub use file::open_log_file;
pub use subject::Subject;

use subject::Marks;
use writer::Writer;

/// The severity of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The process cannot continue.
    Fatal,
    /// An operation failed that should not fail.
    Error,
    /// Something is not as it should be.
    Warning,
    /// Information for operators.
    Log,
    /// Details (`verbose = 1`).
    Debug,
    /// More details (`verbose = 2`).
    Noise,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Log => "LOG",
            Self::Debug => "DEBUG",
            Self::Noise => "NOISE",
        }
    }
}

/// Lines collected during a turn.
#[derive(Debug, Default)]
pub struct Lines {
    text: String,
    ends: Vec<LineEnd>,
}

/// Where a line ends, its level, and where the parts of its subject are.
#[derive(Clone, Copy, Debug)]
struct LineEnd {
    at: usize,
    level: Level,
    about: Marks,
}

impl Lines {
    /// Adds a line.
    pub fn add(&mut self, level: Level, line: fmt::Arguments<'_>) {
        self.about(&Subject::default(), level, line);
    }

    /// Adds a line about a client, a server or a pool; the line begins with this subject.
    pub fn about(&mut self, subject: &Subject, level: Level, message: fmt::Arguments<'_>) {
        self.text.push_str(subject.text());
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(message);
        self.ends.push(LineEnd { at: self.text.len(), level, about: subject.marks() });
    }

    /// Whether no line was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Drops all lines and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// The lines in order.
    pub fn iter(&self) -> impl Iterator<Item = (Level, &str)> {
        self.marked().map(|(end, line)| (end.level, line))
    }

    fn marked(&self) -> impl Iterator<Item = (LineEnd, &str)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end.at));
        self.ends.iter().zip(starts).map(|(end, start)| (*end, &self.text[start..end.at]))
    }
}

/// The format of lines (`log_format`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LogFormat {
    /// PgBouncer's format.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The destinations of lines. Shared by all threads, replaced as a whole.
#[derive(Debug)]
pub struct LogTarget {
    to_stderr: bool,
    stderr: Arc<Writer>,
    file: Option<Writer>,
    systems: Vec<System>,
    pid: u32,
    zone: TimeZone,
    format: LogFormat,
    quietest: Level,
    /// Lines that a system log did not take.
    lost: Arc<AtomicU64>,
    second: Mutex<Second>,
}

/// The beginning of the lines of one second, before and behind its fraction: most lines come in the second of the line before.
#[derive(Default, Debug)]
struct Second {
    /// `None` before the first line.
    number: Option<i64>,
    before: String,
    behind: String,
}

/// A system log, and how many lines it did not take since the last one that it took.
#[derive(Debug)]
struct System {
    log: SystemLog,
    missing: Arc<AtomicU64>,
    /// The system log stands in for standard error, which receives the lines that the system log does not take.
    is_for_stderr: bool,
}

impl LogTarget {
    /// Writes to standard error, to a file opened for appending, to both or to neither.
    #[must_use]
    pub fn new(to_stderr: bool, file: Option<File>) -> Self {
        Self {
            to_stderr,
            stderr: Arc::new(Writer::to_stderr()),
            file: file.map(Writer::to_file),
            systems: Vec::new(),
            pid: std::process::id(),
            zone: TimeZone::system(),
            format: LogFormat::Text,
            quietest: Level::Log,
            lost: Arc::default(),
            second: Mutex::default(),
        }
    }

    /// Lets more detailed lines through (`verbose`): from 1 on those of [`Level::Debug`], from 2 on all.
    #[must_use]
    pub fn with_verbosity(mut self, verbose: u32) -> Self {
        self.quietest = [Level::Log, Level::Debug, Level::Noise][verbose.min(2) as usize];
        self
    }

    /// Sets the format of lines.
    #[must_use]
    pub fn with_format(mut self, format: LogFormat) -> Self {
        self.format = format;
        self.second = Mutex::default();
        self
    }

    /// Adds a system log.
    #[must_use]
    pub fn with_system_log(mut self, log: SystemLog) -> Self {
        self.systems.push(System { log, missing: Arc::default(), is_for_stderr: false });
        self
    }

    /// Adds a system log in place of standard error, which receives only the lines that the system log does not take.
    #[must_use]
    pub fn with_system_log_for_stderr(mut self, log: SystemLog) -> Self {
        self.systems.push(System { log, missing: Arc::default(), is_for_stderr: true });
        self
    }

    /// Continues the counters of the target that this one replaces: the number of lost lines stays, and a system log
    /// that takes no lines is neither reported twice nor forgotten. The two targets share their counters, because a
    /// thread may still write to the old one.
    #[must_use]
    pub fn in_place_of(mut self, old: &Self) -> Self {
        self.lost = Arc::clone(&old.lost);
        self.stderr = Arc::clone(&old.stderr);
        match (&mut self.file, &old.file) {
            (Some(file), Some(old)) => file.in_place_of(old),
            (None, Some(old)) => _ = self.lost.fetch_add(old.lost(), Ordering::Relaxed),
            (_, None) => {}
        }
        for system in &mut self.systems {
            if let Some(old) = old.systems.iter().find(|old| old.log.is_same_place(&system.log)) {
                system.missing = Arc::clone(&old.missing);
            }
        }
        self
    }

    /// Writes the lines with the time `wall`.
    pub fn write(&self, wall: Wall, lines: &Lines) {
        let stamp = self.stamp(wall);
        let mut to_stderr = self.to_stderr;
        let mut out = String::with_capacity(lines.text.len() + lines.ends.len() * (stamp.text.len() + 10));
        for (LineEnd { level, about, .. }, line) in lines.marked().filter(|(end, _)| end.level <= self.quietest) {
            let message = stamp.push(&mut out, level, about, line);
            for system in &self.systems {
                let is_taken = self.tell(system, wall, &stamp, level, message.clone(), &mut out);
                to_stderr |= !is_taken && system.is_for_stderr;
            }
        }
        if out.is_empty() {
            return;
        }
        let count = lines.ends.len() as u64;
        let outputs = [self.file.as_ref(), to_stderr.then_some(&*self.stderr)];
        let receipts = outputs.map(|output| output.map(|output| (output, output.put(&out, count, &stamp))));
        receipts.into_iter().flatten().for_each(|(output, receipt)| output.wait(receipt));
        if let Some((trouble, other)) = self.trouble() {
            self.tell_elsewhere(&trouble, other, wall, &stamp);
        }
    }

    /// Which of the outputs takes no lines, if that is to be told now, and the other output.
    fn trouble(&self) -> Option<(String, Option<&Writer>)> {
        let file = self.file.as_ref();
        let stderr = self.to_stderr.then_some(&*self.stderr);
        let of_file = file.and_then(|file| file.trouble()).map(|trouble| (trouble, stderr));
        of_file.or_else(|| stderr.and_then(|stderr| stderr.trouble()).map(|trouble| (trouble, file)))
    }

    /// Tells the other logs that one of them takes no lines.
    fn tell_elsewhere(&self, trouble: &str, other: Option<&Writer>, wall: Wall, stamp: &Stamp) {
        let mut out = String::new();
        let message = stamp.push(&mut out, Level::Warning, Marks::default(), trouble);
        for system in &self.systems {
            self.tell(system, wall, stamp, Level::Warning, message.clone(), &mut out);
        }
        if let Some(other) = other {
            other.put(&out, 1, stamp);
        }
    }

    /// Waits until all lines are written, before the process ends: at most a second for each output that does not keep
    /// up.
    pub fn finish(&self) {
        self.file.iter().for_each(Writer::finish);
        self.stderr.finish();
    }

    /// Sends a system log the message that is at `message` in `out`, and returns whether the system log took it. The
    /// first of several messages that it does not take, and the first that it takes again, each add a line to `out`.
    fn tell(
        &self,
        system: &System,
        wall: Wall,
        stamp: &Stamp,
        level: Level,
        message: Range<usize>,
        out: &mut String,
    ) -> bool {
        let say = |level, text: &str| system.log.say(wall, &self.zone, self.pid, level, text);
        let missing = system.missing.load(Ordering::Relaxed);
        if missing > 0 {
            let fate = if system.is_for_stderr { "went to standard error" } else { "were lost" };
            let text = format!("{} takes lines again, {missing} {fate}", system.log);
            let before = out.len();
            let note = stamp.push(out, Level::Warning, Marks::default(), &text);
            if say(Level::Warning, &out[note]).is_ok() {
                system.missing.store(0, Ordering::Relaxed);
            } else {
                out.truncate(before);
            }
        }
        let Err(error) = say(level, &out[message]) else { return true };
        if !system.is_for_stderr {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        if system.missing.fetch_add(1, Ordering::Relaxed) == 0 {
            let fate = if system.is_for_stderr { "they go to standard error" } else { "they are lost" };
            let text = format!("{} takes no lines, {fate}: {}", system.log, cause(&error));
            stamp.push(out, Level::Warning, Marks::default(), &text);
        }
        false
    }

    fn stamp(&self, wall: Wall) -> Stamp {
        let (format, pid) = (self.format, self.pid);
        // Nobody can have panicked while holding the lock: a panic ends the process.
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let number = wall.0.div_euclid(SECOND);
        if second.number != Some(number) {
            let told = |format| local(wall, &self.zone, format);
            let (before, behind) = match format {
                LogFormat::Text => (told("%Y-%m-%d %H:%M:%S."), format!(" {} [{pid}] ", told("%Z"))),
                LogFormat::Json => (told("%Y-%m-%dT%H:%M:%S."), told("%:z")),
            };
            *second = Second { number: Some(number), before, behind };
        }
        let Second { before, behind, .. } = &*second;
        let millis = wall.0.rem_euclid(SECOND) / 1000;
        let mut text = String::with_capacity(before.len() + 3 + behind.len());
        text.push_str(before);
        text.extend([100, 10, 1].map(|place| char::from(b'0' + (millis / place % 10) as u8)));
        text.push_str(behind);
        Stamp { format, pid, text }
    }

    /// Writes one line.
    pub fn write_one(&self, wall: Wall, level: Level, line: fmt::Arguments<'_>) {
        let mut lines = Lines::default();
        lines.add(level, line);
        self.write(wall, &lines);
    }

    /// Lines that could not be written, such as on a full disk.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed) + self.stderr.lost() + self.file.as_ref().map_or(0, Writer::lost)
    }
}

/// What the lines of one batch have in common.
#[derive(Clone, Default, Debug)]
struct Stamp {
    format: LogFormat,
    pid: u32,
    /// In text format the beginning of a line, in JSON the time.
    text: String,
}

impl Stamp {
    /// Appends a whole line, and returns where in it the message for a system log is, which adds time and process
    /// itself.
    fn push(&self, out: &mut String, level: Level, about: Marks, line: &str) -> Range<usize> {
        let start = out.len();
        let range = match self.format {
            LogFormat::Text => {
                out.push_str(&self.text);
                out.push_str(level.word());
                out.push(' ');
                let start = out.len();
                push_folded(out, line);
                start..out.len()
            }
            LogFormat::Json => {
                let (parts, message) = about.part(line);
                json::begin(out, &self.text, level.word(), self.pid, parts);
                json::push_escaped(out, base::cut(message, LINE_BYTES_MAX).trim_end());
                json::end(out);
                start..out.len()
            }
        };
        out.push('\n');
        range
    }
}

/// Formats a time in a time zone.
pub(crate) fn local(wall: Wall, zone: &TimeZone, format: &str) -> String {
    let instant = jiff::Timestamp::from_microsecond(wall.0).unwrap_or_default();
    instant.to_zoned(zone.clone()).strftime(format).to_string()
}

/// Why a system log takes no lines.
fn cause(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::WouldBlock => "it does not keep up",
        io::ErrorKind::NotFound => "there is none",
        io::ErrorKind::ConnectionRefused => "nobody listens",
        io::ErrorKind::PermissionDenied => "it may not be written to",
        _ => "it cannot be written to",
    }
}

/// Truncates a message that is too long, starts each further line of the message with a tab, and leaves no control
/// character that could forge a line or drive a terminal.
fn push_folded(out: &mut String, line: &str) {
    let line = base::cut(line, LINE_BYTES_MAX).trim_end();
    // Most lines are plain. Looking at each byte is faster than stopping at the first other one.
    if line.bytes().fold(true, |are_plain, byte| are_plain & matches!(byte, b' '..=b'~')) {
        out.push_str(line);
        return;
    }
    for character in line.chars() {
        match character {
            '\n' => out.push_str("\n\t"),
            '\t' => out.push('\t'),
            other if other.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
}

/// In microseconds.
const SECOND: i64 = 1_000_000;
/// Most bytes of a message; PgBouncer truncates there too.
const LINE_BYTES_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use base::Id;
    use std::io::{Read as _, Seek as _};

    #[test]
    fn each_line_has_the_time_at_which_it_came() {
        for (format, whole) in
            [(LogFormat::Text, "%Y-%m-%d %H:%M:%S.%3f %Z"), (LogFormat::Json, "%Y-%m-%dT%H:%M:%S.%3f%:z")]
        {
            let target = LogTarget::new(false, None).with_format(format);
            // Within a second, over its end, back again, and before 1970.
            for micros in [0, 999_999, 1_000_000, 1_000_999, 999_000, 1_790_000_000_123_456, -1, -1_000_000, -1_000_001]
            {
                let stamp = target.stamp(Wall(micros)).text;
                let time = local(Wall(micros), &target.zone, whole);
                assert_eq!(stamp.strip_suffix(&format!(" [{}] ", target.pid)).unwrap_or(&stamp), time, "{micros}");
            }
        }
    }

    #[test]
    fn a_plain_line_stays_as_it_is_and_no_other_reaches_a_terminal() {
        for (line, pushed) in [
            ("closing because: client close request (age=0s)", "closing because: client close request (age=0s)"),
            (" ~", " ~"),
            ("gr\u{fc}n  ", "gr\u{fc}n"),
            ("one\ntwo\tthree", "one\n\ttwo\tthree"),
            ("\u{1b}[2J\u{7f}\u{9b}", "?[2J??"),
        ] {
            let mut out = String::new();
            push_folded(&mut out, line);
            assert_eq!(out, pushed);
        }
    }

    fn written(lines: &Lines) -> String {
        written_as(LogFormat::Text, lines)
    }

    fn written_as(format: LogFormat, lines: &Lines) -> String {
        let path = std::env::temp_dir().join(format!("trunkline-log-{}-{:p}", std::process::id(), lines));
        let mut file = File::options().create(true).append(true).read(true).open(&path).expect("a temporary file");
        let target = LogTarget::new(false, Some(file.try_clone().expect("a second handle"))).with_format(format);
        target.write(Wall(0), lines);
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("readable");
        std::fs::remove_file(path).expect("removable");
        text
    }

    #[test]
    fn a_line_has_the_shape_that_scripts_parse() {
        let mut lines = Lines::default();
        lines.add(Level::Warning, format_args!("pooler error: {}", "no"));
        let text = written(&lines);
        assert!(text.starts_with("1970-01-01 ") || text.starts_with("1969-12-31 "), "{text}");
        assert!(text.ends_with(&format!(" [{}] WARNING pooler error: no\n", std::process::id())), "{text}");
    }

    #[test]
    fn lines_for_looking_closely_are_let_through_only_when_wanted() {
        let mut lines = Lines::default();
        lines.add(Level::Debug, format_args!("a detail"));
        assert_eq!(written(&lines), "");
        assert!(Level::Debug <= LogTarget::new(false, None).with_verbosity(1).quietest);
        assert!(Level::Noise > LogTarget::new(false, None).with_verbosity(1).quietest);
        assert!(Level::Noise <= LogTarget::new(false, None).with_verbosity(7).quietest);
    }

    #[test]
    fn nobody_forges_a_line() {
        let mut lines = Lines::default();
        lines.add(Level::Log, format_args!("user=a\n2026-01-01 LOG all is well\x1b[2J"));
        let text = written(&lines);
        assert!(text.contains("user=a\n\t2026-01-01 LOG all is well?[2J\n"), "{text}");
    }

    #[test]
    fn a_line_in_json_is_one_object_with_the_parts_of_its_subject() {
        let mut lines = Lines::default();
        let about =
            Subject::connection(Id::Client(42), "a\",\"level\":\"FATAL", "ann\n", format_args!("10.0.0.1:5000"));
        lines.about(&about, Level::Warning, format_args!("pooler error: {}\n", "no\nway"));
        lines.add(Level::Log, format_args!("kernel"));
        lines.about(&about, Level::Debug, format_args!("a detail"));
        let (text, pid) = (written_as(LogFormat::Json, &lines), std::process::id());
        let (first, second) = text.split_once('\n').expect("two lines");
        assert!(
            first.starts_with("{\"time\":\"19") && first[9..].starts_with(|first: char| first.is_ascii_digit()),
            "{text}"
        );
        let rest = format!(
            "\"level\":\"WARNING\",\"pid\":{pid},\"id\":\"C-0x2a\",\"database\":\"a\\\",\\\"level\\\":\\\"FATAL\",\
             \"user\":\"ann\\n\",\"address\":\"10.0.0.1:5000\",\"message\":\"pooler error: no\\nway\"}}"
        );
        assert!(first.ends_with(&rest), "{first}");
        assert!(second.ends_with(&format!("\"level\":\"LOG\",\"pid\":{pid},\"message\":\"kernel\"}}\n")), "{second}");
    }

    #[test]
    fn a_message_of_any_length_is_cut_and_its_object_is_whole() {
        let mut lines = Lines::default();
        let about = Subject::connection(Id::Client(1), &"d".repeat(5000), "u", format_args!("unix:6432"));
        lines.about(&about, Level::Log, format_args!("{}", "\u{e4}\"".repeat(2000)));
        let text = written_as(LogFormat::Json, &lines);
        assert!(text.ends_with("\"}\n") && text.len() < 10_000, "{}", text.len());
    }

    #[test]
    fn a_log_that_cannot_be_written_is_counted() {
        let full = File::options().write(true).open("/dev/full").expect("a device that is always full");
        let target = LogTarget::new(false, Some(full));
        target.write_one(Wall(0), Level::Log, format_args!("lost"));
        assert_eq!(target.lost(), 1);
    }
}
