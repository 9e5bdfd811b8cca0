//! Tests of single statements. `make oracle` compares them with what PostgreSQL's own parser reads.

use super::*;
use crate::knowledge::Source;
use crate::setting::{Certain, Value};

/// What a statement that creates functions touches.
const MADE: DirtyState = DirtyState::FUNCTIONS.with(DirtyState::MAKINGS);

/// A database none of whose functions touches the session.
fn tame() -> Knowledge {
    Knowledge::default()
}

fn class(text: &str) -> Class {
    classify(text.as_bytes(), Dialect::default(), Some(&tame()))
}

fn touches(text: &str) -> DirtyState {
    class(text).touches.without(DirtyState::CALLS)
}

fn only_act(text: &str) -> Act {
    let class = class(text);
    assert_eq!(class.acts.len(), 1, "{text}");
    class.acts[0].clone()
}

fn sets(text: &str) -> Vec<(String, Value)> {
    match only_act(text) {
        Act::Set(changes) => changes.iter().map(|change| (change.name.to_string(), change.value.clone())).collect(),
        other => panic!("{text} is {other:?}"),
    }
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

fn names(names: &[&str]) -> Value {
    Value::Names(names.iter().map(|&name| name.into()).collect())
}

#[test]
fn what_changes_the_meaning_of_texts_is_told_though_it_ends_with_its_transaction() {
    for (text, is_so) in [
        ("SET LOCAL search_path = a", true),
        ("set local \"search_path\" to a", true),
        ("SET LOCAL ROLE ann", true),
        ("SET LOCAL TIME ZONE 'UTC'", true),
        ("SELECT 1; SET LOCAL transform_null_equals = on", true),
        ("SELECT set_config('search_path', $1, true)", true),
        ("SELECT set_config($1, $2, true)", true),
        ("SELECT pg_catalog.set_config('Search_Path', 'a', false)", true),
        ("SELECT \"set_config\"(E'search_path', 'a', true)", true),
        ("SET LOCAL app.tenant = 'a'", false),
        ("SELECT set_config('app.tenant', $1, true)", false),
        ("SET LOCAL statement_timeout = 5", false),
        ("SET LOCAL enable_seqscan = off", false),
        ("SET LOCAL = 5", false),
        ("SET local.name = 5", false),
        ("SET TRANSACTION READ ONLY", false),
        ("SELECT 1 FROM setting_local", false),
    ] {
        let class = classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default()));
        assert_eq!(class.sets_locally, is_so, "{text}");
    }
    let function = |text| crate::Source { name: "f", is_readable: true, is_hidden: false, is_in_queries: false, text };
    for (text, is_so) in [
        ("begin perform set_config('search_path', p, true); end", true),
        ("begin perform set_config('app.tenant', p, true); end", false),
    ] {
        assert_eq!(Knowledge::read([function(text)].into_iter()).suspects(b"f"), is_so, "{text}");
    }
}

#[test]
fn what_reads_and_writes_tables_keeps_nothing() {
    for text in [
        "",
        ";;",
        "-- nothing\n",
        "SELECT 1",
        "SELECT abalance FROM pgbench_accounts WHERE aid = 1",
        "select temp, temporary, listen, load from weather where \"set\" = 'SET x = 1'",
        "INSERT INTO t(a) VALUES ($1) ON CONFLICT DO UPDATE SET a = excluded.a RETURNING *",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT count(*) FROM x",
        "(SELECT 1) UNION (SELECT 2)",
        "VALUES (1), (2)",
        "TABLE t",
        "COPY t FROM STDIN",
        "UPDATE t SET a = 'DISCARD ALL'",
        "SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(2)",
        "SELECT set_config('app.tenant', $1, true)",
        "SELECT set_config('app.tenant', (SELECT x FROM t WHERE f(a, b)), TRUE), 1",
        "SET LOCAL search_path = a",
        "SET TRANSACTION READ ONLY",
        "SET CONSTRAINTS ALL DEFERRED",
        "SHOW search_path",
        "NOTIFY c, 'LISTEN d'",
        "DECLARE c CURSOR FOR SELECT 1",
        "DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1",
        "FETCH ALL FROM c",
        "EXPLAIN (ANALYZE, COSTS off) SELECT 1",
        "EXPLAIN ANALYZE VERBOSE UPDATE t SET a = 1",
        "EXPLAIN (SELECT 1)",
        "EXPLAIN (VERBOSE) REFRESH MATERIALIZED VIEW v",
        "EXPLAIN CREATE TABLE t AS SELECT 1",
        "DISCARD PLANS",
        "CREATE TABLE temp (temporary int)",
        "CREATE INDEX i ON t (lower(a))",
        "ALTER ROLE ann SET search_path = a",
        "ALTER TABLE t SET (fillfactor = 50)",
        "VACUUM ANALYZE t",
        "COMMIT PREPARED 'x'",
        "ROLLBACK PREPARED 'x'",
        "DO $$ BEGIN PERFORM count(*) FROM t; RAISE NOTICE 'set x to y'; END $$",
    ] {
        assert_eq!(touches(text), DirtyState::NOTHING, "{text}");
    }
}

#[test]
fn what_the_session_keeps_is_named() {
    let all: &[(&str, DirtyState)] = &[
        ("LISTEN c", DirtyState::CHANNELS),
        ("unlisten *", DirtyState::CHANNELS),
        ("LOAD 'auto_explain'", DirtyState::LIBRARIES),
        ("CREATE TEMP TABLE t (a int)", DirtyState::TEMPORARY),
        ("create local temporary view v as select 1", DirtyState::TEMPORARY.with(DirtyState::FUNCTIONS)),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT 1", DirtyState::TEMPORARY.with(DirtyState::FUNCTIONS)),
        ("CREATE TEMPORARY SEQUENCE s", DirtyState::TEMPORARY),
        ("CREATE TABLE pg_temp.t (a int)", DirtyState::TEMPORARY),
        ("CREATE TABLE \"pg_temp\".t (a int)", DirtyState::TEMPORARY),
        ("SELECT * INTO TEMP x FROM t", DirtyState::TEMPORARY),
        ("SELECT * INTO LOCAL TEMPORARY TABLE x FROM t", DirtyState::TEMPORARY),
        ("DROP TABLE t", DirtyState::TEMPORARY),
        ("DISCARD TEMP", DirtyState::TEMPORARY),
        ("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1", DirtyState::CURSORS),
        ("CLOSE ALL", DirtyState::CURSORS),
        ("PREPARE p AS SELECT 1", DirtyState::STATEMENTS),
        ("EXECUTE p(1)", DirtyState::STATEMENTS),
        ("DEALLOCATE ALL", DirtyState::STATEMENTS),
        ("SELECT pg_advisory_lock(1)", DirtyState::LOCKS),
        ("SELECT PG_TRY_ADVISORY_LOCK_SHARED(1, 2)", DirtyState::LOCKS),
        ("SELECT pg_catalog.\"pg_advisory_unlock_all\"()", DirtyState::LOCKS),
        ("SELECT 1 FROM t WHERE pg_try_advisory_lock(id)", DirtyState::LOCKS),
        ("WITH l AS (SELECT pg_advisory_lock (1)) TABLE l", DirtyState::LOCKS),
        ("SELECT pg_create_logical_replication_slot('s', 'o', true)", DirtyState::SLOTS),
        ("SELECT set_config('app.tenant', $1, false)", DirtyState::SETTINGS),
        ("SELECT set_config('a', 'b', 'true')", DirtyState::SETTINGS),
        ("SELECT set_config($1, $2, false)", DirtyState::ANY_SETTING.with(DirtyState::UNTOLD)),
        ("SELECT set_config('a' || 'b', $2, false)", DirtyState::ANY_SETTING.with(DirtyState::UNTOLD)),
        ("UPDATE pg_settings SET setting = 'x' WHERE name = 'work_mem'", DirtyState::ANY_SETTING),
        ("RESET ALL", DirtyState::ANY_SETTING),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", MADE),
        ("CREATE OR REPLACE TRIGGER t BEFORE INSERT ON t EXECUTE FUNCTION f()", MADE),
        ("ALTER EXTENSION x UPDATE", MADE),
        ("DROP FUNCTION f", DirtyState::TEMPORARY.with(MADE)),
        ("DO $$ BEGIN CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; END $$", MADE),
        ("DO $$ BEGIN DROP INDEX i; CREATE INDEX i ON t (type); END $$", DirtyState::NOTHING),
        ("DO $$ BEGIN EXECUTE 'Create trigger t'; END $$", DirtyState::ANYTHING.with(DirtyState::MAKINGS)),
        ("DO $$ BEGIN EXECUTE 'VACUUM'; END $$", DirtyState::ANYTHING),
        ("U&\"\\0063reate\" x; DROP FUNCTION f", DirtyState::ANYTHING.with(DirtyState::MAKINGS)),
        ("DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$", DirtyState::LOCKS),
        ("DO $$ BEGIN PERFORM set_config('app.tenant', '7', false); END $$", DirtyState::SETTINGS),
        ("DO $$ BEGIN EXECUTE 'x' || 'y'; END $$", DirtyState::ANYTHING),
        ("DO LANGUAGE plpython3u $$ x() $$", DirtyState::ANYTHING),
        ("DO 'BEGIN SET x.y = 1; END' LANGUAGE plpgsql", DirtyState::ANYTHING),
        ("CREATE TABLE t AS EXECUTE p", DirtyState::ANYTHING),
        ("EXPLAIN ANALYZE EXECUTE p", DirtyState::STATEMENTS),
        ("EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1", DirtyState::TEMPORARY),
        ("EXPLAIN (ANALYZE) DECLARE c CURSOR WITH HOLD FOR SELECT 1", DirtyState::CURSORS),
        ("EXPLAIN ANALYZE (SELECT pg_advisory_lock(1))", DirtyState::LOCKS),
        ("EXPLAIN (SELECT pg_advisory_lock(1)) UNION (SELECT 2)", DirtyState::LOCKS),
        // PostgreSQL refuses these.
        ("EXPLAIN EXPLAIN SELECT 1", DirtyState::ANYTHING),
        ("EXPLAIN PREPARE p AS SELECT 1", DirtyState::ANYTHING),
        ("EXPLAIN", DirtyState::ANYTHING),
        ("SELECT query_to_xml('SELECT 1', true, true, '')", DirtyState::ANYTHING),
        ("DISCARD ALL", DirtyState::ANYTHING.without(DirtyState::FUNCTIONS)),
        ("U&\"\\0073et\" x", DirtyState::ANYTHING),
        ("SELECT U&\"\\0073et_config\"('a', 'b', false)", DirtyState::ANYTHING),
        ("SET a_name_that_is_longer_than_any_that_postgres_keeps_and_so_would_be_cut = 1", DirtyState::ANY_SETTING),
        ("FROBNICATE t", DirtyState::ANYTHING),
        ("SELECT 'never ended", DirtyState::ANYTHING),
        ("{call x}", DirtyState::ANYTHING),
    ];
    for (text, expected) in all {
        assert_eq!(touches(text), *expected, "{text}");
    }
}

#[test]
fn settings_are_read_as_the_server_reads_them() {
    let all: &[(&str, &str, Value)] = &[
        ("SET a.b = 'c'", "a.b", text("c")),
        ("set session DateStyle to ISO, dmy", "datestyle", text("iso, dmy")),
        ("SET SEARCH_PATH TO \"Shop\", public, 'x y'", "search_path", names(&["Shop", "public", "x y"])),
        ("SET search_path = ''", "search_path", names(&[""])),
        ("SET work_mem = 4096", "work_mem", text("4096")),
        ("SET x.y = -1", "x.y", text("-1")),
        ("SET x.y = 1.5", "x.y", Value::Unknown),
        ("SET x.y TO DEFAULT", "x.y", Value::Default),
        ("SET sort_mem = '4MB'", "work_mem", text("4MB")),
        ("SET enable_seqscan = off", "enable_seqscan", text("off")),
        ("SET session = 1", "session", text("1")),
        ("SET local TO x", "local", text("x")),
        ("SET session.x = y", "session.x", text("y")),
        ("SET TIME ZONE 'UTC'", "timezone", text("UTC")),
        ("SET TIME ZONE LOCAL", "timezone", Value::Default),
        ("SET TIME ZONE -8", "timezone", text("-8")),
        ("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "timezone", Value::Unknown),
        ("SET NAMES 'latin1'", "client_encoding", text("latin1")),
        ("SET NAMES", "client_encoding", Value::Default),
        ("SET SCHEMA 'Shop'", "search_path", names(&["Shop"])),
        ("SET ROLE ann", "role", text("ann")),
        ("SET ROLE NONE", "role", text("none")),
        ("SET SESSION ROLE \"Ann\"", "role", text("Ann")),
        ("SET SESSION AUTHORIZATION bob", "session_authorization", text("bob")),
        ("SET SESSION SESSION AUTHORIZATION DEFAULT", "session_authorization", Value::Default),
        ("SET XML OPTION CONTENT", "xmloption", text("content")),
        ("SET \"Work_Mem\" = E'64\\x4d'", "work_mem", Value::Unknown),
        ("RESET a.b.c", "a.b.c", Value::Default),
        ("RESET TIME ZONE", "timezone", Value::Default),
        ("RESET SESSION AUTHORIZATION", "session_authorization", Value::Default),
        ("RESET role", "role", Value::Default),
    ];
    for (text, name, value) in all {
        assert_eq!(sets(text), [((*name).to_owned(), value.clone())], "{text}");
    }
    let characteristics = sets("SET SESSION CHARACTERISTICS AS TRANSACTION SNAPSHOT 'x'");
    assert!(characteristics.len() == 3 && characteristics.iter().all(|(_, value)| *value == Value::Unknown));
}

#[test]
fn transactions_are_followed_statement_by_statement() {
    use Control::*;
    let controls = |text: &str| {
        let acts = class(text).acts.into_vec().into_iter();
        acts.map(|act| match act {
            Act::Transaction(control) => Some(control),
            _ => None,
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(
        controls("BEGIN; SELECT ';'; SET a.b = 1;; COMMIT"),
        [Some(Begin), None, None, Some(Commit { chain: false })]
    );
    assert_eq!(controls("start transaction isolation level serializable"), [Some(Begin)]);
    assert_eq!(
        controls("END WORK AND CHAIN; ABORT AND NO CHAIN"),
        [Some(Commit { chain: true }), Some(Rollback { chain: false })]
    );
    assert_eq!(
        controls("SAVEPOINT a; ROLLBACK TRANSACTION TO SAVEPOINT \"A\"; ROLLBACK TO savepoint; RELEASE SAVEPOINT a"),
        [
            Some(Savepoint("a".into())),
            Some(RollbackTo("A".into())),
            Some(RollbackTo("savepoint".into())),
            Some(Release("a".into()))
        ]
    );
    assert_eq!(controls("PREPARE TRANSACTION 'x'"), [Some(Commit { chain: false })]);
}

#[test]
fn a_semicolon_ends_a_statement_only_outside_of_parentheses() {
    let count = |text: &str| class(text).acts.len();
    assert_eq!(count("CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2); SELECT 3"), 2);
    assert_eq!(count("BEGIN; END"), 2);
    assert_eq!(count("CREATE FUNCTION begin() RETURNS int LANGUAGE sql AS 'SELECT 1'; SELECT 3"), 2);
    let body = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT 3";
    let unread = Class::unread_with(DirtyState::MAKINGS);
    assert_eq!((class(body).acts, class(body).touches), (unread.acts, unread.touches));
    assert!(class(&format!("SELECT atomic; {body}")).is_unread && !class("SELECT begin atomic; SELECT 1").is_unread);
}

#[test]
fn what_is_known_of_functions_decides() {
    let (known, hidden) = (Knowledge::new(["set_tenant", "größe"], false), Knowledge::new(["f"], true));
    let all = |text: &str, knowledge| classify(text.as_bytes(), Dialect::default(), knowledge).touches;
    let touches = |text: &str, knowledge| all(text, knowledge).without(DirtyState::CALLS);
    assert_eq!(touches("SELECT app.set_tenant(7)", Some(&known)), DirtyState::ANYTHING);
    assert_eq!(touches("SELECT (t).Set_Tenant FROM t", Some(&known)), DirtyState::ANYTHING);
    assert_eq!(touches("CALL other(7)", Some(&known)), DirtyState::NOTHING);
    assert_eq!(touches("SELECT \"SET_TENANT\"()", Some(&known)), DirtyState::NOTHING);
    assert_eq!(touches("SELECT größe()", Some(&known)), DirtyState::ANYTHING);
    // Nothing is known of functions yet, or a function is called where no text shows it.
    assert_eq!(touches("SELECT 1", None), DirtyState::ANYTHING);
    assert_eq!(touches("SELECT 1", Some(&hidden)), DirtyState::ANYTHING);
    assert_eq!(touches("SHOW work_mem", None), DirtyState::NOTHING);
}

#[test]
fn what_functions_and_blocks_may_do_is_told_from_what_a_text_says() {
    let knowledge = Knowledge::new(["f"], false);
    let trusting = Knowledge::trusting();
    for (text, calls, is_trusted) in [
        ("select f(1)", true, true),
        ("select set_config('a.b', 'c', false)", false, false),
        ("select pg_advisory_lock(1)", false, false),
        ("do $$ begin execute 'se' || 't a.b = 1'; end $$", true, true),
        ("do language plpython3u $$ x = 1 $$", true, true),
        ("do $$ begin perform set_config('a.b', 'c', false); end $$", true, false),
        ("do $$ begin null; end $$", false, true),
        ("listen a", false, false),
        ("prepare p as select f(1)", false, false),
        ("wat", false, false),
    ] {
        let read = |knowledge| classify(text.as_bytes(), Dialect::default(), Some(knowledge)).touches;
        assert_eq!(read(&knowledge).has(DirtyState::CALLS), calls, "{text}");
        assert_eq!(read(&trusting).is_nothing(), is_trusted, "{text}");
    }
    let hidden = Knowledge::new(["f"], true);
    let touches = classify(b"select 1", Dialect::default(), Some(&hidden)).touches;
    assert_eq!(touches, DirtyState::ANYTHING.with(DirtyState::CALLS), "a trigger may call it");
    assert_eq!(classify(b"select 1", Dialect::default(), None).touches, DirtyState::ANYTHING, "nobody knows yet");
}

#[test]
fn what_a_prepared_statement_touches_is_kept() {
    let text = "PREPARE \"P\" (int, numeric(10, 2)) AS SELECT pg_advisory_lock($1)";
    let act = only_act(text);
    assert_eq!(act, Act::Prepare { name: "P".into(), touches: DirtyState::LOCKS, sql: Some(text.into()) });
    assert_eq!(only_act("PREPARE p AS SELECT set_config('a', $1, false)").touches(), DirtyState::STATEMENTS);
    assert_eq!(
        only_act("PREPARE p AS (VALUES (1))"),
        Act::Prepare { name: "p".into(), touches: DirtyState::NOTHING, sql: Some("PREPARE p AS (VALUES (1))".into()) }
    );
    let refused = only_act("PREPARE p AS PREPARE q AS SELECT 1");
    assert!(matches!(refused, Act::Prepare { touches: DirtyState::ANYTHING, .. }));
    assert_eq!(only_act("EXECUTE p('x')"), Act::Execute { name: "p".into() });
    assert_eq!(only_act("EXECUTE p(pg_advisory_lock(1))").touches(), DirtyState::ANYTHING);
}

#[test]
fn a_set_is_seen_through_any_comment() {
    assert_eq!(touches("/* app */ SET a.b = 1"), DirtyState::SETTINGS);
    assert_eq!(touches("SELECT 1 -- ;\n; -- x\n LISTEN c"), DirtyState::CHANNELS);
    assert_eq!(touches("/* SET a.b = 1; */ SELECT 1"), DirtyState::NOTHING);
}

#[test]
fn people_see_a_text_without_its_values() {
    let shape = |text: &str| class(text).shape;
    assert_eq!(&*shape("SELECT  pg_advisory_lock( 42 ) -- for 'x'"), "SELECT pg_advisory_lock( ? )");
    assert_eq!(&*shape("select set_config('app.key', E'secr\\'et', $1)"), "select set_config(?, ?, $1)");
    assert_eq!(&*shape("DO $$ begin execute 'secret'; end $$"), "DO ?");
    assert_eq!(&*shape("LISTEN \"News\"; SET a.b = 'never ended"), "LISTEN \"News\"; SET a.b =...");
    assert_eq!(&*shape("SELECT 1"), "", "of what keeps nothing there is no need");
    assert!(shape(&format!("LISTEN {}", "a, ".repeat(1000))).len() < 200);
    assert!(shape(&format!("LISTEN {}", "a".repeat(1_000_000))).len() < 200);
}

#[test]
fn what_plainly_takes_hold_is_told_from_what_lets_go() {
    for (text, takes) in [
        ("SELECT pg_advisory_lock(1)", DirtyState::LOCKS),
        ("WITH x AS (SELECT pg_catalog.pg_try_advisory_lock_shared($1, 2)) SELECT * FROM x", DirtyState::LOCKS),
        ("SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL", DirtyState::NOTHING),
        ("SELECT pg_advisory_xact_lock(1)", DirtyState::NOTHING),
        ("SELECT 'pg_advisory_lock'", DirtyState::NOTHING),
        ("BEGIN; LISTEN a; COMMIT", DirtyState::CHANNELS),
        ("CREATE GLOBAL TEMPORARY TABLE t ()", DirtyState::TEMPORARY),
        ("CREATE TEMP TABLE t () ON COMMIT DROP", DirtyState::NOTHING),
        ("CREATE TABLE temp ()", DirtyState::NOTHING),
        ("SELECT 1 INTO TEMP t", DirtyState::TEMPORARY),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", DirtyState::CURSORS),
        ("DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1", DirtyState::NOTHING),
        ("PREPARE p AS SELECT 1", DirtyState::STATEMENTS),
        ("PREPARE TRANSACTION 'x'", DirtyState::NOTHING),
        ("LOAD 'x'", DirtyState::LIBRARIES),
    ] {
        assert_eq!(class(text).takes, takes, "{text}");
        // Whatever is known of functions.
        assert_eq!(classify(text.as_bytes(), Dialect::default(), None).takes, takes, "{text}");
    }
    assert_eq!(parameters(b"SELECT $2, '$9', $1", Dialect::default()), 2);
}

/// A mistake in any of these would leave a setting to the next client.
#[test]
fn what_a_text_certainly_does_to_settings_is_told_by_it() {
    let certain = |text: &str| -> Option<String> {
        let Act::Set(changes) = only_act(text) else { return None };
        let told: Option<Vec<String>> = changes
            .iter()
            .map(|change| {
                Some(match change.certain()? {
                    Certain::Value(value) => format!("{}={value}", change.name),
                    Certain::First => format!("{} first", change.name),
                })
            })
            .collect();
        Some(told?.join("; "))
    };
    for (text, expected) in [
        ("SET work_mem = 4096", "work_mem=4096"),
        ("SET SESSION a.B TO 'it''s'", "a.b=it's"),
        ("RESET statement_timeout", "statement_timeout first"),
        ("SET statement_timeout TO DEFAULT", "statement_timeout first"),
        ("SET search_path TO tenant_7, \"$user\", public", "search_path=tenant_7, \"$user\", public"),
        ("SET search_path = 'a, b'", "search_path=\"a, b\""),
        ("SET SCHEMA 'A'", "search_path=\"A\""),
        ("SET ROLE app", "role=app"),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY NOT DEFERRABLE",
            "default_transaction_isolation=repeatable read; default_transaction_read_only=on; \
             default_transaction_deferrable=off",
        ),
        ("SELECT set_config('work_mem', '1MB', false)", "work_mem=1MB"),
        ("select pg_catalog.set_config('a.b', E'A', false), set_config('search_path', 'x', true)", "a.b=A"),
    ] {
        assert_eq!(certain(text).as_deref(), Some(expected), "{text}");
    }
    for text in [
        "SET work_mem = 4096.5",
        "SET search_path TO \"select\"",
        "SET a.b = 'ä'",
        "SET temp_buffers = 100",
        "SET transaction_isolation = 'serializable'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION SNAPSHOT 'x'",
        "SET TIME ZONE INTERVAL '1' HOUR",
        "SELECT set_config('work_mem', $1, false)",
        "SELECT set_config('work_mem', NULL, false)",
        "SELECT set_config('work_mem', '1MB', false) FROM t",
        "SELECT set_config('work_mem', '1MB', false) AS a",
        "SELECT set_config('work_mem', '1MB' || '', false)",
        "SELECT x.set_config('work_mem', '1MB', false)",
        "SELECT set_config('work_mem', '1MB', false), f()",
        "SELECT set_config('work_mem', '1MB', false), pg_advisory_unlock_all()",
    ] {
        assert_eq!(certain(text), None, "{text}");
    }
}

#[test]
fn what_only_lets_go_takes_nothing() {
    for (text, expected) in [
        ("CLOSE ALL", DirtyState::CURSORS),
        ("SELECT pg_advisory_unlock_all()", DirtyState::LOCKS),
        ("SELECT pg_advisory_unlock(1) FROM t", DirtyState::LOCKS),
        ("DROP TABLE t", DirtyState::TEMPORARY),
        ("DISCARD TEMP", DirtyState::TEMPORARY),
    ] {
        let Act::Other { touches, releases, .. } = only_act(text) else { panic!("{text}") };
        assert_eq!((touches, releases), (DirtyState::NOTHING, expected), "{text}");
    }
    let both = only_act("SELECT pg_advisory_lock(1), pg_advisory_unlock(2)");
    assert!(matches!(both, Act::Other { touches: DirtyState::LOCKS, releases: DirtyState::LOCKS, .. }));
    assert_eq!(only_act("DEALLOCATE \"All\""), Act::Deallocate { name: Some("All".into()) });
    assert_eq!(only_act("DEALLOCATE PREPARE all"), Act::Deallocate { name: None });
    assert!(only_act("CREATE TEMP TABLE t (a int) ON COMMIT DROP").touches().is_nothing());
    assert!(only_act("CREATE TEMP TABLE t ON COMMIT DROP AS SELECT 1").touches().is_nothing());
    assert_eq!(only_act("CREATE TEMP TABLE t (a int) ON COMMIT DELETE ROWS").touches(), DirtyState::TEMPORARY);
}

/// Such a function would be called instead of PostgreSQL's own if it comes first in the `search_path`.
#[test]
fn a_function_of_the_same_name_makes_a_call_uncertain() {
    let source =
        Source { name: "set_config", is_readable: true, is_hidden: false, is_in_queries: false, text: "SELECT 1" };
    let knowledge = Knowledge::read([source].into_iter());
    let act = |text: &str| classify(text.as_bytes(), Dialect::default(), Some(&knowledge)).acts[0].clone();
    assert!(matches!(act("SELECT set_config('a', 'b', false)"), Act::Other { .. }));
    assert!(matches!(act("SELECT pg_catalog.set_config('a', 'b', false)"), Act::Set(_)));
}

#[test]
fn functions_that_are_made_in_a_long_text_are_noticed() {
    let many = |last: &str| format!("{}{last}", "SELECT 1; ".repeat(300));
    for last in ["CREATE VIEW v AS SELECT 1", "DO $$ BEGIN END $$"] {
        assert_eq!(touches(&many(last)), DirtyState::ANYTHING.with(DirtyState::MAKINGS), "{last}");
    }
    assert_eq!(touches(&many("SELECT 2")), DirtyState::ANYTHING);
    let early = format!("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; {}", "SET a.b = 1; ".repeat(300));
    assert!(touches(&early).has(DirtyState::MAKINGS));
}
