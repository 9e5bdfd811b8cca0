//! The operator of a world: says on the console what operators say there, and sees to it that what is ordered is obeyed.
//!
//! Always true: a pause that has been reported complete holds until it is ended; every order is answered by every worker.
//! Not here: when something is ordered (`faults`), online restarts (`takeover`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::WorkerId;
use control::Event;
use pool::ClientKey;
use wire::notice::Notice;
use wire::{Request, backend};
use worker::letters::{Force, Order, Right, Standing, ToControl, ToWorker, Whose};

use crate::checks::witness::Charge;
use crate::plan::Plan;
use crate::plan::fault::{Command, What};
use crate::postgres::session::{Life, Session};
use crate::sim::dice::Dice;
use crate::sim::io::SimSocket;
use crate::sim::net::{Holder, Net};
use crate::sim::takeover::{Arriving, Handover};
use crate::world::World;

/// What the operator remembers.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    /// How many commands have been said.
    said: u32,
    /// Those that are not answered, by the clients that have said them.
    asked: BTreeMap<ClientKey, String>,
    /// What is to be said when no online restart is in the way any more.
    pub(crate) owed: Vec<String>,
    /// Orders that have not been obeyed by everybody, by their numbers.
    pub(crate) open: BTreeMap<u64, Given>,
    /// Pauses that were reported complete.
    pub(crate) held: Vec<Whose>,
    /// SUSPEND.
    pub(crate) is_suspended: bool,
    /// An online restart that is under way.
    pub(crate) handover: Option<Handover>,
    /// One that is about to begin: its chance, and whether its new process comes up.
    pub(crate) comes: Option<(u64, bool)>,
    /// What the last one has brought and has not come to its worker.
    pub(crate) arriving: Vec<Arriving>,
}

/// An order.
#[derive(Debug)]
pub(crate) struct Given {
    order: Order,
    /// The workers that have obeyed.
    obeyed: BTreeSet<u8>,
    /// How many of them had something to do it to.
    done: usize,
    /// What it has paused goes on already.
    is_undone: bool,
}

impl Operator {
    /// Pauses that do not stand any more, such as those of databases that are gone, hold nobody.
    fn mind(&mut self, standing: &Standing) {
        self.held.retain(|whose| stands(standing, whose));
        let pauses = self.open.values_mut().filter_map(|given| match &given.order {
            Order::Kill(whose) | Order::AwaitUnused(whose) => Some((whose, &mut given.is_undone)),
            _ => None,
        });
        pauses.for_each(|(whose, is_undone)| *is_undone |= !stands(standing, whose));
    }
}

/// Whether a pause stands.
fn stands(standing: &Standing, whose: &Whose) -> bool {
    match whose {
        Some(name) => standing.paused.contains(name),
        None => standing.is_paused,
    }
}

impl World {
    /// Says something on the console, as an admin who waits for the answer.
    pub(crate) fn command(&mut self, text: String) {
        self.witness.note(|| format!("the operator says {text}"));
        let client = ClientKey { index: u32::MAX - self.operator.said, generation: 1 };
        self.operator.said += 1;
        self.operator.asked.insert(client, text.clone());
        let (from, right, request) = (WorkerId(0), Right::Admin, Request::Query(text));
        self.control_hears(Event::Letter(ToControl::Console { from, client, right, request }));
    }

    /// Another file of secrets, or the one of the plan again.
    pub(crate) fn change_secrets(&mut self, dice: Option<u64>) {
        let users = secrets(&self.plan, dice.map(|dice| Dice::new(dice, 2)));
        self.disk.write("users", users);
        self.reload_files();
    }

    /// Has the files read again, now or as soon as no online restart is in the way.
    pub(crate) fn reload_files(&mut self) {
        self.command(RELOAD.to_owned());
    }

    /// An online restart is over: what was refused because of it is said again.
    pub(crate) fn say_what_is_owed(&mut self, owed: Vec<String>) {
        for text in owed {
            self.command(text);
        }
    }

    /// The control thread writes to a worker; whether that is to be posted.
    pub(crate) fn note_order(&mut self, to: u8, letter: &ToWorker<SimSocket>) -> bool {
        if let ToWorker::ConsoleAnswer { client, bytes, .. } = letter {
            let Some(text) = self.operator.asked.remove(client) else { return true };
            self.is_answered(&text, bytes);
            self.control_hears(Event::Letter(ToControl::ConsoleLeft { from: WorkerId(0), client: *client }));
            return false;
        }
        match letter {
            ToWorker::Told { inquirer, told } => self.is_told(WorkerId(to - self.crew.start), *inquirer, told),
            ToWorker::ListenerLost { database } => self.listener_is_lost(database),
            _ => {}
        }
        if to != self.crew.start {
            return true;
        }
        match letter {
            ToWorker::Force(force) => self.in_force(force.clone()),
            ToWorker::Order { question, order } => self.is_ordered(*question, order),
            ToWorker::ForgetOrder { question } => drop(self.operator.open.remove(question)),
            ToWorker::WakeUp => {
                self.check_packed();
                self.operator.is_suspended = false;
            }
            ToWorker::Shutdown(way) => self.goes_down(*way),
            ToWorker::EndClients { .. } => self.clients_are_ended(),
            _ => {}
        }
        true
    }

    fn is_answered(&mut self, text: &str, bytes: &[u8]) {
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

    /// This comes into force.
    fn in_force(&mut self, force: Arc<Force>) {
        self.operator.mind(&force.standing);
        self.force = force.clone();
        self.checkers.in_force(&force, self.witness.now);
        self.forget_old_secrets();
    }

    /// Every worker is ordered this.
    fn is_ordered(&mut self, question: u64, order: &Order) {
        match order {
            Order::Kill(_) => self.checkers.was_removed = true,
            Order::Reconnect(whose) => self.renewal_ordered(whose),
            Order::Suspend { is_handover } => self.operator.is_suspended = !is_handover,
            _ => {}
        }
        let given = Given { order: order.clone(), obeyed: BTreeSet::new(), done: 0, is_undone: false };
        self.operator.open.insert(question, given);
    }

    /// A worker has obeyed.
    pub(crate) fn obeyed(&mut self, from: u8, question: u64, is_done: bool) {
        let workers = self.crew.len();
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
                // It may have been ended before it was complete.
                if stands(&self.force.standing, &whose) && !is_undone {
                    self.operator.held.push(whose);
                    let sessions: Vec<u32> = (0..self.postgres.sessions.len() as u32).collect();
                    let net = self.net.clone();
                    self.check_pauses(&net.borrow(), &sessions);
                }
            }
            Order::Suspend { .. } => self.witness.count("suspensions"),
            Order::KillClient(id) => self.check_killed(id, done),
            Order::Reconnect(whose) => self.renewal_obeyed(&whose),
            Order::AwaitRenewed(_) | Order::ConfirmDrained => {}
        }
    }

    /// A worker has nothing left that the shutdown waits for, or has somebody after all.
    pub(crate) fn drained(&mut self, from: u8, is_drained: bool) {
        match is_drained {
            true => drop(self.checkers.drained.insert(from)),
            false => drop(self.checkers.drained.remove(&from)),
        }
    }

    /// None of these sessions may belong to a database that is paused.
    pub(crate) fn check_pauses(&mut self, net: &Net, sessions: &[u32]) {
        if self.operator.held.is_empty() {
            return;
        }
        // What the process before has not closed yet is no longer within reach of an order.
        let is_left =
            |end: u32| matches!(net.end(end).holder, Holder::Worker { worker, .. } if worker < self.crew.start);
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

    /// Whether somebody has ordered that everything stands still.
    pub(crate) fn is_suspended(&self) -> bool {
        let is_one = |what: &What| matches!(what, What::Order(Command::Suspend | Command::Handover { .. }));
        self.plan.faults.iter().any(|(_, fault)| is_one(&fault.what))
    }

    /// The orders that nobody has obeyed.
    pub(crate) fn check_orders(&mut self) {
        if let Some(Given { order, obeyed, .. }) = self.operator.open.values().next() {
            let text = format!("{order:?} has been obeyed by {obeyed:?} only, and nothing is left to wait for");
            self.witness.accuse(Charge::NotServed, text);
        }
    }
}

/// The file of secrets: as the applications know them, or with some that are wrong or missing.
pub(crate) fn secrets(plan: &Plan, mut dice: Option<Dice>) -> String {
    let mut file = String::new();
    for (user, secret) in plan.secrets.iter().filter(|(user, _)| !plan.auth.unlisted.contains(&***user)) {
        let fate = dice.as_mut().map_or(0, |dice| dice.among(0..=5));
        match fate {
            4 => file.push_str(&format!("\"{user}\" \"forgotten\"\n")),
            5 => {}
            _ => file.push_str(&format!("\"{user}\" \"{}\"\n", String::from_utf8_lossy(&secret.text()))),
        }
    }
    file
}

const RELOAD: &str = "RELOAD";
/// Why nothing can be ordered just now.
const IN_PROGRESS: &str = "an online restart is in progress";
