//! `cargo xtask differential`: random programs against PostgreSQL and through the pooler.
//!
//! Always true: the release build of the pooler is tested; a difference makes the command fail, and is printed with the
//! command that reproduces it.
//! Not here: the programs and the comparison (`tests/real/comparison/differential`, `tests/real/comparison/alike/`).

use std::ffi::OsString;
use std::time::{SystemTime, UNIX_EPOCH};

use lexopt::{Arg, Parser, ValueExt};

use crate::house::House;
use setup::Purpose;

pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let Some(options) = Options::read(arguments)? else {
        println!("{USAGE}");
        return Ok(());
    };
    setup::run(&[Purpose::Test])?;
    let program = house.build_release()?;
    let mut command = house.cargo_command();
    let name = if options.steps.is_some() { "alike::as_many" } else { "differential::as_many" };
    // With optimization, reading and comparing takes half of the time, which a long run notices.
    command.args(["--config", "profile.test.package.tests.opt-level=1"]);
    command.args(["test", "--package", "tests", "--test", "real", "--", name]).env("TRUNKLINE_BIN", program);
    command.env("TRUNKLINE_DIFFERENTIAL_PROGRAMS", options.programs.to_string());
    match (options.steps, options.replay) {
        (Some(steps), _) => {
            println!("{steps} steps of sessions of the seed {}", options.seed);
            command.env("TRUNKLINE_SESSION_STEPS", steps.to_string());
            command.env("TRUNKLINE_SESSION_SEED", options.seed.to_string())
        }
        (None, Some(seed)) => command.env("TRUNKLINE_DIFFERENTIAL_REPLAY", seed),
        (None, None) => {
            println!("{} programs of the seed {}", options.programs, options.seed);
            command.env("TRUNKLINE_DIFFERENTIAL_SEED", options.seed.to_string())
        }
    };
    let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    status.success().then_some(()).ok_or("differential: failed".to_owned())
}

struct Options {
    programs: u64,
    steps: Option<u64>,
    seed: u64,
    replay: Option<OsString>,
}

impl Options {
    /// `None` when help is wanted.
    fn read(arguments: &[OsString]) -> Result<Option<Options>, String> {
        let fresh = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut options = Options { programs: PROGRAMS, steps: None, seed: fresh, replay: None };
        let mut parser = Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            let number = |parser: &mut Parser| parser.value()?.parse::<u64>();
            match argument {
                Arg::Long("programs") => options.programs = number(&mut parser).map_err(|error| error.to_string())?,
                Arg::Long("sessions") => options.steps = Some(number(&mut parser).map_err(|error| error.to_string())?),
                Arg::Long("seed") => options.seed = number(&mut parser).map_err(|error| error.to_string())?,
                Arg::Long("replay") => options.replay = Some(parser.value().map_err(|error| error.to_string())?),
                Arg::Long("help") | Arg::Short('h') => return Ok(None),
                other => return Err(format!("{}\n\n{USAGE}", other.unexpected())),
            }
        }
        Ok(Some(options))
    }
}

const PROGRAMS: u64 = 10_000;

const USAGE: &str = "\
usage: cargo xtask differential [--programs N | --sessions N] [--seed S] [--replay SEED]

  --programs N    how many programs of messages (10000)
  --sessions N    how many steps of sessions instead, which set, lock, listen, prepare and so on
  --seed S        of which seed; a fresh one without it
  --replay SEED   plays the round of this seed again, as a difference told it";
