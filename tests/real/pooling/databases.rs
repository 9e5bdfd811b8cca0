//! Databases that are dropped, renamed and copied through the pooler, as test frameworks do: no other session may be
//! connected to them.

use std::time::{Duration, Instant};

use tests::client::Client;
use tests::message::{bind, describe, execute, parse, query, sync};
use tests::pooler::{Ini, Pooler};
use tests::wait::wait_until;

use crate::house::House;

/// A pooler for `postgres` and for databases of these names, which may not exist yet; each also under a second name, which
/// may belong to another worker.
fn pooler(house: &House, names: &[&str], settings: &[&str]) -> Pooler {
    let ini = Ini::new(&house.line("postgres")).set("workers = 2").set("verbose = 1");
    let ini = settings.iter().fold(ini, |ini, setting| ini.set(setting));
    let ini = names.iter().fold(ini, |ini, name| ini.database(&house.line(name)));
    house.start(&names.iter().fold(ini, |ini, name| ini.database(&house.line_as(&format!("{name}_too"), name))))
}

/// Uses a database under both of its names, by two users with two clients each at the same time. Returns how many servers
/// stay.
fn use_up(house: &House, pooler: &Pooler, name: &str) -> usize {
    let names = [name.to_owned(), format!("{name}_too")];
    let whose = names.iter().flat_map(|name| ["u", "v", "u", "v"].map(|user| (user, name)));
    let mut clients: Vec<Client> = whose.map(|(user, name)| pooler.client(user, name)).collect();
    clients.iter_mut().for_each(|client| client.run("begin"));
    clients.iter_mut().for_each(|client| client.run("commit"));
    drop(clients);
    wait_until("nobody has a server", Duration::from_secs(10), || {
        let servers = pooler.console("show servers");
        let states = (0..servers.rows.len()).map(|row| servers.named(row));
        states.filter(|row| row["database"].starts_with(name)).all(|row| row["state"] == "idle")
    });
    house.postgres.servers(name)
}

/// Runs a statement that PostgreSQL refuses while a database is in use, and that succeeds without its wait of five seconds.
fn quickly(client: &mut Client, sql: &str) {
    let since = Instant::now();
    client.run(sql);
    let took = since.elapsed();
    assert!(took < Duration::from_secs(2), "{sql} took {took:?}");
}

pub(crate) fn what_is_idle_does_not_keep_a_database_in_use(house: &House) {
    let modes: [(&str, &[&str]); 3] =
        [("Follow", &[]), ("Session", &["pool_mode = session"]), ("Plain", &["session_state = pgbouncer"])];
    for (mode, settings) in modes {
        let [one, two] = [format!("databases_{mode}_1"), format!("databases_{mode}_2")];
        let pooler = pooler(house, &[&one, &two], settings);
        let mut boss = pooler.client("u", "postgres");
        // Frameworks do this at each run.
        for _ in 0..2 {
            quickly(&mut boss, &format!("create database \"{one}\""));
            assert_eq!(use_up(house, &pooler, &one), 8);
            quickly(&mut boss, &format!("/* test */ CREATE DATABASE \"{two}\" TEMPLATE \"{one}\""));
            use_up(house, &pooler, &two);
            quickly(&mut boss, &format!("drop database if exists \"{two}\";"));
            use_up(house, &pooler, &one);
            quickly(&mut boss, &format!("alter database \"{one}\" rename to \"{two}\""));
            use_up(house, &pooler, &two);
            let sql = format!("drop database \"{two}\"");
            let since = Instant::now();
            boss.peer.send(&[parse("d", &sql), describe(b'S', "d"), sync()].concat());
            assert!(boss.answer().errors.is_empty());
            boss.peer.send(&[bind("", "d", &[]), execute("", 0), sync()].concat());
            assert!(boss.answer().errors.is_empty() && since.elapsed() < Duration::from_secs(2));
            boss.run("deallocate d");
        }
        let log = pooler.log();
        for purpose in ["drop", "rename", "copy"] {
            assert!(log.contains(&format!("client wants to {purpose} it")), "{mode}, {purpose}:\n{log}");
        }
        assert!(log.contains("closing because: database needed by one client alone"), "{log}");
    }
}

pub(crate) fn servers_of_a_minimum_and_of_nobody_who_listens_leave_too(house: &House) {
    house.postgres.database("databases_min");
    let pooler = pooler(house, &["databases_min"], &["min_pool_size = 3"]);
    let mut boss = pooler.client("u", "postgres");
    let mut client = pooler.client("u", "databases_min");
    client.run("listen news");
    // Servers that are opened meanwhile for the minimum do not have the application name of the session that listens.
    house.postgres.await_servers("databases_min", 4);
    wait_until("one session listens for all", Duration::from_secs(20), || {
        let sql = "select count(*) from pg_stat_activity
                   where application_name = 'trunkline listens' and datname = 'databases_min'";
        house.postgres.value(sql) == "1" && pooler.console("show channels").rows.len() == 1
    });
    // A listening client uses the database.
    let since = Instant::now();
    assert_eq!(boss.query("drop database databases_min").error().code, "55006");
    assert!(since.elapsed() > Duration::from_secs(4));
    client.run("notify news");
    assert_eq!(client.heard(1), ["news "]);
    drop(client);
    wait_until("nobody listens", Duration::from_secs(10), || pooler.console("show channels").rows.is_empty());
    quickly(&mut boss, "drop database databases_min");
}

pub(crate) fn who_uses_a_database_keeps_its_server(house: &House) {
    house.postgres.database("databases_used");
    let pooler = pooler(house, &["databases_used"], &[]);
    let count = use_up(house, &pooler, "databases_used");
    let mut client = pooler.client("u", "databases_used");
    client.run("begin");
    let pid = client.server_pid();
    // A client without the right to do this gets the error at once, and no server is closed, whatever slow statement follows
    // it.
    let mut guest = pooler.client("admin", "postgres");
    for sql in ["drop database databases_used", "alter database databases_used rename to databases_taken"] {
        assert_eq!(guest.query(sql).error().code, "42501");
        guest.run("select pg_sleep(0.3)");
        guest.peer.send(&[query(sql), query("select pg_sleep(0.3)")].concat());
        assert_eq!(guest.answer().error().code, "42501");
        assert!(guest.answer().errors.is_empty());
    }
    assert_eq!(house.postgres.servers("databases_used"), count);
    let mut boss = pooler.client("u", "postgres");
    let since = Instant::now();
    let answer = boss.query("drop database databases_used");
    let complaint = answer.error();
    assert_eq!(complaint.code, "55006", "{complaint:?}");
    assert!(complaint.text.contains("is being accessed by other users"), "{complaint:?}");
    assert!(since.elapsed() > Duration::from_secs(4), "PostgreSQL waits for who uses it");
    assert_eq!(house.postgres.servers("databases_used"), 1);
    assert_eq!(client.server_pid(), pid);
    client.run("commit");
    quickly(&mut boss, "drop database databases_used");
}

/// A database that is created again under the same name is another one: nothing known about the old one applies to it.
pub(crate) fn a_database_that_is_made_again_is_another_one(house: &House) {
    let pooler = pooler(house, &["databases_new"], &["default_pool_size = 1"]);
    let define = |body: &str| {
        let mut direct = house.postgres.client("databases_new");
        direct.run(&format!("create function f() returns void language plpgsql as $$ begin {body}; end $$"));
    };
    let mut boss = pooler.client("u", "postgres");
    let failure = Client::try_login(pooler.address(), &[("user", "u"), ("database", "databases_new")]);
    assert_eq!(failure.expect_err("there is none yet").code, "3D000");
    boss.run("create database databases_new");
    define("null");
    // A login that failed is not remembered.
    let mut client = pooler.client("u", "databases_new");
    client.run("select f()");
    client.run("select f()");
    drop(client);
    quickly(&mut boss, "drop database databases_new");
    boss.run("create database databases_new");
    boss.run("alter database databases_new set TimeZone to 'Asia/Tokyo'");
    define("perform set_config('work_mem', '7MB', false)");
    let mut client = pooler.client("u", "databases_new");
    assert_eq!(client.parameters["TimeZone"], "Asia/Tokyo");
    let mut other = pooler.client("u", "databases_new");
    client.run("select f()");
    assert_eq!(other.value("show work_mem"), "4MB");
    assert_eq!(client.value("show work_mem"), "7MB");
    drop((client, other));
    quickly(&mut boss, "drop database databases_new");
}
