//! The sentence of `SHOW WAITS` while clients fail: each test sets up a single cause, and nobody waits.

use std::time::Duration;

use tests::authority::Authority;
use tests::client::Client;
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::program::{psql, run};
use tests::wait::{LIMIT, try_wait_for, wait_until};

use crate::house::House;

use super::http::get;

/// Fails again and again until the sentence names the cause, and never says meanwhile that all is well after the first
/// failures; returns it.
fn await_cause(pooler: &Pooler, wanted: &[&str], mut fail: impl FnMut()) -> String {
    let mut told = String::new();
    let seen = try_wait_for(LIMIT, || {
        fail();
        told = sentence(pooler);
        wanted.iter().all(|part| told.contains(part)).then(|| told.clone())
    });
    seen.unwrap_or_else(|| panic!("{wanted:?} is not said, but {told:?}"))
}

pub(super) fn sentence(pooler: &Pooler) -> String {
    pooler.console("SHOW WAITS").named(0)["doing"].clone()
}

pub(super) fn try_login(pooler: &Pooler, user: &str, database: &str) -> Result<Client, String> {
    Client::try_login(pooler.address(), &[("user", user), ("database", database)]).map_err(|error| error.text)
}

pub(crate) fn a_server_that_refuses_the_pooler_is_named_although_nobody_waits(house: &House) {
    house.postgres.client("postgres").run("drop role if exists failing_role; create role failing_role login");
    let ini = house.ini("failing_login", &["server_login_retry = 1"]).secret("failing_role", "any");
    let pooler = house.start(&ini);
    let mut client = pooler.client("failing_role", "failing_login");
    client.run("select 1");
    assert!(sentence(&pooler).starts_with("All is well"), "{}", sentence(&pooler));
    // As after a changed password: the servers go, and none can log in.
    house.postgres.client("postgres").run("alter role failing_role nologin");
    let pid = client.server_pid();
    house.postgres.terminate(&pid);
    let said = await_cause(
        &pooler,
        &["Logins of the pooler at the servers of failing_login/failing_role fail", "not permitted to log in"],
        || use_once(&pooler),
    );
    assert!(!said.contains("All is well"), "{said}");
    let said = await_cause(&pooler, &[" clients failed because of that"], || use_once(&pooler));
    assert!(!said.contains("All is well"), "{said}");
    // The outage ends, and ten seconds later all is well.
    house.postgres.client("postgres").run("alter role failing_role login");
    wait_until("all to be well again", 3 * LIMIT, || {
        use_once(&pooler);
        sentence(&pooler).contains("All is well")
    });
}

/// The pool's welcome is known, so that clients come in, and fail with their first query.
fn use_once(pooler: &Pooler) {
    if let Ok(mut client) = try_login(pooler, "failing_role", "failing_login") {
        client.query("select 1");
    }
}

pub(crate) fn a_host_that_was_never_reached_is_named(house: &House) {
    let line = format!("failing_host = host=127.0.0.1 port={}", free_port());
    let pooler = house.start(&Ini::new(&line).set("client_login_timeout = 1"));
    let wanted = ["Logins of the pooler at the servers of failing_host/u fail", "connect failed"];
    await_cause(&pooler, &wanted, || drop(try_login(&pooler, "u", "failing_host")));
}

pub(crate) fn a_host_that_never_answered_is_unreachable_until_a_login_succeeds(house: &House) {
    house.postgres.database("failing_since");
    let (http, port, closed) = (free_port(), house.postgres.port(), free_port());
    let directory = house.place.directory().join("failing_since");
    std::fs::create_dir(&directory).expect("a new directory");
    let line = format!("failing_since = host={} port={port} user=postgres", directory.display());
    let refuses = format!("failing_tcp = host=127.0.0.1 port={closed}");
    let ini = Ini::new(&line).database(&refuses).set("server_login_retry = 0.2").set("client_login_timeout = 60");
    let pooler = house.start(&ini.set(&format!("http_port = {http}")));
    let host = format!("{}/.s.PGSQL.{port}", directory.display());
    let metrics = || get(([127, 0, 0, 1], http).into(), "/metrics", "").1;
    let state = |name: &str| {
        let hosts = pooler.console("SHOW HOSTS");
        let row = (0..hosts.rows.len()).map(|at| hosts.named(at)).find(|row| row["host"] == name);
        row.expect("a host of a database has a row")
    };
    assert_eq!((&*state(&host)["state"], &*state(&host)["since"]), ("unknown", "NULL"), "nobody has tried");
    assert!(!metrics().contains("trunkline_host_reachable{"), "{}", metrics());
    // A client waits in its login, which the wait metrics do not tell.
    let mut waiter = pooler.knock();
    waiter.send(&tests::message::startup(0, &[("user", "u"), ("database", "failing_since")]));
    let mut other = pooler.knock();
    other.send(&tests::message::startup(0, &[("user", "u"), ("database", "failing_tcp")]));
    let tcp = format!("127.0.0.1:{closed}");
    for name in [&host, &tcp] {
        let told = format!("trunkline_host_reachable{{host=\"{name}\"}} 0.0");
        wait_until("the host to be unreachable", TOLD_MAX, || {
            state(name)["state"] == "unreachable" && metrics().lines().any(|line| line == told)
        });
        let row = state(name);
        assert!(row["last_error"].contains("connect failed"), "{row:?}");
        assert!(row["failed_logins"].parse::<u64>().is_ok_and(|failed| failed > 0), "{row:?}");
    }
    let socket = format!(".s.PGSQL.{port}");
    std::os::unix::fs::symlink(house.postgres.socket_directory().join(&socket), directory.join(&socket))
        .expect("a link");
    let told = format!("trunkline_host_reachable{{host=\"{host}\"}} 1.0");
    wait_until("the host to be reachable", TOLD_MAX, || {
        state(&host)["state"] == "reachable" && metrics().lines().any(|line| line == told)
    });
    let row = state(&host);
    assert!(row["last_error"].contains("connect failed") && row["since"] != "NULL", "{row:?}");
    // It answers whoever it refuses.
    assert!(try_login(&pooler, "u", "failing_since").is_ok());
    assert_eq!(state(&tcp)["state"], "unreachable");
}

/// What fails is told within this time.
pub(super) const TOLD_MAX: Duration = Duration::from_secs(2);

pub(crate) fn clients_beyond_max_client_conn_are_counted_in_the_sentence(house: &House) {
    let pooler = house.pooler("failing_full", &["max_client_conn = 2"]);
    let _all = [pooler.client("u", "failing_full")];
    let mut more = Vec::new();
    let wanted =
        ["of clients at failing_full/u failed in the last 10 s", "no more connections allowed (max_client_conn)"];
    let mut hold = || more.extend(try_login(&pooler, "u", "failing_full").ok());
    hold();
    // The console needs no place (`admin_users` come in beyond the limit).
    (0..3).for_each(|_| hold());
    await_cause(&pooler, &wanted, hold);
}

pub(crate) fn an_expired_certificate_of_ours_is_named(house: &House) {
    house.postgres.database("failing_tls");
    let authority = Authority::new("an authority");
    let files = authority.signs_expired("pooler", &["localhost", "127.0.0.1"]).files(&house.place);
    let ini = Ini::new(&house.line("failing_tls")).set("client_tls_sslmode = allow");
    let ini = ini.set(&format!("client_tls_cert_file = {}", files.certificate.display()));
    let pooler = house.start(&ini.set(&format!("client_tls_key_file = {}", files.key.display())));
    let ca = authority.file(&house.place);
    let wanted = ["failed in the last 10 s", "TLS handshake error", "xpired"];
    await_cause(&pooler, &wanted, || {
        let mut command = psql(&pooler, "u", "failing_tls");
        command.env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", &ca);
        run(command.args(["-c", "select 1"]), LIMIT).failure();
    });
}

pub(crate) fn lost_servers_are_told_although_they_are_replaced(house: &House) {
    let pooler = house.pooler("failing_lost", &[]);
    let mut clients: Vec<Client> = (0..3).map(|_| pooler.client("u", "failing_lost")).collect();
    clients.iter_mut().for_each(|client| client.run("begin"));
    let pids: Vec<String> = clients.iter_mut().map(Client::server_pid).collect();
    pids.iter().for_each(|pid| house.postgres.terminate(pid));
    await_cause(&pooler, &["3 servers of failing_lost/u were lost in the last 10 s"], || ());
    pooler.client("u", "failing_lost").run("select 1");
    assert!(!sentence(&pooler).contains("All is well"), "{}", sentence(&pooler));
}

pub(crate) fn an_application_whose_every_query_fails_is_told_and_one_that_fails_now_and_then_is_not(house: &House) {
    let pooler = house.pooler("failing_sql", &[]);
    let mut client = pooler.client("u", "failing_sql");
    // A probe for a table of migrations, and then many queries that succeed.
    for _ in 0..3 {
        client.query("select * from no_such_table");
    }
    (0..200).for_each(|_| client.run("select 1"));
    std::thread::sleep(Duration::from_millis(1100));
    client.query("select * from no_such_table");
    (0..200).for_each(|_| client.run("select 1"));
    assert!(sentence(&pooler).starts_with("All is well"), "{}", sentence(&pooler));
    let mut broken = pooler.client("u", "failing_sql");
    let wanted = ["% of the queries of failing_sql fail (", "the last with SQLSTATE 42P01)"];
    await_cause(&pooler, &wanted, || {
        (0..50).for_each(|_| drop(broken.query("select * from no_such_table")));
    });
}

pub(crate) fn a_database_that_there_is_not_and_a_user_that_is_refused_are_named(house: &House) {
    let ini =
        house.ini("failing_names", &["auth_type = scram-sha-256"]).secret("asker", "asks").set("admin_users = asker");
    let pooler = house.start(&ini);
    let said = || {
        let ended =
            run(psql(&pooler, "asker", "pgbouncer").env("PGPASSWORD", "asks").args(["-c", "SHOW WAITS"]), LIMIT);
        ended.success()
    };
    let login = |user: &str, password: &str, database: &str| {
        run(psql(&pooler, user, database).env("PGPASSWORD", password).args(["-c", "select 1"]), LIMIT).failure()
    };
    let mut told = String::new();
    let is_said = try_wait_for(LIMIT, || {
        login("asker", "asks", "failing_typo");
        login("asker", "wrong", "failing_names");
        told = said();
        let wanted = [
            "at failing_typo/asker failed in the last 10 s: no such database: failing_typo",
            "SASL authentication failed",
        ];
        wanted.iter().all(|part| told.contains(part)).then_some(())
    });
    assert!(is_said.is_some(), "{told}");
}

pub(crate) fn a_wait_that_ends_with_errors_is_not_told_as_a_recovery(house: &House) {
    let settings = ["default_pool_size = 1", "log_pool_wait = 0.3", "query_wait_timeout = 1"];
    let pooler = house.pooler("failing_wait", &settings);
    let mut thinker = pooler.client("u", "failing_wait");
    thinker.run("begin");
    let mut waiter = pooler.client("u", "failing_wait");
    waiter.ask("select 1");
    assert!(waiter.answer().error().text.contains("query_wait_timeout"));
    await_cause(&pooler, &["1 client of failing_wait/u was disconnected", "query_wait_timeout"], || ());
    pooler.await_log("1 client failed with \"query_wait_timeout\": 1 client at most");
}
