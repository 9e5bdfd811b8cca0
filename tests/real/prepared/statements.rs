//! Named prepared statements on servers that clients share.

use std::time::Duration;

use tests::client::{Answer, Client};
use tests::message::{self, bind, execute, frame, parse, strings, sync};
use tests::pooler::{Ini, Pooler};
use tests::program::{pgbench, run};

use crate::house::House;

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn pgbench_with_prepared_statements_runs_in_each_mode(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 3", "max_prepared_statements = 4"];
    let pooler = house.pooler("prepared_bench", &settings);
    run(pgbench(&pooler, "u", "prepared_bench").args(["-i", "-q"]), MINUTE).success();
    bench(&pooler, &[]);
    let mut ini = Ini::new(&house.line("prepared_bench")).set("pool_mode = statement");
    ini = ini.set("default_pool_size = 3").set("max_prepared_statements = 1");
    // In statement mode a script must not begin a transaction.
    bench(&house.start(&ini), &["-S"]);
}

fn bench(pooler: &Pooler, script: &[&str]) {
    // A thread of pgbench waits for the answer to a Parse while its other clients keep their servers: so one client per
    // thread.
    let crowd = ["-c", "12", "-j", "12", "-t", "100", "-M", "prepared"];
    let said = run(pgbench(pooler, "u", "prepared_bench").args(script).args(crowd), MINUTE).success();
    assert!(said.contains("number of failed transactions: 0 (0.000%)"), "{said}");
    let names = "select count(*) from pg_prepared_statements where name like 'PGBOUNCER_%'";
    let held = pooler.client("u", "prepared_bench").value(names);
    assert!((1..=4).contains(&held.parse().expect("a number")), "{held} statements");
}

pub(crate) fn clients_share_what_they_prepare_and_not_its_names(house: &House) {
    let pooler = house.pooler("prepared_shared", &["default_pool_size = 1"]);
    let mut clients = [(); 5].map(|()| pooler.client("u", "prepared_shared"));
    for (number, client) in clients.iter_mut().enumerate() {
        let own = format!("select '{number}'::text");
        say(client, &[parse("shared", "select $1::text || '!'"), parse("own", &own), sync()]);
        assert!(client.answer().errors.is_empty());
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let value = number.to_string();
        say(client, &[bind("", "shared", &[&value]), execute("", 0), bind("", "own", &[]), execute("", 0), sync()]);
        let answer = client.answer();
        let rows: Vec<_> = answer.rows.iter().map(|row| row[0].clone().expect("a value")).collect();
        assert_eq!(rows, [format!("{number}!"), value]);
    }
    let names = "select count(*) || '|' || count(*) filter (where name like 'PGBOUNCER_%') from pg_prepared_statements";
    assert_eq!(clients[0].value(names), "6|6");
    let mut shown = Vec::new();
    for subject in ["clients", "servers"] {
        let answer = pooler.console(&format!("show {subject}"));
        let at = answer.columns.iter().position(|(name, _)| name == "prepared_statements").expect("the column");
        let rows = answer.rows.iter().filter(|row| row[2].as_deref() == Some("prepared_shared"));
        shown.push(rows.map(|row| row[at].clone().unwrap_or_default()).collect::<Vec<_>>());
    }
    assert_eq!(shown, [vec!["2"; 5], vec!["6"]]);
}

/// The text is the same, but with the other client's TimeZone its literal would be another time.
pub(crate) fn what_is_read_when_it_is_prepared_is_read_for_each_client(house: &House) {
    let pooler = house.pooler("prepared_zones", &["default_pool_size = 1"]);
    let login = |zone: &str| {
        let parameters = [("user", "u"), ("database", "prepared_zones"), ("TimeZone", zone)];
        Client::try_login(pooler.address(), &parameters).expect("the login succeeds")
    };
    let sql = "select extract(epoch from '2026-01-01 00:00'::timestamptz)::bigint::text";
    let (mut utc, mut tokyo) = (login("UTC"), login("Asia/Tokyo"));
    for client in [&mut utc, &mut tokyo] {
        say(client, &[parse("midnight", sql), sync()]);
        client.answer();
    }
    for _ in 0..2 {
        for (client, expected) in [(&mut utc, "1767225600"), (&mut tokyo, "1767193200")] {
            say(client, &[bind("", "midnight", &[]), execute("", 0), sync()]);
            assert_eq!(client.answer().value(), expected);
        }
    }
}

pub(crate) fn a_statement_survives_discard_all_of_another_and_a_change_of_its_table(house: &House) {
    let pooler = house.pooler("prepared_changes", &["default_pool_size = 1"]);
    let (mut ann, mut bob) = (pooler.client("u", "prepared_changes"), pooler.client("u", "prepared_changes"));
    ann.run("create table t (a int)");
    ann.run("insert into t values (7)");
    say(&mut ann, &[parse("all", "select * from t"), bind("", "all", &[]), execute("", 0), sync()]);
    assert_eq!(ann.answer().value(), "7");
    bob.run("discard all");
    let mut use_it = || -> Answer {
        say(&mut ann, &[bind("", "all", &[]), execute("", 0), sync()]);
        ann.answer()
    };
    assert_eq!(use_it().value(), "7");
    bob.run("alter table t alter a type text using 'number ' || a");
    // A client that does not describe the rows gets the error about the plan once; after that the statement is prepared
    // again.
    assert_eq!(use_it().error().text, "cached plan must not change result type");
    assert_eq!(use_it().value(), "number 7");
    bob.run("deallocate all");
    assert_eq!(use_it().value(), "number 7");
}

/// Five custom plans, then a generic one (`plan_cache_mode`): a text that is sent repeatedly gets that too.
pub(crate) fn statements_without_a_name_keep_their_plan_if_that_is_wanted(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "reuse_unnamed_statements = 1"];
    let pooler = house.pooler("prepared_again", &settings);
    let mut clients = [pooler.client("u", "prepared_again"), pooler.client("u", "prepared_again")];
    for turn in 0..10 {
        let client = &mut clients[turn % 2];
        say(client, &[parse("", "select 1 from pg_class where oid = 1259"), bind("", "", &[]), execute("", 0), sync()]);
        assert_eq!(client.answer().value(), "1");
    }
    // Without parameters each plan may be generic. At its first use the statement was unnamed.
    if house.postgres.major() >= 14 {
        let counts = "select generic_plans + custom_plans from pg_prepared_statements where statement like '%1259%'";
        assert_eq!(clients[0].value(counts), "9");
    }
    // A table that is created again while a transaction is open is noticed: statements from before are prepared again.
    let ask = |client: &mut Client| -> Answer {
        say(client, &[parse("", "select * from t"), bind("", "", &[]), execute("", 0), sync()]);
        client.answer()
    };
    let [one, two] = &mut clients;
    one.run("create table t (a int); insert into t values (7)");
    (0..3).for_each(|_| assert_eq!(ask(two).value(), "7"));
    one.run("begin; alter table t alter a type text using 'number ' || a");
    assert_eq!(ask(one).value(), "number 7");
    one.run("commit");
    assert_eq!(ask(two).value(), "number 7");
}

/// The protocol may also use statements that were prepared by SQL.
pub(crate) fn a_name_that_is_not_there_is_for_the_server_to_refuse(house: &House) {
    let pooler = house.pooler("prepared_unknown", &["pool_mode = transaction"]);
    let mut ann = pooler.client("u", "prepared_unknown");
    let mut use_it = |before: &str| -> Answer {
        if !before.is_empty() {
            ann.run(before);
        }
        say(&mut ann, &[bind("", "by_sql", &[]), execute("", 0), sync()]);
        ann.answer()
    };
    let none = use_it("");
    assert_eq!((none.error().code.as_str(), none.error().severity.as_str()), ("26000", "ERROR"));
    assert_eq!(none.error().text, "prepared statement \"by_sql\" does not exist");
    assert_eq!(use_it("begin; prepare by_sql as select 7").value(), "7");
    assert_eq!(use_it("rollback").value(), "7");
    assert_eq!(use_it("deallocate by_sql").error().code, "26000");
}

/// A name keeps its meaning, and the error contains the client's name for the statement.
pub(crate) fn a_name_that_is_in_use_is_for_the_server_to_refuse(house: &House) {
    let settings = ["pool_mode = transaction", "max_prepared_statements = 2", "default_pool_size = 1"];
    let pooler = house.pooler("prepared_twice", &settings);
    let (mut ann, mut bob) = (pooler.client("u", "prepared_twice"), pooler.client("u", "prepared_twice"));
    say(&mut ann, &[parse("a", "select 1"), sync()]);
    assert!(ann.answer().errors.is_empty());
    for crowd_out in [false, true] {
        if crowd_out {
            say(&mut bob, &[parse("x", "select 'x'"), parse("y", "select 'y'"), sync()]);
            assert!(bob.answer().errors.is_empty());
        }
        say(&mut ann, &[parse("a", "select 2"), bind("", "a", &[]), execute("", 0), sync()]);
        let told = ann.answer();
        assert_eq!((told.error().code.as_str(), told.error().severity.as_str()), ("42P05", "ERROR"));
        assert_eq!(told.error().text, "prepared statement \"a\" already exists");
        say(&mut ann, &[bind("", "a", &[]), execute("", 0), sync()]);
        assert_eq!(ann.answer().value(), "1");
    }
    ann.run("begin");
    say(&mut ann, &[parse("a", "select 2"), sync()]);
    assert_eq!(ann.answer().status, 'E');
    ann.run("rollback");
    say(&mut ann, &[parse("b", "select 3"), parse("b", "select 4"), sync()]);
    assert_eq!(ann.answer().error().text, "prepared statement \"b\" already exists");
    say(&mut ann, &[bind("", "b", &[]), execute("", 0), sync()]);
    assert_eq!(ann.answer().value(), "3");
}

pub(crate) fn names_that_are_not_there_or_in_use_end_the_client(house: &House) {
    let pooler = house.pooler("prepared_refused", &["session_state = pgbouncer"]);
    let mut ann = pooler.client("u", "prepared_refused");
    say(&mut ann, &[frame(b'D', &[b"S", &strings(&["nobody"])[..]].concat()), sync()]);
    assert_eq!(ann.answer().errors.last().expect("an error").text, "prepared statement did not exist");
    let mut bob = pooler.client("u", "prepared_refused");
    say(&mut bob, &[parse("a", "select 1"), sync()]);
    bob.answer();
    say(&mut bob, &[parse("a", "select 1"), sync()]);
    assert_eq!(bob.answer().errors.last().expect("an error").text, "prepared statement name is already in use");
    // The name of a failed Parse is free.
    let mut eve = pooler.client("u", "prepared_refused");
    for _ in 0..2 {
        say(&mut eve, &[parse("a", "select * from nothing"), sync()]);
        assert_eq!(eve.answer().error().code, "42P01");
    }
    eve.run("create table nothing ()");
    say(&mut eve, &[parse("a", "select * from nothing"), bind("", "a", &[]), execute("", 0), sync()]);
    assert!(eve.answer().errors.is_empty());
}

/// More requests than may wait for answers, sent before any answer is read: in one batch, whose answers PostgreSQL buffers,
/// and in many.
pub(crate) fn a_long_pipeline_is_answered_to_its_end(house: &House) {
    let pooler = house.pooler("prepared_long", &["default_pool_size = 1", "max_prepared_statements = 9"]);
    let (mut ann, mut bob) = (pooler.client("u", "prepared_long"), pooler.client("u", "prepared_long"));
    let close = |name: &str| frame(b'C', &[b"S", &strings(&[name])[..]].concat());
    let mut batch: Vec<u8> = Vec::new();
    for number in 0..LONG {
        let name = format!("s{number}");
        batch.extend([parse(&name, &format!("select {}", number % 12)), close(&name)].concat());
    }
    batch.extend(sync());
    let queries: Vec<u8> = (0..LONG).flat_map(|number| message::query(&format!("select {number}"))).collect();
    for _ in 0..2 {
        ann.peer.send(&batch);
        let tags: Vec<u8> = (0..2 * LONG).map(|_| ann.peer.frame_within(MINUTE).expect("an answer").tag).collect();
        assert!(tags.chunks(2).all(|pair| pair == b"13"), "{tags:?}");
        assert_eq!(ann.peer.frame_within(MINUTE).expect("its end").tag, b'Z');
        ann.peer.send(&queries);
        for number in 0..LONG {
            assert_eq!(ann.answer().value(), number.to_string());
        }
        assert_eq!(bob.value("select 'bob'"), "bob");
    }
}

/// Three times the number of requests that may wait for answers.
const LONG: usize = 3000;

fn say(client: &mut Client, messages: &[Vec<u8>]) {
    client.peer.send(&messages.concat());
}
