//! `trunkline doctor`: run as an operator runs it, on servers and poolers that run.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::pooler::Ini;
use tests::postgres::Postgres;
use tests::program::{Ended, finish, run, signal, without_preferences};
use tests::runner::skip;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::operation::quota::Quota;

pub(crate) fn doctor_judges_with_a_role_that_may_only_monitor(house: &House) {
    if !is_ours(house) {
        return;
    }
    // A server of its own: of one with the databases of all tests not every database is looked into.
    let postgres = Postgres::start(&house.place);
    postgres.database("doctor");
    let line = format!("doctor = host=127.0.0.1 port={} dbname=doctor", postgres.port());
    let pooler = house.start(&Ini::new(&line).set("pool_mode = transaction").set("default_pool_size = 7"));
    let mut owner = postgres.client("doctor");
    for statement in [
        "create role doctor_monitor login password 'geheim' in role pg_monitor",
        "create table unkeyed (a int)",
        "create schema repack",
        "create table repack.log_4711 (a int)",
        "create function lookup(name) returns text language sql as 'select passwd from pg_shadow where usename = $1'",
        "alter database doctor connection limit 3",
    ] {
        owner.run(statement);
    }
    let mut client = pooler.client("u", "doctor");
    client.run("select 1");
    let server = format!("host=127.0.0.1 port={} user=doctor_monitor password=geheim dbname=postgres", postgres.port());
    let console = format!("host=127.0.0.1 port={} user=stats", pooler.port());
    let (ended, report) = judge(house, &["--server", &server, "--pooler", &console, "--host", "--seconds", "0.3"]);
    assert_eq!(ended.code(), 2, "{ended:?}");
    for (rule, part) in [
        ("D27", "it left repack.log_4711"),
        ("D29", "public.lookup(name) (owner postgres): it is not SECURITY DEFINER"),
        ("D30", "database doctor may have 3 connections, its pools 7"),
        ("D36", "public.unkeyed"),
    ] {
        let said: Vec<&Value> = found(&report, rule);
        assert!(
            said.iter().any(|one| one["evidence"].as_str().is_some_and(|text| text.contains(part))),
            "{rule}: {said:#?}"
        );
    }
    let needs = |rule: &str| {
        let all = report["unevaluated"].as_array().expect("rules").iter();
        all.filter(|one| one["rule"] == rule).map(|one| one["needs"].to_string()).collect::<String>()
    };
    assert!(needs("D28").contains("42501: permission denied"), "{}", needs("D28"));
    // Every other rule may look everywhere: what is lacking are time and load.
    for one in report["unevaluated"].as_array().expect("rules") {
        let text = one["needs"].as_str().expect("words");
        assert!(one["rule"] == "D28" || !text.contains("denied") && !text.contains("odd"), "{one}");
        // The catalogs of each version that is promised have what is asked for.
        let is_unknown = ["42703", "42P01", "42883"].iter().any(|code| text.contains(code));
        assert!(!is_unknown || postgres.major() < 13, "{one}");
    }
    assert!(!(ended.out + &ended.err).contains("geheim"), "the password was shown");
    // Without the right to see other sessions nothing about them is good.
    owner.run("create role doctor_nobody login");
    let server = format!("host=127.0.0.1 port={} user=doctor_nobody dbname=postgres", postgres.port());
    let (_, report) = judge(house, &["--server", &server, "--pooler", &console, "--seconds", "0.1"]);
    let good = report["good"].as_array().expect("rules");
    for rule in ["D03", "D04", "D17", "D18", "D19", "D23", "D26"] {
        assert!(!good.contains(&rule.into()), "{rule} is good: {report:#}");
    }
    // Nobody is left.
    wait_until("its sessions have ended", LIMIT, || {
        owner.value("select count(*) from pg_stat_activity where application_name = 'trunkline doctor'") == "0"
    });
}

pub(crate) fn doctor_reports_a_lock_that_a_pooled_server_has_without_a_client(house: &House) {
    if !is_ours(house) {
        return;
    }
    // As in a pooler that keeps no session state.
    let pooler = house.pooler("doctor_lock", &["session_state = pgbouncer"]);
    let mut client = pooler.client("u", "doctor_lock");
    client.run("select pg_advisory_lock(4711)");
    let pid = client.server_pid();
    let server = format!("postgres://postgres@127.0.0.1:{}/postgres", house.postgres.port());
    let console = format!("postgres://stats@127.0.0.1:{}", pooler.port());
    let (_, report) = judge(house, &["--server", &server, "--pooler", &console, "--seconds", "0"]);
    let said = found(&report, "D26");
    let evidence =
        said.first().map(|one| one["evidence"].as_str().expect("words")).unwrap_or_else(|| panic!("{report:#}"));
    assert!(
        evidence.contains("lock (4711)")
            && evidence.contains("doctor_lock/u")
            && evidence.contains(&format!("pid {pid}")),
        "{evidence}"
    );
}

pub(crate) fn doctor_tries_commits_and_sees_cursors_of_idle_sessions(house: &House) {
    if !is_ours(house) {
        return;
    }
    let postgres = Postgres::start(&house.place);
    let mut owner = postgres.client("postgres");
    for statement in [
        "create role cautious login in role pg_monitor",
        "set work_mem = '64kB'",
        "begin",
        "declare kept cursor with hold for select repeat('x', 1000) from generate_series(1, 2000)",
        "commit",
    ] {
        owner.run(statement);
    }
    let mut other = postgres.client("postgres");
    let file = "select current_setting('data_directory') || '/base/pgsql_tmp/' || min(name) from pg_ls_tmpdir()";
    let two_hours = Duration::from_secs(7_200);
    let file = std::fs::File::options().write(true).open(other.value(file)).expect("rows of the cursor");
    file.set_modified(std::time::SystemTime::now() - two_hours).expect("an older file");
    let server = format!("host=127.0.0.1 port={} user=cautious dbname=postgres", postgres.port());
    let (_, report) = judge(house, &["--server", &server, "--host", "--seconds", "8", "--commit-probe"]);
    let said = found(&report, "D25");
    let evidence = said.first().and_then(|one| one["evidence"].as_str()).unwrap_or_else(|| panic!("{report:#}"));
    assert!(evidence.contains("keeps a cursor WITH HOLD of ") && evidence.contains("2.0 h"), "{evidence}");
    // How long commits take on this machine is not judged; that it is known is.
    let lacking = report["unevaluated"].as_array().expect("rules").iter().find(|one| one["rule"] == "D44");
    assert!(lacking.is_none(), "{lacking:?}");
    let (_, report) = judge(house, &["--server", &server, "--seconds", "0.1"]);
    let lacking = report["unevaluated"].as_array().expect("rules").iter().filter(|one| one["rule"] == "D44");
    assert!(lacking.into_iter().any(|one| one["needs"] == "--commit-probe"), "{report:#}");
}

pub(crate) fn doctor_tells_a_pooler_without_a_processor_from_slow_clients(house: &House) {
    if !is_ours(house) {
        return;
    }
    // A server of its own, so that nobody else's samples are there.
    let postgres = Postgres::start(&house.place);
    postgres.database("starved");
    let line = format!("starved = host=127.0.0.1 port={} dbname=starved", postgres.port());
    let pooler = house.start(&Ini::new(&line).set("pool_mode = transaction"));
    let Some(_quota) = Quota::of_processor(pooler.pid(), 0.05) else {
        return skip("control groups cannot be made here");
    };
    let is_over = AtomicBool::new(false);
    let (_, report) = std::thread::scope(|scope| {
        // Also if this panics: the scope waits for its clients.
        let _end = AtEnd(&is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = pooler.client("u", "starved");
                while !is_over.load(Ordering::Relaxed) {
                    client.query("select repeat('x', 1000) from generate_series(1, 500)");
                }
            });
        }
        let server = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", postgres.port());
        let console = format!("host=127.0.0.1 port={} user=stats", pooler.port());
        let pid = pooler.pid().to_string();
        judge(house, &["--server", &server, "--pooler", &console, "--pooler-pid", &pid, "--seconds", "4"])
    });
    let table = &report["measured"][0];
    let share = |name: &str| {
        let rows = table["rows"].as_array().expect("rows").iter();
        let row = rows.filter(|row| row.to_string().contains(name)).find_map(|row| row[1].as_f64());
        row.unwrap_or_else(|| panic!("no {name} in {table:#}"))
    };
    // Clients take what they get at once: without the look at the processor most of the time would be theirs.
    let (starved, clients) = (share("pooler: wait for a processor"), share("client, or network"));
    println!("wait for a processor {starved:.2}, clients {clients:.2}");
    assert!(starved > 2.0 * clients && starved > 0.3, "{starved} {clients}: {table:#}");
}

pub(crate) fn doctor_reports_what_it_knows_when_the_server_vanishes(house: &House) {
    if !is_ours(house) {
        return;
    }
    let mut primary = Postgres::start(&house.place);
    let standby = primary.standby(&house.place);
    let at = |postgres: &Postgres| format!("host=127.0.0.1 port={} user=postgres", postgres.port());
    let (ended, report) = judge(house, &["--server", &at(&standby), "--seconds", "0.2"]);
    assert!(report["examined"][0]["kind"].as_str().is_some_and(|kind| kind.contains("a standby")), "{report:#}");
    assert!(ended.code() < 3 && found(&report, "D41").len() == 1, "{ended:?}");
    let mut command = doctor(house, &["--server", &at(&primary), "--seconds", "60", "--format", "json"]);
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("doctor starts");
    await_samples(&primary);
    primary.crash();
    // It does not wait for the end of its time in vain.
    let ended = finish(child, "doctor", RUN_LIMIT);
    let report = read(&ended);
    assert!(ended.code() == 3 && ended.err.contains("the server: "), "{ended:?}");
    assert_eq!(found(&report, "D41").len(), 1, "what was known: {report:#}");
    let lacking = report["unevaluated"].as_array().expect("rules");
    assert!(lacking.iter().any(|one| one["rule"] == "D02"), "no second reading: {report:#}");
}

pub(crate) fn ctrl_c_ends_doctor_with_what_is_known(house: &House) {
    if !is_ours(house) {
        return;
    }
    let server = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", house.postgres.port());
    let mut command = doctor(house, &["--server", &server, "--seconds", "600", "--format", "json"]);
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("doctor starts");
    await_samples(&house.postgres);
    signal(child.id(), Signal::SIGINT);
    let ended = finish(child, "doctor", RUN_LIMIT);
    let report = read(&ended);
    let lacking = report["unevaluated"].as_array().expect("rules").iter();
    assert!(lacking.filter(|one| one["rule"] == "D34").count() == 0, "the second reading was taken: {report:#}");
    assert!(ended.code() < 3, "{ended:?}");
}

pub(crate) fn doctor_tells_what_it_was_given_wrongly(house: &House) {
    if !is_ours(house) {
        return;
    }
    for (words, status, part) in [
        (&[][..], 4, "nothing to look at"),
        (&["--server", "host=a password=geheim sslmode=sure"], 4, "--server: invalid sslmode: sure"),
        (&["--servr", "host=a"], 4, "did you mean --server?"),
        (&["--server", "host=/nowhere user=u password=geheim"], 3, "/nowhere/.s.PGSQL.5432: no-socket"),
    ] {
        let ended = run(&mut doctor(house, words), LIMIT);
        assert!(ended.code() == status && ended.err.contains(part) && !ended.err.contains("geheim"), "{ended:?}");
    }
    // A server is no console.
    let server = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", house.postgres.port());
    let ended = run(&mut doctor(house, &["--pooler", &server]), LIMIT);
    assert!(ended.code() == 3 && ended.err.contains("SHOW DATABASES"), "{ended:?}");
    let page = house.place.directory().join("doctor.html");
    let ended = run(&mut doctor(house, &["--host", "--format", "html", "-o", &page.display().to_string()]), LIMIT);
    let page = std::fs::read_to_string(&page).expect("a report");
    assert!(ended.out.is_empty() && page.starts_with("<!DOCTYPE html>"), "{ended:?}");
}

fn await_samples(postgres: &Postgres) {
    let mut watcher = postgres.client("postgres");
    let sql =
        "select count(*) from pg_stat_activity where application_name = 'trunkline doctor' and query like 'execute%'";
    wait_until("it samples", LIMIT, || watcher.value(sql) == "1");
}

/// Says at its end that something is over.
struct AtEnd<'f>(&'f AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn judge(house: &House, words: &[&str]) -> (Ended, Value) {
    let ended = run(doctor(house, words).args(["--format", "json"]), RUN_LIMIT);
    let report = read(&ended);
    (ended, report)
}

fn read(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.out, ended.err))
}

fn found<'r>(report: &'r Value, rule: &str) -> Vec<&'r Value> {
    report["found"].as_array().expect("findings").iter().filter(|one| one["rule"] == rule).collect()
}

fn doctor(house: &House, words: &[&str]) -> Command {
    let mut command = Command::new(house.place.pooler());
    without_preferences(&mut command);
    command.arg("doctor").args(words);
    command
}

/// A run of some seconds, on a busy machine or against a pooler that has little of a processor.
const RUN_LIMIT: Duration = Duration::from_secs(60);

fn is_ours(house: &House) -> bool {
    if !house.place.is_trunkline() {
        skip("PgBouncer has no such command");
    }
    house.place.is_trunkline()
}
