//! The options of `trunkline doctor`.
//!
//! Always true: what is not given is absent for the rules; a mute has a reason.
//! Not here: reading connection strings (`connection`), the rules.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, Parser};

use crate::arguments::{said, text, unknown};
use crate::report::Format;

/// The options of `trunkline doctor`.
#[derive(Clone, PartialEq, Debug)]
pub struct DoctorOptions {
    /// The connection string of the server.
    pub(crate) server: Option<String>,
    /// The connection string of the pooler's console.
    pub(crate) pooler: Option<String>,
    /// The pooler's process, if it runs on this machine.
    pub(crate) pooler_pid: Option<u32>,
    /// The file with readings of the pooler's console.
    pub(crate) history: Option<String>,
    /// Whether this machine, which is the server's, is looked at.
    pub(crate) is_host: bool,
    /// The time between the two readings; 0 if there is only one, and no sampling.
    pub(crate) time: Duration,
    /// Whether commits are tried, which writes to the server's log.
    pub(crate) is_committing: bool,
    /// The time between two samples.
    pub(crate) every: Duration,
    /// What nobody can be asked.
    pub(crate) given: Given,
    /// Rules that are muted, with the reason.
    pub(crate) mutes: Vec<(String, String)>,
    /// How to show the findings.
    pub(crate) format: Format,
    /// Where to; standard output if absent.
    pub(crate) output: Option<String>,
    /// Whether to print [`USAGE`] only.
    pub(crate) wants_help: bool,
    /// Whether to print the rules only.
    pub(crate) wants_rules: bool,
}

/// What an operator knows and nobody can be asked.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Given {
    /// Processors of the server's machine.
    pub(crate) cores: Option<f64>,
    /// Its memory in bytes.
    pub(crate) memory: Option<f64>,
    /// Processes of the pooler with this configuration.
    pub(crate) replicas: Option<f64>,
    /// Connections that may bypass the pooler.
    pub(crate) direct: Option<f64>,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        Self {
            server: None,
            pooler: None,
            pooler_pid: None,
            history: None,
            is_host: false,
            time: Duration::from_secs(20),
            is_committing: false,
            every: Duration::from_millis(10),
            given: Given::default(),
            mutes: Vec::new(),
            format: Format::default(),
            output: None,
            wants_help: false,
            wants_rules: false,
        }
    }
}

impl DoctorOptions {
    /// Parses the arguments after `trunkline doctor`.
    ///
    /// # Errors
    /// An argument is unknown, missing or out of range; the text is for the person who typed it, and repeats no connection string.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args))
            .map_err(|text| format!("trunkline doctor: {text}\nTry \"trunkline doctor --help\"."))
    }

    /// Whether to print [`USAGE`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }

    /// Whether to print the rules only.
    #[must_use]
    pub fn wants_rules(&self) -> bool {
        self.wants_rules
    }

    /// Where the report goes, if not to standard output.
    #[must_use]
    pub fn output(&self) -> Option<&str> {
        self.output.as_deref()
    }
}

fn read(mut parser: Parser) -> Result<DoctorOptions, String> {
    let mut options = DoctorOptions::default();
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Short('h' | '?') | Arg::Long("help") => {
                return Ok(DoctorOptions { wants_help: true, ..DoctorOptions::default() });
            }
            Arg::Long("rules") => options.wants_rules = true,
            Arg::Long("server") => options.server = Some(text(&mut parser)?),
            Arg::Long("pooler") => options.pooler = Some(text(&mut parser)?),
            Arg::Long("pooler-pid") => {
                options.pooler_pid = Some(number(&mut parser, "pooler-pid", (1.0, 4_194_304.0))? as u32);
            }
            Arg::Long("history") => options.history = Some(text(&mut parser)?),
            Arg::Long("host") => options.is_host = true,
            Arg::Long("seconds") => {
                options.time = Duration::from_secs_f64(number(&mut parser, "seconds", (0.0, 3600.0))?)
            }
            Arg::Long("every") => {
                options.every = Duration::from_secs_f64(number(&mut parser, "every", (1.0, 10_000.0))? / 1000.0);
            }
            Arg::Long("commit-probe") => options.is_committing = true,
            Arg::Long("cores") => options.given.cores = Some(number(&mut parser, "cores", (1.0, 100_000.0))?),
            Arg::Long("memory") => {
                options.given.memory = Some(number(&mut parser, "memory", (1.0, 1e9))? * MEGABYTE);
            }
            Arg::Long("replicas") => options.given.replicas = Some(number(&mut parser, "replicas", (1.0, 1e6))?),
            Arg::Long("direct") => options.given.direct = Some(number(&mut parser, "direct", (0.0, 1e6))?),
            Arg::Long("mute") => options.mutes.push(mute(&text(&mut parser)?)?),
            Arg::Long("format") => options.format = format(&text(&mut parser)?)?,
            Arg::Short('o') | Arg::Long("output") => options.output = Some(text(&mut parser)?),
            Arg::Long(name) => return Err(unknown(name, NAMES)),
            // It may be a connection string with a password.
            Arg::Value(_) => {
                return Err("an argument without its option; connection strings follow --server or --pooler".to_owned());
            }
            other => return Err(said(other.unexpected())),
        }
    }
    let has_subject = options.server.is_some() || options.pooler.is_some() || options.is_host;
    if !has_subject && !options.wants_rules {
        return Err("nothing to look at: give --server, --pooler or --host".to_owned());
    }
    Ok(options)
}

fn number(parser: &mut Parser, name: &str, (low, high): (f64, f64)) -> Result<f64, String> {
    let word = text(parser)?;
    let number = word.parse().ok().filter(|number: &f64| (low..=high).contains(number));
    number.ok_or_else(|| format!("--{name}: \"{word}\" is no number from {low} to {high}"))
}

/// `D05=the clients are on the same machine`.
fn mute(word: &str) -> Result<(String, String), String> {
    let (rule, reason) = word.split_once('=').unwrap_or((word, ""));
    let (rule, reason) = (rule.trim().to_ascii_uppercase(), reason.trim());
    if !super::rules::RULES.iter().any(|known| known.rule.id == rule) {
        return Err(format!("--mute: \"{rule}\" is no rule"));
    }
    if reason.is_empty() {
        return Err(format!("--mute: say why: --mute {rule}=\"the reason\""));
    }
    Ok((rule, reason.to_owned()))
}

fn format(word: &str) -> Result<Format, String> {
    let format = Format::parse(word).filter(|format| *format != Format::Sarif);
    format.ok_or_else(|| format!("--format: \"{word}\" is not one of table, json, html"))
}

const NAMES: [&str; 17] = [
    "server",
    "pooler",
    "pooler-pid",
    "history",
    "host",
    "seconds",
    "every",
    "commit-probe",
    "cores",
    "memory",
    "replicas",
    "direct",
    "mute",
    "format",
    "output",
    "rules",
    "help",
];
const MEGABYTE: f64 = 1024.0 * 1024.0;

/// The output of `trunkline doctor --help`.
pub const USAGE: &str = "\
trunkline doctor says what is wrong with a PostgreSQL, its pooler and its machine while they run. It changes nothing.

Usage:
  trunkline doctor [--server CONNINFO] [--pooler CONNINFO] [--host] [OPTION]...

What to look at; at least one:
  --server CONNINFO        PostgreSQL itself, not through a pooler; a role with pg_monitor that may connect to the databases
  --pooler CONNINFO        the console of Trunkline or PgBouncer (dbname is pgbouncer unless it says another)
  --host                   this machine, which is the server's

Options:
  --pooler-pid PID         the pooler's process on this machine, to tell a pooler without a processor from slow clients
  --history FILE           readings of SHOW POOLS over a week, with --pooler: as trunkline advise reads them
  --seconds SECONDS        time between two readings, in which waits are sampled (20); 0 takes one reading
  --every MS               time between two samples of waits (10)
  --commit-probe           try how long commits take: 200 messages of a few bytes in the server's log, and nothing else
  --cores COUNT            processors of the server's machine, without --host
  --memory MB              its memory, without --host
  --replicas COUNT         processes of the pooler that run with this configuration
  --direct COUNT           connections that may bypass the pooler
  --mute RULE=REASON       do not count a rule; the report says why
  --format FORMAT          table, json or html
  -o, --output FILE        write there instead of to standard output
  --rules                  list all rules, then exit
  -h, --help               show this help, then exit

A rule that lacks an input, or may not look, is \"not evaluated\" and says why. Ctrl-C ends it earlier, with what is known.

Exit status: 0 nothing, or notes only; 1 warnings; 2 errors; 3 a server or pooler could not be asked everything; 4 the command line is wrong.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<DoctorOptions, String> {
        DoctorOptions::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn what_is_given_is_read_and_the_rest_is_absent() {
        let options = parse(&["--server", "host=a", "--seconds=0.5", "--memory", "1", "--mute", "d05=it is  local"])
            .expect("options");
        assert_eq!((options.time, options.every), (Duration::from_millis(500), Duration::from_millis(10)));
        assert_eq!((options.given.memory, options.given.cores), (Some(MEGABYTE), None));
        assert_eq!(options.mutes, [("D05".to_owned(), "it is  local".to_owned())]);
    }

    #[test]
    fn a_mistake_is_told_and_no_connection_string_is_repeated() {
        for (words, part) in [
            (&["--servr", "host=a"][..], "did you mean --server?"),
            (&["--host", "--seconds", "long"], "\"long\" is no number from 0 to 3600"),
            (&["--host", "--mute", "D05"], "say why"),
            (&["--host", "--mute", "D99=x"], "is no rule"),
            (&["--host", "--format", "sarif"], "html"),
            (&[], "nothing to look at"),
            (&["postgres://u:geheim@a/d"], "--server"),
        ] {
            let why = parse(words).expect_err("a mistake");
            assert!(why.contains(part) && why.contains("--help") && !why.contains("geheim"), "{why}");
        }
    }

    #[test]
    fn the_usage_has_every_option() {
        assert!(NAMES.iter().all(|name| USAGE.contains(&format!("--{name}"))));
    }
}
