//! `cargo xtask regress`: PostgreSQL's own regression tests, directly and through a pooler with fewer servers than they have clients.
//!
//! Always true: a test whose output is the same both ways passes, whatever PostgreSQL expected; any other must be one whose
//! difference is known, with its reason.
//! Not here: where the tests come from (`xtask`); `TRUNKLINE_REGRESS` names their folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::program::{run, try_run};
use tests::runner;

/// Tests that differ, or may, and why.
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

fn main() -> ExitCode {
    runner::exit(regress())
}

fn regress() -> Result<(), String> {
    let folder = std::env::var("TRUNKLINE_REGRESS").map_err(|_| "run it by `cargo xtask regress`".to_owned())?;
    let mut arguments = std::env::args().skip(1);
    let servers = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => 10,
        (Some("--servers"), Some(count)) => count.parse().map_err(|_| format!("--servers {count}: not a number"))?,
        _ => return Err("usage: cargo xtask regress [--servers COUNT]".to_owned()),
    };
    let place = Arc::new(Place::find()?);
    let tests = prepare(&place, Path::new(&folder))?;
    let direct = Postgres::start(&place);
    let plain = play(&place, &tests, direct.port())?;
    drop(direct);
    let postgres = Postgres::start(&place);
    let pooler = pooler(&place, &postgres, servers);
    let pooled = play(&place, &tests, pooler.port())?;
    compare(&plain, &pooled)
}

fn pooler(place: &Arc<Place>, postgres: &Postgres, servers: u32) -> Pooler {
    let database = format!("* = host=127.0.0.1 port={}", postgres.port());
    let size = format!("default_pool_size = {servers}");
    let ini = Ini::new(&database).set(&size).set("max_client_conn = 200").secret("postgres", "");
    Pooler::start(place, &ini)
}

/// A copy of the tests that anybody may read, with the library that some of them load.
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

/// Runs all tests at this port; the folder of what they said.
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

fn compare(plain: &Path, pooled: &Path) -> Result<(), String> {
    let files = fs::read_dir(plain).map_err(|error| error.to_string())?.flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.sort();
    let (mut same, mut known, mut news) = (0, 0, Vec::new());
    for name in names.iter().filter_map(|name| name.strip_suffix(".out")) {
        let read = |folder: &Path| fs::read(folder.join(format!("{name}.out"))).unwrap_or_default();
        if read(plain) == read(pooled) {
            same += 1;
        } else if let Some((_, why)) = KNOWN.iter().find(|(known, _)| *known == name) {
            known += 1;
            println!("{name:<12} differs: {why}");
        } else {
            let paths = [plain, pooled].map(|folder| folder.join(format!("{name}.out")));
            let (_, said) = try_run(Command::new("diff").args(paths), LIMIT);
            println!("{name}: differs, and nobody knows why\n{}", said.out);
            news.push(name.to_owned());
        }
    }
    println!("{same} tests say the same, {known} differ for a reason, {} for none", news.len());
    if news.is_empty() { Ok(()) } else { Err(format!("regress: failed: {}", news.join(", "))) }
}

const LIMIT: Duration = Duration::from_secs(900);
