//! `trunkline simulate --real`: run as an operator runs it. How its waits agree with those of the virtual run is tested only
//! when it is named, because that takes minutes and a machine with nothing else to do.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::program::{Ended, finish, signal, without_preferences};
use tests::wait::wait_until;

use crate::house::House;
use crate::operation::command::Command;

/// Two kinds of tenants; about a third of the transactions of the busy ones wait.
const SPEC: &str = "title = 'two kinds'\nseed = 3\nduration = '2 s'\nwarm_up = '0.5 s'\n\
    [pooler]\ndefault_pool_size = 3\n[[databases]]\nname = 'app'\n\
    [[databases.tenants]]\nname = 'busy'\ncount = 2\narrivals = { poisson = 120 }\n\
    [[databases.tenants.transactions]]\nstatements = 2\nservice = { lognormal = '10 ms', scv = 1 }\nthink = '1 ms'\n\
    [[databases.tenants]]\nname = 'quiet'\ncount = 2\nroles = 'shared'\narrivals = { poisson = 20 }\n\
    [[databases.tenants.transactions]]\nservice = '4 ms'\n\
    [[events]]\nkind = 'storm'\nat = '1 s'\nclients = 10\nwithin = '0.2 s'\n";

pub(crate) fn simulate_plays_a_spec_for_real_and_checks_every_row(house: &House) {
    let Some(simulate) = Command::of(house, "simulate") else { return };
    let spec = simulate.file("two.toml", SPEC);
    let ended = simulate
        .run_within(&[&spec, "--real", "--target", "direct", "--target", "trunkline", "--format", "json"], LONG);
    // 5: the machine of a test may be too busy for the generator, which then says so.
    assert!([0, 5].contains(&ended.code()), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((&report["way"], &report["books_balance"]), (&"real".into(), &true.into()), "{report:#}");
    let studies = studies(&report);
    for study in &studies {
        let run = &study["real"][0];
        let posts = &run["posts"];
        assert!(posts["acknowledged"].as_u64() > Some(150), "{posts}");
        assert_eq!((&posts["lost"], &posts["unexplained"]), (&0.into(), &0.into()), "{posts}");
        assert!(study["settings"][0]["transactions"]["done"].as_u64() > Some(100), "{study:#}");
    }
    // The pooler lets clients wait that PostgreSQL itself serves at once, and has fewer servers: 3 for each of three roles.
    let servers = |study: &Value| study["settings"][0]["servers_peak"].as_u64().expect("a number");
    assert!(servers(&studies[1]) <= 9 && servers(&studies[0]) > servers(&studies[1]), "{report:#}");
}

pub(crate) fn simulate_ends_at_once_with_what_is_known_and_leaves_nothing(house: &House) {
    let Some(simulate) = Command::of(house, "simulate") else { return };
    let spec = simulate.file("long.toml", &SPEC.replace("'2 s'", "'1 h'"));
    let place = house.place.directory();
    let mut command = house.place.command(house.place.pooler(), "KILL");
    without_preferences(&mut command);
    command.args(["simulate", &spec, "--real"]).env("TMPDIR", &place);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
    let child = child.expect("a child");
    let pid = child.id();
    // The pooler listens once its server is there, and its configuration is a file beside the server's.
    let has_begun = || {
        let made = std::fs::read_dir(&place).into_iter().flatten().flatten();
        made.into_iter().any(|made| made.path().join("trunkline.ini").exists())
    };
    wait_until("a run", LONG, has_begun);
    signal(pid, Signal::SIGINT);
    let ended: Ended = finish(child, "simulate", LONG);
    assert_eq!(ended.code(), 4, "{ended:?}");
    assert!(ended.out.contains("books balance."), "{ended:?}");
    assert_eq!(std::fs::read_dir(&place).expect("a directory").count(), 0, "the server of the run was left");
}

pub(crate) fn simulate_writes_into_a_server_only_with_the_word(house: &House) {
    let Some(simulate) = Command::of(house, "simulate") else { return };
    let spec = simulate.file("word.toml", SPEC);
    let server = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", house.postgres.port());
    let refused = simulate.run(&[&spec, "--real", "--server", &server]);
    assert!(refused.code() == 2 && refused.err.contains("--allow-writes"), "{refused:?}");
    let mut owner = house.postgres.client("postgres");
    let made = "select datname::text from pg_database where datname like 'tlsim%' union \
                select rolname::text from pg_roles where rolname like 'tlsim%'";
    assert!(owner.query(made).rows.is_empty());
    // What somebody else has made is not touched, and what was made before that is removed.
    owner.run("create database tlsim_1");
    let failed = simulate.run_within(&[&spec, "--real", "--server", &server, "--allow-writes"], LONG);
    assert!(failed.code() == 3 && failed.err.contains("tlsim_1"), "{failed:?}");
    assert_eq!(owner.query(made).rows, [[Some("tlsim_1".to_owned())]]);
    owner.run("drop database tlsim_1");
    let done = simulate.run_within(&[&spec, "--real", "--server", &server, "--allow-writes"], LONG);
    assert!([0, 5].contains(&done.code()) && done.out.contains("all of them are right"), "{done:?}");
    assert!(owner.query(made).rows.is_empty());
}

/// Each of two roles has one server, which is too few, and four from the reload on; then PostgreSQL is restarted under the load.
const DISTURBED: &str = "title = 'disturbed'\nseed = 4\nduration = '3 s'\nwarm_up = '0.2 s'\n[pooler]\ndefault_pool_size = 1\n\
    [[databases]]\n[[databases.tenants]]\ncount = 2\narrivals = { poisson = 120 }\n\
    [[databases.tenants.transactions]]\nservice = '10 ms'\n\
    [[events]]\nkind = 'reload'\nat = '0.8 s'\ndefault_pool_size = 4\n\
    [[events]]\nkind = 'restart'\nat = '1.8 s'\ndown = '0.3 s'\n";

pub(crate) fn simulate_restarts_the_server_and_reloads_the_pooler_under_the_load(house: &House) {
    let Some(simulate) = Command::of(house, "simulate") else { return };
    let spec = simulate.file("disturbed.toml", DISTURBED);
    let mut words = vec![spec.as_str(), "--real", "--target", "direct", "--target", "trunkline", "--format", "json"];
    if ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].iter().any(|path| std::path::Path::new(path).is_file()) {
        words.extend(["--target", "pgbouncer"]);
    }
    let ended = simulate.run_within(&words, LONG);
    assert!([0, 5].contains(&ended.code()), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(report["books_balance"], true, "{report:#}");
    for study in studies(&report) {
        let (run, setting) = (&study["real"][0], &study["settings"][0]);
        assert_eq!((&run["posts"]["lost"], &run["posts"]["unexplained"]), (&0.into(), &0.into()), "{run:#}");
        assert!(setting["transactions"]["done"].as_u64() > Some(100), "{setting:#}");
        if run["target"] == "direct" {
            // Transactions that PostgreSQL was running when it stopped, or that came while it was down.
            assert!(run["errors"].as_object().is_some_and(|errors| !errors.is_empty()), "{run:#}");
        } else {
            assert!(setting["servers_peak"].as_u64() > Some(2), "the reload changed nothing: {study:#}");
        }
        println!("{}: {}", run["target"], run["errors"]);
    }
}

pub(crate) fn simulate_tells_what_it_cannot_play_before_it_begins(house: &House) {
    let Some(simulate) = Command::of(house, "simulate") else { return };
    let spec = simulate.file("disturbed.toml", DISTURBED);
    let server = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", house.postgres.port());
    let ended = simulate.run(&[&spec, "--real", "--server", &server, "--allow-writes"]);
    assert!(ended.code() == 2 && ended.err.contains("never one that --server names"), "{ended:?}");
    let ended = simulate.run(&[&spec, "--real", "--target", "pgbouncer=/etc/pgbouncer/pgbouncer.ini"]);
    assert!(ended.code() == 2 && ended.err.contains("not that of a given file"), "{ended:?}");
    let ended = simulate.run(&[&spec, "--real", "--target", "odyssey=/nowhere/odyssey"]);
    assert!(ended.code() == 3 && ended.err.contains("there is no program /nowhere/odyssey"), "{ended:?}");
    // A program that is no Odyssey: what it says is told.
    let impostor = simulate.file("odyssey", "#!/bin/sh\necho 'error: unknown option daemonize' >&2\nexit 1\n");
    std::fs::set_permissions(&impostor, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    let ended = simulate.run_within(&[&spec, "--real", "--target", &format!("odyssey={impostor}")], LONG);
    assert!(ended.code() == 3 && ended.err.contains("odyssey did not start"), "{ended:?}");
    assert!(ended.err.contains("unknown option daemonize"), "{ended:?}");
}

/// Six different loads: a queue at four fifths of what its pool can do, bursts, tenants that evict each other's servers, a closed loop with client pools,
/// servers that are closed for idleness and age, and a noisy neighbour with a storm of logins.
const SIX: [(&str, &str); 6] = [
    (
        "one pool",
        "[pooler]\ndefault_pool_size = 4\n[[databases]]\n[[databases.tenants]]\narrivals = { poisson = 150 }\n\
         [[databases.tenants.transactions]]\nservice = { exponential = '20 ms' }\n",
    ),
    (
        "bursts",
        "[pooler]\ndefault_pool_size = 3\n[[databases]]\n[[databases.tenants]]\ncount = 3\n\
         arrivals = { bursts = 60, on = '1 s', off = '2 s' }\n\
         [[databases.tenants.transactions]]\nstatements = 2\nservice = { lognormal = '12 ms', scv = 1 }\nthink = '2 ms'\n",
    ),
    (
        "eviction",
        "[pooler]\ndefault_pool_size = 4\nmax_db_connections = 8\n[[databases]]\n[[databases.tenants]]\ncount = 12\n\
         popularity = { zipf = 0.6 }\narrivals = { poisson = 60 }\n\
         [[databases.tenants.transactions]]\nservice = { lognormal = '25 ms', scv = 1 }\n",
    ),
    (
        "closed loop",
        "[pooler]\ndefault_pool_size = 5\n[[databases]]\n[[databases.tenants]]\ncount = 2\nroles = 'shared'\n\
         arrivals = { users = 30, think = { exponential = '100 ms' } }\napplication = { client_pool = 20 }\n\
         [[databases.tenants.transactions]]\nservice = { two_point = ['10 ms', '60 ms'], second = 0.2 }\n",
    ),
    (
        "idle timeout",
        "[pooler]\ndefault_pool_size = 3\nserver_idle_timeout = 1\nserver_lifetime = 5\n[[databases]]\n[[databases.tenants]]\ncount = 10\n\
         arrivals = { poisson = 20 }\n[[databases.tenants.transactions]]\nstatements = 2\nservice = { exponential = '30 ms' }\nthink = '10 ms'\n",
    ),
    (
        "noisy neighbour",
        "[pooler]\ndefault_pool_size = 4\nmax_db_connections = 10\n[[databases]]\n[[databases.tenants]]\nname = 'quiet'\ncount = 3\n\
         arrivals = { poisson = 60 }\n[[databases.tenants.transactions]]\nservice = { lognormal = '15 ms', scv = 1 }\n\
         [[databases.tenants]]\nname = 'noisy'\narrivals = { poisson = 60 }\n\
         [[databases.tenants.transactions]]\nservice = { lognormal = '30 ms', scv = 1 }\n\
         [[events]]\nkind = 'rate'\ntenants = 'noisy'\nat = '10 s'\nfactor = 2\nlasting = '5 s'\n\
         [[events]]\nkind = 'storm'\ntenants = 'quiet'\nat = '20 s'\nclients = 30\nwithin = '1 s'\n",
    ),
];

// Only when named.
pub(crate) fn the_virtual_run_agrees_with_the_real_one_on_six_specs(house: &House) {
    let Some(simulate) = Command::of(house, "simulate") else { return };
    for (number, (title, text)) in (11..).zip(SIX) {
        let text = format!("title = '{title}'\nseed = {number}\nduration = '30 s'\nwarm_up = '3 s'\n{text}");
        let spec = simulate.file("one-of-six.toml", &text);
        let mut report = Value::Null;
        // A generator that was late, which a busy machine makes it, says so; what it measured is not compared.
        let mut is_void = true;
        for _ in 0..ATTEMPTS {
            let ended = simulate.run_within(&[&spec, "--real", "--format", "json"], LONG);
            report = serde_json::from_str(&ended.out).expect("JSON");
            assert!([0, 5].contains(&ended.code()), "{title}: {}", report["chapters"][0]["words"]);
            is_void = ended.code() != 0;
            if !is_void {
                break;
            }
            println!("{title}: void, {}", report["chapters"][0]["studies"][0]["real"][0]["void"]);
        }
        assert!(!is_void, "{title}: each of {ATTEMPTS} runs is void: the machine is too busy for a comparison");
        agrees(&report, title, "p99 wait, ms", 0.2);
        agrees(&report, title, "servers opened a second", 0.2);
    }
}

// Only when named.
pub(crate) fn the_knee_of_tenants_with_one_connection_is_the_same_for_real(house: &House) {
    let Some(simulate) = Command::of(house, "simulate") else { return };
    let text = "title = 'one each'\nseed = 5\nduration = '20 s'\nwarm_up = '4 s'\n[[databases]]\n[[databases.tenants]]\ncount = 5\n\
        arrivals = { poisson = 60 }\napplication = { client_pool = 1 }\n\
        [[databases.tenants.transactions]]\nservice = '4 ms'\n[knee]\nchurn_max = 1\ncpu_within = 1e3\n";
    let spec = simulate.file("one-each.toml", text);
    let words = [&spec, "--real", "--sweep", "conns_per_tenant=0.6..1.4:0.2", "--format", "json"];
    let ended = simulate.run_within(&words, LONG);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    let (real, expected) = figure(&report, "knee");
    // A slot is a fifth of a connection for each of five tenants.
    assert!((real - expected).abs() < 0.21 && (expected - 1.0).abs() < 0.21, "{real} and {expected}");
}

/// The real figure and the virtual one.
fn figure(report: &Value, what: &str) -> (f64, f64) {
    let chapters = report["chapters"].as_array().expect("chapters").iter();
    let mut rows = chapters.filter_map(|chapter| chapter["rows"].as_array()).flatten();
    let row = rows.find(|row| row[2] == what).unwrap_or_else(|| panic!("no {what} in {report:#}"));
    let number = |place: usize| row[place].as_str().and_then(|text| text.parse().ok()).expect("a number");
    (number(3), number(4))
}

/// The real figure is within a part of the virtual one, or both are so little that chance makes the difference: a handful of openings in
/// half a minute.
fn agrees(report: &Value, title: &str, what: &str, part: f64) {
    let (real, expected) = figure(report, what);
    println!("{title}, {what}: {real} for real, {expected} on the virtual clock");
    let is_near = (real - expected).abs() <= part * expected || real.max(expected) < 0.3;
    assert!(is_near, "{title}, {what}: {real} for real, {expected} on the virtual clock");
}

const ATTEMPTS: u32 = 3;

/// A server is made, and a spec is played in real time.
const LONG: Duration = Duration::from_secs(180);

/// The studies of all chapters with one study.
fn studies(report: &Value) -> Vec<Value> {
    let chapters = report["chapters"].as_array().expect("chapters").iter();
    let single = chapters.filter_map(|chapter| chapter["studies"].as_array().filter(|studies| studies.len() == 1));
    single.flatten().cloned().collect()
}
