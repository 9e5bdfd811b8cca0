//! Which of several hosts a database's servers are opened at: weights, zones, lag; and how they move when a host is back.

use tests::client::Client;
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::pooling::clusters::{await_primary, start};
use crate::pooling::hosts::{pair, port};

pub(crate) fn servers_are_spread_by_weight_and_the_own_zone_comes_first(house: &House) {
    house.postgres.database("spread");
    let port = house.postgres.port();
    let line = |name: &str, more: &str| format!("{name} = host=127.0.0.1,127.0.0.2 port={port} dbname=spread {more}");
    let ini = |zone: &str| {
        let ini = Ini::new(&line("weighted", "weights=3,1"));
        let ini = ini.database(&line("zoned", "zones=north,south load_balance_hosts=least-busy"));
        ini.set("pool_mode = transaction").set(&format!("zone = {zone}"))
    };
    let pooler = house.start(&ini("south"));
    assert_eq!(spread(&pooler, "weighted", 8), [6, 2]);
    assert_eq!(spread(&pooler, "zoned", 4), [0, 4]);
    // Another zone concerns the servers that are opened from now on.
    pooler.rewrite(&ini("north"));
    pooler.console("RELOAD");
    pooler.console("RECONNECT zoned");
    assert_eq!(spread(&pooler, "zoned", 3), [3, 0]);
    assert_eq!(pooler.console("SHOW DATABASES").named(1)["load_balance_hosts"], "round-robin");
}

pub(crate) fn wishes_that_make_no_sense_are_refused(house: &House) {
    for (line, words) in [
        ("host=a,b weights=1,2,3", "could not match 3 weights to 2 hosts"),
        ("host=a,b zones=x,y,z", "could not match 3 zones to 2 hosts"),
        ("host=a weights=1001", "invalid weights: 1001 (expected whole numbers from 0 to 1000, with commas)"),
        ("host=a max_lag=1MB", "max_lag= and max_lag_time= need cluster="),
        ("host=a when_no_replica=refuse", "when_no_replica= needs role=replica or target_session_attrs=standby"),
        ("host=a load_balance_hosts=least", "invalid load_balance_hosts: least"),
    ] {
        let (code, said) = Pooler::start_in_vain(&house.place, &Ini::new(&format!("d = {line}")));
        assert!(code != 0 && said.contains(words), "{line}: {said}");
    }
}

pub(crate) fn a_replica_that_is_behind_is_left_until_it_has_caught_up(house: &House) {
    let (one, two) = pair(house);
    let pooler = start(house, &[&one, &two], "check_interval=0.2", |ini| {
        let line = |name: &str, more: &str| format!("{name} = cluster=main role=replica dbname=postgres {more}");
        let ini = ini.database(&line("any", "")).database(&line("waits", "max_lag=1MB"));
        let ini = ini.database(&line("goes", "max_lag=1MB when_no_replica=primary"));
        ini.database(&line("refused", "max_lag=1MB when_no_replica=refuse")).database(&line("late", "max_lag_time=0.5"))
    });
    await_primary(&pooler, &one);
    let client = |name: &str| pooler.client("u", name);
    let (mut any, mut waits, mut goes) = (client("any"), client("waits"), client("goes"));
    let (mut refused, mut late, mut open) = (client("refused"), client("late"), client("waits"));
    for client in [&mut any, &mut waits, &mut goes, &mut refused, &mut late] {
        assert_eq!(port(client), two.port());
    }
    open.run("begin");
    assert_eq!(port(&mut open), two.port());
    two.query("select pg_wal_replay_pause()");
    one.query("create table much as select n, repeat('x', 100) from generate_series(1, 30000) n");
    pooler.await_log("behind: databases with max_lag=1MB do not read there");
    pooler.await_log("behind: databases with max_lag_time=0.5 do not read there");
    let shown = |column: &str| {
        let hosts = pooler.console("SHOW HOSTS");
        let rows = (0..hosts.rows.len()).map(|at| hosts.named(at));
        let port = two.port().to_string();
        rows.filter(|row| row["host"].ends_with(&port)).map(|row| row[column].clone()).collect::<String>()
    };
    let exceeds = |column: &str, least: u64| shown(column).parse::<u64>().is_ok_and(|lag| lag > least);
    wait_until("it is known how far it is behind", LIMIT, || exceeds("lag", 1 << 20) && exceeds("lag_us", 500_000));
    assert_eq!(shown("in_rotation"), "no");
    // A transaction goes on where it is.
    assert_eq!(port(&mut open), two.port());
    open.run("commit");
    assert_eq!((port(&mut any), port(&mut goes)), (two.port(), one.port()));
    let answer = refused.query("select 1");
    let error = answer.error();
    assert_eq!((&*error.code, &*error.text), ("57P03", "no replica of database \"refused\" can be used"));
    let refusal = Client::try_login(pooler.address(), &[("user", "u"), ("database", "refused")])
        .map(|mut client| client.query("select 1"));
    let code = refusal.map_or_else(|refusal| refusal.code, |answer| answer.error().code.clone());
    assert_eq!(code, "57P03", "newcomers too");
    for client in [&mut waits, &mut late, &mut open] {
        client.ask("select inet_server_port()");
    }
    pooler.await_pool("waits", "cl_waiting", "2");
    pooler.await_pool("late", "cl_waiting", "1");
    two.query("select pg_wal_replay_resume()");
    for client in [&mut waits, &mut late, &mut open] {
        assert_eq!(client.answer_within(LIMIT).value(), two.port().to_string());
    }
    pooler.await_log("is near enough: databases with max_lag=1MB read there again");
    assert_eq!(port(&mut client("refused")), two.port());
    assert_eq!(shown("in_rotation"), "yes");
}

pub(crate) fn servers_return_to_a_standby_that_is_back(house: &House) {
    let (one, mut two) = pair(house);
    let hosts = format!("host=127.0.0.1,127.0.0.1 port={},{}", one.port(), two.port());
    let pooler = start(house, &[&one, &two], "check_interval=0.2", |ini| {
        let line = "dbname=postgres target_session_attrs=prefer-standby";
        let ini = ini.database(&format!("soft = cluster=main {line}")).database(&format!("list = {hosts} {line}"));
        ini.set("server_login_retry = 1")
    });
    await_primary(&pooler, &one);
    let clients = |count| -> Vec<Client> {
        ["soft", "list"].iter().flat_map(|name| (0..count).map(|_| pooler.client("u", name))).collect()
    };
    let mut clients = clients(4);
    // Each has a server of its own.
    let begin = |clients: &mut Vec<Client>| clients.iter_mut().for_each(|client| client.run("begin"));
    begin(&mut clients);
    clients.iter_mut().for_each(|client| assert_eq!(port(client), two.port()));
    clients.iter_mut().for_each(|client| client.run("commit"));
    two.crash();
    begin(&mut clients);
    clients.iter_mut().for_each(|client| assert_eq!(port(client), one.port(), "for want of a standby"));
    // One of each database stays in its transaction.
    let keeps = [0, 4];
    for (number, client) in clients.iter_mut().enumerate() {
        if !keeps.contains(&number) {
            client.run("commit");
        }
    }
    two.restart(&house.place);
    let at = |name: &str, port: u16| {
        let servers = pooler.console("SHOW SERVERS");
        let rows = (0..servers.rows.len()).map(|row| servers.named(row));
        rows.filter(|row| row["database"] == name && row["port"] == port.to_string()).count()
    };
    for name in ["soft", "list"] {
        wait_until("the idle servers are at the standby", LIMIT, || {
            (at(name, one.port()), at(name, two.port())) == (1, 3)
        });
    }
    for client in keeps.map(|number| clients[number].value("select inet_server_port()")) {
        assert_eq!(client, one.port().to_string(), "in a transaction");
    }
    let moved = pooler.log().matches("closing because: another host suits better").count();
    assert!((6..20).contains(&moved), "{moved} servers have moved");
}

/// At which of two addresses the servers of so many clients are, all of which are in a transaction.
fn spread(pooler: &Pooler, database: &str, clients: usize) -> [usize; 2] {
    let mut clients: Vec<_> = (0..clients).map(|_| pooler.client("u", database)).collect();
    clients.iter_mut().for_each(|client| client.run("begin"));
    let addresses: Vec<_> = clients.iter_mut().map(address).collect();
    [1, 2].map(|last| addresses.iter().filter(|address| **address == format!("127.0.0.{last}")).count())
}

fn address(client: &mut Client) -> String {
    client.value("select inet_server_addr()")
}
