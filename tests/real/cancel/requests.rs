//! A cancel request reaches exactly the query that it is meant for.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::client::{Client, other_keys, send_cancel};
use tests::peer::Peer;
use tests::program::{finish, psql, signal};
use tests::runner::skip;

use crate::house::House;

pub(crate) fn a_running_query_is_cancelled(house: &House) {
    let pooler = house.pooler("cancel_running", &[]);
    let mut client = pooler.client("u", "cancel_running");
    let mut other = pooler.client("u", "cancel_running");
    client.ask("select pg_sleep(60)");
    other.ask("select 'untouched' from pg_sleep(1)");
    house.postgres.await_running("cancel_running", "pg_sleep(60)");
    let begun = Instant::now();
    client.cancel();
    let answer = client.answer();
    assert_eq!((answer.error().code.as_str(), answer.status), ("57014", 'I'));
    assert!(begun.elapsed() < Duration::from_secs(2), "it took {:?}", begun.elapsed());
    assert_eq!(other.answer().value(), "untouched");
    assert_eq!(client.value("select 'usable'"), "usable");
}

pub(crate) fn a_query_in_a_transaction_is_cancelled_and_the_transaction_fails(house: &House) {
    let pooler = house.pooler("cancel_transaction", &[]);
    let mut client = pooler.client("u", "cancel_transaction");
    client.run("begin");
    client.ask("select pg_sleep(60)");
    house.postgres.await_running("cancel_transaction", "pg_sleep");
    client.cancel();
    let answer = client.answer();
    assert_eq!((answer.error().code.as_str(), answer.status), ("57014", 'E'));
    assert_eq!(client.query("rollback").status, 'I');
}

pub(crate) fn an_idle_client_or_transaction_is_left_in_peace(house: &House) {
    let pooler = house.pooler("cancel_idle", &["default_pool_size = 1"]);
    let mut client = pooler.client("u", "cancel_idle");
    let mut other = pooler.client("u", "cancel_idle");
    client.run("select 1");
    other.ask("select 'untouched' from pg_sleep(0.5)");
    house.postgres.await_running("cancel_idle", "pg_sleep");
    client.cancel();
    assert_eq!(other.answer().value(), "untouched", "the cancel of an idle client hit another client's query");
    client.run("begin");
    client.cancel();
    // PostgreSQL itself ignores a cancel request when no query runs; a late one must not hit the next statement.
    assert_eq!(client.value("select 'fine' from pg_sleep(0.3)"), "fine");
    client.run("commit");
}

pub(crate) fn a_waiting_client_is_cancelled_or_served_but_nobody_else_is_hit(house: &House) {
    let pooler = house.pooler("cancel_waiting", &["default_pool_size = 1"]);
    let mut holder = pooler.client("u", "cancel_waiting");
    let mut waiter = pooler.client("u", "cancel_waiting");
    holder.ask("select 'untouched' from pg_sleep(1)");
    house.postgres.await_running("cancel_waiting", "pg_sleep");
    waiter.ask("select 'served'");
    pooler.await_pool("cancel_waiting", "cl_waiting", "1");
    waiter.cancel();
    assert_eq!(holder.answer().value(), "untouched", "the cancel of a waiting client hit the running query");
    let answer = waiter.answer();
    match answer.errors.first() {
        Some(error) => assert_eq!(error.code, "57014"),
        None => assert_eq!(answer.value(), "served"),
    }
}

pub(crate) fn a_stale_or_guessed_key_is_dropped(house: &House) {
    let pooler = house.pooler("cancel_stale", &["default_pool_size = 1"]);
    let gone = pooler.client("u", "cancel_stale");
    let (pid, secret) = gone.key.clone();
    drop(gone);
    let mut client = pooler.client("u", "cancel_stale");
    client.ask("select 'untouched' from pg_sleep(1)");
    house.postgres.await_running("cancel_stale", "pg_sleep");
    send_cancel(pooler.address(), pid, &secret);
    let (pid, mut secret) = client.key.clone();
    secret[0] ^= 1;
    send_cancel(pooler.address(), pid, &secret);
    send_cancel(pooler.address(), pid ^ 1, &client.key.1);
    send_cancel(pooler.address(), 0, &[0; 4]);
    assert_eq!(client.answer().value(), "untouched");
}

/// The first eight bytes of the key, which is the length of a key in protocol 3.0, are not enough.
pub(crate) fn a_long_key_cancels_as_a_whole_only(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has short keys only");
    }
    let pooler = house.pooler("cancel_long", &["workers = 2"]);
    let peer = Peer::tcp(pooler.address()).expect("the port answers");
    let mut client = Client::login_by_3_2(peer, "u", "cancel_long");
    assert_eq!(client.key.1.len(), 32);
    let mut other = pooler.client("u", "cancel_long");
    client.ask("select pg_sleep(60)");
    house.postgres.await_running("cancel_long", "pg_sleep(60)");
    for (pid, secret) in other_keys(&client.key) {
        send_cancel(pooler.address(), pid, &secret);
    }
    // A short key with more bytes behind it does not name its client, either.
    let longer = [&other.key.1[..], &client.key.1[4..]].concat();
    other.ask("select 'untouched' from pg_sleep(0.3)");
    house.postgres.await_running("cancel_long", "untouched");
    send_cancel(pooler.address(), other.key.0, &longer);
    assert_eq!(other.answer().value(), "untouched");
    assert_eq!(house.postgres.value(RUNNING_LONG), "1", "a key that is not its own has hit it");
    send_cancel(pooler.address(), client.key.0, &client.key.1);
    assert_eq!(client.answer().error().code, "57014");
    drop(client);
    // The administrator's console has a long key, too.
    let mut console = Client::login_by_3_2(pooler.knock(), "admin", "pgbouncer");
    assert_eq!((console.key.1.len(), console.query("SHOW VERSION").errors.len()), (32, 0));
}

pub(crate) fn many_cancels_at_once_hit_only_their_own(house: &House) {
    let pooler = house.pooler("cancel_many", &["default_pool_size = 4"]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let pooler = &pooler;
            scope.spawn(move || {
                let mut client = pooler.client("u", "cancel_many");
                for round in 0..10 {
                    let is_cancelled = (number + round) % 2 == 0;
                    client.ask(if is_cancelled { "select pg_sleep(0.2)" } else { "select 'mine' from pg_sleep(0.01)" });
                    if is_cancelled {
                        client.cancel();
                        // The request may come too early or too late, as with PostgreSQL; what must not happen is checked
                        // below.
                        client.answer();
                    } else {
                        assert_eq!(client.answer().value(), "mine");
                    }
                }
            });
        }
    });
}

pub(crate) fn control_c_in_psql_works(house: &House) {
    let pooler = house.pooler("cancel_psql", &[]);
    let mut command = psql(&pooler, "u", "cancel_psql");
    command.args(["-c", "select pg_sleep(60)"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("psql starts");
    house.postgres.await_running("cancel_psql", "pg_sleep");
    signal(child.id(), Signal::SIGINT);
    let error = finish(child, "psql", Duration::from_secs(10)).failure();
    assert!(error.contains("canceling statement due to user request"), "{error}");
}

const RUNNING_LONG: &str =
    "select count(*) from pg_stat_activity where datname = 'cancel_long' and state = 'active' and query like '%(60)%'";
