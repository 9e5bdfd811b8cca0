//! Which hosts may be read from, as checks come in.

use super::*;
use crate::event::{Event, Terms};
use crate::member::{Checked, Report};

const LIMIT: LagLimit = LagLimit { bytes: Some(1000), time: None };
const SECONDS: LagLimit = LagLimit { bytes: None, time: Some(Duration::from_secs(4)) };

/// The cluster of `a`, `b` and `c`, of which `a` is the primary.
struct Play {
    cluster: Cluster,
    rotation: Rotation,
    now: u64,
    limit: LagLimit,
}

fn report(in_recovery: bool, replayed: u64) -> Checked {
    let (system, timeline, received, can_promote, delay) = (7, 1, replayed, true, None);
    Checked::Answered(Report { in_recovery, system, timeline, replayed, received, can_promote, delay })
}

fn gone() -> Checked {
    Checked::Down("connection refused".into())
}

impl Play {
    fn new(limit: LagLimit) -> Self {
        let terms = Terms {
            check_interval: Duration::from_secs(1),
            hold_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            is_fencing: true,
            can_demote: true,
        };
        let members = ["a", "b", "c"].map(Into::into).into();
        let cluster = Cluster::new(Time::from_secs(100), terms, members, Vec::new());
        Self { cluster, rotation: Rotation::default(), now: 100, limit }
    }

    /// A second passes, and the members answer this. Returns the hosts that may be read from, and what is told.
    fn checks(&mut self, answers: [Checked; 3]) -> (String, Vec<String>) {
        self.now += 1;
        let now = Time::from_secs(self.now);
        let (mut out, mut told) = (Vec::new(), Vec::new());
        self.cluster.handle(now, Event::Tick, &mut out);
        for (member, outcome) in answers.into_iter().enumerate() {
            self.cluster.handle(now, Event::Checked { member, outcome }, &mut out);
            let turn = self.rotation.look(now, &self.cluster, &BTreeSet::from([self.limit]));
            told.extend(turn.news.into_iter().map(|news| news.text));
        }
        let readable = self.rotation.readable().remove(&self.limit).unwrap_or_default();
        (readable.iter().map(|name| &**name).collect::<Vec<_>>().join(" "), told)
    }

    fn positions(&mut self, a: u64, b: u64, c: u64) -> (String, Vec<String>) {
        self.checks([report(false, a), report(true, b), report(true, c)])
    }
}

#[test]
fn a_replica_that_is_behind_is_left_and_comes_back_at_half_of_the_limit() {
    let mut play = Play::new(LIMIT);
    assert_eq!(play.positions(5000, 5000, 4000), ("a b c".into(), vec![]));
    let (hosts, told) = play.positions(6000, 5000, 4999);
    assert_eq!(hosts, "a b");
    assert_eq!(told, ["host c is 1001 B and 1.0 s behind: databases with max_lag=1000 B do not read there"]);
    assert_eq!(play.positions(6000, 6000, 5499), ("a b".into(), vec![]), "not yet");
    let (hosts, told) = play.positions(6000, 6000, 5500);
    assert_eq!(hosts, "a b c");
    assert_eq!(told, ["host c is near enough: databases with max_lag=1000 B read there again"]);
    assert_eq!(play.positions(6000, 6000, 5000), ("a b c".into(), vec![]), "the whole limit again");
}

#[test]
fn what_is_written_between_two_checks_is_no_lag() {
    let mut play = Play::new(LIMIT);
    play.positions(5000, 5000, 5000);
    // The primary answers first, and has written much since the replicas were asked.
    play.now += 1;
    let now = Time::from_secs(play.now);
    let mut out = Vec::new();
    play.cluster.handle(now, Event::Tick, &mut out);
    play.cluster.handle(now, Event::Checked { member: 0, outcome: report(false, 90_000) }, &mut out);
    let turn = play.rotation.look(now, &play.cluster, &BTreeSet::from([LIMIT]));
    assert!(!turn.is_changed, "{turn:?}");
}

#[test]
fn a_replica_is_behind_for_as_long_as_it_lacks_what_was_written() {
    let mut play = Play::new(SECONDS);
    let mut at = |number: u64, c: u64| play.positions(number * 100, number * 100, c).0;
    assert_eq!(at(1, 100), "a b c");
    // It replays nothing any more: at the second 6 it has lacked for 4 s what was written at the second 2.
    assert_eq!([2, 3, 4, 5, 6].map(|number| at(number, 100)), ["a b c"; 5]);
    assert_eq!(at(7, 100), "a b");
    // It goes on, and is always three seconds behind what was written.
    assert_eq!([8, 9, 10].map(|number| at(number, number * 100 - 400)), ["a b"; 3], "more than half");
    assert_eq!(at(11, 900), "a b c");
}

#[test]
fn an_idle_primary_leaves_nobody_behind() {
    let mut play = Play::new(SECONDS);
    for _ in 0..100 {
        assert_eq!(play.positions(100, 100, 100).0, "a b c");
    }
    // Something is written after a long time, and is not replayed yet.
    assert_eq!(play.positions(200, 100, 200).0, "a b c");
    assert_eq!(play.positions(200, 200, 200).0, "a b c");
}

#[test]
fn what_the_primary_has_not_flushed_is_no_lag() {
    let mut play = Play::new(SECONDS);
    let primary = || {
        let Checked::Answered(report) = report(false, 140) else { unreachable!() };
        Checked::Answered(Report { received: 100, ..report })
    };
    for _ in 0..20 {
        assert_eq!(play.checks([primary(), report(true, 100), report(true, 100)]).0, "a b c");
    }
}

#[test]
fn a_host_is_read_from_when_it_has_shown_where_it_is() {
    let mut play = Play::new(LIMIT);
    assert_eq!(play.checks([gone(), gone(), gone()]).0, "");
    assert_eq!(play.checks([report(false, 9000), report(true, 9000), gone()]).0, "a b");
    // One that is back is behind.
    assert_eq!(play.positions(9000, 9000, 100).0, "a b");
    assert_eq!(play.positions(9000, 9000, 9000).0, "a b c");
    // What is not answered for a moment changes nothing, and the loss of the primary nothing at the replicas.
    for _ in 0..2 {
        assert_eq!(play.checks([gone(), report(true, 9000), gone()]).0, "a b c");
    }
    let (hosts, told) = play.checks([gone(), report(true, 9000), gone()]);
    assert_eq!((&*hosts, told.len()), ("b", 2), "{told:?}");
    assert!(told[1].starts_with("host c has not shown how far it is behind:"), "{told:?}");
    // Without a primary from the start the one that has received most is the measure.
    let mut play = Play::new(LIMIT);
    assert_eq!(play.checks([gone(), report(true, 9000), report(true, 100)]).0, "b");
}

#[test]
fn a_new_primary_is_a_new_measure() {
    let mut play = Play::new(SECONDS);
    for number in 1..5 {
        play.positions(number * 1000, number * 1000, number * 1000);
    }
    assert_eq!(play.checks([gone(), report(false, 4500), report(true, 4500)]).0, "a b c");
    let lag = play.rotation.lag_of(&play.cluster, &play.cluster.members()[2]);
    assert_eq!(lag, Some(Lag::default()));
    assert_eq!(play.rotation.lag_of(&play.cluster, &play.cluster.members()[1]), None, "the primary");
}

#[test]
fn hosts_that_become_replicas_are_told() {
    let mut play = Play::new(LIMIT);
    let mut back = |answers: [Checked; 3]| {
        play.now += 1;
        let now = Time::from_secs(play.now);
        let mut back = Vec::new();
        play.cluster.handle(now, Event::Tick, &mut Vec::new());
        for (member, outcome) in answers.into_iter().enumerate() {
            play.cluster.handle(now, Event::Checked { member, outcome }, &mut Vec::new());
            back.extend(play.rotation.look(now, &play.cluster, &BTreeSet::new()).back);
        }
        back.iter().map(|name| &**name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(back([report(false, 1), report(true, 1), gone()]), "b");
    assert_eq!(back([report(false, 1), report(true, 1), report(true, 1)]), "c");
    assert_eq!(back([report(false, 1), gone(), report(true, 1)]), "");
    assert_eq!(back([report(false, 1), report(true, 1), report(true, 1)]), "b");
    assert_eq!(play.rotation.is_readable("b"), None, "no database has a limit");
}
