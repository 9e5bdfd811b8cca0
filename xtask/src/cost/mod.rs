//! `cargo xtask cost`: what the pooler does for one transaction, counted instead of timed.
//!
//! Always true: counting begins and ends when everything is idle and the pooler is warm, so no figure includes its
//! start or stop.
//! Not here: throughput and processor time (`bench`).

mod budget;
mod code;
mod crowd;
mod kinds;
mod player;
mod quiet;
mod table;
mod valgrind;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use habits::Habit;
use ops::trial::{Client, Cluster, ClusterShape, DATABASE, Trial, TrialError, USER, free_ports};

use crate::bench::{Answers, Certificate, Tap};
use crate::house::House;
use budget::Budget;
use kinds::Kind;
use setup::Purpose;
use table::Table;
use valgrind::Stage;

/// Counts, prints the table, and writes it or compares it with the one in the repository.
pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    setup::run(&[Purpose::Cost])?;
    match words[..] {
        [] | ["--check"] => check(house, |_| true),
        ["--brief"] => check(house, |row| BRIEF.contains(&row)),
        ["--only", name] => check(house, |row| row.contains(name)),
        ["--write"] => {
            let old = known(house, |_| true).ok();
            let new = count(house, |_| true, old.as_ref())?;
            let page = new.page();
            print!("{page}");
            within(&budget(house)?, &new)?;
            fs::write(house.root().join(PAGE), page).map_err(|error| format!("cannot write {PAGE}: {error}"))
        }
        _ => Err(USAGE.to_owned()),
    }
}

/// Counts the wanted rows and compares them with the table.
fn check(house: &House, is_wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    let old = known(house, &is_wanted)?;
    judge(&old, &count(house, is_wanted, Some(&old))?, &budget(house)?)
}

/// The wanted rows of the table in the repository.
fn known(house: &House, is_wanted: impl Fn(&str) -> bool) -> Result<Table, String> {
    let path = house.root().join(PAGE);
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {PAGE}: {error}"))?;
    let mut old = Table::read(&text).ok_or(format!("{PAGE} is no table of costs: run `{WRITE}`"))?;
    old.rows.retain(|(name, _)| is_wanted(name));
    Ok(old)
}

/// What each row may cost.
fn budget(house: &House) -> Result<Budget, String> {
    let text =
        fs::read_to_string(house.root().join(BUDGET)).map_err(|error| format!("cannot read {BUDGET}: {error}"))?;
    Budget::read(&text).map_err(|why| format!("{BUDGET}: {why}"))
}

/// Fails where a row costs more than it may.
fn within(budget: &Budget, new: &Table) -> Result<(), String> {
    match budget.exceeded_by(new).as_slice() {
        [] => Ok(()),
        exceeded => Err(format!("{}\nIf that is meant, {BUDGET} says why.", exceeded.join("\n"))),
    }
}

fn judge(old: &Table, new: &Table, budget: &Budget) -> Result<(), String> {
    let verdict = old.compare(new);
    verdict.told.iter().for_each(|line| println!("{line}"));
    if old.key == new.key {
        within(budget, new)?;
    }
    match verdict.grown.as_slice() {
        [] => Ok(()),
        grown => Err(format!("{}\nIf that is meant, run `{WRITE}` and commit {PAGE}.", grown.join("\n"))),
    }
}

/// Counts the wanted rows; a row that has become more expensive is counted again.
fn count(house: &House, is_wanted: impl Fn(&str) -> bool, old: Option<&Table>) -> Result<Table, String> {
    let program = std::path::absolute(house.build_release()?).map_err(|error| error.to_string())?;
    let habits: &'static [Habit] = crate::habits::read(house.root())?.leak();
    let path = house.root().join(crate::habits::FOLDER).join("setup.sql");
    let tables = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut kinds = Kind::all(habits);
    kinds.retain(|kind| is_wanted(&kind.name()));
    count_each(&program, &kinds, &tables, old).map_err(|error| error.to_string())
}

fn count_each(program: &Path, kinds: &[Kind], tables: &str, old: Option<&Table>) -> Result<Table, TrialError> {
    let trial = Trial::open("trunkline-cost")?;
    let [port] = free_ports()?;
    let cluster = Cluster::start(&trial, port, ClusterShape { connections_max: 60, buffers_mib: 64, scale: 1 })?;
    let made = Client::log_in(cluster.port(), USER, DATABASE, PATIENCE).and_then(|mut client| client.run(tables));
    made.map_err(|why| TrialError::step("cannot make the tables of the habits".into(), why))?;
    let failed = |why| TrialError::step("cannot copy the pooler".into(), why);
    // The user it runs as may have no access to the folder where it was built.
    let copy = trial.scratch.path().join("trunkline");
    fs::copy(program, &copy).map_err(failed)?;
    let tap = Tap::open(cluster.port(), Answers::Whole);
    let tap = tap.map_err(|why| TrialError::step("no relay before PostgreSQL".into(), why))?;
    let certificate = Certificate::new().map_err(|why| TrialError::step("cannot make a certificate".into(), why))?;
    certificate.write(&trial)?;
    let stage = Stage { trial: &trial, program: &copy, tap: &tap, tls: certificate.trusted()? };
    let key = valgrind::key(&trial.programs.version)?;
    let mut rows = Vec::new();
    for kind in kinds {
        let mut figures = stage.play(*kind)?;
        let mut rounds = 1;
        // Other activity on the machine can only increase the figures of a run.
        while rounds < ROUNDS_MAX && old.is_some_and(|old| old.is_dearer(&key, &kind.name(), figures)) {
            figures = figures.least(stage.play(*kind)?);
            rounds += 1;
        }
        eprintln!("{:<40} {}", kind.name(), figures.words());
        rows.push((kind.name(), figures));
    }
    Ok(Table { key, rows })
}

/// The habits cover: nothing set, set for a transaction, set and followed, reset, kept, locked, listened to, prepared.
const BRIEF: [&str; 15] = [
    "simple",
    "extended",
    "prepared",
    "simple, looked at",
    "login",
    "habits/discard_all",
    "habits/set_local_tenant",
    "habits/search_path_of_tenant",
    "habits/role",
    "habits/rails_reset",
    "habits/temp_table_kept",
    "habits/sqlx_migration_lock",
    "habits/postgrest_listen",
    "habits/psycopg_prepared",
    "habits/django_connect/connect",
];

const ROUNDS_MAX: u32 = 8;

const PATIENCE: Duration = Duration::from_secs(10);

const PAGE: &str = "docs/reference/cost.md";
const BUDGET: &str = "docs/reference/cost-budget.md";
const WRITE: &str = "cargo xtask cost --write";
const USAGE: &str = "usage: cargo xtask cost [--check | --write | --brief | --only NAME]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proven_is_there() {
        let house = House::find().expect("the project");
        let habits: &'static [Habit] = crate::habits::read(house.root()).expect("habits").leak();
        let names: Vec<String> = Kind::all(habits).into_iter().map(Kind::name).collect();
        let missing: Vec<&str> = BRIEF.into_iter().filter(|brief| !names.iter().any(|name| name == brief)).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn each_row_but_habits_has_a_budget() {
        let house = House::find().expect("the project");
        let budget = budget(&house).expect("budgets");
        let rows = Kind::all(&[]).into_iter().map(Kind::name);
        let missing: Vec<String> = rows.filter(|name| !name.starts_with(kinds::HABITS) && !budget.has(name)).collect();
        assert_eq!(missing, [""; 0]);
    }
}
