//! Functions that are created while other sessions are pooled with state that follows them.

use tests::client::Client;
use tests::message::{bind, execute, frame, parse, sync};
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

/// Previously the effects of a function were unknown from its creation until a server had been queried: in between its
/// settings stayed on the server for the next client.
pub(crate) fn a_function_is_suspect_from_when_it_is_made(house: &House) {
    let database = "made_functions";
    let pooler = house.pooler(database, &["pool_mode = transaction", "default_pool_size = 1"]);
    let (mut owner, mut one) = (pooler.client("u", database), pooler.client("v", database));
    // So many that reading them takes long.
    owner.run(
        "do $do$ begin for i in 1..2000 loop execute format('create function f%s() returns int language plpgsql as %L', i,
            'begin ' || repeat('perform 1; ', 50) || ' return 1; end'); end loop; end $do$",
    );
    let mut two = pooler.client("v", database);
    let made = |name: &str| {
        format!(
            "create function {name}(value text) returns text language sql as
                $$ select set_config('app.tenant', value, false) $$"
        )
    };
    let mut is_anybodys = |name: &str, one: &mut Client| {
        one.run(&format!("select {name}('one')"));
        let read = two.value("select coalesce(current_setting('app.tenant', true), '')");
        assert_eq!(read, "", "by {name}");
        assert_eq!(one.value("select current_setting('app.tenant')"), "one", "by {name}");
        one.run("reset app.tenant");
    };
    owner.run(&made("at_once"));
    is_anybodys("at_once", &mut one);
    owner.run("begin");
    owner.run(&made("in_transaction"));
    // Meanwhile another session, which cannot see the new function, has the functions read.
    one.run("create view v as select 1");
    one.run("select f1()");
    owner.run("commit");
    is_anybodys("in_transaction", &mut one);
    owner.peer.send(&[parse("p", &made("prepared")), bind("", "p", &[]), execute("", 0), sync()].concat());
    assert!(owner.answer().errors.is_empty());
    is_anybodys("prepared", &mut one);
    owner.run(&format!("do $do$ begin {}; end $do$", made("in_block")));
    is_anybodys("in_block", &mut one);
    owner.run(&format!("do $do$ begin execute $x$ {} $x$; end $do$", made("executed")));
    is_anybodys("executed", &mut one);
    one.run(&format!("{}; select together('one')", made("together")));
    assert_eq!(two.value("select coalesce(current_setting('app.tenant', true), '')"), "", "together");
}

/// Previously the process that took a transaction over did not know that it had created functions: for up to a minute from
/// the commit they were taken to have no effects.
pub(crate) fn a_function_is_suspect_if_a_restart_comes_before_its_commit(house: &House) {
    let database = "made_taken_over";
    let mut pooler = house.pooler(database, &["pool_mode = transaction", "default_pool_size = 1"]);
    let (mut owner, mut one) = (pooler.client("u", database), pooler.client("v", database));
    let mut two = pooler.client("v", database);
    owner.run("begin");
    owner.run(
        "create function set_tenant(value text) returns text language sql as
            $$ select set_config('app.tenant', value, false) $$",
    );
    pooler.restart_online();
    // A session that cannot see the new functions has the functions read.
    one.run("create view v as select 1");
    wait_until("the functions are known", LIMIT, || {
        one.run("select count(*) from v");
        let databases = pooler.console("SHOW DATABASES EXTENDED");
        (0..databases.rows.len()).any(|row| databases.named(row)["functions"] == "known")
    });
    owner.run("commit");
    one.run("select set_tenant('one')");
    assert_eq!(two.value("select coalesce(current_setting('app.tenant', true), '')"), "");
    assert_eq!(one.value("select current_setting('app.tenant')"), "one");
}

/// Previously the same database under another name, which may belong to another worker, was known for a minute not to have
/// the function.
pub(crate) fn a_function_is_known_under_each_name_of_its_database(house: &House) {
    let names: Vec<String> = (0..6).map(|number| format!("made_alias_{number}")).collect();
    let ini = house.ini("made_aliases", &["default_pool_size = 1", "workers = 2"]);
    let ini = names.iter().fold(ini, |ini, name| ini.database(&house.line_as(name, "made_aliases")));
    let pooler = house.start(&ini);
    let mut pairs: Vec<_> = names.iter().map(|name| [(); 2].map(|()| pooler.client("u", name))).collect();
    // Each of them knows the functions now.
    pairs.iter_mut().flatten().for_each(|client| client.run("select 1"));
    pooler.client("u", "made_aliases").run(
        "create function set_tenant(value text) returns text language sql as
            $$ select set_config('app.tenant', value, false) $$",
    );
    for (name, [one, two]) in names.iter().zip(&mut pairs) {
        one.run("select set_tenant('one')");
        assert_eq!(two.value("select coalesce(current_setting('app.tenant', true), '')"), "", "{name}");
    }
}

/// Temporary objects, which only their own session sees and which are dropped with it, change the session just as much.
pub(crate) fn temporary_views_and_functions_that_set_something_leave_nothing(house: &House) {
    let database = "made_temporary";
    let pooler = house.pooler(database, &["pool_mode = transaction", "default_pool_size = 1"]);
    let (mut one, mut two) = (pooler.client("u", database), pooler.client("u", database));
    let sets = "select set_config('app.tenant', 'one', false)";
    for (makes, calls, drops) in [
        (format!("create temp view v as {sets}"), "table v", "drop view v"),
        (
            format!("create function pg_temp.f() returns text language sql as $$ {sets} $$"),
            "select pg_temp.f()",
            "drop function pg_temp.f()",
        ),
        (
            format!("create temp table t (a int); create rule r as on insert to t do instead {sets}"),
            "insert into t values (1)",
            "drop table t",
        ),
    ] {
        one.run(&makes);
        for sql in [calls, drops] {
            one.run(sql);
        }
        assert_eq!(two.value("select coalesce(current_setting('app.tenant', true), '')"), "", "{makes}");
        assert_eq!(one.value("select current_setting('app.tenant')"), "one", "{makes}");
        one.run("discard all");
    }
}

/// Regression: the client was closed, because the probe for what the triggers of a COPY may have set "would prove nothing"
/// while a Sync that the COPY has ignored, or has not, may still be answered. libpq sends such a Sync with each COPY.
pub(crate) fn what_a_failed_copy_may_have_set_is_asked_although_a_sync_may_be_unanswered(house: &House) {
    let pooler = house.pooler("copied", &["pool_mode = transaction", "default_pool_size = 1"]);
    let mut owner = house.postgres.client("copied");
    owner.run("create table plain(a int); create table refusing(a int)");
    owner.run(
        "create function refuse() returns trigger language plpgsql as $$ begin \
         perform set_config(tg_argv[0], 'no', false); raise 'no'; end $$",
    );
    owner.run(
        "create trigger refuse before insert on refusing for each statement execute function refuse('enable_seqscan')",
    );
    // The trigger fails before the Sync is read, which is then answered beside that of the client's CopyFail.
    for (table, answers) in [("plain", 1), ("refusing", 2)] {
        for (mut client, whose) in
            [(house.postgres.client("copied"), "direct"), (pooler.client("u", "copied"), "pooled")]
        {
            let text = format!("copy {table} from stdin");
            client.peer.send(&[parse("", &text), bind("", "", &[]), execute("", 0), sync()].concat());
            while client.peer.frame().expect("the COPY begins").tag != b'G' {}
            client.peer.send(&[frame(b'f', b"no more\0"), sync()].concat());
            for number in 0..answers {
                let errors = client.answer().errors.len();
                assert_eq!(errors, usize::from(number == 0), "{whose}, {table}, answer {number}");
            }
            assert_eq!(client.value("show enable_seqscan"), "on", "{whose}, {table}");
        }
    }
}
