//! The state of a session follows its client, or keeps its server.

use std::collections::BTreeSet;
use std::time::Duration;

use base::Random;
use tests::client::Client;
use tests::message::{bind, execute, parse, sync};
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::comparison::alike::verified;
use crate::house::House;

/// A pooler for a database with so many servers.
fn follow(house: &House, database: &str, servers: u32) -> Pooler {
    let size = format!("default_pool_size = {servers}");
    house.pooler(database, &["pool_mode = transaction", &size])
}

fn extended(sql: &str) -> Vec<u8> {
    [parse("", sql), bind("", "", &[]), execute("", 0), sync()].concat()
}

/// The number of advisory locks with this key in a database.
fn locks(house: &House, database: &str, key: u32) -> String {
    house.postgres.value(&format!(
        "select count(*) from pg_locks l join pg_database d on d.oid = l.database
         where locktype = 'advisory' and datname = '{database}' and objid = {key}"
    ))
}

/// Session state that a client sees: settings of every kind, and its role.
const SHOWN: &str = "select coalesce(nullif(current_setting('app.tenant', true), ''), '-')
    || '|' || coalesce(nullif(current_setting('app.other', true), ''), '-') || '|' || current_setting('search_path')
    || '|' || current_setting('work_mem') || '|' || current_setting('statement_timeout') || '|' || current_user
    || '|' || current_setting('TimeZone') || '|' || current_setting('default_transaction_isolation')";

fn shown(client: &mut Client) -> String {
    client.value(SHOWN)
}

pub(crate) fn what_is_set_in_any_way_follows_its_client(house: &House) {
    let pooler = follow(house, "state_set", 1);
    let mut direct = house.postgres.client("state_set");
    direct.run(
        "create function set_tenant(text) returns text language plpgsql as
                $$ begin perform set_config('app.tenant', $1, false); return $1; end $$",
    );
    let mut one = pooler.client("u", "state_set");
    let mut two = pooler.client("u", "state_set");
    let pid = one.value("select pg_backend_pid()");
    assert_eq!(two.value("select pg_backend_pid()"), pid, "one server was to be shared");
    let first = shown(&mut two);
    for (number, sql) in [
        "set app.tenant = 'a0'",
        "select set_config('app.tenant', 'a1', false)",
        "begin; select set_config('app.tenant', 'a2', false); commit",
        "do $$ begin perform set_config('app.tenant', 'a3', false); end $$",
        "do $$ begin execute 'set app.tenant = ''a4'''; end $$",
        "select set_tenant('a5')",
        "set search_path = pg_catalog; select public.set_tenant('a6'); reset search_path",
    ]
    .into_iter()
    .enumerate()
    {
        one.run(sql);
        assert_eq!(shown(&mut two), first, "after {sql}");
        let tenant = format!("a{number}|");
        assert!(shown(&mut one).starts_with(&tenant), "after {sql}: {}", shown(&mut one));
        one.run("reset all");
        assert_eq!(shown(&mut one), first, "after {sql} and a reset");
    }
    // A value that is bound.
    let messages =
        [parse("", "select set_config('app.tenant', $1, false)"), bind("", "", &["bound"]), execute("", 0), sync()];
    one.peer.send(&messages.concat());
    assert!(one.answer().errors.is_empty());
    assert_eq!(shown(&mut two), first);
    assert!(shown(&mut one).starts_with("bound|"));
    // A setting that is rolled back has no effect.
    one.run("begin; set app.tenant = 'no'; savepoint s; set app.other = 'neither'; rollback to s; rollback");
    assert!(shown(&mut one).starts_with("bound|-|"));
    one.run("discard all");
    assert_eq!(shown(&mut one), first);
    assert_eq!(two.value("select pg_backend_pid()"), pid, "the server was to be the same all the time");
}

/// Settings that are sent together with a request are a transaction of their own, and without them the request is not run.
pub(crate) fn what_is_set_goes_along_with_the_request(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "max_prepared_statements = 9"];
    let pooler = house.pooler("state_along", &settings);
    let mut direct = house.postgres.client("state_along");
    direct.run("create table done (what text); create text search configuration mine (copy = simple)");
    let (mut one, mut two) = (pooler.client("u", "state_along"), pooler.client("u", "state_along"));
    one.run("set app.who = 'one'");
    two.run("set app.who = 'two'");
    two.run("set work_mem = '7MB'");
    for round in 0..3 {
        // An error in the request does not undo its settings, and they may be sent with a statement that must not run in a
        // transaction block.
        for sql in ["select 1/0", "vacuum done", "begin; rollback", "select 1; select 1/0"] {
            assert_eq!(one.value("show app.who"), "one");
            two.ask(sql);
            assert_eq!(two.answer().errors.len(), usize::from(sql.contains('0')), "{sql}");
            assert_eq!(one.value("show app.who"), "one", "round {round}, after {sql}");
            two.run("begin");
            assert_eq!(two.value("select current_setting('app.who') || current_setting('work_mem')"), "two7MB");
            two.run("rollback");
        }
        for sql in ["vacuum done", "select 1/0"] {
            assert_eq!(one.value("show work_mem"), "4MB");
            two.peer.send(&extended(sql));
            assert_eq!(two.answer().errors.len(), usize::from(sql.contains('0')), "{sql}");
            assert_eq!(two.value("show app.who"), "two");
        }
        one.run("discard all");
        one.run("set app.who = 'one'");
        two.run("do $$ begin execute 'deallocate all'; end $$");
    }
    // A name that is sent along is not reported again to the client, and a name that the request sets is reported.
    let named = |name: &str| {
        let all = [("user", "u"), ("database", "state_along"), ("application_name", name)];
        let mut client = Client::try_login(pooler.address(), &all).expect("let in");
        client.run(&format!("set app.who = '{name}'"));
        client
    };
    let (mut ann, mut bob) = (named("ann"), named("bob"));
    for name in ["bee", "bea"] {
        assert_eq!(ann.value("show application_name"), "ann");
        bob.run(&format!("set application_name = '{name}'"));
        assert_eq!(bob.parameters["application_name"], name);
    }
    assert_eq!(ann.parameters["application_name"], "ann");
    // The server had this name before the client's name was set, and so does not report it.
    for _ in 0..2 {
        assert_eq!(ann.value("show application_name"), "ann");
        bob.run("set application_name = 'ann'");
        assert_eq!(bob.parameters["application_name"], "ann");
        assert_eq!(bob.value("show application_name"), "ann");
        bob.run("set application_name = 'bob'");
    }
    // A client gets no report of a value that it has set before, be it the name or another reported setting, not even after
    // an error. PostgreSQL reports this setting since version 14.
    let is_reported = house.postgres.major() >= 14;
    let read_only = |client: &Client, value: &str| {
        let told = client.parameters.get("default_transaction_read_only").map(String::as_str);
        assert_eq!(told, is_reported.then_some(value));
    };
    ann.run("set default_transaction_read_only = on");
    read_only(&ann, "on");
    bob.run("set default_transaction_read_only = off");
    bob.run("begin");
    bob.run("set default_transaction_read_only = on");
    read_only(&bob, "on");
    bob.run("rollback");
    read_only(&bob, "off");
    for sql in ["select 1", "select 1/0"] {
        for client in [&mut ann, &mut bob] {
            client.parameters.clear();
            client.ask(sql);
            client.answer();
            assert!(client.parameters.is_empty(), "{sql}: {:?}", client.parameters);
        }
    }
    drop((ann, bob));
    for insert in ["simple", "extended"] {
        let mut lost = pooler.client("u", "state_along");
        lost.run("set default_text_search_config = 'public.mine'");
        assert_eq!(one.value("show app.who"), "one");
        direct.run("alter text search configuration mine rename to gone");
        let sql = format!("insert into done values ('{insert}')");
        match insert {
            "simple" => lost.ask(&sql),
            _ => lost.peer.send(&extended(&sql)),
        }
        let answer = lost.answer();
        assert_eq!(answer.error().text, "invalid server parameter", "{answer:?}");
        direct.run("alter text search configuration gone rename to mine");
        assert_eq!(direct.value("select count(*) from done"), "0", "{insert}: it was run without its settings");
        assert_eq!(one.value("show app.who"), "one");
    }
}

/// PostgreSQL keeps a placeholder for each setting with a dot that its session has ever had, and returns `''` for it from
/// then on.
pub(crate) fn who_has_never_set_something_prefers_a_server_that_never_had_it(house: &House) {
    let pooler = house.pooler("state_placeholders", &["pool_mode = transaction", "default_pool_size = 2"]);
    let (mut one, mut two) = (pooler.client("u", "state_placeholders"), pooler.client("u", "state_placeholders"));
    one.run("begin");
    two.run("begin");
    let pids = [one.value("select pg_backend_pid()"), two.value("select pg_backend_pid()")];
    one.run("commit");
    two.run("set app.never = 'x'; commit");
    assert_ne!(pids[0], pids[1]);
    let asked = "select coalesce(current_setting('app.never', true), 'NULL')";
    for _ in 0..3 {
        assert_eq!(one.value(asked), "NULL");
        assert_eq!(two.value(asked), "x");
        two.run("reset app.never");
        // The server of the last loan is preferred to others that are equally suitable.
        assert_eq!(two.value(asked), "");
        assert_eq!(one.value(asked), "NULL", "the other server has never had it");
        two.run("set app.never = 'x'");
    }
}

pub(crate) fn what_cannot_follow_keeps_the_server_as_long_as_it_is_there(house: &House) {
    let pooler =
        house.pooler("state_pin", &["pool_mode = transaction", "default_pool_size = 2", "session_policy = listen=pin"]);
    let mut direct = house.postgres.client("state_pin");
    direct.run("create table made (a int, b int); alter table made owner to u");
    let mut other = pooler.client("u", "state_pin");
    for (begin, end) in [
        ("select pg_advisory_lock(42)", "select pg_advisory_unlock(42)"),
        ("select pg_try_advisory_lock_shared(1, 2)", "select pg_advisory_unlock_all()"),
        ("create temp table t as select 7 as seven", "drop table t"),
        ("begin; create temp table t (a int) on commit preserve rows; commit", "discard temp"),
        ("create statistics pg_temp.s on a, b from made", "drop statistics pg_temp.s"),
        ("begin; declare c cursor with hold for select 1; commit", "close c"),
        ("listen news", "unlisten news"),
        (r"prepare p as select '\d'", "deallocate p"),
        ("select 1 as a into temp t", "discard all"),
    ] {
        let mut client = pooler.client("u", "state_pin");
        client.run(begin);
        let pid = client.value("select pg_backend_pid()");
        for _ in 0..5 {
            assert_ne!(other.value("select pg_backend_pid()"), pid, "{begin}: somebody else has the server");
            assert_eq!(client.value("select pg_backend_pid()"), pid, "{begin}: the client has another server");
        }
        client.run(end);
        // The server is free again: two clients with transactions have both servers.
        other.run("begin");
        let mut second = pooler.client("u", "state_pin");
        second.run("begin");
        let pids = [&mut other, &mut second].map(|client| client.value("select pg_backend_pid()"));
        assert!(pids.contains(&pid), "{end}: the server is still kept");
        other.run("commit");
        second.run("commit");
    }
    // The state of a client that leaves is released.
    for (begin, left) in [
        // Other tests take locks with this key in their own databases.
        (
            "select pg_advisory_lock(43)",
            "select count(*) from pg_locks l join pg_database d on d.oid = l.database and d.datname = current_database() \
             where locktype = 'advisory' and objid = 43",
        ),
        ("create temp table gone (a int)", "select count(*) from pg_class where relname = 'gone'"),
    ] {
        let mut client = pooler.client("u", "state_pin");
        client.run(begin);
        assert_eq!(direct.value(left), "1");
        // By now the state probe has ended.
        client.run("select 1");
        drop(client);
        wait_until("what it had is gone", Duration::from_secs(5), || direct.value(left) == "0");
    }
    // The same statement is logged once, whatever it locks.
    pooler.await_log("keeps its server: advisory lock 42 by select pg_advisory_lock(?)");
    assert_eq!(pooler.log().matches("by select pg_advisory_lock(?)").count(), 1);
}

pub(crate) fn an_operator_sees_who_keeps_which_server_and_why(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 3", "session_policy = listen=pin"];
    let pooler = house.pooler("state_show", &settings);
    let mut client = pooler.client("u", "state_show");
    client.run("set application_name = 'migrator'");
    client.run("select pg_advisory_lock(7, 8); select pg_advisory_lock_shared(-1) /* secret */");
    client.run("listen \"News\"");
    let pid = client.value("select pg_backend_pid()");
    let pins = pooler.console("show pins");
    let row = |what: &str| {
        let rows = (0..pins.rows.len()).map(|place| pins.named(place));
        rows.into_iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{what}: {pins:?}"))
    };
    for (what, kind, statement, ends_by) in [
        ("7, 8", "lock", "select pg_advisory_lock(?, ?); select pg_advisory_lock_shared(-?)", "pg_advisory_unlock"),
        ("-1", "lock", "select pg_advisory_lock(?, ?); select pg_advisory_lock_shared(-?)", "pg_advisory_unlock"),
        ("News", "listen", "listen \"News\"", "UNLISTEN"),
    ] {
        let row = row(what);
        assert_eq!((&*row["kind"], &*row["statement"], &*row["remote_pid"]), (kind, statement, &*pid), "{row:?}");
        assert_eq!((&*row["user"], &*row["application_name"]), ("u", "migrator"));
        assert!(row["ends_by"].starts_with(ends_by) && row["age"] == "0", "{row:?}");
        assert!(pooler.log().contains(&format!("{}: state_show/u@", row["client"])), "the log has the same name");
    }
    let locks = pooler.console("show locks");
    assert_eq!(locks.rows.len(), 2);
    let modes: BTreeSet<String> = (0..2).map(|place| locks.named(place)["mode"].clone()).collect();
    assert_eq!(modes, ["ExclusiveLock", "ShareLock"].map(str::to_owned).into());
    client.run("select pg_advisory_unlock_all(); unlisten *");
    wait_until("nothing is kept", Duration::from_secs(5), || pooler.console("show pins").rows.is_empty());
    let totals = pooler.console("show pin_totals");
    let totals: Vec<_> = (0..totals.rows.len()).map(|place| totals.named(place)).collect();
    let totals: Vec<_> = totals.iter().map(|row| (&*row["kind"], &*row["pinned"], &*row["total"])).collect();
    assert_eq!(totals, [("lock", "0", "1"), ("listen", "0", "1")]);
}

pub(crate) fn what_a_function_does_is_known_before_it_is_first_called(house: &House) {
    // Only the body of the function contains the name of the setting: state probes include it as soon as the body has been
    // read.
    let ini = house.ini("state_first", &["pool_mode = transaction", "default_pool_size = 1"]);
    house.postgres.client("state_first").run(
        "create function deep() returns int language plpgsql as
                $$ begin perform set_config('app.deep', 'secret', false); return 1; end $$;
         create function names() returns text language sql as
                $$ select coalesce(nullif(current_setting('app.deep', true), ''), '-') $$",
    );
    let pooler = house.start(&ini);
    let (mut one, mut two) = (pooler.client("u", "state_first"), pooler.client("u", "state_first"));
    one.run("select deep()");
    for _ in 0..3 {
        assert_eq!(two.value("select names()"), "-");
        assert_eq!(one.value("select names()"), "secret");
    }
    assert_eq!(one.value("select pg_backend_pid()"), two.value("select pg_backend_pid()"));
}

pub(crate) fn what_nobody_can_ask_about_keeps_the_server_until_its_client_leaves(house: &House) {
    let pooler = follow(house, "state_untold", 2);
    let mut other = pooler.client("u", "state_untold");
    let mut client = pooler.client("u", "state_untold");
    let untold =
        [parse("", "select set_config($1, 'secret', false)"), bind("", "", &["hidden.name"]), execute("", 0), sync()];
    client.peer.send(&untold.concat());
    assert!(client.answer().errors.is_empty());
    let pid = client.value("select pg_backend_pid()");
    // Neither a statement that cannot be analysed nor one that can makes the pooler forget it.
    for sql in ["do $$ begin execute 'select 1'; end $$", "set work_mem = '5MB'", "select pg_advisory_unlock_all()"] {
        client.run(sql);
        assert_ne!(other.value("select pg_backend_pid()"), pid, "after {sql}");
        assert_eq!(client.value("select pg_backend_pid()"), pid, "after {sql}");
    }
    pooler.await_log("keeps its server: setting of an unknown name: set_config whose first argument is not a literal");
    client.run("discard all");
    // Two transactions have both servers.
    other.run("begin");
    client.run("begin");
    let pids = [&mut other, &mut client].map(|client| client.value("select pg_backend_pid()"));
    assert!(pids.contains(&pid), "the server is still kept");
    other.run("commit");
    client.run("commit");
    // No DISCARD unloads a library.
    client.run("load 'plpgsql'");
    client.run("discard all");
    pooler.await_log("keeps its server: library loaded by LOAD");
    drop(client);
    pooler.await_log("its client left what cannot be discarded");
}

pub(crate) fn sessions_begin_to_follow_with_a_reload_and_stop_with_another(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "session_state = pgbouncer"];
    let pooler = house.pooler("state_reload", &settings);
    let (mut one, mut two) = (pooler.client("u", "state_reload"), pooler.client("u", "state_reload"));
    one.run("set work_mem = '7MB'");
    assert_eq!(two.value("show work_mem"), "7MB", "without it a session is whose turn it is");
    let before = pooler.ini_text();
    for (text, seen) in [(before.replace("session_state = pgbouncer", ""), "4MB"), (before.clone(), "8MB")] {
        pooler.rewrite_raw(&text);
        pooler.console("reload");
        assert_eq!(two.value("show work_mem"), "4MB", "the server from before is not used again");
        one.run("set work_mem = '8MB'");
        assert_eq!(two.value("show work_mem"), seen);
        assert_eq!(one.value("show work_mem"), "8MB");
        one.run("reset work_mem");
    }
}

pub(crate) fn a_session_that_cannot_be_read_in_time_is_closed_and_nobody_waits(house: &House) {
    if house.is_older_than(11, "LOCK of a view") {
        return;
    }
    let settings = ["pool_mode = transaction", "server_mend_timeout = 1"];
    let pooler = house.pooler("state_late", &settings);
    let mut direct = house.postgres.client("state_late");
    let (mut client, mut other) = (pooler.client("u", "state_late"), pooler.client("u", "state_late"));
    // The second of these waits until the functions have been read.
    client.run("select 1");
    client.run("select 2");
    direct.run("begin; lock table pg_catalog.pg_cursors in access exclusive mode");
    client.run("begin; declare c cursor with hold for select 1; commit");
    assert_eq!(other.value("select 1"), "1");
    pooler.await_log("its session could not be read in time");
    assert_eq!(client.query("select 1").error().code, "08006", "its session is lost");
    direct.run("commit");
    assert_eq!(other.value("select 1"), "1");
}

/// `session_unseen`: what functions change is probed, keeps the server, or is ignored.
pub(crate) fn what_functions_change_is_asked_about_kept_or_ignored(house: &House) {
    for way in ["verify", "pin", "ignore"] {
        let database = format!("state_unseen_{way}");
        let (size, unseen) = (if way == "pin" { 2 } else { 1 }, format!("session_unseen = {way}"));
        let settings = ["pool_mode = transaction", &format!("default_pool_size = {size}"), &unseen];
        let pooler = house.pooler(&database, &settings);
        let (mut one, mut two) = (pooler.client("u", &database), pooler.client("u", &database));
        one.run(
            "create function hides(text) returns text language sql as $$ select set_config('app.tenant', $1, false) $$",
        );
        one.run("select 1");
        let tenant = "select coalesce(current_setting('app.tenant', true), '')";
        let pins = || pooler.console("show pins").rows;
        for (text, is_left) in [
            ("select hides('one')", true),
            ("do $$ begin execute 'select hi' || 'des(''one'')'; end $$", true),
            ("select set_config('app.tenant', 'one', false)", false),
        ] {
            one.run(text);
            assert_eq!(one.value(tenant), "one", "{way}: {text}");
            let is_seen_by_another = way == "ignore" && is_left;
            assert_eq!(two.value(tenant), if is_seen_by_another { "one" } else { "" }, "{way}: {text}");
            let is_kept = way == "pin" && is_left;
            assert_eq!(pins().len(), usize::from(is_kept), "{way}: {text}: {:?}", pins());
            if is_kept {
                let told = format!("{:?}", pins());
                assert!(told.contains("that a function may have changed (session_unseen)"), "{told}");
            }
            one.run("discard all");
            assert_eq!((one.value(tenant), pins().len()), (String::new(), 0), "{way}: {text}");
        }
    }
}

pub(crate) fn what_a_policy_refuses_fails_like_a_statement_and_what_it_warns_of_is_told(house: &House) {
    let policy = "session_policy = lock=reject, listen=warn";
    let pooler = house.pooler("state_policy", &["pool_mode = transaction", policy, "max_prepared_statements = 9"]);
    let mut client = pooler.client("u", "state_policy");
    client.run("create function hidden() returns void language sql as $$ select pg_advisory_lock(5) $$");
    let refused = "session-level advisory locks are refused in this pool (session_policy)";
    let check = |answer: &tests::client::Answer, status| {
        let error = answer.error();
        assert_eq!((&*error.code, &*error.text, &*error.severity), ("0A000", refused, "ERROR"), "{answer:?}");
        assert_eq!(answer.status, status);
    };
    check(&client.query("select pg_advisory_lock(1)"), 'I');
    client.run("begin; create table made_before (a int)");
    check(&client.query("select pg_try_advisory_lock(1, 2)"), 'E');
    client.run("rollback");
    assert_eq!(client.value("select to_regclass('made_before') is null"), "t");
    // In a pipeline, with values, named and unnamed: what comes before it is executed, what comes after it is not.
    for name in ["", "named"] {
        let pipeline = [
            parse("", "select 'before'"),
            bind("", "", &[]),
            execute("", 0),
            parse(name, "select pg_advisory_lock($1, $2)"),
            bind("", name, &["1", "2"]),
            execute("", 0),
            parse("", "select 'behind'"),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        client.peer.send(&pipeline.concat());
        let answer = client.answer();
        check(&answer, 'I');
        assert_eq!(answer.rows.len(), 1, "{answer:?}");
    }
    // Releasing is no violation, and neither is state that ends with its transaction.
    client.run("select pg_advisory_unlock_all(); close all; unlisten *");
    client.run("select pg_advisory_xact_lock(1)");
    assert!(pooler.console("show locks").rows.is_empty());
    // State that no text reveals is refused when a probe finds it, and that ends the session.
    client.ask("select hidden()");
    client.answer();
    let lost = client.query("select 1");
    assert_eq!((&*lost.error().code, &*lost.error().severity), ("0A000", "FATAL"), "{lost:?}");
    wait_until("its lock is gone", Duration::from_secs(5), || locks(house, "state_policy", 5) == "0");
    let mut client = pooler.client("u", "state_policy");
    client.run("listen news");
    let answer = client.query("select 1");
    assert_eq!(answer.notices.len(), 1, "{answer:?}");
    assert_eq!(answer.notices[0].text, "this session keeps its server: LISTEN news");
    pooler.rewrite_raw(&pooler.ini_text().replace("lock=reject", "lok=reject"));
    pooler.console("reload");
    pooler.await_log("not \"lok\", but one of lock, listen, temporary");
}

pub(crate) fn servers_are_kept_by_as_many_clients_and_for_as_long_as_may_be(house: &House) {
    let settings = ["pool_mode = transaction", "max_pinned_servers = 1"];
    let pooler = house.pooler("state_limit", &settings);
    let (mut first, mut second) = (pooler.client("u", "state_limit"), pooler.client("u", "state_limit"));
    first.run("select pg_advisory_lock(1)");
    first.run("select pg_advisory_lock(2)");
    second.run("select pg_advisory_lock(3)");
    let lost = second.query("select 1");
    assert_eq!(lost.error().code, "53300", "{lost:?}");
    assert!(lost.error().detail.contains("this one would keep one more: advisory lock 3"), "{lost:?}");
    wait_until("its lock is gone", Duration::from_secs(5), || locks(house, "state_limit", 3) == "0");
    pooler.rewrite_raw(&pooler.ini_text().replace("max_pinned_servers = 1", "pinned_server_timeout = 0.5"));
    pooler.console("reload");
    let lost = first.answer_within(Duration::from_secs(10));
    assert_eq!(lost.error().code, "57P05", "{lost:?}");
    assert!(lost.error().detail.contains("the session has held: advisory lock 1"), "{lost:?}");
    wait_until("its locks are gone", Duration::from_secs(5), || {
        locks(house, "state_limit", 1) == "0" && locks(house, "state_limit", 2) == "0"
    });
    pooler.rewrite_raw(&pooler.ini_text().replace("pinned_server_timeout = 0.5", "client_idle_timeout = 1"));
    pooler.console("reload");
    let mut idle = pooler.client("u", "state_limit");
    idle.run("select pg_advisory_lock(4)");
    assert_eq!(idle.answer_within(Duration::from_secs(10)).error().text, "client_idle_timeout");
}

pub(crate) fn who_leaves_at_once_leaves_what_its_server_told(house: &House) {
    let pooler = follow(house, "state_short", 1);
    // Nothing is known yet, so after the first client a full state probe runs, for which the client does not wait.
    let mut pids = BTreeSet::new();
    for _ in 0..5 {
        let mut client = pooler.client("u", "state_short");
        pids.insert(client.value("select pg_backend_pid()"));
    }
    assert_eq!(pids.len(), 1, "one server was to be enough");
    let mut client = pooler.client("u", "state_short");
    client.run("set work_mem = '9MB'");
    drop(client);
    let mut client = pooler.client("u", "state_short");
    assert_eq!(client.value("show work_mem"), "4MB");
    assert!(!house.postgres.log().contains("statement: DISCARD ALL"), "nothing had to be discarded");
}

pub(crate) fn what_a_session_begins_with_is_what_it_goes_back_to(house: &House) {
    let pooler = follow(house, "state_given", 1);
    house.postgres.client("state_given").run("create schema tenant; create table tenant.t as select 'tenant' as whose");
    let mut plain = pooler.client("u", "state_given");
    let login = |parameters: &[(&str, &str)]| {
        let all = [&[("user", "u"), ("database", "state_given")], parameters].concat();
        Client::try_login(pooler.address(), &all)
    };
    let mut given = login(&[
        ("search_path", "tenant"),
        ("options", "-c work_mem=5MB --statement-timeout=70000 -capp.tenant=seven"),
    ])
    .expect("let in");
    let shown =
        "select current_setting('work_mem') || current_setting('statement_timeout') || current_setting('app.tenant')
        || (select whose from t)";
    for _ in 0..3 {
        assert_eq!(given.value(shown), "5MB70sseventenant");
        assert!(shown_is_plain(&mut plain));
    }
    given.run("set work_mem = '6MB'; set search_path = public");
    assert!(shown_is_plain(&mut plain));
    assert_eq!(given.value("select current_setting('work_mem') || current_setting('search_path')"), "6MBpublic");
    for reset in ["reset work_mem; reset search_path", "set work_mem = '1MB'; reset all", "discard all"] {
        given.run(reset);
        assert!(shown_is_plain(&mut plain), "{reset}");
        assert_eq!(given.value(shown), "5MB70sseventenant", "after {reset}");
    }
    // Also parameters that servers report by themselves.
    let mut styled = login(&[("datestyle", "Postgres, MDY"), ("timezone", "Asia/Tokyo")]).expect("let in");
    let style = "select current_setting('datestyle') || current_setting('timezone')";
    for reset in ["reset datestyle; reset timezone", "reset all", "discard all", "begin; reset all; commit"] {
        styled.run("set datestyle = 'German'; set timezone = 'UTC'");
        assert!(shown_is_plain(&mut plain));
        styled.run(reset);
        assert_eq!(styled.value(style), "Postgres, MDYAsia/Tokyo", "after {reset}");
        assert_eq!(styled.parameters["DateStyle"], "Postgres, MDY", "after {reset}");
        assert!(plain.value(style).starts_with("ISO"));
    }
    drop(styled);
    // Also while the client keeps its server.
    given.run("create temporary table keeps (a int)");
    given.run("reset all");
    assert_eq!(given.value("show work_mem"), "5MB");
    drop(given);
    let Err(wrong) = login(&[("options", "-d 5")]) else { panic!("let in") };
    assert!(wrong.text.contains("only '-c config=val'"), "{wrong:?}");
    let mut wrong = login(&[("no_such_setting", "1")]).expect("let in");
    let answer = wrong.query("select 1");
    assert_eq!(answer.error().text, "invalid server parameter");
    assert_eq!(answer.error().detail, "The server said: unrecognized configuration parameter \"no_such_setting\"");
}

fn shown_is_plain(client: &mut Client) -> bool {
    let seen = client.value(
        "select current_setting('work_mem') || coalesce(nullif(current_setting('app.tenant', true), ''), '-')
            || current_setting('search_path') || current_setting('statement_timeout')",
    );
    seen == "4MB-\"$user\", public0"
}

/// Several tenants on few servers: row-level security by a setting, and a schema by `search_path`. No client ever reads a
/// row of another tenant. `TRUNKLINE_TEST_READS` sets the number of reads; few by default.
pub(crate) fn no_tenant_reads_what_is_another_ones(house: &House) {
    const TENANTS: usize = 8;
    let reads: usize = std::env::var("TRUNKLINE_TEST_READS").map_or(8_000, |reads| reads.parse().expect("a number"));
    let settings = ["pool_mode = transaction", "default_pool_size = 3", "max_prepared_statements = 20"];
    let pooler = house.start(&house.ini("state_tenants", &settings).secret("tenant_app", "x"));
    let mut setup = house.postgres.client("state_tenants");
    setup.run(
        "create role tenant_app login;
         create table items as select 't' || t as tenant, i from generate_series(0, 7) t, generate_series(1, 3) i;
         alter table items enable row level security; grant select on items to tenant_app;
         create policy own on items using (tenant = current_setting('app.tenant', true));
         create function enter(text) returns void language plpgsql as
             $$ begin perform set_config('app.tenant', $1, false); end $$",
    );
    for tenant in 0..TENANTS {
        setup.run(&format!(
            "create schema t{tenant}; grant usage on schema t{tenant} to tenant_app;
             create table t{tenant}.whose as select 't{tenant}' as tenant; grant select on t{tenant}.whose to tenant_app"
        ));
    }
    std::thread::scope(|scope| {
        for tenant in 0..TENANTS {
            let pooler = &pooler;
            scope.spawn(move || {
                let mut random = Random::new(tenant as u64);
                let mut client = pooler.client("tenant_app", "state_tenants");
                let mut left = reads / TENANTS;
                while left > 0 {
                    let own = format!("t{tenant}");
                    match random.below(6) {
                        0 => client.run(&format!("set app.tenant = '{own}'")),
                        1 => client.run(&format!("select set_config('app.tenant', '{own}', false)")),
                        2 => client.run(&format!("select enter('{own}')")),
                        3 => {
                            client.run(&format!("do $$ begin perform set_config('app.tenant', '{own}', false); end $$"))
                        }
                        4 => {
                            let bound = [
                                parse("", "select set_config('app.tenant', $1, false)"),
                                bind("", "", &[&own]),
                                execute("", 0),
                                sync(),
                            ];
                            client.peer.send(&bound.concat());
                            assert!(client.answer().errors.is_empty());
                        }
                        _ => {
                            // Neither a rollback nor an error changes the setting.
                            client.run(&format!("set app.tenant = '{own}'"));
                            client.query("begin; set app.tenant = 'nobody'; select 1 / 0");
                            client.run("rollback");
                        }
                    }
                    client.run(&format!("set search_path = t{tenant}, public"));
                    for _ in 0..random.below(20) + 1 {
                        let seen = client.query("select tenant from items union all select tenant from whose");
                        let rows: Vec<_> = seen.rows.iter().map(|row| row[0].as_deref()).collect();
                        assert_eq!(rows, [Some(&*own); 4], "{seen:?}");
                        left = left.saturating_sub(1);
                    }
                    if random.below(10) == 0 {
                        client = pooler.client("tenant_app", "state_tenants");
                        let seen = client.query("select tenant from items");
                        assert!(seen.rows.is_empty(), "who is nobody yet sees {seen:?}");
                    }
                }
            });
        }
    });
}

/// A difference is logged and counted, and the server's answer is used. Knowledge about a function is used for half a
/// minute, and this function is replaced by a session that the pooler does not see.
pub(crate) fn what_is_known_wrongly_is_told_where_that_is_wanted(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "session_verify = 1"];
    let pooler = house.pooler("state_verified", &settings);
    let make = |body: &str| {
        let text = format!("create or replace function f() returns text language sql as $$ {body} $$");
        house.postgres.client("state_verified").run(&text);
    };
    make("select 'nothing'::text");
    let (mut one, mut two) = (pooler.client("u", "state_verified"), pooler.client("u", "state_verified"));
    assert_eq!(one.value("select f()"), "nothing");
    assert_eq!(verified(&pooler)[1], 0);
    make("select set_config('work_mem', '5MB', false)");
    assert_eq!(one.value("select f()"), "5MB");
    pooler.await_log("session differs from what was known of it: setting \"work_mem\" (session_verify), server S-");
    assert_eq!(verified(&pooler)[1], 1);
    assert_eq!((two.value("show work_mem"), one.value("show work_mem")), ("4MB".into(), "5MB".into()));
    assert_eq!(verified(&pooler)[1], 1);
}

/// A function with its owner's rights leaves a setting that the user of the pool may not take back.
pub(crate) fn nobody_pays_for_settings_that_another_client_was_allowed_once(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1"];
    let pooler = house.start(&house.ini("state_rights", &settings).secret("state_rights", "x"));
    house.postgres.client("state_rights").run(
        "create role state_rights login;
         create function raise_limits() returns text language sql security definer as
            $$ select set_config('log_min_duration_statement', '77s', false) $$",
    );
    const SHOWN: &str = "select current_setting('work_mem') || current_setting('log_min_duration_statement')";
    let mut other = pooler.client("state_rights", "state_rights");
    other.run("set work_mem = '5MB'");
    let mut plain = pooler.client("state_rights", "state_rights");
    for round in 0..4 {
        let mut raised = pooler.client("state_rights", "state_rights");
        assert_eq!(raised.value("select raise_limits()"), "77s");
        let next = if round % 2 == 0 { &mut plain } else { &mut other };
        match round / 2 {
            0 => next.ask(SHOWN),
            _ => next.peer.send(&extended(SHOWN)),
        }
        let answer = next.answer();
        assert!(answer.errors.is_empty(), "round {round}: {answer:?}");
        assert_eq!(plain.value(SHOWN), "4MB-1", "round {round}");
        assert_eq!(other.value(SHOWN), "5MB-1", "round {round}");
        // Its own setting is refused by any server.
        let answer = raised.query(SHOWN);
        assert_eq!(answer.error().text, "invalid server parameter");
        let detail = "The server said: permission denied to set parameter \"log_min_duration_statement\"";
        assert_eq!(answer.error().detail, detail);
        assert_eq!(plain.value(SHOWN), "4MB-1", "round {round}");
    }
    let told = pooler.log().matches("settings of another client cannot be reset: ERROR: permission denied").count();
    assert_eq!(told, 1, "{}", pooler.log());
}

/// `idle_session_timeout` ends the client that has set it, and not the server that it had, which others use.
pub(crate) fn idle_session_timeout_ends_its_client_and_no_server(house: &House) {
    let pooler = follow(house, "state_idle", 1);
    let pid = pooler.client("u", "state_idle").server_pid();
    let timeout = "show idle_session_timeout";
    let by_set = |sql: &str| {
        let mut client = pooler.client("u", "state_idle");
        client.run(sql);
        client
    };
    let by_option = || {
        let option = ("options", "-c idle_session_timeout=700ms");
        Client::try_login(pooler.address(), &[("user", "u"), ("database", "state_idle"), option]).expect("let in")
    };
    let ways: [&dyn Fn() -> Client; 4] = [
        &|| by_set("set idle_session_timeout = '700ms'"),
        &|| by_set("begin; select set_config('idle_session_timeout', '700', false); commit"),
        &|| by_set("do $$ begin set idle_session_timeout = 700; end $$"),
        &by_option,
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let (mut client, mut other) = (way(), pooler.client("u", "state_idle"));
        assert_eq!(client.value(timeout), "700ms", "way {number}");
        assert_eq!(other.value(timeout), "0", "way {number}");
        assert_eq!(client.value(timeout), "700ms", "way {number}");
        let end = client.answer_within(Duration::from_secs(10));
        let error = end.error();
        let words = "terminating connection due to idle-session timeout";
        assert_eq!((&*error.severity, &*error.code, &*error.text), ("FATAL", "57P05", words), "way {number}");
        assert_eq!(other.server_pid(), pid, "way {number}: the server has been ended");
    }
    // While the client keeps its server, PostgreSQL itself ends both.
    let mut keeps = by_set("create temporary table kept (a int); set idle_session_timeout = '300ms'");
    assert_eq!(keeps.answer_within(Duration::from_secs(10)).error().code, "57P05");
    assert_eq!(pooler.client("u", "state_idle").value(timeout), "0");
}

/// A request that comes at the moment at which PostgreSQL ends an idle server gets another server.
pub(crate) fn idle_session_timeout_of_a_database_ends_no_request(house: &House) {
    const CLIENTS: u32 = 30;
    let pooler = follow(house, "state_idle_all", CLIENTS);
    house.postgres.query("alter database state_idle_all set idle_session_timeout = '1s'");
    let clients: Vec<_> = (0..CLIENTS).map(|_| pooler.client("u", "state_idle_all")).collect();
    pooler.client("u", "state_idle_all").run("select 1");
    wait_until("PostgreSQL has ended a server", LIMIT, || pooler.log().contains("idle-session timeout"));
    std::thread::scope(|scope| {
        for (number, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                let mut random = Random::new(number as u64);
                for _ in 0..5 {
                    // Each has a server of its own, so that all are idle from the same moment on.
                    client.run("select pg_sleep(0.05)");
                    std::thread::sleep(Duration::from_micros(995_000 + random.next_u64() % 10_000));
                    client.run("select 1");
                }
            });
        }
    });
}

/// A client's SET is sent as it is to a server with another client's settings, by the extended protocol as by Query.
pub(crate) fn a_set_by_the_extended_protocol_costs_no_more_transactions(house: &House) {
    let transactions = |database: &str, ask: &dyn Fn(&mut Client, &str)| {
        let pooler = follow(house, database, 1);
        house.postgres.client(database).run("create schema s1");
        let mut clients = [pooler.client("u", database), pooler.client("u", database)];
        for sql in ["set search_path to s1", "select 1", "set search_path to public"].repeat(20) {
            for client in &mut clients {
                ask(client, sql);
                assert!(client.answer().errors.is_empty(), "{sql}");
            }
        }
        drop((clients, pooler));
        let of = |what: &str| {
            house.postgres.value(&format!("select {what} from pg_stat_database where datname = '{database}'"))
        };
        wait_until("the servers have gone", Duration::from_secs(10), || of("numbackends") == "0");
        of("xact_commit").parse::<u32>().expect("a number")
    };
    let by_query = transactions("state_turns_simple", &|client, sql| client.ask(sql));
    let by_parse = transactions("state_turns_extended", &|client, sql| client.peer.send(&extended(sql)));
    assert!(by_parse <= by_query + by_query / 10, "{by_parse} transactions, {by_query} by Query");
}
