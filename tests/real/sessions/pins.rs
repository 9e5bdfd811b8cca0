//! What administrators see of clients that keep servers, and how that ends.

use std::time::{Duration, Instant};

use tests::client::Answer;
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;

const ONE_SERVER: [&str; 2] = ["pool_mode = transaction", "default_pool_size = 2"];

/// Waits for so many pins: the state probe comes after the client's answer.
fn await_pins(pooler: &Pooler, count: usize) -> Answer {
    wait_for("servers are kept", LIMIT, || Some(pooler.console("show pins")).filter(|pins| pins.rows.len() == count))
}

/// A new process goes on where the old one was: which client keeps what, since when, by which statement, and for how long it
/// may.
pub(crate) fn an_online_restart_knows_who_keeps_servers(house: &House) {
    let ini = house.ini("pins_restart", &[&ONE_SERVER[..], &["pinned_server_timeout = 3"]].concat());
    let mut pooler = house.start(&ini);
    let (mut ann, mut bob) = (pooler.client("u", "pins_restart"), pooler.client("u", "pins_restart"));
    let begun = Instant::now();
    ann.run("select pg_advisory_lock(7)");
    bob.run("create temp table held (a int)");
    let told = |pins: &Answer| -> Vec<String> {
        let row = |row| ["kind", "what", "statement", "since"].map(|name| pins.named(row)[name].to_owned()).join("|");
        (0..pins.rows.len()).map(row).collect()
    };
    let before = told(&await_pins(&pooler, 2));
    pooler.restart_online();
    assert_eq!(told(&pooler.console("show pins")), before);
    assert_eq!(pooler.console("show locks").rows.len(), 1);
    let error = ann.answer().errors.last().expect("an error").text.clone();
    assert_eq!(error, "session has kept its server for too long (pinned_server_timeout)");
    assert!(begun.elapsed() < Duration::from_secs(3) + LIMIT / 2, "counted from before the restart");
}

/// Where any statement may do anything, as with a trigger that changes a setting, the statement that takes the lock
/// explicitly is named.
pub(crate) fn the_statement_that_says_so_is_named(house: &House) {
    let pooler = house.pooler("pins_named", &ONE_SERVER);
    let mut client = pooler.client("u", "pins_named");
    client.run("create table audited (a int)");
    client.run(
        "create function audits() returns trigger language plpgsql as
            $$ begin perform set_config('audit.who', 'x', false); return new; end $$",
    );
    client.run("create trigger audit before insert on audited for each row execute procedure audits()");
    client.run("begin");
    client.run("insert into audited values (1)");
    client.run("select pg_advisory_lock(-1, 2)");
    client.run("select count(*) from audited");
    client.run("commit");
    assert_eq!(await_pins(&pooler, 1).named(0)["statement"], "select pg_advisory_lock(-?, ?)");
    assert_eq!(pooler.console("show locks").named(0)["key"], "-1, 2");
}

/// `SHOW PIN_TOTALS` counts servers, and `pinned_server_timeout` applies to the time for which a server is kept, whatever
/// the reasons.
pub(crate) fn servers_are_counted_and_not_what_they_are_kept_for(house: &House) {
    let pooler = house.pooler("pins_counted", &[&ONE_SERVER[..], &["pinned_server_timeout = 2"]].concat());
    let mut client = pooler.client("u", "pins_counted");
    client.run("select pg_advisory_lock(i) from generate_series(1, 20) i");
    await_pins(&pooler, 20);
    let totals = pooler.console("show pin_totals");
    assert_eq!(["pinned", "total"].map(|name| totals.named(0)[name].clone()), ["1", "1"]);
    let begun = Instant::now();
    // One after the other, so that the client always holds a lock.
    for key in 20.. {
        client.ask(&format!("select pg_advisory_lock({}), pg_advisory_unlock({key})", key + 1));
        if let Some(error) = client.answer().errors.last() {
            assert_eq!(error.code, "57P05", "{error:?}");
            break;
        }
        assert!(begun.elapsed() < LIMIT, "it keeps its server for ever");
    }
}

/// In session pooling a client keeps its server anyway: it goes on with its state.
pub(crate) fn who_holds_something_keeps_it_when_pooling_is_by_session(house: &House) {
    let ini = house.ini("pins_stay", &["default_pool_size = 2"]);
    let pooler = house.start(&ini.clone().set("pool_mode = transaction"));
    let (mut ann, mut bob) = (pooler.client("u", "pins_stay"), pooler.client("u", "pins_stay"));
    ann.run("select pg_advisory_lock(1)");
    await_pins(&pooler, 1);
    pooler.rewrite(&ini.set("pool_mode = session"));
    pooler.console("RELOAD");
    assert_eq!(ann.value("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"), "1");
    assert_eq!(bob.value("select pg_try_advisory_lock(1)"), "f");
    assert_eq!(ann.value("select pg_advisory_unlock(1)"), "t");
}

/// After this reload the pooler could not tell when a client with a lock may leave its server, so the client is closed with
/// an error.
pub(crate) fn who_holds_something_when_sessions_are_followed_no_more_is_told(house: &House) {
    let ini = house.ini("pins_left", &ONE_SERVER);
    let pooler = house.start(&ini);
    let (mut ann, mut bob) = (pooler.client("u", "pins_left"), pooler.client("u", "pins_left"));
    ann.run("select pg_advisory_lock(1)");
    await_pins(&pooler, 1);
    bob.run("select 1");
    pooler.rewrite(&ini.set("session_state = pgbouncer"));
    pooler.console("RELOAD");
    assert_eq!(ann.answer().errors.last().expect("an error").text, "database configuration changed");
    wait_until("the lock is free", LIMIT, || bob.value("select pg_try_advisory_xact_lock(1)") == "t");
}

/// The listed entries that only say that there are more.
fn more(pins: &Answer) -> Vec<String> {
    let what = (0..pins.rows.len()).map(|row| pins.named(row)["what"].clone());
    what.filter(|what| what.starts_with("more than 1,000 ")).collect()
}

/// Previously every one was tracked separately, and all were processed at each request of the client.
pub(crate) fn of_what_a_session_holds_a_thousand_of_each_kind_are_listed(house: &House) {
    let ini = house.ini("pins_many", &ONE_SERVER);
    let mut pooler = house.start(&ini);
    let mut client = pooler.client("u", "pins_many");
    let each = |numbers: std::ops::RangeInclusive<u32>, text: &str| -> String {
        numbers.map(|number| text.replace('N', &number.to_string())).collect()
    };
    for (kind, take, leave_1200, leave_1000, leave_none) in [
        (
            "session-level advisory locks",
            "select count(pg_advisory_lock(i)) from generate_series(1, 1500) i".to_owned(),
            "select count(pg_advisory_unlock(i)) from generate_series(1, 300) i".to_owned(),
            "select count(pg_advisory_unlock(i)) from generate_series(1301, 1500) i".to_owned(),
            "select pg_advisory_unlock_all()",
        ),
        (
            "cursors WITH HOLD",
            each(1..=1_500, "declare cN cursor with hold for select 1;"),
            each(1..=300, "close cN;"),
            each(1_301..=1_500, "close cN;"),
            "close all",
        ),
        (
            "temporary tables, views and sequences",
            each(1..=1_500, "create temp table tN ();"),
            each(1..=300, "drop table tN;"),
            each(1_301..=1_500, "drop table tN;"),
            "discard temp",
        ),
    ] {
        client.run(&take);
        assert_eq!(more(&await_pins(&pooler, 1_001)), [format!("more than 1,000 {kind}")]);
        let pid = client.server_pid();
        client.run(&leave_1200);
        client.run("select 1");
        assert_eq!(more(&pooler.console("show pins")).len(), 1, "{kind}: not all are listed");
        client.run(&leave_1000);
        assert!(more(&await_pins(&pooler, 1_000)).is_empty());
        assert_eq!(client.server_pid(), pid);
        client.run(leave_none);
        await_pins(&pooler, 0);
        pooler.await_pool("pins_many", "sv_active", "0");
    }
    client.run("select count(pg_advisory_lock(i)) from generate_series(1, 1500) i");
    await_pins(&pooler, 1_001);
    pooler.restart_online();
    assert_eq!(more(&pooler.console("show pins")).len(), 1);
    assert!(pooler.console("show locks").rows.len() == 1_001);
    client.run("select count(pg_advisory_unlock(i)) from generate_series(1, 1499) i");
    await_pins(&pooler, 1);
    client.run("discard all");
    await_pins(&pooler, 0);
}

/// The answer does not tell about locks that are not listed: their release leads to a state probe.
pub(crate) fn locks_beyond_those_that_are_listed_are_released_one_by_one(house: &House) {
    let pooler = house.pooler("pins_one_by_one", &ONE_SERVER);
    let mut client = pooler.client("u", "pins_one_by_one");
    (1..=1_003).for_each(|key| client.run(&format!("select pg_advisory_lock({key})")));
    assert_eq!(more(&await_pins(&pooler, 1_001)).len(), 1);
    // The last ones first, which are not listed, or the first ones, which are.
    for key in (600..=1_003).rev().chain(1..600) {
        assert_eq!(client.value(&format!("select pg_advisory_unlock({key})")), "t");
    }
    await_pins(&pooler, 0);
    pooler.await_pool("pins_one_by_one", "sv_idle", "1");
    assert_eq!(client.value("select pg_try_advisory_lock(1)"), "t");
}

/// The statements follow their client while all are listed; one that is not listed would be missing on another server.
pub(crate) fn statements_beyond_those_that_are_listed_keep_their_server(house: &House) {
    let pooler = house.pooler("pins_statements", &ONE_SERVER);
    let (mut client, mut other) = (pooler.client("u", "pins_statements"), pooler.client("u", "pins_statements"));
    // Each in a separate query: the text of a prepared statement is the whole query string.
    (1..=1_100).for_each(|number| client.run(&format!("prepare p{number} as select {number}")));
    // A statement that may do anything leads to a state probe.
    client.run("do $$ begin execute 'sel' || 'ect 1'; end $$");
    assert_eq!(more(&await_pins(&pooler, 1)), ["more than 1,000 statements prepared by SQL"]);
    let pid = client.server_pid();
    for number in [1, 550, 1_100] {
        assert_eq!(client.value(&format!("execute p{number}")), number.to_string());
    }
    assert_eq!(client.server_pid(), pid);
    (1..=200).for_each(|number| client.run(&format!("deallocate p{number}")));
    await_pins(&pooler, 0);
    // On another server, too.
    other.run("begin");
    let is_elsewhere = other.server_pid() == pid;
    for number in [201, 550, 1_100] {
        assert_eq!(client.value(&format!("execute p{number}")), number.to_string());
    }
    assert!(!is_elsewhere || client.server_pid() != pid);
    assert_eq!(client.query("execute p7").error().code, "26000");
}

/// Previously there were as many notices as locks, and as many lines in the log where statements differed.
pub(crate) fn of_very_many_locks_a_thousand_are_warned_of(house: &House) {
    let settings = [&ONE_SERVER[..], &["session_policy = lock=warn"]].concat();
    let pooler = house.pooler("pins_warned", &settings);
    let mut client = pooler.client("u", "pins_warned");
    client.run("select count(pg_advisory_lock(i)) from generate_series(1, 2000) i");
    await_pins(&pooler, 1_001);
    let answer = client.query("select 1");
    let texts = || answer.notices.iter().map(|notice| &*notice.text);
    assert!(texts().all(|text| text.starts_with("this session keeps its server: ")));
    let last = texts().next_back().map(str::to_owned);
    assert_eq!(
        (answer.notices.len(), last.as_deref()),
        (1_001, Some("this session keeps its server: more than 1,000 session-level advisory locks"))
    );
}
