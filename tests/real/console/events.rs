//! `SHOW EVENTS` shows what has happened, and combines many equal events into one row.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use tests::client::Client;
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, try_wait_for};

use crate::house::House;

type Row = BTreeMap<String, String>;

fn events(pooler: &Pooler) -> Vec<Row> {
    let answer = pooler.console("SHOW EVENTS");
    (0..answer.rows.len()).map(|row| answer.named(row)).collect()
}

/// Waits until such an event is shown.
fn await_event(pooler: &Pooler, kind: &str, fits: impl Fn(&Row) -> bool) -> Row {
    let mut seen = Vec::new();
    let found = try_wait_for(LIMIT, || {
        seen = events(pooler);
        seen.iter().find(|row| row["kind"] == kind && fits(row)).cloned()
    });
    found.unwrap_or_else(|| panic!("no {kind}: {seen:?}"))
}

pub(crate) fn an_order_is_remembered_and_logged_with_who_gave_it(house: &House) {
    let base = house.ini("events", &[]);
    let pooler = house.start(&base);
    assert!(events(&pooler)[0]["detail"].starts_with("trunkline "), "the start is the first");
    assert_eq!(pooler.console("PAUSE events").tags, ["PAUSE"]);
    assert_eq!(pooler.console("RESUME events").tags, ["RESUME"]);
    pooler.console("PAUSE nowhere");
    let row = await_event(&pooler, "order", |row| row["detail"] == "PAUSE 'events'");
    assert_eq!(
        (row["database"].as_str(), row["user"].as_str(), row["host"].as_str()),
        ("events", "admin", "127.0.0.1")
    );
    await_event(&pooler, "order", |row| row["detail"] == "PAUSE 'nowhere': refused: no such database: nowhere");
    let log = pooler.log();
    let line = log.lines().find(|line| line.contains("PAUSE 'events' command issued")).expect("a line");
    assert!(line.contains(" LOG C-0x") && line.contains(": pgbouncer/admin@127.0.0.1:"), "{line}");
    for (level, error) in
        [("ERROR", "no such database: nowhere"), ("WARNING", "pooler error: no such database: nowhere")]
    {
        let is_it = |line: &&str| line.contains(&format!(" {level} ")) && line.ends_with(error);
        let line = log.lines().find(is_it).expect("a line about the refusal");
        assert!(line.contains(&format!(" {level} C-0x")) && line.contains(": pgbouncer/admin@127.0.0.1:"), "{line}");
    }
    pooler.console("SET auth_query = 'select secret'");
    await_event(&pooler, "order", |row| row["detail"] == "SET auth_query");
}

pub(crate) fn a_reload_says_what_it_has_changed(house: &House) {
    let base = house.ini("events_reload", &[]);
    let pooler = house.start(&base);
    pooler.rewrite(&base.database("other = host=127.0.0.1").set("query_timeout = 7"));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    await_event(&pooler, "reload", |row| {
        row["detail"].contains("query_timeout = 7") && row["detail"].contains("database other added")
    });
    pooler.signal(Signal::SIGHUP);
    await_event(&pooler, "signal", |row| row["detail"] == "SIGHUP");
    await_event(&pooler, "reload", |row| row["detail"] == "no setting has changed");
    pooler.rewrite_raw("[nonsense]\n");
    pooler.console("RELOAD");
    await_event(&pooler, "reload", |row| row["detail"].starts_with("failed: "));
}

pub(crate) fn a_storm_of_refused_logins_is_one_event(house: &House) {
    let pooler = house.pooler("events_refused", &[]);
    for _ in 0..20 {
        let refused = Client::try_login(pooler.address(), &[("user", "nobody"), ("database", "events_refused")]);
        assert!(refused.is_err());
    }
    let row = await_event(&pooler, "login_refused", |row| row["count"] == "20");
    assert_eq!((row["user"].as_str(), row["database"].as_str()), ("nobody", "events_refused"));
    for number in 0..50 {
        let name = format!("nobody{number}");
        assert!(Client::try_login(pooler.address(), &[("user", &name), ("database", "events_refused")]).is_err());
    }
    await_event(&pooler, "login_refused", |row| row["detail"].starts_with("different ones, such as: "));
    let rows = events(&pooler).iter().filter(|row| row["kind"] == "login_refused").count();
    assert!(rows <= 10, "{rows}");
}

pub(crate) fn a_host_that_is_down_and_a_pool_that_waits_are_events(house: &House) {
    let port = free_port();
    let line = format!("events_host = host=127.0.0.1 port={port} user=postgres");
    let ini = Ini::new(&line).set("auth_type = any").set("server_login_retry = 1").set("log_pool_wait = 0.5");
    let pooler = house.start(&ini);
    let mut waiter = pooler.knock();
    waiter.send(&tests::message::startup(0, &[("user", "u"), ("database", "events_host")]));
    let row = await_event(&pooler, "host_down", |row| row["detail"].contains("connect failed"));
    assert_eq!((row["host"].as_str(), row["database"].as_str()), (&*format!("127.0.0.1:{port}"), "events_host"));
    let row = await_event(&pooler, "wait_begins", |row| row["database"] == "events_host");
    assert!(row["detail"].contains("because the last login at the host failed: connect failed"), "{row:?}");
}
