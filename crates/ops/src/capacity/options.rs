//! The options of `trunkline capacity`.
//!
//! Always true: what is wrong on the command line is told before anything is connected to; no text repeats a connection string.
//! Not here: what the options lead to (`course`).

use std::ffi::OsString;

use lexopt::{Arg, Parser};

use super::growth::Growth;
use super::slo::Slo;
use crate::arguments::{said, text, unknown};

/// The options of `trunkline capacity`.
#[derive(Clone, PartialEq, Debug)]
pub struct CapacityOptions {
    /// The connection string of what is measured.
    pub(crate) target: Option<String>,
    /// The connection string of the pooler's console.
    pub(crate) pooler: Option<String>,
    /// The connection string of the PostgreSQL server.
    pub(crate) server: Option<String>,
    /// Whether the server is on this machine, whose processors are looked at.
    pub(crate) is_host: bool,
    /// Processors of the server, where they cannot be looked at.
    pub(crate) cores: Option<f64>,
    /// The process of the pooler on this machine.
    pub(crate) pooler_pid: Option<u32>,
    pub(crate) slo: Slo,
    /// Statements instead of the built-in one.
    pub(crate) statements: Vec<String>,
    /// A file of statements, one a line.
    pub(crate) file: Option<String>,
    /// The most client connections.
    pub(crate) clients: u32,
    pub(crate) minutes: f64,
    pub(crate) confirmations: u32,
    /// Numbers of clients for the scalability law; empty is none.
    pub(crate) scaling: Vec<u32>,
    /// Numbers of clients whose throughput is asked of the law.
    pub(crate) predict: Vec<f64>,
    /// Numbers of idle connections; empty is none.
    pub(crate) idle: Vec<u32>,
    /// Whether shares of tables are told.
    pub(crate) is_attributed: bool,
    /// Whether buffers are looked at.
    pub(crate) is_hot_set: bool,
    /// Requests a second now.
    pub(crate) now: Option<f64>,
    pub(crate) growth: Option<Growth>,
    /// A history of loads.
    pub(crate) forecast: Option<String>,
    pub(crate) soft: Option<f64>,
    pub(crate) hard: Option<f64>,
    /// Whether a schema of our own may be made and written to.
    pub(crate) may_write: bool,
    /// The database that may be written to although others use it.
    pub(crate) production: Option<String>,
    /// Whether the schema stays.
    pub(crate) is_kept: bool,
    pub(crate) seed: u64,
    pub(crate) format: Format,
    /// A file for the report as HTML.
    pub(crate) output: Option<String>,
    wants_help: bool,
}

/// How the report is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// For a person at a terminal.
    #[default]
    Text,
    /// For a program.
    Json,
}

impl Default for CapacityOptions {
    fn default() -> Self {
        Self {
            target: None,
            pooler: None,
            server: None,
            is_host: false,
            cores: None,
            pooler_pid: None,
            slo: Slo::DEFAULT,
            statements: Vec::new(),
            file: None,
            clients: 100,
            minutes: 20.0,
            confirmations: 3,
            scaling: Vec::new(),
            predict: Vec::new(),
            idle: Vec::new(),
            is_attributed: false,
            is_hot_set: false,
            now: None,
            growth: None,
            forecast: None,
            soft: None,
            hard: None,
            may_write: false,
            production: None,
            is_kept: false,
            seed: 42,
            format: Format::default(),
            output: None,
            wants_help: false,
        }
    }
}

impl CapacityOptions {
    /// Parses the arguments after `trunkline capacity`.
    ///
    /// # Errors
    /// An argument is unknown, missing or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args))
            .map_err(|text| format!("trunkline capacity: {text}\nTry \"trunkline capacity --help\"."))
    }

    /// Whether to print [`USAGE`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }
}

fn read(mut parser: Parser) -> Result<CapacityOptions, String> {
    let mut options = CapacityOptions::default();
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => {
                return Ok(CapacityOptions { wants_help: true, ..CapacityOptions::default() });
            }
            Arg::Long("target") => options.target = Some(text(&mut parser)?),
            Arg::Long("pooler") => options.pooler = Some(text(&mut parser)?),
            Arg::Long("server") => options.server = Some(text(&mut parser)?),
            Arg::Long("host") => options.is_host = true,
            Arg::Long("cores") => options.cores = Some(number(&mut parser, "cores", 0.1, 1e5)?),
            Arg::Long("pooler-pid") => options.pooler_pid = Some(whole(&mut parser, "pooler-pid", 1, 1 << 22)?),
            Arg::Long("slo") => {
                let written = text(&mut parser)?;
                let wrong = || format!("--slo \"{written}\": such as \"p99 50ms\" is wanted");
                options.slo = Slo::parse(&written).ok_or_else(wrong)?;
            }
            Arg::Long("statement") => options.statements.push(text(&mut parser)?),
            Arg::Long("file") => options.file = Some(text(&mut parser)?),
            Arg::Long("clients") => options.clients = whole(&mut parser, "clients", 1, 20_000)?,
            Arg::Long("minutes") => options.minutes = number(&mut parser, "minutes", 0.05, 10_000.0)?,
            Arg::Long("quick") => (options.minutes, options.confirmations) = (QUICK_MINUTES, 1),
            Arg::Long("scaling") => options.scaling = numbers(&mut parser, "scaling", 1)?,
            Arg::Long("predict") => {
                options.predict = numbers(&mut parser, "predict", 1)?.into_iter().map(f64::from).collect();
            }
            Arg::Long("idle") => options.idle = numbers(&mut parser, "idle", 0)?,
            Arg::Long("tables") => options.is_attributed = true,
            Arg::Long("hot-set") => options.is_hot_set = true,
            Arg::Long("now") => options.now = Some(number(&mut parser, "now", 0.0, 1e12)?),
            Arg::Long("growth") => {
                let written = text(&mut parser)?;
                let wrong =
                    || format!("--growth \"{written}\": such as \"5%/month\" is wanted (day, week, month, year)");
                options.growth = Some(Growth::parse(&written).ok_or_else(wrong)?);
            }
            Arg::Long("forecast") => options.forecast = Some(text(&mut parser)?),
            Arg::Long("soft") => options.soft = Some(number(&mut parser, "soft", -1e15, 1e15)?),
            Arg::Long("hard") => options.hard = Some(number(&mut parser, "hard", -1e15, 1e15)?),
            Arg::Long("allow-writes") => options.may_write = true,
            Arg::Long("production") => options.production = Some(text(&mut parser)?),
            Arg::Long("keep") => options.is_kept = true,
            Arg::Long("seed") => options.seed = u64::from(whole(&mut parser, "seed", 0, u32::MAX)?),
            Arg::Long("format") => {
                options.format = match text(&mut parser)?.as_str() {
                    "text" => Format::Text,
                    "json" => Format::Json,
                    other => return Err(format!("--format \"{other}\": text or json is wanted")),
                }
            }
            Arg::Short('o') | Arg::Long("output") => options.output = Some(text(&mut parser)?),
            Arg::Long(name) => return Err(unknown(name, NAMES)),
            // It may be a connection string with a password.
            Arg::Value(_) => {
                return Err("an argument without its option; a connection string follows --target".to_owned());
            }
            other => return Err(said(other.unexpected())),
        }
    }
    check(&options)?;
    Ok(options)
}

fn check(options: &CapacityOptions) -> Result<(), String> {
    let wants = |is_given: bool, option: &str, other: &str, is_there: bool| match is_given && !is_there {
        true => Err(format!("{option} needs {other}")),
        false => Ok(()),
    };
    let has_target = options.target.is_some();
    if !has_target && options.forecast.is_none() {
        return Err("nothing to measure: give --target, or a history with --forecast".to_owned());
    }
    wants(options.forecast.is_some(), "--forecast", "--hard or a --target", options.hard.is_some() || has_target)?;
    wants(options.growth.is_some(), "--growth", "--now", options.now.is_some())?;
    wants(options.is_attributed, "--tables", "--server", options.server.is_some())?;
    wants(options.is_hot_set, "--hot-set", "--server", options.server.is_some())?;
    wants(options.production.is_some(), "--production", "--allow-writes", options.may_write)?;
    wants(options.is_kept, "--keep", "--allow-writes", options.may_write)?;
    wants(!options.predict.is_empty(), "--predict", "--scaling", !options.scaling.is_empty())?;
    if options.file.is_some() && !options.statements.is_empty() {
        return Err("--file and --statement exclude each other".to_owned());
    }
    Ok(())
}

fn number(parser: &mut Parser, name: &str, least: f64, most: f64) -> Result<f64, String> {
    let written = text(parser)?;
    let number = written.parse().ok().filter(|number: &f64| (least..=most).contains(number));
    number.ok_or_else(|| format!("--{name} \"{written}\": a number from {least} to {most} is wanted"))
}

fn whole(parser: &mut Parser, name: &str, least: u32, most: u32) -> Result<u32, String> {
    let written = text(parser)?;
    let number = written.parse().ok().filter(|number: &u32| (least..=most).contains(number));
    number.ok_or_else(|| format!("--{name} \"{written}\": a whole number from {least} to {most} is wanted"))
}

/// `1,2,4`.
fn numbers(parser: &mut Parser, name: &str, least: u32) -> Result<Vec<u32>, String> {
    let written = text(parser)?;
    let numbers: Option<Vec<u32>> = written.split(',').map(|part| part.trim().parse().ok()).collect();
    let numbers = numbers.filter(|list| list.len() <= NUMBERS_MAX && list.iter().all(|n| (least..=20_000).contains(n)));
    numbers.ok_or_else(|| format!("--{name} \"{written}\": numbers from {least} to 20000 are wanted, such as 1,2,4"))
}

const NAMES: [&str; 29] = [
    "target",
    "pooler",
    "server",
    "host",
    "cores",
    "pooler-pid",
    "slo",
    "statement",
    "file",
    "clients",
    "minutes",
    "quick",
    "scaling",
    "predict",
    "idle",
    "tables",
    "hot-set",
    "now",
    "growth",
    "forecast",
    "soft",
    "hard",
    "allow-writes",
    "production",
    "keep",
    "seed",
    "format",
    "output",
    "help",
];
const NUMBERS_MAX: usize = 50;
const QUICK_MINUTES: f64 = 2.0;

/// The output of `trunkline capacity --help`.
pub const USAGE: &str = "\
trunkline capacity measures how much load a pooler or a PostgreSQL carries within an objective: requests come when they come, whoever
waits, and are counted from that moment. It shows where the knee is, with an interval, what limits there and by which evidence, how
quickly an overload is over, and how long the rest lasts. It reads only, unless --allow-writes is given.

Usage:
  trunkline capacity --target CONNINFO [OPTION]...
  trunkline capacity --forecast FILE --hard VALUE [--soft VALUE]
  trunkline capacity --replay FILE --target CONNINFO [OPTION]...   (options of its own: trunkline capacity --replay FILE --help)

What is measured:
  --target CONNINFO        where the load goes: a pooler, or a server; without TLS. The password may be in PGPASSWORD or ~/.pgpass
  --slo \"p99 50ms\"         the objective: a percentile and a time (p99 100ms)
  --statement SQL          what a request asks for; several take turns (select 1). {1..1000} is a random whole number
  --file FILE              such statements, one in each line
  --clients N              the most client connections (100)
  --minutes N              about how long it may take (20): what a short run cannot tell, it says
  --quick                  two minutes, and one confirmation of each side of the knee instead of three
  --allow-writes           write: to a schema of our own, trunkline_capacity, which is removed at the end. Without --statement a row of
                           one of a thousand accounts is updated. Statements of your own may write where they like
  --production DATABASE    write although the database is in use, or has tables of others: its name is the word
  --keep                   leave the schema
  --seed N                 another seed of arrivals and random numbers (42)

What limits (each needs nothing of the others; what is missing is told as not evaluated):
  --pooler CONNINFO        the pooler's console, PgBouncer's or Trunkline's: servers at work, clients that wait, time with a server
  --server CONNINFO        the PostgreSQL server: what sessions wait for. A role with pg_monitor
  --host                   the server runs on this machine: its processors
  --cores N                the server's processors, where they cannot be looked at: estimated from sessions that run
  --pooler-pid PID         the pooler's process on this machine: its busiest thread
  --tables                 which share of the work each table has (pg_stat_statements, if it is there; shares of blocks are exact)
  --hot-set                what the buffers hold (pg_buffercache): one look, which is expensive with large buffers

What else:
  --scaling 1,2,4,8,16,32  a closed loop of so many clients each, and the Universal Scalability Law over it
  --predict N,N            ... and what it says of N clients, up to twice as many as were measured
  --idle 0,500,2000        throughput beside so many idle connections
  --now RATE               requests a second now: the headroom
  --growth 5%/month        ... and how long it lasts
  --forecast FILE          a history, time,NAME,NAME...: when does each reach a limit? A trend with a weekly season
  --soft VALUE             a limit to be warned of
  --hard VALUE             the limit (the knee, if one is measured)
  --format text|json       how to print the report (text)
  --output FILE.html       write the report with its plots as one HTML file, too
  -h, --help               show this help

Exit status: 0 a knee was found, or a forecast was made; 1 no load kept the objective, or a limit is reached already; 2 the command line
is wrong; 3 something cannot be read, reached or written; 4 ended by Ctrl-C, with what was known then; 5 nothing can be concluded: the
generator was the limit, or every load kept the objective.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<CapacityOptions, String> {
        CapacityOptions::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn options_are_read() {
        let options = parse(&[
            "--target",
            "host=a",
            "--slo",
            "p95 20ms",
            "--quick",
            "--scaling",
            "1,2,4",
            "--predict=8",
            "--now",
            "50",
            "--growth",
            "2%/week",
            "--statement",
            "select 1",
            "--statement",
            "select 2",
        ]);
        let options = options.expect("options");
        assert_eq!((options.slo.percentile, options.slo.seconds, options.minutes), (95.0, 0.02, 2.0));
        assert_eq!((options.scaling, options.predict, options.confirmations), (vec![1, 2, 4], vec![8.0], 1));
        assert_eq!((options.statements.len(), options.growth.map(|growth| growth.period)), (2, Some("week")));
        assert!(parse(&["-h"]).expect("help").wants_help() && parse(&["--forecast", "a.csv", "--hard", "9"]).is_ok());
    }

    #[test]
    fn a_mistake_is_told_and_no_connection_string_is_repeated() {
        for (words, part) in [
            (&[][..], "give --target"),
            (&["--target", "x", "--slo", "fast"], "such as \"p99 50ms\""),
            (&["--target", "x", "--minute", "4"], "did you mean --minutes?"),
            (&["--target", "x", "--growth", "5%"], "--growth needs --now"),
            (&["--target", "x", "--tables"], "--tables needs --server"),
            (&["--target", "x", "--production", "db"], "--production needs --allow-writes"),
            (&["--forecast", "a.csv"], "--forecast needs --hard or a --target"),
            (&["--target", "x", "--clients", "0"], "a whole number from 1"),
            (&["--target", "x", "--idle", "1,many"], "numbers from 0"),
            (&["--target", "x", "--predict", "9"], "--predict needs --scaling"),
            (&["--target", "x", "--file", "f", "--statement", "s"], "exclude each other"),
            (&["host=a password=geheim"], "follows --target"),
        ] {
            let told = parse(words).expect_err("wrong");
            assert!(told.contains(part) && told.contains("capacity --help") && !told.contains("geheim"), "{told}");
        }
    }
}
