//! Each timeout: what it ends, with which error, and not before its time.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use tests::client::Client;
use tests::message::{self, Complaint};
use tests::peer::{Lost, Peer};
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;

pub(crate) fn query_wait_timeout_ends_who_waited_too_long(house: &House) {
    let pooler = house.pooler("late_wait", &["default_pool_size = 1", "query_wait_timeout = 1"]);
    // The first client waits for the login of a server, on a busy machine for too long.
    let parameters = [("user", "u"), ("database", "late_wait")];
    let mut holder = wait_for("a server is there", LIMIT, || Client::try_login(pooler.address(), &parameters).ok());
    let mut waiter = pooler.client("u", "late_wait");
    holder.run("begin");
    let begun = Instant::now();
    assert_eq!(waiter.query("select 1").error().text, "query_wait_timeout");
    expect_took(begun, 1.0);
    pooler.await_log("closing because: query_wait_timeout");
    holder.run("commit");
    assert_eq!(pooler.client("u", "late_wait").value("select 2"), "2");
}

/// Previously every waiting client was told that no server became free, also when the host refused connections or the
/// database was paused.
pub(crate) fn who_waited_too_long_reads_what_for(house: &House) {
    let settings =
        ["default_pool_size = 2", "query_wait_timeout = 1", "server_login_retry = 1", "log_pooler_errors = 1"];
    let down = format!("down = host=127.0.0.1 port={}", free_port());
    let nameless = "nameless = host=no-such-host.invalid";
    let pooler = house.start(&house.ini("late_why", &settings).database(&down).database(nameless));
    let told = |error: Complaint, what: &[&str]| {
        assert_eq!((error.code.as_str(), error.text.as_str()), ("08P01", "query_wait_timeout"));
        what.iter().for_each(|what| assert!(error.detail.contains(what), "{error:?}"));
        pooler.await_log(&format!("pooler error: query_wait_timeout ({})", error.detail));
        error
    };
    let mut pinned = pooler.client("u", "late_why");
    pinned.run("select pg_advisory_lock(4)");
    let mut open = pooler.client("u", "late_why");
    open.run("begin");
    let mut waiter = pooler.client("u", "late_why");
    let error = waiter.query("select 1").error().clone();
    let error = told(
        error,
        &["No server connection became free within 1 second; 2 lent: ", "1 pinned by session-level advisory locks"],
    );
    assert!(error.detail.contains("1 in a transaction for "), "{error:?}");
    // A client that logs in waits, too.
    let error = told(
        refused(&pooler, "down"),
        &["could be opened within 1 second: connect failed (host 127.0.0.1, port ", "Connection refused"],
    );
    assert!(!error.detail.contains("became free"), "{error:?}");
    told(refused(&pooler, "nameless"), &["could be opened within 1 second: ", "no-such-host.invalid"]);
    open.run("commit");
    let mut paused = pooler.client("u", "late_why");
    pinned.run("select pg_advisory_unlock(4)");
    pooler.console("PAUSE late_why");
    let error = told(
        paused.query("select 1").error().clone(),
        &["paused (PAUSE or KILL), and was not resumed within 1 second"],
    );
    assert!(error.hint.contains("RESUME"), "{error:?}");
}

pub(crate) fn query_timeout_ends_a_long_query_and_its_server(house: &House) {
    let pooler = house.pooler("late_query", &["query_timeout = 1"]);
    let mut client = pooler.client("u", "late_query");
    let begun = Instant::now();
    let answer = client.query("select pg_sleep(60)");
    assert_eq!((answer.error().code.as_str(), answer.error().text.as_str()), ("08P01", "query timeout"));
    expect_took(begun, 1.0);
    // Many short queries in a row do not count as a long one.
    let mut client = pooler.client("u", "late_query");
    for _ in 0..15 {
        client.run("select pg_sleep(0.1)");
    }
}

pub(crate) fn idle_transaction_timeout_ends_an_idle_transaction(house: &House) {
    let pooler = house.pooler("late_idle", &["idle_transaction_timeout = 1"]);
    let mut client = pooler.client("u", "late_idle");
    client.run("begin");
    let pid = client.server_pid();
    let begun = Instant::now();
    assert_eq!(client.answer().error().text, "idle transaction timeout");
    expect_took(begun, 1.0);
    // The transaction and its locks are gone; the server itself may be used again after its cleanup.
    let sql = format!("select count(*) from pg_stat_activity where pid = {pid} and state <> 'idle'");
    wait_until("the transaction has ended", LIMIT, || house.postgres.value(&sql) == "0");
    // A busy transaction is not an idle one.
    let mut client = pooler.client("u", "late_idle");
    client.run("begin");
    client.run("select pg_sleep(1.6)");
    client.run("commit");
}

pub(crate) fn transaction_timeout_ends_even_a_busy_transaction(house: &House) {
    let pooler = house.pooler("late_transaction", &["transaction_timeout = 1"]);
    let mut client = pooler.client("u", "late_transaction");
    let begun = Instant::now();
    client.run("begin");
    let error = loop {
        let answer = client.query("select pg_sleep(0.1)");
        if let Some(error) = answer.errors.first() {
            break error.clone();
        }
    };
    assert_eq!(error.text, "transaction timeout");
    expect_took(begun, 1.0);
}

pub(crate) fn client_idle_timeout_ends_idle_clients_only(house: &House) {
    let pooler = house.pooler("late_client", &["client_idle_timeout = 1"]);
    let mut idle = pooler.client("u", "late_client");
    let mut busy = pooler.client("u", "late_client");
    let begun = Instant::now();
    busy.run("begin");
    busy.run("select pg_sleep(0.6)");
    busy.run("commit");
    // A client that waits for an answer is not idle; its idle time begins with the answer.
    busy.run("select pg_sleep(1.2)");
    assert_eq!(idle.answer().error().text, "client_idle_timeout");
    expect_took(begun, 1.0);
    assert_eq!(busy.value("select 1"), "1");
}

pub(crate) fn client_login_timeout_ends_who_says_nothing(house: &House) {
    let pooler = house.pooler("late_login", &["client_login_timeout = 1"]);
    let begun = Instant::now();
    let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
    let mut half = Peer::tcp(pooler.address()).expect("the port answers");
    half.send(&message::startup(0, &[("user", "u"), ("database", "late_login")])[..10]);
    assert_eq!(Complaint::read(&peer.frame().expect("a reason")).text, "client_login_timeout");
    assert_eq!(Complaint::read(&half.frame().expect("a reason")).text, "client_login_timeout");
    expect_took(begun, 1.0);
    peer.closed_within(LIMIT).expect("the end");
}

pub(crate) fn client_login_timeout_counts_from_the_first_moment(house: &House) {
    let pooler = house.pooler("late_drip", &["client_login_timeout = 1"]);
    let begun = Instant::now();
    let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
    // A byte now and then does not extend the time.
    for byte in message::startup(0, &[("user", "u"), ("database", "late_drip")]) {
        if peer.try_send(&[byte]).is_err() {
            break;
        }
        match peer.frame_within(Duration::from_millis(100)) {
            Ok(frame) => {
                assert_eq!(Complaint::read(&frame).text, "client_login_timeout");
                return expect_took(begun, 1.0);
            }
            Err(Lost::Late) => {}
            Err(lost) => panic!("{lost}, without a word"),
        }
    }
    panic!("a login of {:?} was let in", begun.elapsed());
}

pub(crate) fn client_login_timeout_holds_while_no_server_can_be_reached(house: &House) {
    let port = free_port();
    let ini = Ini::new(&format!("down = host=127.0.0.1 port={port}")).set("client_login_timeout = 1");
    let pooler = house.start(&ini.set("server_login_retry = 1"));
    let begun = Instant::now();
    let error = refused(&pooler, "down");
    assert_eq!((error.code.as_str(), error.text.as_str()), ("08P01", "client_login_timeout (server down)"));
    expect_took(begun, 1.0);
    pooler.await_log("closing because: connect failed");
}

pub(crate) fn server_connect_timeout_gives_a_silent_server_up(house: &House) {
    // The kernel accepts the connection, but the server never sends a message.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = silent.local_addr().expect("a bound port").port();
    let ini =
        house.ini("late_connect", &["server_connect_timeout = 1", "server_login_retry = 1", "query_wait_timeout = 3"]);
    let pooler = house.start(&ini.database(&format!("silent = host=127.0.0.1 port={port}")));
    let begun = Instant::now();
    let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
    peer.send(&message::startup(0, &[("user", "u"), ("database", "silent")]));
    pooler.await_log("closing because: connect timeout");
    expect_took(begun, 1.0);
    // No other client is delayed by it.
    assert_eq!(pooler.client("u", "late_connect").value("select 1"), "1");
    assert_eq!(Complaint::read(&peer.frame().expect("a reason")).text, "query_wait_timeout");
}

pub(crate) fn query_timeout_ends_a_login_that_waits_for_a_silent_server(house: &House) {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = silent.local_addr().expect("a bound port").port();
    let ini = house.ini("late_asked", &["query_timeout = 1", "query_wait_timeout = 3"]);
    let pooler = house.start(&ini.database(&format!("silent = host=127.0.0.1 port={port}")));
    let begun = Instant::now();
    assert_eq!(refused(&pooler, "silent").text, "query_timeout");
    expect_took(begun, 1.0);
}

pub(crate) fn server_idle_timeout_closes_what_nobody_uses(house: &House) {
    let pooler = house.pooler("late_server", &["server_idle_timeout = 1"]);
    let mut client = pooler.client("u", "late_server");
    client.run("select 1");
    assert_eq!(house.postgres.servers("late_server"), 1);
    house.postgres.await_servers("late_server", 0);
    pooler.await_log("closing because: server idle timeout");
    assert_eq!(client.value("select 2"), "2");
}

pub(crate) fn server_lifetime_replaces_old_servers(house: &House) {
    let pooler = house.pooler("late_life", &["server_lifetime = 1", "default_pool_size = 2"]);
    let mut client = pooler.client("u", "late_life");
    let old = client.server_pid();
    // A server in use is not closed: the transaction may exceed the server's lifetime.
    client.run("begin");
    client.run("select pg_sleep(1.2)");
    assert_eq!(client.server_pid(), old);
    client.run("commit");
    wait_until("another server", LIMIT, || client.server_pid() != old);
    pooler.await_log("closing because: server lifetime over");
}

pub(crate) fn server_login_retry_answers_from_memory_in_between(house: &House) {
    let pooler =
        house.pooler("late_retry", &["server_login_retry = 2", "default_pool_size = 1", "server_idle_timeout = 1"]);
    let mut client = pooler.client("u", "late_retry");
    client.run("select 1");
    house.postgres.query("alter role u connection limit -1; alter database late_retry with allow_connections false");
    house.postgres.await_servers("late_retry", 0);
    let error = client.query("select 2").error().clone();
    assert!(error.text.contains("not currently accepting connections"), "{error:?}");
    // A login may succeed, because the server parameters are known; the query is answered at once, without another attempt
    // to reach the server.
    let attempts = pooler.log().matches("new connection to server").count();
    let mut next = pooler.client("u", "late_retry");
    let error = next.query("select 3").error().clone();
    assert!(error.text.starts_with("server login has been failing, cached error: "), "{error:?}");
    assert!(error.text.ends_with(" (server_login_retry)") && error.text.contains("accepting"), "{error:?}");
    assert_eq!(pooler.log().matches("new connection to server").count(), attempts);
    house.postgres.query("alter database late_retry with allow_connections true");
    wait_until("the server is tried again", LIMIT, || {
        Client::try_login(pooler.address(), &[("user", "u"), ("database", "late_retry")])
            .is_ok_and(|mut client| client.query("select 3").errors.is_empty())
    });
}

pub(crate) fn a_server_that_has_been_idle_is_checked_before_use(house: &House) {
    let settings = ["server_check_delay = 0", "server_check_query = select nextval('checks')", "default_pool_size = 1"];
    let ini = house.ini("late_check", &settings);
    house.postgres.client("late_check").run("create sequence checks");
    let pooler = house.start(&ini);
    let mut client = pooler.client("u", "late_check");
    let pid = client.server_pid();
    for _ in 0..3 {
        assert_eq!(client.server_pid(), pid, "a check that succeeds keeps the server");
    }
    assert!(client.value("select last_value from checks").parse::<u32>().expect("a number") >= 3);
    // A server that fails the check is replaced, and the client does not notice.
    house.postgres.client("late_check").run("drop sequence checks");
    house.postgres.terminate(&pid.to_string());
    assert_ne!(client.server_pid(), pid);
}

pub(crate) fn autodb_idle_timeout_forgets_what_nobody_uses(house: &House) {
    house.postgres.database("late_auto");
    let ini = Ini::new(&format!("* = host=127.0.0.1 port={}", house.postgres.port())).set("autodb_idle_timeout = 1");
    let pooler = house.start(&ini.set("server_idle_timeout = 1"));
    pooler.client("u", "late_auto").run("select 1");
    let mut console = pooler.client("admin", "pgbouncer");
    wait_until("the database is forgotten", LIMIT, || {
        console.query("SHOW DATABASES").rows.iter().all(|row| row[0].as_deref() != Some("late_auto"))
    });
    assert_eq!(pooler.client("u", "late_auto").value("select 1"), "1");
}

pub(crate) fn a_database_that_does_not_exist_is_forgotten_soon(house: &House) {
    let ini = Ini::new(&format!("* = host=127.0.0.1 port={}", house.postgres.port())).set("server_login_retry = 1");
    let pooler = house.start(&ini);
    house.postgres.database("late_there");
    pooler.client("u", "late_there").run("select 1");
    assert_eq!(refused(&pooler, "late_missing").code, "3D000");
    let databases = || {
        let shown = pooler.console("SHOW DATABASES");
        let names = shown.rows.iter().map(|row| row[0].clone().unwrap_or_default());
        names.filter(|name| name.starts_with("late_")).collect::<Vec<_>>()
    };
    wait_until("the database is forgotten", LIMIT, || databases() == ["late_there"]);
    // The database may have been created meanwhile.
    house.postgres.database("late_missing");
    assert_eq!(pooler.client("u", "late_missing").value("select 1"), "1");
}

/// Previously a client that could log in made the pooler remember any number of names for an hour.
pub(crate) fn of_databases_that_nobody_uses_no_more_than_5000_are_known(house: &House) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let line = format!("* = host=127.0.0.1 port={} user=u", listener.local_addr().expect("a bound port").port());
    // The error is not that the database does not exist: such a database would be forgotten anyway.
    std::thread::spawn(move || {
        while let Ok(mut peer) = Peer::accept(&listener) {
            if peer.packet().is_ok() {
                peer.send(&message::frame(b'E', b"SFATAL\0C28000\0Mnot here\0\0"));
            }
        }
    });
    let settings = ["server_login_retry = 60", "server_tls_sslmode = disable", "workers = 1"];
    let pooler = house.start(&settings.iter().fold(Ini::new(&line), |ini, setting| ini.set(setting)));
    let names: Vec<String> = (0..5_600).map(|number| format!("auto_{number}")).collect();
    std::thread::scope(|scope| {
        names.chunks(700).for_each(|names| {
            scope.spawn(|| names.iter().for_each(|name| assert_eq!(refused(&pooler, name).text, "not here")));
        });
    });
    wait_until("some are forgotten", LIMIT, || {
        let known = pooler.console("SHOW DATABASES").rows.len();
        known <= 5_001 && pooler.log().contains("dropping database 'auto_")
    });
}

/// Checks that it took at least this long, and not much longer (PgBouncer checks three times a second; a loaded machine is
/// slow).
fn expect_took(begun: Instant, seconds: f32) {
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs_f32(seconds - 0.05), "after only {took:?}");
    assert!(took < Duration::from_secs_f32(seconds + 3.0), "only after {took:?}");
}

fn refused(pooler: &Pooler, database: &str) -> Complaint {
    Client::try_login(pooler.address(), &[("user", "u"), ("database", database)])
        .map(|_| ())
        .expect_err("the login succeeded")
}
