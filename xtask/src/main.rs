//! The chores of the project: `cargo xtask CHORE`.
//!
//! Always true: a chore that fails prints what failed and exits with 1; nothing here ships with the pooler.
//! Not here: what the chores do; each has its module.

mod asked;
mod bench;
mod cost;
mod coverage;
mod differential;
mod fuzz;
mod generate;
mod ha;
mod habits;
mod house;
mod oracle;
mod playing;
mod suite;
mod tidy;
mod versions;
mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use lexopt::{Arg, Parser};

use house::House;

fn main() -> ExitCode {
    match dispatch(Parser::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(mut arguments: Parser) -> Result<(), String> {
    let chore = match arguments.next().map_err(|error| error.to_string())? {
        Some(Arg::Value(name)) => name.to_string_lossy().into_owned(),
        Some(Arg::Short('h') | Arg::Long("help")) | None => {
            println!("{USAGE}");
            return Ok(());
        }
        Some(other) => return Err(format!("{}\n\n{USAGE}", other.unexpected())),
    };
    let rest: Vec<OsString> = arguments.raw_args().map_err(|error| error.to_string())?.collect();
    let house = House::find()?;
    match chore.as_str() {
        "test" => suite::run(&house, &rest),
        "soak" | "hostile" | "drivers" | "migrations" | "regress" | "page" => asked::run(&house, &chore, &rest),
        "bench" => bench::run(&house, &rest),
        "ha" => ha::run(&house, &rest),
        "cost" => cost::run(&house, &rest),
        "differential" => differential::run(&house, &rest),
        "versions" => versions::run(&house, &rest),
        "fuzz" => fuzz::run(&house, &rest),
        "oracle" => oracle::run(&house, &rest),
        "world" => world::run(&house, &rest),
        "coverage" => coverage::run(&house, &rest),
        "check" => check(&house),
        "tidy" => tidy::run(house.root()),
        "gen" => generate::run(house.root(), generate::Mode::from_arguments(&rest)?),
        _ => Err(format!("no chore is called {chore}\n\n{USAGE}")),
    }
}

/// Runs all checks of a change besides the tests, the quickest first, and stops at the first that fails.
fn check(house: &House) -> Result<(), String> {
    house.cargo(["fmt", "--all", "--check"])?;
    tidy::run(house.root())?;
    generate::run(house.root(), generate::Mode::Check)?;
    if house.lints_in_builds() {
        println!("the lints come with the build of the tests");
        return Ok(());
    }
    house.cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

const USAGE: &str = "\
usage: cargo xtask CHORE

  test [ARGUMENTS]          build, then run every test; arguments go to `cargo test`
  soak [ARGUMENTS]          build, then minutes of chaos and a proof (--minutes, --seed, --io, --clients)
  hostile [ARGUMENTS]       build, then attacks, and what a bystander in another database notices of them (--only NAME, --pgbouncer, --list)
  bench [ARGUMENTS]         build, then compare with PgBouncer (--help tells more)
  ha [ORDER]                a Patroni cluster, four paths to it, and failures (up, down, status, run CASE..., short, full, mock)
  cost [--check|--write]    build, then count what a transaction costs; fails when the table says less (docs/reference/cost.md);
                            `--only NAME` counts the rows with that in their names, `--brief` the basic ones and a habit of each kind (minutes)
  differential [ARGUMENTS]  build, then play random programs directly and through the pooler (--help tells more)
  versions [ARGUMENTS]      build, then the tests with each major version of PostgreSQL (--help tells more)
  drivers [ARGUMENTS]       build, then drivers of many languages, directly and through the pooler (--help tells more)
  migrations [ARGUMENTS]    build, then tools that change schemas, five replicas at once, directly and through the pooler (--help tells more)
  fuzz [ARGUMENTS]          build, then search for inputs that fail (--seconds, --target, --seed, --replay)
  regress [ARGUMENTS]       run PostgreSQL's own regression tests, directly and through a pool of so few servers (--servers, 10),
                            and its isolation tests (--only regression, isolation, isolation/SPEC)
  oracle [ARGUMENTS]        build, then hold what we read in SQL against PostgreSQL's own parser ([FOLDER], --mutations, --seed)
  world [ARGUMENTS]         build, then simulated days out of seeds (--seeds, --from, --seed, --planted, --known, --both-ways)
  coverage [ARGUMENTS]      which lines of protocol, pool and worker the unit tests and the world reach (--seeds)
  page                      build, then open the page in Chromium, each view under a load; screenshots in target/page
  check                     formatting, lints, tidy, generated pages
  tidy                      the rules of the house that a machine can check
  gen [--check]             write docs/reference, or only say whether it is fresh";
