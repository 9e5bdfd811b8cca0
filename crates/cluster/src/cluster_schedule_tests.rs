//! Transcripts: what a cluster does when its agents tell of a switchover that they will carry out at a certain time.

use super::*;

/// The agents are to switch over from `a` to `b` in so many milliseconds.
fn planned_in(play: &mut Play, millis: u64) {
    let planned = PlannedSwitchover {
        at: "10:00:00+00:00".into(),
        left: None,
        from: Some("node-a".into()),
        to: Some("node-b".into()),
    };
    play.planned = Some((play.now + Duration::from_millis(millis), planned));
}

impl Play {
    /// What an agent tells now. Its clock shows full seconds.
    pub(super) fn answer_of(&self, agent: usize) -> Event {
        let clock = Time::from_secs(self.now.0 / 1_000_000);
        let planned = self.planned.as_ref().map(|(at, planned)| {
            let left = (*at >= clock).then(|| at.since(clock).saturating_sub(Duration::from_secs(1)));
            PlannedSwitchover { left, ..planned.clone() }
        });
        let answer = self.views[agent].clone().map(|answer| AgentAnswer { planned, ..answer });
        Event::AgentTold { agent, answer }
    }

    /// Lets time pass until it is so long before the switchover.
    fn passes_until(&mut self, millis_before: u64) {
        let at = self.planned.as_ref().expect("a plan").0;
        while self.now + Duration::from_millis(millis_before) < at {
            self.passes(10);
        }
    }
}

const TOLD: &str = "Patroni will switch over at 10:00:00+00:00 from node-a to node-b";
const HELD: [&str; 4] = [
    "Patroni switches over at 10:00:00+00:00 from node-a to node-b",
    "switchover: holding new transactions, waiting for open ones",
    "Gate(Held)",
    "Drain",
];

/// Lets time pass until clients are held. Returns how long before the time that is.
fn held_before(play: &mut Play) -> Duration {
    let at = play.planned.as_ref().expect("a plan").0;
    while play.cluster.gate() != &Gate::Held {
        assert!(play.now < at + Duration::from_secs(1), "nobody is held: {:?}", play.said);
        play.passes(10);
    }
    at.since(play.now)
}

#[test]
fn clients_are_held_shortly_before_and_until_another_member_is_the_primary() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 60_300);
    play.passes(1_000);
    assert_eq!(play.said(), [TOLD]);
    assert_eq!(play.cluster.scheduled().as_deref(), Some("10:00:00+00:00 from node-a to node-b"));
    play.passes(28_000);
    assert!(play.said().is_empty());
    play.passes(2_500);
    assert_eq!(play.said(), ["Checkpoint(0)"]);
    play.checkpointed(Ok(()));
    // The clock of the agent shows full seconds, and is asked four times in one.
    let before = held_before(&mut play);
    assert!((500..=800).contains(&before.as_millis()), "{before:?}");
    assert_eq!(play.said(), HELD);
    assert_eq!((play.state(), play.cluster.waits_for()), (State::Draining, Some("the end of open transactions")));
    play.happens(Event::Drained);
    assert_eq!((play.state(), play.cluster.waits_for()), (State::Hold, Some("Patroni's switchover")));
    play.passes(1_500);
    play.answers[0] = refused();
    play.leads("", 1);
    play.passes(1_000);
    assert!(play.said().is_empty(), "that was expected");
    (play.planned, play.answers[1]) = (None, primary(2, 600));
    play.leads("b", 2);
    play.passes(400);
    let said = play.said();
    assert_eq!(said[0], "host b:5432 is the primary now, on timeline 2 (was a:5432)");
    assert!(said.iter().any(|line| line.starts_with("done: switched over from a:5432 to b:5432 in 2.")), "{said:?}");
    assert!(said.contains(&only("b")) && play.cluster.scheduled().is_none());
    play.passes(120_000);
    assert!(play.said().is_empty());
}

#[test]
fn a_switchover_that_is_called_off_is_waited_for_no_longer() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 20_000);
    play.passes(1_000);
    play.planned = None;
    play.passes(1_000);
    assert_eq!(
        play.said(),
        [TOLD, "Checkpoint(0)", "Patroni will not switch over at 10:00:00+00:00 from node-a to node-b"]
    );
    planned_in(&mut play, 20_000);
    held_before(&mut play);
    play.said.clear();
    play.planned = None;
    play.passes(300);
    let said = play.said();
    assert!(said.contains(&"failed: Patroni has called it off".to_owned()) && said.contains(&only("a")), "{said:?}");
}

#[test]
fn a_switchover_that_does_not_begin_holds_clients_for_some_seconds_and_once_a_minute() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 3_000);
    held_before(&mut play);
    play.said.clear();
    play.passes(9_000);
    assert_eq!((play.said(), play.cluster.gate()), (vec![], &Gate::Held));
    play.passes(2_000);
    assert!(play.said().contains(&NOT_DONE.to_owned()));
    assert_eq!(play.cluster.gate(), &Gate::Only("a:5432".into()));
    // Whatever it tells then.
    for _ in 0..4 {
        planned_in(&mut play, 5_000);
        play.planned.as_mut().expect("a plan").1.at = play.now.0.to_string().into();
        play.passes(10_000);
        assert_eq!(play.cluster.gate(), &Gate::Only("a:5432".into()));
    }
    planned_in(&mut play, 15_000);
    held_before(&mut play);
}

const NOT_DONE: &str = "failed: Patroni has not begun at its time, and the primary is the same";

#[test]
fn a_switchover_that_has_not_begun_is_over_once_the_same_primary_has_answered_since() {
    for is_refused in [true, false] {
        let mut play = Play::steady(true);
        planned_in(&mut play, 3_000);
        held_before(&mut play);
        play.passes(8_000);
        let due = play.planned.as_ref().expect("a plan").0;
        assert_eq!((play.state(), play.cluster.waits_for()), (State::Hold, Some("Patroni's switchover")));
        while play.now < due + Duration::from_millis(9_500) {
            play.passes(10);
        }
        play.said.clear();
        // When ten seconds are over, it is not proved, or has not answered since.
        if is_refused {
            play.answers[0] = refused();
        } else {
            play.unanswered = vec![0];
        }
        play.passes(700);
        assert_eq!(play.cluster.gate(), &Gate::Held);
        if !is_refused {
            play.happens(Event::Checked { member: 0, outcome: primary(1, 500) });
            assert_eq!(play.cluster.gate(), &Gate::Held, "it may have been shut down after that question");
            play.unanswered.clear();
            play.happens(Event::Checked { member: 0, outcome: primary(1, 500) });
        }
        play.answers[0] = primary(1, 500);
        play.passes(200);
        assert!(play.said().contains(&NOT_DONE.to_owned()), "{is_refused}");
        assert_eq!(play.cluster.gate(), &Gate::Only("a:5432".into()));
    }
}

#[test]
fn the_time_that_clients_are_held_for_is_bounded_also_without_a_primary() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 3_000);
    held_before(&mut play);
    play.said.clear();
    play.answers[0] = refused();
    play.leads("", 1);
    play.passes(29_000);
    assert_eq!(play.said(), [LEASE_OVER, "Gate(Fenced)"], "the lock of the former primary has run out");
    play.passes(2_000);
    let failed = "failed: hold_timeout is over, it waited for Patroni's switchover";
    assert!(play.said().contains(&failed.to_owned()));
    assert_eq!(play.cluster.gate(), &Gate::Fenced);
}

const LEASE_OVER: &str =
    "writes are stopped: Patroni on the primary a:5432 has not confirmed its leader lock, which may have run out";

#[test]
fn what_is_open_while_clients_are_held_ends_with_the_lease() {
    // Transactions are open at `a`, so that nothing is drained, and its agent hangs.
    let mut play = Play::steady(true);
    planned_in(&mut play, 8_000);
    play.passes(1_000);
    play.views[0] = Err("timeout".into());
    let since = play.now;
    held_before(&mut play);
    play.said.clear();
    while play.cluster.gate() == &Gate::Held {
        play.passes(100);
        assert!(play.now.since(since) < Duration::from_secs(15), "the lease is over");
    }
    assert_eq!((play.said(), play.state()), (vec![LEASE_OVER.to_owned(), "Gate(Fenced)".to_owned()], State::Fenced));
    // It answers once more: clients are held as before, until the new primary is there.
    play.leads("a", 1);
    play.passes(300);
    assert_eq!(play.said(), ["Gate(Held)"]);
    (play.planned, play.answers[1]) = (None, primary(2, 600));
    play.leads("b", 2);
    play.passes(400);
    assert_eq!(play.cluster.gate(), &Gate::Only("b:5432".into()));
}

#[test]
fn what_is_open_while_clients_are_held_ends_when_agents_name_another_leader() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 3_000);
    held_before(&mut play);
    play.said.clear();
    play.leads("b", 2);
    play.passes(400);
    assert_eq!(play.said(), ["writes are stopped: Patroni names another leader, b:5432", "Gate(Fenced)"]);
    play.answers[1] = primary(2, 600);
    play.passes(200);
    assert!(play.said().contains(&"writes go on".to_owned()));
    assert_eq!(play.cluster.gate(), &Gate::Only("b:5432".into()));
}

#[test]
fn agents_that_tell_another_switchover_each_time_have_little_done() {
    let mut play = Play::steady(true);
    for number in 0..110 {
        planned_in(&mut play, 20_000);
        play.planned.as_mut().expect("a plan").1.at = format!("{}", number % 2).into();
        play.passes(1_000);
    }
    let said = play.said();
    let checkpoints = said.iter().filter(|line| *line == "Checkpoint(0)").count();
    assert!(checkpoints == 2 && said.len() <= 2 * (NEWS_MAX + 1) + 2, "{said:?}");
    assert!(
        said.contains(
            &"Patroni tells of one switchover after the other: no more of them is told for a minute".to_owned()
        )
    );
    // The last one is heeded.
    held_before(&mut play);
}

/// As many lines in a minute.
const NEWS_MAX: usize = 8;

#[test]
fn a_checkpoint_that_was_ordered_for_something_else_begins_no_switchover() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 20_000);
    play.passes(1_000);
    let of_schedule = Event::Checkpointed { number: play.checkpoint, written: Ok(()) };
    for of_other in [false, true] {
        play.happens(Event::Switchover(None));
        play.said.clear();
        let own = Event::Checkpointed { number: play.checkpoint, written: Ok(()) };
        play.happens(of_schedule.clone());
        assert_eq!((play.said(), play.cluster.gate()), (vec![], &Gate::Only("a:5432".into())));
        if of_other {
            play.happens(own);
            assert_eq!(play.cluster.gate(), &Gate::Held);
            break;
        }
        // Nor one of a switchover that was given up.
        play.happens(Event::Cancel);
        play.happens(Event::Switchover(None));
        play.happens(own);
        assert_eq!(play.cluster.waits_for(), Some("a checkpoint of the primary"));
        play.happens(Event::Cancel);
    }
}

#[test]
fn nobody_is_held_for_what_will_not_happen() {
    let changes: [fn(&mut Play); 3] = [
        // It hands over from another member than the primary.
        |play| play.planned.as_mut().expect("a plan").1.from = Some("node-c".into()),
        // Patroni does nothing by itself in maintenance mode.
        |play| play.views.iter_mut().flatten().for_each(|view| view.is_paused = true),
        // It is over by the clock of those who tell it.
        |play| play.planned.as_mut().expect("a plan").0 = Time(0),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut play = Play::steady(true);
        planned_in(&mut play, 3_000);
        change(&mut play);
        play.passes(60_000);
        let said = play.said();
        assert!(said[0].starts_with("Patroni will switch over at 10:00:00+00:00 from "), "{said:?}");
        assert_eq!((said.len(), play.cluster.gate()), (1, &Gate::Only("a:5432".into())), "{number}: {said:?}");
    }
}

#[test]
fn a_clock_that_is_set_counts_from_then_on() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 40_000);
    play.passes(2_000);
    play.planned.as_mut().expect("a plan").0 = play.now + Duration::from_secs(10);
    let before = held_before(&mut play);
    assert!((500..=800).contains(&before.as_millis()), "{before:?}");
    // A switchover of ours is refused meanwhile.
    play.said.clear();
    play.happens(Event::Switchover(None));
    assert_eq!(play.said(), ["failed: another switchover of the cluster is in progress"]);
    play.happens(Event::Cancel);
    assert!(play.said().contains(&"failed: canceled".to_owned()));
}

#[test]
fn a_clock_that_is_set_back_ends_the_hurry() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 20_000);
    play.passes_until(3_000);
    play.planned.as_mut().expect("a plan").0 = play.now + MINUTE;
    play.passes(1_000);
    let checks = play.checks;
    play.passes(20_000);
    assert!(play.checks - checks <= 3 * 21, "{}", play.checks - checks);
    let before = held_before(&mut play);
    assert!((500..=800).contains(&before.as_millis()), "{before:?}");
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn an_answer_that_is_late_says_nothing_else_than_one_that_is_not() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 20_000);
    play.passes_until(4_000);
    play.late_agents = Some(Vec::new());
    play.passes_until(1_400);
    for agent in play.late_agents.take().expect("they were asked") {
        let answer = play.answer_of(agent);
        play.happens(answer);
    }
    let before = held_before(&mut play);
    assert!((500..=800).contains(&before.as_millis()), "{before:?}");
}

#[test]
fn another_machine_knows_of_it() {
    let mut play = Play::steady(true);
    planned_in(&mut play, 20_000);
    play.passes(1_000);
    let places = |port: u16| ["a", "b", "c", "d"].map(|name| Arc::from(format!("{name}:{port}"))).to_vec();
    let mut next = Cluster::new(play.now, TERMS, places(5432), places(8008));
    next.succeed(play.now, &play.cluster);
    assert_eq!(next.scheduled(), play.cluster.scheduled());
}
