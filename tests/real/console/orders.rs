//! Commands of an administrator on the console: each is answered when it has been carried out, and affects no client that it
//! does not concern.

use nix::sys::signal::Signal;
use tests::client::{Answer, Client};
use tests::pooler::Pooler;
use tests::program::{psql, run};
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

fn order(pooler: &Pooler, command: &str) {
    let verb = command.split(' ').next().unwrap_or_default();
    assert_eq!(pooler.console(command).tags, [verb], "{command}");
}

fn refusal(answer: &Answer) -> (&str, &str) {
    (&answer.error().code, &answer.error().text)
}

fn admin(pooler: &Pooler) -> Client {
    pooler.client("admin", "pgbouncer")
}

fn state(pooler: &Pooler) -> String {
    let cells = pooler.console("SHOW STATE").rows.into_iter().flatten().flatten();
    cells.collect::<Vec<_>>().join(" ")
}

/// The procedure for moving a database: PAUSE returns when no query runs, and everything goes on after RESUME.
pub(crate) fn a_pause_waits_for_transactions_and_a_resume_serves_who_waited(house: &House) {
    let pooler = house.pooler("order_pause", &["default_pool_size = 3"]);
    let [mut busy, mut other] = [pooler.client("u", "order_pause"), pooler.client("u", "order_pause")];
    busy.run("begin");
    let mut console = admin(&pooler);
    console.ask("PAUSE");
    wait_until("the pause is in force", LIMIT, || state(&pooler) == "active no paused yes suspended no");
    other.ask("select 7");
    pooler.await_pool("order_pause", "cl_waiting", "1");
    assert_eq!(busy.value("select 1"), "1");
    busy.run("commit");
    assert_eq!(console.answer().tags, ["PAUSE"]);
    house.postgres.await_servers("order_pause", 0);
    pooler.await_log("closing because: pause mode (age=");
    // A new client logs in, because the server parameters are known, and then waits.
    let mut newcomer = pooler.client("u", "order_pause");
    newcomer.ask("select 8");
    pooler.await_pool("order_pause", "cl_waiting", "2");
    assert_eq!(refusal(&pooler.console("PAUSE")), ("08P01", "already suspended/paused"));
    order(&pooler, "RESUME");
    assert_eq!((other.answer().value(), newcomer.answer().value()), ("7".to_owned(), "8".to_owned()));
    assert_eq!(refusal(&pooler.console("RESUME")), ("08P01", "pooler is not paused/suspended"));
}

pub(crate) fn a_pause_of_one_database_leaves_the_others_alone(house: &House) {
    house.postgres.database("order_free");
    let ini = house.ini("order_held", &["min_pool_size = 2"]).database(&house.line("order_free"));
    let pooler = house.start(&ini);
    let [mut held, mut free] = [pooler.client("u", "order_held"), pooler.client("u", "order_free")];
    house.postgres.await_servers("order_held", 2);
    order(&pooler, "PAUSE order_held");
    held.ask("select 1");
    pooler.await_pool("order_held", "cl_waiting", "1");
    assert_eq!(free.value("select 2"), "2");
    house.postgres.await_servers("order_held", 0);
    let paused = |name: &str| {
        let rows = pooler.console("SHOW DATABASES");
        let row = (0..rows.rows.len()).map(|row| rows.named(row)).find(|row| row["name"] == name);
        row.expect("a row")["paused"].clone()
    };
    assert_eq!((paused("order_held"), paused("order_free")), ("1".to_owned(), "0".to_owned()));
    // Neither a reload nor a user without a pool changes that.
    order(&pooler, "RELOAD");
    let mut stranger =
        Client::try_login(pooler.address(), &[("user", "v"), ("database", "order_free")]).expect("let in");
    assert_eq!(stranger.value("select 3"), "3");
    assert_eq!(pooler.pool("order_held", "u")["cl_waiting"], "1");
    order(&pooler, "RESUME order_held");
    assert_eq!(held.answer().value(), "1");
}

pub(crate) fn a_pause_for_some_seconds_ends_although_its_console_died(house: &House) {
    let pooler = house.pooler("order_timed", &[]);
    let mut client = pooler.client("u", "order_timed");
    client.run("select 1");
    let until = || pooler.console("SHOW DATABASES EXTENDED").named(0)["paused_until"].clone();
    assert_eq!(until(), "NULL");
    let mut console = admin(&pooler);
    console.run("PAUSE order_timed FOR 4 SECONDS");
    // The console's machine is gone.
    drop(console);
    assert_ne!(until(), "NULL");
    assert_eq!(pooler.console("SHOW DATABASES").named(0)["paused"], "1");
    client.ask("select 2");
    pooler.await_pool("order_timed", "cl_waiting", "1");
    assert_eq!(client.answer().value(), "2");
    pooler.await_log("the time of PAUSE 'order_timed' FOR 4 SECONDS is over, doing RESUME 'order_timed'");
    let told = pooler.console("SHOW DATABASES EXTENDED").named(0);
    assert_eq!((&*told["paused"], &*told["paused_until"]), ("0", "NULL"));
    for (command, text) in [
        ("PAUSE order_timed FOR 0", "PAUSE cannot last \"0\""),
        ("PAUSE FOR -3", "PAUSE cannot last \"-3\""),
        ("PAUSE order_timed FOR ever", "PAUSE cannot last \"ever\""),
    ] {
        assert_eq!(refusal(&pooler.console(command)), ("22023", text));
    }
    // A transaction lasts longer than the pause of everything: the console hears that the pause was never complete.
    client.run("begin");
    assert_eq!(refusal(&pooler.console("PAUSE FOR 1")), ("57014", "PAUSE was ended by its time"));
    client.run("commit");
}

pub(crate) fn control_c_takes_a_pause_back(house: &House) {
    let pooler = house.pooler("order_cancel", &[]);
    let mut busy = pooler.client("u", "order_cancel");
    busy.run("begin");
    let mut console = admin(&pooler);
    console.ask("PAUSE");
    wait_until("the pause is in force", LIMIT, || state(&pooler).contains("paused yes"));
    console.cancel();
    assert_eq!(refusal(&console.answer()), ("57014", "canceling statement due to user request"));
    assert_eq!(pooler.client("u", "order_cancel").value("select 1"), "1");
    busy.run("commit");
}

pub(crate) fn a_reconnect_replaces_servers_as_they_come_back(house: &House) {
    let pooler = house.pooler("order_renew", &[]);
    let [mut busy, mut idle] = [pooler.client("u", "order_renew"), pooler.client("u", "order_renew")];
    busy.run("begin");
    let (old, spare) = (busy.server_pid(), idle.server_pid());
    order(&pooler, "RECONNECT order_renew");
    let mut console = admin(&pooler);
    console.ask("WAIT_CLOSE order_renew");
    assert_ne!(idle.server_pid(), spare);
    assert_eq!(busy.server_pid(), old);
    busy.run("commit");
    assert_eq!(console.answer().tags, ["WAIT_CLOSE"]);
    assert_ne!(busy.server_pid(), old);
    // No server is left to wait for.
    order(&pooler, "WAIT_CLOSE");
}

pub(crate) fn a_kill_sends_everybody_away_and_keeps_them_out_until_resume(house: &House) {
    house.postgres.database("order_spared");
    let ini = house.ini("order_killed", &[]).database(&house.line("order_spared"));
    let pooler = house.start(&ini);
    let [mut busy, mut idle] = [pooler.client("u", "order_killed"), pooler.client("u", "order_killed")];
    let mut spared = pooler.client("u", "order_spared");
    busy.run("begin");
    order(&pooler, "KILL order_killed");
    for client in [&mut busy, &mut idle] {
        let answer = client.answer();
        assert_eq!(refusal(&answer), ("08P01", "database removed"));
        assert!(answer.error().detail.contains("(KILL)"), "it was not removed: {answer:?}");
    }
    pooler.await_log("pooler error: database removed (An operator has closed all connections to this database (KILL)");
    house.postgres.await_servers("order_killed", 0);
    assert_eq!(spared.value("select 1"), "1");
    order(&pooler, "RESUME order_killed");
    assert_eq!(pooler.client("u", "order_killed").value("select 2"), "2");
}

pub(crate) fn a_client_is_killed_by_its_number(house: &House) {
    let pooler = house.pooler("order_one", &[]);
    let [mut one, mut two] = [pooler.client("u", "order_one"), pooler.client("u", "order_one")];
    one.run("set application_name = 'victim'");
    let clients = pooler.console("SHOW CLIENTS");
    let rows = (0..clients.rows.len()).map(|row| clients.named(row));
    let id = rows.into_iter().find(|row| row["application_name"] == "victim").expect("a row")["id"].clone();
    order(&pooler, &format!("KILL_CLIENT {id}"));
    assert_eq!(refusal(&one.answer()), ("08P01", "admin forced disconnect"));
    assert_eq!(two.value("select 1"), "1");
    assert_eq!(refusal(&pooler.console(&format!("KILL_CLIENT {id}"))), ("08P01", "client not found"));
}

pub(crate) fn a_disabled_database_keeps_its_clients_and_lets_nobody_in(house: &House) {
    let pooler = house.pooler("order_shut", &[]);
    let mut inside = pooler.client("u", "order_shut");
    order(&pooler, "DISABLE order_shut");
    let refused = Client::try_login(pooler.address(), &[("user", "u"), ("database", "order_shut")]).map(|_| ());
    assert_eq!(refused.expect_err("let in").text, "database \"order_shut\" is disabled");
    assert_eq!(inside.value("select 1"), "1");
    order(&pooler, "ENABLE order_shut");
    pooler.client("u", "order_shut");
}

pub(crate) fn a_setting_holds_until_the_next_reload(house: &House) {
    let pooler = house.pooler("order_set", &["query_wait_timeout = 100"]);
    let shown = |key: &str| {
        let rows = pooler.console("SHOW CONFIG").rows;
        rows.into_iter().find(|row| row[0].as_deref() == Some(key)).and_then(|row| row[1].clone())
    };
    assert_eq!(pooler.console("SET query_wait_timeout = 7").tags, ["SET query_wait_timeout=7"]);
    assert_eq!(pooler.console("SET auth_dbname TO 'asker'").tags, ["SET auth_dbname=asker"]);
    assert_eq!(shown("query_wait_timeout").as_deref(), Some("7"));
    order(&pooler, "RELOAD");
    assert_eq!(shown("query_wait_timeout").as_deref(), Some("100"));
    // As in PgBouncer, a setting without a default keeps its value.
    assert_eq!(shown("auth_dbname").as_deref(), Some("asker"));
    let answer = pooler.console("SET query_wait_timeout = soon");
    assert_eq!(refusal(&answer), ("08P01", "SET failed"));
    pooler.await_log("invalid value \"soon\" for parameter query_wait_timeout");
}

pub(crate) fn the_signals_of_a_pause_are_heard(house: &House) {
    let pooler = house.pooler("order_signal", &[]);
    let mut client = pooler.client("u", "order_signal");
    client.run("select 1");
    pooler.signal(Signal::SIGUSR1);
    pooler.await_log("got SIGUSR1, pausing all activity");
    house.postgres.await_servers("order_signal", 0);
    client.ask("select 2");
    pooler.await_pool("order_signal", "cl_waiting", "1");
    pooler.signal(Signal::SIGUSR2);
    assert_eq!(client.answer().value(), "2");
    pooler.await_log("got SIGUSR2, continuing from PAUSE");
}

/// A session on an obsolete server ends at once if the setting says so; a session inside a transaction ends after it.
pub(crate) fn server_fast_close_ends_sessions_outside_of_transactions(house: &House) {
    let pooler = house.pooler("order_fast", &["pool_mode = session", "server_fast_close = 1"]);
    let [mut idle, mut busy] = [pooler.client("u", "order_fast"), pooler.client("u", "order_fast")];
    idle.run("select 1");
    busy.run("begin");
    order(&pooler, "RECONNECT order_fast");
    let answer = idle.answer();
    assert_eq!(refusal(&answer), ("08P01", "database configuration changed"));
    assert!(answer.error().detail.contains("(RECONNECT)"), "no configuration has changed: {answer:?}");
    assert_eq!(busy.value("select 1"), "1");
    let last = busy.query("commit");
    assert_eq!(last.tags, ["COMMIT"]);
    assert_eq!(refusal(&busy.answer()), ("08P01", "database configuration changed"));
}

pub(crate) fn a_pool_that_nobody_uses_is_forgotten(house: &House) {
    let settings = ["pool_idle_timeout = 1", "server_idle_timeout = 1"];
    let pooler = house.pooler("order_unused", &settings);
    drop(pooler.client("u", "order_unused"));
    pooler.await_log("cleaning up idle pool for user u on db order_unused because: pool idle timeout (age= ");
    let pools = pooler.console("SHOW POOLS").rows;
    assert!(pools.iter().all(|row| row[0].as_deref() == Some("pgbouncer")), "{pools:?}");
    assert_eq!(pooler.client("u", "order_unused").value("select 1"), "1");
}

pub(crate) fn an_operator_may_greet_clients(house: &House) {
    let pooler = house.pooler("order_greet", &["login_notify_message = be welcome"]);
    let said = run(psql(&pooler, "u", "order_greet").args(["-c", "select 1"]), LIMIT);
    assert!(said.err.contains("NOTICE:  be welcome"), "{said:?}");
    assert_eq!(said.success(), "1\n");
}

pub(crate) fn who_only_looks_counts_at_the_console_and_an_admin_does_not(house: &House) {
    let settings = ["max_user_client_connections = 1", "max_db_client_connections = 1"];
    let pooler = house.pooler("order_full", &settings);
    let enter = |user: &str| Client::try_login(pooler.address(), &[("user", user), ("database", "pgbouncer")]);
    let _watcher = enter("stats").expect("let in");
    let error = enter("stats").map(|_| ()).expect_err("one too many");
    assert_eq!(error.text, "client connections exceeded (max_user_client_connections)");
    let _admins = [enter("admin").expect("let in"), enter("admin").expect("let in")];
}
