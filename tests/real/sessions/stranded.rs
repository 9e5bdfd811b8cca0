//! Advisory locks that no client is known to hold.

use std::time::Duration;

use tests::client::Client;
use tests::message::{bind, execute, parse, sync};
use tests::pooler::Pooler;
use tests::wait::wait_until;

use crate::house::House;

/// The rows of `SHOW LOCKS`: the key, and whether there is a client.
fn locks(pooler: &Pooler) -> Vec<(String, bool)> {
    let shown = pooler.console("show locks");
    let row = |place| {
        let row = shown.named(place);
        (row["key"].clone(), row["client"] != "NULL")
    };
    (0..shown.rows.len()).map(row).collect()
}

fn call(client: &mut Client, name: &str) {
    client.peer.send(&[bind("", name, &[]), execute("", 0), sync()].concat());
    assert_eq!(client.answer().errors.len(), 0);
}

/// Where sessions stay on their servers, an administrator is told about locks that were left behind.
pub(crate) fn locks_that_are_left_behind_are_told(house: &House) {
    let settings = ["pool_mode = transaction", "session_state = pgbouncer", "lock_sweep_interval = 1"];
    let pooler = house.pooler("stranded", &settings);
    let mut client = pooler.client("u", "stranded");
    client.run("select pg_advisory_lock(42)");
    let text = "has what no client holds: advisory lock 42 (ExclusiveLock), and keeps it: sessions do not follow their clients here";
    pooler.await_log(text);
    wait_until("it is shown", Duration::from_secs(5), || locks(&pooler) == [("42".to_owned(), false)]);
    client.run("select 1");
    client.run("select pg_advisory_unlock(42), pg_advisory_lock(1, 2)");
    pooler.await_log("has what no client holds: advisory lock 1, 2 (ExclusiveLock)");
    wait_until("it is shown", Duration::from_secs(5), || locks(&pooler) == [("1, 2".to_owned(), false)]);
    assert_eq!(pooler.log().matches(text).count(), 1, "it is told once");
    client.run("select pg_advisory_unlock(1, 2)");
    wait_until("it is gone", Duration::from_secs(5), || locks(&pooler).is_empty());
}

/// Where state follows the client there is no such lock, except through a function that was replaced after it had been read.
/// Its server is closed; and a client that keeps its server is known to hold its locks.
pub(crate) fn locks_that_nobody_has_seen_taken_are_found(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 2", "lock_sweep_interval = 1"];
    let ini = house.ini("unseen", &settings);
    let direct = || house.postgres.client("unseen");
    let function = |name: &str, body: &str| {
        format!("create or replace function {name}() returns void language plpgsql as $$ begin {body}; end $$;")
    };
    direct().run(&(function("takes", "null") + &function("gives", "null")));
    let pooler = house.start(&ini);
    let (mut one, mut two) = (pooler.client("u", "unseen"), pooler.client("u", "unseen"));
    for client in [&mut one, &mut two] {
        client.peer.send(&[parse("take", "select takes()"), parse("give", "select gives()"), sync()].concat());
        assert_eq!(client.answer().errors.len(), 0);
    }
    two.run("select pg_advisory_lock(7)");
    direct().run(
        &(function("takes", "perform pg_advisory_lock(42)") + &function("gives", "perform pg_advisory_unlock_all()")),
    );
    call(&mut one, "take");
    pooler.await_log("has what no client holds: advisory lock 42 (ExclusiveLock)");
    pooler.await_log("locks that no client holds");
    assert_eq!(locks(&pooler), [("7".to_owned(), true)]);
    // Only a server that no client has is probed.
    one.run("select 1");
    call(&mut two, "take");
    wait_until("it is known", Duration::from_secs(10), || locks(&pooler).len() == 2);
    call(&mut two, "give");
    wait_until("both are known to be gone", Duration::from_secs(10), || locks(&pooler).is_empty());
    wait_until("nobody keeps a server", Duration::from_secs(5), || pooler.pool("unseen", "u")["sv_active"] == "0");
}
