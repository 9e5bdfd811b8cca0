//! Lines of the log as JSON objects.

use serde_json::Value;
use tests::client::Client;
use tests::pooler::Pooler;

use crate::house::House;

/// The JSON objects of a log, one per line.
fn objects(pooler: &Pooler) -> Vec<Value> {
    let log = pooler.log();
    let lines = log.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn said(objects: &[Value], text: &str) -> Value {
    let fits = |object: &&Value| object["message"].as_str().is_some_and(|message| message.contains(text));
    objects.iter().find(fits).unwrap_or_else(|| panic!("no {text:?}: {objects:?}")).clone()
}

pub(crate) fn each_line_is_an_object_whatever_a_client_calls_itself(house: &House) {
    let pooler = house.pooler("json", &["log_format = json"]);
    pooler.client("u", "json").run("select 1");
    let hostile = "x\",\"level\":\"FATAL\n2026-01-01 00:00:00.000 UTC [1] LOG all is well\u{1b}[2J/@C-0x1: ";
    let refused = Client::try_login(pooler.address(), &[("user", hostile), ("database", "no/such@")]);
    assert!(refused.is_err());
    pooler.await_log("client unexpected eof");
    pooler.await_log("login failed: db=no");
    let (objects, pid) = (objects(&pooler), u64::from(pooler.pid()));
    assert_eq!(objects.len(), pooler.log().lines().count(), "each line is one");
    for object in &objects {
        let keys: Vec<_> = object.as_object().expect("an object").keys().map(String::as_str).collect();
        let known = ["time", "level", "pid", "id", "database", "user", "address", "message"];
        assert!(keys.iter().all(|key| known.contains(key)), "{object}");
        assert_eq!(object["pid"].as_u64(), Some(pid), "{object}");
        let time = object["time"].as_str().expect("a time");
        assert!(time.len() >= 29 && time.as_bytes()[10] == b'T', "{time}");
    }
    let attempt = said(&objects, "login attempt: db=json user=u");
    assert_eq!((attempt["level"].as_str(), attempt["database"].as_str()), (Some("LOG"), Some("json")));
    assert_eq!(attempt["user"].as_str(), Some("u"));
    assert!(attempt["id"].as_str().is_some_and(|id| id.starts_with("C-0x")), "{attempt}");
    assert!(attempt["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")), "{attempt}");
    let server = said(&objects, "new connection to server");
    assert!(server["id"].as_str().is_some_and(|id| id.starts_with("S-0x")), "{server}");
    assert!(said(&objects, "process up")["id"].is_null());
    let refusal = said(&objects, "login failed: db=no");
    assert_eq!((refusal["user"].as_str(), refusal["database"].as_str()), (Some(hostile), Some("no/such@")));
}

pub(crate) fn set_and_a_reload_change_how_lines_look(house: &House) {
    let base = house.ini("json_later", &[]);
    let pooler = house.start(&base);
    assert!(objects(&pooler).is_empty());
    assert_eq!(pooler.console("SET log_format = json").tags, ["SET log_format=json"]);
    pooler.client("u", "json_later").run("select 1");
    pooler.await_log("user=u");
    said(&objects(&pooler), "user=u");
    pooler.rewrite(&base.set("log_format = text"));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    pooler.client("v", "json_later").run("select 1");
    pooler.await_log("user=v");
    let pid = pooler.pid();
    let line = format!("[{pid}] LOG C-0x");
    let log = pooler.log();
    let attempt = log.lines().find(|line| line.contains("user=v")).expect("a login attempt");
    assert!(attempt.contains(&line) && !attempt.starts_with('{'), "{attempt}");
}
