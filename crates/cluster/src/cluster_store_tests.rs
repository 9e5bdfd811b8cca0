//! Transcripts: what a cluster does when the store of its agents is asked, too, or when another process has known more.

use super::*;
use crate::store::StoreVersion;
use crate::succession::Heritage;

/// What the store tells: `leader` leads, and its lock lasts for 15 seconds.
fn stored(leader: &str, revision: u64) -> Result<StoreAnswer, Arc<str>> {
    let answer = view("a", leader, 1).expect("an answer");
    Ok(StoreAnswer {
        version: StoreVersion { store: 1, term: 1, revision },
        members: answer.members,
        is_paused: false,
        lock: answer.lock,
        lock_left: Some(Duration::from_secs(15)),
    })
}

/// A cluster of which agents and the store are asked.
fn with_store() -> Play {
    let mut play = Play::new(true);
    play.cluster = play.cluster.with_store(play.now, vec!["e1:2379".into()]);
    play.store = stored("a", 10);
    play.passes(2_000);
    play.said.clear();
    play
}

#[test]
fn a_change_of_the_leader_in_the_store_is_known_before_the_agents_tell_it() {
    let mut play = with_store();
    play.answers[1] = primary(2, 600);
    play.store = stored("b", 11);
    play.happens(Event::StoreChanged(Ok(())));
    assert_eq!(
        play.said(),
        [
            "the primary is lost: host a:5432 is not the leader for Patroni, which names b:5432",
            "writes are stopped: Patroni names another leader, b:5432",
            "Gate(Fenced)",
            "host b:5432 is the primary now, on timeline 2 (was a:5432)",
            "TryHosts",
            "writes go on",
            &only("b")
        ]
    );
    // The agents still tell what they knew.
    play.passes(20_000);
    assert!(
        play.said()[..1] == ["host a:5432 accepts writes, but b:5432 is the primary: no client writes to a:5432"]
            && play.said().is_empty()
    );
}

#[test]
fn a_leader_in_the_store_that_is_in_recovery_is_not_the_primary() {
    let mut play = with_store();
    play.store = stored("b", 11);
    play.passes(10_000);
    assert_eq!((play.cluster.gate(), play.cluster.role_of(1)), (&Gate::Fenced, MemberRole::Replica));
}

#[test]
fn agents_decide_while_the_store_is_silent_or_has_gone_back() {
    let mut play = with_store();
    play.store = Err("no answer within 2 s".into());
    play.leads("b", 2);
    play.answers[1] = primary(2, 600);
    play.passes(10_000);
    let said = play.said();
    let told = "etcd does not answer: e1:2379: no answer within 2 s".to_owned();
    assert_eq!(said.iter().filter(|line| **line == told).count(), 1, "{said:?}");
    assert_eq!((play.cluster.gate(), play.state()), (&Gate::Only("b:5432".into()), State::Steady), "{said:?}");
    play.store = stored("a", 9);
    play.passes(30_000);
    assert_eq!((play.cluster.gate(), play.state()), (&Gate::Only("b:5432".into()), State::Steady), "{said:?}");
    play.store = stored("b", 12);
    play.passes(10_000);
    assert_eq!(play.said().last().map(String::as_str), Some("etcd answers again"));
}

#[test]
fn the_store_confirms_the_lock_where_the_agent_is_silent() {
    let mut play = with_store();
    play.views[0] = Err("connection refused".into());
    play.passes(120_000);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Steady));
    // The lock is not renewed any more.
    let (end, mut revision) = (play.now + Duration::from_secs(15), 11);
    while play.state() == State::Steady {
        let left = end.since(play.now);
        revision += 1;
        play.store = stored("a", revision).map(|answer| StoreAnswer { lock_left: Some(left), ..answer });
        play.passes(500);
    }
    let left = end.since(play.now);
    assert!(left >= Duration::from_millis(500) && left <= Duration::from_millis(1_500), "{left:?}");
    assert_eq!(play.cluster.gate(), &Gate::Fenced);
}

/// A cluster in a process that takes over from another one, which has known until when `a` holds the lock.
fn inherited(lease: Option<u64>) -> Play {
    let mut play = Play::new(true);
    let lease = lease.map(|secs| play.now + Duration::from_secs(secs));
    let heritage = Heritage { primary: "a:5432".into(), timeline: 3, system: Some(7), lease, is_fenced: false };
    play.cluster.inherit(play.now, &heritage);
    play
}

#[test]
fn the_next_process_writes_no_longer_than_the_one_before_would_have() {
    let mut play = inherited(Some(8));
    assert_eq!(play.cluster.gate(), &Gate::Only("a:5432".into()));
    play.answers[0] = primary(3, 500);
    play.views[0] = Err("connection refused".into());
    let start = play.now;
    play.passes(7_900);
    assert_eq!(
        (play.said(), play.state()),
        (vec!["host a:5432 is the primary again, after 0.0 s".to_owned(), "TryHosts".to_owned()], State::Steady)
    );
    play.passes(200);
    assert_eq!((play.cluster.gate(), play.now.since(start)), (&Gate::Fenced, Duration::from_millis(8_100)));
    play.views[0] = view("a", "a", 3);
    play.passes(1_000);
    assert_eq!((play.cluster.gate(), play.state()), (&Gate::Only("a:5432".into()), State::Steady));
}

#[test]
fn the_next_process_knows_the_newest_timeline_and_who_belongs_to_the_cluster() {
    let mut play = inherited(None);
    play.views = ["a", "b", "c"].map(|_| Err("connection refused".into())).into();
    // A former primary is alone there, and the others are of another cluster.
    play.answers = [refused(), primary(2, 900), refused()];
    play.passes(30_000);
    assert_eq!((play.cluster.gate(), play.state()), (&Gate::Only("a:5432".into()), State::Degraded));
    play.answers[0] = primary(3, 500);
    play.passes(2_000);
    assert_eq!((play.cluster.gate(), play.cluster.role_of(1)), (&Gate::Only("a:5432".into()), MemberRole::Fenced));
    let heritage = play.cluster.heritage().expect("a primary");
    assert_eq!(
        (&*heritage.primary, heritage.timeline, heritage.system, heritage.is_fenced),
        ("a:5432", 3, Some(7), false)
    );
}

#[test]
fn a_member_that_another_process_was_told_stays_until_agents_say_otherwise() {
    let play = Play::new(true);
    let places = |port: u16| ["c", "a", "b"].map(|name| Arc::from(format!("{name}:{port}"))).to_vec();
    let mut play =
        Play { cluster: Cluster::new(play.now, TERMS, places(5432), places(8008)).told_by_agents(None), ..play };
    play.answers = [replica(1, 500), primary(1, 500), replica(1, 500)];
    play.views = ["c", "a", "b"].map(|own| view(own, "a", 1)).into();
    play.passes(10_000);
    assert_eq!(play.said(), ["host a:5432 is the primary, on timeline 1", "TryHosts", &only("a")]);
}
