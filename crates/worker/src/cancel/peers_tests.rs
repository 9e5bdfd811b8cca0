//! Cancel requests for other processes, without a worker.

use std::io;
use std::time::Duration;

use protocol::cancel::CancelKey;
use reactor::Conn;

use super::*;
use crate::letters::{Addresses, CancelWait};
use crate::still::{Call, StillHands, configure, lines, tasks};

const SETTINGS: &str = "[pgbouncer]\nauth_type=any\npeer_id=9\ncancel_wait_timeout=10\nserver_connect_timeout=4\n\
                        [peers]\n1 = host=10.0.0.1 pool_size=1\n2 = host=db pool_size=2\n";
/// The peer with an address, and the one with a name.
const PEER: u16 = 1;
const NAMED: u16 = 2;

/// Cancel requests of the only worker, and what they work with.
struct PeersTest {
    cancels: Cancels,
    names: HostNames,
    still: StillHands,
}

impl PeersTest {
    fn new() -> Self {
        Self::with(SETTINGS)
    }

    fn with(settings: &str) -> Self {
        let test =
            Self { cancels: Cancels::default(), names: HostNames::default(), still: StillHands::with(settings, 1) };
        test.still.connects((0..9).map(|number| Ok(conn(number))));
        test
    }

    /// A client asks for something to be cancelled at this peer.
    fn asks(&mut self, peer: u16, client: u32) {
        let key = CancelKey::parse(&[client as u8; 8]).expect("a key");
        let now = self.still.hands.now;
        let waits = CancelWait { since: now, until: Some(now + Duration::from_secs(10)) };
        let wish = CancelWish { key, requester: (WorkerId(0), Key::first(client)), waits };
        self.cancels.pass_on(peer, wish, &mut self.still.hands, &mut self.names);
    }

    fn connected(&mut self, forward: Key) {
        self.cancels.forward_connected(forward, &mut self.still.hands);
    }

    fn ended(&mut self, forward: Key) {
        self.cancels.forward_ended(forward, &mut self.still.hands, &mut self.names);
    }

    fn refused(&mut self, forward: Key) {
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        self.cancels.forward_failed(forward, &error, &mut self.still.hands, &mut self.names);
    }

    fn resolved(&mut self, last: &[u8]) {
        let all = last.iter().map(|last| [10, 0, 0, *last].into()).collect();
        let waiting = self.names.resolved("db", Ok(Addresses { all, ttl: None }), &mut self.still.hands);
        for asker in waiting {
            let Asker::Forward(key) = asker else { continue };
            self.cancels.forward_resolved(key, &mut self.still.hands, &mut self.names);
        }
    }

    /// Fires the timers that are due after this time.
    fn passes(&mut self, millis: u64) {
        self.still.hands.now = self.still.hands.now + Duration::from_millis(millis);
        let mut due = Vec::new();
        self.still.hands.timers.expire(self.still.hands.now, |timer| due.push(timer));
        for timer in due {
            let Timer::Forward(key) = timer else { panic!("another timer") };
            self.cancels.forward_too_late(key, &mut self.still.hands, &mut self.names);
        }
    }

    /// The last numbers of the addresses that were dialed since the last call, or what else the kernel was told.
    fn calls(&mut self) -> Vec<String> {
        let word = |call| match call {
            Call::Connect(address, _) => crate::upstream::attempt::word(&address),
            Call::Send(conn, _) => format!("send {}", conn.index),
            Call::Close(conn) => format!("close {}", conn.index),
            Call::Secure(..) => "secure".to_owned(),
        };
        self.still.calls().into_iter().map(word).collect()
    }

    fn tasks(&mut self) -> Vec<String> {
        tasks(&mut self.still.hands)
    }
}

fn conn(number: u32) -> Conn {
    Conn::first(number)
}

/// The key of the request that was made at this place.
fn forward(number: u32) -> Key {
    Key::first(number)
}

#[test]
fn a_request_is_sent_with_the_key_of_the_peer_and_ends_when_the_peer_closes() {
    let mut test = PeersTest::new();
    test.asks(PEER, 1);
    assert_eq!(test.calls(), ["10.0.0.1"]);
    test.connected(forward(0));
    let mut message = Vec::new();
    write::cancel_request(&mut message, &[1; 8]);
    assert_eq!(test.still.calls(), [Call::Send(conn(0), message)]);
    assert_eq!(test.tasks(), [""; 0]);
    test.ended(forward(0));
    assert_eq!(test.calls(), ["close 0"]);
    assert_eq!(test.tasks(), ["RequestOver(1.1)"]);
    assert_eq!(test.still.hands.connections.cancel_requests(CancelRequest::Forwarded), 1);
    assert!(test.still.hands.timers.is_empty());
}

#[test]
fn a_peer_that_demands_it_gets_a_proxy_header_before_the_request() {
    let mut test = PeersTest::with(&SETTINGS.replace("host=10.0.0.1", "host=10.0.0.1 proxy_protocol=v2"));
    test.asks(PEER, 1);
    test.calls();
    test.connected(forward(0));
    let mut message = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec();
    write::cancel_request(&mut message, &[1; 8]);
    assert_eq!(test.still.calls(), [Call::Send(conn(0), message)]);
}

#[test]
fn a_request_waits_while_its_peer_has_all_its_connections_and_the_first_is_first() {
    let mut test = PeersTest::new();
    (1..=3).for_each(|client| test.asks(PEER, client));
    assert_eq!(test.calls(), ["10.0.0.1"]);
    let row = |test: &PeersTest| test.cancels.peer_rows().first().map(|row| (row.active, row.waiting, row.dialing));
    assert_eq!(row(&test), Some((0, 3, 1)));
    test.connected(forward(0));
    assert_eq!(row(&test), Some((1, 2, 0)));
    test.ended(forward(0));
    assert_eq!(test.calls(), ["send 0", "close 0", "10.0.0.1"]);
    test.connected(forward(1));
    test.ended(forward(1));
    assert_eq!(test.tasks(), ["RequestOver(1.1)", "RequestOver(2.1)"]);
}

#[test]
fn a_peer_that_cannot_be_reached_ends_the_request_and_frees_the_connection() {
    let mut test = PeersTest::new();
    (1..=2).for_each(|client| test.asks(PEER, client));
    test.calls();
    test.refused(forward(0));
    assert_eq!(test.tasks(), ["RequestOver(1.1)"]);
    assert_eq!(test.calls(), ["10.0.0.1"], "for the next request");
    let told = lines(&mut test.still.hands);
    let expected = "peer-1@10.0.0.1:6432 failed to forward cancel request: connect failed: connection refused";
    assert!(told.last().is_some_and(|line| line.ends_with(expected)), "{told:?}");
}

#[test]
fn each_address_of_a_peer_is_tried_and_one_that_is_silent_gets_its_share_of_the_time() {
    let mut test = PeersTest::new();
    test.asks(NAMED, 1);
    assert_eq!(test.calls(), [""; 0], "its name is being looked up");
    test.resolved(&[1, 2, 3]);
    assert_eq!(test.calls(), ["10.0.0.1"]);
    test.refused(forward(0));
    assert_eq!(test.calls(), ["10.0.0.2"]);
    test.passes(1900);
    assert_eq!(test.calls(), [""; 0]);
    test.passes(120);
    assert_eq!(test.calls(), ["close 1", "10.0.0.3"]);
    test.refused(forward(0));
    assert_eq!(test.tasks(), ["RequestOver(1.1)"]);
}

#[test]
fn an_address_that_could_not_be_reached_is_not_the_first_for_later_requests() {
    let mut test = PeersTest::new();
    test.asks(NAMED, 1);
    test.resolved(&[1, 2]);
    test.refused(forward(0));
    assert_eq!(test.calls(), ["10.0.0.1", "10.0.0.2"]);
    test.asks(NAMED, 2);
    test.connected(forward(0));
    test.ended(forward(0));
    test.calls();
    test.asks(NAMED, 3);
    assert_eq!(test.calls(), ["10.0.0.2"], "in its turn the first one would be dialed");
}

#[test]
fn a_request_ends_with_the_patience_of_its_requester() {
    let mut test = PeersTest::new();
    test.asks(PEER, 1);
    test.connected(forward(0));
    test.passes(1000);
    test.asks(PEER, 2);
    test.calls();
    test.passes(9020);
    assert_eq!(test.tasks(), ["RequestOver(1.1)"]);
    assert_eq!(test.calls(), ["close 0", "10.0.0.1"]);
    test.passes(1000);
    assert_eq!(test.tasks(), ["RequestOver(2.1)"]);
    assert_eq!(test.calls(), ["close 1"]);
    test.asks(PEER, 3);
    assert_eq!(test.calls(), ["10.0.0.1"], "its connections are free again");
}

#[test]
fn a_request_for_a_peer_that_a_reload_has_removed_ends() {
    let mut test = PeersTest::new();
    (1..=2).for_each(|client| test.asks(PEER, client));
    test.calls();
    configure(&mut test.still.hands, "[pgbouncer]\nauth_type=any\n");
    test.cancels.renew_peers(&mut test.still.hands, &mut test.names);
    assert_eq!(test.tasks(), ["RequestOver(1.1)", "RequestOver(2.1)"]);
    assert_eq!(test.calls(), ["close 0"]);
    assert!(test.cancels.peer_rows().is_empty());
    test.asks(PEER, 3);
    assert_eq!(test.tasks(), ["RequestOver(3.1)"]);
}

#[test]
fn a_reload_that_allows_more_connections_dials_for_those_who_wait() {
    let mut test = PeersTest::new();
    (1..=3).for_each(|client| test.asks(PEER, client));
    test.calls();
    configure(&mut test.still.hands, &SETTINGS.replace("pool_size=1", "pool_size=3"));
    test.cancels.renew_peers(&mut test.still.hands, &mut test.names);
    assert_eq!(test.calls(), ["10.0.0.1", "10.0.0.1"]);
}
