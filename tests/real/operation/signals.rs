//! Signals and SHUTDOWN: which clients may finish, which are refused, and when the process ends.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::client::Client;
use tests::message;
use tests::peer::Peer;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

pub(crate) fn sigterm_waits_for_the_clients(house: &House) {
    let mut pooler = house.pooler("signal_term", &[]);
    let mut client = pooler.client("u", "signal_term");
    pooler.signal(Signal::SIGTERM);
    pooler.await_log("got SIGTERM, shutting down, waiting for all clients disconnect");
    wait_until("nobody listens on TCP", LIMIT, || Peer::tcp(pooler.address()).is_err());
    assert_eq!(client.value("select 1"), "1");
    assert_eq!(client.value("select 2"), "2");
    // The unix socket still answers, but only the console may be used.
    let mut peer = pooler.knock();
    peer.send(&message::startup(0, &[("user", "u"), ("database", "signal_term")]));
    assert_eq!(Client::finish_login(peer, LIMIT).map(|_| ()).expect_err("refused").text, "pooler is shutting down");
    assert!(pooler.is_running());
    drop(client);
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    assert!(!pooler.socket().exists(), "the socket file was left behind");
}

pub(crate) fn a_second_sigterm_ends_it_at_once(house: &House) {
    let mut pooler = house.pooler("signal_term_twice", &[]);
    let _client = pooler.client("u", "signal_term_twice");
    pooler.signal(Signal::SIGTERM);
    pooler.await_log("got SIGTERM");
    pooler.signal(Signal::SIGTERM);
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
}

pub(crate) fn sigint_waits_for_the_servers(house: &House) {
    let mut pooler = house.pooler("signal_int", &[]);
    let mut busy = pooler.client("u", "signal_int");
    let mut idle = pooler.client("u", "signal_int");
    busy.run("begin");
    pooler.signal(Signal::SIGINT);
    pooler.await_log("got SIGINT, shutting down, waiting for all servers connections to be released");
    assert_eq!(idle.query("select 1").error().text, "server shutting down");
    assert_eq!(busy.value("select 2"), "2");
    busy.run("commit");
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    house.postgres.await_servers("signal_int", 0);
}

pub(crate) fn sigquit_ends_it_at_once(house: &House) {
    let mut pooler = house.pooler("signal_quit", &[]);
    let mut client = pooler.client("u", "signal_quit");
    client.run("begin");
    pooler.signal(Signal::SIGQUIT);
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    pooler.await_log("got SIGQUIT, fast exit");
    assert!(client.peer.is_closed_within(LIMIT));
    house.postgres.await_servers("signal_quit", 0);
}

pub(crate) fn shutdown_ends_it_without_a_word(house: &House) {
    let mut pooler = house.pooler("signal_shutdown", &[]);
    let _client = pooler.client("u", "signal_shutdown");
    let mut console = pooler.client("admin", "pgbouncer");
    console.ask("SHUTDOWN");
    console.peer.closed_within(LIMIT).expect("the connection just ends");
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    pooler.await_log("SHUTDOWN command issued");
}

pub(crate) fn a_shutdown_has_patience_for_its_time(house: &House) {
    if !house.place.is_trunkline() {
        return tests::runner::skip("PgBouncer waits for ever");
    }
    for way in ["SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN WAIT_FOR_SERVERS"] {
        let ini = tests::pooler::Ini::new(&house.line_as("signal_patience", "postgres")).set("shutdown_timeout = 1");
        let mut pooler = house.start(&ini);
        let [mut idle, mut busy, mut open] = [0; 3].map(|_| pooler.client("u", "signal_patience"));
        open.run("begin");
        busy.ask("select pg_sleep(67)");
        house.postgres.await_running("postgres", "pg_sleep(67)");
        pooler.client("admin", "pgbouncer").run(way);
        for client in [&mut idle, &mut busy, &mut open] {
            let answer = client.answer();
            let error = answer.error();
            assert_eq!((error.code.as_str(), error.severity.as_str()), ("57P01", "FATAL"), "{error:?}");
            assert_eq!(error.text, "pooler is shutting down (shutdown_timeout)");
        }
        assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
        pooler.await_log("shutdown_timeout: have waited for 1 second");
        // No query of a disconnected client goes on running in PostgreSQL.
        let mut look = house.postgres.client("postgres");
        let running = "select count(*) from pg_stat_activity where query = 'select pg_sleep(67)' and state = 'active'";
        wait_until("its query is cancelled", LIMIT, || look.value(running) == "0");
    }
}

pub(crate) fn transactions_end_before_a_shutdown_runs_out_of_patience(house: &House) {
    if !house.place.is_trunkline() {
        return tests::runner::skip("PgBouncer waits for ever");
    }
    let mut pooler = house.pooler("signal_commit", &["shutdown_timeout = 16"]);
    house.postgres.client("signal_commit").run("create table done (number int); grant all on done to public");
    let mut busy: Vec<Client> = (0..4).map(|_| pooler.client("u", "signal_commit")).collect();
    let [mut idle, mut open] = [0; 2].map(|_| pooler.client("u", "signal_commit"));
    idle.run("select 1");
    open.run("begin");
    open.run("insert into done values (0)");
    pooler.signal(Signal::SIGTERM);
    let begun = Instant::now();
    // Transaction follows transaction: none is cut, and the first statement of a new one is refused.
    std::thread::scope(|scope| {
        for (number, client) in busy.iter_mut().enumerate() {
            scope.spawn(move || {
                let refused = loop {
                    let answer = client.query("begin");
                    if let Some(error) = answer.errors.first() {
                        break error.clone();
                    }
                    client.run(&format!("insert into done values ({number})"));
                    client.run("select pg_sleep(0.05)");
                    client.run("commit");
                };
                assert_eq!((&*refused.code, &*refused.text), ("57P01", "pooler is shutting down (shutdown_timeout)"));
            });
        }
    });
    assert!(begun.elapsed() > Duration::from_secs(11), "{:?}", begun.elapsed());
    assert_eq!(idle.answer().error().code, "57P01", "it has no server, and gets none");
    // Who has a server goes on until the end of the transaction.
    open.run("insert into done values (0)");
    open.run("commit");
    assert_eq!(open.query("select 1").error().code, "57P01");
    // Nobody is left, so that the process need not wait for the rest of its time.
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    pooler.await_log("no client gets a server any more; transactions may end within 4 seconds");
    let rows = house.postgres.client("signal_commit").value("select count(*) from done where number = 0 ");
    assert_ne!(rows, "0");
}

pub(crate) fn sighup_reads_the_configuration_again(house: &House) {
    let ini = house.ini("signal_hup", &["default_pool_size = 11"]);
    let pooler = house.start(&ini);
    let mut client = pooler.client("u", "signal_hup");
    pooler.rewrite(
        &ini.clone().set("default_pool_size = 12").secret("newcomer", "").database(&house.line_as("added", "postgres")),
    );
    pooler.signal(Signal::SIGHUP);
    pooler.await_log("got SIGHUP, re-reading config");
    wait_until("the new value is shown", LIMIT, || setting(&pooler, "default_pool_size") == "12");
    assert_eq!(pooler.client("u", "added").value("select 1"), "1");
    // The pooler knows the user now, but PostgreSQL does not.
    let error = Client::try_login(pooler.address(), &[("user", "newcomer"), ("database", "added")]).map(|_| ());
    assert_eq!(error.expect_err("no such role").text, "role \"newcomer\" does not exist");
    assert_eq!(client.value("select 1"), "1", "a reload harms no client");
}

pub(crate) fn setting(pooler: &tests::pooler::Pooler, key: &str) -> String {
    let answer = pooler.console("SHOW CONFIG");
    (0..answer.rows.len())
        .map(|at| answer.named(at))
        .find(|row| row["key"] == key)
        .map_or_else(|| panic!("no setting {key}"), |row| row["value"].clone())
}
