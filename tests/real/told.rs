//! What servers are told before a client's request: it must neither harm the request nor be read under what the client before has set.

use tests::wait::{LIMIT, wait_until};

use crate::house::House;

/// The settings in the packet of a request were timed as if they were answered by themselves, so that each statement longer than
/// `server_mend_timeout` was given up, and went on in PostgreSQL.
pub(crate) fn a_statement_may_last_longer_than_the_settings_told_before_it(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "server_mend_timeout = 1"];
    let pooler = house.pooler("told_long", &settings);
    pooler.client("u", "told_long").run("set work_mem = '5MB'");
    let mut other = pooler.client("u", "told_long");
    assert_eq!(other.value("select pg_sleep(1.5) is null"), "f");
    assert_eq!(other.value("show work_mem"), "4MB");
}

/// The limits of queries hold for it as for any other, and what is given up ends in PostgreSQL, too.
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

/// An online restart takes along a statement that runs with settings before it.
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
