//! Online restarts: what the control threads of two processes do, and the courier between them.
//!
//! Always true: what has been packed for another process is not touched by this one, neither before it is known that it stays
//! nor afterwards; a process that takes over has everything that could go, and its own files.
//! Not here: how workers pack and go on (`worker`), when a restart begins and whether it fails (`faults`).

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use config::Homes;
use protocol::vars::Tracked;
use worker::letters::{Cursor, Estate, Force, Luggage, Order, Parcel, RateLimits, ToWorker};

use crate::checks::witness::Charge;
use crate::faults::operator::Operator;
use crate::sim::dice::Dice;
use crate::sim::io::SimSocket;
use crate::sim::net::{Holder, Net};
use crate::world::World;

/// An online restart that is under way.
#[derive(Debug)]
pub(crate) struct Handover {
    /// Which one.
    dice: u64,
    /// Whether the new process comes up.
    succeeds: bool,
    /// How often everybody has stood still.
    rounds: u32,
    /// The worker that packs.
    packs: u8,
    out: Sender<Parcel<SimSocket>>,
    parcels: Receiver<Parcel<SimSocket>>,
    estate: Estate<SimSocket>,
    /// The ends of connections that have been packed, and how much had been given and read there.
    packed: Vec<(u32, (u64, u64))>,
}

/// Connections on their way to a worker of a new process.
#[derive(Debug)]
pub(crate) struct Arriving {
    to: u8,
    ends: Vec<u32>,
    is_there: bool,
}

impl World {
    /// A new process wants everything.
    pub(crate) fn begin_handover(&mut self, dice: u64, succeeds: bool) {
        let standing = &self.force.standing;
        let is_refused = self.operator.is_suspended
            || self.operator.handover.is_some()
            || self.checkers.shutdown.is_some()
            || standing.is_paused
            || !standing.paused.is_empty();
        if is_refused {
            self.witness.count("online restarts refused");
            return;
        }
        let (out, parcels) = mpsc::channel();
        let packs = self.crew.start;
        let (estate, packed) = (Estate::default(), Vec::new());
        self.operator.handover = Some(Handover { dice, succeeds, rounds: 0, packs, out, parcels, estate, packed });
        self.give(Order::Suspend { is_handover: true });
    }

    /// Everybody stands still. A client that was on the way from one worker to another is there when they say so again.
    pub(crate) fn stands_still(&mut self) {
        let Some(handover) = &mut self.operator.handover else { return };
        handover.rounds += 1;
        match handover.rounds {
            1 => self.give(Order::Suspend { is_handover: true }),
            _ => self.pack(Cursor::Start),
        }
    }

    fn pack(&mut self, from: Cursor) {
        if let Some(handover) = &self.operator.handover {
            let (to, out) = (handover.packs, handover.out.clone());
            self.post(to, ToWorker::Pack { from, out });
        }
    }

    /// Takes what has been packed, and has more packed.
    pub(crate) fn take_parcels(&mut self) {
        let Some(handover) = &mut self.operator.handover else { return };
        let Ok(Parcel { luggage, sockets, next, fault, .. }) = handover.parcels.try_recv() else { return };
        if let Some(fault) = fault {
            self.witness.accuse(Charge::NotServed, format!("something cannot be packed: {fault}"));
            return;
        }
        self.witness.count("parcels");
        {
            let net = self.net.borrow();
            handover.packed.extend(sockets.iter().map(|socket| (socket.0, net.end(socket.0).traffic())));
        }
        match carried(&luggage) {
            Ok(luggage) => {
                let mut sockets = sockets.into_iter();
                handover.estate.add(luggage, |_| sockets.next());
            }
            Err(why) => self.witness.accuse(Charge::NotServed, format!("luggage cannot be read again: {why}")),
        }
        if next.is_none() {
            handover.packs += 1;
        }
        let is_all = !self.crew.contains(&handover.packs);
        let succeeds = handover.succeeds;
        match next {
            Some(from) => self.pack(from),
            None if !is_all => self.pack(Cursor::Start),
            None if succeeds => self.take_over(),
            // The new process dies now; it is noticed a little later.
            None => {}
        }
    }

    /// The new process does not come up, and everything goes on.
    pub(crate) fn end_handover(&mut self, dice: u64) {
        if self.operator.handover.as_ref().is_some_and(|handover| handover.dice == dice) {
            self.wake_up();
        }
    }

    /// What has been packed may be another process's by now: nobody here gives it anything, or takes anything from it.
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

    /// The new process has everything, and the old one lets go.
    fn take_over(&mut self) {
        self.check_packed();
        let Some(Handover { dice, estate, .. }) = self.operator.handover.take() else { return };
        self.witness.note(|| "ONLINE RESTART".to_owned());
        self.witness.count("online restarts");
        for place in self.crew.clone() {
            self.post(place, ToWorker::HandedOver);
        }
        self.operator = Operator::default();
        self.forget_evictions();
        self.close_all_cases();
        self.forget_all_questions();
        self.forget_listeners();
        self.forget_commands();
        self.checkers.restarted = self.witness.now;
        self.checkers.drained.clear();
        let mut dice = Dice::new(dice, 7);
        let count = if dice.chance(600) { self.crew.len() as u64 } else { dice.among(1..=4) } as u8;
        let force = Arc::new(self.files_of_the_new_process(count, &mut dice));
        self.force = force.clone();
        self.checkers.in_force(&force, self.witness.now);
        let buffers = self.net.borrow().desks[0].buffers.clone();
        self.hire(count, &buffers, true);
        let crew = self.crew.clone();
        for (to, arrivals) in crew.clone().zip(estate.share_out(&force.homes)) {
            let ends =
                arrivals.pairs.iter().flat_map(|(_, sockets)| sockets).map(|socket| socket.0).collect::<Vec<_>>();
            self.net.borrow_mut().travel(&ends);
            self.operator.arriving.push(Arriving { to, ends, is_there: false });
            self.post(to, ToWorker::Arrive(Box::new(arrivals)));
        }
        for to in crew {
            self.post(to, ToWorker::WakeUp);
        }
    }

    /// A letter is given to a worker.
    pub(crate) fn note_arrival(&mut self, at: u8, letter: &ToWorker<SimSocket>) {
        if matches!(letter, ToWorker::Arrive(_)) {
            self.operator.arriving.iter_mut().for_each(|arriving| arriving.is_there |= arriving.to == at);
        }
    }

    /// A worker has had its turn: what came to it and it did not want is closed.
    pub(crate) fn close_the_unwanted(&mut self, worker: u8) {
        let is_done = |arriving: &mut Arriving| arriving.is_there && arriving.to == worker;
        for Arriving { ends, .. } in self.operator.arriving.extract_if(.., is_done) {
            self.net.borrow_mut().end_travels(&ends);
        }
    }

    /// They may have changed, and nobody has reloaded.
    fn files_of_the_new_process(&self, workers: u8, dice: &mut Dice) -> Force {
        let mut force = Force::clone(&self.force);
        if dice.chance(300) {
            let shape = self.plan.shape.redrawn(dice);
            if let Ok(settings) = self.read_files(&shape) {
                force.settings = settings;
            }
        }
        force.tracked = Tracked::new(force.settings.track_extra_parameters.iter().map(|name| &**name));
        force.homes = Homes::assign(&force.settings, workers, Some(&self.force.homes));
        force.standing.keep(|name| force.settings.database(name).is_some());
        force.rates = Arc::new(RateLimits::new(&force.settings, [9; 32]));
        force
    }
}

impl Net {
    /// Connections are another process's, as soon as one of its workers takes them up.
    fn travel(&mut self, ends: &[u32]) {
        for &end in ends {
            self.end_mut(end).holder = Holder::Nobody;
        }
    }

    /// Those that nobody has taken up are closed.
    pub(crate) fn end_travels(&mut self, ends: &[u32]) {
        for &end in ends {
            if matches!(self.end(end).holder, Holder::Nobody) && !self.end(end).is_closed {
                self.descriptors -= 1;
                self.drop_end(end);
            }
        }
    }
}

/// Luggage as it comes out of the letter in which it travels.
fn carried(luggage: &Luggage) -> serde_json::Result<Luggage> {
    serde_json::from_slice(&serde_json::to_vec(luggage)?)
}
