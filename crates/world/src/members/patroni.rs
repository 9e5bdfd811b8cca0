//! The agents of a cluster, as Patroni's are: one beside each member, and a store with the leader lock.
//!
//! Always true: an agent promotes its member only while it holds the lock; an agent that cannot renew the lock stops its primary before
//! the lock runs out. One that was killed does neither.
//! Not here: how the pooler asks them (`tasks`), what is done to them (`troubles`).

use std::time::Duration;

use base::Time;
use cluster::{AgentAnswer, AgentMember};

use crate::checks::checkers::Phase;
use crate::members::history::{Run, Start};
use crate::members::{Alarm, Members};
use crate::plan::clusters::LockTimes;
use crate::sim::agenda::Event;
use crate::state::World;

/// The agents and their store.
#[derive(Debug)]
pub(crate) struct Agents {
    times: LockTimes,
    /// Who holds the lock, and until when.
    leader: Option<usize>,
    expires: Time,
    pub(super) agents: Vec<Agent>,
}

impl Agent {
    /// It ends at once, and knows nothing when it is started again.
    pub(super) fn is_killed(&mut self) {
        (self.is_killed, self.seen) = (true, None);
    }
}

/// An agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Agent {
    pub(super) is_killed: bool,
    pub(super) is_slow: bool,
    pub(super) has_no_store: bool,
    pub(super) lies: bool,
    /// The leader as it has seen it last.
    seen: Option<usize>,
}

impl Agents {
    pub(super) fn new(times: LockTimes, members: usize, primary: usize, now: Time) -> Self {
        let agent = Agent { seen: Some(primary), ..Agent::default() };
        let expires = now + Duration::from_micros(times.ttl);
        Self { times, leader: Some(primary), expires, agents: vec![agent; members] }
    }

    fn holder(&self, now: Time) -> Option<usize> {
        self.leader.filter(|_| now < self.expires)
    }

    /// As what an agent starts its member; `None` if nobody but itself says that.
    pub(super) fn start(&self, host: usize, is_cut_off: bool, now: Time) -> Option<Start> {
        let agent = &self.agents[host];
        let holder = self.holder(now).filter(|_| !agent.has_no_store && !is_cut_off);
        match holder {
            _ if agent.is_killed => None,
            Some(leader) if leader == host => None,
            leader => Some(Start::Standby(leader)),
        }
    }
}

impl Members {
    /// What an agent answers to the pooler.
    pub(super) fn agents_answer(&self, host: usize) -> AgentAnswer {
        let history = self.history.borrow();
        let Some(Agents { times, agents, .. }) = &self.agents else { return AgentAnswer::default() };
        let agent = &agents[host];
        // That of a host that accepts writes tells the truth: the lease rests on it.
        let lies = agent.lies && agent.seen != Some(host) && history.members[host].in_recovery;
        let leader = if lies { Some(host) } else { agent.seen };
        let member = |place: usize| AgentMember {
            name: name_of(place).into(),
            place: format!("10.200.0.{place}:5432"),
            agent: Some(format!("10.200.0.{place}:8008")),
            is_leader: leader == Some(place),
            timeline: history.members[place].timeline + u32::from(lies && leader == Some(place)),
        };
        AgentAnswer {
            own: Some(name_of(host).into()),
            holds_lock: lies || agent.seen == Some(host) && history.members[host].is_primary(),
            members: (0..agents.len()).map(member).collect(),
            is_paused: false,
            lock: Some((Duration::from_micros(times.ttl), Duration::from_micros(times.loop_wait))),
            ..AgentAnswer::default()
        }
    }

    /// Whether nobody is better suited to be the leader.
    fn is_best(&self, host: usize) -> bool {
        let mut history = self.history.borrow_mut();
        let Some(Agents { agents, .. }) = &self.agents else { return false };
        (0..agents.len()).for_each(|member| history.advance(member));
        let ours = &history.members[host];
        ours.run == Run::Up
            && (0..agents.len()).filter(|other| *other != host).all(|other| {
                let (agent, member) = (&agents[other], &history.members[other]);
                let is_heard = !agent.is_killed && !agent.has_no_store && !member.is_cut_off && member.run == Run::Up;
                // Its agent tells that it is the primary, or that it has more.
                !is_heard || !ours.in_recovery || member.in_recovery && member.rows() <= ours.rows()
            })
    }
}

impl World {
    /// The agents begin.
    pub(crate) fn begin_agents(&mut self) {
        let Some(members) = &mut self.members else { return };
        let Some(agents) = &members.agents else { return };
        let (times, count, expires) = (agents.times, agents.agents.len(), agents.expires);
        let agenda = &mut self.net.borrow_mut().agenda;
        for host in 0..count {
            let after = members.dice.micros(0..=times.loop_wait);
            agenda.after(after, Event::Members(Alarm::Loop { host }));
        }
        agenda.at(expires, Event::Members(Alarm::Expires));
    }

    /// An agent looks at the state of things, and will again.
    pub(super) fn agent_loops(&mut self, host: usize) {
        let Some(agents) = self.members.as_ref().and_then(|members| members.agents.as_ref()) else { return };
        if matches!(self.checkers.phase, Phase::Last { .. } | Phase::Over) {
            return;
        }
        let wait = Duration::from_micros(agents.times.loop_wait);
        self.net.borrow_mut().agenda.after(wait, Event::Members(Alarm::Loop { host }));
        self.agent_looks(host);
    }

    /// The lock may have run out: all agents look.
    pub(super) fn lock_expires(&mut self) {
        let now = self.witness.now;
        let Some(agents) = self.members.as_ref().and_then(|members| members.agents.as_ref()) else { return };
        if agents.expires <= now {
            (0..agents.agents.len()).for_each(|host| self.agent_looks(host));
        }
    }

    fn agent_looks(&mut self, host: usize) {
        let now = self.witness.now;
        let is_over = matches!(self.checkers.phase, Phase::Last { .. } | Phase::Over);
        let Some(members) = self.members.as_mut().filter(|_| !is_over) else { return };
        let history = members.history.clone();
        let Some(agents) = &mut members.agents else { return };
        let member = history.borrow().members[host].clone();
        if agents.agents[host].is_killed {
            return;
        }
        if agents.agents[host].has_no_store || member.is_cut_off {
            if member.is_primary() || member.is_rising {
                self.witness.note(|| format!("the agent of host {host} cannot renew its lock"));
                self.restart_member(host, Start::Standby(None));
            }
            return;
        }
        let is_outdated = member.is_primary() && member.timeline < history.borrow().newest();
        match agents.holder(now) {
            // The store knows of a newer timeline.
            leader if is_outdated => self.restart_member(host, Start::Standby(leader.filter(|leader| *leader != host))),
            Some(leader) if leader == host && member.run != Run::Up => {}
            Some(leader) if leader == host => {
                self.hold_lock(host);
                if member.in_recovery && !member.is_rising {
                    self.begin_promotion(host);
                }
            }
            Some(leader) if member.is_primary() || member.is_rising => {
                self.restart_member(host, Start::Standby(Some(leader)));
            }
            Some(leader) if member.run == Run::Up && member.follows != Some(leader) => {
                history.borrow_mut().follow(host, leader);
            }
            Some(_) => {}
            None if members.is_best(host) => {
                self.witness.count("elections");
                self.witness.note(|| format!("the agent of host {host} takes the lock"));
                self.hold_lock(host);
                if member.in_recovery && !member.is_rising {
                    self.begin_promotion(host);
                }
            }
            None => {}
        }
        if let Some(agents) = self.members.as_mut().and_then(|members| members.agents.as_mut()) {
            agents.agents[host].seen = agents.holder(now);
        }
    }

    fn hold_lock(&mut self, host: usize) {
        let Some(agents) = self.members.as_mut().and_then(|members| members.agents.as_mut()) else { return };
        agents.leader = Some(host);
        agents.expires = self.witness.now + Duration::from_micros(agents.times.ttl);
        self.net.borrow_mut().agenda.at(agents.expires, Event::Members(Alarm::Expires));
    }

    /// The agents hand the lead over, if they can: the leader stops when its standbys have everything.
    pub(super) fn hand_over(&mut self, from: usize, to: usize) -> Result<(), String> {
        let now = self.witness.now;
        let Some(members) = &mut self.members else { return Err("no agents".to_owned()) };
        let history = members.history.clone();
        let Some(agents) = &mut members.agents else { return Err("no agents".to_owned()) };
        let is_well = |place: usize| {
            let (agent, member) = (&agents.agents[place], &history.borrow().members[place]);
            !agent.is_killed && !agent.has_no_store && !member.is_cut_off && member.run == Run::Up
        };
        let is_standby = history.borrow().members[to].in_recovery && history.borrow().members[to].follows == Some(from);
        let is_leader = agents.holder(now) == Some(from) && history.borrow().members[from].is_primary();
        if !is_leader || !is_standby || !is_well(from) || !is_well(to) {
            return Err("no good candidates have been found".to_owned());
        }
        self.witness.count("leads handed over");
        self.stop_member(from, true);
        self.hold_lock(to);
        if let Some(agents) = self.members.as_mut().and_then(|members| members.agents.as_mut()) {
            agents.agents.iter_mut().filter(|agent| !agent.is_killed).for_each(|agent| agent.seen = Some(to));
        }
        self.begin_promotion(to);
        self.restart_member(from, Start::Standby(Some(to)));
        Ok(())
    }
}

/// The agents' name of a member.
pub(super) fn name_of(place: usize) -> String {
    format!("m{place}")
}

/// The member of such a name.
pub(super) fn place_of(name: &str) -> Option<usize> {
    name.strip_prefix('m')?.parse().ok()
}
