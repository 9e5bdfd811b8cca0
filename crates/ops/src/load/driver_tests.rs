//! The generator against a responder that answers at once, and against one that does not answer at all.

use std::net::TcpListener;

use super::super::null::NullResponder;
use super::super::session::{Login, LoginTimes, Place};
use super::super::tally::Tally;
use super::*;

fn lane(address: std::net::SocketAddr, clients_max: u32) -> Lane {
    let login = Login {
        place: Place::Tcp(address),
        user: "u".into(),
        database: "d".into(),
        secret: Arc::new(auth::Secret::default()),
        name: "load".into(),
        tls: None,
    };
    Lane { login: Arc::new(login), clients_max, waiting_max: 100_000, requests_max: 0, idle_max: None, lifetime: None }
}

/// Requests at given times, or by a user who asks as soon as there is an answer.
struct Simple {
    /// When requests are due, the last first.
    times: Vec<u64>,
    next: Option<u64>,
    is_closed: bool,
    until: u64,
    steps: Vec<Step>,
    tally: Tally,
    logins: u32,
    refused: u32,
    closed: u32,
}

impl Simple {
    fn new(mut times: Vec<u64>, seconds: f64) -> Self {
        times.reverse();
        let next = times.pop();
        Self {
            times,
            next,
            is_closed: false,
            until: (seconds * 1e6) as u64,
            steps: vec![Step::Ask("select 1".into())],
            tally: Tally::new(u64::MAX),
            logins: 0,
            refused: 0,
            closed: 0,
        }
    }

    fn play(&mut self, lane: Lane) -> Effort {
        let patience = Patience { request_max: 2_000_000, drain_max: 1_000_000 };
        let mut driver = Driver::new(patience, 1).expect("a driver");
        driver.add_lane(lane);
        driver.play(self, &mut |_| true).expect("a run")
    }
}

impl Traffic for Simple {
    fn next_at(&self) -> Option<u64> {
        self.next.filter(|at| *at < self.until)
    }

    fn due(&mut self, _now: u64, orders: &mut Vec<Order>) {
        let Some(at) = self.next.take() else { return };
        orders.push(Order::Send(Request { at, lane: 0, tag: 7, steps: self.steps.clone() }));
        if !self.is_closed {
            self.next = self.times.pop();
        }
    }

    fn ended(&mut self, now: u64, ended: &Ended) {
        assert_eq!((ended.tag, ended.lane), (7, 0));
        self.tally.note(&ended.passage);
        if self.is_closed {
            self.next = Some(now);
        }
    }

    fn opened(&mut self, _lane: u32, opened: Result<&LoginTimes, &Refused>) {
        match opened {
            Ok(times) => {
                assert!(times.began <= times.connected && times.connected <= times.authenticated);
                assert!(times.authenticated <= times.ready);
                self.logins += 1;
            }
            Err(_) => self.refused += 1,
        }
    }

    fn closed(&mut self, _lane: u32) {
        self.closed += 1;
    }
}

#[test]
fn all_requests_of_an_open_loop_are_answered_and_in_one_counter() {
    let responder = NullResponder::start().expect("a responder");
    let mut traffic = Simple::new((0..1000).map(|number| number / 4 * 2000).collect(), 0.5);
    traffic.steps = vec![Step::Ask("begin".into()), Step::Think(500), Step::Ask("commit".into())];
    let effort = traffic.play(lane(responder.address(), 4));
    let tally = &traffic.tally;
    assert!(tally.done > 800 && tally.offered() == tally.done, "{tally:?}");
    assert!(tally.response.histogram().min() >= 500, "it thinks in between");
    assert_eq!((traffic.logins, effort.clients_peak, traffic.closed), (4, 4, 4));
    assert!(effort.cpu > 0 && effort.wall >= 400_000);
}

#[test]
fn a_closed_loop_of_one_user_has_one_connection_and_asks_when_it_is_answered() {
    let responder = NullResponder::start().expect("a responder");
    let mut traffic = Simple::new(vec![0], 0.2);
    traffic.is_closed = true;
    let effort = traffic.play(lane(responder.address(), 0));
    assert!(traffic.tally.done > 100 && effort.clients_peak == 1);
}

#[test]
fn connections_end_after_as_many_requests_as_they_may_have() {
    let responder = NullResponder::start().expect("a responder");
    for (most, wanted) in [(1, 200), (10, 20)] {
        let times = (0..200).map(|n| n * 1000).collect();
        let mut traffic = Simple::new(times, 10.0);
        traffic.play(Lane { requests_max: most, ..lane(responder.address(), 1) });
        assert_eq!((traffic.tally.done, traffic.logins), (200, wanted));
    }
    let times = (0..20).map(|n| n * 10_000).collect();
    let mut traffic = Simple::new(times, 10.0);
    traffic.play(Lane { idle_max: Some(2000), ..lane(responder.address(), 1) });
    assert!((15..=20).contains(&traffic.logins), "{}", traffic.logins);
}

#[test]
fn what_is_not_answered_is_counted_by_how_it_ended() {
    // It accepts, and says nothing.
    let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = silent.local_addr().expect("an address");
    let mut traffic = Simple::new(vec![0, 0, 0, 1000], 10.0);
    let mut driver = Driver::new(Patience { request_max: 50_000, drain_max: 1_000_000 }, 1).expect("a driver");
    driver.add_lane(Lane { waiting_max: 2, ..lane(address, 1) });
    driver.play(&mut traffic, &mut |_| true).expect("a run");
    let tally = &traffic.tally;
    assert_eq!((tally.timed_out, tally.skipped, tally.offered()), (3, 1, 4));
    assert!(tally.percentile(99.0).is_at_least && tally.percentile(99.0).micros >= 49_000);
    // Nobody listens.
    drop(silent);
    let mut traffic = Simple::new(vec![0], 10.0);
    traffic.play(lane(address, 1));
    assert_eq!((traffic.tally.errored, traffic.refused), (1, 1));
}

#[test]
fn a_run_that_is_ended_early_abandons_what_is_under_way() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let mut traffic = Simple::new(vec![0, 0], 10.0);
    let mut driver = Driver::new(Patience { request_max: u64::MAX / 2, drain_max: 0 }, 1).expect("a driver");
    driver.add_lane(lane(silent.local_addr().expect("an address"), 1));
    let mut looks = 0;
    let mut goes_on = |_| {
        looks += 1;
        looks < 3
    };
    driver.play(&mut traffic, &mut goes_on).expect("a run");
    assert_eq!((traffic.tally.abandoned, traffic.tally.offered()), (2, 2));
}
