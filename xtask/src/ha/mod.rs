//! `cargo xtask ha`: a Patroni cluster of three nodes, four ways to reach it, and failures.
//!
//! Always true: everything runs in namespaces that end with the lab (`namespaces`), so nothing is left behind, however
//! the lab ends; every case that is not run is named. The three nodes are one machine: the processors are shared.
//! Not here: the client that writes and keeps the ledger (`trunkline hatest`).

mod cases;
mod company;
mod course;
mod lab;
mod ledger;
mod mock;
mod namespaces;
mod node;
mod paths;
mod patroni;
mod quota;
mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use setup::Purpose;

use crate::house::House;
use cases::Case;
use lab::Lab;
use namespaces::Namespaces;

/// Does what the first word says; without one, the short set.
pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    match words.split_first() {
        None => outside(house, &Order::Set(Set::Short)),
        Some((&"mock", [])) => mock::run(house, &program(house)?),
        Some((&"up", [])) => outside(house, &Order::Up),
        Some((&"down", [])) => Namespaces::of(house).down(),
        Some((&"status", [])) => outside(house, &Order::Status),
        Some((&"short", [])) => outside(house, &Order::Set(Set::Short)),
        Some((&"full", words)) => outside(house, &Order::Set(Set::Full(rounds(words)?))),
        Some((&"run", names)) if !names.is_empty() => outside(
            house,
            &Order::Set(Set::Named(names.iter().map(|name| Case::named(name)).collect::<Result<_, _>>()?)),
        ),
        Some((&INSIDE, words)) => inside(house, words),
        _ => Err(USAGE.into()),
    }
}

enum Order {
    Up,
    Status,
    Set(Set),
}

/// Which cases are run, and how often.
enum Set {
    Short,
    /// Every case so many times.
    Full(u32),
    Named(Vec<&'static Case>),
}

impl Set {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Short => vec!["short".into()],
            Self::Full(rounds) => vec!["full".into(), rounds.to_string()],
            Self::Named(cases) => {
                std::iter::once("run").chain(cases.iter().map(|case| case.name)).map(str::to_owned).collect()
            }
        }
    }

    fn from_words(words: &[&str]) -> Result<Self, String> {
        match words {
            ["short"] => Ok(Self::Short),
            ["full", words @ ..] => Ok(Self::Full(rounds(words)?)),
            ["run", names @ ..] => {
                Ok(Self::Named(names.iter().map(|name| Case::named(name)).collect::<Result<_, _>>()?))
            }
            _ => Err(USAGE.into()),
        }
    }

    fn cases(&self) -> Vec<&'static Case> {
        match self {
            Self::Named(cases) => cases.clone(),
            Self::Short => cases::CASES.iter().filter(|case| case.is_short).collect(),
            Self::Full(_) => cases::CASES.iter().collect(),
        }
    }

    fn rounds(&self) -> u32 {
        if let Self::Full(rounds) = self { *rounds } else { 1 }
    }
}

/// How often every case is run: what is said, or so often that it takes about two hours.
fn rounds(words: &[&str]) -> Result<u32, String> {
    match words {
        [] => Ok(FULL_ROUNDS),
        [word] => word.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(|| USAGE.into()),
        _ => Err(USAGE.into()),
    }
}

/// On the machine: builds, and carries on in the namespaces of the lab.
fn outside(house: &House, order: &Order) -> Result<(), String> {
    let namespaces = Namespaces::of(house);
    if let Some(why) = namespaces::refusal() {
        println!("no lab: {why}");
        if !matches!(order, Order::Set(_)) {
            return Err("ha: there can be no lab here".into());
        }
        println!("the mock set instead, with a stand-in for Patroni");
        return mock::run(house, &program(house)?);
    }
    match (order, namespaces.standing()) {
        (Order::Status, None) => {
            println!("the lab is down");
            Ok(())
        }
        (Order::Status, Some(standing)) => namespaces.join(standing, &["status".into()]),
        (Order::Up, Some(_)) => {
            println!("the lab is up already");
            Ok(())
        }
        (Order::Up, None) => {
            setup::run(&[Purpose::Lab])?;
            namespaces.up(&program(house)?)
        }
        (Order::Set(set), Some(standing)) => namespaces.join(standing, &set.words()),
        (Order::Set(set), None) => {
            setup::run(&[Purpose::Lab])?;
            namespaces.alone(&program(house)?, &set.words())
        }
    }
}

/// The program that the variable names, else that of this project, built as `make demo` does.
fn program(house: &House) -> Result<PathBuf, String> {
    let Some(given) = std::env::var_os(namespaces::TRUNKLINE) else {
        return house.build_demo();
    };
    let path = std::path::absolute(&given).map_err(|error| error.to_string())?;
    let is_there = path.is_file();
    is_there.then_some(path).ok_or(format!("{} names {}, which is not a file", namespaces::TRUNKLINE, given.display()))
}

/// In the namespaces of the lab.
fn inside(house: &House, words: &[&str]) -> Result<(), String> {
    // By hand, outside, it would mount and add links on the machine itself.
    if !namespaces::is_inside() {
        return Err(USAGE.into());
    }
    let logs = namespaces::folder(house).join("logs");
    let raise = || {
        let trunkline = std::env::var_os(namespaces::TRUNKLINE).ok_or("only for `cargo xtask ha` itself")?;
        // The logs of a lab that does not come up say why.
        Lab::raise(Path::new(&trunkline)).inspect_err(|_| Lab::save_logs(&logs))
    };
    if words == [namespaces::STAY] {
        let lab = raise()?;
        println!("{}", namespaces::READY);
        return lab.wait(FOR_EVER);
    }
    namespaces::end_with_input();
    match words {
        ["status"] => Lab::join()?.status(),
        ["alone", words @ ..] => run_set(house, &raise()?, &Set::from_words(words)?),
        words => run_set(house, &Lab::join()?, &Set::from_words(words)?),
    }
}

fn run_set(house: &House, lab: &Lab, set: &Set) -> Result<(), String> {
    let cases = set.cases();
    let mut results = report::Results::default();
    let machine = report::machine(house, lab);
    let outcome = measure(house, lab, &machine, set, &mut results);
    Lab::save_logs(&namespaces::folder(house).join("logs"));
    println!("\n{}", report::Report::new(&machine, &cases, &results).terminal());
    outcome?;
    if results.is_empty() {
        return Err("ha: nothing was measured".into());
    }
    Ok(())
}

/// Runs the cases. What is known is written down as JSON after each of them, because a set takes long; the page when all have been run.
fn measure(
    house: &House,
    lab: &Lab,
    machine: &[(&'static str, String)],
    set: &Set,
    results: &mut report::Results,
) -> Result<(), String> {
    let (cases, rounds) = (set.cases(), set.rounds());
    for round in 0..rounds {
        for case in &cases {
            eprintln!("{} ({} of {rounds}): {}", case.name, round + 1, case.title);
            match course::run(lab, case) {
                Ok(measured) => {
                    eprint!("{}", measured.in_short());
                    results.add(case.name, measured);
                }
                Err(why) => {
                    lab.wait(Duration::ZERO)?;
                    eprintln!("  failed: {why}");
                    results.fail(case.name, why);
                }
            }
            let report = report::Report::new(machine, &cases, results);
            write(&namespaces::folder(house).join("ha.json"), &report.json())?;
        }
    }
    if !matches!(set, Set::Named(_)) && !results.is_empty() {
        let page = report::Report::new(machine, &cases, results).page();
        write(&house.root().join("docs/high-availability.md"), &page)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The first word of a run that we start in the namespaces of the lab.
const INSIDE: &str = "inside";

/// With all cases about two hours.
const FULL_ROUNDS: u32 = 3;

/// A year: `Instant` cannot hold much more.
const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);

const USAGE: &str = "\
usage: cargo xtask ha [ORDER]

  short          the cases of most worth once, 20 minutes (the default); writes docs/high-availability.md
  full [ROUNDS]  every case so many times (3, about two hours); writes docs/high-availability.md
  run CASE...    these cases once, for example 6a 3
  mock           what can be played without namespaces, with a stand-in for Patroni; 2 minutes. `short`, `full` and `run` do this
                 where no lab can be made
  up             build the lab and leave it running; `short`, `full` and `run` use it then
  status         the members, as Patroni sees them
  down           end the lab, whoever started it

TRUNKLINE_BIN names the program to measure; without it this project's is built, as `make demo` does.";
