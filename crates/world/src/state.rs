//! The state of a world, and queries of it.
//!
//! Always true: nothing here changes more than letters on their way, and the list of applications.
//! Not here: what happens (`world`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use base::{Time, Wall};
use control::Clocks;
use worker::Worker;
use worker::letters::{ActiveConfig, Ids, ToWorker};

use crate::app::App;
use crate::checks::archive::Archive;
use crate::checks::checkers::{Checkers, Phase};
use crate::checks::fairness::Fairness;
use crate::checks::witness::Witness;
use crate::faults::evict::Evicted;
use crate::faults::operator::Operator;
use crate::faults::peers::Peers;
use crate::members::Members;
use crate::plan::Plan;
use crate::plan::fault::{Command, What};
use crate::postgres::Postgres;
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::sim::io::{CALENDAR, SimIo, SimSocket};
use crate::sim::mail::Envelope;
use crate::sim::net::Net;
use crate::sim::own_clients::OwnClients;
use crate::sim::thread::{ControlThread, Disk};

/// A world.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) net: Rc<RefCell<Net>>,
    /// The workers of all processes, each at the place of its `WorkerIo`; None for those that have ended.
    pub(crate) workers: Vec<Option<Worker<SimIo>>>,
    /// The places of the workers of the serving process.
    pub(crate) serving_workers: Range<u8>,
    pub(crate) ids: Ids,
    pub(crate) inboxes: Vec<Sender<ToWorker<SimSocket>>>,
    pub(crate) mail: Arc<Mutex<Vec<Envelope>>>,
    /// Letters that wait for their delivery, by receiver.
    pub(crate) bags: Vec<VecDeque<ToWorker<SimSocket>>>,
    /// When the last letter to each worker arrives.
    pub(crate) bag_ends: Vec<Time>,
    pub(crate) apps: Vec<App>,
    pub(crate) postgres: Postgres,
    pub(crate) witness: Witness,
    /// The current configuration of the control thread.
    pub(crate) active: Arc<ActiveConfig>,
    pub(crate) disk: Disk,
    pub(crate) thread: ControlThread,
    pub(crate) checkers: Checkers,
    pub(crate) operator: Operator,
    pub(crate) peers: Peers,
    pub(crate) evicted: Evicted,
    pub(crate) archive: Archive,
    pub(crate) own_clients: OwnClients,
    /// The cluster, if there is one.
    pub(crate) members: Option<Members>,
    pub(crate) fairness: Fairness,
    /// When the clock last jumped.
    pub(crate) jumped: Time,
    pub(crate) post_dice: Dice,
}

impl World {
    /// The present time on the clocks of the machine.
    pub(crate) fn moment(&self) -> Clocks {
        let time = Time(self.witness.now.0 + self.ahead());
        Clocks { time, wall: Wall(CALENDAR + time.0 as i64) }
    }

    pub(crate) fn ahead(&self) -> u64 {
        self.net.borrow().worker_ios.first().map_or(0, |worker_io| worker_io.ahead)
    }

    /// Returns whether the faults are over.
    pub(crate) fn are_faults_over(&self) -> bool {
        self.checkers.phase != Phase::Faults
    }

    /// Returns whether the plan has a SUSPEND or an online restart.
    pub(crate) fn is_suspended(&self) -> bool {
        let is_one = |what: &What| matches!(what, What::Order(Command::Suspend | Command::Handover { .. }));
        self.plan.faults.iter().any(|(_, fault)| is_one(&fault.what))
    }

    /// Returns whether workers of the old process of an online restart still close what they could not pass on.
    pub(crate) fn is_another_closing(&self) -> bool {
        self.workers[..usize::from(self.serving_workers.start)].iter().any(Option::is_some)
    }

    /// Writes a letter to every worker; it is posted with the next mail.
    pub(crate) fn order(&mut self, letter: impl Fn() -> ToWorker<SimSocket>) {
        let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        mail.extend(self.serving_workers.clone().map(|to| Envelope::ToWorker { to, letter: letter() }));
    }

    /// Returns the next deadline of a worker.
    pub(crate) fn deadline_of(&self, worker: u8) -> Option<Time> {
        self.workers[usize::from(worker)].as_ref()?.next_deadline()
    }

    /// Posts a letter. Letters to one worker arrive in the order in which they were posted, whoever wrote them, as in a
    /// channel.
    pub(crate) fn post(&mut self, to: u8, letter: ToWorker<SimSocket>) {
        let bag = usize::from(to);
        let (low, high) = self.plan.post;
        let at = (self.witness.now + self.post_dice.micros(low..=high)).max(self.bag_ends[bag]);
        self.bag_ends[bag] = at;
        self.bags[bag].push_back(letter);
        self.net.borrow_mut().agenda.at(at, Event::Letter { to });
    }

    /// Adds an application after the faults.
    pub(crate) fn arrive(&mut self, mut app: App, net: &mut Net) {
        app.is_gentle = true;
        app.begin(net);
        self.apps.push(app);
    }
}

/// The time at which every world begins.
pub(crate) const START: u64 = 1_000_000;
