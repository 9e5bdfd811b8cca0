//! `trunkline capacity`: run as an operator runs it, on poolers and servers whose limit is known.

use std::time::Duration;

use serde_json::Value;
use tests::authority::Authority;
use tests::pooler::Ini;
use tests::postgres::Postgres;
use tests::program::{Ended, run};
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::operation::command::Command;

const SLEEP: &str = "select pg_sleep(-ln(1 - random()) * 0.04)";

/// Runs the command. It takes longer than other programs do.
pub(super) fn measure(house: &House, words: &[&str]) -> Ended {
    let mut command = house.place.command(house.place.pooler(), "KILL");
    run(command.arg("capacity").args(words), Duration::from_secs(300))
}

/// Six servers of 40 ms each. What a crowded machine does to the generator is told and not judged.
pub(crate) fn capacity_finds_the_knee_where_theory_has_it(house: &House) {
    let Some(_) = Command::of(house, "capacity") else { return };
    let pooler = house.pooler("loaded", &["pool_mode = transaction", "default_pool_size = 6"]);
    let at =
        |port: u16, user: &str, database: &str| format!("host=127.0.0.1 port={port} user={user} dbname={database}");
    let target = at(pooler.port(), "u", "loaded");
    let (console, server) = (at(pooler.port(), "admin", "pgbouncer"), at(house.postgres.port(), "u", "loaded"));
    let page = house.place.directory().join("capacity.html").display().to_string();
    let ended = measure(
        house,
        &[
            "--target",
            &target,
            "--pooler",
            &console,
            "--server",
            &server,
            "--cores",
            "64",
            "--statement",
            SLEEP,
            "--slo",
            "p90 150ms",
            "--clients",
            "16",
            "--quick",
            "--minutes",
            "0.25",
            "--now",
            "1",
            "--growth",
            "10%/month",
            "--tables",
            "--format",
            "json",
            "--output",
            &page,
        ],
    );
    let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
    let measured = &json["measurement"];
    assert_eq!((&json["schema"], &measured["slo"]["percentile"]), (&"trunkline.capacity".into(), &90.0.into()));
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("closed loop") && !html.contains("http:"), "{html}");
    wait_until("its sessions have ended", LIMIT, || {
        house
            .postgres
            .value("select count(*) from pg_stat_activity where application_name = 'trunkline capacity, looking on'")
            == "0"
    });
    // Sleeping needs no processor, so that the pool is what limits on any machine.
    assert_eq!(measured["limit"]["resource"], "pool", "{:#}", measured["limit"]);
    let service = measured["bound"]["service"].as_f64().expect("a service");
    assert!((0.03..0.3).contains(&service), "{:#}", measured["bound"]);
    if measured["search"]["end"] == "void" || measured["knee"].is_null() {
        let why = measured["search"]["why"].as_str().unwrap_or("there was too little time");
        assert!([1, 5].contains(&ended.code()), "{ended:?}");
        println!("not judged on this machine: {why}");
        return;
    }
    let theory = measured["search"]["compare"]["mmc"].as_f64().expect("what theory says of the measured service");
    let knee = measured["knee"]["rate"].as_f64().expect("a knee");
    assert!((theory * 0.4..theory * 1.7).contains(&knee), "{knee}, and {theory} in theory: {measured:#}");
    assert_eq!((ended.code(), json["headroom"]["now"].as_f64()), (0, Some(1.0)), "{ended:?}");
    assert!(html.contains("<svg") && html.contains("Response times over load"), "{html}");
    println!("knee {knee:.1}/s; theory has {theory:.1}/s at the measured {:.1} ms", service * 1e3);
}

pub(crate) fn capacity_writes_only_with_the_word_and_leaves_nothing(house: &House) {
    let Some(_) = Command::of(house, "capacity") else { return };
    house.postgres.database("precious");
    let mut owner = house.postgres.client("precious");
    owner.run("create table kept (n int)");
    let target = format!("host=127.0.0.1 port={} user=u dbname=precious", house.postgres.port());
    let measure = |words: &[&str]| {
        measure(
            house,
            &[&["--target", &target, "--quick", "--minutes", "0.05", "--clients", "2", "--slo", "p90 1s"], words]
                .concat(),
        )
    };
    let ended = measure(&["--statement", "insert into kept values (1)"]);
    assert!(ended.code() == 3 && ended.err.contains("25006"), "{ended:?}");
    let ended = measure(&["--statement", "commit; insert into kept values (1)"]);
    assert!(ended.code() == 2 && ended.err.contains("it must be one statement"), "{ended:?}");
    let ended = measure(&["--allow-writes"]);
    assert!(ended.code() == 3 && ended.err.contains("say --production precious"), "{ended:?}");
    let ended = measure(&["--allow-writes", "--production", "other"]);
    assert!(ended.code() == 3 && ended.err.contains("but the database is \"precious\""), "{ended:?}");
    let ended = measure(&["--allow-writes", "--production", "precious", "--format", "json"]);
    let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
    assert!(json["measurement"]["bound"]["rate"].as_f64().is_some_and(|rate| rate > 1.0), "{json:#}");
    assert_eq!(owner.value("select count(*) from kept"), "0");
    assert_eq!(owner.value("select count(*) from pg_namespace where nspname = 'trunkline_capacity'"), "0");
}

/// Tables whose pages are counted: 300 and 700 that are read again and again, 500 that are read once. A statement reads one whole table.
pub(crate) fn capacity_knows_the_shares_and_the_hot_set_by_construction(house: &House) {
    let Some(_) = Command::of(house, "capacity") else { return };
    // A server of its own: the buffers of another one have the tables of all tests.
    let mut postgres = Postgres::start(&house.place);
    postgres.query("alter system set shared_preload_libraries = 'pg_stat_statements'");
    postgres.crash();
    postgres.restart(&house.place);
    postgres.database("shares");
    let mut owner = postgres.client("shares");
    for statement in ["create extension pg_buffercache", "create extension pg_stat_statements"] {
        owner.run(statement);
    }
    for (table, pages) in [("small", 300), ("large", 700), ("once", 500)] {
        // One row fills a page.
        owner.run(&format!("create table {table} (n int, t text) with (autovacuum_enabled = off)"));
        owner.run(&format!("alter table {table} alter t set storage plain"));
        owner.run(&format!("insert into {table} select n, repeat('x', 5000) from generate_series(1, {pages}) n"));
        assert_eq!(owner.value(&format!("select pg_relation_size('{table}') / 8192")), pages.to_string());
    }
    owner.run("checkpoint");
    drop(owner);
    postgres.crash();
    postgres.restart(&house.place);
    postgres.client("shares").run("select count(n) from once");
    let at = |user: &str| format!("host=127.0.0.1 port={} user={user} dbname=shares", postgres.port());
    let ended = measure(
        house,
        &[
            "--target",
            &at("u"),
            "--server",
            &at("postgres"),
            "--statement",
            "select count(n) from small",
            "--statement",
            "select count(n) from large",
            "--slo",
            "p90 1s",
            "--clients",
            "2",
            "--quick",
            "--minutes",
            "0.05",
            "--tables",
            "--hot-set",
            "--format",
            "json",
        ],
    );
    let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
    let told = &json["measurement"]["attribution"];
    let of = |list: &str, key: &str, name: &str, value: &str| {
        let rows = told[list].as_array().unwrap_or_else(|| panic!("no {list} in {told:#}")).iter();
        rows.filter(|row| row[key] == format!("public.{name}")).find_map(|row| row[value].as_f64())
    };
    for (name, share, pages) in [("small", 0.3, 300.0), ("large", 0.7, 700.0)] {
        let blocks = of("tables", "table", name, "blocks").expect("a share");
        assert!((blocks - share).abs() < 0.02, "{name}: {blocks} of the blocks: {told:#}");
        assert!(of("tables", "table", name, "time_estimate").is_some_and(|time| time > 0.05), "{name}: {told:#}");
        let hot = of("hot_set", "relation", name, "used_often").expect("buffers");
        assert!((hot - pages).abs() <= pages * 0.05, "{name}: {hot} buffers: {told:#}");
    }
    let (buffers, hot) =
        (of("hot_set", "relation", "once", "buffers"), of("hot_set", "relation", "once", "used_often"));
    assert!(buffers.is_some_and(|all| all >= 500.0) && hot.is_none_or(|hot| hot < 25.0), "{told:#}");
    assert!(told["writing"]["log_bytes"].as_f64().is_some_and(|bytes| bytes >= 0.0), "{told:#}");
}

/// A pooler that lets nobody in without TLS.
pub(crate) fn a_load_is_encrypted_as_its_connection_string_asks(house: &House) {
    let Some(_) = Command::of(house, "capacity") else { return };
    house.postgres.database("sealed");
    let authority = Authority::new("an authority");
    let files = authority.signs("pooler", &["127.0.0.1"]).files(&house.place);
    let ini = Ini::new(&house.line("sealed"))
        .set("client_tls_sslmode = require")
        .set(&format!("client_tls_cert_file = {}", files.certificate.display()))
        .set(&format!("client_tls_key_file = {}", files.key.display()));
    let pooler = house.start(&ini);
    let ours = authority.file(&house.place).display().to_string();
    let other = Authority::new("another authority").file(&house.place).display().to_string();
    let target = |port: u16, more: &str| format!("host=127.0.0.1 port={port} user=u dbname=sealed {more}");
    let run = |target: &str| {
        measure(house, &["--target", target, "--clients", "2", "--quick", "--minutes", "0.05", "--format", "json"])
    };
    let ended = run(&target(pooler.port(), &format!("sslmode=verify-full sslrootcert={ours}")));
    let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
    assert!(json["measurement"]["bound"]["rate"].as_f64().is_some_and(|rate| rate > 1.0), "{json:#}");
    for (port, mode, part) in [
        (pooler.port(), "sslmode=disable".to_owned(), "SSL required"),
        (pooler.port(), format!("sslmode=verify-ca sslrootcert={other}"), "certificate"),
        (house.postgres.port(), "sslmode=require".to_owned(), "it does not speak TLS, which sslmode requires"),
        (
            pooler.port(),
            "sslmode=verify-full sslrootcert=/nowhere".to_owned(),
            "the file of authorities /nowhere does not exist",
        ),
    ] {
        let ended = run(&target(port, &mode));
        assert!(ended.code() == 3 && ended.err.contains(part), "{mode}: {ended:?}");
    }
}

pub(crate) fn capacity_tells_when_a_history_reaches_its_limits(house: &House) {
    let Some(capacity) = Command::of(house, "capacity") else { return };
    let rows: String =
        (0..90_u32).map(|day| format!("{},{}\n", day * 86_400, 100.0 + f64::from(day) + f64::from(day % 3))).collect();
    let file = capacity.file("history.csv", &format!("time,connections\n{rows}"));
    let ended = capacity.run(&["--forecast", &file, "--soft", "220", "--hard", "250"]);
    assert!(ended.code() == 0 && ended.out.contains("hard limit 250: about 1970-05-"), "{ended:?}");
    let ended = capacity.run(&["--forecast", &file, "--hard", "150"]);
    assert!(ended.code() == 1 && ended.out.contains("reached already"), "{ended:?}");
    let ended = capacity.run(&["--forcast", &file]);
    assert!(ended.code() == 2 && ended.err.contains("did you mean --forecast?"), "{ended:?}");
    let ended = capacity.run(&["--target", "host=127.0.0.1 port=1 user=u", "--quick"]);
    assert!(ended.code() == 3 && ended.err.contains("refuses connections"), "{ended:?}");
}
