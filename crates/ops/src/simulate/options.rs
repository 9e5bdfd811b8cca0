//! The options of `trunkline simulate`.
//!
//! Always true: what is wrong on the command line is told before anything runs.
//! Not here: what is wrong in a spec (`spec`).

use std::ffi::OsString;

use lexopt::{Arg, Parser, ValueExt};

use super::real::TargetKind;
use super::sweep::Sweep;
use crate::arguments::{said, text};

/// The options of `trunkline simulate`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SimulateOptions {
    /// Where the spec comes from.
    pub(crate) source: Option<SpecSource>,
    /// Values that replace those of the spec, by their paths.
    pub(crate) values: Vec<(String, String)>,
    pub(crate) sweeps: Vec<Sweep>,
    pub(crate) format: Format,
    /// A file for the report as HTML.
    pub(crate) output: Option<String>,
    /// 0 is as many as there are processors.
    pub(crate) threads: usize,
    /// Whether to print the spec only.
    pub(crate) is_print_spec: bool,
    /// Whether to check the spec only.
    pub(crate) is_check: bool,
    /// Whether to run it against real servers and poolers.
    pub(crate) is_real: bool,
    pub(crate) targets: Vec<TargetKind>,
    /// The connection string of a server to be used instead of one that is made.
    pub(crate) server: Option<String>,
    pub(crate) allows_writes: bool,
    /// Whether to keep what was made.
    pub(crate) keeps: bool,
    pub(crate) lists_presets: bool,
    pub(crate) wants_help: bool,
}

/// Where a spec comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SpecSource {
    File(String),
    Preset(String),
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

impl SimulateOptions {
    /// Parses the arguments after `trunkline simulate`.
    ///
    /// # Errors
    /// An argument is unknown, missing or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args))
            .map_err(|text| format!("trunkline simulate: {text}\nTry \"trunkline simulate --help\"."))
    }

    /// Whether to print [`USAGE`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }
}

fn read(mut parser: Parser) -> Result<SimulateOptions, String> {
    let mut options = SimulateOptions::default();
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Long("preset") => options.take(SpecSource::Preset(text(&mut parser)?))?,
            Arg::Value(file) => options.take(SpecSource::File(file.string().map_err(said)?))?,
            Arg::Long("set") => {
                let written = text(&mut parser)?;
                let pair =
                    written.split_once('=').ok_or_else(|| format!("--set \"{written}\": PATH=VALUE is wanted"))?;
                options.values.push((pair.0.trim().to_owned(), pair.1.trim().to_owned()));
            }
            Arg::Long("sweep") => options.sweeps.push(Sweep::parse(&text(&mut parser)?)?),
            Arg::Long(name @ ("seed" | "replications" | "duration")) => {
                let name = name.to_owned();
                options.values.push((name, text(&mut parser)?));
            }
            Arg::Long("format") => {
                options.format = match text(&mut parser)?.as_str() {
                    "text" => Format::Text,
                    "json" => Format::Json,
                    other => return Err(format!("--format \"{other}\": text or json is wanted")),
                }
            }
            Arg::Long("output") => options.output = Some(text(&mut parser)?),
            Arg::Long("threads") => {
                let written = text(&mut parser)?;
                let threads = written.parse().ok().filter(|threads| (1..=1024).contains(threads));
                options.threads = threads.ok_or_else(|| format!("--threads \"{written}\": 1 to 1024 is wanted"))?;
            }
            Arg::Long("real") => options.is_real = true,
            Arg::Long("target") => options.targets.push(TargetKind::read(&text(&mut parser)?)?),
            Arg::Long("server") => options.server = Some(text(&mut parser)?),
            Arg::Long("allow-writes") => options.allows_writes = true,
            Arg::Long("keep") => options.keeps = true,
            Arg::Long("print-spec" | "explain") => options.is_print_spec = true,
            Arg::Long("check") => options.is_check = true,
            Arg::Long("presets") => options.lists_presets = true,
            Arg::Short('h') | Arg::Long("help") => options.wants_help = true,
            other => return Err(said(other.unexpected())),
        }
    }
    if options.source.is_none() && !options.wants_help && !options.lists_presets {
        return Err("a file with a spec is wanted, or --preset NAME".to_owned());
    }
    let is_for_real = !options.targets.is_empty() || options.server.is_some() || options.allows_writes || options.keeps;
    if is_for_real && !options.is_real {
        return Err("--target, --server, --allow-writes and --keep are for --real".to_owned());
    }
    if options.server.is_some() && !options.allows_writes {
        return Err(SERVER_NEEDS_A_WORD.to_owned());
    }
    if options.sweeps.iter().map(|sweep| sweep.values.len()).product::<usize>() > SETTINGS_MAX {
        return Err(format!("--sweep: at most {SETTINGS_MAX} settings are simulated"));
    }
    Ok(options)
}

impl SimulateOptions {
    fn take(&mut self, source: SpecSource) -> Result<(), String> {
        match self.source.replace(source) {
            None => Ok(()),
            Some(_) => Err("one spec is wanted, or one preset".to_owned()),
        }
    }
}

/// Each keeps its histograms, some hundred kilobytes.
const SETTINGS_MAX: usize = 2_000;

/// The output of `trunkline simulate --help`.
pub const USAGE: &str = "\
trunkline simulate shows what a pooler's settings do to the transactions of many tenants: how long they wait, how many servers
are opened and closed, and why. It runs the pooler's own pools on a virtual clock: nothing is connected to anything, and a
million transactions take about a second. It needs no pooler and no PostgreSQL, and its settings have PgBouncer's names.
With --real the same spec is run against real servers and poolers instead.

Usage:
  trunkline simulate [OPTION]... SPEC_FILE
  trunkline simulate [OPTION]... --preset NAME
  trunkline simulate --presets

Options:
  --preset NAME          a spec that is built in; \"mattermost\" and \"cern\" tell a whole story (--presets lists all)
  --print-spec           print the spec, with comments, to be edited; simulate nothing
  --check                check the spec; simulate nothing
  --set PATH=VALUE       replace a value of the spec: --set max_db_connections=50, --set databases.0.tenants.0.count=20
  --sweep PATH=VALUES    simulate several values: FROM..TO, FROM..TO:STEP or VALUE,VALUE,...; conns_per_tenant=0.5..4 sets
                         max_db_connections to so many times the number of tenants. Several sweeps are combined
  --seed N               another seed; the same seed gives the same numbers
  --replications N       how many runs, each with a seed of its own; with several, figures have intervals
  --duration TIME        how long to simulate, such as \"10 min\"
  --threads N            how many runs at once (all processors)
  --format text|json     how to print the report (text)
  --output FILE.html     write the report with its plots as one HTML file, too
  -h, --help             show this help

For real, in real time, with real transactions that insert rows, which are checked one by one at the end:
  --real                 run the spec against PostgreSQL, which is made for the run, and poolers in front of it
  --target TARGET        direct, trunkline (this program), trunkline=PROGRAM, pgbouncer (with settings made of the spec),
                         pgbouncer=FILE.ini (with those of a file), odyssey or odyssey=PROGRAM (with settings made of the
                         spec). Several are run by turns (trunkline)
  --server CONNINFO      use this server instead; databases and roles are made in it, and removed at the end
  --allow-writes         with --server: that is meant
  --keep                 keep what was made: in a server that is yours for good, else until Ctrl-C

Exit status: 0 done; 1 the books of a run do not balance, which is a mistake of the simulation, or of the pooler or the server;
2 the command line or the spec is wrong; 3 a file cannot be read or written, or a server or a pooler does not start; 4 ended by
Ctrl-C, with what was known then; 5 a real run is void, because the generator of the load was not good enough.
";

/// Nobody is to find new databases in a server that he only wanted to name.
const SERVER_NEEDS_A_WORD: &str = "--server: databases and roles would be made in this server; --allow-writes says that they may be \
                                   (without --server a server is made for the run)";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<SimulateOptions, String> {
        SimulateOptions::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn options_are_read() {
        let options =
            parse(&["--preset", "gitlab", "--set", "a.b=c=d", "--sweep=n=1,2", "--format", "json", "--seed", "7"]);
        let options = options.expect("options");
        assert_eq!(options.source, Some(SpecSource::Preset("gitlab".to_owned())));
        let values = [("a.b", "c=d"), ("seed", "7")].map(|(path, value)| (path.to_owned(), value.to_owned()));
        assert_eq!((options.values, options.format), (values.to_vec(), Format::Json));
        assert!(parse(&["--help"]).expect("help").wants_help() && parse(&["--presets"]).is_ok());
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (words, text) in [
            (&["a", "b"][..], "one spec is wanted"),
            (&[], "--preset NAME"),
            (&["a", "--set", "b"], "PATH=VALUE"),
            (&["a", "--format", "xml"], "text or json"),
            (&["a", "--nonsense"], "--nonsense"),
            (&["a", "--threads", "0"], "1 to 1024"),
            (&["a", "--target", "direct"], "are for --real"),
            (&["a", "--real", "--target", "pgpool"], "pgbouncer[=FILE.ini] or odyssey[=PROGRAM] is wanted"),
            (&["a", "--real", "--server", "host=db password=hunter2"], "--allow-writes says that they may be"),
            (&["a", "--sweep", "a=1..200:1", "--sweep", "b=1..200:1"], "at most 2000 settings"),
        ] {
            let told = parse(words).expect_err("wrong");
            assert!(told.contains(text) && told.contains("simulate --help"), "{told}");
        }
    }
}
