//! The handshake pool: a few threads that do TLS handshakes, so that no turn waits for a signature.
//!
//! Always true: a session is either with the handshake pool or with its worker, which is woken when the session
//! returns. Addresses take turns, so that a flood from one of them does not delay the others. The number of waiting
//! handshakes is limited: beyond it a handshake takes the place of the youngest of the address with the most waiting
//! ones. The threads run with a lower priority, so that queries come before logins.
//! Not here: the queue (`base::PeerQueue`), what becomes of a returned session (`layer`).

use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use base::{Key, Origin, PeerQueue, Place};

use super::session::{Session, State, Taken};
use crate::Waker;

/// A few threads that do handshakes. A clone is another handle to the same handshake pool.
#[derive(Clone)]
pub struct HandshakePool {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
    /// Most threads.
    hands_max: usize,
    /// Most waiting handshakes of clients, and likewise of servers.
    waiting_max: usize,
}

struct Queue {
    jobs: PeerQueue<Job>,
    hands: usize,
    idle: usize,
}

/// A session and the bytes that it has to process.
pub(crate) struct Job {
    /// The key of the stream in its layer.
    pub(crate) key: Key,
    pub(crate) session: Box<Session>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) home: Arc<Home>,
}

/// The worker that a session belongs to.
pub(crate) struct Home {
    pub(crate) back: Sender<Return>,
    pub(crate) waker: Waker,
}

/// A session that returns to its worker.
pub(crate) struct Return {
    pub(crate) key: Key,
    pub(crate) session: Box<Session>,
    pub(crate) taken: Taken,
    /// The bytes that were not used.
    pub(crate) rest: Vec<u8>,
}

impl HandshakePool {
    /// A handshake pool of up to `hands_max` threads, which are started when there is work.
    #[must_use]
    pub fn new(hands_max: usize) -> Self {
        Self::with_room(hands_max, WAITING_MAX)
    }

    /// A handshake pool of up to `hands_max` threads, in whose queue up to `waiting_max` handshakes wait.
    fn with_room(hands_max: usize, waiting_max: usize) -> Self {
        let queue = Mutex::new(Queue { jobs: PeerQueue::with_capacity(waiting_max), hands: 0, idle: 0 });
        let hands_max = hands_max.max(1);
        Self { shared: Arc::new(Shared { queue, bell: Condvar::new(), hands_max, waiting_max }) }
    }

    /// Gives the handshake pool a session to continue, and returns its place in the queue. If the queue is full, a
    /// session is refused and returned as broken: this one, or one of an address that has more waiting.
    pub(crate) fn give(&self, from: Origin, job: Job) -> Option<Place<Origin>> {
        let mut queue = self.shared.queue();
        match queue.jobs.push(from, job) {
            Ok((place, displaced)) => {
                self.wake(queue);
                displaced.into_iter().for_each(|job| job.refuse(self.shared.waiting_max));
                Some(place)
            }
            Err(job) => {
                drop(queue);
                job.refuse(self.shared.waiting_max);
                None
            }
        }
    }

    /// Removes the handshake at this place, because its connection was closed. A handshake that has begun is completed.
    pub(crate) fn forget(&self, place: &Place<Origin>) {
        self.shared.queue().jobs.remove(place);
    }

    /// Wakes or starts a thread for the queued jobs.
    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
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
            // Without any thread the handshakes are done here: a stalled turn is better than a client that waits for
            // ever.
            if self.shared.queue().hands == 0 {
                while let Some(job) = { self.shared.queue().jobs.pop() } {
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
                if let Some(job) = queue.jobs.pop() {
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
        // The worker may have ended.
        if home.back.send(Return { key, session, taken, rest: bytes }).is_ok() {
            home.waker.wake();
        }
    }

    /// Returns the session as broken.
    fn refuse(self, waiting_max: usize) {
        let Self { key, session, bytes, home } = self;
        let state = State::Broken(format!("too many TLS handshakes wait: {waiting_max}"));
        let back = Return { key, session, taken: Taken { state, ..Taken::default() }, rest: bytes };
        if home.back.send(back).is_ok() {
            home.waker.wake();
        }
    }
}

impl fmt::Debug for HandshakePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakePool").field("hands_max", &self.shared.hands_max).finish_non_exhaustive()
    }
}

/// Most waiting handshakes of clients, and likewise of servers. A handshake takes about a millisecond of a processor:
/// the last of these is done before the default of `client_login_timeout`, and thousands of clients that reconnect at
/// once from one address have room.
const WAITING_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::mpsc::{self, Receiver};

    use crate::tls::{Check, Demand, DemandParts, Side, TermsText};

    /// Handshakes that wait because no thread does them, and the channel on which they return.
    struct Waiting {
        handshake_pool: HandshakePool,
        home: Arc<Home>,
        back: Receiver<Return>,
    }

    impl Waiting {
        fn new(waiting_max: usize) -> Self {
            let handshake_pool = HandshakePool::with_room(1, waiting_max);
            // Pretends that a thread is busy.
            handshake_pool.shared.queue().hands = 1;
            let (sender, back) = mpsc::channel();
            Self { handshake_pool, home: Arc::new(Home { back: sender, waker: crate::waker().expect("a bell") }), back }
        }

        fn give(&self, address: u8, number: u32) -> Option<Place<Origin>> {
            let terms = TermsText { protocols: "secure", ciphers: "default", suites: None, curves: "auto" };
            let parts = DemandParts { authorities: None, own: None, check: Check::Nothing, terms };
            let demand = Arc::new(Demand::new(&parts).expect("good terms").expect("a protocol"));
            let session = Session::new(&Side::Calling { demand, host: "db".into() }).expect("a session");
            let key = Key::first(number);
            let job = Job { key, session: Box::new(session), bytes: Vec::new(), home: Arc::clone(&self.home) };
            self.handshake_pool.give(Origin::of_client([127, 0, 0, address].into()), job)
        }

        /// The handshakes refused since the last call.
        fn refused(&self) -> Vec<u32> {
            let is_refusal =
                |back: &Return| matches!(&back.taken.state, State::Broken(why) if why.contains("too many"));
            self.back.try_iter().inspect(|back| assert!(is_refusal(back))).map(|back| back.key.index).collect()
        }

        /// All waiting handshakes, in the order in which they would be done.
        fn served(&self) -> Vec<u32> {
            std::iter::from_fn(|| self.handshake_pool.shared.queue().jobs.pop()).map(|job| job.key.index).collect()
        }
    }

    #[test]
    fn addresses_take_turns_and_the_one_that_has_most_waiting_loses_its_youngest() {
        let waiting = Waiting::new(4);
        for number in 0..6 {
            assert_eq!(waiting.give(2, number).is_some(), number < 4);
        }
        assert_eq!(waiting.refused(), [4, 5]);
        assert!(waiting.give(1, 10).is_some());
        assert_eq!(waiting.refused(), [3]);
        assert_eq!(waiting.served(), [0, 10, 1, 2]);
    }

    #[test]
    fn nobody_shakes_hands_for_whoever_has_gone() {
        let waiting = Waiting::new(2);
        let gone = waiting.give(1, 0).expect("a place");
        assert!(waiting.give(1, 1).is_some());
        waiting.handshake_pool.forget(&gone);
        assert!(waiting.give(1, 2).is_some());
        assert_eq!((waiting.refused(), waiting.served()), (vec![], vec![1, 2]));
    }
}
