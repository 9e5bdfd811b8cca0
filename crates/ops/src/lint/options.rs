//! The options of `trunkline lint`, most of which say what no file says.
//!
//! Always true: an option that is not given is absent for the rules; none has a default that a rule would take for a fact, except the three
//! connections that PostgreSQL keeps for superusers.
//! Not here: the rules.

use std::ffi::OsString;
use std::fmt::Write as _;

use lexopt::{Arg, Parser, ValueExt};

use crate::arguments::{self, said, text};
use crate::facts::Kind;
use crate::report::Format;

/// The options of `trunkline lint`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LintOptions {
    /// The files, each with the kind that `--kind` says, in the order of the command line.
    pub(crate) files: Vec<(String, Option<Kind>)>,
    /// What no file says.
    pub(crate) given: Given,
    /// How to show the findings.
    pub(crate) format: Format,
    /// Where to; standard output if absent.
    pub(crate) output: Option<String>,
    /// Whether to print [`usage`] only.
    pub(crate) wants_help: bool,
    /// Whether to print the rules only.
    pub(crate) wants_rules: bool,
}

/// What an operator knows and no file says. Times are in seconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Given {
    pub(crate) replicas: Option<f64>,
    pub(crate) max_connections: Option<f64>,
    pub(crate) reserved: Option<f64>,
    pub(crate) direct: Option<f64>,
    /// The smallest and the largest number of users of a database.
    pub(crate) tenants: Option<(f64, f64)>,
    pub(crate) slo: Option<f64>,
    pub(crate) client_timeout: Option<f64>,
    pub(crate) client_connect_timeout: Option<f64>,
    pub(crate) failover_budget: Option<f64>,
    pub(crate) gap: Option<f64>,
    pub(crate) drain: Option<f64>,
    pub(crate) longest_transaction: Option<f64>,
    pub(crate) open_files: Option<f64>,
    pub(crate) connect_burst: Option<f64>,
    pub(crate) connect_rate: Option<f64>,
    pub(crate) somaxconn: Option<f64>,
    pub(crate) plan_memory: Option<f64>,
    pub(crate) drivers: Option<String>,
    pub(crate) channel_binding: Option<String>,
    pub(crate) migration_user: Option<String>,
    pub(crate) background_user: Option<String>,
    pub(crate) pgbouncer_version: Option<(u32, u32)>,
}

/// An option that gives a fact.
struct GivenOption {
    name: &'static str,
    value: &'static str,
    doc: &'static str,
    set: fn(&mut Given, &str) -> Option<()>,
}

impl LintOptions {
    /// Parses the arguments after `trunkline lint`.
    ///
    /// # Errors
    /// An argument is unknown, missing or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args)).map_err(|text| format!("trunkline lint: {text}\nTry \"trunkline lint --help\"."))
    }

    /// The options for one file of which nothing else is known.
    #[must_use]
    pub fn for_file(file: &str) -> Self {
        Self { files: vec![(file.to_owned(), None)], ..Self::default() }
    }

    /// The same, for a file that Trunkline is to read.
    #[must_use]
    pub fn for_trunkline(file: &str) -> Self {
        Self { files: vec![(file.to_owned(), Some(Kind::Trunkline))], ..Self::default() }
    }

    /// Where the report goes, if not to standard output.
    #[must_use]
    pub fn output(&self) -> Option<&str> {
        self.output.as_deref()
    }

    /// Whether to print [`usage`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }

    /// Whether to print the rules only.
    #[must_use]
    pub fn wants_rules(&self) -> bool {
        self.wants_rules
    }
}

fn read(mut parser: Parser) -> Result<LintOptions, String> {
    let mut options = LintOptions::default();
    let mut kind = None;
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Short('h' | '?') | Arg::Long("help") => {
                return Ok(LintOptions { wants_help: true, ..LintOptions::default() });
            }
            Arg::Long("rules") => options.wants_rules = true,
            Arg::Long("kind") => {
                let word = text(&mut parser)?;
                let unknown = || format!("--kind: \"{word}\" is not one of {}", Kind::words());
                kind = Some(Kind::parse(&word).ok_or_else(unknown)?);
            }
            Arg::Long("format") => {
                let word = text(&mut parser)?;
                let unknown = || format!("--format: \"{word}\" is not one of {}", Format::WORDS);
                options.format = Format::parse(&word).ok_or_else(unknown)?;
            }
            Arg::Short('o') | Arg::Long("output") => options.output = Some(text(&mut parser)?),
            Arg::Long(name) => {
                let Some(option) = GIVEN.iter().find(|option| option.name == name) else {
                    return Err(unknown(name));
                };
                let value = text(&mut parser)?;
                let wrong = || format!("--{}: \"{value}\" is no {}", option.name, option.value);
                (option.set)(&mut options.given, &value).ok_or_else(wrong)?;
            }
            Arg::Value(file) => options.files.push((file.string().map_err(said)?, kind)),
            other => return Err(said(other.unexpected())),
        }
    }
    if options.files.is_empty() && !options.wants_rules {
        return Err("no file was named".to_owned());
    }
    Ok(options)
}

fn unknown(name: &str) -> String {
    let names = GIVEN.iter().map(|option| option.name).chain(["kind", "format", "output", "help", "rules"]);
    arguments::unknown(name, names)
}

/// A number that is not negative.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// `10`, or `10-15`.
fn range(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (number(low)?, number(high)?);
    (low >= 1.0 && low <= high).then_some((low, high))
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

macro_rules! given {
    ($($name:literal $value:literal $field:ident $parse:expr, $doc:literal;)*) => {
        &[$(GivenOption {
            name: $name,
            value: $value,
            doc: $doc,
            set: |given, text| {
                given.$field = Some($parse(text)?);
                Some(())
            },
        },)*]
    };
}

const GIVEN: &[GivenOption] = given! {
    "replicas" "COUNT" replicas number, "processes that run with this file";
    "max-connections" "COUNT" max_connections number, "max_connections of PostgreSQL";
    "reserved" "COUNT" reserved number, "connections that PostgreSQL reserves (superuser_reserved_connections and reserved_connections; 3)";
    "direct" "COUNT" direct number, "connections that bypass the poolers: migrations, backups, monitoring (0)";
    "tenants" "COUNT" tenants range, "users (roles) that use each database, or a range such as 10-15";
    "slo" "MS" slo (|text| number(text).map(|ms| ms / 1000.0)), "the latency that applications expect, in ms";
    "client-timeout" "SECONDS" client_timeout number, "how long applications wait for an answer";
    "client-connect-timeout" "SECONDS" client_connect_timeout number, "how long applications wait for a connection";
    "failover-budget" "SECONDS" failover_budget number, "how long a failover may take";
    "gap" "SECONDS" gap number, "the usual time between two uses of a server connection";
    "drain" "SECONDS" drain number, "how long a pooler that is told to stop may wait for its clients";
    "longest-transaction" "SECONDS" longest_transaction number, "the longest transaction, or query without an answer";
    "open-files" "COUNT" open_files number, "open files that the pooler may have (ulimit -n, LimitNOFILE)";
    "connect-burst" "COUNT" connect_burst number, "clients that may connect at the same moment";
    "connect-rate" "COUNT" connect_rate number, "new client connections a second";
    "somaxconn" "COUNT" somaxconn number, "net.core.somaxconn of the pooler's machine";
    "plan-memory" "MB" plan_memory number, "memory of the PostgreSQL machine for prepared statements";
    "drivers" "LIST" drivers (|text: &str| Some(text.to_ascii_lowercase())), "drivers of the applications, such as jdbc,pgx,npgsql";
    "channel-binding" "WORD" channel_binding (|text: &str| ["require", "prefer", "disable"].contains(&text).then(|| text.to_owned())), "channel_binding of the clients: require, prefer or disable";
    "migration-user" "NAME" migration_user (|text: &str| Some(text.to_owned())), "the user who migrates schemas";
    "background-user" "NAME" background_user (|text: &str| Some(text.to_owned())), "the user of background jobs";
    "pgbouncer-version" "VERSION" pgbouncer_version version, "such as 1.17";
};

/// The output of `trunkline lint --help`.
#[must_use]
pub fn usage() -> String {
    let mut page = USAGE_HEAD.to_owned();
    for option in GIVEN {
        let head = format!("--{} {}", option.name, option.value);
        // Writing to a string cannot fail.
        let _ = writeln!(page, "  {head:<33}{}", option.doc);
    }
    page + USAGE_FOOT
}

/// The options that give facts, as a Markdown table.
pub(crate) fn reference() -> String {
    let mut page = "| option | what it says |\n|---|---|\n".to_owned();
    for option in GIVEN {
        let _ = writeln!(page, "| `--{} {}` | {} |", option.name, option.value, option.doc);
    }
    page
}

const USAGE_HEAD: &str = "\
trunkline lint finds what will break, or cost time, in configurations of poolers and of what stands around them.

Usage:
  trunkline lint [OPTION]... FILE...

Files are PgBouncer's, Trunkline's or Odyssey's configuration, Kubernetes manifests or values, Patroni's and HAProxy's configuration; given
together, they are judged together. A file's kind is recognized by its content.

Options:
  --kind KIND                      the kind of the files that follow: pgbouncer, trunkline, odyssey, kubernetes, patroni, haproxy
  --format FORMAT                  table, json, sarif (2.1.0) or html
  -o, --output FILE                write there instead of to standard output
  --rules                          list all rules, then exit
  -h, --help                       show this help, then exit

What no file says. A rule without its input is \"not evaluated\":
";
const USAGE_FOOT: &str = "
A comment in a file mutes a rule for that file, with a reason: \"; lint: ignore L05 the limit is for later\" (# in other files).

Exit status: 0 nothing, or notes only; 1 warnings; 2 errors; 3 a file cannot be read or is of no known kind; 4 the command line is wrong.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<LintOptions, String> {
        LintOptions::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn files_have_the_kind_that_was_said_before_them() {
        let options = parse(&["a", "--kind", "patroni", "b", "c"]).expect("options");
        let expected = [("a", None), ("b", Some(Kind::Patroni)), ("c", Some(Kind::Patroni))];
        assert_eq!(options.files, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    #[test]
    fn what_no_file_says_is_absent_until_it_is_given() {
        assert_eq!(parse(&["a"]).expect("options").given, Given::default());
        let given =
            parse(&["a", "--tenants=10-15", "--slo", "250", "--pgbouncer-version", "1.17.0"]).expect("ok").given;
        assert_eq!((given.tenants, given.slo), (Some((10.0, 15.0)), Some(0.25)));
        assert_eq!(given.pgbouncer_version, Some((1, 17)));
    }

    #[test]
    fn a_mistake_is_told_with_the_nearest_name() {
        for (words, part) in [
            (&["a", "--replica", "3"][..], "did you mean --replicas?"),
            (&["a", "--replicas", "many"], "\"many\" is no COUNT"),
            (&["a", "--tenants", "15-10"], "--tenants"),
            (&["a", "--kind", "mysql"], "patroni"),
            (&["a", "--format", "pdf"], "sarif"),
            (&[], "no file"),
        ] {
            let why = parse(words).expect_err("a mistake");
            assert!(why.contains(part) && why.contains("--help"), "{why}");
        }
    }

    #[test]
    fn the_usage_has_every_option() {
        let usage = usage();
        assert!(GIVEN.iter().all(|option| usage.contains(option.name)));
        assert!(usage.lines().all(|line| line.chars().count() <= 150), "{usage}");
    }
}
