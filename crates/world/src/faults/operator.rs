//! The operator of a world: orders what operators order, and sees to it that the orders are obeyed.
//!
//! Always true: a pause that has been reported complete holds until it is ended; every order is answered by every worker.
//! Not here: when something is ordered (`faults`), online restarts (`takeover`), the control thread's part in it (`sim`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use auth::UserFile;
use worker::letters::{Force, Order, Standing, ToWorker, Whose};

use crate::checks::witness::Charge;
use crate::faults::{Command, What};
use crate::plan::Plan;
use crate::postgres::session::{Life, Session};
use crate::sim::dice::Dice;
use crate::sim::net::{Holder, Net};
use crate::sim::takeover::{Arriving, Handover};
use crate::world::World;

/// What the operator remembers.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    given: u64,
    /// Orders that have not been obeyed by everybody, by their numbers.
    pub(crate) open: BTreeMap<u64, Given>,
    /// Pauses that were reported complete.
    pub(crate) held: Vec<Whose>,
    /// SUSPEND.
    pub(crate) is_suspended: bool,
    /// An online restart that is under way.
    pub(crate) handover: Option<Handover>,
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
    pub(crate) fn mind(&mut self, standing: &Standing) {
        self.held.retain(|whose| stands(standing, whose));
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
    /// Changes what is in force.
    fn change_force(&mut self, change: impl FnOnce(&mut Force)) {
        let mut force = Force::clone(&self.force);
        change(&mut force);
        self.enforce(force);
    }

    /// PAUSE.
    pub(crate) fn pause(&mut self, whose: &Whose) {
        self.change_force(|force| force.standing.pause(whose));
        self.give(Order::AwaitUnused(whose.clone()));
    }

    /// KILL.
    pub(crate) fn kill(&mut self, name: &Arc<str>) {
        self.checkers.was_removed = true;
        let whose = Some(name.clone());
        self.change_force(|force| force.standing.pause(&whose));
        self.give(Order::Kill(whose));
    }

    /// RESUME.
    pub(crate) fn resume(&mut self, whose: &Whose) {
        self.change_force(|force| force.standing.resume(whose));
        let kill = Order::Kill(whose.clone());
        self.operator.open.values_mut().for_each(|given| given.is_undone |= given.order == kill);
        let undone = Order::AwaitUnused(whose.clone());
        let open = self.operator.open.iter();
        let forgotten: Vec<u64> = open.filter(|(_, given)| given.order == undone).map(|(&number, _)| number).collect();
        for question in forgotten {
            self.operator.open.remove(&question);
            self.order(|| ToWorker::ForgetOrder { question });
        }
    }

    /// RESUME after SUSPEND.
    pub(crate) fn wake_up(&mut self) {
        let open = self.operator.open.iter();
        let forgotten: Vec<u64> =
            open.filter(|(_, given)| matches!(given.order, Order::Suspend { .. })).map(|(&number, _)| number).collect();
        for question in forgotten {
            self.operator.open.remove(&question);
            self.order(|| ToWorker::ForgetOrder { question });
        }
        self.check_packed();
        self.operator.handover = None;
        self.operator.is_suspended = false;
        self.order(|| ToWorker::WakeUp);
    }

    /// DISABLE and ENABLE.
    pub(crate) fn disable(&mut self, name: &Arc<str>, is_disabled: bool) {
        self.change_force(|force| match is_disabled {
            true => drop(force.standing.disabled.replace(name.clone())),
            false => drop(force.standing.disabled.take(name)),
        });
    }

    /// RECONNECT, and `WAIT_CLOSE`.
    pub(crate) fn reconnect(&mut self, whose: &Whose) {
        self.renewal_ordered(whose);
        self.give(Order::Reconnect(whose.clone()));
        self.give(Order::AwaitRenewed(whose.clone()));
    }

    /// Another file of secrets, or the one of the plan again.
    pub(crate) fn change_secrets(&mut self, dice: Option<u64>) {
        let users = secrets(&self.plan, dice.map(|dice| Dice::new(dice, 2)));
        self.change_force(|force| force.users = users);
    }

    /// Gives an order to every worker.
    pub(crate) fn give(&mut self, order: Order) {
        self.operator.given += 1;
        let question = self.operator.given;
        let given = Given { order: order.clone(), obeyed: BTreeSet::new(), done: 0, is_undone: false };
        self.operator.open.insert(question, given);
        self.order(|| ToWorker::Order { question, order: order.clone() });
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
            Order::ConfirmDrained => self.checkers.is_drained |= done == workers && self.is_drained(),
            Order::Suspend { is_handover } => {
                self.witness.count("suspensions");
                if is_handover {
                    self.stands_still();
                }
            }
            Order::KillClient(id) => self.check_killed(id, done),
            Order::Reconnect(whose) => self.renewal_obeyed(&whose),
            Order::AwaitRenewed(_) => {}
        }
    }

    /// A worker has nothing left that the shutdown waits for, or has somebody after all.
    pub(crate) fn drained(&mut self, from: u8, is_drained: bool) {
        match is_drained {
            true => drop(self.checkers.drained.insert(from)),
            false => drop(self.checkers.drained.remove(&from)),
        }
        if self.is_drained() {
            self.give(Order::ConfirmDrained);
        }
    }

    fn is_drained(&self) -> bool {
        self.checkers.drained.len() == self.crew.len()
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
pub(crate) fn secrets(plan: &Plan, mut dice: Option<Dice>) -> UserFile {
    let mut file = String::new();
    for (user, secret) in plan.secrets.iter().filter(|(user, _)| !plan.auth.unlisted.contains(&***user)) {
        let fate = dice.as_mut().map_or(0, |dice| dice.among(0..=5));
        match fate {
            4 => file.push_str(&format!("\"{user}\" \"forgotten\"\n")),
            5 => {}
            _ => file.push_str(&format!("\"{user}\" \"{}\"\n", String::from_utf8_lossy(&secret.text()))),
        }
    }
    UserFile::parse(file.as_bytes()).0
}
