//! What the control thread asks of members and agents, and has them do.
//!
//! Always true: an answer is that of the moment at which the question arrives; each question has one outcome, within the time that
//! `control` allows.
//! Not here: which questions there are (the crate `cluster`), how members start and stop (`troubles`).

use std::sync::Arc;
use std::time::Duration;

use cluster::{Checked, Command, Event as Outcome};
use control::MachineId;

use crate::members::history::{Run, Start};
use crate::members::patroni::place_of;
use crate::members::{Alarm, Members};
use crate::sim::agenda::Event;
use crate::state::World;

/// Something to be done for the control thread.
#[derive(Debug)]
pub(super) struct Task {
    id: MachineId,
    command: Command,
    outcome: Option<Outcome>,
}

impl World {
    /// Sends out what the control thread wants of the cluster.
    pub(crate) fn serve_cluster(&mut self) {
        while let Some(task) = self.thread.control.next_cluster_task() {
            let Some(members) = &mut self.members else { continue };
            let number = members.tasks.len();
            members.tasks.push(Some(Task { id: task.id, command: task.command, outcome: None }));
            let pause = members.dice.micros(0..=members.latency);
            self.net.borrow_mut().agenda.after(pause, Event::Members(Alarm::Asked { task: number }));
        }
    }

    /// A question or a step reaches its target.
    pub(super) fn cluster_is_asked(&mut self, number: usize) {
        let Some(members) = &mut self.members else { return };
        let Some(command) = members.tasks[number].as_ref().map(|task| task.command.clone()) else { return };
        let back = members.dice.micros(0..=members.latency);
        let (outcome, after) = match command {
            Command::Check(member) => {
                let (outcome, after) = members.check(member);
                (Outcome::Checked { member, outcome }, after.unwrap_or(back))
            }
            Command::AskAgent(agent) => {
                let (answer, after) = members.ask(agent);
                (Outcome::AgentTold { agent, answer }, after.unwrap_or(back))
            }
            Command::Checkpoint { member, number } => {
                let is_there = matches!(members.check(member).0, Checked::Answered(_));
                let written = is_there.then_some(()).ok_or_else(|| Arc::from("no checkpoint"));
                (Outcome::Checkpointed { number, written }, back + members.dice.micros(0..=500_000))
            }
            Command::AskSwitchover { agent, from, to } => self.ask_switchover(agent, &from, &to, back),
            Command::Demote { from, to } => self.demote(from, to, back),
            Command::Promote(member) => self.promote_by_order(member, back),
            Command::AskSlots(member) => (Outcome::SlotsTold { member, slots: None }, back),
            // There is no store, and nobody tells members.
            Command::AskStore(_)
            | Command::WatchStore { .. }
            | Command::Members(_)
            | Command::Replayed(_)
            | Command::Gate(_)
            | Command::TryHosts
            | Command::LeaveReplica(_)
            | Command::Suspects(_)
            | Command::Drain
            | Command::EndLoans
            | Command::Tell(_)
            | Command::SwitchedOver(_) => (Outcome::Tick, back),
        };
        let Some(members) = &mut self.members else { return };
        if let Some(task) = &mut members.tasks[number] {
            task.outcome = Some(outcome);
        }
        self.net.borrow_mut().agenda.after(after, Event::Members(Alarm::Told { task: number }));
    }

    /// The control thread is told the outcome.
    pub(super) fn cluster_tells(&mut self, number: usize) {
        let Some(task) = self.members.as_mut().and_then(|members| members.tasks[number].take()) else { return };
        if let Some(event) = task.outcome {
            self.witness.note(|| format!("the control thread is told {event:?}"));
            self.control_hears(control::Event::Cluster { id: task.id, event });
        }
    }

    fn ask_switchover(&mut self, agent: usize, from: &str, to: &str, back: Duration) -> (Outcome, Duration) {
        let told = |done: Result<(), String>| Outcome::HandedOver(done.map_err(Arc::from));
        let Some(members) = &mut self.members else { return (Outcome::Tick, back) };
        if let (Err(why), after) = members.ask(agent) {
            // The answer to this question is waited for for longer.
            return (Outcome::HandedOver(Err(why)), after.map_or(back, |after| after * 10));
        }
        let luck = members.dice.among(0..=9);
        let (Some(from), Some(to)) = (place_of(from), place_of(to)) else { return (Outcome::Tick, back) };
        match luck {
            0 => (told(Err("status 503: the leader is not ready".to_owned())), back),
            // It is done, and the answer is lost.
            1 => {
                let done = self.hand_over(from, to);
                (told(done), LOST)
            }
            _ => {
                let done = self.hand_over(from, to);
                let takes = self.members.as_mut().map_or(back, |members| members.dice.micros(0..=2_000_000));
                (told(done), back + takes)
            }
        }
    }

    /// The command that demotes the primary; now and then it fails, or returns before the primary is down.
    fn demote(&mut self, from: usize, to: usize, back: Duration) -> (Outcome, Duration) {
        let Some(members) = &mut self.members else { return (Outcome::Tick, back) };
        let is_there = !members.history.borrow().members[from].is_cut_off;
        let luck = members.dice.among(0..=9);
        if luck == 0 || !is_there {
            return (Outcome::HandedOver(Err("exit status: 1".into())), back);
        }
        if luck < 4 {
            let after = members.dice.micros(0..=1_500_000);
            self.stop_member_later(from, to, after);
        } else {
            self.restart_member(from, Start::Standby(Some(to)));
        }
        (Outcome::HandedOver(Ok(())), back)
    }

    fn promote_by_order(&mut self, host: usize, back: Duration) -> (Outcome, Duration) {
        let Some(members) = &mut self.members else { return (Outcome::Tick, back) };
        let history = members.history.clone();
        let is_ready = {
            let history = history.borrow();
            let member = &history.members[host];
            member.run == Run::Up && member.is_reached() && member.in_recovery && !member.is_rising
        };
        if !is_ready {
            return (Outcome::Promoted(Err("cannot be asked".into())), back);
        }
        history.borrow_mut().promote(host, true);
        self.witness.count("promotions ordered by the pooler");
        self.witness.note(|| format!("host {host} is promoted by order of the pooler"));
        (Outcome::Promoted(Ok(())), back)
    }
}

impl Members {
    /// The outcome of a check, and when it is told, if that is not at once.
    fn check(&self, host: usize) -> (Checked, Option<Duration>) {
        let mut history = self.history.borrow_mut();
        let member = &history.members[host];
        match member.run {
            _ if !member.is_reached() => (Checked::Silent, Some(CHECK_MAX)),
            Run::Down => (Checked::Down("connection refused".into()), None),
            Run::Starting => (Checked::Refused("FATAL: the database system is starting up".into()), None),
            Run::Up => (Checked::Answered(history.report(host)), None),
        }
    }

    /// The answer of an agent, in the same way.
    fn ask(&self, host: usize) -> (Result<cluster::AgentAnswer, Arc<str>>, Option<Duration>) {
        let agent = self.agents.as_ref().map(|agents| &agents.agents[host]);
        let is_slow = agent.is_some_and(|agent| agent.is_slow) || self.history.borrow().members[host].is_cut_off;
        match agent {
            _ if is_slow => (Err("no answer within 2 s".into()), Some(AGENT_MAX)),
            Some(agent) if !agent.is_killed => (Ok(self.agents_answer(host)), None),
            _ => (Err("connection refused".into()), None),
        }
    }
}

/// The time limits of `control` for a check, and for the answer of an agent.
const CHECK_MAX: Duration = Duration::from_secs(1);
const AGENT_MAX: Duration = Duration::from_secs(2);
/// The same for a step of a switchover.
const LOST: Duration = Duration::from_secs(600);
