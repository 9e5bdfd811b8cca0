//! The command line of the bench.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use habits::Habit;
use lexopt::{Arg, Parser, ValueExt};

use super::scenario::Scenario;

/// What is measured, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) is_quick: bool,
    /// Length of one run.
    pub(super) seconds: u32,
    /// How often the order A B B A is repeated.
    pub(super) rounds: u32,
    /// Prefixes of the names of scenarios; empty for all.
    pub(super) only: Vec<String>,
    /// Prefixes of the names of scenarios that are left out.
    pub(super) without: Vec<String>,
    pub(super) is_writing: bool,
    /// Whether to print the queries that PostgreSQL gets.
    pub(super) is_telling_texts: bool,
    pub(super) trunkline: Option<PathBuf>,
    pub(super) pgbouncer: Option<PathBuf>,
    pub(super) wants_help: bool,
}

impl Options {
    /// Reads the arguments; `QUICK` in the environment, if not empty, has the effect of `--quick`.
    pub(super) fn parse(arguments: &[OsString]) -> Result<Self, String> {
        let is_quick = std::env::var_os("QUICK").is_some_and(|value| !value.is_empty());
        Self::parse_after(is_quick, arguments)
    }

    fn parse_after(is_quick: bool, arguments: &[OsString]) -> Result<Self, String> {
        let mut parser = Parser::from_args(arguments);
        let (mut seconds, mut rounds) = (None, None);
        let mut options = Self {
            is_quick,
            seconds: 0,
            rounds: 0,
            only: Vec::new(),
            without: Vec::new(),
            is_writing: true,
            is_telling_texts: false,
            trunkline: None,
            pgbouncer: None,
            wants_help: false,
        };
        while let Some(arg) = parser.next().map_err(said)? {
            match arg {
                Arg::Long("quick") => options.is_quick = true,
                Arg::Long("seconds") => seconds = Some(number(&mut parser, "seconds")?),
                Arg::Long("rounds") => rounds = Some(number(&mut parser, "rounds")?),
                Arg::Long("only") => options.only.extend(names(&mut parser)?),
                Arg::Long("without") => options.without.extend(names(&mut parser)?),
                Arg::Long("texts") => options.is_telling_texts = true,
                Arg::Long("no-write") => options.is_writing = false,
                Arg::Long("trunkline") => options.trunkline = Some(parser.value().map_err(said)?.into()),
                Arg::Long("pgbouncer") => options.pgbouncer = Some(parser.value().map_err(said)?.into()),
                Arg::Short('h') | Arg::Long("help") => options.wants_help = true,
                other => return Err(format!("{}\n\n{USAGE}", other.unexpected())),
            }
        }
        options.seconds = seconds.unwrap_or(if options.is_quick { 2 } else { 5 });
        options.rounds = rounds.unwrap_or(if options.is_quick { 1 } else { 3 });
        Ok(options)
    }

    /// The scenarios to measure, in order.
    pub(super) fn scenarios(&self, habits: &'static [Habit]) -> Result<Vec<Scenario>, String> {
        let all = Scenario::all(habits);
        let mut given = self.only.iter().chain(&self.without);
        if let Some(unknown) = given.find(|name| !all.iter().any(|scenario| scenario.is_called(name))) {
            let names: Vec<String> = all.iter().map(|scenario| scenario.name()).collect();
            return Err(format!("nothing is called {unknown}; there are {}", names.join(", ")));
        }
        let is_wanted = |scenario: &Scenario| match self.only.as_slice() {
            [] => !self.is_quick || scenario.is_in_quick(),
            names => names.iter().any(|name| scenario.is_called(name)),
        };
        let is_left_out = |scenario: &Scenario| self.without.iter().any(|name| scenario.is_called(name));
        Ok(all.into_iter().filter(|scenario| is_wanted(scenario) && !is_left_out(scenario)).collect())
    }

    /// Returns whether the results may be published: everything was measured but for what the page says was left out, and
    /// long enough.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_quick && self.only.is_empty() && self.seconds >= 3 && self.rounds >= 2
    }
}

#[cfg(test)]
impl Options {
    pub(super) fn for_tests() -> Self {
        Self::parse_after(false, &[]).expect("no arguments, no mistakes")
    }
}

fn said(error: lexopt::Error) -> String {
    error.to_string()
}

fn names(parser: &mut Parser) -> Result<Vec<String>, String> {
    let names = parser.value().map_err(said)?.string().map_err(said)?;
    Ok(names.split(',').map(str::to_owned).collect())
}

fn number(parser: &mut Parser, name: &str) -> Result<u32, String> {
    let text = parser.value().map_err(said)?.string().map_err(said)?;
    let number = u32::from_str(&text).ok().filter(|number| (1..=3600).contains(number));
    number.ok_or_else(|| format!("--{name} takes a number from 1 to 3600"))
}

pub(super) const USAGE: &str = "\
usage: cargo xtask bench [OPTION]...

Trunkline (io_uring, and epoll) and PgBouncer, one worker each, A B B A, on the same throw-away PostgreSQL.

  --quick           a rough answer in under two minutes (also QUICK=1)
  --only NAME,..    only what begins so: simple-64, extended, prepared, tpcb, connect, tls, tlsconnect,
                    idle, row, startup, tenants, habits, habits/NAME (a script of tests/habits)
  --without NAME,.. all but what begins so; the page says what was left out
  --texts           for habits: also what PostgreSQL is sent for each transaction
  --seconds N       length of one run (5; quick 2)
  --rounds N        how often each order A B B A is gone through (3; quick 1)
  --no-write        leave bench.json and docs/benchmarks.md as they are
  --trunkline PATH  measure this program instead of building one
  --pgbouncer PATH  measure against this one instead of the distribution's; prepared needs
                    1.21 or later";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(is_quick: bool, arguments: &[&str]) -> Result<Options, String> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        Options::parse_after(is_quick, &arguments)
    }

    #[test]
    fn a_whole_run_measures_everything_and_may_be_published() {
        let options = parse(false, &[]).expect("options");
        assert!(options.is_whole());
        assert_eq!(options.scenarios(&[]).expect("names").len(), Scenario::all(&[]).len());
    }

    #[test]
    fn a_quick_run_measures_less_and_is_not_published() {
        let options = parse(true, &[]).expect("options");
        assert!(!options.is_whole());
        assert_eq!((options.seconds, options.rounds), (2, 1));
        assert!(options.scenarios(&[]).expect("names").len() < Scenario::all(&[]).len());
    }

    #[test]
    fn a_name_stands_for_all_that_begin_with_it() {
        let options = parse(false, &["--only", "simple,tpcb-64"]).expect("options");
        let names: Vec<String> = options.scenarios(&[]).expect("names").iter().map(|s| s.name()).collect();
        assert_eq!(names, ["simple-1", "simple-8", "simple-64", "simple-400", "tpcb-64"]);
        assert!(!options.is_whole());
    }

    #[test]
    fn what_is_left_out_does_not_keep_the_rest_from_being_published() {
        let options = parse(false, &["--without", "simple,tenants"]).expect("options");
        let names: Vec<String> = options.scenarios(&[]).expect("names").iter().map(|s| s.name()).collect();
        assert!(
            names.len() > 10 && !names.iter().any(|name| name.starts_with("simple") || name.starts_with("tenants"))
        );
        assert!(options.is_whole());
        assert!(parse(false, &["--without", "sample-64"]).expect("options").scenarios(&[]).is_err());
    }

    #[test]
    fn a_name_that_means_nothing_is_an_error_that_lists_the_names() {
        let options = parse(false, &["--only", "sample-64"]).expect("options");
        assert!(options.scenarios(&[]).expect_err("unknown").contains("there are simple-1, "));
    }

    #[test]
    fn a_length_of_nothing_is_refused() {
        assert_eq!(parse(false, &["--seconds", "0"]), Err("--seconds takes a number from 1 to 3600".into()));
    }
}
