//! Cancel requests, without a worker.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::{Time, WorkerId};
use pool::{PoolKey, ServerKey};
use reactor::Address;
use reactor::tls::{Check, Demand, DemandParts, TermsText};

use super::*;
use crate::cancel::tables::{CANCELS_MAX, LEGACIES_MAX, Legacy};
use crate::still::{Call, StillHands, lines, tasks};

const SETTINGS: &str = "[pgbouncer]\nauth_type=any\ncancel_wait_timeout=10\n";
const CONN: Conn = Conn::first(7);

/// Cancel requests of worker 0 of two, and what they work with.
struct CancelTest {
    cancels: Cancels,
    names: HostNames,
    still: StillHands,
}

impl CancelTest {
    fn new() -> Self {
        Self { cancels: Cancels::default(), names: HostNames::default(), still: StillHands::with(SETTINGS, 2) }
    }

    /// With a request of client 1 that is being connected.
    fn aimed() -> Self {
        let mut test = Self::new();
        test.still.connects([Ok(CONN)]);
        assert!(test.aims(1));
        test.still.calls();
        test
    }

    /// With such a request that has been sent.
    fn sent() -> Self {
        let mut test = Self::aimed();
        assert_eq!(test.sends(QUERY, true), 1);
        test.still.calls();
        test
    }

    fn aims(&mut self, client: u32) -> bool {
        self.cancels.aim(target(None), Some(requester(client)), &mut self.still.hands)
    }

    /// The server runs this query, or none, when the connection is ready. Returns its requests under way.
    fn sends(&mut self, query_number: u64, is_running: bool) -> u32 {
        let mut under_way = 0;
        let server = Reached { query_number, is_running, cancel_key: &SECRET, under_way: &mut under_way };
        self.cancels.send(cancel(), Some(server), &mut self.still.hands);
        under_way
    }

    fn passes(&mut self, secs: u64) {
        self.still.hands.now = self.still.hands.now + Duration::from_secs(secs);
    }

    fn tasks(&mut self) -> Vec<String> {
        tasks(&mut self.still.hands)
    }

    fn counted(&self, how: CancelRequest) -> u64 {
        self.still.hands.connections.cancel_requests(how)
    }
}

/// The query that requests are meant for.
const QUERY: u64 = 5;
const SECRET: [u8; 8] = *b"12345678";

/// The key of the first request.
fn cancel() -> Key {
    Key::first(0)
}

fn requester(client: u32) -> Requester {
    (WorkerId(0), Key::first(client))
}

fn target(secret: Option<(Arc<Demand>, Arc<str>)>) -> Target {
    let address = Address::Tcp(([10, 0, 0, 1], 5432).into());
    Target { server: ServerKey::first(3), pool: PoolKey::first(2), query_number: QUERY, address, secret }
}

fn wish(key: CancelKey, until: Option<Time>) -> CancelWish {
    CancelWish { key, requester: requester(1), waits: CancelWait { since: Time(0), until } }
}

fn is_running() -> CancelTest {
    let mut test = CancelTest::aimed();
    assert!(test.cancels.connected(cancel(), ProxyProtocol::Off, &mut test.still.hands));
    test
}

#[test]
fn a_request_is_sent_while_its_query_runs_and_is_over_when_the_server_closes() {
    let mut test = is_running();
    assert_eq!(test.sends(QUERY, true), 1);
    let mut message = Vec::new();
    write::cancel_request(&mut message, &SECRET);
    assert_eq!(test.still.calls(), [Call::Send(CONN, message)]);
    assert!(test.cancels.is_aimed_at(ServerKey::first(3)));
    assert_eq!(test.tasks(), [""; 0], "its requester waits");
    test.cancels.ended(cancel(), &End::Eof, &mut test.still.hands);
    assert_eq!(test.still.calls(), [Call::Close(CONN)]);
    assert_eq!(test.tasks(), ["RequestOver(1.1)", "CancelOver { server: 3.1, was_sent: true }"]);
    assert_eq!(test.counted(CancelRequest::Sent), 1);
    assert!(!test.cancels.is_aimed_at(ServerKey::first(3)));
    assert!(test.still.hands.timers.is_empty());
}

#[test]
fn the_query_of_a_server_that_was_closed_is_cancelled_by_what_is_left_of_it() {
    let mut test = CancelTest::new();
    test.still.connects([Ok(CONN)]);
    let legacy = || Legacy { cancel_key: SECRET.into(), header: ProxyProtocol::V1 };
    test.cancels.aim_last(target(None), legacy(), &mut test.still.hands);
    test.still.calls();
    assert!(test.cancels.connected(cancel(), ProxyProtocol::Off, &mut test.still.hands));
    assert!(matches!(&test.still.calls()[..], [Call::Send(_, header)] if header.starts_with(b"PROXY")));
    test.cancels.send(cancel(), None, &mut test.still.hands);
    let mut message = Vec::new();
    write::cancel_request(&mut message, &SECRET);
    assert_eq!(test.still.calls(), [Call::Send(CONN, message)]);
    test.cancels.ended(cancel(), &End::Eof, &mut test.still.hands);
    assert_eq!(test.tasks(), ["CancelOver { server: 3.1, was_sent: true }"]);
    // A request of its client that is on its way already is used.
    let mut test = CancelTest::aimed();
    test.cancels.aim_last(target(None), legacy(), &mut test.still.hands);
    test.cancels.send(cancel(), None, &mut test.still.hands);
    assert!(matches!(&test.still.calls()[..], [Call::Send(..)]));
}

#[test]
fn servers_that_were_closed_leave_places_for_the_requests_of_clients() {
    let mut test = CancelTest::new();
    test.still.connects((0..100).map(|_| Ok(CONN)));
    for number in 0..100 {
        let target = Target { server: ServerKey::first(number), ..target(None) };
        let legacy = Legacy { cancel_key: SECRET.into(), header: ProxyProtocol::Off };
        test.cancels.aim_last(target, legacy, &mut test.still.hands);
    }
    assert_eq!(test.cancels.rows.iter().count(), LEGACIES_MAX);
}

#[test]
fn a_connection_to_a_pooler_that_demands_it_begins_with_a_proxy_header() {
    for (how, header) in [
        (ProxyProtocol::V1, b"PROXY UNKNOWN\r\n".to_vec()),
        (ProxyProtocol::V2, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec()),
    ] {
        let mut test = CancelTest::aimed();
        assert!(test.cancels.connected(cancel(), how, &mut test.still.hands));
        // The simulated connection has no addresses.
        assert_eq!(test.still.calls(), [Call::Send(CONN, header)]);
    }
}

#[test]
fn a_request_is_not_sent_to_a_server_that_runs_another_query_or_none_or_has_gone() {
    for (number, runs) in [(QUERY + 1, true), (QUERY, false)] {
        let mut test = is_running();
        assert_eq!(test.sends(number, runs), 0);
        assert_eq!(test.still.calls(), [Call::Close(CONN)]);
        assert_eq!(test.tasks(), ["RequestOver(1.1)", "CancelOver { server: 3.1, was_sent: false }"]);
        assert_eq!(test.counted(CancelRequest::Idle), 1);
    }
    let mut test = is_running();
    test.cancels.send(cancel(), None, &mut test.still.hands);
    assert_eq!(test.still.calls(), [Call::Close(CONN)]);
    assert_eq!(lines(&mut test.still.hands), ["not sending cancel request for client that is now idle"]);
}

#[test]
fn requests_for_one_query_share_a_connection_and_end_together() {
    let mut test = CancelTest::aimed();
    assert!(test.aims(2));
    assert_eq!(test.still.calls(), []);
    assert_eq!((test.cancels.count(PoolKey::first(2)), test.cancels.count(PoolKey::first(1))), (1, 0));
    test.cancels.failed(cancel(), &mut test.still.hands);
    assert_eq!(test.tasks()[..2], ["RequestOver(1.1)", "RequestOver(2.1)"]);
    assert_eq!(test.counted(CancelRequest::Failed), 2);
}

/// The signal of such a request would end the next query.
#[test]
fn a_server_that_a_request_may_still_hit_is_lost() {
    let cut_off = || End::Broken(io::ErrorKind::ConnectionReset.into());
    let lost = |why: &str| format!("LoseServer {{ server: 3.1, why: {why:?} }}");
    let mut test = CancelTest::sent();
    test.cancels.ended(cancel(), &cut_off(), &mut test.still.hands);
    assert_eq!(test.tasks()[0], lost("cancel request was cut off"), "before it could get another query");
    let mut test = CancelTest::sent();
    test.passes(10);
    test.cancels.too_late(cancel(), &mut test.still.hands);
    assert_eq!(test.tasks()[0], lost("cancel_wait_timeout"));
    assert_eq!(lines(&mut test.still.hands), ["closing cancel request: cancel_wait_timeout (age=10s)"]);
    // What was not sent hits nobody.
    let mut test = CancelTest::aimed();
    test.cancels.ended(cancel(), &cut_off(), &mut test.still.hands);
    assert_eq!(test.tasks()[0], "RequestOver(1.1)");
    let mut test = CancelTest::aimed();
    test.cancels.too_late(cancel(), &mut test.still.hands);
    assert_eq!(test.tasks()[0], "RequestOver(1.1)");
    assert_eq!(test.counted(CancelRequest::Expired), 1);
}

#[test]
fn the_key_of_an_encrypted_server_is_not_sent_in_clear_text() {
    let terms = TermsText { protocols: "secure", ciphers: "default", suites: None, curves: "auto" };
    let parts = DemandParts { check: Check::Nothing, authorities: None, own: None, terms };
    let demand = Arc::new(Demand::new(&parts).expect("good terms").expect("some version"));
    let mut message = Vec::new();
    write::ssl_request(&mut message);
    let secure = Call::Secure(CONN, Owner::Cancel(cancel()).to_bits());
    for (answer, what, is_over) in [(b"S", secure, false), (b"N", Call::Close(CONN), true)] {
        let mut test = CancelTest::new();
        test.still.connects([Ok(CONN)]);
        let target = target(Some((demand.clone(), "db".into())));
        assert!(test.cancels.aim(target, Some(requester(1)), &mut test.still.hands));
        assert!(!test.cancels.connected(cancel(), ProxyProtocol::Off, &mut test.still.hands));
        assert_eq!(test.still.calls()[1..], [Call::Send(CONN, message.clone())]);
        test.cancels.answered(cancel(), answer, &mut test.still.hands);
        assert_eq!(test.still.calls(), [what]);
        assert_eq!(!test.tasks().is_empty(), is_over);
    }
}

#[test]
fn one_request_too_many_and_one_that_cannot_be_connected_are_not_begun() {
    let mut test = CancelTest::new();
    assert!(!test.aims(1));
    assert_eq!(lines(&mut test.still.hands), ["failed to send cancel request: unsupported"]);
    for number in 0..=CANCELS_MAX {
        test.still.connects([Ok(Conn::first(number))]);
        let target = Target { query_number: u64::from(number), ..target(None) };
        assert_eq!(test.cancels.aim(target, None, &mut test.still.hands), number < CANCELS_MAX);
    }
}

#[test]
fn what_a_client_does_decides_what_becomes_of_a_request() {
    let client = Key::first(9);
    for (meant, task, how) in [
        (Meant::Query(None), None, CancelRequest::Failed),
        (Meant::Wait(client), Some("CancelWaiting(9.1)"), CancelRequest::Queued),
        (Meant::Command(client), None, CancelRequest::Sent),
        (Meant::Nothing(None), None, CancelRequest::Idle),
        (Meant::Unknown, None, CancelRequest::UnknownKey),
    ] {
        let mut test = CancelTest::new();
        test.cancels.cancel(meant, requester(1), &mut test.still.hands);
        assert_eq!(test.tasks(), Vec::from_iter(task.into_iter().chain(["RequestOver(1.1)"])));
        assert_eq!(test.counted(how), 1);
        let told = test.still.told.lock().expect("a list");
        assert_eq!(told.len(), usize::from(how == CancelRequest::Sent));
    }
}

#[test]
fn a_request_of_another_workers_client_is_ended_by_letter() {
    let mut test = CancelTest::new();
    let (other, client) = (WorkerId(1), Key::first(4));
    test.cancels.cancel(Meant::Unknown, (other, client), &mut test.still.hands);
    assert_eq!(test.tasks(), [""; 0]);
    let told = test.still.workers_told.lock().expect("a list");
    assert!(matches!(&told[..], [(1, ToWorker::CancelOver(over))] if *over == client), "{told:?}");
}

#[test]
fn a_request_goes_to_the_worker_that_its_key_names() {
    let mut test = CancelTest::new();
    let key = test.cancels.draw_key(Key::first(9), 0, &mut test.still.hands);
    let waits = CancelWait { since: Time(0), until: None };
    let route = |test: &mut CancelTest, key: &[u8]| {
        test.cancels.route(key, Key::first(1), waits, &mut test.still.hands, &mut test.names)
    };
    let wish = route(&mut test, key.bytes()).expect("a key of this worker");
    assert_eq!(test.cancels.client_of(wish.key.name()), Some(Key::first(9)));
    let others = [&[1][..], &key.bytes()[1..]].concat();
    assert!(route(&mut test, &others).is_none());
    let told = std::mem::take(&mut *test.still.workers_told.lock().expect("a list"));
    assert!(matches!(&told[..], [(1, ToWorker::Cancel(wish))] if wish.key.bytes() == others), "{told:?}");
    assert!(route(&mut test, b"short").is_none());
    assert_eq!(test.tasks(), ["RequestOver(1.1)"]);
    test.cancels.retire(key.name(), &test.still.hands);
    assert_eq!(test.cancels.client_of(key.name()), None);
}

#[test]
fn a_request_follows_a_client_that_an_online_restart_has_moved() {
    let mut test = CancelTest::new();
    let key = CancelKey::parse(&[0; 8]).expect("a key");
    test.cancels.take_over([(key.name(), WorkerId(1))]);
    assert!(test.cancels.heed(wish(key.clone(), None), &mut test.still.hands).is_none());
    assert!(matches!(&test.still.workers_told.lock().expect("a list")[..], [(1, ToWorker::Cancel(_))]));
    test.cancels.retire_moved(&key.name());
    assert!(test.cancels.heed(wish(key, None), &mut test.still.hands).is_some());
    // The client of a key that names another worker goes.
    test.cancels.retire(CancelKey::parse(&[1; 8]).expect("a key").name(), &test.still.hands);
    assert!(matches!(test.still.workers_told.lock().expect("a list")[1], (1, ToWorker::KeyGone(_))));
}

/// Its requester may have been told that it is over, and have sent another query.
#[test]
fn a_request_that_was_in_a_letter_for_too_long_is_not_heeded() {
    let mut test = CancelTest::new();
    let key = CancelKey::parse(&[0; 8]).expect("a key");
    let now = test.still.hands.now;
    assert!(test.cancels.heed(wish(key.clone(), Some(Time(now.0 + 1))), &mut test.still.hands).is_some());
    assert!(test.cancels.heed(wish(key, Some(now)), &mut test.still.hands).is_none());
    assert_eq!(test.tasks(), ["RequestOver(1.1)"]);
    assert_eq!(test.counted(CancelRequest::Expired), 1);
}
