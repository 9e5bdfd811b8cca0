//! `SHOW WAITS`: where the time goes, who waits for whom, and why; each test sets up a single cause.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tests::client::{Answer, Client};
use tests::fake_server::{FakeServer, greeting};
use tests::message::{self, frame, query};
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;

/// Waits until the first sentence of `SHOW WAITS` contains this.
fn await_sentence(pooler: &Pooler, wanted: &str) -> Answer {
    let mut told = String::new();
    let seen = tests::wait::try_wait_for(LIMIT, || {
        let answer = pooler.console("SHOW WAITS");
        told = answer.named(0)["doing"].clone();
        told.contains(wanted).then_some(answer)
    });
    seen.unwrap_or_else(|| panic!("{wanted:?} is not said, but {told:?}"))
}

fn client(pooler: &Pooler, database: &str, application: &str) -> Client {
    let parameters = [("user", "u"), ("database", database), ("application_name", application)];
    Client::try_login(pooler.address(), &parameters).expect("a login")
}

fn named(answer: &Answer, what: &str, application: &str) -> std::collections::BTreeMap<String, String> {
    let rows = (0..answer.rows.len()).map(|row| answer.named(row));
    let mut found = rows.filter(|row| row["what"] == what && row["application_name"] == application);
    found.next().unwrap_or_else(|| panic!("no {what} {application}: {answer:?}"))
}

pub(crate) fn all_is_well_where_nobody_waits(house: &House) {
    let pooler = house.pooler("waits_well", &[]);
    client(&pooler, "waits_well", "calm").run("select 1");
    let answer = await_sentence(&pooler, "All is well");
    assert_eq!(answer.named(0)["what"], "summary");
}

pub(crate) fn a_client_that_does_not_go_on_with_its_transaction_is_named(house: &House) {
    let pooler = house.pooler("waits_thinking", &["default_pool_size = 1", "query_wait_timeout = 77"]);
    let mut thinker = client(&pooler, "waits_thinking", "thinker");
    thinker.run("begin");
    thinker.run("select 'a secret'");
    let mut waiter = client(&pooler, "waits_thinking", "waiter");
    waiter.ask("select 2");
    let answer = await_sentence(&pooler, "its only server stands idle in a transaction");
    assert!(answer.named(0)["doing"].contains("thinker"), "{answer:?}");
    let holder = named(&answer, "holder", "thinker");
    assert_eq!((holder["doing"].as_str(), holder["statement"].as_str()), ("idle in transaction", "select ?"));
    let waits = named(&answer, "waiter", "waiter");
    assert_eq!((waits["place"].as_str(), waits["ends_by"].as_str()), ("1", "query_wait_timeout"));
    assert!(waits["ends_in"].parse::<f64>().is_ok_and(|left| left > 60.0 && left < 77.0), "{waits:?}");
    assert!(!format!("{answer:?}").contains("secret"), "a value is shown");
    let detail = |table: &str| {
        let answer = pooler.console(&format!("SHOW {table} EXTENDED"));
        let rows =
            (0..answer.rows.len()).map(|row| answer.named(row)).filter(|row| row["database"] == "waits_thinking");
        rows.map(|row| (row["state"].clone(), row["state_detail"].clone())).collect::<Vec<_>>()
    };
    let pair = |state: &str, detail: &str| (state.to_owned(), detail.to_owned());
    let all = [pair("active", "idle in transaction"), pair("waiting", "waits: every server of the pool is taken")];
    assert_eq!(detail("clients"), all);
    assert_eq!(detail("servers"), [pair("active", "idle in transaction")]);
    thinker.run("commit");
    waiter.answer();
    await_sentence(&pooler, "All is well");
}

pub(crate) fn readers_of_a_locked_table_are_told_to_wait_for_its_lock(house: &House) {
    let pooler = house.pooler("waits_table", &["default_pool_size = 2"]);
    let mut holder = client(&pooler, "waits_table", "migration");
    holder.run("create table locked (a int)");
    holder.run("begin");
    holder.run("alter table locked add column b int");
    let mut reader = client(&pooler, "waits_table", "reader");
    reader.ask("select * from locked");
    let answer = await_sentence(&pooler, "Nobody waits for a server, but 1 statement of waits_table/u seems to wait");
    assert!(answer.named(0)["doing"].contains("(migration, "), "{answer:?}");
    let mut waiter = client(&pooler, "waits_table", "waiter");
    waiter.ask("select 1");
    let answer = await_sentence(&pooler, "1 of its 2 servers works on a statement that seems to wait for a lock");
    assert!(answer.named(0)["doing"].contains("(migration, "), "{answer:?}");
    holder.run("commit");
    reader.answer();
    waiter.answer();
}

pub(crate) fn an_advisory_lock_that_others_wait_for_is_told_with_its_holder(house: &House) {
    let pooler = house.pooler("waits_advisory", &["default_pool_size = 2"]);
    let mut holder = client(&pooler, "waits_advisory", "migrator");
    holder.run("select pg_advisory_lock(4711)");
    let mut other = client(&pooler, "waits_advisory", "other");
    other.ask("select pg_advisory_lock(4711)");
    let mut waiter = client(&pooler, "waits_advisory", "waiter");
    waiter.ask("select 1");
    let answer = await_sentence(&pooler, "to wait for a lock, probably that of ");
    let sentence = &answer.named(0)["doing"];
    assert!(sentence.contains("(migrator, ") && sentence.contains("keeps advisory lock 4711"), "{sentence}");
    holder.run("select pg_advisory_unlock(4711)");
    other.answer();
    waiter.answer();
}

pub(crate) fn the_log_says_once_when_a_pool_begins_to_wait_and_once_when_that_is_over(house: &House) {
    let pooler = house.pooler("waits_spell", &["default_pool_size = 1", "log_pool_wait = 0.3"]);
    let mut thinker = client(&pooler, "waits_spell", "thinker");
    thinker.run("begin");
    let mut waiters: Vec<Client> = (0..3).map(|_| client(&pooler, "waits_spell", "waiter")).collect();
    waiters.iter_mut().for_each(|waiter| waiter.ask("select 1"));
    pooler.await_log("waits_spell/u pool begins to wait: 3 clients, the first for ");
    pooler.await_log("because every server of the pool is taken; 1 lent: 1 in a transaction for ");
    thinker.run("commit");
    waiters.iter_mut().for_each(|waiter| drop(waiter.answer()));
    pooler.await_log("waits_spell/u pool waits no more after ");
    let log = pooler.log();
    let ends = log.lines().find(|line| line.contains("waits no more")).expect("a line");
    assert!(ends.contains(": 3 clients at most, the longest for "), "{ends}");
    assert!(ends.contains("mostly because every server of the pool is taken; when most waited, 1 lent: "), "{ends}");
    assert_eq!(log.matches("begins to wait").count() + log.matches("waits no more").count(), 2, "{log}");
}

pub(crate) fn a_long_transaction_is_logged_with_its_longest_statement_and_no_value(house: &House) {
    let pooler = house.pooler("long", &["log_min_duration_transaction = 200"]);
    let mut patient = client(&pooler, "long", "patient");
    patient.run("select 'quick'");
    patient.run("begin");
    patient.run("select 'secret', pg_sleep(0.3)");
    patient.run("commit");
    pooler.await_log("transaction took ");
    patient.run("select 'quick'");
    let log = pooler.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("transaction took")).collect();
    let [line] = lines[..] else { panic!("{lines:?}") };
    assert!(line.contains(" LOG C-0x") && line.contains(": long/u@127.0.0.1:"), "{line}");
    assert!(line.contains("first_byte 3") && line.contains(", 3 round trips, the longest 3"), "{line}");
    assert!(line.ends_with(" ms: select ?, pg_sleep(?)"), "{line}");
    // From now on all are logged, and those of a pipeline with the text of the prepared statement.
    assert_eq!(pooler.console("SET log_min_duration_transaction = 0").tags, ["SET log_min_duration_transaction=0"]);
    patient.run("select 'one more'");
    pooler.await_log(" ms: select ?\n");
    assert_eq!(pooler.console("SET log_min_duration_transaction = '-1'").tags, ["SET log_min_duration_transaction=-1"]);
    let before = pooler.log().matches("transaction took").count();
    patient.run("select 'nothing'");
    assert_eq!(pooler.log().matches("transaction took").count(), before);
    assert!(!pooler.log().contains("secret"), "a value is logged");
}

pub(crate) fn a_slow_statement_is_named(house: &House) {
    let pooler = house.pooler("waits_slow", &["default_pool_size = 1"]);
    let mut slow = client(&pooler, "waits_slow", "slow");
    slow.ask("select pg_sleep(3600)");
    let mut waiter = client(&pooler, "waits_slow", "waiter");
    waiter.ask("select 2");
    let answer = await_sentence(&pooler, "its only server works on a slow statement");
    let sentence = &answer.named(0)["doing"];
    assert!(sentence.contains("(slow,") && sentence.contains("select pg_sleep(?)"), "{sentence}");
    slow.cancel();
    slow.answer();
    waiter.answer();
}

pub(crate) fn who_holds_a_lock_that_others_wait_for_is_named(house: &House) {
    let pooler = house.pooler("waits_lock", &["default_pool_size = 3"]);
    let mut keeper = client(&pooler, "waits_lock", "keeper");
    keeper.run("create table t as select 1 as a");
    keeper.run("begin");
    keeper.run("update t set a = 2");
    let mut blocked: Vec<Client> = (0..2).map(|_| client(&pooler, "waits_lock", "blocked")).collect();
    blocked.iter_mut().for_each(|client| client.ask("update t set a = 3"));
    let mut waiter = client(&pooler, "waits_lock", "waiter");
    waiter.ask("select 1");
    let answer = await_sentence(&pooler, "wait for a lock");
    assert!(answer.named(0)["doing"].contains("(keeper,"), "{answer:?}");
    keeper.run("commit");
    blocked.iter_mut().for_each(|client| drop(client.answer()));
    waiter.answer();
}

pub(crate) fn a_client_that_does_not_read_is_named(house: &House) {
    let pooler = house.pooler("waits_reader", &["default_pool_size = 1"]);
    let mut reader = client(&pooler, "waits_reader", "reader");
    reader.ask("select repeat('x', 1000) from generate_series(1, 100000)");
    let mut waiter = client(&pooler, "waits_reader", "waiter");
    waiter.ask("select 1");
    let answer = await_sentence(&pooler, "its only server waits for a client that does not read its answer");
    assert!(answer.named(0)["doing"].contains("(reader,"), "{answer:?}");
    assert_eq!(named(&answer, "holder", "reader")["doing"], "does not read its answer");
    drop(reader);
    waiter.answer();
}

pub(crate) fn a_host_that_refuses_is_named_with_its_words(house: &House) {
    let port = free_port();
    let line = format!("waits_host = host=127.0.0.1 port={port} user=postgres");
    let ini = Ini::new(&line).set("auth_type = any").set("server_login_retry = 1");
    let pooler = house.start(&ini);
    // The login cannot finish before a server has reported its parameters, so the client waits.
    let mut waiter = pooler.knock();
    waiter.send(&tests::message::startup(0, &[("user", "u"), ("database", "waits_host")]));
    let answer = await_sentence(&pooler, "its host cannot be reached or refuses us");
    assert!(answer.named(0)["doing"].contains("connect failed"), "{answer:?}");
    let row = named(&answer, "waiter", "");
    assert_eq!((row["database"].as_str(), row["ends_by"].as_str()), ("waits_host", "client_login_timeout"));
    assert!(row["last_error"].contains("connect failed"), "{row:?}");
}

pub(crate) fn a_pool_that_is_too_small_is_named(house: &House) {
    let pooler = house.pooler("waits_small", &["default_pool_size = 1"]);
    // Many clients with short transactions: each waits for all the others.
    let address = pooler.address();
    let stop = Arc::new(AtomicBool::new(false));
    let crowd: Vec<_> = (0..30)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn(move || {
                let mut client = Client::login(address, "u", "waits_small");
                while !stop.load(Ordering::Relaxed) {
                    client.run("select pg_sleep(0.02)");
                }
            })
        })
        .collect();
    let answer = await_sentence(&pooler, "too small for its load");
    stop.store(true, Ordering::Relaxed);
    crowd.into_iter().for_each(|thread| thread.join().expect("a client"));
    assert!(answer.named(0)["doing"].contains("may have 1"), "{answer:?}");
    let pool = pooler.console("SHOW POOLS EXTENDED");
    let pool =
        (0..pool.rows.len()).map(|row| pool.named(row)).find(|row| row["database"] == "waits_small").expect("a pool");
    assert_eq!(pool["peak_in_use"], "1");
    assert!(pool["wait_p99"].parse::<u64>().is_ok_and(|micros| micros > 100_000), "{pool:?}");
}

/// PostgreSQL on the same machine is busy before one worker is: this server counts bytes, and has its answers ready.
pub(crate) fn a_worker_that_is_always_busy_is_named(house: &House) {
    let server = FakeServer::open(|stream| drop(answer_at_once(stream)));
    let line = format!("waits_worker = host=127.0.0.1 port={} user=u", server.port());
    let ini = Ini::new(&line).set("workers = 1").set("server_tls_sslmode = disable").set("session_state = pgbouncer");
    let pooler = house.start(&ini.set("default_pool_size = 8"));
    let stop = Arc::new(AtomicBool::new(false));
    let crowd: Vec<_> = (0..8)
        .map(|_| {
            let (mut client, stop) = (client(&pooler, "waits_worker", "eager"), stop.clone());
            thread::spawn(move || {
                let (queries, answers) = (query(QUERY).repeat(BATCH), answer_to_query().len() * BATCH);
                while !stop.load(Ordering::Relaxed) {
                    client.peer.send(&queries);
                    client.peer.bytes(answers).expect("the answers");
                }
            })
        })
        .collect();
    await_sentence(&pooler, "Worker 0 has been busy");
    stop.store(true, Ordering::Relaxed);
    crowd.into_iter().for_each(|thread| thread.join().expect("a client"));
    await_sentence(&pooler, "All is well");
}

fn answer_at_once(mut stream: TcpStream) -> io::Result<()> {
    let mut received = vec![0; 64 << 10];
    stream.read_exact(&mut received[..4])?;
    let startup = u32::from_be_bytes([received[0], received[1], received[2], received[3]]) as usize;
    stream.read_exact(&mut received[4..startup])?;
    stream.write_all(&greeting())?;
    let (query, answer) = (query(QUERY).len(), answer_to_query());
    let answers = answer.repeat(received.len() / query + 1);
    let mut unanswered = 0;
    loop {
        match stream.read(&mut received)? {
            0 => return Ok(()),
            count => unanswered += count,
        }
        stream.write_all(&answers[..unanswered / query * answer.len()])?;
        unanswered %= query;
    }
}

fn answer_to_query() -> Vec<u8> {
    [frame(b'C', b"SELECT 0\0"), frame(b'Z', b"I")].concat()
}

pub(crate) fn the_time_of_transactions_is_divided_without_a_remainder(house: &House) {
    let pooler = house.pooler("waits_divided", &["default_pool_size = 1"]);
    let mut client = client(&pooler, "waits_divided", "divided");
    client.run("select 1");
    let before = phases(&pooler);
    let begun = std::time::Instant::now();
    client.run("begin");
    client.run("select pg_sleep(0.3)");
    thread::park_timeout(Duration::from_millis(200));
    // So long that the first bytes arrive before the last ones are produced.
    client.run("select repeat('x', 1000) from generate_series(1, 30000)");
    client.run("commit");
    let took = begun.elapsed().as_micros() as f64;
    let after = phases(&pooler);
    let spent = |phase: &str| after[phase] - before[phase];
    let total: f64 =
        ["waiting", "settings", "first_byte", "streaming", "client_blocked", "client_thinking"].map(spent).iter().sum();
    assert!((spent("total_time") - total).abs() < 1.0, "{before:?} {after:?}");
    // The client's own measurement includes the time of its own machine.
    assert!(total <= took && total >= took * 0.9, "{total} of {took}");
    assert!(spent("first_byte") >= 300_000.0, "{after:?}");
    assert!(spent("client_thinking") >= 190_000.0, "{after:?}");
    assert!(spent("streaming") > 0.0, "{after:?}");
    assert_eq!(spent("transactions"), 1.0);
}

pub(crate) fn no_value_is_shown_however_a_request_comes(house: &House) {
    let pooler = house.pooler("waits_values", &["default_pool_size = 1"]);
    let mut holder = client(&pooler, "waits_values", "holder");
    holder.run("begin; set standard_conforming_strings = off");
    let shown = || named(&pooler.console("SHOW WAITS"), "holder", "holder")["statement"].clone();
    // With this setting a backslash escapes the quote after it; by default it does not.
    holder.run(r"select 'a\' secret', 'x'");
    assert!(!shown().contains("secret"), "{}", shown());
    // The rest of a message whose header came earlier must not be parsed from a wrong position.
    let request = tests::message::query("select 'Qsecret secret'");
    for at in [1, 3, 5, 14] {
        holder.peer.send(&request[..at]);
        // Its worker has read the first part when it has answered this.
        pooler.console("SHOW WAITS");
        holder.peer.send(&request[at..]);
        holder.answer();
        assert!(!shown().contains("secret"), "cut at {at}: {}", shown());
    }
    let long = format!("select '{}secret'", "x".repeat(200));
    holder.run(&long);
    assert_eq!(shown(), "select...");
}

/// The time in which a COPY waits for its data was counted as streaming, and the COPY was told as a slow statement.
pub(crate) fn a_copy_without_data_waits_for_its_client(house: &House) {
    let pooler = house.pooler("waits_copy", &["default_pool_size = 1"]);
    let mut copier = client(&pooler, "waits_copy", "divided");
    copier.run("create table copied (a int)");
    let pause = "begin perform pg_sleep(0.3); return null; end";
    copier.run(&format!("create function pause() returns trigger language plpgsql as '{pause}'"));
    copier.run("create trigger pauses after insert on copied for each statement execute procedure pause()");
    let before = phases(&pooler);
    let copy = "copy copied from stdin";
    let batch = [message::parse("", copy), message::bind("", "", &[]), message::execute("", 0)].concat();
    // With and without a Sync that the COPY ignores.
    for request in [message::query(copy), [batch, message::sync()].concat()] {
        copier.peer.send(&request);
        wait_for("the COPY begins", LIMIT, || copier.peer.frame().ok().filter(|frame| frame.tag == b'G'));
        let answer = await_sentence(&pooler, "; 1 client is idle in its transaction (longest: ");
        assert_eq!(named(&answer, "holder", "divided")["statement"], copy);
        copier.peer.send(&message::frame(b'd', b"1\n"));
        await_sentence(&pooler, "; 1 client is idle in its transaction (longest: ");
        let sync = if request[0] == b'Q' { Vec::new() } else { message::sync() };
        copier.peer.send(&[message::frame(b'c', b""), sync].concat());
        assert_eq!(copier.answer().tags, ["COPY 1"]);
    }
    let after = phases(&pooler);
    let spent = |phase: &str| after[phase] - before[phase];
    assert!(spent("client_thinking") >= 2_000_000.0, "{after:?}");
    assert!(spent("first_byte") >= 600_000.0 && spent("streaming") < 300_000.0, "{after:?}");
    assert_eq!(spent("transactions"), 2.0);
}

/// The row of `SHOW APPLICATIONS` of the application `divided`.
fn phases(pooler: &Pooler) -> std::collections::BTreeMap<String, f64> {
    let answer = pooler.console("SHOW APPLICATIONS");
    let mut rows = (0..answer.rows.len()).map(|row| answer.named(row));
    let row = rows.find(|row| row["application_name"] == "divided").expect("an application");
    row.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

pub(crate) fn servers_that_are_opened_and_closed_are_counted_by_cause(house: &House) {
    if house.is_older_than(14, "pg_stat_database.sessions") {
        return;
    }
    let pooler = house.pooler("waits_churn", &["default_pool_size = 2", "server_lifetime = 3600"]);
    let sessions = || {
        let sql = "select sessions from pg_stat_database where datname = 'waits_churn'";
        house.postgres.client("postgres").value(sql).parse::<u64>().expect("a number")
    };
    let before = sessions();
    let mut one = pooler.client("u", "waits_churn");
    one.run("select 1");
    pooler.console("RECONNECT waits_churn");
    one.run("select 1");
    let mut kept = pooler.client("u", "waits_churn");
    kept.run("begin");
    one.run("select 1");
    drop((one, kept));
    pooler.await_pool("waits_churn", "sv_active", "0");
    pooler.console("RECONNECT waits_churn");
    let churn = || {
        let answer = pooler.console("SHOW CHURN");
        let rows = (0..answer.rows.len()).map(|row| answer.named(row));
        let mut counts = std::collections::BTreeMap::new();
        for row in rows.filter(|row| row["database"] == "waits_churn") {
            *counts.entry(row["event"].clone()).or_insert(0) += row["count"].parse::<u64>().expect("a number");
        }
        counts
    };
    wait_until("all servers to be closed", LIMIT, || churn().get("closed") == churn().get("opened"));
    let opened = churn()["opened"];
    wait_until("PostgreSQL to count its sessions", LIMIT, || sessions() - before == opened);
}

/// Counts a pool's servers by the cause of their end.
fn closed_by_cause(pooler: &Pooler, database: &str) -> std::collections::BTreeMap<String, String> {
    let answer = pooler.console("SHOW CHURN");
    let rows = (0..answer.rows.len()).map(|row| answer.named(row));
    let rows = rows.filter(|row| row["database"] == database && row["event"] == "closed");
    rows.map(|row| (row["cause"].clone(), row["count"].clone())).collect()
}

/// `KILL` pauses the database first. Idle servers, which a pause closes, were counted as `paused`.
pub(crate) fn servers_closed_by_orders_are_counted_by_the_order_also_when_their_pool_has_gone(house: &House) {
    let pooler = house.pooler("waits_orders", &[]);
    for order in ["PAUSE", "KILL", "PAUSE"] {
        let [mut busy, mut idle] = [pooler.client("u", "waits_orders"), pooler.client("u", "waits_orders")];
        if order == "KILL" {
            busy.run("begin");
            pooler.await_pool("waits_orders", "sv_active", "1");
        }
        idle.run("select 1");
        pooler.await_pool("waits_orders", "sv_idle", "1");
        pooler.console(&format!("{order} waits_orders"));
        pooler.console("RESUME waits_orders");
    }
    let count = |word: &str, count: &str| (word.to_owned(), count.to_owned());
    let both = [count("killed", "2"), count("paused", "2")].into();
    wait_until("all to be counted", LIMIT, || closed_by_cause(&pooler, "waits_orders") == both);
}

const QUERY: &str = "select 1";
/// How many queries a client sends at once.
const BATCH: usize = 500;
