//! What happens to the members and agents of a cluster: crashes, cuts, starts, promotions.
//!
//! Always true: of a host that is cut off no word arrives, not even that of its end, before it is reached again; in peace every member runs
//! and follows the primary.
//! Not here: which troubles there are (`plan::clusters`).

use std::time::Duration;

use base::Time;
use cluster::Gate;

use crate::checks::witness::Charge;
use crate::members::Alarm;
use crate::members::history::{Member, Run, Start};
use crate::plan::clusters::{Trouble, Whom};
use crate::postgres::manner::Mood;
use crate::sim::agenda::Event;
use crate::state::World;

impl World {
    /// An alarm of the cluster rings.
    pub(crate) fn members_happen(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Loop { host } => self.agent_loops(host),
            Alarm::Expires => self.lock_expires(),
            Alarm::Starts { host, stint } if self.is_stint(host, stint) => {
                self.change(host, |member| member.run = Run::Up);
                self.witness.note(|| format!("host {host} has started"));
            }
            Alarm::Promoted { host, stint } if self.is_stint(host, stint) => {
                let Some(members) = &self.members else { return };
                let is_rising = members.history.borrow().members[host].is_rising;
                if is_rising {
                    members.history.borrow_mut().promote(host, false);
                    self.witness.count("promotions");
                    self.witness.note(|| format!("host {host} is promoted"));
                }
            }
            Alarm::Stops { host, stint, follows } if self.is_stint(host, stint) => {
                self.restart_member(host, Start::Standby(Some(follows)));
            }
            Alarm::Starts { .. } | Alarm::Promoted { .. } | Alarm::Stops { .. } => {}
            Alarm::Order => self.put_in_order(),
            Alarm::Asked { task } => self.cluster_is_asked(task),
            Alarm::Told { task } => self.cluster_tells(task),
        }
    }

    /// Begins a trouble, by its place in the plan. Which member it is about is kept for the end.
    pub(crate) fn begin_cluster_trouble(&mut self, index: u32, trouble: &Trouble) {
        let struck = self.strike(trouble);
        if let (Some(members), Some(host)) = (&mut self.members, struck) {
            members.struck.insert(index, host);
        }
        self.send_mail();
    }

    fn strike(&mut self, trouble: &Trouble) -> Option<usize> {
        let Some(members) = &self.members else { return None };
        let history = members.history.clone();
        let host = |whom: &Whom| match whom {
            Whom::Primary => history.borrow().primary().unwrap_or(0),
            Whom::At(host) => *host,
        };
        match trouble {
            Trouble::Switchover => {
                self.command("SWITCHOVER main".to_owned());
                None
            }
            Trouble::Hold { database, seconds } => {
                self.command(format!("HOLD {database} FOR {seconds}"));
                None
            }
            Trouble::Elsewhere => {
                let from = history.borrow().primary()?;
                let to = (from + 1) % history.borrow().members.len();
                let _ = self.hand_over(from, to);
                None
            }
            Trouble::Promotion => {
                let former = history.borrow().primary()?;
                let count = history.borrow().members.len();
                let is_ready = |host: &usize| {
                    let history = history.borrow();
                    let member = &history.members[*host];
                    member.run == Run::Up && member.in_recovery && !member.is_rising
                };
                let to = (0..count).filter(is_ready).max_by_key(|host| {
                    history.borrow_mut().advance(*host);
                    history.borrow().members[*host].rows()
                })?;
                self.begin_promotion(to);
                Some(former)
            }
            Trouble::Crash { host: whom } => {
                let host = host(whom);
                self.stop_member(host, false);
                Some(host)
            }
            Trouble::CutOff { host: whom } => self.hide(host(whom), |member| member.is_cut_off = true),
            Trouble::Hidden { host: whom } => self.hide(host(whom), |member| member.is_hidden = true),
            Trouble::NoAgent { host: whom } => {
                let host = host(whom);
                // Who has just become the primary may not have told the pooler yet that it holds the lock (decision 0028).
                let since = history.borrow().members[host].primary_since;
                let is_known = self.witness.now.since(since) > KNOWN;
                if let Some(agents) =
                    self.members.as_mut().and_then(|members| members.agents.as_mut()).filter(|_| is_known)
                {
                    agents.agents[host].is_killed();
                }
                Some(host)
            }
            Trouble::NoStore { host: whom } => self.change_agent(host(whom), |agent| agent.has_no_store = true),
            Trouble::SlowAgent { host: whom } => self.change_agent(host(whom), |agent| agent.is_slow = true),
            Trouble::Lie { host: whom } => self.change_agent(host(whom), |agent| agent.lies = true),
        }
    }

    /// Ends a trouble.
    pub(crate) fn end_cluster_trouble(&mut self, index: u32, trouble: &Trouble) {
        if let Trouble::Hold { database, .. } = trouble {
            self.command(format!("RELEASE {database}"));
            self.send_mail();
        }
        let Some(host) = self.members.as_mut().and_then(|members| members.struck.remove(&index)) else { return };
        match trouble {
            Trouble::Switchover | Trouble::Elsewhere | Trouble::Hold { .. } => {}
            Trouble::Promotion => {
                let Some(members) = &self.members else { return };
                let primary = members.history.borrow().primary();
                let is_former = members.history.borrow().members[host].is_primary();
                if let Some(primary) = primary.filter(|primary| *primary != host && is_former) {
                    self.restart_member(host, Start::Standby(Some(primary)));
                }
            }
            Trouble::Crash { .. } => {
                let is_down = self
                    .members
                    .as_ref()
                    .is_some_and(|members| members.history.borrow().members[host].run == Run::Down);
                if is_down {
                    self.restart_member(host, Start::AsBefore);
                }
            }
            Trouble::CutOff { .. } => {
                self.hide(host, |member| member.is_cut_off = false);
            }
            Trouble::Hidden { .. } => {
                self.hide(host, |member| member.is_hidden = false);
            }
            Trouble::NoAgent { .. } => drop(self.change_agent(host, |agent| agent.is_killed = false)),
            Trouble::NoStore { .. } => drop(self.change_agent(host, |agent| agent.has_no_store = false)),
            Trouble::SlowAgent { .. } => drop(self.change_agent(host, |agent| agent.is_slow = false)),
            Trouble::Lie { .. } => drop(self.change_agent(host, |agent| agent.lies = false)),
        }
    }

    /// The faults are over: all troubles end, and without agents an operator puts the members in order.
    pub(crate) fn make_peace(&mut self) {
        let Some(members) = &mut self.members else { return };
        let history = members.history.clone();
        let count = history.borrow().members.len();
        if let Some(agents) = &mut members.agents {
            for agent in &mut agents.agents {
                (agent.is_killed, agent.is_slow, agent.has_no_store, agent.lies) = (false, false, false, false);
            }
        }
        let has_agents = members.agents.is_some();
        for host in 0..count {
            self.hide(host, |member| (member.is_cut_off, member.is_hidden) = (false, false));
            let is_down = history.borrow().members[host].run == Run::Down;
            if is_down {
                self.restart_member(host, Start::AsBefore);
            }
        }
        if !has_agents {
            self.put_in_order();
        }
    }

    /// An operator makes one member the primary and the others its standbys, once no switchover of the pooler is under way.
    fn put_in_order(&mut self) {
        let Some(members) = &self.members else { return };
        if self.active.standing.gate("main") == Some(&Gate::Held) {
            self.net.borrow_mut().agenda.after(AGAIN, Event::Members(Alarm::Order));
            return;
        }
        let history = members.history.clone();
        let count = history.borrow().members.len();
        history.borrow_mut().members.iter_mut().for_each(|member| member.is_rising = false);
        let primary = (0..count).max_by_key(|host| {
            let history = history.borrow();
            let member = &history.members[*host];
            (!member.in_recovery, member.timeline, member.rows())
        });
        let Some(primary) = primary else { return };
        if history.borrow().members[primary].in_recovery {
            // It may be starting; its sessions learn of it when it is up.
            history.borrow_mut().promote(primary, false);
        }
        for host in (0..count).filter(|host| *host != primary) {
            let (is_primary, follows) = {
                let history = history.borrow();
                (!history.members[host].in_recovery, history.members[host].follows)
            };
            if is_primary {
                self.restart_member(host, Start::Standby(Some(primary)));
            } else if follows != Some(primary) {
                history.borrow_mut().follow(host, primary);
            }
        }
    }

    /// Stops PostgreSQL on a member.
    pub(super) fn stop_member(&mut self, host: usize, is_clean: bool) {
        let Some(members) = &self.members else { return };
        if members.history.borrow().members[host].run == Run::Down {
            return;
        }
        self.witness.note(|| format!("host {host} stops"));
        members.history.borrow_mut().stop(host, is_clean);
        self.postgres.stop_host(&mut self.net.borrow_mut(), host, is_clean, &mut self.witness);
        self.set_mood(host);
    }

    /// Starts PostgreSQL on a member again, after it was stopped. Its agent may know better as what.
    pub(super) fn restart_member(&mut self, host: usize, start: Start) {
        self.stop_member(host, false);
        let now = self.witness.now;
        let Some(members) = &mut self.members else { return };
        let is_cut_off = members.history.borrow().members[host].is_cut_off;
        let by_agent = members.agents.as_ref().and_then(|agents| agents.start(host, is_cut_off, now));
        let start = if start == Start::AsBefore { by_agent.unwrap_or(start) } else { start };
        members.history.borrow_mut().start(host, start);
        let stint = members.history.borrow().members[host].stint;
        let after = members.dice.micros(20_000..=1_500_000);
        self.net.borrow_mut().agenda.after(after, Event::Members(Alarm::Starts { host, stint }));
        self.set_mood(host);
    }

    /// A member is stopped a little later, and starts again as a standby.
    pub(super) fn stop_member_later(&mut self, host: usize, follows: usize, after: Duration) {
        let Some(members) = &self.members else { return };
        let stint = members.history.borrow().members[host].stint;
        self.net.borrow_mut().agenda.after(after, Event::Members(Alarm::Stops { host, stint, follows }));
    }

    pub(super) fn begin_promotion(&mut self, host: usize) {
        let Some(members) = &mut self.members else { return };
        let after = members.dice.micros(1_000..=800_000);
        let stint = {
            let mut history = members.history.borrow_mut();
            let member = &mut history.members[host];
            member.is_rising = true;
            member.stint
        };
        self.net.borrow_mut().agenda.after(after, Event::Members(Alarm::Promoted { host, stint }));
    }

    fn is_stint(&self, host: usize, stint: u32) -> bool {
        self.members.as_ref().is_some_and(|members| members.history.borrow().members[host].stint == stint)
    }

    /// Changes who reaches a member.
    fn hide(&mut self, host: usize, how: impl Fn(&mut Member)) -> Option<usize> {
        self.change(host, how);
        Some(host)
    }

    fn change(&mut self, host: usize, how: impl Fn(&mut Member)) {
        let Some(members) = &mut self.members else { return };
        let was_reached = members.history.borrow().members[host].is_reached();
        how(&mut members.history.borrow_mut().members[host]);
        if members.history.borrow().members[host].is_reached() != was_reached {
            members.way_changed = self.witness.now;
        }
        self.set_mood(host);
    }

    fn change_agent(&mut self, host: usize, how: impl Fn(&mut super::patroni::Agent)) -> Option<usize> {
        let agents = self.members.as_mut()?.agents.as_mut()?;
        how(&mut agents.agents[host]);
        Some(host)
    }

    /// How a host answers connection attempts, and whether anything reaches its sessions.
    fn set_mood(&mut self, host: usize) {
        let Some(members) = &self.members else { return };
        let member = members.history.borrow().members[host].clone();
        self.postgres.hosts[host].mood = match member.run {
            _ if !member.is_reached() => Mood::Hanging,
            Run::Up => Mood::Well,
            Run::Starting => Mood::Starting,
            Run::Down => Mood::Refusing,
        };
        let net = self.net.clone();
        self.postgres.set_cut(&mut net.borrow_mut(), host, !member.is_reached(), &mut self.witness);
    }

    /// Looks at what the history says must not have happened, after every event.
    pub(crate) fn check_history(&mut self) {
        let Some(members) = &self.members else { return };
        for nonce in std::mem::take(&mut self.witness.acknowledged) {
            self.witness.count("writes acknowledged");
            members.history.borrow_mut().acknowledge(nonce);
        }
        for wrong in members.history.borrow_mut().wrongs.drain(..) {
            self.witness.accuse(Charge::WrongHost, wrong);
        }
    }

    /// A gate comes into force.
    pub(crate) fn note_gate(&mut self) {
        let Some(members) = &self.members else { return };
        let gate = self.active.standing.gate("main").cloned().unwrap_or_default();
        self.witness.note(|| format!("the gate is {gate:?}"));
        members.history.borrow_mut().gate_is(gate);
    }

    /// Checks, from time to time, that clients are not held for too long.
    pub(crate) fn look_at_the_held(&mut self) {
        let now = self.witness.now;
        let (Some(members), Some(plan)) = (&mut self.members, &self.plan.cluster) else { return };
        let is_held = self.active.standing.gate("main") == Some(&Gate::Held);
        let since: Option<Time> = is_held.then(|| members.held_since.unwrap_or(now));
        members.held_since = since;
        // Once the primary was demoted by us, there is nobody else to write to.
        let limit = Duration::from_micros(plan.hold) + LATE;
        if since.is_some_and(|since| now.since(since) > limit) && members.agents.is_some() && !self.plan.is_calm {
            self.witness.accuse(Charge::NotServed, format!("clients are held for longer than {limit:?}"));
        }
    }
}

/// How long the pooler may take to learn that a primary holds the lock.
const KNOWN: Duration = Duration::from_secs(4);
/// How soon an operator looks again.
const AGAIN: Duration = Duration::from_secs(1);
/// How late a hold may end.
const LATE: Duration = Duration::from_secs(1);
