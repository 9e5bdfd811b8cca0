//! PostgreSQL's isolation tests: sessions whose steps interleave and block one another, directly and through a pooler.
//!
//! Always true: the same tester, with the same changes, runs each spec directly and through the pooler, with all its
//! connections: the control connection sets up, tears down and asks who is blocked through the pooler as well, as any
//! program behind it would have to. The fetched source is not changed; the changes are made to a copy.
//! Not here: how outputs are compared (`difference`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tests::place::Place;
use tests::postgres::Postgres;
use tests::program::{run, try_finish, try_run, without_preferences};

use crate::difference::{Sides, compare};
use crate::pooler;

/// Specs whose output differs, or may, and why.
const KNOWN: [(&str, &str); 1] = [(
    "stats",
    "function calls are counted in each server process until it reports, and pg_stat_force_next_flush() reports one process",
)];

/// Runs all specs of the schedule, or the one that is named.
pub(crate) fn check(place: &Arc<Place>, source: &Path, only: Option<&str>) -> Result<(), String> {
    let tests = source.join("src/test/isolation");
    let tester = build(place, source)?;
    let specs = schedule(&tests, only)?.into_iter().map(|name| Spec::prepare(place, &tests, name));
    let specs = specs.collect::<Result<Vec<Spec>, String>>()?;
    let (plain, pooled) = std::thread::scope(|scope| {
        // Most steps wait, so both sides run at the same time.
        let direct = scope.spawn(|| {
            let postgres = Postgres::start(place);
            postgres.database(DATABASE);
            play(place, &tester, &specs, postgres.port())
        });
        let pooled = scope.spawn(|| {
            let postgres = Postgres::start(place);
            postgres.database(DATABASE);
            let pooler = pooler(place, &postgres, SERVERS);
            play(place, &tester, &specs, pooler.port())
        });
        (direct.join(), pooled.join())
    });
    let folder =
        |ended: std::thread::Result<Result<PathBuf, String>>| ended.map_err(|_| "a side has panicked".to_owned())?;
    let expected = tests.join("expected");
    let (plain, pooled) = (folder(plain)?, folder(pooled)?);
    compare("isolation", &Sides { plain: &plain, pooled: &pooled, expected: Some(&expected) }, &KNOWN)
}

/// Builds the tester, changed to find sessions by name. PostgreSQL's common functions are compiled with it, because Debian's
/// static library of them comes with the server headers and LLVM.
fn build(place: &Place, source: &Path) -> Result<PathBuf, String> {
    let folder = place.directory();
    let tests = source.join("src/test/isolation");
    let changed = folder.join("isolationtester.c");
    place.write(&changed, &change(&tests.join("isolationtester.c"), &TESTER_CHANGES)?);
    let tester = folder.join("isolationtester");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-w", "-DFRONTEND", "-D_GNU_SOURCE", "-o"]).arg(&tester).arg(&changed);
    compiler.arg(tests.join("specparse.c")).args(COMPILED_ALONG.map(|file| source.join(file)));
    for include in [tests, source.join("src/include"), source.join("src/interfaces/libpq")] {
        compiler.arg("-I").arg(include);
    }
    let config = run(Command::new("pg_config").arg("--includedir"), LIMIT).success();
    compiler.arg("-I").arg(config.trim()).arg("-lpq");
    let (status, said) = try_run(&mut compiler, LIMIT);
    match status {
        Some(status) if status.success() => Ok(tester),
        _ => Err(format!("isolationtester cannot be compiled:\n{}", said.err)),
    }
}

/// Returns a fetched file with replacements. Each replaced text must occur exactly once; otherwise PostgreSQL has changed
/// the file, and the replacements need to be rewritten.
fn change(path: &Path, changes: &[(&str, &str)]) -> Result<String, String> {
    let mut text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (before, after) in changes {
        match text.matches(before).count() {
            1 => text = text.replace(before, after),
            count => return Err(format!("{} has {count} times, not once: {before}", path.display())),
        }
    }
    Ok(text)
}

struct Spec {
    name: String,
    path: PathBuf,
}

impl Spec {
    /// A spec that stores a process ID in a table is changed to find the process by the session's name.
    fn prepare(place: &Place, tests: &Path, name: String) -> Result<Spec, String> {
        let mut path = tests.join("specs").join(format!("{name}.spec"));
        if let Some((_, before, after)) = SPEC_CHANGES.iter().find(|(spec, ..)| *spec == name) {
            let text = change(&path, &[(before, after)])?;
            path = place.directory().join("changed.spec");
            place.write(&path, &text);
        }
        Ok(Spec { name, path })
    }
}

fn schedule(tests: &Path, only: Option<&str>) -> Result<Vec<String>, String> {
    let path = tests.join("isolation_schedule");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let listed = text.lines().filter_map(|line| line.strip_prefix("test:")).flat_map(str::split_whitespace);
    let all = listed.chain(NEED_PREPARED_TRANSACTIONS);
    let specs: Vec<String> = all.filter(|spec| only.is_none_or(|only| only == *spec)).map(str::to_owned).collect();
    match (specs.is_empty(), only) {
        (false, _) => Ok(specs),
        (true, only) => Err(format!("{}: no spec {}", path.display(), only.unwrap_or("at all"))),
    }
}

/// Runs the specs at this port, one after another, as PostgreSQL's own runner does. Returns the folder of their outputs.
fn play(place: &Place, tester: &Path, specs: &[Spec], port: u16) -> Result<PathBuf, String> {
    let out = place.directory();
    for Spec { name, path } in specs {
        let input = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = place.command(tester, "KILL");
        without_preferences(&mut command);
        // libpq does not mention a password file that is missing, but warns of one that is a device.
        command.env("PGPASSFILE", place.directory().join("missing"));
        command.arg(format!("host=127.0.0.1 port={port} user=postgres dbname={DATABASE}"));
        command.env("PGAPPNAME", format!("isolation/{name}")).env("PGISOLATIONTIMEOUT", STEP_SECONDS_MAX);
        command.envs([("LC_ALL", "C"), ("PGTZ", "America/Los_Angeles"), ("PGDATESTYLE", "Postgres, MDY")]);
        command.env("PGOPTIONS", "-c intervalstyle=postgres_verbose");
        let child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.map_err(|error| format!("cannot start {}: {error}", tester.display()))?;
        let (status, said) = try_finish(child, LIMIT);
        let ended = match status {
            Some(status) if status.success() => String::new(),
            Some(status) => format!("the tester ended with {status}\n"),
            None => format!("the tester did not end within {LIMIT:?}\n"),
        };
        fs::write(out.join(format!("{name}.out")), said.out + &said.err + &ended).map_err(|error| error.to_string())?;
    }
    Ok(out)
}

/// The parts of PostgreSQL's own libraries that the tester needs.
const COMPILED_ALONG: [&str; 5] = [
    "src/common/fe_memutils.c",
    "src/common/psprintf.c",
    "src/port/qsort.c",
    "src/port/snprintf.c",
    "src/port/strerror.c",
];

/// Replacements in the tester: the original text, and ours.
///
/// The tester asks who is blocked by the process IDs that it has read when it connected. Through a pooler a session may have
/// another backend in each transaction, so the changed tester asks by the `application_name` of each session,
/// `isolation/SPEC/SESSION`; the name of the control connection is the common prefix. An idle server keeps the name of its
/// last client, so among several servers with one name the active one runs the step. The sender of a notification is known
/// by its process ID only; the changed tester prints no sender, directly and through the pooler.
const TESTER_CHANGES: [(&str, &str); 7] = [
    (
        r#""SELECT pg_catalog.pg_isolation_test_session_is_blocked($1, '{");"#,
        r#"
        "WITH session AS MATERIALIZED (SELECT pid, application_name AS name, state"
        "   FROM pg_catalog.pg_stat_activity"
        "   WHERE backend_type = 'client backend' AND datname = pg_catalog.current_database()"
        "     AND pid <> pg_catalog.pg_backend_pid())"
        " SELECT coalesce(pg_catalog.bool_or(pg_catalog.pg_isolation_test_session_is_blocked(pid,"
        "   ARRAY(SELECT pid FROM session WHERE name LIKE 'isolation/%'))), false)"
        " FROM session WHERE state = 'active' AND name ="
        "   pg_catalog.replace(pg_catalog.current_setting('application_name'), 'control connection', $1)");"#,
    ),
    ("\tappendPQExpBufferStr(&wait_query, conns[1].backend_pid_str);\n", ""),
    ("\t\tappendPQExpBuffer(&wait_query, \",%s\", conns[i].backend_pid_str);\n", "\t\t;\n"),
    ("\tappendPQExpBufferStr(&wait_query, \"}')\");\n", ""),
    ("&conns[step->session + 1].backend_pid_str,", "&conns[step->session + 1].sessionname,"),
    ("if (notify->be_pid == conns[i + 1].backend_pid)", "if (false)"),
    ("\"PID %d\", notify->be_pid);", "\"a session\");"),
];

/// Specs in which session s1 cancels s2 by the process ID that s2 has written into a table in an earlier transaction. The
/// changed specs find the process by the name of s2.
const SPEC_CHANGES: [(&str, &str, &str); 2] = [
    (
        "detach-partition-concurrently-3",
        "SELECT pg_cancel_backend(pid) FROM d3_pid;",
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
						  WHERE state = 'active' AND application_name LIKE 'isolation/%/s2';",
    ),
    (
        "detach-partition-concurrently-4",
        "select pg_cancel_backend(pid) from d4_pid;",
        "select pg_cancel_backend(pid) from pg_stat_activity
						  where state = 'active' and application_name like 'isolation/%/s2';",
    ),
];

/// These specs are not in the schedule, because `max_prepared_transactions` is 0 by default; here it is not.
const NEED_PREPARED_TRANSACTIONS: [&str; 2] = ["prepared-transactions", "prepared-transactions-cic"];

/// `deadlock-hard` has eight sessions that wait for each other, and the control connection has to see that.
const SERVERS: u32 = 10;
const DATABASE: &str = "isolation_regression";
/// When the tester cancels a step that neither ends nor waits for a lock.
const STEP_SECONDS_MAX: &str = "60";
const LIMIT: Duration = Duration::from_secs(900);
