//! The options of `trunkline hatest`.
//!
//! Always true: no error message repeats a connection string, which may contain a password.
//! Not here: what a connection string says (`target`).

use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, Parser};

use crate::arguments::{said, text};

/// The options of `trunkline hatest`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HatestOptions {
    /// The ways to the server on which rows are written, in the order of the command line; at least one.
    pub(crate) paths: Vec<Named>,
    /// The ways on which rows are read.
    pub(crate) readers: Vec<Named>,
    /// The number of writers on each path, at least 1.
    pub(crate) writers: u32,
    /// The time between two writes of a writer, and between two reads of a reader.
    pub(crate) every: Duration,
    /// How long to write.
    pub(crate) duration: Duration,
    /// How long an attempt to connect to one host may take, if its connection string does not say it.
    pub(crate) connect_timeout: Duration,
    /// How long to wait for an answer; `None` waits as long as the connection lives, as libpq does.
    pub(crate) answer_timeout: Option<Duration>,
    /// The table: one name, or a schema and a name.
    pub(crate) table: Vec<String>,
    /// Whether to print a line a second for each path and reader.
    pub(crate) is_classic: bool,
    /// The fault.
    pub(crate) fault: Option<Fault>,
    /// The surviving primary, if it is not on the first path.
    pub(crate) verify: Option<String>,
    /// The former primary, whose rows are compared.
    pub(crate) old_primary: Option<String>,
    /// Whether to remove the rows of this run at the end.
    pub(crate) is_clean: bool,
    /// Whether to print JSON.
    pub(crate) is_json: bool,
    /// Whether to print [`USAGE`] only.
    pub(crate) wants_help: bool,
}

/// A connection string with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// The name, of letters, digits and `_.-`, at most [`NAME_MAX`] long.
    pub(crate) name: String,
    /// A URL, or `host=... port=...`.
    pub(crate) conninfo: String,
}

/// A command that causes a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// The time of writing before it.
    pub(crate) after: Duration,
    /// For the shell.
    pub(crate) command: String,
}

impl Default for HatestOptions {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            readers: Vec::new(),
            writers: 2,
            every: Duration::from_millis(20),
            duration: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            answer_timeout: None,
            table: vec!["hatest_ledger".to_owned()],
            is_classic: false,
            fault: None,
            verify: None,
            old_primary: None,
            is_clean: false,
            is_json: false,
            wants_help: false,
        }
    }
}

impl HatestOptions {
    /// Parses the arguments after `trunkline hatest`.
    ///
    /// # Errors
    /// An argument is unknown, missing or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args))
            .map_err(|text| format!("trunkline hatest: {text}\nTry \"trunkline hatest --help\"."))
    }

    /// Whether to print [`USAGE`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }

    /// The number of writes that each writer has to make.
    pub(crate) fn writes_per_writer(&self) -> u64 {
        u64::try_from(self.duration.as_nanos().div_ceil(self.every.as_nanos().max(1))).unwrap_or(u64::MAX)
    }
}

fn read(mut parser: Parser) -> Result<HatestOptions, String> {
    let mut options = HatestOptions::default();
    let (mut fault_after, mut fault) = (None, None);
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Long("path") => options.paths.push(named("--path", &text(&mut parser)?)?),
            Arg::Long("reader") => options.readers.push(named("--reader", &text(&mut parser)?)?),
            Arg::Long("writers") => options.writers = writers(&text(&mut parser)?)?,
            Arg::Long("every") => options.every = every(&text(&mut parser)?)?,
            Arg::Long("duration") => options.duration = seconds("--duration", &text(&mut parser)?)?,
            Arg::Long("connect-timeout") => {
                options.connect_timeout = seconds("--connect-timeout", &text(&mut parser)?)?;
            }
            Arg::Long("answer-timeout") => {
                options.answer_timeout = Some(seconds("--answer-timeout", &text(&mut parser)?)?);
            }
            Arg::Long("table") => options.table = table(&text(&mut parser)?)?,
            Arg::Long("classic") => options.is_classic = true,
            Arg::Long("fault-after") => fault_after = Some(seconds("--fault-after", &text(&mut parser)?)?),
            Arg::Long("fault") => fault = Some(text(&mut parser)?),
            Arg::Long("verify") => options.verify = Some(text(&mut parser)?),
            Arg::Long("old-primary") => options.old_primary = Some(text(&mut parser)?),
            Arg::Long("clean") => options.is_clean = true,
            Arg::Long("json") => options.is_json = true,
            Arg::Short('h' | '?') | Arg::Long("help") => {
                return Ok(HatestOptions { wants_help: true, ..HatestOptions::default() });
            }
            // It may be part of a connection string, and a password.
            Arg::Value(_) => {
                return Err("there is an argument without an option; put quotes around NAME=CONNINFO".into());
            }
            other => return Err(said(other.unexpected())),
        }
    }
    options.fault = match (fault_after, fault) {
        (Some(after), Some(command)) => Some(Fault { after, command }),
        (None, None) => None,
        (Some(_), None) => return Err("--fault-after needs --fault, the command".to_owned()),
        (None, Some(_)) => return Err("--fault needs --fault-after, the time of the command".to_owned()),
    };
    check(&options)?;
    Ok(options)
}

/// What no option can know by itself.
fn check(options: &HatestOptions) -> Result<(), String> {
    if options.paths.is_empty() {
        return Err("no --path NAME=CONNINFO says where to write".to_owned());
    }
    for (option, all) in [("--path", &options.paths), ("--reader", &options.readers)] {
        if all.len() > WAYS_MAX {
            return Err(format!("{option} can be given at most {WAYS_MAX} times"));
        }
        let twice = all.iter().enumerate().find(|(at, one)| all[..*at].iter().any(|other| other.name == one.name));
        if let Some((_, twice)) = twice {
            return Err(format!("{option} {} is given twice", twice.name));
        }
    }
    if options.fault.as_ref().is_some_and(|fault| fault.after >= options.duration) {
        return Err("--fault-after has to be less than --duration".to_owned());
    }
    let writers = options.paths.len() as u64 * u64::from(options.writers);
    if options.writes_per_writer().saturating_mul(writers) > WRITES_MAX {
        return Err(format!(
            "these are more than {} million writes, of which the ledger has no room; lower --duration or --writers",
            WRITES_MAX / 1_000_000
        ));
    }
    Ok(())
}

fn named(option: &str, text: &str) -> Result<Named, String> {
    let wanted = || format!("{option} takes NAME=CONNINFO, where NAME has at most {NAME_MAX} letters, digits or _.-");
    let (name, conninfo) = text.split_once('=').ok_or_else(wanted)?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_allowed) {
        return Err(wanted());
    }
    // `--path host=db1 port=5432` would otherwise be a path named `host`.
    if !conninfo.contains('=') && !conninfo.contains("://") {
        return Err(format!("{}; there is no CONNINFO after {name}=", wanted()));
    }
    Ok(Named { name: name.to_owned(), conninfo: conninfo.to_owned() })
}

fn writers(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=WRITERS_MAX).contains(number));
    number.ok_or_else(|| format!("--writers takes a number from 1 to {WRITERS_MAX}"))
}

fn every(text: &str) -> Result<Duration, String> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    let every = duration(text).filter(|every| has_unit && (EVERY_MIN..=EVERY_MAX).contains(every));
    every.ok_or_else(|| "--every takes a time from 1ms to 60s with its unit, such as 20ms".to_owned())
}

fn seconds(option: &str, text: &str) -> Result<Duration, String> {
    let time = duration(text).filter(|time| !time.is_zero() && *time <= TIME_MAX);
    time.ok_or_else(|| format!("{option} takes seconds, or a time with a unit (500ms, 90s, 10min, 2h), up to 30 days"))
}

/// A number of seconds, or a number with its unit.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * unit).ok()
}

/// A name, or two with a dot: what PostgreSQL takes without quotes. It is quoted all the same, so it keeps its case.
fn table(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split('.').map(str::to_owned).collect();
    let is_name = |name: &String| {
        let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        starts && name.len() <= 63 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_fine = names.len() <= 2 && names.iter().all(is_name);
    is_fine.then_some(names).ok_or_else(|| "--table takes a name, or schema.name, of letters, digits and _".to_owned())
}

/// Most characters of a name.
pub(crate) const NAME_MAX: usize = 32;
/// Most paths, and most readers.
const WAYS_MAX: usize = 16;
/// Most writers on a path.
const WRITERS_MAX: u32 = 64;
/// Most writes of a run: the ledger takes two bits for each, and its check one or two more, so about 100 MB.
pub(crate) const WRITES_MAX: u64 = 200_000_000;
/// The shortest time between two writes of a writer.
const EVERY_MIN: Duration = Duration::from_millis(1);
/// The longest.
const EVERY_MAX: Duration = Duration::from_secs(60);
/// The longest of all other times.
const TIME_MAX: Duration = Duration::from_secs(30 * 86400);

/// The output of `trunkline hatest --help`.
pub const USAGE: &str = "\
Usage: trunkline hatest --path NAME=CONNINFO [OPTION]...

Writes numbered rows, each in a transaction of its own, and reads them while servers fail; then compares what was
acknowledged with what is there. Tells how long nobody could write, and whether an acknowledged write was lost or done
twice. It works with any server, pooler or proxy that speaks PostgreSQL's protocol.

Where to write and read:
  --path NAME=CONNINFO     write there; several times, to compare paths during one failure. A conninfo is libpq's:
                           \"A=host=db1,db2 port=5432 user=app target_session_attrs=read-write\", or
                           \"B=postgres://app@db1,db2/shop?target_session_attrs=primary\"
  --reader NAME=CONNINFO   read there; several times
  --table NAME             the table (default: hatest_ledger); created if there is none
  --clean                  at the end remove the rows of this run, unless something is wrong with them

How much:
  --writers N              writers on each path (default: 2)
  --every TIME             time between two writes of a writer, and two reads of a reader (default: 20ms)
  --duration SECONDS       how long (default: 60; 10min and 2h are understood); Ctrl-C ends it earlier
  --connect-timeout SECONDS  for each host, if its conninfo has no connect_timeout (default: 5)
  --answer-timeout SECONDS   give a connection up that does not answer (default: never, as libpq)

The failure:
  --fault \"COMMAND\"        a command for the shell that causes it
  --fault-after SECONDS    the time of writing before it

The check at the end:
  --verify CONNINFO        the surviving primary (default: the first path)
  --old-primary CONNINFO   the former primary, before it is rewound: rows that are there alone are counted

What is shown:
  --classic                a line a second for each path and reader while it runs
  --json                   the report as JSON
  -h, --help               show this

Passwords come from PGPASSWORD, from ~/.pgpass (or PGPASSFILE), or from the conninfo (which whoever lists processes
can read). PGHOST, PGPORT, PGUSER, PGDATABASE, PGSSLMODE and PGSSLROOTCERT are used as by libpq.

Exit status: 0 if no acknowledged write is lost or was done twice; 1 if one is or was; 2 for a wrong command line; 3 if
nothing could be written or checked. A second Ctrl-C ends at once, without a check.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<HatestOptions, String> {
        HatestOptions::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn paths_and_readers_have_names() {
        let options = parse(&[
            "--path",
            "A=host=a,b port=1 password=x",
            "--path=B=postgres://c/d",
            "--reader",
            "A=host=a",
            "--writers",
            "3",
            "--every",
            "5ms",
            "--duration",
            "2min",
            "--fault-after",
            "20",
            "--fault",
            "kill -9 1",
            "--table",
            "ops.Ledger",
            "--answer-timeout",
            "500ms",
        ])
        .expect("options");
        let names: Vec<_> = options.paths.iter().map(|path| (path.name.as_str(), path.conninfo.as_str())).collect();
        assert_eq!(names, [("A", "host=a,b port=1 password=x"), ("B", "postgres://c/d")]);
        assert_eq!((options.readers.len(), options.writers, options.every.as_millis()), (1, 3, 5));
        assert_eq!((options.duration.as_secs(), options.writes_per_writer()), (120, 24_000));
        assert_eq!(options.fault, Some(Fault { after: Duration::from_secs(20), command: "kill -9 1".to_owned() }));
        assert_eq!(
            (options.table.join("/"), options.answer_timeout),
            ("ops/Ledger".into(), Some(Duration::from_millis(500)))
        );
    }

    #[test]
    fn a_mistake_is_named_without_the_password() {
        let path = ["--path", "A=host=a password=geheim"];
        for (args, wanted) in [
            (&[][..], "no --path"),
            (&["--path", "host=a"], "there is no CONNINFO after host="),
            (&["--path", "postgres://u:geheim@h/d?a=b"], "--path takes NAME=CONNINFO"),
            (&["--path", "a b=host=geheim"], "--path takes NAME=CONNINFO"),
            (&["--path", "A=host=a", "password=geheim"], "put quotes around"),
            (&["--path", "A=host=a", "--path", "A=host=b"], "--path A is given twice"),
            (&[path[0], path[1], "--every", "20"], "--every takes a time"),
            (&[path[0], path[1], "--every", "0ms"], "--every takes a time"),
            (&[path[0], path[1], "--writers", "0"], "--writers takes a number"),
            (&[path[0], path[1], "--duration", "-1"], "--duration takes seconds"),
            (&[path[0], path[1], "--duration", "nan"], "--duration takes seconds"),
            (&[path[0], path[1], "--duration", "1weeks"], "--duration takes seconds"),
            (&[path[0], path[1], "--fault", "x"], "--fault needs --fault-after"),
            (&[path[0], path[1], "--fault-after", "1"], "--fault-after needs --fault"),
            (&[path[0], path[1], "--fault-after", "60", "--fault", "x"], "less than --duration"),
            (&[path[0], path[1], "--table", "a;drop"], "--table takes a name"),
            (&[path[0], path[1], "--table", "a.b.c"], "--table takes a name"),
            (&[path[0], path[1], "--duration", "30d", "--every", "1ms"], "more than 200 million writes"),
            (&["--nonsense"], "--nonsense"),
        ] {
            let text = parse(args).expect_err("a mistake");
            assert!(text.contains(wanted) && text.contains("trunkline hatest --help"), "{text}");
            assert!(!text.contains("geheim"), "{text}");
        }
    }

    #[test]
    fn help_needs_nothing_else() {
        assert!(parse(&["--help"]).expect("options").wants_help());
        for option in ["--path", "--reader", "--writers", "--every", "--duration", "--connect-timeout", "--table"] {
            assert!(USAGE.contains(option), "{option}");
        }
    }
}
