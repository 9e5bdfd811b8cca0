//! Transcripts: what a cluster does about hosts that do not answer.

use super::*;

#[test]
fn a_replica_that_is_silent_is_left_once() {
    let mut play = Play::steady(false);
    play.answers[2] = Checked::Silent;
    play.passes(1_500);
    assert!(play.said().is_empty());
    play.passes(20_000);
    assert_eq!(play.said(), ["host c:5432 does not answer: nobody reads there", "LeaveReplica(2)"]);
    play.answers[2] = replica(1, 400);
    play.passes(2_000);
    play.answers[2] = refused();
    play.passes(20_000);
    assert!(play.said().is_empty(), "a refused connection ends by itself");
}

#[test]
fn a_replica_whose_network_is_gone_is_told_once_and_left_whenever_it_is_silent() {
    let mut play = Play::steady(false);
    let left = "LeaveReplica(2)".to_owned();
    // The kernel says "no route to host" every few seconds, and nothing in between.
    for time in 0..3 {
        play.answers[2] = Checked::Silent;
        play.passes(5_000);
        let said = play.said();
        assert_eq!((said.len(), said.last()), (if time == 0 { 2 } else { 1 }, Some(&left)), "{said:?}");
        play.answers[2] = refused();
        play.passes(2_000);
    }
    play.answers[2] = replica(1, 400);
    play.passes(2_000);
    play.answers[2] = Checked::Silent;
    play.passes(5_000);
    assert_eq!(play.said(), ["host c:5432 does not answer: nobody reads there".to_owned(), left]);
}

#[test]
fn one_unanswered_check_is_no_loss_and_three_in_two_seconds_are() {
    let mut play = Play::steady(false);
    play.answers[0] = Checked::Silent;
    play.passes(1_500);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Steady));
    play.passes(2_500);
    assert_eq!(play.said(), ["the primary is lost: host a:5432 cannot be asked: no answer"]);
}
