//! The options of `trunkline record`.
//!
//! Always true: no text repeats a connection string.
//! Not here: reading connection strings (`connection`).

use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, Parser};

use super::recording::Values;
use crate::arguments::{said, text, unknown};

/// The options of `trunkline record`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordOptions {
    /// The connection string of the pooler's console.
    pub(super) pooler: String,
    /// The database whose clients are recorded.
    pub(super) database: String,
    pub(super) time: Duration,
    pub(super) values: Values,
    /// Where to; standard output if absent.
    pub(super) output: Option<String>,
    wants_help: bool,
}

impl RecordOptions {
    /// Parses the arguments after `trunkline record`.
    ///
    /// # Errors
    /// An argument is unknown, missing or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args))
            .map_err(|text| format!("trunkline record: {text}\nTry \"trunkline record --help\"."))
    }

    /// Whether to print [`USAGE`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }
}

fn read(mut parser: Parser) -> Result<RecordOptions, String> {
    let (mut pooler, mut database) = (None, None);
    let mut options = RecordOptions {
        pooler: String::new(),
        database: String::new(),
        time: Duration::from_secs(60),
        values: Values::Spread,
        output: None,
        wants_help: false,
    };
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(RecordOptions { wants_help: true, ..options }),
            Arg::Long("pooler") => pooler = Some(text(&mut parser)?),
            Arg::Long("database") => database = Some(text(&mut parser)?),
            Arg::Long("seconds") => {
                let written = text(&mut parser)?;
                let seconds = written.parse().ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
                let wrong = || format!("--seconds \"{written}\": 1 to {SECONDS_MAX} are wanted");
                options.time = Duration::from_secs(seconds.ok_or_else(wrong)?);
            }
            Arg::Long("values") => {
                options.values = match text(&mut parser)?.as_str() {
                    "none" => Values::None,
                    "spread" => Values::Spread,
                    "literals" => Values::Literals,
                    other => return Err(format!("--values \"{other}\": none, spread or literals is wanted")),
                }
            }
            Arg::Short('o') | Arg::Long("output") => options.output = Some(text(&mut parser)?),
            Arg::Long(name) => return Err(unknown(name, NAMES)),
            other => return Err(said(other.unexpected())),
        }
    }
    options.pooler = pooler.ok_or("--pooler is missing: the connection string of the console")?;
    options.database = database.ok_or("--database is missing: whose clients are recorded")?;
    Ok(options)
}

/// As long as a trace may last.
const SECONDS_MAX: u64 = 3600;
const NAMES: [&str; 6] = ["pooler", "database", "seconds", "values", "output", "help"];

/// The output of `trunkline record --help`.
pub const USAGE: &str = "\
trunkline record writes down what the clients of a database ask for, and when, so that it can be played again:
trunkline capacity --replay FILE. It asks the console of a running trunkline for a trace (TRACE), as an admin user.

Usage:
  trunkline record --pooler CONNINFO --database NAME [OPTION]...

Options:
      --pooler CONNINFO  the console; its database is pgbouncer unless the string says another
      --database NAME    the database whose clients are recorded, as the pooler calls it
      --seconds N        how long, at most 3600 (60)
      --values WHAT      what is kept of the values in statements (spread):
                         none       nothing; such a recording shows what came when, and cannot be played
                         spread     how they are spread, and how often the most frequent ones come; no value itself, of a
                                    number two digits
                         literals   the values themselves: the file is then as secret as the database
  -o, --output FILE      the file; only its owner may read it (standard output)
  -h, --help             show this help, then exit

For spread and literals the pooler is told to show values in traces (SET trace_values = 1) until the recording is over. More than some 600
requests a second of a worker are more than a trace tells; the recording says what was dropped. Ctrl-C ends it with what is known.

Exit status: 0 recorded; 2 the command line is wrong; 3 the pooler cannot be asked, or the file not be written.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<RecordOptions, String> {
        RecordOptions::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn what_is_wrong_is_named() {
        let place = ["--pooler", "host=a", "--database", "shop"];
        assert!(parsed(&place).is_ok_and(|options| options.values == Values::Spread && options.time.as_secs() == 60));
        for (more, named) in [
            (&["--seconds", "0"][..], "--seconds \"0\": 1 to 3600"),
            (&["--seconds", "3601"], "3600"),
            (&["--values", "all"], "none, spread or literals"),
            (&["--secnds", "1"], "did you mean --seconds?"),
        ] {
            let told = parsed(&[&place[..], more].concat()).expect_err("it is wrong");
            assert!(told.contains(named), "{told}");
        }
        assert!(parsed(&["--database", "shop"]).expect_err("it is wrong").contains("--pooler is missing"));
        assert!(parsed(&["--pooler", "host=a"]).expect_err("it is wrong").contains("--database is missing"));
        for setting in NAMES {
            assert!(USAGE.contains(&format!("--{setting}")), "{setting}");
        }
    }
}
