//! The command line: PgBouncer's options, and those that Trunkline adds.
//!
//! Always true: an unknown argument is refused with a hint.
//! Not here: carrying it out.

use std::ffi::OsString;
use std::fmt::Write as _;

use config::Overrides;
use control::PGBOUNCER_VERSION;
use lexopt::{Arg, Parser, ValueExt};
use ops::demo::DemoOptions;
use ops::replay::ReplayOptions;
use top::{SwitchoverOptions, TopOptions};

/// What the command line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// Run the pooler.
    Serve(Serve),
    /// Validate a configuration.
    Check {
        /// The file.
        config: String,
        /// Whether to judge it as well.
        is_linted: bool,
    },
    /// Run the demo.
    Demo(DemoOptions),
    /// Show a console in the terminal.
    Top(TopOptions),
    /// Test what an application sees while servers fail. Its arguments are read when it runs, because a mistake among them
    /// has an exit status of its own.
    Hatest(Vec<OsString>),
    /// Judge configurations. As with `Hatest`, its arguments are read when it runs.
    Lint(Vec<OsString>),
    /// Simulate settings; as with [`Call::Hatest`].
    Simulate(Vec<OsString>),
    /// Judge what runs. As with `Hatest`, its arguments are read when it runs.
    Doctor(Vec<OsString>),
    /// Recommend sizes; as with [`Call::Hatest`].
    Advise(Vec<OsString>),
    /// Play a recording; as with [`Call::Hatest`].
    Replay(Vec<OsString>),
    /// Record what clients ask for; as with [`Call::Hatest`].
    Record(Vec<OsString>),
    /// Measure how much load is carried; as with [`Call::Hatest`].
    Capacity(Vec<OsString>),
    /// Switch a cluster over.
    Switchover(SwitchoverOptions),
    /// Print the version.
    Version,
    /// Print the usage.
    Help,
}

/// How to run the pooler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Serve {
    /// The configuration file.
    pub(crate) config: String,
    /// Options that override the file.
    pub(crate) overrides: Overrides,
    /// Whether and how the process leaves the terminal.
    pub(crate) mode: RunMode,
    /// Whether to take over from a running process (`-R`).
    pub(crate) is_reboot: bool,
}

/// Where the pooler runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunMode {
    /// Where it was started.
    Foreground,
    /// In the background: this process starts another one there.
    Background,
    /// In the background already: started by a [`RunMode::Background`] process, which waits for its report.
    Detached,
}

/// Parses the arguments, including the program's name.
///
/// # Errors
/// The text is for the person who typed the arguments.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Call, String> {
    let mut args = args.into_iter();
    let name = args.next().map_or_else(|| "trunkline".to_owned(), |name| name.to_string_lossy().into_owned());
    let args: Vec<OsString> = args.collect();
    if args.first().is_some_and(|first| first == "demo") {
        return DemoOptions::parse(args.into_iter().skip(1)).map(Call::Demo);
    }
    if args.first().is_some_and(|first| first == "top") {
        return TopOptions::parse(args.into_iter().skip(1)).map(Call::Top);
    }
    if args.first().is_some_and(|first| first == "hatest") {
        return Ok(Call::Hatest(args.into_iter().skip(1).collect()));
    }
    if args.first().is_some_and(|first| first == "lint") {
        return Ok(Call::Lint(args.into_iter().skip(1).collect()));
    }
    if args.first().is_some_and(|first| first == "simulate") {
        return Ok(Call::Simulate(args.into_iter().skip(1).collect()));
    }
    if args.first().is_some_and(|first| first == "doctor") {
        return Ok(Call::Doctor(args.into_iter().skip(1).collect()));
    }
    if args.first().is_some_and(|first| first == "advise") {
        return Ok(Call::Advise(args.into_iter().skip(1).collect()));
    }
    if args.first().is_some_and(|first| first == "capacity") && ReplayOptions::are_meant(&args) {
        return Ok(Call::Replay(args.into_iter().skip(1).collect()));
    }
    if args.first().is_some_and(|first| first == "record") {
        return Ok(Call::Record(args.into_iter().skip(1).collect()));
    }
    if args.first().is_some_and(|first| first == "capacity") {
        return Ok(Call::Capacity(args.into_iter().skip(1).collect()));
    }
    if args.first().is_some_and(|first| first == "switchover") {
        return SwitchoverOptions::parse(args.into_iter().skip(1)).map(Call::Switchover);
    }
    let hint = |text: String| format!("{name}: {text}\nTry \"{name} --help\" for more information.");
    words(Parser::from_args(args)).map_err(hint)
}

fn words(mut parser: Parser) -> Result<Call, String> {
    let mut overrides = Overrides::default();
    let mut mode = RunMode::Foreground;
    let (mut is_check, mut is_linted) = (false, false);
    let mut is_reboot = false;
    let mut files = Vec::new();
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Short('d') | Arg::Long("daemon") if mode == RunMode::Foreground => mode = RunMode::Background,
            Arg::Short('d') | Arg::Long("daemon") => {}
            Arg::Long(DETACHED) => mode = RunMode::Detached,
            Arg::Short('q') | Arg::Long("quiet") => overrides.quiet = true,
            Arg::Short('v') | Arg::Long("verbose") => overrides.verbose += 1,
            Arg::Short('u') | Arg::Long("user") => overrides.user = Some(text(&mut parser)?),
            Arg::Short('R') | Arg::Long("reboot") => is_reboot = true,
            Arg::Short('V') | Arg::Long("version") => return Ok(Call::Version),
            Arg::Short('h') | Arg::Long("help") => return Ok(Call::Help),
            Arg::Long("check") => is_check = true,
            Arg::Long("lint") => is_linted = true,
            Arg::Value(file) => files.push(file.string().map_err(said)?),
            other => return Err(said(other.unexpected())),
        }
    }
    let config = match <[String; 1]>::try_from(files) {
        Ok([file]) => file,
        Err(files) if files.is_empty() => return Err("no configuration file specified".to_owned()),
        Err(_) => return Err("no configuration file specified: exactly one was expected".to_owned()),
    };
    if is_linted && !is_check {
        return Err("--lint goes with --check; without a start: trunkline lint FILE".to_owned());
    }
    if is_check {
        Ok(Call::Check { config, is_linted })
    } else {
        Ok(Call::Serve(Serve { config, overrides, mode, is_reboot }))
    }
}

fn said(why: lexopt::Error) -> String {
    why.to_string()
}

fn text(parser: &mut Parser) -> Result<String, String> {
    parser.value().map_err(said)?.string().map_err(said)
}

/// The output of `--version`. Its first line is for scripts that expect PgBouncer.
pub(crate) fn version() -> String {
    let mut text = format!("PgBouncer {PGBOUNCER_VERSION}\ntrunkline {}\n", env!("CARGO_PKG_VERSION"));
    // Writing to a string cannot fail.
    let _ = match reactor::probe_uring() {
        Ok(()) => writeln!(text, "io: io_uring, epoll"),
        Err(why) => writeln!(text, "io: epoll (no io_uring here: {why})"),
    };
    text
}

/// The option that `-d` passes to the process that it starts.
pub(crate) const DETACHED: &str = "detached";

/// The output of `--help`.
pub(crate) const USAGE: &str = "\
trunkline is a connection pooler for PostgreSQL that takes the place of PgBouncer.

Usage:
  trunkline [OPTION]... CONFIG_FILE
  trunkline --check [--lint] CONFIG_FILE
  trunkline demo [OPTION]...
  trunkline top [OPTION]... [URL | CONNINFO | CONFIG_FILE]
  trunkline switchover [OPTION]... [URL | CONNINFO | CONFIG_FILE]
  trunkline hatest --path NAME=CONNINFO [OPTION]...
  trunkline lint [OPTION]... FILE...
  trunkline simulate [OPTION]... SPEC_FILE | --preset NAME
  trunkline doctor [--server CONNINFO] [--pooler CONNINFO] [--host] [OPTION]...
  trunkline advise [OPTION]... --metrics URL | --history FILE | --preset NAME | --from-simulation SPEC_FILE
  trunkline record --pooler CONNINFO --database NAME [OPTION]...
  trunkline capacity --replay FILE --target CONNINFO [--against CONNINFO] [OPTION]...
  trunkline capacity --target CONNINFO [OPTION]... | --forecast FILE --hard VALUE

Options:
  -d, --daemon           run in background (needs pidfile)
  -q, --quiet            write nothing to standard error
  -R, --reboot           do an online restart: take over from a running process
  -u, --user=USERNAME    become this system user
  -v, --verbose          log more; may be given twice
  -V, --version          show version, then exit
  -h, --help             show this help, then exit

Other things to do:
  --check CONFIG_FILE    tell all mistakes of a configuration; exit status 0 if there is none, else 1;
                         with --lint also what will break or cost time, as lint does
  demo                   show a crowd of clients at a throw-away PostgreSQL, without and with the pooler
                         (trunkline demo --help)
  top                    show the console of a running pooler in the terminal: pools, waits, applications, clients, ...
                         (trunkline top --help)
  switchover             make another member of a cluster its primary, while clients are held (trunkline switchover --help)
  hatest                 write and read while servers fail: how long nobody could write, and whether an acknowledged write
                         was lost or done twice; with any server, pooler or proxy (trunkline hatest --help)
  lint                   find what will break, or cost time, in configurations of poolers (trunkline lint --help)
  simulate               show what settings do to waits and connections of many tenants, on a virtual clock
                         (trunkline simulate --help)
  doctor                 find what is wrong with a PostgreSQL, its pooler and its machine while they run (trunkline doctor --help)
  advise                 recommend sizes of pools, with every bound that led to them (trunkline advise --help)
  record                 write down what the clients of a database ask for, to play it again (trunkline record --help)
  capacity --replay      play a recording at any speed, and compare answers and times of two targets
                         (trunkline capacity --replay FILE --help)
  capacity               measure how much load a pooler or a PostgreSQL carries within an objective, what limits it, and how long
                         the rest lasts (trunkline capacity --help)
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Call, String> {
        parse(["trunkline"].iter().chain(words).map(OsString::from))
    }

    fn serve(words: &[&str]) -> Serve {
        match parse_words(words) {
            Ok(Call::Serve(serve)) => serve,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_options_are_pgbouncers_short_and_long() {
        let plain = serve(&["a.ini"]);
        assert_eq!((plain.config.as_str(), plain.mode), ("a.ini", RunMode::Foreground));
        assert_eq!(plain.overrides, Overrides::default());
        assert!(!plain.is_reboot && serve(&["-R", "a.ini"]).is_reboot && serve(&["a.ini", "--reboot"]).is_reboot);
        for words in [
            &["-d", "-q", "-vv", "-u", "joe", "a.ini"][..],
            &["a.ini", "--daemon", "--quiet", "-v", "-v", "--user=joe"],
        ] {
            let serve = serve(words);
            let overrides = Overrides { user: Some("joe".to_owned()), verbose: 2, quiet: true };
            assert_eq!((serve.config.as_str(), serve.mode, serve.overrides), ("a.ini", RunMode::Background, overrides));
        }
    }

    #[test]
    fn one_file_is_wanted_no_more_and_no_less() {
        assert!(parse_words(&[]).expect_err("no file").starts_with("trunkline: no configuration file specified\nTry "));
        assert!(parse_words(&["a", "b"]).expect_err("two files").contains("no configuration file specified"));
        assert!(parse_words(&["--check"]).is_err());
        assert_eq!(parse_words(&["--check", "a"]), Ok(Call::Check { config: "a".to_owned(), is_linted: false }));
        let checked = Call::Check { config: "a".to_owned(), is_linted: true };
        assert_eq!(parse_words(&["--check", "--lint", "a"]), Ok(checked));
        assert!(parse_words(&["--lint", "a"]).expect_err("no check").contains("trunkline lint FILE"));
    }

    #[test]
    fn help_and_version_need_no_file() {
        assert_eq!(parse_words(&["-V"]), Ok(Call::Version));
        assert_eq!(parse_words(&["--version"]), Ok(Call::Version));
        assert_eq!(parse_words(&["-h", "a", "b"]), Ok(Call::Help));
        assert!(version().starts_with("PgBouncer 1.25.2\ntrunkline "));
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let unknown = parse_words(&["--nonsense", "a.ini"]).expect_err("unknown");
        assert!(unknown.contains("--nonsense") && unknown.contains("--help"), "{unknown}");
    }

    #[test]
    fn the_demo_has_its_own_options() {
        let options = DemoOptions { is_waiting: false, ..DemoOptions::default() };
        assert_eq!(parse_words(&["demo", "--no-wait"]), Ok(Call::Demo(options)));
        assert_eq!(serve(&["./demo"]).config, "./demo");
    }

    #[test]
    fn top_has_its_own_options_too() {
        assert!(matches!(parse_words(&["top", "-h", "db", "--once"]), Ok(Call::Top(_))));
        assert_eq!(serve(&["./top"]).config, "./top");
        assert!(parse_words(&["top", "--nonsense"]).expect_err("unknown").contains("trunkline top --help"));
    }

    #[test]
    fn hatest_reads_its_own_options() {
        let args = ["--path", "A=host=a"].map(OsString::from).to_vec();
        assert_eq!(parse_words(&["hatest", "--path", "A=host=a"]), Ok(Call::Hatest(args)));
        assert_eq!(serve(&["./hatest"]).config, "./hatest");
    }

    #[test]
    fn lint_reads_its_own_options() {
        let args = ["--replicas", "3", "a.ini"].map(OsString::from).to_vec();
        assert_eq!(parse_words(&["lint", "--replicas", "3", "a.ini"]), Ok(Call::Lint(args)));
        assert_eq!(serve(&["./lint"]).config, "./lint");
    }

    #[test]
    fn simulate_reads_its_own_options() {
        let args = ["--preset", "gitlab"].map(OsString::from).to_vec();
        assert_eq!(parse_words(&["simulate", "--preset", "gitlab"]), Ok(Call::Simulate(args)));
        assert_eq!(serve(&["./simulate"]).config, "./simulate");
    }

    #[test]
    fn doctor_reads_its_own_options() {
        let args = ["--host"].map(OsString::from).to_vec();
        assert_eq!(parse_words(&["doctor", "--host"]), Ok(Call::Doctor(args)));
        assert_eq!(serve(&["./doctor"]).config, "./doctor");
    }

    #[test]
    fn capacity_reads_its_own_options() {
        let args = ["--quick"].map(OsString::from).to_vec();
        assert_eq!(parse_words(&["capacity", "--quick"]), Ok(Call::Capacity(args)));
        assert_eq!(serve(&["./capacity"]).config, "./capacity");
    }

    #[test]
    fn the_one_that_was_put_into_the_background_knows_it() {
        assert_eq!(serve(&["-d", "a.ini", "--detached"]).mode, RunMode::Detached);
        assert_eq!(serve(&["--detached", "-d", "a.ini"]).mode, RunMode::Detached);
    }
}
