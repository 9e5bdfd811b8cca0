//! Statements that sessions have prepared by SQL, and that follow their client from server to server.

use tests::client::Client;
use tests::message::{bind, execute, frame, parse, sync};
use tests::pooler::Pooler;

use crate::house::House;

/// A server has the statements of the client that it serves, whatever their names are.
pub(crate) fn statements_prepared_by_sql_follow_their_client(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "max_prepared_statements = 9"];
    let pooler = house.pooler("carried", &settings);
    let mut direct = house.postgres.client("carried");
    direct.run("create table t (a int); insert into t values (7); alter table t owner to u");
    let (mut one, mut two) = (pooler.client("u", "carried"), pooler.client("u", "carried"));
    let names = "select coalesce(string_agg(name, ',' order by name), '') from pg_prepared_statements where from_sql";
    one.run("prepare a(int) as select $1 + 1");
    two.run("select 1; prepare a as select 'two;'; prepare \"B \"\"b\" (text) as select $1 || E'\\'\\\\'");
    for _ in 0..3 {
        assert_eq!(one.value("execute a(1)"), "2");
        assert_eq!(two.value("execute a"), "two;");
        assert_eq!(two.value("execute \"B \"\"b\"('x')"), "x'\\");
        assert_eq!((one.value(names), two.value(names)), ("a".into(), "B \"b,a".into()));
        assert_eq!(two.query("prepare a as select 1").error().code, "42P05");
        // Statements of the protocol exist next to them.
        one.peer.send(&[parse("", "execute a(2)"), bind("", "", &[]), execute("", 0), sync()].concat());
        assert_eq!(one.answer().value(), "3");
    }
    two.run("deallocate a");
    assert_eq!(two.query("execute a").error().code, "26000");
    assert_eq!(
        (one.value("execute a(1)"), one.value(names), two.value(names)),
        ("2".into(), "a".into(), "B \"b".into())
    );
    // A statement stays prepared when its transaction is rolled back, and is not prepared when PREPARE fails.
    two.run("begin; prepare c as select 'c'; rollback");
    assert_eq!(two.query("begin; prepare d as select * from nowhere").error().code, "42P01");
    two.run("rollback");
    assert_eq!(
        (one.value(names), two.value(names), two.value("execute c")),
        ("a".into(), "B \"b,c".into(), "c".into())
    );
    // A statement that changes a setting changes it for the client that executes it, however it was prepared.
    one.run("prepare s(text) as select set_config('app.who', $1, false)");
    one.run("execute s('one')");
    two.run("do $$ begin execute 'prepare s(text) as select set_config(''app.who'', $1, false)'; end $$");
    two.run("execute s('two')");
    assert_eq!((one.value("show app.who"), two.value("show app.who")), ("one".into(), "two".into()));
    // They are dropped as on a direct connection.
    two.run("deallocate all");
    assert_eq!((two.value(names), one.value(names)), (String::new(), "a,s".into()));
    one.run("discard all");
    assert_eq!((one.value(names), two.value(names)), (String::new(), String::new()));

    // A statement that cannot be prepared again is missing, and everything else is there.
    one.run("prepare a as select 'a'; prepare t as select a from t");
    one.run("set app.who = 'lucky'");
    assert_eq!((two.value("select 2"), one.value("execute t")), ("2".into(), "7".into()));
    direct.run("alter table t rename to elsewhere");
    assert_eq!(two.value("select 2"), "2");
    assert_eq!(
        one.value("select current_setting('app.who') || count(*) from pg_prepared_statements where from_sql"),
        "lucky1"
    );
    assert_eq!((one.query("execute t").error().code.as_str(), one.value("execute a").as_str()), ("26000", "a"));
    pooler.await_log("cannot prepare statement \"t\" of its client here: relation \"t\" does not exist");
    // A state probe for another reason does not change whether the statement is there.
    one.run("set app.who = 'happy'");
    direct.run("alter table elsewhere rename to t");
    assert_eq!((one.value("execute t"), one.value("show app.who")), ("7".into(), "happy".into()));
    assert_eq!((two.value("select 2"), one.value("execute t")), ("2".into(), "7".into()));
    drop(one);
    assert_eq!(two.value(names), "");
    assert!(!pooler.log().contains("keeps its server"), "{}", pooler.log());
}

/// Regression: PostgreSQL 18 reports `search_path`. If that was tracked, a statement was prepared under the path that its client
/// has now, and was missing where that path has not what it names.
pub(crate) fn they_are_prepared_under_the_path_under_which_their_client_prepared_them(house: &House) {
    let tracked = "track_extra_parameters = IntervalStyle, search_path";
    let pooler = house.pooler("carried_path", &["pool_mode = transaction", "default_pool_size = 1", tracked]);
    let mut direct = house.postgres.client("carried_path");
    direct
        .run("create schema one; create schema two; create table one.t as select 1; create table public.p as select 2");
    direct.run("grant all on schema one, two to public; grant all on one.t, public.p to public");
    let (mut one, mut two) = (pooler.client("u", "carried_path"), pooler.client("u", "carried_path"));
    let count = "select count(*) from pg_prepared_statements where from_sql";
    for is_probed in [false, true] {
        let prepare =
            |sql: &str| if is_probed { format!("do $$ begin execute '{sql}'; end $$") } else { sql.to_string() };
        one.run("set search_path = one");
        one.run(&prepare("prepare t as select * from t"));
        one.run("reset search_path");
        one.run(&prepare("prepare p as select * from p"));
        one.run("set search_path = two, pg_temp");
        for _ in 0..2 {
            assert_eq!((two.value(count), two.value("show search_path")), ("0".into(), "\"$user\", public".into()));
            assert_eq!((one.value(count), one.value("show search_path")), ("2".into(), "two, pg_temp".into()));
        }
        one.run("set search_path = one");
        assert_eq!((two.value(count), one.value("execute t")), ("0".into(), "1".into()));
        one.run("reset search_path");
        assert_eq!((two.value(count), one.value("execute p")), ("0".into(), "2".into()));
        one.run("deallocate all");
    }
    assert!(!pooler.log().contains("cannot prepare"), "{}", pooler.log());
}

/// Previously a server whose client left during a failing PREPARE was closed, although nothing was wrong with it.
pub(crate) fn a_server_that_cannot_prepare_what_its_client_had_is_as_good_for_the_next(house: &House) {
    let pooler = house.pooler("carried_left", &["pool_mode = transaction", "default_pool_size = 1"]);
    let mut direct = house.postgres.client("carried_left");
    direct.run("create table t (a int); alter table t owner to u");
    let (mut one, mut two) = (pooler.client("u", "carried_left"), pooler.client("u", "carried_left"));
    one.run("prepare s as select a from t");
    let names = "select count(*) from pg_prepared_statements where from_sql";
    let (pid, count) = (two.value("select pg_backend_pid()"), two.value(names));
    direct.run("begin; lock table t");
    one.ask("select 1");
    house.postgres.await_running("carried_left", "prepare s as");
    drop(one);
    pooler.await_log("client unexpected eof");
    direct.run("alter table t rename to elsewhere; commit");
    assert_eq!((two.value("select pg_backend_pid()"), two.value(names)), (pid, count));
    pooler.await_log("cannot prepare statement \"s\" of its client here: relation \"t\" does not exist");
    assert!(!pooler.log().contains("made clean"), "{}", pooler.log());
}

/// A table may change its columns while statements on it are prepared on many servers: no client gets an error about an
/// outdated plan.
pub(crate) fn plans_that_are_out_of_date_are_made_anew(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 2", "max_prepared_statements = 9"];
    for (database, state) in [("plans_follow", "follow"), ("plans_pgbouncer", "pgbouncer")] {
        let state = format!("session_state = {state}");
        let pooler = house.pooler(database, &[&settings[..], &[&state]].concat());
        let mut direct = house.postgres.client(database);
        direct.run("create table t (a int); insert into t values (1); alter table t owner to u");
        let (mut one, mut two) = (pooler.client("u", database), pooler.client("u", database));
        let query = "select * from t";
        let run = |name: &str| [bind("", name, &[]), frame(b'D', b"P\0"), execute("", 0), sync()].concat();
        one.peer.send(&[parse("s", query), run("s")].concat());
        assert_eq!(one.answer().rows.len(), 1);
        two.run("prepare by_sql as select * from t");
        let stats = |name: &str| {
            let stats = pooler.console("show stats");
            let rows = (0..stats.rows.len()).map(|row| stats.named(row)).find(|row| row["database"] == database);
            rows.expect("its row")[name].clone()
        };
        for (round, change) in ["add b text default 'b'", "drop b", "alter a type text"].into_iter().enumerate() {
            direct.run(&format!("alter table t {change}"));
            let columns = if round == 0 { 2 } else { 1 };
            let counted: u64 = stats("total_query_count").parse().expect("a number");
            // With Bind only, in one batch after the Parse of a new client, and after Describe.
            one.peer.send(&run("s"));
            let answer = one.answer();
            assert!(answer.errors.is_empty() && answer.rows[0].len() == columns, "{state} {change}: {answer:?}");
            assert_eq!(answer.status, 'I');
            let mut new = pooler.client("u", database);
            direct.run("alter table t add z int; alter table t drop z");
            new.peer.send(&[parse("", query), parse("n", query), run("n")].concat());
            assert_eq!(new.answer().rows[0].len(), columns, "{state} {change}");
            assert_eq!(stats("total_query_count").parse(), Ok(counted + 2), "each is counted once");
            // In a transaction it fails, as it does on a direct connection.
            if round == 1 {
                one.run("begin");
                one.peer.send(&run("s"));
                one.answer();
                direct.ask("alter table t add c int");
                one.run("commit");
                direct.answer();
                one.run("begin");
                one.peer.send(&run("s"));
                let answer = one.answer();
                assert_eq!((answer.error().code.as_str(), answer.status), ("0A000", 'E'), "{state}");
                one.run("rollback");
                direct.run("alter table t drop c");
                one.peer.send(&run("s"));
                assert_eq!(one.answer().rows[0].len(), 1, "{state}");
            }
            if state.ends_with("follow") {
                assert_eq!(two.query("execute by_sql").rows[0].len(), columns, "{change}");
                assert_eq!(two.value("select 7"), "7");
            }
        }
    }
}

/// A statement that would mean something else on another server keeps its server, and so do too many statements.
pub(crate) fn statements_that_cannot_be_carried_keep_their_server(house: &House) {
    let pooler = house.pooler("carried_not", &["pool_mode = transaction", "default_pool_size = 2"]);
    let mut other = pooler.client("u", "carried_not");
    let long = format!("prepare l as select '{}'", "x".repeat(30_000));
    let many: String = (0..5).map(|place| format!("prepare m{place} as select '{}'; ", "x".repeat(3_900))).collect();
    let many_times: Vec<String> = (0..5).map(|time| many.replace("prepare m", &format!("prepare m{time}_"))).collect();
    let mut cases =
        vec![vec![r"prepare a as select '\d'"], vec!["prepare a as select 'now'::timestamptz"], vec![&*long]];
    cases.push(vec!["prepare a as select 'ä'"]);
    cases.push(many_times.iter().map(|text| &**text).collect());
    for begin in cases {
        let mut client = pooler.client("u", "carried_not");
        begin.iter().for_each(|sql| client.run(sql));
        let pid = client.value("select pg_backend_pid()");
        for _ in 0..3 {
            let shown = &begin[0][..40.min(begin[0].len())];
            assert_ne!(other.value("select pg_backend_pid()"), pid, "{shown}: somebody else has the server");
        }
        client.run("deallocate all");
    }
    pooler.await_log("keeps its server: statement prepared by SQL a by prepare a as select ?");
}

/// An administrator may choose another policy.
pub(crate) fn a_policy_has_statements_prepared_by_sql_kept_or_refused(house: &House) {
    for (word, is_kept) in [("pin", true), ("warn", true), ("virtualize", false)] {
        let (database, policy) = (format!("carried_{word}"), format!("session_policy = statement={word}"));
        let pooler = house.pooler(&database, &["pool_mode = transaction", "default_pool_size = 1", &policy]);
        let (mut one, mut other) = (pooler.client("u", &database), pooler.client("u", &database));
        one.run("prepare a as select 1");
        assert_eq!(one.value("execute a"), "1");
        other.ask("select 2");
        let kept = pooler.console("show pins").rows.len();
        assert_eq!(kept == 1, is_kept, "{word}");
        one.run("deallocate a");
        assert_eq!(other.answer().value(), "2");
    }
    let pooler = house.pooler("carried_reject", &["pool_mode = transaction", "session_policy = statement=reject"]);
    let mut one = pooler.client("u", "carried_reject");
    assert_eq!(one.query("prepare a as select 1").error().code, "0A000");
    assert_eq!(one.value("select 1"), "1");
}

/// A client that prepares the same text as another client gets what it would get on a direct connection: the tables may have
/// changed by then, or be found in another schema.
pub(crate) fn a_statement_that_is_shared_means_the_same_to_all_who_share_it(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "max_prepared_statements = 9"];
    let pooler = house.pooler("shared", &settings);
    let mut direct = house.postgres.client("shared");
    direct.run(
        "create table t (a int); insert into t values (1); alter table t owner to u; grant all on schema public to u",
    );
    direct.run("create schema one authorization u; create schema two authorization u");
    direct.run("create table one.x as select 1 as a; create table two.x as select 'two' as b, 2 as c");
    direct.run("grant select on one.x, two.x to u");
    let describe = |client: &mut Client, sql: &str| {
        client.peer.send(&[parse("s", sql), frame(b'D', b"Ss\0"), frame(b'C', b"Ss\0"), sync()].concat());
        let answer = client.answer();
        assert!(answer.errors.is_empty(), "{sql}: {answer:?}");
        answer.columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect::<Vec<_>>().join(", ")
    };
    let mut one = pooler.client("u", "shared");
    assert_eq!(describe(&mut one, "select a from t"), "a 23");
    // Through the pooler, and in a transaction whose change others see after the commit.
    one.run("begin; alter table t alter a type bigint; commit");
    assert_eq!(describe(&mut pooler.client("u", "shared"), "select a from t"), "a 20");
    one.run("do $$ begin execute 'alter table t alter a type text'; end $$");
    assert_eq!(describe(&mut pooler.client("u", "shared"), "select a from t"), "a 25");
    let mut two = pooler.client("u", "shared");
    one.run("set search_path = one");
    two.run("set search_path = two");
    for _ in 0..3 {
        assert_eq!(describe(&mut one, "select * from x"), "a 23");
        assert_eq!(describe(&mut two, "select * from x"), "b 25, c 23");
    }
    // The same text is prepared separately where another setting changes how it is parsed.
    one.run("reset search_path; set transform_null_equals = on");
    two.run("reset search_path");
    for (client, count) in [(&mut one, "1"), (&mut two, "0")] {
        let sql = "select count(*) from (values (null::int)) v(x) where x = null";
        client.peer.send(&[parse("n", sql), bind("", "n", &[]), execute("", 0), frame(b'C', b"Sn\0"), sync()].concat());
        assert_eq!(client.answer().value(), count);
    }
    // Settings that do not affect the meaning do not separate statements.
    let before = parses(&pooler);
    one.run("reset transform_null_equals; set work_mem = '5MB'; set app.tenant = 'one'");
    two.run("set work_mem = '6MB'; set app.tenant = 'two'");
    assert_eq!(
        (describe(&mut one, "select 7 as a"), describe(&mut two, "select 7 as a")),
        ("a 23".into(), "a 23".into())
    );
    assert_eq!(parses(&pooler), before + 1);
}

/// How many statements have been prepared on servers.
fn parses(pooler: &Pooler) -> u64 {
    let stats = pooler.console("show stats_totals");
    (0..stats.rows.len()).filter_map(|row| stats.named(row).get("server_parse_count")?.parse::<u64>().ok()).sum()
}

/// Old drivers drop by SQL what they have prepared by the protocol (PHP's PDO, psycopg with an old libpq).
pub(crate) fn what_the_protocol_has_prepared_may_be_dropped_by_sql(house: &House) {
    for state in ["follow", "pgbouncer"] {
        let (database, state) = (format!("dropped_{state}"), format!("session_state = {state}"));
        let settings = ["pool_mode = transaction", "default_pool_size = 1", "max_prepared_statements = 9", &state];
        let pooler = house.pooler(&database, &settings);
        let (mut one, mut two) = (pooler.client("u", &database), pooler.client("u", &database));
        let prepare = |client: &mut Client, name: &str| {
            client.peer.send(&[parse(name, "select 7"), bind("", name, &[]), execute("", 0), sync()].concat());
            assert_eq!(client.answer().value(), "7");
        };
        for _ in 0..3 {
            prepare(&mut one, "pdo_1");
            prepare(&mut two, "pdo_1");
            let answer = one.query("DEALLOCATE pdo_1");
            assert_eq!((answer.tags, answer.status, answer.errors.len()), (vec!["DEALLOCATE".to_owned()], 'I', 0));
            // Only this client's name is dropped, and no other client's statement.
            two.peer.send(&[bind("", "pdo_1", &[]), execute("", 0), sync()].concat());
            assert_eq!(two.answer().value(), "7");
            assert_eq!(one.query("deallocate pdo_1").error().code, "26000");
            one.run("begin");
            prepare(&mut one, "A b");
            assert_eq!(one.query("deallocate prepare \"A b\"").status, 'T');
            prepare(&mut one, "A b");
            one.query("select 1/0");
            assert_eq!(one.query("deallocate \"A b\"").error().code, "25P02");
            one.run("rollback");
            one.run("deallocate \"A b\"");
            two.run("deallocate pdo_1");
        }
        if state.ends_with("follow") {
            one.run("prepare v as select 'by sql'");
            assert_eq!(two.value("select 1"), "1");
            one.peer.send(&[bind("", "v", &[]), execute("", 0), sync()].concat());
            assert_eq!(one.answer().value(), "by sql");
        }
    }
}
