//! Transcripts: what a cluster does about hosts that do not answer.

use super::*;

const SUSPECT: &str = "host c:5432 has not answered for 0.3 s: what begins now begins elsewhere";
const BACK: &str = "host c:5432 answers again";

#[test]
fn a_replica_that_is_silent_is_left_once() {
    let mut play = Play::steady(false);
    play.answers[2] = Checked::Silent;
    play.passes(1_500);
    assert_eq!(play.said(), [SUSPECT]);
    play.passes(20_000);
    assert_eq!(play.said(), ["host c:5432 does not answer: nobody reads there", "LeaveReplica(2)"]);
    play.answers[2] = replica(1, 400);
    play.passes(2_000);
    assert_eq!(play.said(), [BACK]);
    play.answers[2] = refused();
    play.passes(20_000);
    assert!(play.said().is_empty(), "a refused connection ends by itself");
}

#[test]
fn a_replica_whose_network_is_gone_is_told_once_and_left_whenever_it_is_silent() {
    let mut play = Play::steady(false);
    let left = "LeaveReplica(2)".to_owned();
    // How suspicion comes and goes is told each time.
    let said = |play: &mut Play| -> Vec<String> {
        let is_about_loss = |line: &String| !line.contains("begins elsewhere") && !line.contains("cannot be asked");
        play.said().into_iter().filter(is_about_loss).collect()
    };
    // The kernel says "no route to host" every few seconds, and nothing in between.
    for time in 0..3 {
        play.answers[2] = Checked::Silent;
        play.passes(5_000);
        let said = said(&mut play);
        assert_eq!((said.len(), said.last()), (if time == 0 { 2 } else { 1 }, Some(&left)), "{said:?}");
        play.answers[2] = refused();
        play.passes(2_000);
    }
    play.answers[2] = replica(1, 400);
    play.passes(2_000);
    said(&mut play);
    play.answers[2] = Checked::Silent;
    play.passes(5_000);
    assert_eq!(said(&mut play), ["host c:5432 does not answer: nobody reads there".to_owned(), left]);
}

#[test]
fn one_unanswered_check_is_no_loss_and_three_in_two_seconds_are() {
    let mut play = Play::steady(false);
    play.answers[0] = Checked::Silent;
    play.passes(1_500);
    assert_eq!((play.said().len(), play.state()), (1, State::Steady));
    play.passes(2_500);
    assert_eq!(play.said(), ["the primary is lost: host a:5432 cannot be asked: no answer"]);
}

/// Lets time pass to the next check, of which the member `c` does not answer.
fn late(play: &mut Play) {
    play.unanswered = vec![2];
    while play.cluster.members[2].under_way.is_none() {
        play.passes(10);
    }
}

#[test]
fn a_host_whose_check_is_late_is_suspect_until_it_answers() {
    let mut play = Play::steady(false);
    late(&mut play);
    play.passes(290);
    assert_eq!((play.said(), play.suspects.clone()), (vec![], vec![]));
    play.passes(20);
    assert_eq!((play.said(), play.suspects.clone()), (vec![SUSPECT.to_owned()], vec![2]));
    assert_eq!(play.replayed, ["b:5432"], "reads that are routed begin elsewhere");
    assert!(play.cluster.is_suspect(2) && play.cluster.role_of(2) == MemberRole::Replica, "it is not lost");
    let answer = Event::Checked { member: 2, outcome: replica(1, 500) };
    play.happens(answer.clone());
    assert_eq!((play.said(), play.suspects.clone()), (vec![BACK.to_owned()], vec![]));
    assert_eq!(play.replayed, ["b:5432", "c:5432"]);
    // It is slow now and then: the next time it is given longer, and after some minutes no longer.
    late(&mut play);
    play.passes(700);
    assert!(play.suspects.is_empty());
    play.unanswered.clear();
    play.happens(answer);
    play.passes(600_000);
    assert!(play.said().is_empty() && play.suspects.is_empty());
    late(&mut play);
    play.passes(310);
    assert_eq!(play.suspects, [2]);
}

#[test]
fn a_pooler_that_is_slow_itself_suspects_nobody() {
    // Nobody answers.
    let mut other = Play::steady(false);
    other.unanswered = vec![0, 1, 2];
    other.passes(20_000);
    assert!(other.suspects.is_empty() && other.said().is_empty());
    // It has stood still for a second: the answer is read with its next look.
    let mut play = Play::steady(false);
    late(&mut play);
    play.now = play.now + Duration::from_secs(1);
    play.happens(Event::Tick);
    assert!(play.suspects.is_empty());
    play.unanswered.clear();
    play.happens(Event::Checked { member: 2, outcome: replica(1, 500) });
    play.passes(1_000);
    assert!(play.suspects.is_empty() && play.said().is_empty());
}

#[test]
fn the_others_are_asked_at_once_whether_they_answer() {
    let mut play = Play::steady(false);
    for member in &mut play.cluster.members[..2] {
        member.due = play.now + Duration::from_secs(60);
    }
    late(&mut play);
    play.passes(310);
    assert_eq!(play.suspects, [2]);
}

/// The machine of these members takes the place of the one that plays.
fn succeed<const N: usize>(play: &mut Play, names: [&str; N]) {
    let places = names.map(|name| Arc::from(format!("{name}:5432"))).to_vec();
    let mut next = Cluster::new(play.now, TERMS, places, Vec::new());
    next.succeed(play.now, &play.cluster);
    play.cluster = next;
}

#[test]
fn a_suspect_host_that_has_left_is_not_suspect_when_it_comes_back() {
    let mut play = Play::steady(false);
    late(&mut play);
    play.passes(400);
    assert_eq!(play.suspects, [2]);
    succeed(&mut play, ["a", "b"]);
    play.happens(Event::Tick);
    assert!(play.suspects.is_empty(), "the workers know of it by its name");
    play.unanswered.clear();
    succeed(&mut play, ["a", "b", "c"]);
    play.passes(5_000);
    assert!(play.suspects.is_empty() && play.said().len() == 1);
}

#[test]
fn another_machine_goes_on_with_a_suspicion_until_the_host_answers() {
    let mut play = Play::steady(false);
    late(&mut play);
    play.passes(400);
    assert_eq!(play.suspects, [2]);
    succeed(&mut play, ["a", "c"]);
    play.unanswered = vec![1];
    play.passes(5_000);
    assert_eq!(play.suspects, [1]);
    play.answers[1] = replica(1, 500);
    play.happens(Event::Checked { member: 1, outcome: replica(1, 500) });
    assert!(play.suspects.is_empty());
}

/// The checks of the member `c` end with this after so long, until the time is over.
fn ends_after(play: &mut Play, outcome: &Checked, millis: u64, over: Duration) {
    let end = play.now + over;
    play.unanswered = vec![2];
    while play.now < end {
        while play.cluster.members[2].under_way.is_none() {
            play.passes(10);
        }
        play.passes(millis);
        play.happens(Event::Checked { member: 2, outcome: outcome.clone() });
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_host_that_refuses_slowly_is_told_once() {
    for outcome in [refused(), Checked::Refused("too many clients".into()), Checked::Silent] {
        let mut play = Play::steady(false);
        ends_after(&mut play, &outcome, 400, MINUTE);
        let told = |play: &mut Play| play.said().into_iter().filter(|line| !line.contains("nobody reads")).count();
        // A host that was never up is not suspect.
        assert!(told(&mut play) <= 2 && play.suspects == [2], "{outcome:?}");
        ends_after(&mut play, &replica(1, 500), 400, MINUTE);
        assert_eq!((play.said(), play.suspects.clone()), (vec![BACK.to_owned()], vec![]));
    }
    let mut play = Play::new(false);
    ends_after(&mut play, &Checked::Denied("no password".into()), 400, MINUTE);
    assert!(play.suspects.is_empty() && play.said().iter().all(|line| !line.contains("begins elsewhere")));
}

#[test]
fn a_host_that_was_suspect_and_refuses_connections_then_has_not_answered() {
    let mut play = Play::steady(false);
    late(&mut play);
    play.passes(400);
    play.said.clear();
    play.unanswered.clear();
    play.answers[2] = refused();
    play.happens(Event::Checked { member: 2, outcome: refused() });
    play.passes(60_000);
    assert_eq!((play.said(), play.suspects.clone()), (vec![], vec![2]), "workers would try it at once");
    play.answers[2] = replica(1, 500);
    play.passes(1_000);
    assert_eq!((play.said(), play.suspects.clone()), (vec![BACK.to_owned()], vec![]));
}

#[test]
fn a_host_that_answers_now_and_then_is_told_ever_more_rarely() {
    let mut play = Play::steady(false);
    for _ in 0..100 {
        ends_after(&mut play, &Checked::Silent, 1_000, Duration::from_millis(2_100));
        ends_after(&mut play, &replica(1, 500), 0, Duration::from_millis(2_500));
    }
    let said = play.said();
    assert!(said.len() <= 12 && said.iter().any(|line| line == BACK), "{said:?}");
    // Once it answers for a while, all is forgotten.
    ends_after(&mut play, &replica(1, 500), 0, 3 * MINUTE);
    assert!(play.suspects.is_empty());
    play.said.clear();
    late(&mut play);
    play.passes(1_300);
    play.happens(Event::Checked { member: 2, outcome: replica(1, 500) });
    assert_eq!((play.said().len(), play.suspects.len()), (2, 0));
}

#[test]
fn for_how_long_a_host_was_silent_is_not_how_slow_it_is() {
    let mut play = Play::steady(false);
    play.answers[2] = Checked::Silent;
    play.passes(60_000);
    play.answers[2] = replica(1, 500);
    play.passes(180_000);
    play.said.clear();
    late(&mut play);
    play.passes(310);
    assert_eq!(play.suspects, [2]);
}
