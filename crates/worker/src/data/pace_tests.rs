//! Clients that send much, on a kernel without connections.

use std::rc::Rc;

use base::Key;
use protocol::cancel::CancelKey;
use protocol::loan::ClientSession;
use protocol::vars::Vars;
use reactor::{Conn, Peer, Receive};

use super::*;
use crate::data::client::{LimitSlots, Ready};
use crate::letters::AddressSource;
use crate::still::{NOW, StillWorker};

/// Puts in a client whose bytes have no other consequence: it is about to leave.
fn client(still: &mut StillWorker, number: u32) -> Key {
    let worker = &mut still.worker;
    let vars = Rc::new(Vars::new(&worker.hands.active.tracked));
    let cancel_key = CancelKey::parse(&[number as u8; 8]).expect("a key");
    let ready = Ready::new(Key::NOWHERE, ClientSession::new(0, vars), cancel_key);
    let client = Client {
        conn: Conn::first(number),
        id: u64::from(number),
        peer: Peer::Unix { pid: 1, uid: None },
        address_source: AddressSource::Socket,
        security: None,
        since: NOW,
        last_received: NOW,
        answered: NOW,
        timer: None,
        slots: LimitSlots::default(),
        is_own: false,
        is_listener: false,
        tracers: 0,
        stage: ClientStage::Ready(Ready { is_leaving: true, ..ready }),
    };
    worker.clients.insert(client).expect("there is room")
}

/// A client sends so many bytes.
fn sends(still: &mut StillWorker, key: Key, bytes: usize) {
    still.worker.client_received(key, vec![0; bytes].into());
}

/// What the kernel was told since the last call about receiving.
fn wishes(still: &StillWorker) -> Vec<(u32, Option<Receive>)> {
    std::mem::take(&mut *still.wishes.borrow_mut()).into_iter().map(|(conn, how)| (conn.index, how)).collect()
}

/// Everything that had arrived was read in one turn: megabytes, if clients sent long texts.
#[test]
fn of_forty_clients_that_send_much_few_are_received_from_in_a_turn_one_after_the_other() {
    let mut still = StillWorker::with_pools(0);
    let keys: Vec<Key> = (0..40).map(|number| client(&mut still, number)).collect();
    keys.iter().for_each(|key| sends(&mut still, *key, 8192));
    assert_eq!(wishes(&still), (0..40).map(|number| (number, None)).collect::<Vec<_>>(), "all are paused");
    let mut order = Vec::new();
    for _ in 0..80 / CLIENTS_PER_TURN {
        assert_eq!(still.worker.next_deadline(), Some(NOW), "the next turn follows at once");
        still.worker.turn(&mut Vec::new());
        let received: Vec<u32> = wishes(&still)
            .into_iter()
            .map(|(conn, how)| {
                assert_eq!(how, Some(Receive::Once));
                conn
            })
            .collect();
        assert_eq!(received.len(), CLIENTS_PER_TURN);
        received.iter().for_each(|conn| sends(&mut still, keys[*conn as usize], 8192));
        wishes(&still);
        order.extend(received);
    }
    assert_eq!(order, (0..40).chain(0..40).collect::<Vec<_>>(), "each in its turn");
}

#[test]
fn a_client_that_sends_little_again_is_received_from_as_before() {
    let mut still = StillWorker::with_pools(0);
    let key = client(&mut still, 1);
    sends(&mut still, key, 100);
    assert_eq!(wishes(&still), [], "a short request changes nothing");
    sends(&mut still, key, 8192);
    sends(&mut still, key, 8192);
    assert_eq!(wishes(&still), [(1, None), (1, None)], "what had been received before it was paused");
    still.worker.turn(&mut Vec::new());
    assert_eq!(wishes(&still), [(1, Some(Receive::Once))], "it stands in the line once");
    for _ in 0..LITTLE_MAX {
        sends(&mut still, key, 100);
        assert_eq!(wishes(&still), [(1, Some(Receive::Once))], "its next long text does not come all at once");
        assert!(!still.worker.paced.is_any_waiting(), "a short request waits for no turn");
    }
    sends(&mut still, key, 100);
    assert_eq!(wishes(&still), [(1, Some(Receive::Stream))]);
    sends(&mut still, key, 100);
    assert_eq!(wishes(&still), []);
}

#[test]
fn a_paused_client_loses_its_turn_and_takes_another_when_it_is_resumed() {
    let mut still = StillWorker::with_pools(0);
    let key = client(&mut still, 1);
    sends(&mut still, key, 8192);
    still.worker.pause_client(key);
    wishes(&still);
    still.worker.turn(&mut Vec::new());
    assert_eq!(wishes(&still), []);
    still.worker.resume_client(key);
    assert_eq!(wishes(&still), [], "more may have arrived than a turn should read");
    still.worker.turn(&mut Vec::new());
    assert_eq!(wishes(&still), [(1, Some(Receive::Once))]);
}

#[test]
fn a_client_that_is_resumed_before_its_turn_keeps_it() {
    let mut still = StillWorker::with_pools(0);
    let key = client(&mut still, 1);
    sends(&mut still, key, 8192);
    still.worker.pause_client(key);
    still.worker.resume_client(key);
    wishes(&still);
    still.worker.turn(&mut Vec::new());
    assert_eq!(wishes(&still), [(1, Some(Receive::Once))]);
    assert!(!still.worker.paced.is_any_waiting());
}

/// Clients that have left, or that may not be received from now, would leave less of a turn to the others.
#[test]
fn only_clients_that_are_received_from_count_as_those_of_a_turn() {
    let mut still = StillWorker::with_pools(0);
    let keys: Vec<Key> = (0..40).map(|number| client(&mut still, number)).collect();
    keys.iter().for_each(|key| sends(&mut still, *key, 8192));
    still.worker.clients.remove(keys[0]);
    still.worker.pause_client(keys[1]);
    wishes(&still);
    still.worker.turn(&mut Vec::new());
    let expected = 2..2 + CLIENTS_PER_TURN as u32;
    assert_eq!(wishes(&still), expected.map(|conn| (conn, Some(Receive::Once))).collect::<Vec<_>>());
}

#[test]
fn a_suspended_worker_lets_nobody_wait_for_a_turn() {
    let mut still = StillWorker::with_pools(0);
    let (waiting, paused) = (client(&mut still, 1), client(&mut still, 2));
    sends(&mut still, waiting, 8192);
    sends(&mut still, paused, 8192);
    still.worker.pause_client(paused);
    wishes(&still);
    still.worker.suspend(false);
    assert_eq!(wishes(&still), [(1, Some(Receive::Stream))], "until it has come to rest");
    sends(&mut still, waiting, 8192);
    still.worker.resume_client(paused);
    assert!(!still.worker.paced.is_any_waiting());
    assert_eq!(wishes(&still), [(2, Some(Receive::Stream))]);
}

#[test]
fn a_client_that_has_had_its_turn_and_is_resumed_by_a_suspended_worker_waits_for_none() {
    let mut still = StillWorker::with_pools(0);
    let key = client(&mut still, 1);
    sends(&mut still, key, 8192);
    still.worker.turn(&mut Vec::new());
    still.worker.pause_client(key);
    still.worker.suspend(false);
    wishes(&still);
    still.worker.resume_client(key);
    assert!(!still.worker.paced.is_any_waiting());
    assert_eq!(wishes(&still), [(1, Some(Receive::Stream))]);
}

/// Reading everybody again after a suspension would let a client that waits for its turn send everything at once.
#[test]
fn after_a_suspension_each_client_is_received_from_as_its_pace_says() {
    let mut still = StillWorker::with_pools(0);
    let keys: Vec<Key> = (0..3).map(|number| client(&mut still, number)).collect();
    sends(&mut still, keys[1], 8192);
    still.worker.turn(&mut Vec::new());
    sends(&mut still, keys[2], 8192);
    wishes(&still);
    still.worker.hear_everybody();
    assert_eq!(wishes(&still), [(0, Some(Receive::Stream)), (1, Some(Receive::Once))]);
}
