//! Statements that the pooler sends to a server before a client's request: they must not harm the request, and the previous
//! client's settings must not affect them.

use tests::client::Client;
use tests::message::{parse, sync};
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

/// Previously the settings in the packet of a request were timed as if they had an answer of their own, so that each
/// statement longer than `server_mend_timeout` was abandoned, and went on in PostgreSQL.
pub(crate) fn a_statement_may_last_longer_than_the_settings_told_before_it(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "server_mend_timeout = 1"];
    let pooler = house.pooler("told_long", &settings);
    pooler.client("u", "told_long").run("set work_mem = '5MB'");
    let mut other = pooler.client("u", "told_long");
    assert_eq!(other.value("select pg_sleep(1.5) is null"), "f");
    assert_eq!(other.value("show work_mem"), "4MB");
}

/// The time limits for queries apply to it as to any other, and a statement that is abandoned ends in PostgreSQL, too.
pub(crate) fn a_statement_with_settings_before_it_is_ended_by_query_timeout(house: &House) {
    let pooler =
        house.pooler("told_timeout", &["pool_mode = transaction", "default_pool_size = 1", "query_timeout = 1"]);
    pooler.client("u", "told_timeout").run("set work_mem = '5MB'");
    let mut other = pooler.client("u", "told_timeout");
    assert_eq!(other.query("select pg_sleep(60)").error().text, "query timeout");
    let running = "select count(*) from pg_stat_activity where datname = 'told_timeout' and state = 'active'";
    wait_until("the statement has ended", LIMIT, || house.postgres.value(running) == "0");
    assert_eq!(pooler.client("u", "told_timeout").value("show work_mem"), "4MB");
}

/// An online restart hands over a statement that runs with settings before it.
pub(crate) fn an_online_restart_takes_along_a_statement_with_settings_before_it(house: &House) {
    let mut pooler = house.pooler("told_restart", &["pool_mode = transaction", "default_pool_size = 1"]);
    pooler.client("u", "told_restart").run("set work_mem = '5MB'");
    let mut other = pooler.client("u", "told_restart");
    other.ask("select pg_advisory_xact_lock(7), current_setting('work_mem')");
    other.answer();
    let mut holder = house.postgres.client("told_restart");
    holder.run("select pg_advisory_lock(7)");
    pooler.client("u", "told_restart").run("set work_mem = '5MB'");
    other.ask("select current_setting('work_mem') from pg_advisory_xact_lock(7)");
    house.postgres.await_running("told_restart", "from pg_advisory_xact_lock");
    pooler.restart_online();
    holder.run("select pg_advisory_unlock(7)");
    assert_eq!(other.answer_within(LIMIT).value(), "4MB");
    assert_eq!(other.value("show work_mem"), "4MB");
}

/// The previous client's time limit ends neither the settings that are sent for the next client nor its session or
/// statement.
pub(crate) fn nobody_hears_of_a_limit_that_another_has_set(house: &House) {
    let pooler = house.pooler("told_hasty", &["pool_mode = transaction", "default_pool_size = 1"]);
    let (mut hasty, mut calm) = (pooler.client("u", "told_hasty"), pooler.client("u", "told_hasty"));
    calm.run("set work_mem = '5MB'");
    for _ in 0..100 {
        // The client's own statements may fail by its own limit.
        hasty.query("set statement_timeout = '1ms'");
        let said = calm.query("select current_setting('work_mem') || ' ' || current_setting('statement_timeout')");
        assert_eq!(said.value(), "5MB 0");
    }
}

/// A request that is sent without settings before it has exactly its own effects for both sessions.
pub(crate) fn a_reset_leaves_alone_what_others_have_set(house: &House) {
    let pooler = house.pooler("told_nothing", &["pool_mode = transaction", "default_pool_size = 1"]);
    let both = |client: &mut Client| {
        client.value("select current_setting('search_path') || ' ' || current_setting('work_mem')")
    };
    let (mut one, mut two) = (pooler.client("u", "told_nothing"), pooler.client("u", "told_nothing"));
    let first = "\"$user\", public";
    for (said, expected) in [
        ("reset all", format!("{first} 4MB")),
        ("discard all", format!("{first} 4MB")),
        ("set search_path = b", "b 5MB".to_owned()),
        ("set search_path = b; set work_mem = '6MB'", "b 6MB".to_owned()),
        ("set search_path = b; set work_mem = 'much'", format!("{first} 5MB")),
        ("set work_mem = '6MB'; select 1/0", format!("{first} 5MB")),
    ] {
        two.run("reset all");
        two.run("set work_mem = '5MB'");
        one.run("set search_path = a");
        two.query(said);
        assert_eq!(both(&mut two), expected, "{said}");
        assert_eq!(both(&mut one), "a 4MB", "{said}");
        assert_eq!(both(&mut two), expected, "{said}");
    }
}

/// The previous client's encoding does not affect how the settings are read.
pub(crate) fn what_is_told_is_not_read_in_the_encoding_of_another(house: &House) {
    let pooler = house.pooler("told_encoding", &["pool_mode = transaction", "default_pool_size = 1"]);
    let mut plain = pooler.client("u", "told_encoding");
    plain.run("set search_path = 'a b'");
    let mut quoted = pooler.client("u", "told_encoding");
    quoted.run(r"set app.name = '\'''");
    for encoding in ["LATIN1", "SJIS", "BIG5", "GBK"] {
        let mut other = pooler.client("u", "told_encoding");
        other.run(&format!("set client_encoding = '{encoding}'"));
        assert_eq!(plain.value("show search_path"), "\"a b\"", "{encoding}");
        assert_eq!(other.value("show client_encoding"), encoding);
        assert_eq!(quoted.value("show app.name"), r"\'", "{encoding}");
        assert_eq!(other.value("select 1"), "1");
    }
}

/// A client whose statement names are used unchanged on the server may use the pooler's own names, but that affects no other
/// client.
pub(crate) fn nobody_can_take_the_names_of_our_statements(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "max_prepared_statements = 0"];
    let pooler = house.pooler("told_names", &settings);
    let (mut thief, mut other) = (pooler.client("u", "told_names"), pooler.client("u", "told_names"));
    let evil = "select set_config('search_path', 'evil', false) where $1::text <> $2";
    let both = "select current_setting('work_mem') || ' ' || current_setting('search_path')";
    for name in ["TRUNKLINE_STATE_BEGIN", "TRUNKLINE_STATE_1", "TRUNKLINE_STATE_2", "TRUNKLINE_STATE_COMMIT"] {
        other.run("set work_mem = '5MB'");
        thief.run("select 1");
        let length = (4 + 1 + name.len() + 1) as u32;
        let close = [&b"C"[..], &length.to_be_bytes(), b"S", name.as_bytes(), &[0]].concat();
        thief.peer.send(&[close, parse(name, evil), sync()].concat());
        thief.answer();
        assert_eq!(other.value(both), "5MB \"$user\", public", "{name}");
        thief.run("select 1");
        assert_eq!(other.value(both), "5MB \"$user\", public", "{name}");
    }
}
