//! Transcripts: what a cluster does when its members and agents answer this way.

use std::collections::VecDeque;

use super::*;
use crate::agents::AgentMember;
use crate::schedule::PlannedSwitchover;
use crate::store::StoreAnswer;

/// A cluster of the members `a`, `b` and `c`, whose answers stay the same until they are changed.
struct Play {
    cluster: Cluster,
    now: Time,
    answers: [Checked; 3],
    views: Vec<Result<AgentAnswer, Arc<str>>>,
    /// The answer of the store, if there is one.
    store: Result<StoreAnswer, Arc<str>>,
    slots: Vec<SlotLag>,
    /// The switchover that all agents tell, and when it comes.
    planned: Option<(Time, PlannedSwitchover)>,
    /// The replicas that may be read from.
    replayed: Vec<String>,
    said: Vec<String>,
    checks: u32,
    /// Members whose checks have no answer but what the test tells.
    unanswered: Vec<usize>,
    /// The members that are suspect.
    suspects: Vec<usize>,
    /// Agents that were asked, whose answers are late; `None` if they answer at once.
    late_agents: Option<Vec<usize>>,
    /// The checkpoint that was ordered last.
    checkpoint: u64,
}

const TERMS: Terms = Terms {
    check_interval: Duration::from_secs(1),
    hold_timeout: Duration::from_secs(30),
    drain_timeout: Duration::from_secs(10),
    is_fencing: true,
    can_demote: true,
};

fn primary(timeline: u32, written: u64) -> Checked {
    let (in_recovery, system, received, can_promote, delay) = (false, 7, written, true, None);
    Checked::Answered(Report { in_recovery, system, timeline, replayed: written, received, can_promote, delay })
}

fn replica(timeline: u32, replayed: u64) -> Checked {
    let Checked::Answered(report) = primary(timeline, replayed) else { unreachable!() };
    Checked::Answered(Report { in_recovery: true, ..report })
}

fn refused() -> Checked {
    Checked::Down("connection refused".into())
}

/// The answer of the agent of `own`, for which `leader` leads.
fn view(own: &str, leader: &str, timeline: u32) -> Result<AgentAnswer, Arc<str>> {
    let member = |name: &str| AgentMember {
        name: format!("node-{name}").into(),
        place: format!("{name}:5432"),
        agent: Some(format!("{name}:8008")),
        is_leader: name == leader,
        timeline,
    };
    Ok(AgentAnswer {
        members: ["a", "b", "c"].map(member).into(),
        own: Some(format!("node-{own}").into()),
        holds_lock: own == leader,
        is_paused: false,
        lock: Some((Duration::from_secs(20), Duration::from_secs(5))),
        scope: None,
        planned: None,
    })
}

impl Play {
    fn new(with_agents: bool) -> Self {
        let now = Time::from_secs(1000);
        let places = |port: u16| ["a", "b", "c"].map(|name| Arc::from(format!("{name}:{port}"))).to_vec();
        let agents = if with_agents { places(8008) } else { Vec::new() };
        let views = if with_agents { ["a", "b", "c"].map(|own| view(own, "a", 1)).into() } else { Vec::new() };
        let answers = [primary(1, 500), replica(1, 500), replica(1, 400)];
        let cluster = Cluster::new(now, TERMS, places(5432), agents);
        let store = Err("connection refused".into());
        Self {
            cluster,
            now,
            answers,
            views,
            store,
            slots: Vec::new(),
            planned: None,
            replayed: Vec::new(),
            said: Vec::new(),
            checks: 0,
            unanswered: Vec::new(),
            suspects: Vec::new(),
            late_agents: None,
            checkpoint: 0,
        }
    }

    /// A cluster whose primary is known.
    fn steady(with_agents: bool) -> Self {
        let mut play = Self::new(with_agents);
        play.passes(2_000);
        play.said.clear();
        play
    }

    fn leads(&mut self, leader: &str, timeline: u32) {
        self.views = ["a", "b", "c"].map(|own| view(own, leader, timeline)).into();
    }

    /// Handles an event, and answers all questions at once.
    fn happens(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut out = Vec::new();
            self.cluster.handle(self.now, event, &mut out);
            for command in out {
                match command {
                    Command::Replayed(replicas) => {
                        self.replayed = replicas.iter().map(|replica| replica.host.to_string()).collect();
                    }
                    Command::Suspects(members) => self.suspects = members,
                    Command::Check(member) if self.unanswered.contains(&member) => self.checks += 1,
                    Command::Check(member) => {
                        self.checks += 1;
                        let outcome = self.answers[member].clone();
                        events.push_back(Event::Checked { member, outcome });
                    }
                    Command::AskAgent(agent) => match &mut self.late_agents {
                        Some(asked) => asked.push(agent),
                        None => events.push_back(self.answer_of(agent)),
                    },
                    Command::Members(members) => {
                        let places: Vec<_> = members.into_iter().map(|member| member.place).collect();
                        self.said.push(format!("members {}", places.join(",")));
                    }
                    Command::AskStore(_) => events.push_back(Event::StoreTold(self.store.clone())),
                    // Its changes are told by the test.
                    Command::WatchStore { .. } => {}
                    Command::AskSlots(member) => {
                        let slots = Some(self.slots.clone());
                        events.push_back(Event::SlotsTold { member, slots });
                    }
                    Command::Checkpoint { member, number } => {
                        self.checkpoint = number;
                        self.said.push(format!("Checkpoint({member})"));
                    }
                    Command::Tell(news) => self.said.push(news.text),
                    Command::SwitchedOver(Err(why)) => self.said.push(format!("failed: {why}")),
                    Command::SwitchedOver(Ok(summary)) => self.said.push(format!("done: {summary}")),
                    other => self.said.push(format!("{other:?}")),
                }
            }
        }
    }

    /// The checkpoint that was ordered last has this outcome.
    fn checkpointed(&mut self, written: Result<(), Arc<str>>) {
        self.happens(Event::Checkpointed { number: self.checkpoint, written });
    }

    /// Lets time pass, with a tick at each deadline.
    fn passes(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        self.happens(Event::Tick);
        let mut idle = 0;
        while let Some(next) = self.cluster.next_deadline().filter(|next| *next <= end) {
            idle = if next <= self.now { idle + 1 } else { 0 };
            assert!(idle < 100, "it asks to be looked at again and again: {:?}", self.said);
            self.now = self.now.max(next);
            self.happens(Event::Tick);
        }
        self.now = end;
        self.happens(Event::Tick);
    }

    /// All that was said since the last call.
    fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn state(&self) -> State {
        self.cluster.state(self.now)
    }
}

fn only(name: &str) -> String {
    format!("Gate(Only(\"{name}:5432\"))")
}

#[test]
fn the_primary_is_found_and_clients_write_there_only() {
    for with_agents in [false, true] {
        let mut play = Play::new(with_agents);
        assert_eq!(play.state(), State::Unknown);
        play.passes(1_000);
        let found = "host a:5432 is the primary, on timeline 1".to_owned();
        assert_eq!(play.said(), [found, "TryHosts".to_owned(), only("a")]);
        assert_eq!((play.state(), play.cluster.lag_of(&play.cluster.members()[2])), (State::Steady, Some(100)));
        play.passes(60_000);
        assert!(play.said().is_empty());
    }
}

#[test]
fn a_promoted_replica_is_followed_and_the_former_primary_is_not_written_to() {
    let mut play = Play::steady(false);
    play.answers[0] = refused();
    play.passes(5_000);
    assert_eq!(play.said(), ["the primary is lost: host a:5432 cannot be asked: connection refused"]);
    assert_eq!((play.state(), play.cluster.gate()), (State::Failover, &Gate::Only("a:5432".into())));
    play.answers[1] = primary(2, 600);
    play.passes(100);
    let found = "host b:5432 is the primary now, on timeline 2 (was a:5432)".to_owned();
    assert_eq!(play.said(), [found, "TryHosts".to_owned(), only("b")]);
    play.answers[0] = primary(1, 700);
    play.passes(5_000);
    let told = "host a:5432 accepts writes, but b:5432 is the primary: no client writes to a:5432";
    assert_eq!(play.said(), [told]);
    assert_eq!(play.cluster.role_of(0), MemberRole::Fenced);
    // Not even if the new one is lost.
    play.answers[1] = refused();
    play.passes(120_000);
    assert_eq!(play.said(), ["the primary is lost: host b:5432 cannot be asked: connection refused"]);
    assert_eq!((play.state(), play.cluster.gate()), (State::Degraded, &Gate::Only("b:5432".into())));
}

#[test]
fn a_restart_of_the_primary_is_noticed_within_a_tenth_of_a_second() {
    let mut play = Play::steady(false);
    play.answers[0] = refused();
    play.passes(2_000);
    play.said.clear();
    play.answers[0] = primary(1, 500);
    play.passes(100);
    let said = play.said();
    assert!(said[0].starts_with("host a:5432 is the primary again, after ") && said[1..] == ["TryHosts"], "{said:?}");
}

#[test]
fn an_agent_decides_between_hosts_that_say_they_accept_writes() {
    let mut play = Play::steady(true);
    // PostgreSQL accepts writes before the agent names it, and the other way round.
    play.answers[1] = primary(2, 600);
    play.passes(3_000);
    assert_eq!(play.said(), ["host b:5432 accepts writes, but a:5432 is the primary: no client writes to b:5432"]);
    play.leads("b", 2);
    play.passes(3_000);
    assert_eq!(play.said()[0], "host b:5432 is the primary now, on timeline 2 (was a:5432)");
    play.leads("c", 3);
    play.passes(1_500);
    let said = play.said();
    assert_eq!(said[0], "the primary is lost: host b:5432 is not the leader for Patroni, which names c:5432");
    assert_eq!(said[1..], ["writes are stopped: Patroni names another leader, c:5432", "Gate(Fenced)"]);
    play.passes(5_000);
    assert_eq!(play.cluster.primary(), Some(&"b:5432".into()), "c is in recovery, whatever its agent says");
}

#[test]
fn agents_that_do_not_answer_take_no_primary_away_before_its_lease_ends() {
    let mut play = Play::steady(true);
    play.views = vec![Err("timeout".into()), Err("timeout".into()), Err("timeout".into())];
    play.passes(11_000);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Steady));
    play.passes(4_000);
    let said = play.said();
    assert!(said[0].starts_with("writes are stopped: Patroni on the primary a:5432 has not confirmed"), "{said:?}");
    assert_eq!((&*said[1], play.state()), ("Gate(Fenced)", State::Fenced));
    play.leads("a", 1);
    play.passes(1_000);
    assert_eq!(play.said(), ["writes go on".to_owned(), only("a")]);
}

#[test]
fn the_lease_is_that_of_the_primary_itself_and_ends_before_another_can_be_promoted() {
    let mut play = Play::steady(true);
    // Only the agent of the primary is dead: the others name it until the lock has run out.
    play.views[0] = Err("connection refused".into());
    let since = play.now;
    while play.cluster.gate() != &Gate::Fenced {
        play.passes(100);
        assert!(play.now.since(since) < Duration::from_secs(15));
    }
    assert!(play.now.since(since) > Duration::from_secs(12));
    play.said.clear();
    play.answers[1] = primary(2, 600);
    play.leads("b", 2);
    play.passes(500);
    let said = play.said();
    assert!(said.contains(&"host b:5432 is the primary now, on timeline 2 (was a:5432)".to_owned()), "{said:?}");
    assert!(said.contains(&only("b")), "{said:?}");
}

#[test]
fn a_lock_that_was_confirmed_before_the_primary_was_known_counts() {
    let mut play = Play::new(true);
    play.answers[0] = refused();
    play.passes(300);
    play.views = vec![Err("timeout".into()), Err("timeout".into()), Err("timeout".into())];
    play.answers[0] = primary(1, 500);
    play.passes(13_000);
    assert_eq!(play.state(), State::Steady);
    play.passes(1_500);
    assert_eq!(play.state(), State::Fenced);
}

#[test]
fn without_automatic_failover_or_if_told_so_nothing_is_fenced() {
    let mut play = Play::steady(true);
    let paused = |mut answer: AgentAnswer| {
        answer.is_paused = true;
        answer
    };
    play.views = play.views.into_iter().map(|view| view.map(paused)).collect();
    play.passes(2_000);
    play.views = vec![Err("timeout".into()), Err("timeout".into()), Err("timeout".into())];
    play.passes(60_000);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Steady));
    let mut play = Play::steady(true);
    play.cluster.set_terms(Terms { is_fencing: false, ..TERMS });
    play.views[0] = Err("timeout".into());
    play.passes(60_000);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Steady));
}

#[test]
fn a_host_of_another_cluster_is_never_used_and_an_upgrade_of_all_is_followed() {
    let mut play = Play::new(false);
    let foreign = |checked: &Checked, system: u64| match checked {
        Checked::Answered(report) => Checked::Answered(Report { system, ..*report }),
        other => other.clone(),
    };
    play.answers[0] = foreign(&primary(9, 500), 8);
    play.answers[1] = primary(1, 500);
    play.passes(2_000);
    let said = play.said();
    assert!(
        said.iter().any(|line| line.starts_with("host a:5432 is not used: it belongs to another cluster")),
        "{said:?}"
    );
    assert_eq!(said.last(), Some(&only("b")));
    play.answers = [foreign(&primary(1, 50), 9), foreign(&replica(1, 50), 9), foreign(&replica(1, 50), 9)];
    play.passes(2_000);
    let said = play.said();
    assert!(said.contains(&"the members have another system identifier: 9 instead of 7".to_owned()), "{said:?}");
    assert_eq!(said.last(), Some(&only("a")));
}

#[test]
fn a_leader_that_is_none_of_the_hosts_is_heeded_if_the_others_are_known() {
    let mut play = Play::steady(true);
    for view in play.views.iter_mut().flatten() {
        view.members.iter_mut().for_each(|member| member.is_leader = false);
        let (name, place) = ("node-x".into(), "x:5432".to_owned());
        view.members.push(AgentMember { name, place, agent: None, is_leader: true, timeline: 2 });
        view.holds_lock = false;
    }
    play.passes(5_000);
    let said = play.said();
    assert!(said.contains(&"Patroni names a leader that is not among hosts=: x:5432".to_owned()), "{said:?}");
    assert_eq!(play.state(), State::Fenced);
}

#[test]
fn agents_that_have_other_names_for_all_hosts_are_not_heeded_and_that_is_told() {
    let mut play = Play::new(true);
    for view in play.views.iter_mut().flatten() {
        view.members.iter_mut().for_each(|member| member.place = format!("10.0.0.{}", member.place));
    }
    play.passes(5_000);
    let said = play.said();
    assert!(
        said.iter().any(|line| line.starts_with("no interface of patroni= belongs to the primary a:5432")),
        "{said:?}"
    );
    assert!(said.contains(&"Patroni names a leader that is not among hosts=: 10.0.0.a:5432".to_owned()), "{said:?}");
    play.views = vec![Err("timeout".into()), Err("timeout".into()), Err("timeout".into())];
    play.passes(60_000);
    assert_eq!(play.state(), State::Steady);
}

#[test]
fn an_agent_is_that_of_the_member_whose_name_it_tells() {
    let mut play = Play::new(true);
    for view in play.views.iter_mut().flatten() {
        view.members.iter_mut().for_each(|member| member.agent = Some("elsewhere:1".to_owned()));
    }
    play.passes(2_000);
    play.views = vec![Err("timeout".into()), Err("timeout".into()), Err("timeout".into())];
    play.passes(15_000);
    assert_eq!(play.state(), State::Fenced);
}

#[test]
fn a_foreign_host_does_not_take_the_place_of_members_that_restart() {
    let mut play = Play::new(false);
    let Checked::Answered(report) = primary(1, 10) else { unreachable!() };
    play.answers[1] = Checked::Answered(Report { system: 99, ..report });
    play.answers[2] = refused();
    play.passes(3_000);
    play.answers[0] = refused();
    play.passes(60_000);
    play.answers[0] = primary(1, 900);
    play.passes(2_000);
    assert_eq!((play.cluster.gate(), play.cluster.role_of(1)), (&Gate::Only("a:5432".into()), MemberRole::Foreign));
}

#[test]
fn a_foreign_host_that_was_there_first_is_left_for_the_cluster() {
    let mut play = Play::new(false);
    let Checked::Answered(report) = primary(1, 10) else { unreachable!() };
    play.answers = [refused(), Checked::Answered(Report { system: 99, ..report }), refused()];
    play.passes(3_000);
    assert_eq!(play.cluster.gate(), &Gate::Only("b:5432".into()));
    (play.answers[0], play.answers[2]) = (primary(1, 900), replica(1, 900));
    play.passes(3_000);
    assert_eq!((play.cluster.gate(), play.cluster.role_of(1)), (&Gate::Only("a:5432".into()), MemberRole::Foreign));
}

#[test]
fn what_an_agent_says_of_time_is_bounded() {
    let mut play = Play::steady(true);
    for view in play.views.iter_mut().flatten() {
        view.lock = Some((Duration::from_secs(u64::MAX), Duration::from_secs(u64::MAX)));
    }
    play.passes(60_000);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Steady));
}

#[test]
fn a_pause_of_automatic_failover_lifts_the_fence_whoever_tells_it() {
    let mut play = Play::steady(true);
    play.views[0] = Err("connection refused".into());
    play.passes(20_000);
    assert_eq!(play.state(), State::Fenced);
    play.views[1..].iter_mut().flatten().for_each(|view| view.is_paused = true);
    play.passes(2_000);
    assert_eq!(play.state(), State::Steady);
}

#[test]
fn a_lease_of_an_earlier_term_is_none() {
    let mut play = Play::steady(true);
    play.leads("b", 2);
    (play.answers[0], play.answers[1]) = (replica(2, 500), primary(2, 600));
    play.passes(100_000);
    play.said.clear();
    play.leads("a", 3);
    (play.answers[0], play.answers[1]) = (primary(3, 700), replica(3, 700));
    play.views[0] = Err("timeout".into());
    play.passes(5_000);
    assert_eq!(play.state(), State::Steady, "{:?}", play.said());
    play.passes(15_000);
    assert_eq!(play.state(), State::Fenced, "its own agent has not confirmed it in this term");
}

#[test]
fn a_machine_takes_over_what_the_one_before_has_found_out() {
    let mut play = Play::steady(true);
    play.views[0] = Err("connection refused".into());
    play.passes(15_000);
    let places = |port: u16| ["a", "b", "c", "d"].map(|name| Arc::from(format!("{name}:{port}"))).to_vec();
    let mut next = Cluster::new(play.now, TERMS, places(5432), places(8008));
    next.succeed(play.now, &play.cluster);
    let mut out = Vec::new();
    next.handle(play.now, Event::Tick, &mut out);
    assert_eq!((next.gate(), next.primary()), (&Gate::Fenced, Some(&"a:5432".into())));
    assert!(!out.iter().any(|command| matches!(command, Command::Gate(_))), "{out:?}");
}

#[test]
fn a_demotion_that_takes_long_is_followed_by_the_promotion_whoever_gives_up() {
    let mut play = Play::steady(false);
    play.happens(Event::Switchover(None));
    play.checkpointed(Ok(()));
    play.happens(Event::Drained);
    play.passes(200);
    play.said.clear();
    play.happens(Event::Cancel);
    play.passes(60_000);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Hold));
    play.happens(Event::HandedOver(Ok(())));
    // Errors of a server that runs do not show that it is down.
    play.answers[0] = Checked::Refused("FATAL: sorry, too many clients already".into());
    play.passes(5_000);
    assert_eq!(play.cluster.waits_for(), Some("the former primary to be down"));
    play.answers[0] = refused();
    play.passes(200);
    assert_eq!(play.said().last().map(String::as_str), Some("Promote(1)"));
}

#[test]
fn a_target_of_another_history_is_not_promoted() {
    let mut play = Play::steady(false);
    // It has replayed what a primary had written that has gone, and follows nobody.
    play.answers[1] = replica(1, 700);
    play.passes(2_000);
    play.happens(Event::Switchover(Some("b:5432".into())));
    play.checkpointed(Ok(()));
    play.answers[0] = primary(1, 600);
    play.said.clear();
    play.happens(Event::Drained);
    play.passes(200);
    let why = "failed: the target has replayed what the primary has never written: rebuild it, by pg_rewind or anew";
    let said = play.said();
    assert!(said.contains(&why.to_owned()) && !said.iter().any(|line| line.starts_with("Demote")), "{said:?}");
    assert_eq!((said.last(), play.state()), (Some(&only("a")), State::Steady));
}

#[test]
fn a_command_that_demotes_nobody_gives_clients_back() {
    let mut play = Play::steady(false);
    play.happens(Event::Switchover(None));
    play.checkpointed(Ok(()));
    play.happens(Event::Drained);
    play.passes(200);
    play.happens(Event::HandedOver(Ok(())));
    play.said.clear();
    play.passes(25_000);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Hold), "it may go down yet");
    play.passes(5_000);
    let why = "failed: demote_command has ended without an error, and the former primary still accepts writes";
    let said = play.said();
    assert!(said.contains(&why.to_owned()), "{said:?}");
    assert_eq!((said.last(), play.state()), (Some(&only("a")), State::Steady));
}

#[test]
fn another_primary_ends_a_switchover_and_nothing_is_demoted() {
    let mut play = Play::steady(false);
    play.happens(Event::Switchover(Some("b:5432".into())));
    play.checkpointed(Ok(()));
    play.answers = [replica(1, 500), replica(1, 520), primary(2, 510)];
    play.passes(500);
    play.happens(Event::Drained);
    let said = play.said();
    assert!(said.contains(&"failed: another member has become the primary meanwhile".to_owned()), "{said:?}");
    assert!(!said.iter().any(|line| line.starts_with("Demote")), "{said:?}");
    assert_eq!(said.last(), Some(&only("c")));
}

#[test]
fn a_lock_that_runs_out_while_clients_are_drained_ends_the_switchover() {
    let mut play = Play::steady(true);
    let (hold_timeout, drain_timeout) = (Duration::from_secs(60), Duration::from_secs(50));
    play.cluster.set_terms(Terms { hold_timeout, drain_timeout, ..TERMS });
    play.happens(Event::Switchover(None));
    play.checkpointed(Ok(()));
    play.views = vec![Err("timeout".into()), Err("timeout".into()), Err("timeout".into())];
    play.passes(16_000);
    assert_eq!((play.state(), play.cluster.waits_for()), (State::Fenced, None));
}

#[test]
fn a_user_who_may_not_promote_is_told_before_anything_is_demoted() {
    let mut play = Play::steady(false);
    for answer in &mut play.answers {
        if let Checked::Answered(report) = answer {
            report.can_promote = false;
        }
    }
    play.passes(2_000);
    play.happens(Event::Switchover(None));
    let grant = "GRANT EXECUTE ON FUNCTION pg_catalog.pg_promote";
    assert_eq!(play.said(), [format!("failed: the user of the cluster may not promote host b:5432 ({grant})")]);
}

#[test]
fn who_is_not_let_in_does_not_try_ten_times_a_second() {
    let mut play = Play::new(false);
    play.answers = [0, 1, 2].map(|_| Checked::Denied("FATAL: password authentication failed".into()));
    play.passes(10_000);
    let line = |host: &str| format!("host {host}:5432 cannot be checked: FATAL: password authentication failed");
    assert_eq!(play.said(), ["a", "b", "c"].map(line));
    assert!(play.checks <= 36, "{} checks of 3 hosts in 10 s", play.checks);
}

#[test]
fn a_primary_that_changes_all_the_time_is_told() {
    let mut play = Play::steady(false);
    for change in 0..10_u32 {
        let (here, there) = if change % 2 == 0 { (1, 0) } else { (0, 1) };
        play.answers[here] = primary(change + 2, 600);
        play.answers[there] = replica(change + 2, 600);
        play.passes(5_000);
    }
    let said = play.said();
    let told = said.iter().filter(|line| **line == "the primary has changed 5 times within 60 s").count();
    let gates = said.iter().filter(|line| line.starts_with("Gate")).count();
    assert_eq!((told, gates), (2, 10), "{said:?}");
}

#[test]
fn a_switchover_with_agents_holds_clients_until_the_target_is_the_primary() {
    let mut play = Play::steady(true);
    play.happens(Event::Switchover(None));
    let begun = "switchover from a:5432 to b:5432: waiting for a checkpoint";
    assert_eq!(play.said(), [begun, "Checkpoint(0)"]);
    assert_eq!(play.state(), State::Steady, "nobody is held during the checkpoint");
    play.passes(3_000);
    play.checkpointed(Ok(()));
    let held = "switchover: holding new transactions, waiting for open ones";
    assert_eq!((play.said(), play.state()), ([held, "Gate(Held)", "Drain"].map(str::to_owned).into(), State::Draining));
    play.answers[0] = primary(1, 900);
    play.passes(300);
    play.happens(Event::Drained);
    play.passes(500);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Hold), "b has replayed 500 of 900 bytes");
    play.answers[1] = replica(1, 900);
    play.passes(100);
    assert_eq!(play.said(), ["AskSwitchover { agent: 0, from: \"node-a\", to: \"node-b\" }"]);
    play.answers[0] = refused();
    play.passes(1_000);
    play.answers[1] = primary(2, 950);
    play.leads("b", 2);
    play.passes(500);
    let said = play.said();
    assert_eq!(said[0], "host b:5432 is the primary now, on timeline 2 (was a:5432)");
    assert!(said[2].starts_with("switched over from a:5432 to b:5432 in "), "{said:?}");
    assert!(said[3].starts_with("done: ") && said[4] == only("b"), "{said:?}");
    play.happens(Event::HandedOver(Ok(())));
    assert!(play.said().is_empty(), "the answer of Patroni comes later, which is of no use any more");
}

#[test]
fn another_agent_is_asked_to_switch_over_where_that_of_the_primary_is_silent() {
    let mut play = Play::steady(true);
    play.views[0] = Err("connection refused".into());
    play.passes(1_500);
    play.said();
    play.happens(Event::Switchover(None));
    play.checkpointed(Ok(()));
    play.happens(Event::Drained);
    play.answers[1] = replica(1, 500);
    play.passes(500);
    let said = play.said();
    let asked =
        |agent: usize| said.contains(&format!("AskSwitchover {{ agent: {agent}, from: \"node-a\", to: \"node-b\" }}"));
    assert!(asked(1) || asked(2), "{said:?}");
}

#[test]
fn without_agents_the_primary_is_demoted_before_the_target_is_promoted() {
    let mut play = Play::steady(false);
    play.happens(Event::Switchover(Some("c:5432".into())));
    play.checkpointed(Err("permission denied".into()));
    play.happens(Event::Drained);
    play.answers[2] = replica(1, 500);
    play.passes(200);
    assert_eq!(play.said().last().map(String::as_str), Some("Demote { from: 0, to: 2 }"));
    play.happens(Event::HandedOver(Ok(())));
    play.passes(1_000);
    assert_eq!((play.said(), play.cluster.waits_for()), (Vec::new(), Some("the former primary to be down")));
    play.answers[0] = refused();
    play.passes(200);
    assert_eq!(play.said().last().map(String::as_str), Some("Promote(2)"));
    play.answers[2] = primary(2, 500);
    play.happens(Event::Promoted(Ok(())));
    play.passes(200);
    let said = play.said();
    assert!(said.iter().any(|line| line.contains("no checkpoint was written before (permission denied)")), "{said:?}");
    assert_eq!(said.last(), Some(&only("c")));
}

#[test]
fn transactions_that_stay_open_are_ended_and_the_switchover_goes_on() {
    let mut play = Play::steady(true);
    play.happens(Event::Switchover(None));
    play.checkpointed(Ok(()));
    play.passes(9_900);
    play.said.clear();
    play.passes(200);
    let ended = "switchover: drain_timeout is over, ending the transactions that are still open";
    assert_eq!(play.said(), [ended, "EndLoans"]);
    play.happens(Event::Drained);
    play.passes(200);
    assert!(play.said()[0].starts_with("AskSwitchover"));
}

#[test]
fn whatever_fails_clients_go_on_at_the_primary() {
    let hold = |play: &mut Play| {
        play.happens(Event::Switchover(None));
        play.checkpointed(Ok(()));
        play.said.clear();
    };
    let ends = |play: &mut Play, why: &str| {
        let said = play.said();
        assert!(said.contains(&format!("failed: {why}")), "{said:?}");
        assert_eq!((said.last(), play.state()), (Some(&only("a")), State::Steady));
    };
    let mut play = Play::steady(true);
    hold(&mut play);
    play.happens(Event::Cancel);
    ends(&mut play, "canceled");

    let mut play = Play::steady(true);
    hold(&mut play);
    play.passes(12_500);
    ends(&mut play, "it waited too long for servers whose transactions were ended");

    let mut play = Play::steady(true);
    hold(&mut play);
    play.answers[0] = primary(1, 900);
    play.happens(Event::Drained);
    play.passes(5_500);
    ends(&mut play, "it waited too long for the target to replay the log");

    let mut play = Play::steady(true);
    hold(&mut play);
    play.happens(Event::Drained);
    play.passes(200);
    play.happens(Event::HandedOver(Err("status 503: Failed to switchover".into())));
    ends(&mut play, "Patroni: status 503: Failed to switchover");

    let mut play = Play::steady(true);
    hold(&mut play);
    play.happens(Event::Drained);
    play.passes(30_000);
    ends(&mut play, "hold_timeout is over, it waited for Patroni's switchover");
}

#[test]
fn a_switchover_that_cannot_succeed_is_refused() {
    let refused_because = |change: &dyn Fn(&mut Play), to: Option<&str>, why: &str| {
        let mut play = Play::steady(false);
        change(&mut play);
        play.passes(4_000);
        play.said.clear();
        play.happens(Event::Switchover(to.map(Arc::from)));
        assert_eq!(play.said(), [format!("failed: {why}")]);
        assert_ne!(play.state(), State::Draining);
    };
    let nothing = |_: &mut Play| {};
    refused_because(&nothing, Some("x"), "the cluster has no member \"x\"");
    refused_because(&nothing, Some("a:5432"), "host a:5432 is the primary already");
    refused_because(
        &|play| play.answers[2] = refused(),
        Some("c:5432"),
        "host c:5432 cannot be asked: connection refused",
    );
    let lag = "host c:5432 lacks 16777217 bytes of the log; at most 16777216 are allowed";
    refused_because(&|play| play.answers[0] = primary(1, 400 + (16 << 20) + 1), Some("c:5432"), lag);
    refused_because(&|play| play.answers[0] = refused(), None, "the cluster has no primary at present");
    let none = |play: &mut Play| (play.answers[1], play.answers[2]) = (refused(), refused());
    refused_because(&none, None, "the cluster has no replica that answers");
    let other = |play: &mut Play| play.happens(Event::Switchover(None));
    refused_because(&other, None, "another switchover of the cluster is in progress");
    let without = |play: &mut Play| play.cluster.set_terms(Terms { can_demote: false, ..TERMS });
    refused_because(&without, None, "the cluster has neither patroni= nor demote_command=");
}

#[test]
fn the_agents_name_of_a_member_will_do() {
    let mut play = Play::steady(true);
    play.happens(Event::Switchover(Some("node-c".into())));
    assert_eq!(play.said()[0], "switchover from a:5432 to c:5432: waiting for a checkpoint");
}

#[test]
fn a_cluster_that_is_told_its_members_has_none_before_agents_answer() {
    let mut play = Play::new(true);
    play.cluster = Cluster::new(play.now, TERMS, Vec::new(), vec!["a:8008".into()]).told_by_agents(None);
    play.views = vec![Err("connection refused".into())];
    play.passes(60_000);
    let told = "no member is known, since none of 1 interfaces of Patroni answers: a:8008: connection refused";
    assert_eq!((play.said(), play.state(), play.cluster.gate()), (vec![told.to_owned()], State::Unknown, &Gate::Any));
    play.views = vec![view("a", "a", 1)];
    play.passes(1_000);
    assert_eq!(play.said(), ["members a:5432,b:5432,c:5432"]);
    // Nobody puts that in force: it is told again, and not all the time.
    play.passes(60_000);
    let again = play.said().len();
    assert!((10..=30).contains(&again), "{again} times");
    let places = |port: u16| ["a", "b", "c"].map(|name| Arc::from(format!("{name}:{port}"))).to_vec();
    let mut next = Cluster::new(play.now, TERMS, places(5432), places(8008)).told_by_agents(None);
    next.succeed(play.now, &play.cluster);
    play.cluster = next;
    play.views = ["a", "b", "c"].map(|own| view(own, "a", 1)).into();
    play.passes(60_000);
    assert_eq!(play.said(), ["host a:5432 is the primary, on timeline 1", "TryHosts", &only("a")]);
}

#[test]
fn who_takes_over_from_a_machine_knows_what_that_has_found_out() {
    let mut play = Play::steady(true);
    play.answers[2] = Checked::Silent;
    play.passes(5_000);
    play.said.clear();
    // `b` has gone, and the others have other places.
    let places = |port: u16| ["c", "a"].map(|name| Arc::from(format!("{name}:{port}"))).to_vec();
    let mut next = Cluster::new(play.now, TERMS, places(5432), places(8008));
    next.succeed(play.now, &play.cluster);
    play.cluster = next;
    assert_eq!(play.state(), State::Steady);
    play.answers = [Checked::Silent, primary(1, 500), refused()];
    play.views = ["c", "a"].map(|own| view(own, "a", 1)).into();
    play.passes(30_000);
    assert_eq!((play.said(), play.state()), (Vec::new(), State::Steady), "nothing has happened");
}

/// Clients are held for each moment: what a step has done is asked for at once, and not when the next check is due.
#[test]
fn a_step_that_is_done_is_looked_at_at_once() {
    let mut play = Play::steady(true);
    play.happens(Event::Switchover(Some("b:5432".into())));
    play.checkpointed(Ok(()));
    play.passes(10);
    play.said.clear();
    play.happens(Event::Drained);
    play.passes(2);
    let said = play.said();
    assert!(said.iter().any(|line| line.starts_with("AskSwitchover")), "{said:?}");
    play.answers = [refused(), primary(2, 600), replica(1, 500)];
    play.leads("b", 2);
    play.happens(Event::HandedOver(Ok(())));
    play.passes(2);
    let said = play.said();
    assert!(said.contains(&only("b")), "{said:?}");
}

#[test]
fn the_slots_of_the_primary_are_known_while_there_is_one() {
    let mut play = Play::steady(false);
    play.slots = vec![SlotLag { slot: "sub".into(), lag: 4096 }];
    play.passes(6_000);
    assert_eq!(play.cluster.slots(), play.slots);
    play.answers[0] = refused();
    play.passes(3_000);
    assert!(play.cluster.slots().is_empty(), "nobody knows");
    play.answers[1] = primary(2, 600);
    play.slots.clear();
    play.passes(3_000);
    assert!(play.cluster.slots().is_empty(), "those of the former primary say nothing of the new one");
}

/// A standby that has not followed a promotion may have replayed what the new primary has never had.
#[test]
fn a_replica_of_a_history_that_has_ended_is_not_read_from() {
    let mut play = Play::steady(false);
    play.answers[2] = replica(1, 500);
    play.passes(3_000);
    assert_eq!(play.replayed, ["b:5432", "c:5432"]);
    play.answers = [refused(), primary(2, 600), replica(1, 700)];
    play.passes(5_000);
    assert!(play.replayed.is_empty(), "{:?}", play.replayed);
    play.answers[2] = replica(2, 700);
    play.passes(3_000);
    assert_eq!(play.replayed, ["c:5432"]);
}

#[path = "cluster_schedule_tests.rs"]
mod schedule_tests;
#[path = "cluster_silence_tests.rs"]
mod silence_tests;
#[path = "cluster_store_tests.rs"]
mod store_tests;
