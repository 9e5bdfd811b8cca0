//! `cargo xtask bench`: Trunkline against PgBouncer, on the same machine, in the same minutes.
//!
//! Always true: every ratio compares two runs that followed one another on the same PostgreSQL; the order is reversed
//! after each pass (A B B A), so that a machine that becomes slower favours neither; failed runs are listed.
//! Not here: the cluster, the processes of the poolers, and pgbench (`ops::trial`).

mod certificate;
mod contestant;
mod figures;
mod habit;
mod habit_load;
mod machine;
mod options;
mod report;
mod scenario;
mod stage;
mod tally;
mod tap;
mod tenants;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ops::trial::{Interrupt, Trial, TrialError};

use crate::house::House;
pub(crate) use certificate::Certificate;
use contestant::{Contestant, Executables};
use options::Options;
use scenario::Scenario;
use setup::Purpose;
use stage::Stage;
use tally::Tally;
pub(crate) use tap::{Answers, Tap};

/// Measures, prints the tables, writes `bench.json` into the target folder and, after a whole run, `docs/benchmarks.md`.
pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    if options.wants_help {
        println!("{}", options::USAGE);
        return Ok(());
    }
    let scenarios = options.scenarios(habit::read(house.root())?)?;
    let tables = habit::setup(house.root())?;
    setup::run(&[Purpose::Bench])?;
    let executables = Executables::find(house, &options)?;
    let tally = measure(&options, &scenarios, &executables, &tables).map_err(|error| error.to_string())?;
    let report = report::Report::new(machine::Machine::look(house, &executables), &options, &scenarios, &tally);
    println!("\n{}", report.terminal());
    if !options.is_writing {
        return Ok(());
    }
    write(house, "bench.json", &house.target().join("bench.json"), &report.json())?;
    if options.is_whole() {
        write(house, "docs/benchmarks.md", &house.root().join("docs/benchmarks.md"), &report.page())?;
    }
    Ok(())
}

fn write(house: &House, name: &str, path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let shown = path.strip_prefix(house.root()).unwrap_or(path);
    eprintln!("wrote {} ({name})", shown.display());
    Ok(())
}

fn measure(
    options: &Options,
    scenarios: &[Scenario],
    executables: &Executables,
    tables: &str,
) -> Result<Tally, TrialError> {
    let mut tally = Tally::default();
    let trial = Trial::open("trunkline-bench")?;
    let mut stage = Stage::raise(&trial, options, executables, &mut tally)?;
    if scenarios.iter().any(|scenario| matches!(scenario, Scenario::Habit(_))) {
        stage.fill(tables)?;
    }
    if scenarios.iter().any(|scenario| matches!(scenario, Scenario::Tenants { .. })) {
        stage.fill_tenants()?;
    }
    for &scenario in scenarios {
        for round in 0..scenario.rounds(options.rounds) {
            for order in [Contestant::ALL, Contestant::BACKWARD] {
                pass(&mut stage, &trial.interrupt, scenario, round, order, &mut tally)?;
            }
        }
    }
    Ok(tally)
}

/// Runs each contestant once; ratios are taken between these runs.
fn pass(
    stage: &mut Stage<'_>,
    interrupt: &Interrupt,
    scenario: Scenario,
    round: u32,
    order: [Contestant; 3],
    tally: &mut Tally,
) -> Result<(), TrialError> {
    tally.begin_pass(scenario);
    for contestant in order {
        if stage.is_absent(contestant) || !stage.is_for(scenario, contestant) {
            continue;
        }
        interrupt.wait(SETTLING)?;
        match stage.run(scenario, contestant)? {
            Ok(readings) => {
                let name = scenario.name();
                eprintln!("{name:<12} {:>2}  {:<18} {}", round + 1, contestant.label(), readings.in_short());
                tally.add(scenario, contestant, readings);
            }
            Err(why) => tally.fail(scenario, contestant, &why),
        }
    }
    Ok(())
}

/// The pause between two runs, in which the connections of the first are closed.
const SETTLING: Duration = Duration::from_millis(100);
