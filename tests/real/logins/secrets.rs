//! Users whose secret PostgreSQL knows (`auth_query`): who is admitted, which pool runs the query, and what goes wrong.

use std::time::Duration;

use tests::client::Client;
use tests::message;
use tests::peer::Peer;
use tests::pooler::{Ini, Pooler};
use tests::postgres::SECRET;
use tests::program::{Ended, psql, run};
use tests::wait::wait_until;

use crate::house::House;

const LIMIT: Duration = Duration::from_secs(30);

const QUERY: &str = "auth_query = select usename, passwd from pg_shadow where usename = $1";

/// A pooler whose auth file has only `asker`, as whom it queries the secrets of all other users.
fn pooler(house: &House, database: &str, settings: &[&str]) -> Pooler {
    let ini = Ini::new(&house.line(database)).set("auth_type = scram-sha-256").set(QUERY);
    let ini = ini.database(&house.line("postgres"));
    let ini = ini.secret("asker", "asks").set("admin_users = asker");
    house.start(&settings.iter().fold(ini, |ini: Ini, setting| ini.set(setting)))
}

/// Creates a role in PostgreSQL, unless another test has created it.
fn user(house: &House, name: &str, how: &str) {
    let create = format!("create role {name} login {how}");
    let unless = "exception when duplicate_object or unique_violation then null";
    house.postgres.client("postgres").run(&format!("do $$ begin {create}; {unless}; end $$"));
}

fn asks(pooler: &Pooler, user: &str, password: &str, database: &str, sql: &str) -> Ended {
    run(psql(pooler, user, database).env("PGPASSWORD", password).args(["-c", sql]), LIMIT)
}

pub(crate) fn a_server_knows_who_may_come_in(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    user(house, "told", "password 'right'");
    user(house, "open", "");
    house.postgres.database("secret_told");
    let pooler = pooler(house, "secret_told", &["auth_user = asker", "auth_dbname = postgres"]);
    let asks = |user: &str, password: &str| asks(&pooler, user, password, "secret_told", "select current_user");
    assert_eq!(asks("told", "right").success(), "told\n");
    assert!(asks("told", "wrong").failure().contains("SASL authentication failed"));
    assert!(asks("nobody_at_all", "x").failure().contains("SASL authentication failed"));
    // A user without a password cannot log in with any password.
    for password in ["md5", "", "open"] {
        asks("open", password).failure();
    }
    // The query ran in the pool of `auth_user`.
    pooler.await_log("postgres/asker@127.0.0.1");
    assert!(!pooler.log().contains("right"));
}

pub(crate) fn a_question_that_cannot_be_answered_is_the_operators_matter(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    user(house, "told", "password 'right'");
    house.postgres.database("secret_asked");
    for (settings, told, logged) in [
        (
            ["auth_user = asker", "auth_query = select 1 from nowhere where $1 = $1"],
            "bouncer config error",
            "error in auth_query: ERROR: relation \"nowhere\" does not exist",
        ),
        (
            ["auth_user = asker", "auth_query = select $1::text"],
            "bouncer config error",
            "expected 2 columns from auth_query, not 1",
        ),
        (
            ["auth_user = asker", "auth_dbname = missing"],
            "bouncer config error",
            "authentication database \"missing\" is not configured.",
        ),
        (
            ["auth_user = stranger", "query_wait_timeout = 5"],
            "role \"stranger\" does not exist",
            "pooler error: role \"stranger\" does not exist",
        ),
    ] {
        let pooler = pooler(house, "secret_asked", &settings);
        let answer = asks(&pooler, "told", "right", "secret_asked", "select 1").failure();
        assert!(answer.contains(told), "{settings:?}: {answer}");
        pooler.await_log(logged);
    }
}

pub(crate) fn nobody_sees_the_question(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    user(house, "told", "password 'right'");
    house.postgres.database("secret_quiet");
    let pooler = pooler(house, "secret_quiet", &["auth_user = asker", "max_client_conn = 1"]);
    // The only permitted client is the one that logs in: the auth query does not count as a client.
    assert_eq!(asks(&pooler, "told", "right", "secret_quiet", "select 7").success(), "7\n");
    let clients = asks(&pooler, "asker", "asks", "pgbouncer", "show clients").success();
    assert_eq!(clients.lines().count(), 1, "{clients}");
}

/// How often the auth query has reached PostgreSQL: each one inserts a row.
fn counting(house: &House, database: &str) -> String {
    let mut client = house.postgres.client(database);
    client.run("create table if not exists asked (name text)");
    client.run(
        "create or replace function ask(wanted text, out usename name, out passwd text) returns setof record \
         language sql security definer as $$ insert into asked values (wanted); \
         select rolname, rolpassword from pg_authid where rolname = wanted and rolcanlogin $$",
    );
    "auth_query = select * from ask($1)".to_owned()
}

pub(crate) fn what_is_told_is_believed_for_its_time_and_for_its_user_only(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    user(house, "cached_a", "password 'one'");
    user(house, "cached_b", "password 'two'");
    house.postgres.database("secret_cached");
    let query = counting(house, "secret_cached");
    let mut postgres = house.postgres.client("secret_cached");
    let mut asked = |name: &str| postgres.value(&format!("select count(*) from asked where name = '{name}'"));
    for method in ["scram-sha-256", "plain"] {
        let ini = Ini::new(&house.line("secret_cached")).set(&format!("auth_type = {method}")).set(&query);
        let ini = ini.set("auth_user = asker").secret("asker", "asks").set("admin_users = asker");
        let pooler = house.start(&ini.clone().set("auth_query_cache_ttl = 600"));
        let login = |user: &str, password: &str| asks(&pooler, user, password, "secret_cached", "select current_user");
        house.postgres.client("postgres").run("alter role cached_a password 'one'");
        house.postgres.client("secret_cached").run("truncate asked");
        for _ in 0..3 {
            login("cached_a", "one").success();
        }
        assert_eq!((asked("cached_a"), asked("cached_b")), ("1".into(), "0".into()), "{method}");
        // A cached secret of one user admits no other user.
        login("cached_b", "one").failure();
        login("cached_b", "two").success();
        login("cached_a", "two").failure();
        // Neither does a cached answer for a user that does not exist.
        assert!(login("cached_nobody", "one").failure().contains("authentication failed"));
        // A changed password works: at once where the client's proof shows that the cached secret is outdated, else at the
        // second try.
        login("cached_a", "one").success();
        house.postgres.client("postgres").run("alter role cached_a password 'changed'");
        if method == "scram-sha-256" {
            login("cached_a", "changed").failure();
        }
        login("cached_a", "changed").success();
        login("cached_a", "one").failure();
        login("cached_a", "changed").success();
        // A reload clears the cache.
        house.postgres.client("secret_cached").run("truncate asked");
        login("cached_a", "changed").success();
        assert_eq!(asked("cached_a"), "0");
        asks(&pooler, "asker", "asks", "pgbouncer", "reload").success();
        login("cached_a", "changed").success();
        assert_eq!(asked("cached_a"), "1");
        assert!(!pooler.log().contains("changed"), "a secret is in the log");
    }
    // Without the setting each login runs the query.
    let pooler = pooler(house, "secret_cached", &["auth_user = asker", &query]);
    house.postgres.client("secret_cached").run("truncate asked");
    for _ in 0..3 {
        asks(&pooler, "cached_a", "changed", "secret_cached", "select 1").success();
    }
    assert_eq!(asked("cached_a"), "3");
}

pub(crate) fn what_a_server_refuses_is_asked_again(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    house.postgres.database("secret_refused");
    let mut postgres = house.postgres.client("secret_refused");
    postgres.run("create table if not exists known as select 'by_password'::text as name, 'old'::text as secret");
    postgres.run("update known set secret = 'old'");
    let ini = Ini::new(&house.line("secret_refused")).set("auth_type = trust").set("auth_user = asker");
    let ini = ini.set("auth_query = select name, secret from known where name = $1").secret("asker", "asks");
    let pooler = house.start(&ini.set("auth_query_cache_ttl = 600").set("server_login_retry = 0"));
    // A client that shows no password cannot prove that another password is right.
    let come = || asks(&pooler, "by_password", "", "secret_refused", "select current_user");
    assert!(come().failure().contains("password authentication failed"));
    postgres.run(&format!("update known set secret = '{SECRET}'"));
    assert_eq!(come().success(), "by_password\n");
}

/// A client that logged in long ago proves nothing any more: its pool runs the auth query by itself when servers refuse the
/// secret it knows.
pub(crate) fn a_password_is_changed_behind_clients_that_stay(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    house.postgres.database("secret_moves");
    let mut postgres = house.postgres.client("secret_moves");
    let sql = |password: &str| format!("set password_encryption = 'md5'; alter role moves password '{password}'");
    user(house, "moves", "");
    house.postgres.rule(&house.place, "host all moves all md5\n");
    postgres.run(&sql("one"));
    let ini = Ini::new(&house.line("secret_moves")).set("auth_type = trust").set("auth_user = asker").set(QUERY);
    let ini = ini.secret("asker", "asks").set("auth_query_cache_ttl = 600").set("server_login_retry = 1");
    let pooler = house.start(&ini);
    let mut stays = Client::login(pooler.address(), "moves", "secret_moves");
    assert_eq!(stays.value("select current_user"), "moves");
    // When this is answered, the state probe of the server has ended, and the server is idle.
    assert_eq!(stays.value("select current_user"), "moves");
    postgres.run(&sql("two"));
    postgres.run("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'moves'");
    pooler.await_log("terminating connection due to administrator command");
    assert_eq!(stays.value("select current_user"), "moves");
    pooler.await_log("password authentication failed for user \"moves\"");
    // The role has no password any more: that is reported, and not waited for.
    postgres.run("alter role moves password null");
    postgres.run("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'moves'");
    wait_until("the server is gone", LIMIT, || {
        pooler.log().matches("terminating connection due to admin").count() == 2
    });
    assert!(stays.query("select 1").error().text.contains("wrong password type"));
    let is_hash = |rest: &str| rest.starts_with(|c: char| c.is_ascii_hexdigit());
    assert!(!pooler.log().split("md5").skip(1).any(is_hash), "a secret stands in the log");
}

pub(crate) fn answers_that_are_no_answer_let_nobody_in(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    house.postgres.database("secret_odd");
    let broken = "SCRAM-SHA-256$4096:c2FsdA==";
    for (query, password, told, logged) in [
        (
            "select 'odd', 'a' where $1 = 'odd' union all select 'odd', 'b'",
            "a",
            "bouncer config error",
            "expected 1 row from auth_query, not several that differ",
        ),
        (
            "select null::text, 'a' where $1 = 'odd'",
            "a",
            "bouncer config error",
            "auth_query response contained null user name",
        ),
        (
            "select 'other', 'a' where $1 = 'odd'",
            "a",
            "bouncer config error",
            "auth_query response is about another user: other",
        ),
        (
            &*format!("select 'odd', '{broken}' where $1 = 'odd'"),
            broken,
            "bouncer config error",
            "auth_query response contained a broken SCRAM secret",
        ),
        ("select 'odd', 'md5123' where $1 = 'odd'", "other", "authentication failed", "login failed"),
        ("select 'odd', null where $1 = 'odd'", "md5", "authentication failed", "login failed"),
        ("select $1, 'a' from pg_sleep(60)", "a", "client_login_timeout", "client_login_timeout"),
    ] {
        let limit = if query.contains("pg_sleep") { "client_login_timeout = 5" } else { "client_login_timeout = 60" };
        let query = format!("auth_query = {query}");
        let pooler = pooler(house, "secret_odd", &["auth_user = asker", &query, limit]);
        let answer = asks(&pooler, "odd", password, "secret_odd", "select 1").failure();
        assert!(answer.contains(told), "{query}: {answer}");
        pooler.await_log(logged);
        // No other client notices.
        asks(&pooler, "asker", "asks", "secret_odd", "select 1").success();
    }
    // Two equal rows count as one.
    let query = "auth_query = select 'odd', 'a' where $1 = 'odd' union all select 'odd', 'a'";
    let pooler = pooler(house, "secret_odd", &["auth_user = asker", query]);
    assert!(asks(&pooler, "odd", "a", "secret_odd", "select 1").failure().contains("role \"odd\" does not exist"));
}

/// The auth query runs as a superuser in a database that belongs to another user: objects that its owner places before
/// PostgreSQL's own tables, functions and operators would run with superuser rights, even at a login that fails.
pub(crate) fn the_owner_of_a_database_is_nobody_in_the_question(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    user(house, "told", "password 'right'");
    user(house, "owner_of_weak", "");
    house.postgres.database("secret_weak");
    house.postgres.client("postgres").run("alter database secret_weak owner to owner_of_weak");
    let mut owner = Client::login(house.postgres.address(), "owner_of_weak", "secret_weak");
    for sql in [
        "create schema evil; create table evil.caught (by text, who text); grant all on schema evil to public",
        "create function evil.catch(by text) returns boolean language plpgsql as \
         $$ begin insert into evil.caught values (by, current_user); return true; end $$",
        "create view evil.pg_authid as select 'told'::name rolname, 'open'::text rolpassword, \
         evil.catch('pg_authid') rolcanlogin, null::timestamptz rolvaliduntil",
        "create view evil.pg_shadow as select 'told'::name usename, case when evil.catch('pg_shadow') then 'open' end passwd",
        "create function evil.now() returns timestamptz language sql as \
         $$ select case when evil.catch('now') then pg_catalog.now() end $$",
        "create function evil.is(name, text) returns boolean language sql as $$ select evil.catch('=') $$",
        "create operator evil.= (leftarg = name, rightarg = text, procedure = evil.is)",
        "create function evil.is(timestamptz, timestamptz) returns boolean language sql as $$ select evil.catch('<') $$",
        "create operator evil.< (leftarg = timestamptz, rightarg = timestamptz, procedure = evil.is)",
        "create function evil.set_config(text, text, boolean) returns text language sql as \
         $$ select case when evil.catch('set_config') then '' end $$",
        // The owner may set it.
        "alter database secret_weak set search_path = evil, pg_catalog, public",
        "create function public.look_up(wanted text, out text, out text) language sql security definer as \
         $$ select wanted, 'from_public'::text $$",
    ] {
        owner.run(sql);
    }
    house.postgres.client("postgres").run("alter role told valid until '2099-01-01'");
    for (query, password) in
        [(None, "right"), (Some(QUERY), "right"), (Some("auth_query = select * from look_up($1)"), "from_public")]
    {
        for mode in ["follow", "pgbouncer"] {
            let ini = Ini::new(&house.line("secret_weak")).set("auth_type = plain").secret("asker", "asks");
            let ini = ini.set("auth_user = asker").set(&format!("session_state = {mode}"));
            let pooler = house.start(&query.into_iter().fold(ini, Ini::set));
            let asks = |user: &str, password: &str| asks(&pooler, user, password, "secret_weak", "select session_user");
            asks("told", "open").failure();
            asks("nobody_at_all", "x").failure();
            assert_eq!(
                owner.query("select by, who from evil.caught group by by, who").rows,
                Vec::<Vec<Option<String>>>::new()
            );
            // Names without a schema are looked up in the database's own path, after `pg_catalog`.
            assert_eq!(asks("told", password).success(), "told\n", "{query:?}");
            // The session is unchanged for other clients of the same pool.
            let path = run(
                psql(&pooler, "asker", "secret_weak").env("PGPASSWORD", "asks").args(["-c", "show search_path"]),
                LIMIT,
            );
            assert_eq!(path.success(), "evil, pg_catalog, public\n");
        }
    }
}

/// Neither the authentication request nor the final error tells whether a user exists.
pub(crate) fn nobody_can_tell_who_is_known(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    user(house, "told", "password 'right'");
    user(house, "without", "");
    house.postgres.database("secret_guessed");
    let stored = house.postgres.value("select rolpassword from pg_authid where rolname = 'told'");
    let ini = || Ini::new(&house.line("secret_guessed"));
    let by_file = ini().secret("told", &stored);
    let by_query = ini().secret("asker", "asks").set("auth_user = asker");
    for (ini, known) in [(by_file, &["told"][..]), (by_query, &["told", "without"])] {
        for method in ["md5", "scram-sha-256", "plain"] {
            let pooler = house.start(&ini.clone().set(&format!("auth_type = {method}")));
            let asked = |user: &str| {
                let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
                peer.send(&message::startup(0, &[("user", user), ("database", "secret_guessed")]));
                let question = peer.frame().expect("a question");
                (question.tag, question.body)
            };
            let told = |user: &str| asks(&pooler, user, "wrong", "secret_guessed", "select 1").failure();
            let expected = (asked("told"), told("told"));
            assert_eq!(expected.0.0, b'R');
            for user in ["nobody", "ghost", "a", "b", "c"].iter().chain(known) {
                assert_eq!((asked(user), told(user)), expected, "{method} {user}");
            }
            pooler.await_log("no such user: ghost");
        }
    }
}

/// Clients that share one user on the server cannot change the answer of the auth query by objects that they leave there.
pub(crate) fn the_question_is_asked_as_who_is_to_ask_it(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    user(house, "told", "password 'right'");
    house.postgres.database("secret_shared");
    let line = format!("{} user=u auth_user=asker", house.line("secret_shared"));
    let ini = Ini::new(&line).set("auth_type = scram-sha-256").set(QUERY).set("default_pool_size = 1");
    let pooler = house.start(&ini.secret("asker", "asks"));
    let poison = "create temp table pg_shadow as select 'boss'::text as usename, 'x'::text as passwd";
    assert_eq!(asks(&pooler, "told", "right", "secret_shared", "select current_user").success(), "u\n");
    asks(&pooler, "told", "right", "secret_shared", poison).success();
    assert!(asks(&pooler, "boss", "x", "secret_shared", "select 1").failure().contains("SASL authentication failed"));
    pooler.await_log("secret_shared/asker@127.0.0.1");
}

/// A refusal before the password would tell a stranger which names are those of admins. So would an error about a question that
/// cannot be asked: with `auth_user` alone, the secrets of users whom `auth_file` lacks would have to come from the console.
pub(crate) fn a_stranger_at_the_console_is_not_told_who_is_an_admin(house: &House) {
    for auth_user in [None, Some("auth_user = asker")] {
        let ini = Ini::new(&house.line("secret_console")).set("auth_type = scram-sha-256");
        let ini = auth_user.into_iter().fold(ini, |ini, line| ini.set(line));
        let ini = ini.set("admin_users = boss").set("stats_users = watcher").secret("asker", "right");
        let pooler = house.start(&ini.secret("boss", "right").secret("watcher", "right").secret("plain", "right"));
        let told = |user: &str, password: &str| asks(&pooler, user, password, "pgbouncer", "show version").failure();
        for user in ["boss", "watcher", "plain", "nobody"] {
            let told = told(user, "wrong");
            assert!(told.contains("SASL authentication failed") && !told.contains("not allowed"), "{user}: {told}");
        }
        assert!(told("plain", "right").contains("not allowed"));
        assert!(asks(&pooler, "boss", "right", "pgbouncer", "show version").success().contains("PgBouncer"));
    }
}
