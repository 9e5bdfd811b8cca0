//! The options of `trunkline demo`.

use std::ffi::OsString;
use std::str::FromStr;

use lexopt::{Arg, Parser, ValueExt};

/// How the demo runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoOptions {
    /// The length of each run in seconds, at least 1.
    pub seconds: u32,
    /// Whether both servers stay up at the end until Ctrl-C.
    pub is_waiting: bool,
    /// The numbers of clients, each from 1 to [`CLIENTS_MAX`].
    pub clients: Vec<u32>,
    /// Whether to print [`USAGE`] only.
    pub wants_help: bool,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self { seconds: 5, is_waiting: true, clients: vec![20, 100, 400, 800], wants_help: false }
    }
}

impl DemoOptions {
    /// Parses the arguments after `trunkline demo`.
    ///
    /// # Errors
    /// An argument is unknown or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next().map_err(said)? {
            match arg {
                Arg::Long("seconds") => options.seconds = number(&mut parser, "seconds", SECONDS_MAX)?,
                Arg::Long("clients") => options.clients = crowd_sizes(&text(&mut parser)?)?,
                Arg::Long("no-wait") => options.is_waiting = false,
                Arg::Short('h') | Arg::Long("help") => options.wants_help = true,
                other => return Err(format!("{}; try trunkline demo --help", said(other.unexpected()))),
            }
        }
        Ok(options)
    }
}

fn said(why: lexopt::Error) -> String {
    why.to_string()
}

fn text(parser: &mut Parser) -> Result<String, String> {
    parser.value().map_err(said)?.string().map_err(said)
}

fn number(parser: &mut Parser, name: &str, max: u32) -> Result<u32, String> {
    in_range(&text(parser)?, max).ok_or_else(|| format!("--{name} takes a number from 1 to {max}"))
}

fn crowd_sizes(list: &str) -> Result<Vec<u32>, String> {
    let sizes: Option<Vec<u32>> = list.split(',').map(|size| in_range(size, CLIENTS_MAX)).collect();
    sizes.ok_or_else(|| format!("--clients takes numbers from 1 to {CLIENTS_MAX} with commas between them"))
}

fn in_range(text: &str, max: u32) -> Option<u32> {
    u32::from_str(text.trim()).ok().filter(|number| (1..=max).contains(number))
}

/// A day for each run is enough.
const SECONDS_MAX: u32 = 86_400;

/// With more clients the direct runs would test only the machine's memory.
const CLIENTS_MAX: u32 = 5_000;

/// The output of `trunkline demo --help`.
pub const USAGE: &str = "\
Usage: trunkline demo [OPTION]...

A crowd of pgbench clients at a throw-away PostgreSQL, first directly and then through Trunkline: transactions per
second, latency, PostgreSQL's processes and their memory, side by side. Nothing is left behind.

Options:
  --seconds N       length of each of the sixteen runs (default: 5)
  --clients A,B,..  sizes of the crowd (default: 20,100,400,800)
  --no-wait         end after the tables; otherwise both servers stay up, to be tried by hand, until Ctrl-C
  -h, --help        show this
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<DemoOptions, String> {
        DemoOptions::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn without_arguments_the_demo_is_the_whole_one() {
        assert_eq!(parse(&[]), Ok(DemoOptions::default()));
    }

    #[test]
    fn each_option_is_heard() {
        let options = parse(&["--seconds", "2", "--no-wait", "--clients=1,20", "--help"]).expect("options");
        let expected = DemoOptions { seconds: 2, is_waiting: false, clients: vec![1, 20], wants_help: true };
        assert_eq!(options, expected);
    }

    #[test]
    fn a_mistake_is_named() {
        assert_eq!(parse(&["--seconds", "0"]), Err("--seconds takes a number from 1 to 86400".into()));
        assert!(parse(&["--clients", "20,many"]).expect_err("no number").starts_with("--clients takes numbers"));
        assert!(parse(&["--fast"]).expect_err("unknown").contains("--fast"));
        assert!(parse(&["--seconds"]).is_err());
    }
}
