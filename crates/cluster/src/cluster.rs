//! The state of one cluster: its members, its primary, and where clients may write.
//!
//! Always true: a member is made the primary only if it says itself that it is not in recovery, belongs to the same cluster, is on a
//! timeline at least as new as that of any primary before, and most agents, if there are any, name no other leader. There is one such
//! member at a time, and clients write nowhere else.
//! Not here: the target of a switchover (`plan`) and its steps (`switchover`), what agents say together (`agents`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::agents::{AgentAnswer, Agents};
use crate::changes::Changes;
use crate::event::{Command, Event, Gate, News, SlotLag, State, Terms};
use crate::identity::Identity;
use crate::member::{Checked, Member, MemberRole, Report};
use crate::planted::age_of;
use crate::replayed::Positions;
use crate::roster::Roster;
use crate::schedule::{Done, Schedule};
use crate::switchover::{Move, Outcome, Patience, Sight, Summary, Switchover};

#[path = "plan.rs"]
mod plan;

/// One cluster.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) terms: Terms,
    pub(crate) members: Vec<Member>,
    pub(crate) agents: Agents,
    pub(crate) identity: Identity,
    /// The member that was the primary last, and the newest timeline of a primary.
    pub(crate) primary: Option<usize>,
    pub(crate) timeline: u32,
    /// Since when no member is proved to be the primary; `None` if one is.
    pub(crate) without_since: Option<Time>,
    /// Since when the primary is this member.
    pub(crate) primary_since: Time,
    pub(crate) gate: Gate,
    pub(crate) switchover: Option<Switchover>,
    /// Members that accept writes without being the primary, of which that has been told.
    pub(crate) told_fenced: BTreeSet<usize>,
    pub(crate) told_denied: BTreeSet<usize>,
    /// Replicas that have not answered since it was told that they do not.
    pub(crate) told_silent: BTreeSet<usize>,
    /// Replicas that do not answer, which have been left.
    pub(crate) left_replicas: BTreeSet<usize>,
    /// Members that are suspect.
    pub(crate) suspects: BTreeSet<usize>,
    /// Whether that was told.
    pub(crate) are_suspects_told: bool,
    pub(crate) positions: Positions,
    pub(crate) has_told_stranger: bool,
    pub(crate) has_told_no_lease: bool,
    changes: Changes,
    /// The members as the agents tell them, if its members are those.
    pub(crate) roster: Option<Roster>,
    /// The switchover that agents will carry out at a certain time, and what was done for such ones.
    pub(crate) schedule: Option<Schedule>,
    pub(crate) schedule_done: Done,
    /// How many checkpoints were ordered.
    pub(crate) checkpoints: u64,
    /// The replication slots of the primary as it has told them last, and when it is asked for them next.
    slots: Vec<SlotLag>,
    slots_due: Time,
}

impl Cluster {
    /// A cluster of these members (host and port of each) and agents (host and port of each), of which nothing is known.
    #[must_use]
    pub fn new(now: Time, terms: Terms, members: Vec<Arc<str>>, agents: Vec<Arc<str>>) -> Self {
        Self {
            terms,
            members: members.into_iter().map(|name| Member::new(name, now)).collect(),
            agents: Agents::new(agents, now),
            identity: Identity::default(),
            primary: None,
            timeline: 0,
            without_since: Some(now),
            primary_since: now,
            gate: Gate::Any,
            switchover: None,
            told_fenced: BTreeSet::new(),
            told_denied: BTreeSet::new(),
            told_silent: BTreeSet::new(),
            left_replicas: BTreeSet::new(),
            suspects: BTreeSet::new(),
            are_suspects_told: true,
            positions: Positions::default(),
            has_told_stranger: false,
            has_told_no_lease: false,
            changes: Changes::default(),
            roster: None,
            schedule: None,
            schedule_done: Done::default(),
            checkpoints: 0,
            slots: Vec::new(),
            slots_due: now,
        }
    }

    /// Applies changed settings that do not concern the members.
    pub fn set_terms(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// Handles an event.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Command>) {
        let outcome = match event {
            Event::Checked { member, outcome } => {
                self.is_checked(now, member, outcome);
                None
            }
            Event::AgentTold { agent, answer } => {
                self.is_told(now, agent, answer);
                None
            }
            Event::StoreTold(answer) => {
                self.store_tells(now, answer, out);
                None
            }
            Event::StoreChanged(change) => {
                self.agents.store_changes(now, change);
                None
            }
            Event::SlotsTold { member, slots } => {
                if self.primary == Some(member) {
                    self.slots = slots.unwrap_or_default();
                }
                None
            }
            Event::Switchover(to) => {
                self.begin_switchover(now, to.as_deref(), out);
                None
            }
            Event::Cancel => Some(Outcome::Canceled),
            Event::Checkpointed { number, written } => Some(Outcome::Checkpointed(number, written)),
            Event::Drained => Some(Outcome::Drained),
            Event::HandedOver(done) => Some(Outcome::HandedOver(done)),
            Event::Promoted(done) => Some(Outcome::Promoted(done)),
            Event::Tick => None,
        };
        // Clients are held for each moment until a question that was put after such a step shows its effect.
        if matches!(outcome, Some(Outcome::Drained | Outcome::HandedOver(_) | Outcome::Promoted(_))) {
            self.hurry(now + SOON);
        }
        self.agree_on_system(out);
        self.judge(now, out);
        self.suspect_late_hosts(now, out);
        self.follow_replicas(out);
        let patience = Patience { hold: self.terms.hold_timeout, drain: self.terms.drain_timeout };
        let next = outcome.and_then(|outcome| self.switchover.as_mut()?.hear(now, patience, outcome));
        let next = next.or(self.heed_schedule(now, out));
        self.go_on(now, next, out);
        self.set_gate(now, out);
        self.ask(now, out);
        self.look_at_roster(now, out);
    }

    /// When [`Event::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let members = self.members.iter().filter(|member| member.under_way.is_none()).map(|member| member.due);
        let may_write = matches!(self.gate, Gate::Only(_)) || self.gate == Gate::Held && self.is_following();
        let lease = self.lease_ends().filter(|_| may_write && self.terms.is_fencing);
        let switchover = self.switchover.as_ref().map(Switchover::deadline);
        let others = self
            .agents
            .next_deadline()
            .into_iter()
            .chain(lease)
            .chain(switchover)
            .chain(self.schedule_deadline())
            .chain(self.suspicion_deadline());
        members.chain(others).min()
    }

    /// What the cluster does now.
    #[must_use]
    pub fn state(&self, now: Time) -> State {
        let held = self.switchover.as_ref().filter(|switchover| switchover.held().is_some());
        if let Some(switchover) = held.filter(|_| self.gate != Gate::Fenced) {
            return if switchover.is_draining() { State::Draining } else { State::Hold };
        }
        match (self.gate == Gate::Fenced, self.without_since) {
            (true, _) => State::Fenced,
            (false, None) => State::Steady,
            (false, Some(_)) if self.primary.is_none() => State::Unknown,
            (false, Some(since)) if now.since(since) < self.terms.hold_timeout => State::Failover,
            (false, Some(_)) => State::Degraded,
        }
    }

    /// The members, in the order of the configuration.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What a member is at present.
    #[must_use]
    pub fn role_of(&self, place: usize) -> MemberRole {
        let Some(report) = self.members.get(place).and_then(Member::report) else { return MemberRole::Unknown };
        match report {
            _ if self.identity.is_foreign(report.system) => MemberRole::Foreign,
            Report { in_recovery: true, .. } => MemberRole::Replica,
            _ if self.primary == Some(place) => MemberRole::Primary,
            _ if self.primary.is_none() => MemberRole::Unknown,
            _ => MemberRole::Fenced,
        }
    }

    /// The host and port of the member that is the primary, or was it last.
    #[must_use]
    pub fn primary(&self) -> Option<&Arc<str>> {
        self.primary.map(|place| self.members[place].name())
    }

    /// By how many bytes a member is behind the primary in replaying.
    #[must_use]
    pub fn lag_of(&self, member: &Member) -> Option<u64> {
        let primary = self.members.get(self.primary?)?.report()?;
        let report = member.report().filter(|report| report.in_recovery)?;
        Some(primary.replayed.saturating_sub(report.replayed))
    }

    /// The replication slots of the primary, those first that are furthest behind; none while there is no primary.
    #[must_use]
    pub fn slots(&self) -> &[SlotLag] {
        if self.without_since.is_none() { &self.slots } else { &[] }
    }

    /// Where clients may write.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What a switchover waits for; `None` if there is none.
    #[must_use]
    pub fn waits_for(&self) -> Option<&'static str> {
        self.switchover.as_ref().map(Switchover::words)
    }

    fn is_checked(&mut self, now: Time, place: usize, outcome: Checked) {
        let is_denied = matches!(outcome, Checked::Denied(_));
        let interval = if is_denied { self.terms.check_interval } else { self.interval(now) };
        let Some(member) = self.members.get_mut(place) else { return };
        let asked = member.under_way.unwrap_or(now);
        member.is_checked(now, outcome);
        member.due = (asked + interval).max(now);
    }

    fn is_told(&mut self, now: Time, agent: usize, answer: Result<AgentAnswer, Arc<str>>) {
        let next = self.agent_interval(now);
        self.agents.told(agent, now, next, answer);
    }

    /// Until when the primary surely holds the leader lock.
    pub(crate) fn lease_ends(&self) -> Option<Time> {
        self.agents.lease_of(self.primary()?, self.primary_since)
    }

    /// Why clients must not write at the primary any more, if so.
    fn danger(&self, now: Time) -> Option<String> {
        let primary = self.primary()?;
        if let Some(Some(leader)) = self.agents.leader(now, self.answer_lasts())
            && *leader != **primary
            && !self.is_beside_the_point(primary, leader, now)
        {
            return Some(format!("Patroni names another leader, {leader}"));
        }
        let is_over = self.terms.is_fencing && self.lease_ends().is_some_and(|ends| ends <= now);
        is_over.then(|| {
            format!("Patroni on the primary {primary} has not confirmed its leader lock, which may have run out")
        })
    }

    /// Whether the agents' names for hosts have nothing to do with ours, so that the leader that they name says nothing about a member.
    fn is_beside_the_point(&self, member: &str, leader: &str, now: Time) -> bool {
        let is_ours = self.members.iter().any(|member| **member.name() == *leader);
        !is_ours && !self.agents.knows(member, now, self.answer_lasts())
    }

    /// Finds out which host belongs to the cluster.
    fn agree_on_system(&mut self, out: &mut Vec<Command>) {
        let mut news = Vec::new();
        if self.identity.agree(&self.members, &mut news) {
            (self.primary, self.timeline) = (None, 0);
        }
        out.extend(news.into_iter().map(Command::Tell));
    }

    /// The member that proves to be the primary.
    fn proved(&self, now: Time) -> Option<usize> {
        let leader = self.agents.leader(now, self.answer_lasts());
        let agrees = |member: &Member| match leader {
            None => true,
            Some(None) => false,
            Some(Some(place)) => **member.name() == *place || self.is_beside_the_point(member.name(), place, now),
        };
        let fits = |place: &usize| {
            let member = &self.members[*place];
            member.report().is_some_and(|report| {
                !report.in_recovery && self.identity.is_ours(report.system) && age_of(report.timeline) >= self.timeline
            }) && agrees(member)
        };
        let timeline = |place: usize| self.members[place].report().map_or(0, |report| age_of(report.timeline));
        let all = (0..self.members.len()).rev().filter(fits);
        all.max_by_key(|place| (timeline(*place), self.primary == Some(*place)))
    }

    /// Decides who is the primary.
    fn judge(&mut self, now: Time, out: &mut Vec<Command>) {
        let proved = self.proved(now);
        match (proved, self.without_since) {
            (Some(place), since) => {
                let was = self.primary.replace(place);
                if was != Some(place) {
                    self.primary_since = now;
                    self.slots.clear();
                }
                let timeline = self.members[place].report().map_or(0, |report| report.timeline);
                self.timeline = self.timeline.max(timeline);
                self.without_since = None;
                let name = self.members[place].name();
                match (was.filter(|was| *was != place), since) {
                    (Some(was), _) => {
                        let former = self.members[was].name();
                        tell(
                            out,
                            false,
                            format!("host {name} is the primary now, on timeline {timeline} (was {former})"),
                        );
                        if let Some(text) = self.changes.happens(now) {
                            tell(out, true, text);
                        }
                    }
                    (None, Some(_)) if was.is_none() => {
                        tell(out, false, format!("host {name} is the primary, on timeline {timeline}"));
                    }
                    (None, Some(since)) => {
                        let lasted = now.since(since).as_secs_f64();
                        tell(out, false, format!("host {name} is the primary again, after {lasted:.1} s"));
                    }
                    (None, None) => {}
                }
                if since.is_some() {
                    out.push(Command::TryHosts);
                }
            }
            (None, None) => {
                self.without_since = Some(now);
                if self.switchover.is_none()
                    && let Some(place) = self.primary
                {
                    let (name, why) = (self.members[place].name(), self.lost_because(place, now));
                    tell(out, true, format!("the primary is lost: host {name} {why}"));
                }
                self.hurry(now);
            }
            (None, Some(_)) => {}
        }
        self.tell_strangers(now, proved, out);
        self.tell_unchecked(now, out);
        self.leave_silent_replicas(out);
    }

    /// Has replicas left that do not answer any more. A primary is left when another one is there.
    fn leave_silent_replicas(&mut self, out: &mut Vec<Command>) {
        for (place, member) in self.members.iter().enumerate() {
            if member.report().is_some() {
                self.told_silent.remove(&place);
            }
            // A kernel that knows no way to the host says so now and then: no silence for a moment, and no answer.
            if !member.is_silent() {
                self.left_replicas.remove(&place);
            } else if self.primary != Some(place) && self.left_replicas.insert(place) {
                if self.told_silent.insert(place) {
                    tell(out, true, format!("host {} does not answer: nobody reads there", member.name()));
                }
                out.push(Command::LeaveReplica(place));
            }
        }
    }

    /// Tells of hosts that cannot be checked, and of a primary whose lease is not known.
    fn tell_unchecked(&mut self, now: Time, out: &mut Vec<Command>) {
        for (place, member) in self.members.iter().enumerate() {
            match member.error().filter(|_| member.is_denied()) {
                None => drop(self.told_denied.remove(&place)),
                Some(why) if self.told_denied.insert(place) => {
                    tell(out, true, format!("host {} cannot be checked: {why}", member.name()));
                }
                Some(_) => {}
            }
        }
        let is_unknown = self.terms.is_fencing
            && self.without_since.is_none()
            && now.since(self.primary_since) > self.answer_lasts()
            && self.primary().is_some_and(|primary| self.agents.has_none_for(primary));
        if is_unknown && !self.has_told_no_lease {
            let primary = self.primary().cloned().unwrap_or_default();
            let text = format!(
                "no interface of patroni= belongs to the primary {primary}, so writes will not stop when its lock runs out: hosts= must name the members as Patroni does"
            );
            tell(out, true, text);
        }
        self.has_told_no_lease = is_unknown;
    }

    /// Why a member is not proved to be the primary.
    fn lost_because(&self, place: usize, now: Time) -> String {
        let member = &self.members[place];
        match (member.report(), member.error()) {
            (Some(report), _) if report.in_recovery => "is in recovery".to_owned(),
            (Some(report), _) if report.timeline < self.timeline => "is on an older timeline".to_owned(),
            (Some(_), _) => match self.agents.leader(now, self.answer_lasts()) {
                Some(Some(leader)) => format!("is not the leader for Patroni, which names {leader}"),
                _ => "is not the leader for Patroni, which names none".to_owned(),
            },
            (None, Some(why)) => format!("cannot be asked: {why}"),
            (None, None) => "has not answered".to_owned(),
        }
    }

    /// Tells of hosts that accept writes without being the primary, and of a leader that nobody has named in the configuration.
    fn tell_strangers(&mut self, now: Time, proved: Option<usize>, out: &mut Vec<Command>) {
        for place in 0..self.members.len() {
            // An answer from before the change says nothing.
            let is_new = self.members[place].report_since(self.primary_since).is_some();
            let is_other = proved.is_some_and(|proved| proved != place);
            let is_fenced = is_new && is_other && self.role_of(place) == MemberRole::Fenced;
            if !is_fenced {
                self.told_fenced.remove(&place);
            } else if self.told_fenced.insert(place) {
                let (name, primary) = (self.members[place].name(), self.primary().cloned().unwrap_or_default());
                let text =
                    format!("host {name} accepts writes, but {primary} is the primary: no client writes to {name}");
                tell(out, true, text);
            }
        }
        let leader = self.agents.leader(now, self.answer_lasts()).flatten();
        let is_ours = |place: &str| self.members.iter().any(|member| **member.name() == *place);
        let stranger = leader.filter(|leader| !is_ours(leader) && self.roster.is_none());
        if let Some(leader) = stranger.filter(|_| !self.has_told_stranger) {
            tell(out, true, format!("Patroni names a leader that is not among hosts=: {leader}"));
        }
        self.has_told_stranger = stranger.is_some();
    }

    /// Checks all members and asks all agents at this time at the latest.
    pub(crate) fn hurry(&mut self, by: Time) {
        self.members.iter_mut().for_each(|member| member.due = member.due.min(by));
        self.agents.hurry(by);
    }

    fn begin_switchover(&mut self, now: Time, to: Option<&str>, out: &mut Vec<Command>) {
        match self.plan(to) {
            Ok((from, to)) => {
                let (source, target) = (self.members[from].name(), self.members[to].name());
                tell(out, false, format!("switchover from {source} to {target}: waiting for a checkpoint"));
                let checkpoint = self.order_checkpoint(from, out);
                self.switchover = Some(Switchover::begin(now, from, to, self.agents.are_there(), checkpoint));
                self.hurry(now);
            }
            Err(why) => out.push(Command::SwitchedOver(Err(why))),
        }
    }

    /// Continues a switchover.
    fn go_on(&mut self, now: Time, mut next: Option<Move>, out: &mut Vec<Command>) {
        let primary = self.primary.filter(|_| self.without_since.is_none());
        let danger = self.danger(now);
        loop {
            let Some(switchover) = &mut self.switchover else { return };
            let (from, to) = (switchover.from, switchover.to);
            if let Some(why) = danger.as_ref().filter(|_| !switchover.is_handed_over()) {
                next = Some(Move::Over(Err(why.clone())));
            }
            let drained = switchover.drained_since();
            let asked = self.members[from].asked();
            let source = drained.and_then(|since| asked.zip(self.members[from].report_since(since)));
            let target = self.members[to].report();
            let demoted = switchover.demoted_since();
            let is_source_down = demoted.is_some_and(|since| self.members[from].is_down_since(since));
            let answer = demoted.and_then(|since| self.members[from].report_since(since));
            let is_source_up = answer.is_some_and(|report| !report.in_recovery);
            let sight = Sight { asked, source, is_source_up, is_source_down, target, primary };
            let Some(step) = next.take().or_else(|| switchover.look(now, sight)) else { return };
            let words = |word: &str| format!("switchover: {word}");
            match step {
                Move::Drain => {
                    tell(out, false, words("holding new transactions, waiting for open ones"));
                    self.set_gate(now, out);
                    out.push(Command::Drain);
                }
                Move::EndLoans => {
                    tell(out, true, words("drain_timeout is over, ending the transactions that are still open"));
                    out.push(Command::EndLoans);
                }
                Move::AskAgain => self.hurry(now + SOON),
                Move::AskAgents => {
                    let name = |place: usize| self.agents.name_of(self.members[place].name()).cloned();
                    match (self.agents.best_beside(self.members[from].name()), name(from), name(to)) {
                        (Some(agent), Some(from), Some(to)) => out.push(Command::AskSwitchover { agent, from, to }),
                        _ => next = Some(Move::Over(Err("Patroni does not know the members".to_owned()))),
                    }
                }
                Move::Demote => out.push(Command::Demote { from, to }),
                Move::Promote => out.push(Command::Promote(to)),
                Move::Over(outcome) => {
                    let to = switchover.to;
                    let name = |place: usize| Arc::clone(self.members[place].name());
                    let outcome = outcome.map(|summary| Summary { from: name(from), to: name(to), ..summary });
                    match &outcome {
                        Ok(summary) => tell(out, false, summary.to_string()),
                        Err(why) => tell(out, true, format!("the switchover has failed: {why}")),
                    }
                    self.switchover = None;
                    out.push(Command::SwitchedOver(outcome));
                }
            }
        }
    }

    /// Tells where clients may write, if that has changed.
    fn set_gate(&mut self, now: Time, out: &mut Vec<Command>) {
        let is_held = self.switchover.as_ref().is_some_and(|switchover| switchover.held().is_some());
        let danger = self.danger(now);
        let gate = match self.primary() {
            // What is still open at the primary must not go on there, whoever else is held.
            _ if danger.is_some() && (!is_held || self.is_following()) => Gate::Fenced,
            _ if is_held => Gate::Held,
            Some(name) => Gate::Only(Arc::clone(name)),
            None => Gate::Any,
        };
        if gate == self.gate {
            return;
        }
        let was_fenced = self.gate == Gate::Fenced;
        self.gate = gate.clone();
        if gate == Gate::Fenced {
            tell(out, true, format!("writes are stopped: {}", danger.unwrap_or_default()));
            self.hurry(now);
        } else if was_fenced && gate != Gate::Held {
            tell(out, false, "writes go on".to_owned());
        }
        out.push(Command::Gate(gate));
    }

    /// Puts the questions that are due.
    fn ask(&mut self, now: Time, out: &mut Vec<Command>) {
        for (place, member) in self.members.iter_mut().enumerate() {
            if member.under_way.is_none() && member.due <= now {
                member.under_way = Some(now);
                out.push(Command::Check(place));
            }
        }
        while let Some(agent) = self.agents.start(now) {
            out.push(Command::AskAgent(agent));
        }
        self.ask_store(now, out);
        // Between two checks, over whose connection it goes, and only while all is well: a switchover waits for other questions.
        let is_well = self.without_since.is_none() && self.switchover.is_none();
        let is_free = |place: &usize| self.members[*place].under_way.is_none();
        if let Some(primary) = self.primary.filter(is_free).filter(|_| is_well && self.slots_due <= now) {
            self.slots_due = now + SLOTS_INTERVAL;
            out.push(Command::AskSlots(primary));
        }
    }
}

fn tell(out: &mut Vec<Command>, is_warning: bool, text: String) {
    out.push(Command::Tell(News { is_warning, text }));
}

/// The shortest time by which one question is later than another.
const SOON: Duration = Duration::from_millis(1);
/// How often the primary is asked for its replication slots at most.
const SLOTS_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
