//! `trunkline record` and `trunkline capacity --replay`, run as an operator runs them.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tests::client::Client;
use tests::message::{bind, execute, parse, sync};
use tests::pooler::Pooler;
use tests::program::Ended;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::operation::command::Command;

const GOODS: &str = "create table goods (id int primary key, name text);
    insert into goods select g, 'name ' || g from generate_series(1, 100) g";

/// What a client asks for, over and over.
fn work(client: &mut Client, number: u64) {
    client.run(&format!("select name from goods where id = {}", number % 100 + 1));
    client.run("begin; savepoint a");
    client.run("rollback");
    client.run("begin");
    client.run("select count(*)\n from goods -- a comment");
    client.run("commit");
    client.run(&format!("update goods set name = 'topsecret' || id where id = {number} + 1000000"));
    let asked =
        [parse("", "select name from goods where name = $1"), bind("", "", &["name 42"]), execute("", 0), sync()];
    client.peer.send(&asked.concat());
    client.answer();
}

/// Records what a client does until the recording is over.
fn recorded(record: &Command<'_>, pooler: &Pooler, database: &str, more: &[&str]) -> (Ended, Value) {
    let console = format!("host=127.0.0.1 port={} user=admin", pooler.port());
    let words = ["--pooler", &console, "--database", database, "--seconds", "2"];
    let is_over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = pooler.client("u", database);
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                work(&mut client, number);
            }
        });
        let ended = record.run(&[&words[..], more].concat());
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    let json = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
    (ended, json)
}

pub(crate) fn a_recording_has_no_value_and_is_played_again(house: &House) {
    let Some(record) = Command::of(house, "record") else { return };
    let Some(capacity) = Command::of(house, "capacity") else { return };
    let pooler = house.pooler("recorded", &[]);
    house.postgres.client("recorded").run(GOODS);
    let (ended, json) = recorded(&record, &pooler, "recorded", &[]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(!ended.out.contains("topsecret") && !ended.out.contains("name 42"), "{}", ended.out);
    let texts: Vec<String> = json["statements"].as_array().expect("statements").iter().map(shown).collect();
    for text in
        ["select name from goods where id = ?", "select name from goods where name = ?", "select count(*) from goods"]
    {
        assert!(texts.iter().any(|known| known == text), "{text} is not in {texts:?}");
    }
    wait_until("values are concealed again", LIMIT, || setting(&pooler, "trace_values") == "0");
    let file = capacity.file("recording.json", &ended.out);
    let direct = format!("host=127.0.0.1 port={} user=u dbname=recorded", house.postgres.port());
    let pooled = format!("host=127.0.0.1 port={} user=u dbname=recorded", pooler.port());
    let before =
        house.postgres.client("recorded").value("select md5(string_agg(g::text, ',' order by id)) from goods g");
    let words = ["--replay", &file, "--target", &pooled, "--against", &direct, "--speed", "4", "--json"];
    let ended = capacity.run(&words);
    let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
    // A busy machine makes the generator late, which makes the figures void and nothing else.
    assert!([0, 4].contains(&ended.code()), "{json:#}");
    let compared = &json["comparison"];
    assert!(compared["compared"].as_u64().is_some_and(|count| count > 10), "{json:#}");
    assert_eq!(compared["different"].as_array().map(Vec::len), Some(0), "{json:#}");
    assert_eq!(json["targets"][0]["errors"], serde_json::json!({}), "{json:#}");
    assert!(json["left_out"]["writes"].as_u64().is_some_and(|count| count > 0), "{json:#}");
    let after =
        house.postgres.client("recorded").value("select md5(string_agg(g::text, ',' order by id)) from goods g");
    assert_eq!(before, after);
}

pub(crate) fn a_replay_of_literals_tells_targets_apart(house: &House) {
    let Some(record) = Command::of(house, "record") else { return };
    let Some(capacity) = Command::of(house, "capacity") else { return };
    let pooler = house.pooler("recorded_literals", &[]);
    house.postgres.client("recorded_literals").run(GOODS);
    let (ended, _) = recorded(&record, &pooler, "recorded_literals", &["--values", "literals"]);
    assert!(ended.code() == 0 && ended.out.contains("'name 42'"), "{ended:?}");
    house.postgres.query("create database recorded_others");
    house.postgres.client("recorded_others").run(&format!("{GOODS}; update goods set name = 'changed' where id <> 42"));
    let file = capacity.file("literals.json", &ended.out);
    let place = |database| format!("host=127.0.0.1 port={} user=u dbname={database}", house.postgres.port());
    let words = [
        "--replay",
        &file,
        "--target",
        &place("recorded_literals"),
        "--against",
        &place("recorded_others"),
        "--speed",
        "4",
    ];
    let ended = capacity.run(&words);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.out.contains("select name from goods where id = ?\n"), "{ended:?}");
    assert!(!ended.out.contains("where name = ?"), "{ended:?}");
}

pub(crate) fn a_recording_outlives_its_pooler(house: &House) {
    let Some(record) = Command::of(house, "record") else { return };
    let pooler = house.pooler("outlived", &[]);
    house.postgres.client("outlived").run(GOODS);
    let console = format!("host=127.0.0.1 port={} user=admin", pooler.port());
    let ended = std::thread::scope(|scope| {
        let words = ["--pooler", &console, "--database", "outlived", "--seconds", "600"];
        let recording = scope.spawn(move || record.run(&words));
        pooler.await_log("TRACE DATABASE");
        let mut client = pooler.client("u", "outlived");
        (0..100).for_each(|number| work(&mut client, number));
        drop(pooler);
        recording.join().expect("a recording")
    });
    assert!(ended.code() == 0 && ended.err.contains("what came before is kept"), "{ended:?}");
    assert!(ended.err.contains("SET trace_values = 0") && ended.out.contains("select name from goods"), "{ended:?}");
}

pub(crate) fn what_cannot_be_recorded_or_played_is_told(house: &House) {
    let Some(record) = Command::of(house, "record") else { return };
    let Some(capacity) = Command::of(house, "capacity") else { return };
    let pooler = house.pooler("unrecorded", &[]);
    let console = format!("host=127.0.0.1 port={} user=admin", pooler.port());
    let ended = record.run(&["--pooler", &console, "--database", "nobody", "--seconds", "1"]);
    assert!(ended.code() == 3 && ended.err.contains("nobody"), "{ended:?}");
    assert_eq!(setting(&pooler, "trace_values"), "0");
    let ended =
        record.run(&["--pooler", "host=127.0.0.1 port=1 user=admin password=hunter2", "--database", "unrecorded"]);
    assert!(ended.code() == 3 && ended.err.contains("127.0.0.1:1") && !ended.err.contains("hunter2"), "{ended:?}");
    let none = capacity.file("none.json", "{\"schema\": 7}");
    let ended = capacity.run(&["--replay", &none, "--target", "host=127.0.0.1 port=1"]);
    assert!(ended.code() == 2 && ended.err.contains("none.json: no recording"), "{ended:?}");
}

fn shown(statement: &Value) -> String {
    let parts = statement["parts"].as_array().expect("parts");
    parts.iter().map(|part| part.as_str().expect("a text")).collect::<Vec<_>>().join("?")
}

fn setting(pooler: &Pooler, name: &str) -> String {
    let answer = pooler.console("SHOW CONFIG");
    let row = answer.rows.iter().find(|row| row[0].as_deref() == Some(name)).expect("a setting");
    row[1].clone().unwrap_or_default()
}
