//! `SHOW STATEMENTS`: which statements take the most time.

use std::collections::BTreeMap;

use tests::client::Client;
use tests::message::{bind, execute, parse, sync};
use tests::pooler::Pooler;

use crate::house::House;

type Row = BTreeMap<String, String>;

fn rows(pooler: &Pooler, database: &str) -> Vec<Row> {
    let answer = pooler.console("SHOW STATEMENTS");
    let rows = (0..answer.rows.len()).map(|row| answer.named(row));
    rows.filter(|row| row["database"] == database).collect()
}

fn row(pooler: &Pooler, database: &str, statement: &str) -> Row {
    let rows = rows(pooler, database);
    let found = rows.iter().find(|row| row["statement"] == statement);
    found.unwrap_or_else(|| panic!("no {statement:?} in {rows:#?}")).clone()
}

fn number(row: &Row, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

fn run_batch(client: &mut Client, messages: &[Vec<u8>]) {
    client.peer.send(&messages.concat());
    client.answer();
}

pub(crate) fn statements_are_told_apart_by_what_they_are_and_not_by_their_values(house: &House) {
    let database = "statements_apart";
    let pooler = house.pooler(database, &["track_statements = 1000000", "default_pool_size = 2"]);
    let mut client = pooler.client("u", database);
    for number in 0..5 {
        client.run(&format!("SELECT  'secret {number}' FROM generate_series(1, {number})"));
        client.run(&format!("select 1 where {number} in ({number}, 8, 9)"));
    }
    client.run("select 1 where 3 in (1,2,3,4,5,6) /*application='shop',route='%2Fcart'*/");
    for _ in 0..3 {
        assert_eq!(client.query("select 1/0").errors.len(), 1);
    }
    assert_eq!(client.query("select from nowhere_at_all").errors.len(), 1);
    client.run("select pg_sleep(0.2)");
    // By the extended protocol: prepared once, with a name.
    run_batch(&mut client, &[parse("s", "select $1::text || 'secret'"), sync()]);
    for _ in 0..4 {
        run_batch(&mut client, &[bind("", "s", &["secret"]), execute("", 0), sync()]);
    }
    let series = row(&pooler, database, "select ? from generate_series(?, ...)");
    assert_eq!((number(&series, "calls"), number(&series, "rows"), number(&series, "errors")), (5, 10, 0));
    assert!(number(&series, "bytes") > 5 * 30, "{series:?}");
    let list = row(&pooler, database, "select ? where ? in (?, ...)");
    assert_eq!((number(&list, "calls"), &*list["application"], &*list["route"]), (6, "shop", "/cart"));
    let division = row(&pooler, database, "select ?/?");
    assert_eq!((number(&division, "errors"), &*division["errors_by_state"]), (3, "22012: 3"));
    assert_eq!(row(&pooler, database, "select from nowhere_at_all")["errors_by_state"], "42P01: 1");
    let prepared = row(&pooler, database, "select ?::text || ?");
    assert_eq!((number(&prepared, "calls"), number(&prepared, "rows")), (5, 4), "once to prepare it");
    let slept = row(&pooler, database, "select pg_sleep(?)");
    assert!(number(&slept, "first_byte") >= 200_000, "{slept:?}");
    let all = rows(&pooler, database);
    let (last, heaviest) = all.split_last().expect("rows");
    assert_eq!(last["statement"], "other");
    assert!(heaviest.is_sorted_by_key(|row| std::cmp::Reverse(number(row, "total_time"))), "{all:?}");
    assert!(!format!("{all:?}").contains("secret"), "{all:?}");
    for row in &all {
        let phases = ["waiting", "settings", "first_byte", "streaming", "client_blocked", "client_thinking"];
        assert_eq!(number(row, "total_time"), phases.map(|phase| number(row, phase)).iter().sum::<u64>(), "{row:?}");
    }
}

pub(crate) fn the_wait_for_a_server_is_part_of_the_statement_that_waited(house: &House) {
    let database = "statements_wait";
    let pooler = house.pooler(database, &["track_statements = 1000000", "default_pool_size = 1"]);
    let mut holder = pooler.client("u", database);
    holder.run("begin");
    let mut waiter = pooler.client("u", database);
    waiter.ask("select 'it waited'::text");
    pooler.await_pool(database, "cl_waiting", "1");
    std::thread::park_timeout(std::time::Duration::from_millis(100));
    holder.run("commit");
    waiter.answer();
    let waited = row(&pooler, database, "select ?::text");
    assert!(number(&waited, "waiting") >= 90_000, "{waited:?}");
    assert!(number(&row(&pooler, database, "commit"), "total_time") < 90_000, "the thinking before it is not its own");
}

pub(crate) fn whatever_has_no_row_of_its_own_counts_as_other(house: &House) {
    let database = "statements_many";
    let pooler = house.pooler(database, &["track_statements = 1000000"]);
    let mut client = pooler.client("u", database);
    for number in 0..1200 {
        client.run(&format!("select 1 as c{number}"));
    }
    // The text is too long, so the statement cannot be identified.
    client.run(&format!("select '{}'", "x".repeat(200_000)));
    let all = rows(&pooler, database);
    let calls: u64 = all.iter().map(|row| number(row, "calls")).sum();
    assert_eq!((all.len(), calls), (1001, 1201));
    assert_eq!((&*all[1000]["statement"], number(&all[1000], "calls")), ("other", 201));
    // A sample stands for all calls.
    pooler.console("SET track_statements = 50");
    for _ in 0..2000 {
        client.run("select now()");
    }
    let sampled = number(&row(&pooler, database, "select now()"), "calls");
    assert!((1000..=2000).contains(&sampled), "{sampled}");
    pooler.console("SET track_statements = 0");
    for _ in 0..100 {
        client.run("select current_date");
    }
    assert!(rows(&pooler, database).iter().all(|row| row["statement"] != "select current_date"));
}
