//! `trunkline advise`: run as an operator runs it, on histories, specs and configurations of the disk, and on a console.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tests::authority::Authority;
use tests::collector::Collector;
use tests::place::free_port;
use tests::pooler::Ini;
use tests::program::{Bench, pgbench, run};
use tests::wait::LIMIT;

use crate::house::House;
use crate::operation::command::Command;

/// A history of 160 transactions a second that take 20 ms each.
fn history(readings: u32) -> String {
    let mut text = String::new();
    for reading in 0..readings {
        let (at, count) = (reading * 10, reading * 1600);
        let _ = write!(
            text,
            "# {at}\ndatabase,total_xact_count,total_xact_time\napp,{count},{}\n\
             database,user,cl_active,cl_waiting,sv_active\napp,me,40,0,3\n",
            count * 20_000
        );
    }
    text
}

pub(crate) fn advise_sizes_a_pool_by_a_history_and_changes_only_its_lines(house: &House) {
    let Some(advise) = Command::of(house, "advise") else { return };
    let (history, ini) = (
        advise.file("history.csv", &history(31)),
        advise
            .file("app.ini", "; kept\n[databases]\napp = host=db password=hunter2\n[pgbouncer]\nlisten_port = 6432\n"),
    );
    let words = ["--history", &history, "--slo", "400", "--cores", "8", "--computing", "80%", "--config", &ini];
    let ended = advise.run(&words);
    assert_eq!(ended.code(), 0, "{ended:?}");
    for part in [
        "(approximate)",
        "pool_size of app/me: 5",
        "<- binds",
        "M/M/c",
        "2 x cores + spindles",
        "\n+app = host=db password",
    ] {
        assert!(ended.out.contains(part), "{part:?} is not in:\n{}", ended.out);
    }
    let diff = advise.run(&[&words[..], &["--format", "diff"]].concat());
    let changed: Vec<&str> =
        diff.out.lines().filter(|line| line.starts_with('-') && !line.starts_with("---")).collect();
    assert_eq!(changed, ["-app = host=db password=hunter2"], "{diff:?}");
    let full = advise.run(&[&words[..], &["--max-connections", "6"]].concat());
    assert!(full.code() == 1 && full.out.contains("no size works: 5 are needed"), "{full:?}");
}

pub(crate) fn advise_sizes_a_pool_by_a_simulation_and_tries_it(house: &House) {
    let Some(advise) = Command::of(house, "advise") else { return };
    let spec = advise.file(
        "spec.toml",
        "duration = \"2 min\"\n[server]\nround_trip = 0\n[[databases]]\nname = \"db\"\n[[databases.tenants]]\nroles = \"shared\"\n\
         arrivals = { poisson = 160 }\n[[databases.tenants.transactions]]\nservice = { exponential = \"20 ms\" }\n",
    );
    let ended = advise.run(&["--from-simulation", &spec, "--slo", "400", "--apply-check", "--format", "json"]);
    let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
    assert_eq!(
        (ended.code(), &json["schema"], &json["is_approximate"]),
        (0, &"trunkline.advice".into(), &false.into())
    );
    // Theory says 5.
    let size = json["plan"]["databases"]["db"]["pool_size"].as_u64().expect("a size");
    assert!((4..=6).contains(&size), "{json:#}");
    assert!(json["apply_check"]["regret"].as_f64().is_some_and(|regret| regret <= 0.05), "{json:#}");
}

pub(crate) fn advise_asks_by_tls_what_wants_tls(house: &House) {
    let Some(_) = Command::of(house, "advise") else { return };
    house.postgres.database("sealed_advice");
    let authority = Authority::new("an authority");
    let files = authority.signs("pooler", &["127.0.0.1"]).files(&house.place);
    let ini = Ini::new(&house.line("sealed_advice"))
        .set("client_tls_sslmode = require")
        .set(&format!("client_tls_cert_file = {}", files.certificate.display()))
        .set(&format!("client_tls_key_file = {}", files.key.display()));
    let pooler = house.start(&ini);
    let (ours, other) = (authority.file(&house.place), Authority::new("another authority").file(&house.place));
    let advise = |authority: &Path, words: &[&str]| {
        let mut command = house.place.command(house.place.pooler(), "KILL");
        run(command.env("SSL_CERT_FILE", authority).arg("advise").args(words), LIMIT)
    };
    let console = |more: &str| format!("host=127.0.0.1 port={} user=stats {more}", pooler.port());
    let verified = console(&format!("sslmode=verify-full sslrootcert={}", ours.display()));
    // There is no demand to conclude from, which is known because the console has answered.
    let ended = advise(&ours, &["--pooler", &verified, "--interval", "1"]);
    assert_eq!(ended.code(), 5, "{ended:?}");
    let ended = advise(&ours, &["--pooler", &console("sslmode=disable"), "--interval", "1"]);
    assert!(ended.code() == 3 && ended.err.contains("SSL required"), "{ended:?}");
    // What answers here is no metrics page, which is known because its certificate was accepted.
    let collector = Collector::open_secured(&authority.signs("page", &["localhost"]));
    let url = collector.setting().split_once("https://").map(|(_, rest)| format!("https://{rest}")).expect("a URL");
    let ended = advise(&other, &["--metrics", &url, "--interval", "1"]);
    assert!(ended.code() == 3 && ended.err.contains("certificate"), "{ended:?}");
    let ended = advise(&ours, &["--metrics", &url, "--interval", "1"]);
    assert!(!ended.err.contains("certificate") && ended.code() != 0, "{ended:?}");
}

pub(crate) fn advise_concludes_nothing_from_too_little(house: &House) {
    let Some(advise) = Command::of(house, "advise") else { return };
    let pooler = house.pooler("app", &[]);
    let console = format!("host=127.0.0.1 port={} user=admin", pooler.port());
    let ended = advise.run(&["--pooler", &console, "--interval", "0.2"]);
    assert!(ended.code() == 5 && ended.out.contains("too little was observed"), "{ended:?}");
    let short = advise.file("short.csv", &history(1));
    let ended = advise.run(&["--history", &short]);
    assert!(ended.code() == 3 && ended.err.contains("two readings are needed"), "{ended:?}");
    let ended = advise.run(&["--metrics", "http://127.0.0.1:1/metrics"]);
    assert!(ended.code() == 3 && ended.err.contains("http://127.0.0.1:1/metrics"), "{ended:?}");
    let ended = advise.run(&["--histroy", &short]);
    assert!(ended.code() == 2 && ended.err.contains("did you mean --history?"), "{ended:?}");
}

/// Four clients never have more than four servers, whoever observes them.
pub(crate) fn advise_observes_a_pooler_at_work(house: &House) {
    let Some(advise) = Command::of(house, "advise") else { return };
    let http = free_port();
    let pooler = house.pooler("advised", &[&format!("http_port = {http}")]);
    let mut command = pgbench(&pooler, "u", "advised");
    let bench = Bench::start(command.args(["-c", "4", "-f", "/dev/stdin"]), "SELECT pg_sleep(0.002);\n");
    pooler.await_pool("advised", "cl_active", "4");
    let url = format!("http://127.0.0.1:{http}/metrics");
    let console = format!("host=127.0.0.1 port={} user=admin", pooler.port());
    let server = format!("host=127.0.0.1 port={} user=u dbname=advised", house.postgres.port());
    for (source, name) in [("--metrics", url), ("--pooler", console)] {
        let words = ["--interval", "1", "--slo", "100", "--server", &server, "--format", "json"];
        let ended = advise.run(&[&[source, &name][..], &words].concat());
        let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
        assert_eq!((&json["pools"][0]["subject"], &json["is_approximate"]), (&"advised/u".into(), &true.into()));
        let lent = json["observed"]["lent_mean"].as_f64().expect("a number");
        assert!((0.5..=4.1).contains(&lent), "{source}: {json:#}");
        let notes = json["notes"].to_string();
        assert!(notes.contains("readings") && notes.contains("apart, not of every change"), "{source}: {notes}");
        assert_eq!(notes.contains("SHOW HISTOGRAMS"), source == "--pooler", "{notes}");
        let of_four = json["pools"][0]["candidates"].as_array().expect("candidates");
        let peak = of_four.iter().find(|one| one["name"] == "peak").and_then(|one| one["value"].as_f64());
        assert!(peak.is_some_and(|peak| (1.0..=4.0).contains(&peak)), "{source}: {of_four:?}");
        let ceilings = json["total"]["candidates"].as_array().expect("candidates");
        let slots = ceilings.iter().find(|one| one["name"] == "max_connections").expect("the server was asked");
        assert!(slots["value"].as_f64().is_some_and(|slots| slots > 10.0), "{slots}");
        println!("{source}: {lent} servers lent in the mean");
    }
    bench.end();
}
