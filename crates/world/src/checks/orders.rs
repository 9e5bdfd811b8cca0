//! Checks that the control thread and every worker carry out each order.
//!
//! Always true: a pause that was reported complete holds until it is ended; every worker answers every order; a
//! connection that was packed for another process is not used by this one.
//! Not here: who gives orders (`faults`).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::WorkerId;
use pool::ClientKey;
use wire::backend;
use wire::notice::Notice;
use worker::letters::{ActiveConfig, Order, ToWorker, Whose};

use crate::checks::witness::Charge;
use crate::faults::operator::{Given, RELOAD, stands};
use crate::postgres::session::{Life, Session};
use crate::sim::io::SimSocket;
use crate::sim::net::{Holder, Net};
use crate::state::World;

impl World {
    /// The control thread answers on the console. Returns the client number if the answer is for the operator.
    pub(crate) fn note_answer(&mut self, letter: &ToWorker<SimSocket>) -> Option<ClientKey> {
        let ToWorker::ConsoleAnswer { client, bytes, .. } = letter else { return None };
        let text = self.operator.asked.remove(client)?;
        self.is_answered(&text, bytes);
        Some(*client)
    }

    /// The control thread sends a letter to a worker.
    pub(crate) fn note_order(&mut self, to: u8, letter: &ToWorker<SimSocket>) {
        match letter {
            ToWorker::AuthQueryAnswer { inquirer, answer } => {
                self.hear_secret(WorkerId(to - self.serving_workers.start), *inquirer, answer)
            }
            ToWorker::ListenerLost { database } => {
                self.witness.count("sessions for all that ended");
                self.witness.board.borrow_mut().gaps.insert(database.to_string());
            }
            _ => {}
        }
        if to != self.serving_workers.start {
            return;
        }
        match letter {
            ToWorker::ActiveConfig(active) => self.in_force(active.clone()),
            ToWorker::Order { question, order } => self.is_ordered(*question, order),
            ToWorker::ForgetOrder { question } => drop(self.operator.open.remove(question)),
            ToWorker::WakeUp => {
                self.check_packed();
                self.operator.is_suspended = false;
            }
            ToWorker::Shutdown(way) => self.goes_down(*way),
            ToWorker::StopLending { .. } => self.lending_ends(),
            ToWorker::EndClients { .. } => self.clients_are_ended(),
            _ => {}
        }
    }

    pub(crate) fn is_answered(&mut self, text: &str, bytes: &[u8]) {
        if bytes.first() != Some(&backend::ERROR_RESPONSE) {
            return;
        }
        self.witness.count("commands refused");
        let said = crate::message_at(bytes, 0).map(|(_, body, _)| Notice::parse(body).message.to_string());
        self.witness.note(|| format!("{text} is refused: {said:?}"));
        if said.as_deref() == Some(IN_PROGRESS) {
            let is_needed = [RELOAD, "RESUME ", "ENABLE "].iter().any(|word| text.starts_with(word));
            self.operator.owed.extend(is_needed.then(|| text.to_owned()));
        } else if text == RELOAD {
            self.witness.accuse(Charge::NoReason, format!("the files are refused: {said:?}"));
        }
    }

    /// A new configuration comes into force.
    pub(crate) fn in_force(&mut self, active: Arc<ActiveConfig>) {
        self.operator.mind(&active.standing);
        self.active = active.clone();
        self.note_gate();
        self.checkers.in_force(&active, self.witness.now);
        self.forget_old_secrets();
    }

    /// The control thread gives an order to every worker.
    pub(crate) fn is_ordered(&mut self, question: u64, order: &Order) {
        match order {
            Order::Kill(_) => self.checkers.was_removed = true,
            Order::Reconnect(whose) => self.renewal_ordered(whose),
            Order::Suspend { is_handover } => self.operator.is_suspended = !is_handover,
            _ => {}
        }
        let given = Given { order: order.clone(), obeyed: BTreeSet::new(), done: 0, is_undone: false };
        self.operator.open.insert(question, given);
    }

    /// A worker has carried out an order.
    pub(crate) fn obeyed(&mut self, from: u8, question: u64, is_done: bool) {
        let workers = self.serving_workers.len();
        let Some(given) = self.operator.open.get_mut(&question) else { return };
        if let Order::KillClient(_) = given.order {
            self.evicted.last = self.evicted.last.max(self.witness.now);
        }
        given.obeyed.insert(from);
        given.done += usize::from(is_done);
        if given.obeyed.len() < workers {
            return;
        }
        self.witness.count("orders");
        let Some(Given { order, done, is_undone, .. }) = self.operator.open.remove(&question) else { return };
        match order {
            Order::AwaitUnused(whose) | Order::Kill(whose) => {
                // The pause may have been ended before it was complete.
                if stands(&self.active.standing, &whose) && !is_undone {
                    self.operator.held.push(whose);
                    let sessions: Vec<u32> = (0..self.postgres.sessions.len() as u32).collect();
                    let net = self.net.clone();
                    self.check_pauses(&net.borrow(), &sessions);
                }
            }
            Order::Suspend { .. } => self.witness.count("suspensions"),
            Order::KillClient(id) => self.check_killed(id, done),
            Order::Reconnect(whose) => self.renewal_obeyed(&whose),
            Order::AwaitDrained(_) => self.witness.count("primaries drained"),
            Order::EndLoans(_) => self.witness.count("loans ended for a switchover"),
            Order::AwaitRenewed(_) | Order::ConfirmDrained | Order::Trace { .. } | Order::EndTrace { .. } => {}
        }
    }

    /// A worker reports that nothing is left that the shutdown waits for, or takes that back.
    pub(crate) fn drained(&mut self, from: u8, is_drained: bool) {
        match is_drained {
            true => drop(self.checkers.drained.insert(from)),
            false => drop(self.checkers.drained.remove(&from)),
        }
    }

    /// Checks that none of these sessions belongs to a paused database.
    pub(crate) fn check_pauses(&mut self, net: &Net, sessions: &[u32]) {
        if self.operator.held.is_empty() {
            return;
        }
        // Connections that the old process of an online restart has not closed yet are out of reach of an order.
        let is_left = |end: u32| matches!(net.end(end).holder, Holder::Worker { worker, .. } if worker < self.serving_workers.start);
        let is_open = |session: &Session| {
            let ours = session.end ^ 1;
            session.is_server() && !matches!(session.life, Life::Dead) && !net.end(ours).is_closed && !is_left(ours)
        };
        let sessions = sessions.iter().map(|&number| &self.postgres.sessions[number as usize]);
        for session in sessions.filter(|session| is_open(session)) {
            let is_held = |held: &Whose| held.as_deref().is_none_or(|name| *name == *session.database);
            if self.operator.held.iter().any(is_held) {
                let text = format!("server {} of {} is there in a pause", session.number, session.database);
                self.witness.accuse(Charge::BrokenPause, text);
            }
        }
    }

    /// Checks that every order has been answered.
    pub(crate) fn check_orders(&mut self) {
        if let Some(Given { order, obeyed, .. }) = self.operator.open.values().next() {
            let text = format!("{order:?} has been obeyed by {obeyed:?} only, and nothing is left to wait for");
            self.witness.accuse(Charge::NotServed, text);
        }
    }

    /// Checks that a connection packed for another process is not used: the other process may own it already.
    pub(crate) fn check_packed(&mut self) {
        if self.checkers.shutdown.is_some() {
            return;
        }
        let Some(handover) = &self.operator.handover else { return };
        let net = self.net.borrow();
        for &(end, then) in &handover.packed {
            let now = net.end(end).traffic();
            if now != then {
                let text = format!(
                    "a connection was used after it had been packed for another process: {then:?} bytes given and read \
                     then, {now:?} now"
                );
                self.witness.accuse(Charge::ForeignBytes, text);
            }
        }
    }
}

/// The error for orders during an online restart.
const IN_PROGRESS: &str = "an online restart is in progress";
