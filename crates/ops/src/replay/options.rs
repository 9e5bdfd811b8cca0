//! The options of `trunkline capacity --replay`.
//!
//! Always true: no text repeats a connection string.
//! Not here: reading connection strings (`connection`).

use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, Parser};

use crate::arguments::{said, text, unknown};

/// The options of `trunkline capacity --replay`.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayOptions {
    /// The recording.
    pub(super) file: String,
    /// Connection strings of what is played against: one target, or two that are compared.
    pub(super) targets: Vec<String>,
    /// How many times as fast as it was recorded.
    pub(super) speed: f64,
    /// How often each target is played against.
    pub(super) rounds: usize,
    pub(super) seed: u64,
    /// Whether statements may change something.
    pub(super) may_write: bool,
    /// How long a request is waited for.
    pub(super) patience: Duration,
    pub(super) is_json: bool,
    /// Where to; standard output if absent.
    pub(super) output: Option<String>,
    wants_help: bool,
}

impl ReplayOptions {
    /// Whether these arguments after `trunkline capacity` ask for a replay.
    #[must_use]
    pub fn are_meant(args: &[OsString]) -> bool {
        args.iter().any(|arg| arg.to_str().is_some_and(|arg| arg == "--replay" || arg.starts_with("--replay=")))
    }

    /// Parses the arguments after `trunkline capacity`.
    ///
    /// # Errors
    /// An argument is unknown, missing or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        read(Parser::from_args(args))
            .map_err(|text| format!("trunkline capacity: {text}\nTry \"trunkline capacity --replay FILE --help\"."))
    }

    /// Whether to print [`USAGE`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.wants_help
    }
}

fn read(mut parser: Parser) -> Result<ReplayOptions, String> {
    let (mut file, mut target, mut against, mut rounds) = (None, None, None, None);
    let mut options = ReplayOptions {
        file: String::new(),
        targets: Vec::new(),
        speed: 1.0,
        rounds: 1,
        seed: 1,
        may_write: false,
        patience: Duration::from_secs(30),
        is_json: false,
        output: None,
        wants_help: false,
    };
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(ReplayOptions { wants_help: true, ..options }),
            Arg::Long("replay") => file = Some(text(&mut parser)?),
            Arg::Long("target") => target = Some(text(&mut parser)?),
            Arg::Long("against") => against = Some(text(&mut parser)?),
            Arg::Long("speed") => options.speed = number(&mut parser, "speed", 0.01, 1000.0)?,
            Arg::Long("rounds") => rounds = Some(number(&mut parser, "rounds", 1.0, 100.0)? as usize),
            Arg::Long("seed") => options.seed = number(&mut parser, "seed", 0.0, 1e15)? as u64,
            Arg::Long("timeout") => {
                options.patience = Duration::from_secs_f64(number(&mut parser, "timeout", 0.1, 3600.0)?);
            }
            Arg::Long("allow-writes") => options.may_write = true,
            Arg::Long("json") => options.is_json = true,
            Arg::Short('o') | Arg::Long("output") => options.output = Some(text(&mut parser)?),
            Arg::Long(name) => return Err(unknown(name, NAMES)),
            other => return Err(said(other.unexpected())),
        }
    }
    options.file = file.ok_or("--replay is missing: a file that trunkline record has written")?;
    options.targets =
        std::iter::once(target.ok_or("--target is missing: a connection string")?).chain(against).collect();
    // A statement whose answer differs from time to time shows it only if a target is asked twice.
    options.rounds = rounds.unwrap_or(options.targets.len());
    Ok(options)
}

fn number(parser: &mut Parser, name: &str, least: f64, most: f64) -> Result<f64, String> {
    let written = text(parser)?;
    let number = written.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("--{name} \"{written}\": {least} to {most} is wanted"))
}

const NAMES: [&str; 11] =
    ["replay", "target", "against", "speed", "rounds", "seed", "timeout", "allow-writes", "json", "output", "help"];

/// The output of `trunkline capacity --replay FILE --help`.
pub const USAGE: &str = "\
trunkline capacity --replay plays a recording of trunkline record again: each session on a connection of its own, each request when it
came, faster if wanted. With --against, two targets are played against by turns, and their answers and times are compared.

Usage:
  trunkline capacity --replay FILE --target CONNINFO [--against CONNINFO] [OPTION]...

Options:
      --replay FILE      the recording
      --target CONNINFO  a server, a pooler or a proxy
      --against CONNINFO  another one, to compare with
      --speed K          K times as fast as it was recorded (1)
      --rounds N         how often each target is played against (2 with --against, else 1)
      --seed S           of the values that are drawn where the recording has none (1)
      --timeout SECONDS  how long a request is waited for (30)
      --allow-writes     statements may change something; without it they are played in transactions that only read, and those that
                         cannot be are left out
      --json             print JSON
  -o, --output FILE      the file (standard output)
  -h, --help             show this help, then exit

A response time counts from the moment at which the request was to be sent. Ctrl-C ends it with what is known.

Exit status: 0 played; 1 answers of the two targets differ; 2 the command line or the recording is wrong; 3 a target cannot be used;
4 the run is void, because the generator was too slow.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<ReplayOptions, String> {
        ReplayOptions::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn what_is_wrong_is_named() {
        let some = ["--replay", "a.json", "--target", "host=a"];
        assert!(parsed(&some).is_ok_and(|options| options.rounds == 1 && !options.may_write));
        let two = [&some[..], &["--against", "host=b"]].concat();
        assert!(parsed(&two).is_ok_and(|options| options.rounds == 2 && options.targets.len() == 2));
        for (more, named) in [
            (&["--speed", "0"][..], "--speed \"0\": 0.01 to 1000 is wanted"),
            (&["--rounds", "many"], "--rounds \"many\""),
            (&["--allow-write"], "did you mean --allow-writes?"),
        ] {
            let told = parsed(&[&some[..], more].concat()).expect_err("it is wrong");
            assert!(told.contains(named), "{told}");
        }
        assert!(parsed(&["--replay", "a"]).expect_err("it is wrong").contains("--target is missing"));
        NAMES.iter().for_each(|name| assert!(USAGE.contains(&format!("--{name}")), "{name}"));
        assert!(ReplayOptions::are_meant(&["--replay=a".into()]) && !ReplayOptions::are_meant(&["--target".into()]));
    }
}
