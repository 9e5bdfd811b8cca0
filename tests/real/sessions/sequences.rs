//! `currval` and `lastval` in a transaction of their own: they return what the client has drawn, or an error, never what
//! another client has drawn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tests::client::{Answer, Client};
use tests::message::{bind, execute, parse, sync};
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

const INSERT: &str = "insert into t default values returning id";
const LASTVAL: &str = "select lastval()";
const CURRVAL: &str = "select currval('t_id_seq')";
/// `object_not_in_prerequisite_state`: no number has been drawn in this session.
const NOT_YET: &str = "55000";

/// A pooler, a table with a sequence, and another such table.
fn stage(house: &House, name: &str, servers: u32, settings: &[&str]) -> Pooler {
    let size = format!("default_pool_size = {servers}");
    let pooler = house.pooler(name, &[&["pool_mode = transaction", &size], settings].concat());
    let mut owner = house.postgres.client(name);
    owner.run("create table t(id serial); create table u(id serial)");
    owner.run("create function draw() returns int language sql as 'insert into t default values returning id'");
    pooler
}

fn say(client: &mut Client, messages: &[Vec<u8>]) -> Answer {
    client.peer.send(&[&messages.concat()[..], &sync()].concat());
    client.answer()
}

/// Makes it known that the user calls lastval.
fn ask_once(pooler: &Pooler, name: &str) {
    let answer = pooler.client("u", name).query(LASTVAL);
    assert_eq!(answer.error().code, NOT_YET);
}

/// The pooler does not know yet that the user calls lastval, and several clients have had the server.
pub(crate) fn who_asks_for_the_first_time_is_not_told_what_another_has_drawn(house: &House) {
    let pooler = stage(house, "drawn", 1, &[]);
    let (mut one, mut two) = (pooler.client("u", "drawn"), pooler.client("u", "drawn"));
    // A transaction may read what it has drawn itself, by whatever statement it has drawn.
    for draw in [INSERT, "select draw()", "select nextval('t_id_seq')"] {
        two.run("insert into t default values");
        one.run("begin");
        let drawn = one.value(draw);
        assert_eq!((one.value(LASTVAL), one.value(CURRVAL)), (drawn.clone(), drawn), "{draw}");
        one.run("commit");
    }
    let drawn = one.value("insert into t default values; select lastval()");
    assert_eq!(drawn, house.postgres.client("drawn").value("select max(id) from t"));
    two.run("insert into t default values");
    for ask in [LASTVAL, CURRVAL] {
        assert_eq!(one.query(ask).error().code, NOT_YET, "{ask}");
    }
    // From then on it is known that the user calls lastval.
    let drawn = two.value(INSERT);
    two.run("begin");
    assert_eq!(two.value(CURRVAL), drawn);
    two.run("rollback");
}

/// A user that calls it after another statement is also known from the first call on.
pub(crate) fn who_asks_behind_something_else_is_known_to_ask(house: &House) {
    let pooler = stage(house, "behind", 1, &[]);
    let (mut one, mut two) = (pooler.client("u", "behind"), pooler.client("u", "behind"));
    for round in 0..3 {
        two.run("insert into t default values");
        one.run("begin");
        one.run("select 1");
        let answer = one.query(LASTVAL);
        if round > 0 {
            assert_eq!(answer.error().code, NOT_YET, "round {round}");
        }
        one.run("rollback");
    }
}

/// What most such programs do: the call follows at once, in the next transaction.
pub(crate) fn who_asks_is_told_what_it_has_drawn(house: &House) {
    let pooler = stage(house, "draws", 2, &[]);
    ask_once(&pooler, "draws");
    let right = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..8 {
            let (pooler, right) = (&pooler, &right);
            scope.spawn(move || {
                let mut client = pooler.client("u", "draws");
                let named = [parse("i", INSERT), parse("l", LASTVAL)];
                assert_eq!(say(&mut client, &named).errors.len(), 0);
                for round in 0..40 {
                    let (drawn, told) = match (number + round) % 4 {
                        0 => (client.value(INSERT), client.value(LASTVAL)),
                        1 => {
                            let drawn = say(&mut client, &[bind("", "i", &[]), execute("", 0)]).value();
                            (drawn, say(&mut client, &[bind("", "l", &[]), execute("", 0)]).value())
                        }
                        2 => {
                            let drawn =
                                say(&mut client, &[parse("", INSERT), bind("", "", &[]), execute("", 0)]).value();
                            client.run("select 1");
                            (drawn, say(&mut client, &[parse("", CURRVAL), bind("", "", &[]), execute("", 0)]).value())
                        }
                        _ => {
                            client.run("begin");
                            let drawn = client.value(INSERT);
                            client.run("commit");
                            (drawn, client.value(LASTVAL))
                        }
                    };
                    assert_eq!(drawn, told, "client {number}, round {round}");
                    right.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(right.into_inner(), 320);
}

/// A server is kept for a moment, and an administrator sees why; no client waits for ever.
pub(crate) fn a_server_is_kept_for_numbers_for_a_while_only(house: &House) {
    let pooler = stage(house, "numbers_kept", 1, &["sequence_hold_time = 2", "query_wait_timeout = 20"]);
    ask_once(&pooler, "numbers_kept");
    let (mut one, mut two) = (pooler.client("u", "numbers_kept"), pooler.client("u", "numbers_kept"));
    one.run("insert into t default values");
    let pins = pooler.console("SHOW PINS");
    assert_eq!((pins.rows.len(), pins.named(0)["kind"].as_str()), (1, "sequence"), "{pins:?}");
    pooler.await_log("keeps its server: sequence values for currval and lastval");
    two.run("select 1");
    assert_eq!(pooler.console("SHOW PINS").rows.len(), 0);
    assert_eq!(one.query(LASTVAL).error().code, NOT_YET, "the other may have drawn something");
    // A client that draws again and again, and never reads the number, does not delay others: its statement becomes known
    // for that.
    let drawing = thread::spawn(move || {
        for _ in 0..2000 {
            one.run("insert into t default values");
        }
        one
    });
    let begun = std::time::Instant::now();
    while !drawing.is_finished() {
        two.run("select 1");
    }
    let mut one = drawing.join().expect("it draws");
    assert!(begun.elapsed() < Duration::from_secs(18), "{:?}", begun.elapsed());
    one.run("insert into t default values");
    assert_eq!(pooler.console("SHOW PINS").rows.len(), 0);
    // Another statement is not known.
    one.run("insert into u values (default), (default)");
    assert_eq!(pooler.console("SHOW PINS").named(0)["statement"], "insert into u values (default), (default)");
    drop(one);
    wait_until("the server is nobody's", LIMIT, || pooler.pool("numbers_kept", "u")["sv_idle"] == "1");
    two.run("select 1");
}

/// Where numbers are not carried over, the client gets an error.
pub(crate) fn numbers_need_not_be_kept(house: &House) {
    for (name, setting) in [("unkept", "sequence_hold_time = 0"), ("unheld", "session_policy = sequence=reject")] {
        let pooler = stage(house, name, 1, &[setting]);
        ask_once(&pooler, name);
        let (mut one, mut two) = (pooler.client("u", name), pooler.client("u", name));
        one.run("insert into t default values");
        assert_eq!(pooler.console("SHOW PINS").rows.len(), 0);
        two.run("insert into t default values");
        assert_eq!(one.query(LASTVAL).error().code, NOT_YET);
    }
}

/// A new process takes over, which has not seen what was drawn.
pub(crate) fn an_online_restart_mixes_no_numbers(house: &House) {
    let mut pooler = stage(house, "handed_on", 1, &["sequence_hold_time = 20"]);
    let (mut one, mut two) = (pooler.client("u", "handed_on"), pooler.client("u", "handed_on"));
    two.run("insert into t default values");
    one.run("begin");
    let drawn = one.value(INSERT);
    pooler.restart_online();
    assert_eq!(one.value(LASTVAL), drawn, "it has drawn that itself");
    one.run("commit");
    assert_eq!(two.query(LASTVAL).error().code, NOT_YET);
    // What is known of users is passed to the next process.
    pooler.restart_online();
    let drawn = two.value(INSERT);
    // The answer arrives before the answer to the pooler's query about the functions, which the new process does not know
    // yet.
    wait_until("its server is kept", LIMIT, || pooler.console("SHOW PINS").rows.len() == 1);
    assert_eq!(two.value(LASTVAL), drawn);
}
