//! The workers of processes: how they begin, are connected by letters, and end.
//!
//! Always true: one process serves at a time, and its workers run; those of the process before it end by themselves.
//! Not here: their turns (`world`), how one process takes over from another (`takeover`).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use base::{Time, WorkerId};
use reactor::Buffers;
use worker::Worker;
use worker::letters::{Ids, Post, Posts, ToWorker, Unauthenticated};

use crate::checks::checkers::Phase;
use crate::sim::dice::Dice;
use crate::sim::io::{SimIo, SimSocket};
use crate::sim::mail::Envelope;
use crate::sim::worker_io::WorkerIo;
use crate::state::World;

impl World {
    /// Begins a process with so many workers, which serves from now on. If it takes over from another one, its workers
    /// sleep.
    pub(crate) fn start_workers(&mut self, count: u8, buffers: &Buffers, takes_over: bool) {
        let first = self.workers.len() as u8;
        self.serving_workers = first..first + count;
        let unauthenticated = Unauthenticated::default();
        for place in self.serving_workers.clone() {
            let mut worker_io =
                WorkerIo::new(Dice::new(self.plan.seed, 100 + u64::from(place)), buffers.clone(), self.plan.buffers);
            {
                let net = &mut self.net.borrow_mut();
                // All workers use the clock of the machine.
                worker_io.ahead = net.worker_ios.first().map_or(0, |worker_io| worker_io.ahead);
                net.worker_ios.push(worker_io);
            }
            let (sender, inbox) = mpsc::channel();
            let io = SimIo { net: self.net.clone(), worker: place };
            let posts = posts(&self.serving_workers, &self.mail, &self.ids, &unauthenticated);
            let id = WorkerId(place - first);
            let worker = Worker::new(id, io, inbox, posts, self.active.clone(), self.plan.seed);
            self.workers.push(Some(if takes_over { worker.asleep() } else { worker }));
            self.inboxes.push(sender);
            self.bags.push(VecDeque::new());
            self.bag_ends.push(Time(0));
            let net = &mut self.net.borrow_mut();
            let now = net.agenda.now();
            net.wake(place, now);
        }
    }

    /// A worker has had its last turn. With the last worker the process ends, and all connections that nobody has
    /// accepted.
    pub(crate) fn worker_is_over(&mut self, worker: u8) {
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        net.die(worker);
        self.workers[usize::from(worker)] = None;
        if self.workers.iter().all(Option::is_none) {
            net.die_out();
            self.checkers.phase = Phase::Gone { since: self.witness.now };
        }
    }
}

fn posts(
    places: &Range<u8>,
    mail: &Arc<Mutex<Vec<Envelope>>>,
    ids: &Ids,
    unauthenticated: &Unauthenticated,
) -> Posts<SimSocket> {
    let put = |mail: &Mutex<Vec<Envelope>>, envelope| {
        mail.lock().unwrap_or_else(PoisonError::into_inner).push(envelope);
    };
    let first = places.start;
    let boxes = places.clone().map(|to| {
        let mail = mail.clone();
        let post: Post<ToWorker<SimSocket>> = Arc::new(move |letter| put(&mail, Envelope::ToWorker { to, letter }));
        post
    });
    let workers = boxes.collect();
    let mail = mail.clone();
    let control = Arc::new(move |letter| put(&mail, Envelope::ToControl { first, letter }));
    let (ids, unauthenticated) = (ids.clone(), unauthenticated.clone());
    Posts { workers, control, ids, unauthenticated, held_bytes_max: usize::MAX }
}
