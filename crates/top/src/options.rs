//! The options of `trunkline top`.
//!
//! Always true: no option is for a password, and no error message repeats a word that may be one. A password in a URL
//! can be read by everybody who lists processes, as with psql.
//! Not here: what follows for the connection (`target`).

use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::view::VIEWS;

/// The options of `trunkline top`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TopOptions {
    /// The console.
    pub(crate) target: Target,
    /// `-h`: a host, or the directory of a unix socket.
    pub(crate) host: Option<String>,
    /// `-p`.
    pub(crate) port: Option<u16>,
    /// `-U`.
    pub(crate) user: Option<String>,
    /// The database of the console, if it is not `pgbouncer`.
    pub(crate) database: Option<String>,
    /// The time between two rounds of questions.
    pub(crate) interval: Option<Duration>,
    /// Whether to print one picture as text and end.
    pub(crate) is_once: bool,
    /// The first view, by its index in `VIEWS`.
    pub(crate) view: usize,
    /// The column to sort by.
    pub(crate) sort: Option<String>,
    /// Whether to reverse the order of rows.
    pub(crate) is_reversed: bool,
    /// The text that rows must contain.
    pub(crate) filter: String,
    /// Whether to print [`USAGE`] only.
    pub(crate) wants_help: bool,
}

/// The console, as given by the argument without a dash.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Target {
    /// There is no such argument.
    #[default]
    Default,
    /// `postgres://...`, or `host=... port=...`.
    Address(String),
    /// The configuration file of a pooler, which says where it listens.
    ConfigFile(String),
}

/// An argument that says whose console is meant.
pub(crate) enum ConnectionArg {
    Host,
    Port,
    User,
    Database,
    Word(OsString),
}

impl ConnectionArg {
    /// Reads an argument.
    ///
    /// # Errors
    /// It is no such argument.
    pub(crate) fn of(arg: Arg<'_>) -> Result<Self, String> {
        Ok(match arg {
            Arg::Short('h') | Arg::Long("host") => Self::Host,
            Arg::Short('p') | Arg::Long("port") => Self::Port,
            Arg::Short('U') | Arg::Long("username" | "user") => Self::User,
            Arg::Short('d') | Arg::Long("dbname") => Self::Database,
            Arg::Value(word) => Self::Word(word),
            other => return Err(said(other.unexpected())),
        })
    }
}

impl TopOptions {
    /// Parses the arguments after `trunkline top`.
    ///
    /// # Errors
    /// An argument is unknown or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args)).map_err(|text| format!("trunkline top: {text}\nTry \"trunkline top --help\"."))
    }

    /// Takes an argument that says whose console is meant.
    ///
    /// # Errors
    /// Its value is missing or out of range.
    pub(crate) fn take(&mut self, arg: ConnectionArg, parser: &mut Parser) -> Result<(), String> {
        match arg {
            ConnectionArg::Host => self.host = Some(text(parser)?),
            ConnectionArg::Port => self.port = Some(port(&text(parser)?)?),
            ConnectionArg::User => self.user = Some(text(parser)?),
            ConnectionArg::Database => self.database = Some(text(parser)?),
            ConnectionArg::Word(word) if self.target == Target::Default => {
                self.target = target(word.string().map_err(said)?);
            }
            // The second word may be part of a connection string, and a password.
            ConnectionArg::Word(_) => {
                return Err("one console at a time; put quotes around what has blanks in it".to_owned());
            }
        }
        Ok(())
    }

    /// The configuration file that has to be read to find out where the pooler listens.
    #[must_use]
    pub fn config_file(&self) -> Option<&str> {
        match &self.target {
            Target::ConfigFile(path) => Some(path),
            Target::Default | Target::Address(_) => None,
        }
    }

    /// Whether to print [`USAGE`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }
}

fn read(mut parser: Parser) -> Result<TopOptions, String> {
    let mut options = TopOptions::default();
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Short('i') | Arg::Long("interval") => options.interval = Some(interval(&text(&mut parser)?)?),
            Arg::Long("once") => options.is_once = true,
            Arg::Long("view") => options.view = view(&text(&mut parser)?)?,
            Arg::Long("sort") => options.sort = Some(text(&mut parser)?),
            Arg::Long("reverse") => options.is_reversed = true,
            Arg::Long("filter") => options.filter = text(&mut parser)?,
            Arg::Short('?') | Arg::Long("help") => options.wants_help = true,
            arg => {
                let arg = ConnectionArg::of(arg)?;
                options.take(arg, &mut parser)?;
            }
        }
    }
    Ok(options)
}

pub(crate) fn said(why: lexopt::Error) -> String {
    why.to_string()
}

fn text(parser: &mut Parser) -> Result<String, String> {
    parser.value().map_err(said)?.string().map_err(said)
}

fn target(word: String) -> Target {
    if word.contains("://") || word.contains('=') { Target::Address(word) } else { Target::ConfigFile(word) }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| "-p takes a port from 1 to 65535".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let in_range = seconds.filter(|interval| (INTERVAL_MIN..=INTERVAL_MAX).contains(interval));
    in_range.ok_or_else(|| "--interval takes seconds from 0.1 to 3600".to_owned())
}

fn view(name: &str) -> Result<usize, String> {
    let found = VIEWS.iter().position(|view| view.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
        format!("there is no view {name:?}; the views are {}", names.join(", "))
    })
}

/// The shortest time between two rounds of questions.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The longest.
pub(crate) const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// The default.
pub(crate) const INTERVAL_DEFAULT: Duration = Duration::from_secs(2);

/// The output of `trunkline top --help`.
pub const USAGE: &str = "\
Usage: trunkline top [OPTION]... [URL | CONNINFO | CONFIG_FILE]

The console of Trunkline or PgBouncer in a terminal: pools, waits, applications, clients, servers, and what is wrong.
It only looks: the user has to be one of admin_users or stats_users.

Whose console:
  postgres://user@host:6432/pgbouncer     a URL as libpq takes it
  \"host=... port=... user=...\"            the same in libpq's other form
  /etc/trunkline/trunkline.ini            the configuration of a pooler on this machine, which says where it listens
  -h, --host HOST       a host, or the directory of a unix socket (default: PGHOST, or else the socket in
                        /var/run/postgresql or /tmp)
  -p, --port PORT       (default: PGPORT, or else 6432)
  -U, --username USER   (default: PGUSER, or else the user of the system)
  -d, --dbname NAME     the database of the console (default: pgbouncer)

A password comes from PGPASSWORD, from ~/.pgpass (or PGPASSFILE), or from the URL (which whoever lists processes can read). sslmode and sslrootcert
of the address, or PGSSLMODE and PGSSLROOTCERT, say whether and how the connection is secured, as in libpq.

What is shown:
  -i, --interval S      seconds between two looks (default: 2)
      --once            print one picture as text, of all rows and columns, and exit
      --view NAME       begin with this view: pools, waits, applications, statements, clients, servers, churn,
                        databases or stats (default: pools)
      --sort COLUMN     order the rows by this column, the largest first
      --reverse         the other way round
      --filter TEXT     show only rows that contain this text
  -?, --help            show this

Keys:
  1-9, Tab, Shift-Tab   choose a view          /            filter; Esc takes it away
  arrows, PgUp, PgDn    move about             Enter        the whole row
  s S or > <            sort by another column space        pause
  r                     turn the order round   + -          look less or more often
  ?                     help                   q            quit

Figures per second and per transaction are those between two looks; at the first look they are the console's own
averages (stats_period) in pools and stats, and empty or since the start elsewhere. NO_COLOR in the environment takes the colours away.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<TopOptions, String> {
        TopOptions::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn the_options_are_those_of_psql_and_some_more() {
        let options =
            parse(&["-h", "db1", "-p", "6433", "-U", "stats", "-d", "console", "-i", "0.5"]).expect("options");
        assert_eq!((options.host.as_deref(), options.port), (Some("db1"), Some(6433)));
        assert_eq!((options.user.as_deref(), options.database.as_deref()), (Some("stats"), Some("console")));
        assert_eq!(options.interval, Some(Duration::from_millis(500)));
        let options =
            parse(&["--once", "--view=waits", "--sort", "for", "--reverse", "--filter", "app"]).expect("options");
        assert_eq!((VIEWS[options.view].name, options.is_once, options.is_reversed), ("waits", true, true));
        assert_eq!((options.sort.as_deref(), options.filter.as_str()), (Some("for"), "app"));
    }

    #[test]
    fn a_word_is_an_address_or_a_file() {
        let target = |word: &str| parse(&[word]).expect("options").target;
        assert_eq!(target("postgres://h/pgbouncer"), Target::Address("postgres://h/pgbouncer".into()));
        assert_eq!(target("host=h port=1"), Target::Address("host=h port=1".into()));
        assert_eq!(target("/etc/a.ini"), Target::ConfigFile("/etc/a.ini".into()));
        let refused = parse(&["host=h", "password=secret"]).expect_err("two");
        assert!(refused.contains("one console at a time") && !refused.contains("secret"), "{refused}");
        assert_eq!(
            target("Postgres://u:p@h"),
            Target::Address("Postgres://u:p@h".into()),
            "not a file whose name is told"
        );
    }

    #[test]
    fn a_mistake_is_named_and_help_is_hinted_at() {
        for (args, wanted) in [
            (&["--fast"][..], "--fast"),
            (&["-p", "0"], "-p takes a port"),
            (&["--interval", "0.01"], "--interval takes seconds"),
            (&["--interval", "nan"], "--interval takes seconds"),
            (&["--view", "pool"], "the views are pools, waits"),
            (&["-h"], "-h"),
        ] {
            let text = parse(args).expect_err("a mistake");
            assert!(text.contains(wanted) && text.contains("trunkline top --help"), "{text}");
        }
    }

    #[test]
    fn help_lists_every_view() {
        assert!(parse(&["--help"]).expect("options").wants_help());
        VIEWS.iter().for_each(|view| assert!(USAGE.contains(view.name), "{}", view.name));
    }
}
