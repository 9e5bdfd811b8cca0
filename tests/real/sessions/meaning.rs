//! Statements that are prepared in a transaction that has changed what their text means.

use tests::client::{Answer, Client};
use tests::message::{bind, describe, execute, parse, sync};
use tests::pooler::Pooler;

use crate::house::House;

fn say(client: &mut Client, messages: &[Vec<u8>]) -> Answer {
    client.peer.send(&[&messages.concat()[..], &sync()].concat());
    client.answer()
}

/// Two clients, one server, and a table of the same name in two schemas, with columns of different types.
fn stage(house: &House, name: &str) -> (Pooler, Client, Client) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1"];
    let pooler = house.pooler(name, &settings);
    let mut owner = house.postgres.client(name);
    owner.run("create schema one; create table one.t(id int); create table t(id text); insert into one.t values (7); insert into t values ('007')");
    let clients = (pooler.client("u", name), pooler.client("u", name));
    (pooler, clients.0, clients.1)
}

fn rows(client: &mut Client, sql: &str) -> Vec<String> {
    client.query(sql).rows.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect()
}

/// A statement that one client prepares while its transaction has another `search_path` has types that would be wrong for
/// all other clients.
pub(crate) fn what_a_transaction_reads_otherwise_is_not_shared(house: &House) {
    let (_pooler, mut one, mut two) = stage(house, "meaning");
    let insert = "insert into t values ($1)";
    let ways = [
        "set local search_path to one",
        "select set_config('search_path', 'one', true)",
        "select set_config('search_' || 'path', 'one', true)",
        "set search_path to one",
    ];
    for (at, way) in ways.iter().enumerate() {
        let (name, text) = (format!("s{at}"), format!("{insert} /* {at} */"));
        one.run("begin");
        one.run(way);
        let said = say(&mut one, &[parse(&name, &text), bind("", &name, &["008"]), execute("", 0)]);
        assert_eq!((said.errors.len(), said.status), (0, 'T'), "{way}");
        one.run("rollback");
        let said = say(&mut two, &[parse(&name, &text), bind("", &name, &["009"]), execute("", 0)]);
        assert_eq!(said.errors.len(), 0, "{way}");
        assert_eq!(rows(&mut two, "select id from t where id like '%9'"), ["009"], "{way}");
        two.run("truncate t");
        let said = say(&mut one, &[bind("", &name, &["009"]), execute("", 0)]);
        assert_eq!(said.errors.len(), 0, "{way}: it means what it says, outside that transaction");
        assert_eq!(rows(&mut two, "select id from t"), ["009"], "{way}");
        two.run("truncate t");
    }
    assert_eq!(rows(&mut two, "select id from one.t"), ["7"]);
}

/// Tenants that are separated by `SET LOCAL search_path`, each with one prepared statement.
pub(crate) fn tenants_by_a_local_path_have_statements_of_their_own(house: &House) {
    let (_pooler, mut one, mut two) = stage(house, "paths");
    let text = "select id from t where id::text <> $1";
    let mut paths = [(&mut one, "one", "7"), (&mut two, "public", "007")];
    for round in 0..10 {
        for (client, path, expected) in &mut paths {
            client.run("begin");
            client.run(&format!("set local search_path to {path}"));
            let given = if round == 0 { parse("s", text) } else { Vec::new() };
            let said = say(client, &[given, bind("", "s", &["x"]), execute("", 0)]);
            assert_eq!(said.errors.len(), 0, "{path}, round {round}");
            assert_eq!(said.rows, [[Some((*expected).to_owned())]], "{path}, round {round}");
            client.run("commit");
        }
    }
    // After a setting in the middle of a transaction, later texts are parsed anew.
    let (one, _, _) = &mut paths[0];
    one.run("begin");
    for (path, column) in [("one", 23), ("public", 25)] {
        one.run(&format!("set search_path to {path}"));
        let described = [&b"D\0\0\0\x06P\0"[..]].concat();
        let said = say(one, &[parse(path, "select * from t"), bind("", path, &[]), described, execute("", 0)]);
        assert_eq!(said.errors.len(), 0, "{path}");
        assert_eq!(said.columns[0].1, column, "{path}");
    }
    one.run("rollback");
}

/// The meaning of a literal is decided when its statement is prepared, whatever the client sets afterwards, and wherever the
/// statement is prepared again.
pub(crate) fn a_literal_means_what_it_meant_when_it_was_prepared(house: &House) {
    // Servers keep fewer statements than the clients use, so that each is prepared again and again.
    let settings = ["pool_mode = transaction", "default_pool_size = 2", "max_prepared_statements = 2"];
    let pooler = house.pooler("literals", &settings);
    let mut other = pooler.client("u", "literals");
    let texts = [
        "select date '1/2/2020' where $1 <> ''",
        "select $$1/2/2020$$::date where $1 <> ''",
        r"select 'a\\b' || $1",
        "select length('\u{e4}' || $1)",
        "select timestamptz '2020-01-01 00:00' where $1 <> ''",
    ];
    let changes = [
        "datestyle = 'ISO, DMY'",
        "standard_conforming_strings = off",
        "timezone = 'Asia/Tokyo'",
        "client_encoding = 'LATIN1'",
        "datestyle = 'German'",
        "search_path = pg_catalog",
        "datestyle = 'ISO, MDY'",
    ];
    let mut tell = |client: &mut Client| {
        let mut told = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            say(client, &[parse(&format!("s{at}"), text)]);
        }
        for change in changes {
            client.run(&format!("set {change}"));
            // In a batch, in a transaction, and after another unnamed portal.
            for begin in ["", "begin"] {
                other.run("begin");
                client.ask(begin);
                client.answer();
                for at in 0..texts.len() {
                    let names = [format!("s{at}"), format!("s{}", (at + 1) % texts.len())];
                    let batch = [bind("", &names[0], &["x"]), describe(b'S', &names[1]), execute("", 0)];
                    let answer = say(client, &batch);
                    let codes: Vec<_> = answer.errors.into_iter().map(|error| error.code).collect();
                    told.push((change, begin, at, answer.rows, codes, answer.status));
                }
                client.run("rollback");
                other.run("rollback");
            }
        }
        let parameters = ["DateStyle", "TimeZone", "client_encoding", "standard_conforming_strings"];
        let parameters = parameters.map(|name| Some(client.parameters[name].clone())).to_vec();
        told.push(("parameters", "", 0, vec![parameters], vec![], 'I'));
        told
    };
    let direct = tell(&mut house.postgres.client("literals"));
    let pooled = tell(&mut pooler.client("u", "literals"));
    for (direct, pooled) in direct.into_iter().zip(pooled) {
        assert_eq!(pooled, direct);
    }
}
