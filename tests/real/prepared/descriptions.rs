//! What a client has been told of a statement, and what it gets when the tables have changed since.

use tests::client::{Answer, Client};
use tests::message::{bind, describe, execute, frame, parse, strings, sync};
use tests::pooler::Pooler;

use crate::house::House;
use crate::prepared::names::{Said, told};

fn prepare(name: &str, sql: &str) -> Said {
    vec![parse(name, sql), describe(b'S', name), sync()]
}

fn run(name: &str) -> Said {
    vec![bind("", name, &[]), execute("", 0), sync()]
}

fn close(name: &str) -> Said {
    vec![frame(b'C', &[&b"S"[..], &strings(&[name])].concat()), sync()]
}

/// A pooler with one server, and clients that use it and PostgreSQL directly.
struct Stage {
    pooler: Pooler,
    database: String,
    setup: Client,
    pooled: Client,
    direct: Client,
}

impl Stage {
    fn open(house: &House, database: &str, state: &str) -> Self {
        let database = format!("{database}_{state}");
        let state = format!("session_state = {state}");
        let settings = ["pool_mode = transaction", "default_pool_size = 1", "max_prepared_statements = 9", &state];
        let pooler = house.pooler(&database, &settings);
        let mut setup = house.postgres.client(&database);
        setup.run("grant all on schema public to public; alter default privileges grant all on tables to public");
        let pooled = pooler.client("u", &database);
        let direct = Client::login(house.postgres.address(), "u", &database);
        Self { pooler, database, setup, pooled, direct }
    }

    /// Another session changes the tables.
    fn change(&mut self, sql: &str) {
        self.setup.run(sql);
    }

    /// The pooler's next server has no statements.
    fn goes_elsewhere(&self) {
        self.pooler.console(&format!("RECONNECT {}", self.database));
    }

    fn expect_same(&mut self, what: &str, said: &Said) -> String {
        let (ours, theirs) = (told(&mut self.pooled, said), told(&mut self.direct, said));
        assert_eq!(ours, theirs, "{what}");
        ours.concat()
    }
}

/// Without an error, a driver would read four letters as a number: asyncpg, postgres.js and pgx bind and execute without
/// describing again.
pub(crate) fn a_client_that_relies_on_a_stale_description_is_refused(house: &House) {
    for state in ["follow", "pgbouncer"] {
        let mut stage = Stage::open(house, "stale", state);
        stage.change("create table t (x int); insert into t values (825373492)");
        stage.expect_same("it is described", &prepare("a", "select x from t"));
        for _ in 0..2 {
            stage.goes_elsewhere();
            assert!(stage.expect_same("the table is the same", &run("a")).contains("825373492"));
        }
        stage.change("drop table t; create table t (x int); insert into t values (7)");
        stage.goes_elsewhere();
        stage.expect_same("the table is another, of the same types", &run("a"));
        stage.change("drop table t; create table t (x text); insert into t values ('1234')");
        for place in ["elsewhere", "there"] {
            if place == "elsewhere" {
                stage.goes_elsewhere();
            }
            let told = stage.expect_same(place, &run("a"));
            assert!(told.contains("0A000 cached plan must not change result type"), "{told}");
            let begun =
                [vec![tests::message::query("begin")], run("a"), run("a"), vec![tests::message::query("rollback")]];
            stage.expect_same("in a transaction", &begun.concat());
        }
        let executed_twice = vec![bind("", "a", &[]), execute("", 0), bind("", "a", &[]), execute("", 0), sync()];
        stage.goes_elsewhere();
        stage.expect_same("what stands behind is skipped", &executed_twice);
        stage.expect_same("it is closed", &close("a"));
        stage.expect_same("it is prepared anew", &prepare("a", "select x from t"));
        for _ in 0..2 {
            assert!(stage.expect_same("it is used", &run("a")).contains("1234"));
            stage.goes_elsewhere();
        }
        stage.change("alter table t add y int");
        stage.expect_same("it returns the same", &run("a"));
        stage.change("drop table t; create table t (x text, y int)");
        stage.goes_elsewhere();
        stage.expect_same("it returns nothing of the same types", &run("a"));
        stage.expect_same("it returns nothing at all", &prepare("b", "insert into t values ('7')"));
        stage.change("drop table t; create table t (x text, y int, z int)");
        stage.goes_elsewhere();
        stage.expect_same("it still returns nothing", &run("b"));
        // A bind that is followed by a description is told what is so now, where PostgreSQL reports an error.
        stage.expect_same("all columns", &prepare("c", "select * from t"));
        stage.change("alter table t drop z; update t set y = 8");
        stage.goes_elsewhere();
        let described = [bind("", "c", &[]), describe(b'P', ""), execute("", 0), sync()].concat();
        stage.pooled.peer.send(&described);
        let answer = stage.pooled.answer();
        assert_eq!((answer.columns.len(), answer.rows.len(), answer.status), (2, 2, 'I'), "{answer:?}");
        stage.goes_elsewhere();
        stage.pooled.peer.send(&run("c").concat());
        assert_eq!(stage.pooled.answer().value(), "7", "that is what it has been told last");
    }
}

/// pgjdbc describes the portal of the first execution, and relies on that.
pub(crate) fn what_a_client_was_told_of_a_portal_holds_for_its_statement(house: &House) {
    let mut stage = Stage::open(house, "stale_portal", "follow");
    stage.change("create table t (x int); insert into t values (7)");
    let first = vec![parse("S_1", "select x from t"), bind("", "S_1", &[]), describe(b'P', ""), execute("", 0), sync()];
    stage.expect_same("the first execution", &first);
    stage.goes_elsewhere();
    assert!(stage.expect_same("a later one", &run("S_1")).contains('7'));
    stage.change("drop table t; create table t (x text); insert into t values ('1234')");
    stage.goes_elsewhere();
    assert!(stage.expect_same("after the change", &run("S_1")).contains("0A000"));
    stage.goes_elsewhere();
    // Messages in pieces, each of which has to be read as it comes.
    let bytes = run("S_1").concat();
    for at in 1..bytes.len() {
        for part in [&bytes[..at], &bytes[at..]] {
            stage.pooled.peer.send(part);
        }
        assert_eq!(stage.pooled.answer().error().code, "0A000", "cut at {at}");
    }
}

/// The rest of a request waits for an answer, and the server refuses what it has of it: the pooler waited for the answer to a
/// Sync that it had not sent.
pub(crate) fn an_outdated_plan_in_front_of_what_waits_is_reported(house: &House) {
    let first = || vec![bind("", "a", &[]), describe(b'P', ""), execute("", 0)];
    let drop = vec![parse("", "deallocate b"), bind("", "", &[]), execute("", 0), parse("b", "select 1 as z")];
    for state in ["follow", "pgbouncer"] {
        let mut stage = Stage::open(house, "stale_first", state);
        stage.change("create table t (x int)");
        let mut cases: Vec<(&str, Said)> = vec![("a description", [first(), run("b")].concat())];
        if state == "follow" {
            cases.push(("a name that SQL drops", [first(), drop.clone(), run("b")].concat()));
        }
        for (number, (what, said)) in cases.into_iter().enumerate() {
            for (name, sql) in [("a", "select * from t"), ("b", "select 1 as y")] {
                stage.expect_same("it is described", &prepare(name, sql));
            }
            if what == "a description" {
                stage.goes_elsewhere();
            }
            let mut before = stage.pooler.client("u", &stage.database);
            told(&mut before, &prepare("a", "select * from t"));
            stage.change(&format!("alter table t add y{number} int"));
            let told = stage.expect_same(what, &said);
            assert!(told.contains("0A000 cached plan must not change result type"), "{told}");
            for name in ["a", "b"] {
                stage.expect_same("it is closed", &close(name));
            }
        }
    }
}

/// A client prepares a statement for the first time, and the server has it from before a change that was made past the pooler.
/// PostgreSQL describes the parameters before it notices.
pub(crate) fn a_client_that_never_saw_the_old_columns_gets_no_error_about_them(house: &House) {
    for state in ["follow", "pgbouncer"] {
        let mut stage = Stage::open(house, "never_saw", state);
        stage.change("create table t (x int); insert into t values (7)");
        for (name, sql, change) in [
            ("all", "select * from t", "alter table t add y int"),
            ("typed", "select x from t where x = $1", "alter table t alter x type text"),
            ("renamed", "select x as z from t", "alter table t alter x type varchar(9)"),
        ] {
            let mut before = stage.pooler.client("u", &stage.database);
            told(&mut before, &prepare(name, sql));
            stage.change(change);
            let said = prepare(name, sql);
            let told = stage.expect_same(name, &said);
            assert!(!told.contains("0A000") && !told.contains("42883"), "{name}: {told}");
        }
        // An error that is not about that is reported.
        let mut before = stage.pooler.client("u", &stage.database);
        told(&mut before, &prepare("gone", "select x, 1 from t"));
        stage.change("alter table t rename x to w");
        let answer: Answer = {
            stage.pooled.peer.send(&prepare("gone", "select x, 1 from t").concat());
            stage.pooled.answer()
        };
        assert_eq!(answer.error().code, "42703");
    }
}
