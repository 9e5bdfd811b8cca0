//! Online restarts: what the control threads of two processes do, and the transfer between them.
//!
//! Always true: the old process does not use a connection that was packed, neither before nor after the outcome is
//! known; a new process gets everything that can be passed on, and reads its own files.
//! Not here: how workers pack and unpack (`worker`), when a restart begins and whether it fails (`faults`).

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use base::WorkerId;
use control::{Event, FinalMessage, HANDOVER_VERSION, News, Transfer};
use worker::letters::{ActiveConfig, Cursor, Export, Import, Parcel, ToWorker};

use crate::checks::witness::Charge;
use crate::faults::operator::Operator;
use crate::sim::agenda;
use crate::sim::dice::Dice;
use crate::sim::handover::{Arriving, Handover};
use crate::sim::io::SimSocket;
use crate::sim::net::{Holder, Net};
use crate::sim::thread::{CONFIGURATION, posts_to};
use crate::state::World;

impl World {
    /// A new process asks for the connections.
    pub(crate) fn begin_handover(&mut self, dice: u64, succeeds: bool) {
        self.operator.comes = Some((dice, succeeds));
        self.command(format!("TAKEOVER {HANDOVER_VERSION}"));
        if self.operator.comes.take().is_some() {
            self.witness.count("online restarts refused");
        }
    }

    /// The control thread sends a transfer to the new process, which is ready to serve.
    pub(crate) fn courier_sets_out(&mut self, transfer: Transfer<SimSocket>) {
        let Some((dice, succeeds)) = self.operator.comes.take() else { return };
        let number = transfer.number;
        let (import, packed) = (Import::default(), Vec::new());
        self.operator.handover = Some(Handover { dice, succeeds, transfer, packs: 0, parcels: None, import, packed });
        self.control_hears(Event::News { handover: number, news: News::Ready });
    }

    /// Begins to pack once everything stands still, or calls the restart off.
    pub(crate) fn courier_waits(&mut self) {
        let Some(handover) = &mut self.operator.handover else { return };
        match handover.transfer.is_still() {
            Ok(true) => handover.parcels = handover.transfer.pack(WorkerId(0), Cursor::Start),
            Ok(false) => {}
            Err(_) => {
                self.witness.count("online restarts called off");
                self.handover_is_over();
            }
        }
    }

    /// Takes a parcel, and asks for the next one.
    pub(crate) fn take_parcels(&mut self) {
        let Some(handover) = &mut self.operator.handover else { return };
        let Some(Ok(parcel)) = handover.parcels.as_ref().map(Receiver::try_recv) else { return };
        let Parcel { export, sockets, next, fault, .. } = parcel;
        if let Some(fault) = fault {
            self.witness.accuse(Charge::NotServed, format!("something cannot be packed: {fault}"));
            return;
        }
        self.witness.count("parcels");
        {
            let net = self.net.borrow();
            handover.packed.extend(sockets.iter().map(|socket| (socket.0, net.end(socket.0).traffic())));
        }
        match carried(&export) {
            Ok(export) => {
                let mut sockets = sockets.into_iter();
                handover.import.add(export, |_| sockets.next());
            }
            Err(why) => self.witness.accuse(Charge::NotServed, format!("luggage cannot be read again: {why}")),
        }
        if next.is_none() {
            handover.packs += 1;
        }
        let from = next.unwrap_or(Cursor::Start);
        let parcels = handover.transfer.pack(WorkerId(handover.packs), from);
        match parcels {
            Some(_) => handover.parcels = parcels,
            None if handover.succeeds => self.take_over(),
            // The new process dies now; that is noticed a little later.
            None => {}
        }
    }

    /// The new process does not come up, and the old one continues.
    pub(crate) fn end_handover(&mut self, dice: u64) {
        let is_it = |handover: &Handover| handover.dice == dice;
        let Some(number) = self.operator.handover.as_ref().filter(|one| is_it(one)).map(|one| one.transfer.number)
        else {
            return;
        };
        self.check_packed();
        let news = News::Failed("the new process was lost".to_owned());
        self.control_hears(Event::News { handover: number, news });
        self.handover_is_over();
    }

    /// The old process continues.
    fn handover_is_over(&mut self) {
        if self.operator.handover.take().is_some() {
            let owed = std::mem::take(&mut self.operator.owed);
            self.say_what_is_owed(owed);
        }
    }

    /// The new process has everything, and the old one lets go.
    fn take_over(&mut self) {
        self.check_packed();
        let Some(Handover { dice, import, transfer, .. }) = self.operator.handover.take() else { return };
        let final_message = FinalMessage::new(|| Ok(None));
        self.control_hears(Event::News { handover: transfer.number, news: News::Done(final_message) });
        if !self.thread.control.has_handed_over() {
            self.witness.accuse(Charge::NotServed, "the old process does not let go".to_owned());
            return;
        }
        self.witness.note(|| "ONLINE RESTART".to_owned());
        self.witness.count("online restarts");
        let owed = std::mem::take(&mut self.operator.owed);
        self.operator = Operator::default();
        self.forget_evictions();
        self.archive.asked.clear();
        self.forget_own_clients();
        self.checkers.restarted = self.witness.now;
        self.checkers.drained.clear();
        let mut dice = Dice::new(dice, 7);
        let count = if dice.chance(600) { self.serving_workers.len() as u64 } else { dice.among(1..=4) } as u8;
        let mut active = self.read_new_files(count, &mut dice);
        transfer.hello.shape(&mut active);
        let active = Arc::new(active);
        self.active = active.clone();
        self.checkers.in_force(&active, self.witness.now);
        let buffers = self.net.borrow().worker_ios[0].buffers.clone();
        self.start_workers(count, &buffers, true);
        let workers = self.serving_workers.clone();
        let (posts, now, ids) = (posts_to(&workers, &self.mail), self.moment(), self.ids.clone());
        self.thread.succeed(self.disk.control(&active, posts, now, ids));
        for (to, imports) in workers.clone().zip(import.share_out(&active.homes)) {
            let ends = imports.pairs.iter().flat_map(|(_, sockets)| sockets).map(|socket| socket.0).collect::<Vec<_>>();
            self.net.borrow_mut().travel(&ends);
            self.operator.arriving.push(Arriving { to, ends, is_there: false });
            self.post(to, ToWorker::Arrive(Box::new(imports)));
        }
        for to in workers {
            self.post(to, ToWorker::WakeUp);
        }
        self.net.borrow_mut().agenda.after(Duration::ZERO, agenda::Event::ControlWakes);
        self.say_what_is_owed(owed);
    }

    /// A letter is given to a worker.
    pub(crate) fn note_arrival(&mut self, at: u8, letter: &ToWorker<SimSocket>) {
        if matches!(letter, ToWorker::Arrive(_)) {
            self.operator.arriving.iter_mut().for_each(|arriving| arriving.is_there |= arriving.to == at);
        }
    }

    /// After a worker's turn: connections that it was sent and did not accept are closed.
    pub(crate) fn close_the_unwanted(&mut self, worker: u8) {
        let is_done = |arriving: &mut Arriving| arriving.is_there && arriving.to == worker;
        for Arriving { ends, .. } in self.operator.arriving.extract_if(.., is_done) {
            self.net.borrow_mut().end_travels(&ends);
        }
    }

    /// Returns the configuration of the new process: its files may have changed without a reload.
    fn read_new_files(&self, workers: u8, dice: &mut Dice) -> ActiveConfig {
        if !self.are_faults_over() && dice.chance(300) {
            self.disk.write(CONFIGURATION, self.plan.shape.redrawn(dice).text());
        }
        match self.disk.settings() {
            Ok(settings) => self.disk.first_config(settings, workers),
            Err(mistakes) => panic!("the new process has a mistake in its files: {}", mistakes[0]),
        }
    }
}

impl Net {
    /// These connections belong to the new process once one of its workers accepts them.
    fn travel(&mut self, ends: &[u32]) {
        for &end in ends {
            self.end_mut(end).holder = Holder::Nobody;
        }
    }

    /// Closes those that no worker has accepted.
    pub(crate) fn end_travels(&mut self, ends: &[u32]) {
        for &end in ends {
            if matches!(self.end(end).holder, Holder::Nobody) && !self.end(end).is_closed {
                self.descriptors -= 1;
                self.drop_end(end);
            }
        }
    }
}

/// Serializes and parses the export, as in an online restart.
fn carried(export: &Export) -> serde_json::Result<Export> {
    serde_json::from_slice(&serde_json::to_vec(export)?)
}
