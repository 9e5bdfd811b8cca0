//! The options of `trunkline advise`.
//!
//! Always true: what is wrong on the command line is told before anything is read. An option that is not given is absent.
//! Not here: what the options lead to (`sizing`, `times`).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::Duration;

use lexopt::{Arg, Parser};

use super::terms::Terms;
use crate::arguments::{self, said, text};
use crate::simulate::SpecSource;

/// The options of `trunkline advise`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AdviseOptions {
    pub(super) sources: Vec<Source>,
    /// Values that replace those of the spec, by their paths.
    pub(super) values: Vec<(String, String)>,
    /// The configuration that is there now.
    pub(super) config: Option<String>,
    pub(super) terms: Terms,
    /// A connection string of the PostgreSQL server.
    pub(super) server: Option<String>,
    /// For how long a pooler is observed.
    pub(super) interval: Option<Duration>,
    pub(super) format: Format,
    /// A file for the advice as HTML.
    pub(super) output: Option<String>,
    /// Whether sizes around the recommended ones are tried, too.
    pub(super) is_checked: bool,
    wants_help: bool,
}

/// Where the demand comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Simulation(SpecSource),
    /// URLs or files of metrics, of the same pooler.
    Metrics(Vec<String>),
    /// A file.
    History(String),
    /// A connection string of a console.
    Console(String),
}

/// How the advice is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Format {
    /// For a person at a terminal.
    #[default]
    Text,
    /// For a program.
    Json,
    /// Values for a chart.
    Helm,
    /// What changes in the configuration.
    Diff,
}

/// An option that says what no measurement tells.
struct TermOption {
    name: &'static str,
    value: &'static str,
    doc: &'static str,
    set: fn(&mut Terms, &str) -> Option<()>,
}

impl AdviseOptions {
    /// Parses the arguments after `trunkline advise`.
    ///
    /// # Errors
    /// An argument is unknown, missing or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args))
            .map_err(|text| format!("trunkline advise: {text}\nTry \"trunkline advise --help\"."))
    }

    /// Whether to print [`usage`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }
}

fn read(mut parser: Parser) -> Result<AdviseOptions, String> {
    let mut options = AdviseOptions::default();
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => {
                return Ok(AdviseOptions { wants_help: true, ..AdviseOptions::default() });
            }
            Arg::Long("preset") => options.sources.push(Source::Simulation(SpecSource::Preset(text(&mut parser)?))),
            Arg::Long("from-simulation") => {
                options.sources.push(Source::Simulation(SpecSource::File(text(&mut parser)?)));
            }
            Arg::Long("metrics") => {
                let name = text(&mut parser)?;
                match options.sources.last_mut() {
                    Some(Source::Metrics(names)) => names.push(name),
                    _ => options.sources.push(Source::Metrics(vec![name])),
                }
            }
            Arg::Long("history") => options.sources.push(Source::History(text(&mut parser)?)),
            Arg::Long("pooler") => options.sources.push(Source::Console(text(&mut parser)?)),
            Arg::Long("server") => options.server = Some(text(&mut parser)?),
            Arg::Long("interval") => {
                let written = text(&mut parser)?;
                let seconds = positive(&written).filter(|seconds| (0.1..=86_400.0).contains(seconds));
                let wrong = || format!("--interval \"{written}\": 0.1 to 86400 seconds are wanted");
                options.interval = Some(Duration::from_secs_f64(seconds.ok_or_else(wrong)?));
            }
            Arg::Long("set") => {
                let written = text(&mut parser)?;
                let pair =
                    written.split_once('=').ok_or_else(|| format!("--set \"{written}\": PATH=VALUE is wanted"))?;
                options.values.push((pair.0.trim().to_owned(), pair.1.trim().to_owned()));
            }
            Arg::Long("config") => options.config = Some(text(&mut parser)?),
            Arg::Long("format") => {
                options.format = match text(&mut parser)?.as_str() {
                    "text" => Format::Text,
                    "json" => Format::Json,
                    "helm" => Format::Helm,
                    "diff" => Format::Diff,
                    other => return Err(format!("--format \"{other}\": text, json, helm or diff is wanted")),
                }
            }
            Arg::Short('o') | Arg::Long("output") => options.output = Some(text(&mut parser)?),
            Arg::Long("apply-check") => options.is_checked = true,
            Arg::Long("huge-pages") => options.terms.has_huge_pages = true,
            Arg::Long(name) => {
                let Some(option) = TERMS.iter().find(|option| option.name == name) else {
                    return Err(unknown(name));
                };
                let value = text(&mut parser)?;
                let wrong = || format!("--{} \"{value}\": {} is wanted", option.name, option.value);
                (option.set)(&mut options.terms, &value).ok_or_else(wrong)?;
            }
            other => return Err(said(other.unexpected())),
        }
    }
    let is_simulated = matches!(options.sources.first(), None | Some(Source::Simulation(_)));
    if options.is_checked && !is_simulated {
        return Err("--apply-check needs a simulation".to_owned());
    }
    if options.format == Format::Diff && options.config.is_none() {
        return Err("--format diff needs --config FILE".to_owned());
    }
    match options.sources.len() {
        0 if options.config.is_none() => Err(format!("a source of demand is wanted: {SOURCES}")),
        0 | 1 => Ok(options),
        _ => Err(format!("one source of demand is wanted: {SOURCES}")),
    }
}

const SOURCES: &str = "--metrics URL, --pooler CONNINFO, --history FILE, --from-simulation FILE or --preset NAME";

fn unknown(name: &str) -> String {
    let others = [
        "metrics",
        "pooler",
        "history",
        "server",
        "interval",
        "preset",
        "from-simulation",
        "set",
        "config",
        "format",
        "output",
        "huge-pages",
        "apply-check",
        "help",
    ];
    let names = TERMS.iter().map(|option| option.name).chain(others);
    arguments::unknown(name, names)
}

/// A number that is not negative, and not beyond all sense.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| (0.0..=1e12).contains(number))
}

/// A number above 0.
fn positive(text: &str) -> Option<f64> {
    number(text).filter(|number| *number > 0.0)
}

/// `24GB`, `512 MB`, as PostgreSQL writes sizes. Bytes.
fn size(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let factor = match text[digits..].trim() {
        "kB" => 10,
        "MB" => 20,
        "GB" => 30,
        "TB" => 40,
        _ => return None,
    };
    positive(text[..digits].trim()).map(|number| number * f64::from(factor).exp2())
}

/// A share between 0 and 1, as such or in percent.
fn share(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => positive(percent.trim()).map(|percent| percent / 100.0),
        None => positive(text),
    }
    .filter(|share| *share <= 1.0)
}

fn pair(text: &str) -> Option<(f64, f64)> {
    let (first, second) = text.split_once(',')?;
    Some((number(first.trim())?, number(second.trim())?))
}

macro_rules! terms {
    ($($name:literal $value:literal $field:ident $parse:expr, $doc:literal;)*) => {
        &[$(TermOption {
            name: $name,
            value: $value,
            doc: $doc,
            set: |terms, text| {
                terms.$field = Some($parse(text)?);
                Some(())
            },
        },)*]
    };
}

const TERMS: &[TermOption] = terms! {
    "slo" "MS" slo (|text| positive(text).map(|ms| ms / 1e3)), "the 99th percentile of responses that applications expect, in ms";
    "wait-share" "SHARE" wait_share share, "what part of it waiting for a server may take (25%)";
    "growth" "PERCENT" growth (|text: &str| number(text.trim_end_matches('%')).map(|percent| percent / 100.0)), "how much more traffic there will be (0)";
    "replicas" "COUNT" replicas positive, "processes of the pooler, which share the server (1)";
    "cores" "COUNT" cores positive, "processors of the PostgreSQL server";
    "computing" "SHARE" computing share, "of the time with a server, the part that is computing (of a simulation: cpu_share)";
    "scalability" "ALPHA,BETA" scalability pair, "contention and coherence of the Universal Scalability Law, if they were fitted";
    "ram" "SIZE" ram size, "memory of the PostgreSQL server, such as 64GB";
    "shared-buffers" "SIZE" shared_buffers size, "shared_buffers";
    "work-mem" "SIZE" work_mem size, "work_mem, of which each backend is expected to use one (4MB)";
    "backend-memory" "SIZE" backend_memory size, "a backend's own memory without page tables and work_mem (5MB)";
    "max-connections" "COUNT" max_connections number, "max_connections of PostgreSQL";
    "reserved" "COUNT" reserved number, "connections that PostgreSQL reserves (3)";
    "direct" "COUNT" direct number, "connections that bypass the poolers (0)";
    "client-pools" "COUNT" client_pools number, "connections that the client pools of all application processes may have together";
    "client-timeout" "SECONDS" client_timeout positive, "how long applications wait for an answer";
    "failover-budget" "SECONDS" failover_budget positive, "how long a failover may take";
    "open-files" "COUNT" open_files number, "open files that the pooler may have";
    "login-rate" "COUNT" login_rate positive, "logins a second that the PostgreSQL server can do";
    "idle-limit" "SECONDS" idle_limit positive, "after which time a NAT, a firewall or the server closes an idle connection";
    "threads" "THREADS,CONNECTIONS" threads pair, "threads of an application, and connections that each needs at once";
    "evictions-max" "COUNT" evictions_max positive, "servers closed for other pools that are harmless, each minute and pool (1)";
};

/// The output of `trunkline advise --help`.
#[must_use]
pub fn usage() -> String {
    let mut page = USAGE_HEAD.to_owned();
    for option in TERMS {
        let head = format!("--{} {}", option.name, option.value);
        // Writing to a string cannot fail.
        let _ = writeln!(page, "  {head:<31}{}", option.doc);
    }
    page + USAGE_FOOT
}

const USAGE_HEAD: &str = "\
trunkline advise recommends sizes for pools, and shows all that led to them: every floor (a need) and every ceiling (a harm), each
with its value, the measurement that it comes from and its formula. It says \"no size works\" if a need is above a harm.

Usage:
  trunkline advise [OPTION]... --metrics URL
  trunkline advise [OPTION]... --pooler CONNINFO
  trunkline advise [OPTION]... --history FILE
  trunkline advise [OPTION]... --from-simulation SPEC_FILE
  trunkline advise [OPTION]... --preset NAME
  trunkline advise [OPTION]... --config FILE

Where the demand comes from:
  --metrics URL|FILE             a Trunkline's /metrics: a URL is asked again and again; a file has scrapes, each behind a line \"# SECONDS\";
                                 files without such a line are scrapes of the time at which they were written
  --pooler CONNINFO              a console, PgBouncer's or Trunkline's: SHOW STATS and SHOW POOLS, 20 times a second (approximate)
  --history FILE                 a history of such a console, as psql prints it, each reading behind a line \"# SECONDS\" (approximate)
  --interval SECONDS             for how long a pooler is observed (60)
  --from-simulation FILE         a spec of trunkline simulate, which is simulated without limits
  --preset NAME                  a spec that is built in (trunkline simulate --presets lists all)
  --set PATH=VALUE               replace a value of the spec

Options:
  --config FILE                  the pooler's configuration now, Trunkline's or PgBouncer's: its totals, and what would change in it
  --server CONNINFO              PostgreSQL: its max_connections, reserved connections, shared_buffers, work_mem and huge pages
  --format FORMAT                text, json, helm (values for a chart) or diff (of --config FILE) (text)
  -o, --output FILE              write the advice as one HTML file, too
  --apply-check                  of a simulation: try sizes around the recommended ones, too, each in five runs, and show what is
                                 lost by not having the best of them
  -h, --help                     show this help

What no measurement tells. A candidate without its input is shown as not known:
  --huge-pages                   the server uses huge pages, so that backends have no page tables of their own
";
const USAGE_FOOT: &str = "
Exit status: 0 there is a recommendation; 1 no size works; 2 the command line or the spec is wrong; 3 a file cannot be read or
written; 4 ended by Ctrl-C; 5 too little was observed to conclude anything.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<AdviseOptions, String> {
        AdviseOptions::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn options_are_read() {
        let options = parse(&["--preset", "gitlab", "--slo=250", "--ram", "64GB", "--huge-pages", "--growth", "30%"]);
        let options = options.expect("options");
        assert_eq!(options.sources, [Source::Simulation(SpecSource::Preset("gitlab".to_owned()))]);
        let terms = options.terms;
        assert_eq!((terms.slo, terms.growth, terms.ram), (Some(0.25), Some(0.3), Some(64.0 * 1024.0_f64.powi(3))));
        assert!(terms.has_huge_pages && terms.cores.is_none());
        assert!(parse(&["-h"]).expect("help").wants_help());
        assert!(parse(&["--config", "a.ini"]).is_ok());
        let two = parse(&["--metrics", "a", "--metrics", "b"]).expect("options").sources;
        assert_eq!(two, [Source::Metrics(["a", "b"].map(str::to_owned).to_vec())]);
    }

    #[test]
    fn a_mistake_is_told_with_the_nearest_name() {
        for (words, part) in [
            (&["--preset", "a", "--preset", "b"][..], "one source"),
            (&[], "a source of demand"),
            (&["--preset", "a", "--core", "4"], "did you mean --cores?"),
            (&["--preset", "a", "--cores", "none"], "COUNT is wanted"),
            (&["--preset", "a", "--ram", "64"], "SIZE is wanted"),
            (&["--preset", "a", "--wait-share", "2"], "SHARE is wanted"),
            (&["--preset", "a", "--format", "pdf"], "is wanted"),
            (&["--preset", "a", "--set", "b"], "PATH=VALUE"),
            (&["--preset", "a", "--format", "diff"], "--config FILE"),
            (&["--history", "a", "--apply-check"], "needs a simulation"),
            (&["--metrics", "a", "--interval", "0"], "0.1 to 86400"),
        ] {
            let why = parse(words).expect_err("a mistake");
            assert!(why.contains(part) && why.contains("advise --help"), "{why}");
        }
    }

    #[test]
    fn the_usage_has_every_option() {
        let usage = usage();
        assert!(TERMS.iter().all(|option| usage.contains(option.name)));
        assert!(usage.lines().all(|line| line.chars().count() <= 150), "{usage}");
    }
}
