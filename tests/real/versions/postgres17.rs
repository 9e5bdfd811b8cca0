//! What is new in PostgreSQL 17: `transaction_timeout`, triggers at login, `MERGE ... RETURNING`.
//!
//! Always true: a test of a feature that the current PostgreSQL lacks prints that and does nothing.
//! Not here: the pooler's own limit of that name (`timeouts`).

use tests::client::Client;
use tests::message::{bind, execute, parse, sync};

use crate::house::House;

const VERSION: u32 = 17;

/// A client's own limit ends its own transactions, with PostgreSQL's error.
pub(crate) fn transaction_timeout_follows_its_client(house: &House) {
    if house.is_older_than(VERSION, "transaction_timeout") {
        return;
    }
    let pooler = house.pooler("limited", &["pool_mode = transaction", "default_pool_size = 1"]);
    let (mut hasty, mut calm) = (pooler.client("u", "limited"), pooler.client("u", "limited"));
    hasty.run("set transaction_timeout = '700ms'");
    for _ in 0..3 {
        assert_eq!(calm.value("show transaction_timeout"), "0");
        assert_eq!(hasty.value("show transaction_timeout"), "700ms");
    }
    // The limit applies to the transaction: earlier statements of another client on this server do not count.
    calm.run("select pg_sleep(1)");
    hasty.run("select 1");
    hasty.run("begin");
    let ended = hasty.query("select pg_sleep(60)");
    let direct = {
        let mut client = Client::login(house.postgres.address(), "u", "limited");
        client.run("set transaction_timeout = '700ms'; begin");
        client.query("select pg_sleep(60)")
    };
    assert_eq!((&ended.error().text, &ended.error().code), (&direct.error().text, &direct.error().code));
    assert_eq!(calm.value("show transaction_timeout"), "0");
}

/// The shortest possible limit ends nothing but statements of its own client.
pub(crate) fn what_the_pooler_says_is_not_ended_by_transaction_timeout(house: &House) {
    if house.is_older_than(VERSION, "transaction_timeout") {
        return;
    }
    let pooler = house.pooler("limited_told", &["pool_mode = transaction", "default_pool_size = 1"]);
    let mut calm = pooler.client("u", "limited_told");
    calm.run("set work_mem = '5MB'");
    let both = "select current_setting('work_mem') || ' ' || current_setting('transaction_timeout')";
    for round in 0..60 {
        let mut hasty = pooler.client("u", "limited_told");
        // The client's own statements may be ended by its own limit, when it is set or when it is sent to another server.
        hasty.ask(match round % 3 {
            0 => "set transaction_timeout = '1ms'",
            1 => "select set_config('transaction_timeout', '1ms', false)",
            _ => "do $$ begin perform set_config('transaction_timeout', '1ms', false); end $$",
        });
        hasty.answer();
        assert_eq!(calm.value(both), "5MB 0", "round {round}");
    }
    assert!(!pooler.log().contains("lost track of"), "{}", pooler.log());
}

/// A client that a login trigger refuses gets the trigger's error, and no other client does.
pub(crate) fn what_a_trigger_raises_at_login_is_told_in_its_words(house: &House) {
    if house.is_older_than(VERSION, "triggers at login") {
        return;
    }
    let ini = house.ini("refused_at_login", &["pool_mode = transaction", "server_login_retry = 0"]);
    house.postgres.client("refused_at_login").run(
        "create function refuse() returns event_trigger language plpgsql as $$ begin
             if session_user = 'v' then raise exception 'v is on holiday' using errcode = '42501'; end if; end $$;
         create event trigger refuse on login execute function refuse()",
    );
    let pooler = house.start(&ini);
    let all = [("user", "v"), ("database", "refused_at_login")];
    let direct = Client::try_login(house.postgres.address(), &all).expect_err("it is refused");
    let pooled = Client::try_login(pooler.address(), &all).expect_err("it is refused");
    assert_eq!((&pooled.text, &pooled.code), (&direct.text, &direct.code));
    pooler.await_log("v is on holiday");
    assert_eq!(pooler.client("u", "refused_at_login").value("select 1"), "1");
}

/// Settings of a login trigger are the initial state of each session.
pub(crate) fn what_a_trigger_sets_at_login_is_everybodys(house: &House) {
    if house.is_older_than(VERSION, "triggers at login") {
        return;
    }
    let ini = house.ini("set_at_login", &["pool_mode = transaction", "default_pool_size = 1"]);
    house.postgres.client("set_at_login").run(
        "create function greet() returns event_trigger language plpgsql as $$ begin
             perform set_config('work_mem', '5MB', false); end $$;
         create event trigger greet on login execute function greet()",
    );
    let pooler = house.start(&ini);
    let (mut one, mut two) = (pooler.client("u", "set_at_login"), pooler.client("u", "set_at_login"));
    for touching in ["do $$ begin end $$", "set work_mem to '6MB'", "discard all"] {
        one.run(touching);
        assert_eq!(two.value("show work_mem"), "5MB", "after {touching}");
    }
    assert_eq!(one.value("show work_mem"), "4MB");
}

/// The effects of a function in the RETURNING list follow its client.
pub(crate) fn what_merge_returns_is_known(house: &House) {
    if house.is_older_than(VERSION, "MERGE ... RETURNING") {
        return;
    }
    let pooler = house.pooler("merged", &["pool_mode = transaction", "default_pool_size = 1"]);
    house.postgres.client("merged").run("create table t (a int primary key, b text); grant all on t to u");
    let (mut one, mut two) = (pooler.client("u", "merged"), pooler.client("u", "merged"));
    let merge = |value: &str| {
        format!(
            "merge into t using (values (1, '{value}')) s(a, b) on t.a = s.a
             when matched then update set b = s.b when not matched then insert values (s.a, s.b)
             returning merge_action(), t.b, set_config('app.merged', t.b, false)"
        )
    };
    let row = |words: [&str; 3]| vec![words.map(|word| Some(word.to_owned())).to_vec()];
    let first = one.query(&merge("x"));
    assert_eq!((first.rows, first.tags), (row(["INSERT", "x", "x"]), vec!["MERGE 1".to_owned()]));
    assert_ne!(two.value("select coalesce(current_setting('app.merged', true), '')"), "x");
    one.peer.send(&[parse("m", &merge("y")), bind("", "m", &[]), execute("", 0), sync()].concat());
    let second = one.answer();
    assert_eq!((second.rows, second.tags), (row(["UPDATE", "y", "y"]), vec!["MERGE 1".to_owned()]));
    assert_ne!(two.value("select coalesce(current_setting('app.merged', true), '')"), "y");
    assert_eq!(one.value("select current_setting('app.merged')"), "y");
}
