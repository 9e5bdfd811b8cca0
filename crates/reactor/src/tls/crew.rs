//! The crew: a few threads that do handshakes, so that no turn waits for a signature.
//!
//! Always true: a session is in one place, with the crew or at its worker; whoever gave one away is rung when it is back; who
//! came first is served first. The crew steps back where processors are scarce: queries that run come before logins.
//! Not here: what becomes of a session that is back (`layer`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use base::Key;

use super::session::{Session, Taken};
use crate::Waker;

/// A few threads that do handshakes. A clone is another way to the same crew.
#[derive(Clone)]
pub struct Crew {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
    /// The most threads there may be.
    hands_max: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    hands: usize,
    idle: usize,
}

/// A session with bytes to be taken.
pub(crate) struct Job {
    /// Its owner's name for it.
    pub(crate) key: Key,
    pub(crate) session: Box<Session>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) home: Arc<Home>,
}

/// Where a session belongs.
pub(crate) struct Home {
    pub(crate) back: Sender<Return>,
    pub(crate) waker: Waker,
}

/// A session that is back.
pub(crate) struct Return {
    pub(crate) key: Key,
    pub(crate) session: Box<Session>,
    pub(crate) taken: Taken,
    /// What is left of the bytes.
    pub(crate) rest: Vec<u8>,
}

impl Crew {
    /// A crew of up to as many threads, which are started when there is something to do.
    #[must_use]
    pub fn new(hands_max: usize) -> Self {
        let hands_max = hands_max.max(1);
        Self { shared: Arc::new(Shared { queue: Mutex::default(), bell: Condvar::new(), hands_max }) }
    }

    /// Gives the crew a session to go on with.
    pub(crate) fn give(&self, job: Job) {
        let mut queue = self.shared.queue();
        queue.jobs.push_back(job);
        if queue.jobs.len() <= queue.idle || queue.hands >= self.shared.hands_max {
            drop(queue);
            self.shared.bell.notify_one();
            return;
        }
        queue.hands += 1;
        drop(queue);
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new().name("tls".to_owned()).spawn(move || shared.work());
        if spawned.is_err() {
            self.shared.queue().hands -= 1;
            // Nobody is there to do it, unless others are; a stalled turn is better than a client that waits for ever.
            if self.shared.queue().hands == 0 {
                while let Some(job) = { self.shared.queue().jobs.pop_front() } {
                    job.work();
                }
            }
        }
    }
}

impl Shared {
    /// The lock is poisoned only after a panic, and a panic ends the process.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        crate::step_back();
        loop {
            let mut queue = self.queue();
            let job = loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                queue.idle += 1;
                queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            };
            drop(queue);
            job.work();
        }
    }
}

impl Job {
    fn work(self) {
        let Self { key, mut session, mut bytes, home } = self;
        let taken = session.take(&mut bytes);
        bytes.drain(..taken.used);
        // A worker that has ended waits for nothing.
        if home.back.send(Return { key, session, taken, rest: bytes }).is_ok() {
            home.waker.wake();
        }
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("hands_max", &self.shared.hands_max).finish_non_exhaustive()
    }
}
