//! Users whose secret PostgreSQL knows (`auth_query`): who is let in, who is asked, and what goes wrong.

use std::time::Duration;

use tests::pooler::{Ini, Pooler};
use tests::program::{Ended, psql, run};

use crate::house::House;

const LIMIT: Duration = Duration::from_secs(30);

const QUERY: &str = "auth_query = select usename, passwd from pg_shadow where usename = $1";

/// A pooler whose file of secrets knows only `asker`, who asks about everybody else.
fn pooler(house: &House, database: &str, settings: &[&str]) -> Pooler {
    let ini = Ini::new(&house.line(database)).set("auth_type = scram-sha-256").set(QUERY);
    let ini = ini.database(&house.line("postgres"));
    let ini = ini.secret("asker", "asks").set("admin_users = asker");
    house.start(&settings.iter().fold(ini, |ini: Ini, setting| ini.set(setting)))
}

/// Makes a user of PostgreSQL, unless another test has made it.
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
    assert!(asks("nobody_at_all", "x").failure().contains("no such user"));
    // Who has no password cannot log in by any.
    for password in ["md5", "", "open"] {
        asks("open", password).failure();
    }
    // The question went through the pool of whoever asks.
    assert!(pooler.log().contains("postgres/asker@127.0.0.1"), "{}", pooler.log());
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
        assert!(pooler.log().contains(logged), "{logged} is not in\n{}", pooler.log());
    }
}

pub(crate) fn nobody_sees_the_question(house: &House) {
    user(house, "asker", "superuser password 'asks'");
    user(house, "told", "password 'right'");
    house.postgres.database("secret_quiet");
    let pooler = pooler(house, "secret_quiet", &["auth_user = asker", "max_client_conn = 1"]);
    // The one client that may be there is the one that logs in: the question is none.
    assert_eq!(asks(&pooler, "told", "right", "secret_quiet", "select 7").success(), "7\n");
    let clients = asks(&pooler, "asker", "asks", "pgbouncer", "show clients").success();
    assert_eq!(clients.lines().count(), 1, "{clients}");
}

/// Clients that share one user on the server cannot answer the question by what they leave there.
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
    assert!(asks(&pooler, "boss", "x", "secret_shared", "select 1").failure().contains("no such user"));
    assert!(pooler.log().contains("secret_shared/asker@127.0.0.1"), "{}", pooler.log());
}
