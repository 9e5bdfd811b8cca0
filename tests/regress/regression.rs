//! PostgreSQL's own regression tests, directly and through a pooler with fewer servers than they have clients.
//!
//! Always true: PostgreSQL's own runner runs them in its parallel schedule, the same both ways.
//! Not here: how outputs are compared (`difference`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tests::place::Place;
use tests::postgres::Postgres;
use tests::program::{run, try_run};

use crate::difference::{Sides, compare};
use crate::pooler;

/// Tests whose output differs, or may differ, and why.
const KNOWN: [(&str, &str); 9] = [
    (
        "constraints",
        "a default asks for currval, and no text tells; who asks for what was drawn before anybody asked is told an error",
    ),
    ("sequence", "who asks twice for the same lastval may be told an error the second time"),
    ("prepare", "pg_prepared_statements shows TRUNKLINE_STATE_..., by which servers are told settings"),
    ("sysviews", "as prepare"),
    (
        "guc",
        "as prepare; pg_listening_channels() does not show what one server does for all; plpgsql is loaded on some servers already",
    ),
    (
        "temp",
        "a server that has had a temporary table before has a temporary schema, which one test wants not to be there yet",
    ),
    ("stats", "each server counts for itself until it reports, and waits a second for that"),
    ("plancache", "a plan that is out of date is made anew, where directly an error is told"),
    ("triggers", "a C function of the tests keeps a variable in its process"),
];

/// Runs all tests of the schedule.
pub(crate) fn check(place: &Arc<Place>, source: &Path, servers: u32) -> Result<(), String> {
    let tests = prepare(place, &source.join("src/test/regress"))?;
    let direct = Postgres::start(place);
    let plain = play(place, &tests, direct.port())?;
    drop(direct);
    let postgres = Postgres::start(place);
    let pooler = pooler(place, &postgres, servers);
    let pooled = play(place, &tests, pooler.port())?;
    compare("regression", &Sides { plain: &plain, pooled: &pooled, expected: None }, &KNOWN)
}

/// A copy of the tests that everybody may read, with the library that some of them load.
fn prepare(place: &Place, folder: &Path) -> Result<PathBuf, String> {
    let tests = place.directory().join("tests");
    run(Command::new("cp").arg("-r").arg(folder).arg(&tests), LIMIT).success();
    let config = |what: &str| {
        let program = place.postgres_program("pg_config");
        run(Command::new(program).arg(what), LIMIT).success().trim().to_owned()
    };
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(tests.join("regress.so")).arg(tests.join("regress.c"));
    compiler.arg(format!("-I{}", config("--includedir-server")));
    compiler.arg(format!("-I{}/internal", config("--includedir")));
    let (status, said) = try_run(&mut compiler, LIMIT);
    if !status.is_some_and(|status| status.success()) {
        return Err(format!("the library of the tests cannot be compiled:\n{}", said.err));
    }
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(&tests), LIMIT).success();
    Ok(tests)
}

/// Runs all tests at this port. Returns the folder of their outputs.
fn play(place: &Place, tests: &Path, port: u16) -> Result<PathBuf, String> {
    let out = place.directory();
    let library = run(Command::new(place.postgres_program("pg_config")).arg("--pgxs"), LIMIT).success();
    let runner = Path::new(library.trim()).ancestors().nth(3).map(|pgxs| pgxs.join("src/test/regress/pg_regress"));
    let runner =
        runner.filter(|runner| runner.is_file()).ok_or("pg_regress is missing: install postgresql-server-dev")?;
    let mut command = place.command(&runner, "KILL");
    let named = |name: &str, value: &Path| format!("--{name}={}", value.display());
    command.arg(named("bindir", place.postgres_program("psql").parent().unwrap_or(Path::new("/"))));
    command.arg(named("inputdir", tests)).arg(named("outputdir", &out)).arg(named("dlpath", tests));
    command.arg(named("schedule", &tests.join("parallel_schedule")));
    command.args(["--host=127.0.0.1", &format!("--port={port}"), "--user=postgres", "--max-connections=20"]);
    let (status, said) = try_run(&mut command, LIMIT);
    match status {
        Some(_) if out.join("results").is_dir() => Ok(out.join("results")),
        _ => Err(format!("pg_regress did not come to its end:\n{}\n{}", said.out, said.err)),
    }
}

const LIMIT: Duration = Duration::from_secs(900);
