//! Floods of connections from one address before any login, and a well-behaved client from another address.
//!
//! Always true: the flood comes from 127.0.0.2, the client from 127.0.0.1; the checks compare counts at one of them with events
//! at the other, so that a slow machine changes nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tests::hello::client_hello;
use tests::message::{Complaint, SSL_CODE, packet, startup};
use tests::peer::Peer;
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::logins::tls::Stage;

pub(crate) fn addresses_take_turns_with_handshakes_of_tls(house: &House) {
    let stage = Stage::new(house, "floods_tls", &["workers = 1", "client_login_timeout = 0", "max_client_conn = 5000"]);
    assert_eq!(stage.ask("floods_tls", "select 1").success(), "1\n");
    let hello = client_hello();
    let mut flood: Vec<Peer> = (0..FLOOD).map(|_| knock_from_elsewhere(stage.pooler.address())).collect();
    for peer in &mut flood {
        peer.send(&packet(&SSL_CODE.to_be_bytes()));
    }
    for peer in &mut flood {
        assert_eq!(peer.bytes(1).expect("an answer"), b"S");
    }
    flood.iter_mut().for_each(|peer| peer.send(&hello));
    assert_eq!(stage.ask("floods_tls", "select 2").success(), "2\n");
    // With handshakes in order of arrival, all of them would have been served before.
    let served = flood.iter().filter(|peer| peer.has_bytes()).count();
    assert!(served < FLOOD / 2, "{served} of {FLOOD} handshakes came before");
}

pub(crate) fn silent_connections_from_one_address_keep_nobody_else_out(house: &House) {
    for workers in [1, 4] {
        let workers = format!("workers = {workers}");
        let name = format!("floods_silent{}", &workers[workers.len() - 1..]);
        let pooler = house.pooler(&name, &[&workers, LIMIT_OF_TEN, AT_ONCE]);
        // Waits until the connections of the check that the pooler is up are gone.
        let _ = wait_until("nobody is there", LIMIT, || counted(&pooler) == (0, 0));
        let mut silent: Vec<Peer> = (0..50).map(|_| knock_from_elsewhere(pooler.address())).collect();
        // Each connection after the first ten is refused.
        for refused in &mut silent[10..] {
            expect_refusal(refused);
        }
        pooler.await_log("10 connections have not logged in (max_unauthenticated_connections), ");
        pooler.await_log(", 5 come from 127.0.0.2");
        assert_eq!(pooler.client("u", &name).value("select 1"), "1");
        // The login has displaced the last of the ten.
        expect_refusal(&mut silent[9]);
        let lines = pooler.log().matches("connections have not logged in").count();
        assert!(lines < 10, "{lines} lines for 41 that were turned away");
        let shown = counted(&pooler);
        assert!(shown.0 <= 9 && shown.1 >= 41, "{shown:?}");
        // The other connections still have their places.
        let packet = startup(0, &[("user", "u"), ("database", &name)]);
        silent[0].send(&packet);
        assert_eq!(silent[0].frame_within(LIMIT).expect("an answer").tag, b'R');
    }
}

pub(crate) fn whoever_has_logged_in_or_gone_does_not_count(house: &House) {
    let pooler = house.pooler("floods_places", &["max_unauthenticated_connections = 15", AT_ONCE]);
    let _ = wait_until("nobody is there", LIMIT, || counted(&pooler).0 == 0);
    let clients: Vec<_> = (0..10).map(|_| pooler.client("u", "floods_places")).collect();
    for client in &clients {
        client.cancel();
    }
    for _ in 0..10 {
        let mut gone = pooler.knock();
        gone.send(&startup(0, &[("user", "u"), ("database", "no_such_database")]));
        gone.frame_within(LIMIT).expect("a refusal");
        pooler.knock().reset();
        let _ = wait_until("it is gone", LIMIT, || counted(&pooler).0 == 0);
    }
}

pub(crate) fn whoever_is_displaced_in_its_login_reads_why(house: &House) {
    let pooler = house.pooler("floods_logins", &["workers = 4", "max_unauthenticated_connections = 3", AT_ONCE]);
    let _ = wait_until("nobody is there", LIMIT, || counted(&pooler).0 == 0);
    pooler.console("SET auth_type = 'md5'");
    let begin = |mut peer: Peer| {
        peer.send(&startup(0, &[("user", "by_password"), ("database", "floods_logins")]));
        assert_eq!(peer.frame_within(LIMIT).expect("a question").tag, b'R');
        peer
    };
    let mut flood: Vec<Peer> = (0..3).map(|_| begin(knock_from_elsewhere(pooler.address()))).collect();
    let honest = begin(pooler.knock());
    expect_refusal(&mut flood[2]);
    // One more would make this address have as many as the flood.
    expect_refusal(&mut pooler.knock());
    drop(honest);
    assert!(!flood[0].is_closed_within(Duration::from_millis(100)));
}

pub(crate) fn a_reload_says_how_many_may_not_have_logged_in(house: &House) {
    let pooler = house.pooler("floods_reload", &[AT_ONCE]);
    let _ = wait_until("nobody is there", LIMIT, || counted(&pooler) == (0, 0));
    let silent: Vec<Peer> = (0..20).map(|_| knock_from_elsewhere(pooler.address())).collect();
    let _ = wait_until("all are counted", LIMIT, || counted(&pooler) == (20, 0));
    pooler.console("SET max_unauthenticated_connections = 10");
    expect_refusal(&mut knock_from_elsewhere(pooler.address()));
    assert_eq!(pooler.client("u", "floods_reload").value("select 1"), "1");
    wait_until("one has made room", LIMIT, || silent.iter().any(Peer::has_bytes));
    pooler.console("SET max_unauthenticated_connections = 30");
    let before = counted(&pooler).0;
    let _more = knock_from_elsewhere(pooler.address());
    let _ = wait_until("one more is counted", LIMIT, || counted(&pooler).0 == before + 1);
}

/// Connections that have not logged in, and how many were refused.
fn counted(pooler: &Pooler) -> (usize, usize) {
    let lists = pooler.console("SHOW LISTS");
    let item = |name: &str| {
        let row = lists.rows.iter().find(|row| row[0].as_deref() == Some(name)).expect("a row");
        row[1].as_deref().and_then(|items| items.parse().ok()).expect("a number")
    };
    (item("unauthenticated"), item("unauthenticated_refused"))
}

fn expect_refusal(peer: &mut Peer) {
    let frame = peer.frame_within(LIMIT).expect("a word");
    let complaint = Complaint::read(&frame);
    assert_eq!((complaint.severity.as_str(), complaint.code.as_str()), ("FATAL", "53300"));
    assert_eq!(complaint.text, "too many connections have not logged in (max_unauthenticated_connections)");
    peer.closed_within(LIMIT).expect("the pooler closes");
}

/// A connection from another address than the well-behaved client's.
fn knock_from_elsewhere(address: SocketAddr) -> Peer {
    Peer::tcp_from(Ipv4Addr::new(127, 0, 0, 2), address).expect("a connection")
}

/// Handshakes of the flood: more than the pooler finishes during one login.
pub(crate) const FLOOD: usize = 1500;
const LIMIT_OF_TEN: &str = "max_unauthenticated_connections = 10";
/// Without it the kernel holds back silent connections for a second.
const AT_ONCE: &str = "tcp_defer_accept = 0";
