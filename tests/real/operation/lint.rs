//! `trunkline lint`: run as an operator runs it, on files of the disk.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::runner::skip;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::operation::command::Command;

const CERN: &str = "[databases]\ngitlabhq_production = host=db.cern.example password=hunter2 user=gitlab\n[pgbouncer]\nauth_type = scram-sha-256\n\
    pool_mode = transaction\nmin_pool_size = 21\ndefault_pool_size = 94\nreserve_pool_size = 18\nreserve_pool_timeout = 2\n\
    max_db_connections = 900\nmax_client_conn = 2048\nserver_tls_sslmode = require\ntcp_keepidle = 30\n";

pub(crate) fn lint_judges_a_file_and_tells_its_status(house: &House) {
    let Some(lint) = Command::of(house, "lint") else { return };
    let ini = lint.file("cern.ini", CERN);
    let ended = lint.run(&["--replicas", "3", "--max-connections", "300", &ini]);
    assert_eq!(ended.code(), 2, "{ended:?}");
    for part in [
        "3 processes x (94 + 18) = 336 connections, and PostgreSQL has 297",
        "cern.ini:10: a limit that can never bind",
        "L16 needs --slo",
        "1 error, ",
    ] {
        assert!(ended.out.contains(part), "{part:?} is not in:\n{}", ended.out);
    }
    assert!(!(ended.out + &ended.err).contains("hunter2"), "the password was shown");
    let muted = lint.file("muted.ini", &format!("; lint: ignore L04 the server is larger tomorrow\n{CERN}"));
    let ended = lint.run(&["--replicas", "3", "--max-connections", "300", &muted]);
    assert!(ended.code() == 0 && ended.out.contains("the server is larger tomorrow"), "{ended:?}");
    let ended = lint.run(&["--check", "--lint", &ini]);
    assert!(ended.code() == 0 && ended.out.contains("cern.ini: Trunkline configuration"), "{ended:?}");
}

pub(crate) fn lint_writes_what_programs_read(house: &House) {
    let Some(lint) = Command::of(house, "lint") else { return };
    let ini = lint.file("a.ini", CERN);
    let manifest = lint.file(
        "deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: pgbouncer}\nspec: {replicas: 3}\n",
    );
    let json: Value = serde_json::from_str(&lint.run(&["--format", "json", &ini, &manifest]).out).expect("JSON");
    assert_eq!((&json["schema"], &json["version"]), (&"trunkline.findings".into(), &1.into()));
    assert_eq!(json["examined"].as_array().map(Vec::len), Some(2));
    let report = house.place.directory().join("report.html");
    let ended = lint.run(&["--format", "html", "-o", &report.display().to_string(), &ini]);
    let page = std::fs::read_to_string(&report).expect("a report");
    assert!(ended.out.is_empty() && page.starts_with("<!DOCTYPE html>"), "{ended:?}");
    let sarif: Value = serde_json::from_str(&lint.run(&["--format", "sarif", &ini]).out).expect("SARIF");
    assert_eq!(sarif["version"], "2.1.0");
}

pub(crate) fn lint_reads_what_a_configuration_names(house: &House) {
    let Some(lint) = Command::of(house, "lint") else { return };
    let hba = lint.file("hba.conf", "local all all trust\nhost all all all trust\n");
    let open = lint.file(
        "open.ini",
        &format!("[databases]\na = host=b\n[pgbouncer]\nlisten_addr = *\nauth_type = hba\nauth_hba_file = {hba}\n"),
    );
    let rules = lint.file("rules.conf", "database \"shop\" {\n  user default {\n    authentication \"none\"\n  }\n}\n");
    let odyssey = lint.file("odyssey.conf", &format!("include \"{rules}\"\nlisten {{\n  host \"*\"\n}}\n"));
    let ended = lint.run(&[&open, &odyssey]);
    for part in ["E L18 ", "hba.conf:2: ", "rules.conf:2: ", "authentication none, listen_addr = *"] {
        assert!(ended.out.contains(part), "{part:?} is not in:\n{}", ended.out);
    }
}

pub(crate) fn lint_refuses_what_it_cannot_read_and_judges_the_rest(house: &House) {
    let Some(lint) = Command::of(house, "lint") else { return };
    let ini = lint.file("good.ini", CERN);
    let bomb = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, level| {
        format!("{text}a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(", "))
    });
    let binary = lint.file("binary", "\u{7f}ELF\0\0");
    let words = lint.file("words", "to be or not to be\n");
    let deep = lint.file("deep.yaml", &format!("apiVersion: v1\na: {}", "[".repeat(100_000)));
    let bombed = lint.file("bomb.yaml", &format!("{bomb}replicaCount: 3\n"));
    let ended = lint.run(&[&ini, "/nowhere.ini", &binary, &words, &deep, &bombed, "/dev/zero"]);
    assert_eq!(ended.code(), 3, "{ended:?}");
    for part in [
        "/nowhere.ini: No such file",
        "binary file",
        "words: its kind",
        "deep.yaml: line 2",
        "/dev/zero: it is not a regular file",
    ] {
        assert!(ended.err.contains(part), "{part:?} is not in:\n{}", ended.err);
    }
    assert!(ended.out.contains("good.ini:10") && !ended.err.contains("bomb.yaml"), "{ended:?}");
    let ended = lint.run(&["--replica", "3", &ini]);
    assert!(ended.code() == 4 && ended.err.contains("--replicas"), "{ended:?}");
}

/// Ten times the figure that is promised, since tests run beside others and the program may be built without optimization.
pub(crate) fn lint_judges_ten_thousand_databases_in_a_moment(house: &House) {
    let Some(lint) = Command::of(house, "lint") else { return };
    let databases: String = (0..10_000).map(|n| format!("d{n} = host=h{} min_pool_size={}\n", n % 7, n % 5)).collect();
    let ini = lint.file("many.ini", &format!("[pgbouncer]\nmax_db_connections = 10\n[databases]\n{databases}"));
    let before = Instant::now();
    let ended = lint.run(&["--tenants", "10", &ini]);
    let took = before.elapsed();
    println!("10,000 databases: {took:?}");
    assert!(ended.code() == 2 && took < Duration::from_secs(10), "{took:?} {}", ended.code());
    assert!(ended.out.lines().count() < 300, "{}", ended.out);
}

pub(crate) fn the_log_of_a_start_counts_what_lint_finds(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer judges nothing");
    }
    let pooler = house.start(&house.ini("judged", &["query_wait_timeout = 0"]));
    wait_until("the log has the line", LIMIT, || pooler.log().contains("LOG lint: "));
    let log = pooler.log();
    let line = log.lines().find(|line| line.contains("LOG lint: ")).expect("a line");
    let command =
        line.split_once("; trunkline lint ").and_then(|(_, rest)| rest.strip_suffix(" shows them")).expect("a command");
    let words: Vec<&str> = command.split_whitespace().collect();
    let lint = Command::of(house, "lint").expect("ours");
    assert!(lint.run(&words).out.contains("query_wait_timeout = 0"), "{line}");
}
