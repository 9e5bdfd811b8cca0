//! The memory that the pooler uses for one client: it is shown, and it is limited.

use std::collections::BTreeMap;

use tests::client::Client;
use tests::message::{parse, sync};
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

fn prepare(client: &mut Client, name: &str, sql: &str) -> tests::client::Answer {
    client.peer.send(&[parse(name, sql), sync()].concat());
    client.answer()
}

/// The rows of `SHOW CLIENTS` for this database.
fn clients(pooler: &Pooler, database: &str) -> Vec<BTreeMap<String, String>> {
    let clients = pooler.console("show clients extended");
    (0..clients.rows.len()).map(|row| clients.named(row)).filter(|row| row["database"] == database).collect()
}

fn bytes(pooler: &Pooler, database: &str) -> Vec<u64> {
    clients(pooler, database).iter().map(|row| row["memory_bytes"].parse().expect("a number")).collect()
}

/// A client that needs more than `max_client_memory` is closed, and no other client notices.
pub(crate) fn who_prepares_too_much_is_closed_with_words(house: &House) {
    let database = "memory_full";
    let pooler = house.pooler(database, &["pool_mode = transaction", "max_client_memory = 100000"]);
    let (mut hog, mut other) = (pooler.client("u", database), pooler.client("u", database));
    let long = |number: usize| format!("select {number}, '{}'", "x".repeat(30_000));
    assert!(prepare(&mut other, "mine", "select 1").errors.is_empty());
    for number in 0..3 {
        assert!(prepare(&mut hog, &format!("s{number}"), &long(number)).errors.is_empty());
    }
    let held = bytes(&pooler, database);
    assert!((90_000..100_000).contains(&held[0]) && (1..1000).contains(&held[1]), "{held:?}");
    // A statement that is closed no longer counts.
    hog.peer.send(&[tests::message::frame(b'C', b"Ss0\0"), sync()].concat());
    hog.answer();
    assert!(bytes(&pooler, database)[0] < 70_000);
    assert!(prepare(&mut hog, "s0", &long(0)).errors.is_empty());
    let refused = prepare(&mut hog, "s3", &long(3));
    let error = refused.errors.last().expect("it is refused");
    assert_eq!(
        (error.code.as_str(), error.text.as_str()),
        ("53200", "client holds too much memory (max_client_memory)")
    );
    hog.peer.closed_within(LIMIT).expect("the pooler closes");
    pooler.await_log("client holds too much memory (max_client_memory)");
    assert!(prepare(&mut other, "yours", "select 2").errors.is_empty());
    // A reload changes the limit for connected clients.
    pooler.console("SET max_client_memory = 0");
    assert!(prepare(&mut other, "long", &format!("select '{}'", "x".repeat(200_000))).errors.is_empty());
    assert!(bytes(&pooler, database)[0] > 200_000);
}

/// A text that many clients have prepared counts for each of them.
pub(crate) fn a_text_that_is_shared_counts_for_each(house: &House) {
    let database = "memory_shared";
    let pooler = house.pooler(database, &["pool_mode = transaction"]);
    let mut all: Vec<Client> = (0..3).map(|_| pooler.client("u", database)).collect();
    let text = format!("select '{}'", "x".repeat(10_000));
    for client in &mut all {
        assert!(prepare(client, "s", &text).errors.is_empty());
    }
    let held = bytes(&pooler, database);
    assert!(held.iter().all(|held| (10_000..11_000).contains(held)), "{held:?}");
    all.truncate(1);
    wait_until("two have left", LIMIT, || bytes(&pooler, database).len() == 1);
    assert_eq!(bytes(&pooler, database), held[..1]);
}

/// A client closes its statements, and the server still has them: more text than a worker may keep for clients, which does
/// not limit any client.
pub(crate) fn what_only_a_server_has_is_in_nobody_s_way(house: &House) {
    let database = "memory_left";
    let pooler = house.pooler(database, &["pool_mode = transaction", "max_prepared_statements = 1000"]);
    let (mut hog, mut other) = (pooler.client("u", database), pooler.client("u", database));
    let long = "x".repeat(900_000);
    for number in 0..310 {
        assert!(prepare(&mut hog, "s", &format!("select {number} /* {long} */")).errors.is_empty(), "{number}");
        hog.peer.send(&[tests::message::frame(b'C', b"Ss\0"), sync()].concat());
        assert!(hog.answer().errors.is_empty());
    }
    assert!(prepare(&mut other, "s", &format!("select '{long}'")).errors.is_empty());
    assert!(bytes(&pooler, database).iter().any(|held| *held > 900_000));
}

/// More than 64 kB of settings are not tracked: the client keeps the server that has them.
pub(crate) fn who_sets_very_much_keeps_its_server(house: &House) {
    let database = "memory_settings";
    let pooler = house.pooler(database, &["pool_mode = transaction", "default_pool_size = 2"]);
    let parameters = [("user", "u"), ("database", database), ("options", "-c work_mem=5MB -c app.mine=first")];
    let mut client = Client::try_login(pooler.address(), &parameters).expect("the login succeeds");
    client.run("set work_mem = '6MB'");
    client.run("select set_config('app.mine', repeat('z', 300), false)");
    let kept = |pooler: &Pooler| pooler.console("show pins").rows.len();
    for number in 0..30 {
        client.run(&format!("select set_config('app.x{number}', repeat('{}', 10000), false)", number % 10));
        assert_eq!(client.value("show work_mem"), "6MB");
    }
    wait_until("it keeps its server", LIMIT, || kept(&pooler) == 1);
    assert_eq!(pooler.console("show pins").named(0)["what"], "values or statements of more than 64 kB");
    assert!(bytes(&pooler, database)[0] < 70_000);
    let all = "select sum(length(current_setting('app.x' || i))), min(length(current_setting('app.mine'))) from generate_series(0, 29) i";
    let answer = client.query(all);
    assert_eq!(answer.rows[0], [Some("300000".to_owned()), Some("300".to_owned())]);
    let mut other = pooler.client("u", database);
    assert_eq!(
        other.value("select current_setting('app.x1', true) is null and current_setting('work_mem') = '4MB'"),
        "t"
    );
    client.run("discard all");
    wait_until("it keeps no server", LIMIT, || kept(&pooler) == 0);
    assert_eq!(client.value("show work_mem"), "5MB");
    assert_eq!(client.value("select coalesce(current_setting('app.x1', true), '')"), "");
    assert_eq!(client.value("show app.mine"), "first");
}
