//! Several processes as peers: a cancel request reaches the process that its client is connected to.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tests::client::{Client, other_keys, send_cancel};
use tests::message;
use tests::peer::Peer;
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::runner::skip;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

/// Processes that share a port. Number N is peer N + 1, and all others reach it through its unix socket.
struct Group {
    poolers: Vec<Pooler>,
    ini: Ini,
}

impl Group {
    fn start(house: &House, database: &str, count: usize, settings: &[&str]) -> Self {
        let (ini, port) = (Ini::new(&house.line(database)).set("so_reuseport = 1"), free_port());
        let ini = settings.iter().fold(ini, |ini, setting| ini.set(setting));
        let with_number = |number: usize| ini.clone().set(&format!("peer_id = {}", number + 1));
        let start = |number| Pooler::start_on(&house.place, &with_number(number), port);
        let group = Self { poolers: (0..count).map(start).collect(), ini: ini.clone() };
        group.introduce();
        group
    }

    /// Gives each process the configuration of its peers.
    fn introduce(&self) {
        let lines = self.poolers.iter().enumerate().map(|(number, pooler)| {
            format!("{} = host={} port={} pool_size=2", number + 1, pooler.directory().display(), pooler.port())
        });
        let whole = lines.fold(self.ini.clone(), |ini, line| ini.peer(&line));
        for (number, pooler) in self.poolers.iter().enumerate() {
            pooler.rewrite(&whole.clone().set(&format!("peer_id = {}", number + 1)));
            self.console(number).run("RELOAD");
        }
    }

    fn console(&self, number: usize) -> Client {
        self.client(number, "admin", "pgbouncer")
    }

    /// A client of exactly this process.
    fn client(&self, number: usize, user: &str, database: &str) -> Client {
        let mut peer = self.poolers[number].knock();
        peer.send(&message::startup(0, &[("user", user), ("database", database)]));
        Client::finish_login(peer, LIMIT).expect("the login succeeds")
    }
}

/// A connection for a cancel request to exactly this process.
fn request(pooler: &Pooler, key: &(u32, Vec<u8>)) -> Peer {
    let mut peer = pooler.knock();
    peer.send(&message::cancel_request(key.0, &key.1));
    peer
}

/// A key that names a client of this peer, but that no client has.
fn key_of(peer: u16, hops: u8) -> (u32, Vec<u8>) {
    let [low, high] = peer.to_le_bytes();
    (u32::from_be_bytes([0, low, high, 7]), vec![7, 7, 7, 0x40 | hops])
}

pub(crate) fn a_cancel_request_reaches_its_client_by_any_process(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be older than peers");
    }
    house.postgres.database("peer_any");
    for settings in [["workers = 2", "io_backend = auto"], ["workers = 1", "io_backend = epoll"]] {
        let group = Group::start(house, "peer_any", 3, &settings);
        for owner in 0..3 {
            for way in 0..3 {
                let mut client = group.client(owner, "u", "peer_any");
                let tag = format!("select pg_sleep(60), {owner}{way}");
                client.ask(&tag);
                house.postgres.await_running("peer_any", &tag);
                request(&group.poolers[way], &client.key).closed_within(LIMIT).expect("it is closed when it is done");
                assert_eq!(client.answer().error().code, "57014", "of process {owner} by way of {way}");
            }
        }
        // The kernel connects the shared port to any of the processes.
        let mut client = group.client(1, "u", "peer_any");
        for _ in 0..10 {
            client.ask("select pg_sleep(61)");
            house.postgres.await_running("peer_any", "pg_sleep(61)");
            send_cancel(group.poolers[0].address(), client.key.0, &client.key.1);
            assert_eq!(client.answer().error().code, "57014");
        }
        let shown = group.console(0).query("SHOW PEER_POOLS");
        let peers: Vec<_> = (0..shown.rows.len()).map(|row| shown.named(row)["peer_id"].clone()).collect();
        assert_eq!(peers, ["2", "3"]);
        assert_eq!(group.console(0).query("SHOW PEERS").rows.len(), 3);
    }
}

/// The whole key is passed on: the process compares the bytes after those that name it.
pub(crate) fn a_long_key_reaches_its_client_by_any_process(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be older than peers");
    }
    house.postgres.database("peer_long");
    let group = Group::start(house, "peer_long", 2, &["workers = 2"]);
    for owner in 0..2 {
        for way in 0..2 {
            let mut client = Client::login_by_3_2(group.poolers[owner].knock(), "u", "peer_long");
            assert_eq!(client.key.1.len(), 32);
            let tag = format!("select pg_sleep(60), {owner}{way}");
            client.ask(&tag);
            house.postgres.await_running("peer_long", &tag);
            for other in other_keys(&client.key) {
                request(&group.poolers[way], &other).closed_within(LIMIT).expect("it is closed when it is done");
            }
            // Restricted to this database, because another test runs the same query in its own database.
            let running = format!(
                "select count(*) from pg_stat_activity where datname = 'peer_long' and state = 'active' and query = '{tag}'"
            );
            assert_eq!(house.postgres.value(&running), "1", "of process {owner} by way of {way}");
            request(&group.poolers[way], &client.key).closed_within(LIMIT).expect("it is closed when it is done");
            assert_eq!(client.answer().error().code, "57014", "of process {owner} by way of {way}");
        }
    }
}

pub(crate) fn a_cancel_request_that_nobody_owns_ends_after_three_hops(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be older than peers");
    }
    // Each of the two processes has the other one configured as peer 7.
    let ini = house.ini("peer_loop", &[]);
    let poolers = [1, 2].map(|number| house.start(&ini.clone().set(&format!("peer_id = {number}"))));
    for (own, other) in [(0, 1), (1, 0)] {
        let other: &Pooler = &poolers[other];
        let line = format!("7 = host={} port={}", other.directory().display(), other.port());
        poolers[own].rewrite(&ini.clone().set(&format!("peer_id = {}", own + 1)).peer(&line));
        poolers[own].console("RELOAD");
    }
    request(&poolers[0], &key_of(7, 3)).closed_within(LIMIT).expect("it comes to its end");
    // Client -> first -> second -> first -> second, which must not pass it on any more.
    poolers[1].await_log("because its TTL was exhausted");
    assert!(!poolers[0].log().contains("because its TTL was exhausted"), "{}", poolers[0].log());
}

pub(crate) fn a_peer_that_cannot_be_reached_costs_its_own_requests_only(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be older than peers");
    }
    let gone = free_port();
    let ini = house.ini("peer_gone", &["peer_id = 1"]).peer(&format!("2 = host=127.0.0.1 port={gone}"));
    let ini = ini.peer("3 = host=no-such-host.invalid");
    let pooler = house.start(&ini);
    let mut client = pooler.client("u", "peer_gone");
    client.ask("select pg_sleep(60)");
    house.postgres.await_running("peer_gone", "pg_sleep(60)");
    for _ in 0..20 {
        request(&pooler, &key_of(2, 3)).closed_within(LIMIT).expect("it comes to its end");
    }
    let line = format!("peer-2@127.0.0.1:{gone} failed to forward cancel request: connect failed: Connection refused");
    // Another worker may have disconnected the requester before the line was written.
    pooler.await_log(&line);
    request(&pooler, &key_of(3, 3)).closed_within(LIMIT).expect("it comes to its end");
    let line = "peer-3@no-such-host.invalid:6432 failed to forward cancel request: DNS lookup failed";
    pooler.await_log(line);
    // A key of an unknown peer is looked up here, and is not found.
    request(&pooler, &key_of(9, 3)).closed_within(LIMIT).expect("it comes to its end");
    client.cancel();
    assert_eq!(client.answer().error().code, "57014");
    let shown = pooler.console("SHOW PEER_POOLS");
    for row in 0..shown.rows.len() {
        assert_eq!(shown.named(row)["cl_waiting_cancel_req"], "0", "{shown:?}");
    }
}

pub(crate) fn a_peer_has_as_many_connections_as_it_may_and_no_more_time(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be older than peers");
    }
    // This peer accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = silent.local_addr().expect("it has a port").port();
    let ini = house.ini("peer_silent", &["peer_id = 1", "cancel_wait_timeout = 6"]);
    let pooler = house.start(&ini.peer(&format!("2 = host=127.0.0.1 port={port} pool_size=2")));
    let begun = Instant::now();
    let mut requests: Vec<_> = (0..3).map(|_| request(&pooler, &key_of(2, 3))).collect();
    let mut console = pooler.client("admin", "pgbouncer");
    wait_until("two are sent, and one waits", LIMIT, || {
        let row = console.query("SHOW PEER_POOLS");
        !row.rows.is_empty() && {
            let row = row.named(0);
            (row["cl_active_cancel_req"].as_str(), row["cl_waiting_cancel_req"].as_str()) == ("2", "1")
        }
    });
    let mut first = Peer::accept(&silent).expect("one is there");
    let packet = first.packet().expect("a cancel request");
    // The request that is passed on has one hop less.
    assert_eq!(packet, [4, 210, 22, 46, 0, 2, 0, 7, 7, 7, 7, 0x42]);
    requests.iter_mut().for_each(|request| request.closed_within(LIMIT).expect("it comes to its end"));
    assert!(begun.elapsed() >= Duration::from_millis(5900), "it was given up after {:?}", begun.elapsed());
    let given_up = "failed to forward cancel request: cancel_wait_timeout (age=";
    wait_until("all three are told", LIMIT, || pooler.log().matches(given_up).count() == 3);
    let log = pooler.log();
    let mut ages = log.split(given_up).skip(1).filter_map(|rest| rest.split('s').next()?.parse::<u64>().ok());
    assert!(ages.all(|age| age >= 6), "{log}");
    assert!(first.is_closed_within(LIMIT), "the connection to the peer is left");
    assert_eq!(console.query("SHOW PEER_POOLS").named(0)["sv_active_cancel"], "0");
}

pub(crate) fn a_peer_that_is_removed_is_forgotten(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be older than peers");
    }
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = silent.local_addr().expect("it has a port").port();
    let ini = house.ini("peer_removed", &["peer_id = 1", "cancel_wait_timeout = 0"]);
    let pooler = house.start(&ini.clone().peer(&format!("2 = host=127.0.0.1 port={port}")));
    let mut waiting = request(&pooler, &key_of(2, 3));
    let _taken = Peer::accept(&silent).expect("the request comes");
    pooler.rewrite(&ini);
    pooler.console("RELOAD");
    waiting.closed_within(LIMIT).expect("it comes to its end");
    pooler.await_log("dropping peer 2 as it does not exist anymore");
    pooler.await_log("failed to forward cancel request: peer removed");
    assert_eq!(pooler.console("SHOW PEER_POOLS").rows.len(), 0);
    request(&pooler, &key_of(2, 3)).closed_within(LIMIT).expect("nobody knows it any more");
}

/// Three processes on one port are restarted one after the other while clients come and go, and cancel.
pub(crate) fn a_rolling_restart_fails_nobody(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the PgBouncer here may be older than peers");
    }
    house.postgres.database("peer_rolling");
    let mut group = Group::start(house, "peer_rolling", 3, &["workers = 2"]);
    let address = group.poolers[0].address();
    let is_over = AtomicBool::new(false);
    let (transactions, cancels) = (AtomicU32::new(0), AtomicU32::new(0));
    let knocks_lost = AtomicU32::new(0);
    // The kernel may reset a client that connects at the very moment in which a listener closes; the client reconnects.
    let come_in = || loop {
        match Client::login_unless_lost(address, "u", "peer_rolling") {
            Some(client) => break client,
            None => knocks_lost.fetch_add(1, Ordering::Relaxed),
        };
    };
    std::thread::scope(|scope| {
        for stays in [1, 1, 3, 3] {
            let (come_in, is_over, transactions) = (&come_in, &is_over, &transactions);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let mut client = come_in();
                    for _ in 0..stays {
                        client.run("begin");
                        assert_eq!(client.value("select 'mine'"), "mine");
                        client.run("commit");
                        transactions.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut client = come_in();
                client.ask("select pg_sleep(60)");
                house.postgres.await_running("peer_rolling", "pg_sleep(60)");
                client.cancel();
                assert_eq!(client.answer().error().code, "57014", "the cancel request got lost");
                cancels.fetch_add(1, Ordering::Relaxed);
            }
        });
        // A panic below must not leave the other threads running.
        let _over = Over(&is_over);
        for number in 0..3 {
            let enough = transactions.load(Ordering::Relaxed) + 20;
            wait_until("clients are served", LIMIT, || transactions.load(Ordering::Relaxed) > enough);
            wait_until("requests are cancelled", LIMIT, || cancels.load(Ordering::Relaxed) > number as u32);
            group.console(number).run("SHUTDOWN WAIT_FOR_CLIENTS");
            assert_eq!(group.poolers[number].await_end(LIMIT).code(), Some(0));
            group.poolers[number].start_again();
            assert!(!group.poolers[number].log().contains("pooler is shutting down"), "somebody was sent away");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let lost = knocks_lost.load(Ordering::Relaxed);
    assert!(lost <= 3, "{lost} connections were lost in three restarts");
    assert!(cancels.load(Ordering::Relaxed) >= 3, "{cancels:?} cancels");
}

/// Stops the other threads, however this one ends.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
