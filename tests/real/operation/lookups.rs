//! Host names: the pooler asks the test's own name servers over the network, as `resolv_conf` says.
//!
//! Always true: PostgreSQL listens on 127.0.0.1 and 127.0.0.2, so that a test can see to which address a name led.
//! Not here: names that the system resolves.

use std::path::{Path, PathBuf};

use tests::message;
use tests::nameserver::NameServer;
use tests::peer::Peer;
use tests::pooler::{Ini, Pooler};
use tests::runner::skip;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

/// A database at the host of this name, and a file that lists name servers.
fn ini(house: &House, database: &str, host: &str, resolv_conf: &str) -> (Ini, PathBuf) {
    house.postgres.database(database);
    let file = house.place.directory().join("resolv.conf");
    house.place.write(&file, resolv_conf);
    let line = format!("{database} = host={host} port={} dbname={database}", house.postgres.port());
    (Ini::new(&line).set(&format!("resolv_conf = {}", file.display())), file)
}

/// The address of the server that serves a new client.
fn seen_at(pooler: &Pooler, database: &str) -> String {
    pooler.client("u", database).value("select host(inet_server_addr())")
}

/// The rows of a table of the console, their cells separated by bars.
fn shown(pooler: &Pooler, subject: &str) -> Vec<String> {
    let cell = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let rows = pooler.console(&format!("SHOW {subject}")).rows;
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}

/// A client that waits for its login.
fn knock(pooler: &Pooler, database: &str) -> Peer {
    let mut peer = Peer::tcp(pooler.address()).expect("the pooler listens");
    peer.send(&message::startup(0, &[("user", "u"), ("database", database)]));
    peer
}

fn reload(house: &House, pooler: &Pooler, file: &Path, text: &str) -> bool {
    house.place.write(file, text);
    pooler.console("RELOAD").errors.is_empty()
}

pub(crate) fn names_are_asked_of_the_servers_of_resolv_conf(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be built without c-ares");
    }
    let server = NameServer::open();
    server.name("my_db.shop.test", &["127.0.0.2"], 40);
    server.name("other.shop.test", &["127.0.0.1"], 9000);
    let text = server.line() + "search nowhere.test shop.test\n";
    let (ini, _) = ini(house, "lookup_names", "my_db", &text);
    let line =
        |name: &str, host: &str| format!("{name} = host={host} port={} dbname=lookup_names", house.postgres.port());
    let ini = ini.database(&line("whole", "other.shop.test")).database(&line("nothing", "nothing"));
    for kernel in ["workers = 2", "io_backend = epoll"] {
        let pooler = house.start(&ini.clone().set("dns_max_ttl = 60").set("dns_nxdomain_ttl = 30").set(kernel));
        assert_eq!(seen_at(&pooler, "lookup_names"), "127.0.0.2");
        assert_eq!(seen_at(&pooler, "whole"), "127.0.0.1");
        let _waits = knock(&pooler, "nothing");
        pooler.await_log("DNS lookup failed: nothing: no such name");
        let rows = shown(&pooler, "DNS_HOSTS");
        let ttl = |row: usize| rows[row].split('|').nth(1).and_then(|secs| secs.parse::<u32>().ok()).expect("a number");
        assert!(rows[0].starts_with("my_db|") && rows[0].ends_with("|127.0.0.2"), "{rows:?}");
        assert!(rows[1].starts_with("nothing|") && rows[1].ends_with('|'), "{rows:?}");
        assert!(rows[2].starts_with("other.shop.test|") && rows[2].ends_with("|127.0.0.1"), "{rows:?}");
        // The TTL of the name server is used, within the bounds of the settings.
        assert!((20..=40).contains(&ttl(0)) && (10..=30).contains(&ttl(1)) && (41..=60).contains(&ttl(2)), "{rows:?}");
        assert_eq!(shown(&pooler, "DNS_ZONES"), ["shop.test|0|1"]);
    }
    let asked = server.asked();
    let was_asked = |question: &str| asked.iter().any(|asked| asked == question);
    for name in ["my_db.nowhere.test", "my_db.shop.test", "nothing.nowhere.test", "nothing", "other.shop.test"] {
        assert!(was_asked(&format!("{name} A")) && was_asked(&format!("{name} AAAA")), "{name} in {asked:?}");
    }
    assert!(!was_asked("my_db A") && !was_asked("shop.test SOA"), "{asked:?}");
}

pub(crate) fn a_zone_whose_serial_grows_is_looked_up_again_at_once(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be built without c-ares");
    }
    let server = NameServer::open();
    server.name("db.shop.test", &["127.0.0.1"], 3600);
    server.zone("shop.test", 7);
    let (ini, _) = ini(house, "lookup_zone", "db.shop.test", &server.line());
    let pooler = house.start(&ini.set("dns_max_ttl = 3600").set("dns_zone_check_period = 0.2"));
    assert_eq!(seen_at(&pooler, "lookup_zone"), "127.0.0.1");
    wait_until("the serial is known", LIMIT, || shown(&pooler, "DNS_ZONES") == ["shop.test|7|1"]);
    let of_zone = || server.asked().iter().filter(|asked| *asked == "shop.test SOA").count();
    let (questions, of_name) = (of_zone(), || server.asked().iter().filter(|asked| *asked == "db.shop.test A").count());
    wait_until("it is asked for again", LIMIT, || of_zone() > questions + 3);
    assert_eq!(of_name(), 2, "at first, and with the first serial: {:?}", server.asked());
    server.name("db.shop.test", &["127.0.0.2"], 3600);
    server.zone("shop.test", 8);
    pooler.await_log("zone 'shop.test' serial changed: old=7 new=8");
    pooler.await_log("db.shop.test has other addresses now, replacing 1 server at an old address");
    wait_until("queries go to the new address", LIMIT, || seen_at(&pooler, "lookup_zone") == "127.0.0.2");
    assert_eq!((of_name(), shown(&pooler, "DNS_ZONES")), (3, vec!["shop.test|8|1".to_owned()]));
    pooler.console("SET dns_zone_check_period = 0");
    server.zone("shop.test", 9);
    let questions = of_zone();
    assert_eq!(seen_at(&pooler, "lookup_zone"), "127.0.0.2");
    assert!(of_zone() <= questions + 1);
}

pub(crate) fn an_address_that_refuses_does_not_block_the_others_of_its_name(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer tries one address in each server_login_retry");
    }
    let server = NameServer::open();
    // Nobody listens on 127.0.0.3 and 127.0.0.4.
    server.name("half.shop.test", &["127.0.0.3", "127.0.0.4", "127.0.0.2"], 3600);
    server.name("both.shop.test", &["127.0.0.1", "127.0.0.2"], 3600);
    server.name("none.shop.test", &["127.0.0.3", "127.0.0.4"], 3600);
    let (ini, _) = ini(house, "lookup_half", "half.shop.test", &server.line());
    let line = |name: &str| {
        format!("{name} = host={name}.shop.test port={} dbname=lookup_half pool_size=2", house.postgres.port())
    };
    let ini = ini.database(&line("both")).database(&line("none")).set("dns_max_ttl = 3600");
    for kernel in ["workers = 2", "io_backend = epoll"] {
        let ini = ini.clone().set("server_login_retry = 600").set("query_wait_timeout = 2").set(kernel);
        let pooler = house.start(&ini);
        assert_eq!(seen_at(&pooler, "lookup_half"), "127.0.0.2");
        pooler.await_log("connect failed: Connection refused; 127.0.0.4 of half.shop.test is tried next");
        pooler.await_log("connect failed: Connection refused; 127.0.0.2 of half.shop.test is tried next");
        // From now on the addresses that refused are tried last.
        pooler.console("RECONNECT");
        assert_eq!(seen_at(&pooler, "lookup_half"), "127.0.0.2");
        assert_eq!(pooler.log().matches("connect failed").count(), 2);
        // The first server is at the first address, the second at the second.
        let (mut first, mut second) = (pooler.client("u", "both"), pooler.client("u", "both"));
        first.query("begin");
        second.query("begin");
        assert_eq!(first.value("select host(inet_server_addr())"), "127.0.0.1");
        assert_eq!(second.value("select host(inet_server_addr())"), "127.0.0.2");
        // If no address can be reached, the error names them all.
        let mut vain = knock(&pooler, "none");
        let error = vain.frame_within(LIMIT).expect("an error");
        let error = String::from_utf8_lossy(&error.body).into_owned();
        // The last attempt may have begun with the one or the other.
        for address in ["127.0.0.3 (Connection refused)", "127.0.0.4 (Connection refused)"] {
            assert!(error.contains(address), "{error}");
        }
        pooler.await_log("connect failed: 127.0.0.3 (Connection refused), 127.0.0.4 (Connection refused)");
    }
}

pub(crate) fn a_name_server_that_is_silent_is_passed_over(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be built without c-ares");
    }
    let (silent, server) = (NameServer::open(), NameServer::open());
    silent.be_silent();
    server.name("db.shop.test", &["127.0.0.2"], 60);
    let text = format!("{}{}options timeout:1\n", silent.line(), server.line());
    let (ini, file) = ini(house, "lookup_silent", "db.shop.test", &text);
    let gone = format!("gone = host=gone.shop.test port={} dbname=lookup_silent", house.postgres.port());
    let pooler = house.start(&ini.database(&gone));
    assert_eq!(seen_at(&pooler, "lookup_silent"), "127.0.0.2");
    assert!(silent.asked().contains(&"db.shop.test A".to_owned()));
    // Where the name server does not answer, no other name is tried.
    let text = format!("{}search other.test\noptions timeout:1 attempts:1\n", silent.line());
    assert!(reload(house, &pooler, &file, &text));
    let _waits = knock(&pooler, "gone");
    pooler.await_log("DNS lookup failed: gone.shop.test: no name server answers");
    let asked = silent.asked();
    assert!(asked.contains(&"gone.shop.test A".to_owned()), "{asked:?}");
    assert!(!asked.contains(&"gone.shop.test.other.test A".to_owned()), "{asked:?}");
}

pub(crate) fn a_file_of_name_servers_that_is_wrong_is_refused(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be built without c-ares");
    }
    let (first, second) = (NameServer::open(), NameServer::open());
    first.name("db.shop.test", &["127.0.0.1"], 0);
    second.name("db.shop.test", &["127.0.0.2"], 0);
    let (ini, file) = ini(house, "lookup_wrong", "db.shop.test", "nameserver 127.0.0\n");
    let (code, said) = Pooler::start_in_vain(&house.place, &ini);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("resolv.conf:1: nameserver 127.0.0: no address of a name server"), "{said}");
    house.place.write(&file, &first.line());
    let pooler = house.start(&ini);
    assert_eq!(seen_at(&pooler, "lookup_wrong"), "127.0.0.1");
    assert!(!reload(house, &pooler, &file, "\nnameservr 127.0.0.1\n"));
    pooler.await_log("resolv.conf:2: unknown word: nameservr; did you mean \"nameserver\"?");
    pooler.await_log("resolv_conf is broken, the old settings stay in force");
    pooler.console("RECONNECT");
    assert_eq!(seen_at(&pooler, "lookup_wrong"), "127.0.0.1");
    assert!(reload(house, &pooler, &file, &second.line()));
    // A name that was just resolved is used for a moment, whatever TTL its name server gave.
    wait_until("the new name server counts", LIMIT, || {
        pooler.console("RECONNECT");
        seen_at(&pooler, "lookup_wrong") == "127.0.0.2"
    });
    pooler.rewrite(&ini.set("resolv_conf = /nowhere/resolv.conf"));
    assert!(!pooler.console("RELOAD").errors.is_empty());
    pooler.await_log("could not open resolv_conf /nowhere/resolv.conf: No such file or directory");
}
