//! Advisory locks that are taken and released by single statements, whose answers suffice: there is no state probe.

use tests::client::Client;
use tests::message::{bind, execute, parse, query, sync};
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

const TWO_SERVERS: [&str; 2] = ["pool_mode = transaction", "default_pool_size = 2"];

/// The last queries of the servers of a database.
fn last_asked(house: &House, database: &str) -> String {
    let sql = "select string_agg(query, '; ' order by query) from pg_stat_activity where application_name <> 'psql' and datname = ";
    house.postgres.value(&format!("{sql}'{database}' and pid <> pg_backend_pid()"))
}

fn pins(pooler: &Pooler) -> Vec<String> {
    let pins = pooler.console("show pins");
    (0..pins.rows.len()).map(|row| pins.named(row)["what"].clone()).collect()
}

/// Compares the locks that PostgreSQL shows for a client with the pins that the pooler shows, once the answer has been
/// processed.
fn agree(house: &House, pooler: &Pooler, database: &str, what: &str) {
    let sql = "select concat(count(distinct (pid, classid, objid, objsubid, mode))) from pg_locks \
        where locktype = 'advisory' and database = (select oid from pg_database where datname = ";
    let held = || house.postgres.value(&format!("{sql}'{database}')"));
    wait_until(&format!("{what}: kept for what is held"), LIMIT, || pins(pooler).len().to_string() == held());
}

/// Migration tools take a lock, run transactions, and release it.
pub(crate) fn a_lock_taken_and_released_alone_is_not_asked_about(house: &House) {
    let pooler = house.pooler("lock_alone", &TWO_SERVERS);
    let mut client = pooler.client("u", "lock_alone");
    client.run("create table t (a int)");
    client.run("select 1");
    client.run("insert into t values (1)");
    for [take, release] in [
        ["select pg_try_advisory_lock(1, 2)", "select pg_advisory_unlock(1, 2)"],
        ["select pg_advisory_lock(7)", "select pg_advisory_unlock(7)"],
        ["select pg_try_advisory_lock_shared(7)", "select pg_catalog.pg_advisory_unlock_shared(7)"],
    ] {
        client.run(take);
        wait_until("it is known", LIMIT, || pins(&pooler).len() == 1);
        assert_eq!(last_asked(house, "lock_alone"), take);
        client.run("insert into t values (1)");
        assert_eq!(client.value(release), "t");
        wait_until("it is known", LIMIT, || pins(&pooler).is_empty());
        assert_eq!(last_asked(house, "lock_alone"), release);
    }
    agree(house, &pooler, "lock_alone", "all released");
}

/// PostgreSQL counts how often a session has taken a lock.
pub(crate) fn a_lock_is_held_until_it_is_released_as_often_as_it_was_taken(house: &House) {
    let pooler = house.pooler("lock_counts", &TWO_SERVERS);
    let mut client = pooler.client("u", "lock_counts");
    for taken in 1..=3 {
        assert_eq!(client.value("select pg_try_advisory_lock(1)"), "t");
        agree(house, &pooler, "lock_counts", &format!("taken {taken} times"));
    }
    for left in (0..3).rev() {
        assert_eq!(client.value("select pg_advisory_unlock(1)"), "t");
        agree(house, &pooler, "lock_counts", &format!("{left} times left"));
        assert_eq!(pins(&pooler).len(), usize::from(left > 0));
    }
    assert_eq!(client.value("select pg_advisory_unlock(1)"), "f");
    // The two modes of one key are two locks.
    client.run("select pg_advisory_lock(1)");
    client.run("select pg_advisory_lock_shared(1)");
    agree(house, &pooler, "lock_counts", "both modes");
    client.run("select pg_advisory_unlock(1)");
    agree(house, &pooler, "lock_counts", "one mode");
    client.run("select pg_advisory_unlock_shared(1)");
    agree(house, &pooler, "lock_counts", "none");
}

/// A call that is part of a larger statement, is refused, fails, or is sent together with another message leads to a state
/// probe.
pub(crate) fn what_becomes_of_a_lock_otherwise_is_asked(house: &House) {
    let database = "lock_otherwise";
    let pooler = house.pooler(database, &TWO_SERVERS);
    let (mut client, mut other) = (pooler.client("u", database), house.postgres.client(database));
    let step = |client: &mut Client, bytes: &[u8], answers: usize| {
        client.peer.send(bytes);
        (0..answers).for_each(|_| drop(client.answer()));
        agree(house, &pooler, database, &String::from_utf8_lossy(bytes));
    };
    other.run("select pg_advisory_lock(5)");
    client.run("set lock_timeout = '20ms'");
    let (take, release) = ("select pg_advisory_lock(5)", "select pg_advisory_unlock(5)");
    assert_eq!(client.query(take).error().code, "55P03");
    assert_eq!(client.value("select pg_try_advisory_lock(5)"), "f");
    other.run("select pg_advisory_unlock_all()");
    let both = |one: &str, two: &str| [query(one), query(two)].concat();
    step(&mut client, &both(take, take), 2);
    step(&mut client, &query(release), 1);
    step(&mut client, &query(release), 1);
    assert_eq!(pins(&pooler).len(), 0);
    // The row of the second query must not be taken for the answer to the first.
    other.run("select pg_advisory_lock(5)");
    client.peer.send(&both(take, "select true"));
    assert_eq!(client.answer().error().code, "55P03");
    assert_eq!(client.answer().value(), "t");
    other.run("select pg_advisory_unlock_all()");
    agree(house, &pooler, database, "refused, and a row came behind it");
    step(&mut client, &both(take, "select false"), 2);
    step(&mut client, &both(release, "select false"), 2);
    // A lock outlives the transaction in which it was taken.
    client.run("begin");
    client.run(take);
    client.run("rollback");
    agree(house, &pooler, database, "rolled back");
    assert_eq!(pins(&pooler).len(), 1);
    step(&mut client, &query(release), 1);
    // The pooler cannot tell how often the lock is held, so it probes.
    client.run("select pg_advisory_lock(5), pg_advisory_lock(5)");
    agree(house, &pooler, database, "twice in one statement");
    step(&mut client, &query(release), 1);
    assert_eq!(pins(&pooler).len(), 1);
    step(&mut client, &query(release), 1);
    let extended = |sql: &str, format: u8| {
        let mut bound = bind("", "", &[]);
        let end = bound.len();
        bound.splice(end - 2.., [0, 1, 0, format]);
        let length = (bound.len() - 1) as u32;
        bound[1..5].copy_from_slice(&length.to_be_bytes());
        [parse("", sql), bound, execute("", 0), sync()].concat()
    };
    for format in [0, 1] {
        step(&mut client, &extended(take, format), 1);
        assert_eq!(pins(&pooler).len(), 1);
        step(&mut client, &extended(release, format), 1);
        assert_eq!(pins(&pooler).len(), 0);
    }
    client.run(take);
    client.run("discard all");
    agree(house, &pooler, database, "discarded");
    client.run(take);
    client.run("select pg_advisory_unlock_all()");
    agree(house, &pooler, database, "unlocked");
    client.run(take);
    drop(client);
    agree(house, &pooler, database, "its client has left");
}

/// A user's own function of that name returns true but does not release a lock.
pub(crate) fn a_function_that_only_says_that_it_unlocks_is_not_believed(house: &House) {
    let pooler = house.pooler("lock_liar", &TWO_SERVERS);
    let mut client = pooler.client("u", "lock_liar");
    client.run("create function pg_advisory_unlock(int) returns bool language sql as 'select true'");
    assert_eq!(client.value("select pg_try_advisory_lock(1)"), "t");
    assert_eq!(client.value("select pg_advisory_unlock(1)"), "t");
    agree(house, &pooler, "lock_liar", "the liar was called");
    assert_eq!(pins(&pooler).len(), 1);
    assert_eq!(client.value("select pg_catalog.pg_advisory_unlock(1)"), "t");
    agree(house, &pooler, "lock_liar", "PostgreSQL's own was called");
    assert_eq!(pins(&pooler).len(), 0);
}

/// With `session_verify` a session is compared even when its last lock has been released.
pub(crate) fn what_is_known_of_locks_is_what_the_server_tells(house: &House) {
    let pooler = house.pooler("lock_verified", &[&TWO_SERVERS[..], &["session_verify = 1"]].concat());
    let mut client = pooler.client("u", "lock_verified");
    for _ in 0..10 {
        client.run("select pg_advisory_lock(1)");
        client.run("select pg_advisory_unlock(1)");
    }
    wait_until("it is known", LIMIT, || pins(&pooler).is_empty());
    // The pins may be gone before the session is compared.
    wait_until("the session is compared", LIMIT, || last_asked(house, "lock_verified").contains("trunkline"));
    assert!(!pooler.log().contains("session differs"));
}
