//! `cargo xtask versions`: the tests against a real PostgreSQL, with each of its major versions.
//!
//! Always true: each version is the package that is pinned for it; the pooler is the same for all; a part that fails
//! does not prevent the others, and is printed at the end with the command that runs it alone; no test leaves a process
//! behind.
//! Not here: the tests (`tests/real`), which know what a version lacks.

mod package;

use std::ffi::OsString;
use std::process::Command;

use lexopt::{Arg, Parser, ValueExt};

use crate::house::House;
use crate::suite;
use package::{PACKAGES, Package};
use setup::Purpose;

pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let Some(options) = Options::read(arguments)? else {
        println!("{USAGE}");
        return Ok(());
    };
    setup::run(&[Purpose::Test])?;
    let program = house.build_release()?;
    let mut rows = Vec::new();
    for major in &options.majors {
        let package = Package::of(*major).ok_or(format!("no package is known of PostgreSQL {major}"))?;
        let programs = package.programs(&house.target())?;
        for part in &options.parts {
            let title = format!("PostgreSQL {major}, {}", options.words(*part));
            println!("\n{title}");
            let mut command = options.command(house, *part);
            command.env("TRUNKLINE_BIN", &program).env("TRUNKLINE_TEST_POSTGRES", &programs);
            let outcome = suite::watch(&mut command)?;
            rows.push((outcome.is_good(), format!("{title}: {}", outcome.words())));
        }
    }
    println!();
    rows.iter().for_each(|(is_good, words)| println!("{}: {words}", if *is_good { "passed" } else { "FAILED" }));
    match rows.iter().filter(|(is_good, _)| !is_good).count() {
        0 => Ok(()),
        count => Err(format!("versions: {count} of {} failed", rows.len())),
    }
}

/// What is run with each version.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Part {
    /// All tests with a real PostgreSQL, including habits and those for features of the version.
    Suite,
    /// Random sessions.
    Sessions,
    /// Random programs of messages.
    Programs,
}

struct Options {
    majors: Vec<u32>,
    parts: Vec<Part>,
    steps: u64,
    programs: u64,
    seed: u64,
    /// Substrings of the names of tests to run in the suite; all when empty.
    tests: Vec<OsString>,
}

impl Options {
    /// `None` when help is wanted.
    fn read(arguments: &[OsString]) -> Result<Option<Options>, String> {
        let (majors, parts, tests) = (Vec::new(), Vec::new(), Vec::new());
        let mut options = Options { majors, parts, steps: STEPS, programs: PROGRAMS, seed: SEED, tests };
        let mut parser = Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            let number = |parser: &mut Parser| parser.value()?.parse::<u64>();
            let told = match argument {
                Arg::Long("steps") => number(&mut parser).map(|steps| options.steps = steps),
                Arg::Long("programs") => number(&mut parser).map(|programs| options.programs = programs),
                Arg::Long("seed") => number(&mut parser).map(|seed| options.seed = seed),
                Arg::Long("part") => {
                    parser.value().and_then(|name| name.parse_with(Part::named)).map(|part| options.parts.push(part))
                }
                Arg::Long("test") => parser.value().map(|name| options.tests.push(name)),
                Arg::Value(major) => major.parse().map(|major| options.majors.push(major)),
                Arg::Long("help") | Arg::Short('h') => return Ok(None),
                other => Err(other.unexpected()),
            };
            told.map_err(|error| format!("{error}\n\n{USAGE}"))?;
        }
        if options.majors.is_empty() {
            options.majors.extend(PACKAGES.iter().rev().map(|package| package.major));
        }
        if options.parts.is_empty() {
            options.parts.extend(if options.tests.is_empty() { &PARTS[..] } else { &[Part::Suite] });
        }
        Ok(Some(options))
    }

    /// The description of a part.
    fn words(&self, part: Part) -> String {
        match part {
            Part::Suite => "suite".into(),
            Part::Sessions => format!("{} steps of sessions of the seed {}", self.steps, self.seed),
            Part::Programs => format!("{} programs of messages of the seed {}", self.programs, self.seed),
        }
    }

    /// The command that runs a part.
    fn command(&self, house: &House, part: Part) -> Command {
        let mut command = house.cargo_command();
        command.args(["test", "--quiet", "--package", "tests", "--test", "real", "--"]);
        match part {
            Part::Suite => command.args(&self.tests),
            Part::Sessions => command
                .arg("alike::as_many")
                .env("TRUNKLINE_SESSION_STEPS", self.steps.to_string())
                .env("TRUNKLINE_SESSION_SEED", self.seed.to_string()),
            Part::Programs => command
                .arg("differential::as_many")
                .env("TRUNKLINE_DIFFERENTIAL_PROGRAMS", self.programs.to_string())
                .env("TRUNKLINE_DIFFERENTIAL_SEED", self.seed.to_string()),
        };
        command
    }
}

impl Part {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "suite" => Ok(Self::Suite),
            "sessions" => Ok(Self::Sessions),
            "programs" => Ok(Self::Programs),
            _ => Err(format!("no part is called {name}")),
        }
    }
}

const PARTS: [Part; 3] = [Part::Suite, Part::Sessions, Part::Programs];
const STEPS: u64 = 4000;
const PROGRAMS: u64 = 900;
const SEED: u64 = 1000;

const USAGE: &str = "\
usage: cargo xtask versions [MAJOR...] [--part PART]... [--test NAME]... [--steps N] [--programs N] [--seed S]

  MAJOR         major versions of PostgreSQL, 10 to 18 (all)
  --part PART   only this part: suite (all tests with a real PostgreSQL), sessions (random ones) or programs (of random messages)
  --test NAME   of the suite only tests whose name contains this, and no other part
  --steps N     how many steps of sessions (4000)
  --programs N  how many programs of messages (900)
  --seed S      of which seed both are (1000)";

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Options {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Options::read(&words).expect("understood").expect("no help")
    }

    #[test]
    fn without_a_word_all_is_run_with_the_newest_first() {
        let options = options(&[]);
        assert_eq!(options.majors, [18, 17, 16, 15, 14, 13, 12, 11, 10]);
        assert_eq!(options.parts, PARTS);
    }

    #[test]
    fn versions_and_parts_are_chosen_by_name() {
        let options = options(&["17", "10", "--part", "sessions", "--steps", "7"]);
        assert_eq!((&options.majors[..], &options.parts[..], options.steps), (&[17, 10][..], &[Part::Sessions][..], 7));
        assert!(Options::read(&["--part".into(), "all".into()]).is_err());
    }

    #[test]
    fn who_names_tests_wants_no_random_ones() {
        assert_eq!(options(&["18", "--test", "postgres18::"]).parts, [Part::Suite]);
    }
}
