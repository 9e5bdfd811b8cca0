//! Databases with several hosts: which one is used, and what clients notice when a host fails, comes back or changes its role.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use tests::client::Client;
use tests::nameserver::NameServer;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

pub(crate) fn writes_follow_the_primary_and_reads_its_standby(house: &House) {
    let (mut one, two) = pair(house);
    let hosts = hosts(&[&one, &two]);
    let pooler = start(
        house,
        &[
            format!("rw = {hosts} target_session_attrs=read-write"),
            format!("ro = {hosts} target_session_attrs=standby"),
            format!("any = {hosts} target_session_attrs=prefer-standby"),
            format!("alone = {} target_session_attrs=prefer-standby", self::hosts(&[&one])),
        ],
    );
    let mut clients: Vec<_> = (0..20).map(|_| pooler.client("u", "rw")).collect();
    for client in &mut clients {
        assert_eq!(port(client), one.port(), "the primary");
    }
    let mut reader = pooler.client("u", "ro");
    assert_eq!(port(&mut reader), two.port());
    assert_eq!(port(&mut pooler.client("u", "any")), two.port());
    assert_eq!(port(&mut pooler.client("u", "alone")), one.port(), "for want of a standby");
    clients[0].run("create table ledger (who int, number int)");
    wait_until("the table is there", LIMIT, || two.value("select to_regclass('ledger') is not null") == "t");
    // What the hosts are is known, and shown.
    let roles = roles(&pooler);
    assert_eq!(roles, [(one.port(), "primary".to_owned()), (two.port(), "standby".to_owned())], "{roles:?}");
    // The primary crashes while clients are connected and have no transaction; another takes over while they wait.
    one.crash();
    let writers: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(who, mut client)| thread::spawn(move || (client.query(&write(who)).errors, client)))
        .collect();
    pooler.await_pool("rw", "cl_waiting", "20");
    two.promote();
    for writer in writers {
        let (errors, mut client) = writer.join().expect("a client");
        assert!(errors.is_empty(), "{errors:?}\n{}", pooler.log());
        assert_eq!(port(&mut client), two.port());
    }
    assert_eq!(two.value("select count(*) from ledger"), "20");
    let reports = one.major() >= 14;
    if reports {
        // The reader's server reports with its next answer that it is no standby any more, and no other host is one.
        reader.run("select 1");
        pooler.await_log("replacing the servers at this host: server is not in hot standby mode");
        reader.ask("select inet_server_port()");
        pooler.await_pool("ro", "cl_waiting", "1");
    }
    // The former primary comes back as a standby, and is read from; writers do not notice.
    let one = one.follow(&two, &house.place);
    if reports {
        assert_eq!(port_of(&reader.answer_within(LIMIT).value()), one.port());
    }
    for _ in 0..5 {
        assert_eq!(port(&mut pooler.client("u", "rw")), two.port());
    }
    if !reports {
        return;
    }
    pooler.await_log(&format!("host 127.0.0.1:{} is standby now (was primary)", one.port()));
    let changes = || {
        let told = pooler.console("SHOW EVENTS").rows.into_iter().map(|row| format!("{row:?}"));
        told.filter(|row| row.contains("host_role")).collect::<Vec<_>>()
    };
    wait_until("both changes are events", LIMIT, || changes().len() == 2);
    assert!(changes()[0].contains("primary (was standby)"), "{:?}", changes());
}

pub(crate) fn a_primary_that_is_made_read_only_is_left_and_taken_again(house: &House) {
    if house.is_older_than(14, "the report of default_transaction_read_only") {
        return;
    }
    let one = Postgres::start(&house.place);
    let pooler = start(house, &[format!("rw = {} target_session_attrs=read-write", hosts(&[&one]))]);
    let mut client = pooler.client("u", "rw");
    client.run("create table ledger (who int, number int)");
    let set = |value: &str| {
        let mut admin = one.client("postgres");
        admin.run("set default_transaction_read_only = off");
        admin.run(&format!("alter system set default_transaction_read_only = {value}"));
        admin.run("select pg_reload_conf()");
    };
    set("on");
    // An idle server reports nothing: PostgreSQL waits for the end of the next answer.
    wait_until("a write is refused", LIMIT, || {
        client.query(&write(1)).errors.first().is_some_and(|error| error.code == "25006")
    });
    pooler.await_log("replacing the servers at this host: session is read-only");
    client.ask(&write(1));
    pooler.await_pool("rw", "cl_waiting", "1");
    pooler.await_log("no host of the database fits target_session_attrs: session is read-only");
    assert!(!client.peer.has_bytes(), "it is not sent to a host that would refuse it");
    set("off");
    assert!(client.answer_within(LIMIT).errors.is_empty());
    // A client's own read-only session says nothing about the host.
    client.run("set session characteristics as transaction read only");
    assert_eq!(client.query(&write(2)).error().code, "25006");
    client.run("set session characteristics as transaction read write");
    client.run(&write(3));
    assert_eq!(pooler.log().matches("replacing the servers at this host").count(), 1);
}

pub(crate) fn a_restart_of_a_second_is_a_wait_of_about_a_second(house: &House) {
    let mut one = Postgres::start(&house.place);
    let lines = ["a", "b"].map(|name| format!("{name} = host=127.0.0.1 port={} dbname=postgres", one.port()));
    let pooler = start(house, &lines);
    let (mut before, mut other) = (pooler.client("u", "a"), pooler.client("u", "b"));
    before.run("select 1");
    other.run("select 1");
    one.crash();
    for client in [&mut before, &mut other] {
        client.ask("select 1");
    }
    let failed = |pooler: &Pooler| field(pooler, one.port(), "failed_logins").parse::<u32>().expect("a number");
    wait_until("the host is tried again and again", LIMIT, || failed(&pooler) >= 4);
    let lines = pooler.log().matches("connect failed: Connection refused").count();
    assert!((1..=2).contains(&lines), "one line for each worker, not for each attempt: {lines}");
    // Who comes now waits with them: the host may be restarting.
    let mut late = pooler.client("u", "a");
    late.ask("select 1");
    one.restart(&house.place);
    let begun = Instant::now();
    for client in [&mut before, &mut other, &mut late] {
        assert_eq!(client.answer_within(LIMIT).errors, []);
    }
    // `server_login_retry` is 15 seconds.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    pooler.await_log("the host answers logins again, after ");
    // What happens to the servers from now on is logged as always.
    pooler.console("RECONNECT a");
    pooler.await_log("closing because: database configuration changed");
}

pub(crate) fn a_dead_host_is_not_waited_for_while_another_lives(house: &House) {
    house.postgres.database("alive");
    // Nobody listens at one port; at the other, connections are accepted and never answered.
    let (dead, silent) = (free_port(), TcpListener::bind(("127.0.0.1", 0)).expect("a port"));
    let silent_port = silent.local_addr().expect("an address").port();
    let lines = ["round-robin", "disable"].map(|way| {
        let name = way.replace('-', "_");
        let live = house.postgres.port();
        format!("{name} = host=127.0.0.1,127.0.0.2 port={dead},{live} dbname=alive load_balance_hosts={way}")
    });
    let pooler = start(house, &lines);
    for name in ["round_robin", "disable"] {
        let begun = Instant::now();
        let mut clients: Vec<_> = (0..5).map(|_| pooler.client("u", name)).collect();
        for client in &mut clients {
            client.run("begin");
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{name}: {:?}", begun.elapsed());
    }
    let events = pooler.console("SHOW EVENTS").rows;
    let down: Vec<_> = events.iter().filter(|row| row.iter().flatten().any(|cell| cell == "host_down")).collect();
    assert_eq!(down.len(), 1, "of two databases and many dials: {events:?}");
    let state = |port| field(&pooler, port, "state");
    assert_eq!((state(dead).as_str(), state(house.postgres.port()).as_str()), ("unreachable", "reachable"));
    // A host that accepts and says nothing holds up the clients of its own pool until `server_connect_timeout`, once.
    let live = house.postgres.port();
    let line = format!("mute = host=127.0.0.1,127.0.0.1 port={silent_port},{live} dbname=alive");
    let pooler = house.start(&Ini::new(&line).set("pool_mode = transaction").set("server_connect_timeout = 1"));
    let mut clients: Vec<_> = (0..5).map(|_| pooler.client("u", "mute")).collect();
    clients.iter_mut().for_each(|client| client.run("begin"));
    assert_eq!(field(&pooler, silent_port, "failed_logins"), "1");
}

pub(crate) fn a_name_that_has_moved_is_looked_up_when_a_standby_refuses_a_write(house: &House) {
    if house.is_older_than(14, "the report of in_hot_standby") {
        return;
    }
    let one = Postgres::start(&house.place);
    let two = one.standby(&house.place);
    // Both listen on the same port, at an address of their own: the name leads to the standby first, as when a service moves too late.
    let server = NameServer::open();
    server.name("db.shop.test", &["127.0.0.2"], 3600);
    let file = house.place.directory().join("resolv.conf");
    house.place.write(&file, &server.line());
    let line = format!("app = host=db.shop.test port={} dbname=postgres", two.port());
    let ini = Ini::new(&line).set("pool_mode = transaction").set("dns_max_ttl = 3600");
    let pooler = house.start(&ini.set(&format!("resolv_conf = {}", file.display())));
    let mut client = pooler.client("u", "app");
    assert_eq!(client.value("select host(inet_server_addr())"), "127.0.0.2");
    let pid = client.server_pid();
    server.name("db.shop.test", &["127.0.0.1"], 3600);
    assert_eq!(client.query("create table t (a int)").error().code, "25006");
    pooler.await_log("db.shop.test has other addresses now, replacing 1 server at an old address");
    assert_eq!(client.value("select host(inet_server_addr())"), "127.0.0.1", "dns_max_ttl is an hour");
    assert_ne!(client.server_pid(), pid);
    // A standby that is meant to be one keeps its servers, whoever writes there.
    let pid = client.server_pid();
    for _ in 0..5 {
        assert_eq!(client.query("create table t (a int)").error().code, "25006");
    }
    assert_eq!(client.server_pid(), pid);
}

pub(crate) fn a_promoted_standby_is_not_taken_from_a_client_in_the_middle(house: &House) {
    if house.is_older_than(14, "the report of in_hot_standby") {
        return;
    }
    let (one, two) = pair(house);
    let pooler = start(house, &[format!("any = {} target_session_attrs=prefer-standby", hosts(&[&two, &one]))]);
    let mut client = pooler.client("u", "any");
    client.run("begin");
    assert_eq!(port(&mut client), two.port());
    two.promote();
    // The report comes with this answer. A host that nobody has asked might be a standby, but the transaction goes on.
    assert_eq!(port(&mut client), two.port());
    client.run("commit");
    pooler.await_log("replacing the servers at this host: server is not in hot standby mode");
    // There is no standby left, and both hosts do as well.
    client.run("select 1");
    client.run("select 1");
}

pub(crate) fn the_check_of_an_idle_server_shows_that_its_host_was_promoted(house: &House) {
    if house.is_older_than(14, "the report of in_hot_standby") {
        return;
    }
    let (one, two) = pair(house);
    let line = format!("ro = {} target_session_attrs=standby", hosts(&[&one, &two]));
    let pooler = house.start(&Ini::new(&line).set("pool_mode = transaction").set("server_check_delay = 0"));
    let mut reader = pooler.client("u", "ro");
    assert_eq!(port(&mut reader), two.port());
    two.promote();
    // The report comes with the answer to the check, before the client has the server.
    reader.ask("select 1");
    pooler.await_log("replacing the servers at this host: server is not in hot standby mode");
    pooler.await_pool("ro", "cl_waiting", "1");
    assert!(!reader.peer.has_bytes(), "it is not lent a server of a primary");
}

pub(crate) fn a_host_that_refuses_a_login_does_not_keep_clients_from_the_others(house: &House) {
    house.postgres.database("only_here");
    let (elsewhere, here) = (house.secure.postgres.port(), house.postgres.port());
    let dead = free_port();
    let line = |name: &str, ports: &str, hosts: &str| format!("{name} = host={hosts} port={ports} dbname=only_here");
    let two = "127.0.0.1,127.0.0.1";
    let pooler = start(
        house,
        &[
            line("refused", &format!("{elsewhere},{here}"), two),
            line("both", &format!("{dead},{elsewhere},{here}"), &format!("{two},127.0.0.1")),
            line("nowhere", &format!("{dead},{elsewhere}"), two),
        ],
    );
    for name in ["refused", "both"] {
        assert_eq!(port(&mut pooler.client("u", name)), here, "{name}");
    }
    let refused =
        Client::try_login(pooler.address(), &[("user", "u"), ("database", "nowhere")]).expect_err("a refusal");
    assert_eq!(refused.code, "3D000", "{refused:?}");
}

pub(crate) fn a_reload_keeps_the_servers_of_the_hosts_that_stay(house: &House) {
    house.postgres.database("longer");
    let port = house.postgres.port();
    let line = |hosts: &str| format!("longer = host={hosts} port={port} dbname=longer");
    let ini = |hosts: &str| Ini::new(&line(hosts)).set("pool_mode = transaction").set("server_login_retry = 1");
    let pooler = house.start(&ini("127.0.0.1,127.0.0.2"));
    let mut clients: Vec<_> = (0..2).map(|_| pooler.client("u", "longer")).collect();
    clients.iter_mut().for_each(|client| client.run("begin"));
    let address = |client: &mut Client| client.value("select inet_server_addr()");
    let pids: Vec<_> = clients.iter_mut().map(|client| (address(client), client.server_pid())).collect();
    clients.iter_mut().for_each(|client| client.run("commit"));
    let at = |host: &str| pids.iter().find(|(at, _)| at == host).map(|(_, pid)| pid.clone()).expect("a server");
    // Longer, and in another order.
    pooler.rewrite(&ini("127.0.0.2,127.0.0.3,127.0.0.1"));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    clients.iter_mut().for_each(|client| client.run("begin"));
    let mut same: Vec<_> = clients.iter_mut().map(Client::server_pid).collect();
    same.sort();
    let mut before = vec![at("127.0.0.1"), at("127.0.0.2")];
    before.sort();
    assert_eq!(same, before);
    clients.iter_mut().for_each(|client| client.run("commit"));
    // Without one of them.
    pooler.rewrite(&ini("127.0.0.2"));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    clients.iter_mut().for_each(|client| client.run("begin"));
    let now: Vec<_> = clients.iter_mut().map(|client| (address(client), client.server_pid())).collect();
    assert!(now.iter().all(|(host, _)| host == "127.0.0.2") && now.iter().any(|(_, pid)| *pid == at("127.0.0.2")));
}

pub(crate) fn ports_and_attributes_that_make_no_sense_are_refused(house: &House) {
    for (line, words) in [
        ("host=a,b port=1,2,3", "could not match 3 port numbers to 2 hosts"),
        ("host=a port=1,2", "could not match 2 port numbers to 1 host"),
        ("host=a port=1,0", "invalid port: 0"),
        ("host=a target_session_attrs=primry", "invalid target_session_attrs: primry"),
    ] {
        let (code, said) = Pooler::start_in_vain(&house.place, &Ini::new(&format!("d = {line}")));
        assert!(code != 0 && said.contains(words), "{line}: {said}");
    }
}

/// A primary and its standby.
pub(super) fn pair(house: &House) -> (Postgres, Postgres) {
    let one = Postgres::start(&house.place);
    let two = one.standby(&house.place);
    (one, two)
}

fn hosts(of: &[&Postgres]) -> String {
    let names: Vec<_> = of.iter().map(|_| "127.0.0.1".to_owned()).collect();
    let ports: Vec<_> = of.iter().map(|postgres| postgres.port().to_string()).collect();
    format!("host={} port={} dbname=postgres", names.join(","), ports.join(","))
}

fn start(house: &House, lines: &[String]) -> Pooler {
    let ini = lines[1..].iter().fold(Ini::new(&lines[0]), |ini, line| ini.database(line));
    house.start(&ini.set("pool_mode = transaction"))
}

/// The port of the server that a client's next query reaches.
pub(super) fn port(client: &mut Client) -> u16 {
    port_of(&client.value("select inet_server_port()"))
}

fn port_of(value: &str) -> u16 {
    value.parse().expect("a port")
}

fn write(who: usize) -> String {
    format!("insert into ledger values ({who}, 1)")
}

/// The roles of the hosts, by their ports.
fn roles(pooler: &Pooler) -> Vec<(u16, String)> {
    let hosts = pooler.console("SHOW HOSTS");
    let row = |at| {
        let row = hosts.named(at);
        let port = row["host"].rsplit(':').next().map(port_of).expect("a port");
        (port, row["role"].clone())
    };
    let mut roles: Vec<_> = (0..hosts.rows.len()).map(row).collect();
    roles.sort_by_key(|(_, role)| role.clone());
    roles
}

/// A value of the row of `SHOW HOSTS` for this port.
fn field(pooler: &Pooler, port: u16, column: &str) -> String {
    let hosts = pooler.console("SHOW HOSTS");
    let rows: Vec<_> = (0..hosts.rows.len()).map(|at| hosts.named(at)).collect();
    let row = rows.iter().find(|row| row["host"].ends_with(&format!(":{port}"))).expect("a host");
    row[column].clone()
}

fn free_port() -> u16 {
    tests::place::free_port()
}
