//! The threads of the data plane, and their kernel interface.
//!
//! Always true: a worker's kernel interface is created on the thread that uses it, and no worker serves before all of
//! them have one.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use base::WorkerId;
use config::IoBackend;
use reactor::tls::{HandshakePool, Tls};
use reactor::{Backend, Epoll, Equipment, Kernel, Listener, Socket, Uring, Waker};
use worker::Worker;
use worker::letters::{ActiveConfig, Ids, Post, Posts, ToControl, ToWorker, Unauthenticated};

use crate::last_words::Fatal;
use crate::memory;

/// The chosen kernel interface, and the reason for the choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) backend: Backend,
    why: Option<String>,
}

/// Chooses the kernel interface.
///
/// # Errors
/// io_uring was demanded and does not work on this machine.
pub(crate) fn choose(wanted: IoBackend, probe: impl FnOnce() -> Result<(), String>) -> Result<Choice, Fatal> {
    let chosen = |backend, why| Ok(Choice { backend, why });
    match wanted {
        IoBackend::Epoll => chosen(Backend::Epoll, Some("as configured".to_owned())),
        IoBackend::IoUring => match probe() {
            Ok(()) => chosen(Backend::Uring, Some("as configured".to_owned())),
            Err(why) => Err(Fatal(format!("io_backend = io_uring, but io_uring does not work here: {why}"))),
        },
        IoBackend::Auto => match probe() {
            Ok(()) => chosen(Backend::Uring, None),
            Err(why) => chosen(Backend::Epoll, Some(format!("io_uring does not work here: {why}"))),
        },
    }
}

impl Choice {
    /// What is used instead when a worker cannot have this interface, for the reason `failed`. Nothing is, if the
    /// configuration demands this one.
    fn instead(&self, failed: &str) -> Option<Choice> {
        let is_demanded = self.why.is_some();
        (!is_demanded).then(|| Choice {
            backend: Backend::Epoll,
            why: Some(format!("io_uring does not work here for all workers: {failed}")),
        })
    }

    /// The name of the interface.
    pub(crate) fn name(&self) -> &'static str {
        match self.backend {
            Backend::Uring => "io_uring",
            Backend::Epoll => "epoll",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.why.as_deref().unwrap_or("it works here");
        write!(f, "io_backend: {} ({why})", self.name())
    }
}

/// How workers start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// At once.
    Awake,
    /// When the state of the old process has arrived.
    Asleep,
}

/// The running workers.
pub(crate) struct Workers {
    /// Their letter boxes.
    pub(crate) posts: Vec<Post<ToWorker<Socket>>>,
    ended: Receiver<()>,
}

/// What all workers are started with.
#[derive(Clone, Copy)]
pub(crate) struct WorkerSetup<'a> {
    /// Has as many homes as there are to be workers.
    pub(crate) active: &'a Arc<ActiveConfig>,
    pub(crate) listeners: &'a [Arc<Listener>],
    pub(crate) control: &'a Post<ToControl>,
    pub(crate) ids: &'a Ids,
    pub(crate) start: Start,
    pub(crate) seed: u64,
}

/// Starts the workers. If one of them cannot have the chosen interface, all take another, and `choice` is that one.
///
/// # Errors
/// A thread or its kernel interface cannot be created.
pub(crate) fn start(choice: &mut Choice, setup: WorkerSetup<'_>) -> Result<Workers, Fatal> {
    let failed = match setup.start_with(choice.backend)? {
        Ok(workers) => return Ok(workers),
        Err(failed) => failed,
    };
    let fatal = |choice: &Choice, why| Fatal(format!("{} failed: {why}", choice.name()));
    *choice = choice.instead(&failed).ok_or_else(|| fatal(choice, failed))?;
    setup.start_with(choice.backend)?.map_err(|failed| fatal(choice, failed))
}

impl WorkerSetup<'_> {
    /// Starts the workers, or returns why one of them cannot have this interface; then none is left.
    fn start_with(self, backend: Backend) -> Result<Result<Workers, String>, Fatal> {
        let mut boxes = Vec::new();
        let mut workers: Vec<Post<ToWorker<Socket>>> = Vec::new();
        for _ in 0..self.active.homes.workers() {
            let waker = reactor::waker().map_err(|error| Fatal(format!("eventfd: {error}")))?;
            let (sender, inbox) = mpsc::channel();
            workers.push(letter_box(sender, waker.clone()));
            boxes.push((inbox, waker));
        }
        let handshake_pool = HandshakePool::new(
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(HANDSHAKE_THREADS_MAX),
        );
        let posts = Posts {
            workers: workers.clone(),
            control: Arc::clone(self.control),
            ids: self.ids.clone(),
            unauthenticated: Unauthenticated::default(),
            held_bytes_max: memory::held_bytes_max(memory::limit(), workers.len()),
        };
        let (up, ups) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let mut starters = Vec::new();
        for (number, (inbox, waker)) in (0..=u8::MAX).zip(boxes) {
            let equipment = Equipment {
                listeners: self.listeners.to_vec(),
                waker: waker.clone(),
                buffers: BUFFERS_PER_WORKER,
                tuning: self.active.tuning,
                log: Arc::clone(&self.active.log),
            };
            let (starter, started) = mpsc::channel();
            starters.push(starter);
            let tools = Tools {
                id: WorkerId(number),
                inbox,
                posts: posts.clone(),
                active: Arc::clone(self.active),
                handshake_pool: handshake_pool.clone(),
                start: self.start,
                waker,
                seed: self.seed.wrapping_add(u64::from(number)),
                up: up.clone(),
                started,
                end: end.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("worker {number}"));
            let spawned = thread.spawn(move || tools.work(backend, equipment));
            spawned.map_err(|error| Fatal(format!("cannot start a thread: {error}")))?;
        }
        drop((up, end));
        if let Err(failed) = start_together(&ups, starters) {
            // All senders are dropped when the last thread has given up its interface.
            while ended.recv().is_ok() {}
            return Ok(Err(failed));
        }
        Ok(Ok(Workers { posts: workers, ended }))
    }
}

/// Lets the workers begin when all have their kernel interfaces. Otherwise returns why one has none, and drops
/// `starters`, which ends the others.
fn start_together(ups: &Receiver<Result<(), String>>, starters: Vec<Sender<()>>) -> Result<(), String> {
    for _ in 0..starters.len() {
        ups.recv().unwrap_or_else(|_| Err("a worker ended before it began".to_owned()))?;
    }
    for starter in starters {
        // A worker that has ended meanwhile has ended the process.
        let _ = starter.send(());
    }
    Ok(())
}

impl Workers {
    /// Waits until all workers have ended, but not longer than `patience`.
    pub(crate) fn wait(self, patience: Duration) {
        let deadline = Instant::now() + patience;
        for _ in 0..self.posts.len() {
            let _ = self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

fn letter_box(sender: Sender<ToWorker<Socket>>, waker: Waker) -> Post<ToWorker<Socket>> {
    Arc::new(move |letter| {
        // A worker that has ended reads no letters, and no client is left that they could concern.
        let _ = sender.send(letter);
        waker.wake();
    })
}

/// What a worker's thread needs.
struct Tools {
    id: WorkerId,
    inbox: Receiver<ToWorker<Socket>>,
    posts: Posts<Socket>,
    active: Arc<ActiveConfig>,
    handshake_pool: HandshakePool,
    start: Start,
    waker: Waker,
    seed: u64,
    up: Sender<Result<(), String>>,
    /// Gets an item when all workers are up, and is closed when one cannot be.
    started: Receiver<()>,
    end: Sender<()>,
}

impl Tools {
    fn work(self, backend: Backend, equipment: Equipment) {
        match backend {
            Backend::Uring => self.work_with(Uring::new(equipment)),
            Backend::Epoll => self.work_with(Epoll::new(equipment)),
        }
    }

    fn work_with<K: Kernel>(self, kernel: std::io::Result<K>) {
        let io = match kernel {
            Ok(kernel) => Tls::new(kernel, self.handshake_pool, self.waker),
            Err(error) => return drop(self.up.send(Err(error.to_string()))),
        };
        let worker = Worker::new(self.id, io, self.inbox, self.posts, self.active, self.seed);
        let _ = self.up.send(Ok(()));
        if self.started.recv().is_err() {
            return;
        }
        match self.start {
            Start::Awake => worker.run(),
            Start::Asleep => worker.asleep().run(),
        }
        let _ = self.end.send(());
    }
}

/// Most threads for TLS handshakes, of which there are as many as processors. They run with a lower priority than the
/// workers, and more of them would only wait.
const HANDSHAKE_THREADS_MAX: usize = 16;
/// Receive buffers of one worker: those given to the kernel, and those whose bytes are on their way to the other side.
const BUFFERS_PER_WORKER: u16 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(wanted: IoBackend, works: bool) -> Result<String, Fatal> {
        let probe = || if works { Ok(()) } else { Err("forbidden".to_owned()) };
        choose(wanted, probe).map(|choice| choice.to_string())
    }

    #[test]
    fn the_log_says_what_was_chosen_and_why() {
        let told = |text: &str| Ok(format!("io_backend: {text}"));
        assert_eq!(chosen(IoBackend::Auto, true), told("io_uring (it works here)"));
        assert_eq!(chosen(IoBackend::Auto, false), told("epoll (io_uring does not work here: forbidden)"));
        assert_eq!(chosen(IoBackend::Epoll, true), told("epoll (as configured)"));
        assert_eq!(chosen(IoBackend::IoUring, true), told("io_uring (as configured)"));
    }

    #[test]
    fn what_was_demanded_and_does_not_work_is_the_end() {
        let text = "io_backend = io_uring, but io_uring does not work here: forbidden".to_owned();
        assert_eq!(chosen(IoBackend::IoUring, false), Err(Fatal(text)));
    }

    #[test]
    fn epoll_replaces_what_one_worker_cannot_have_unless_it_was_demanded() {
        let chosen = |wanted| choose(wanted, || Ok(())).expect("it works");
        let instead = |wanted| chosen(wanted).instead("no memory").map(|choice| choice.to_string());
        let text = "io_backend: epoll (io_uring does not work here for all workers: no memory)".to_owned();
        assert_eq!(instead(IoBackend::Auto), Some(text));
        assert_eq!((instead(IoBackend::IoUring), instead(IoBackend::Epoll)), (None, None));
    }

    /// Three workers, whose results are sent one after the other.
    fn three(results: [Result<(), String>; 3]) -> (Result<(), String>, [bool; 3]) {
        let (up, ups) = mpsc::channel();
        results.into_iter().for_each(|result| up.send(result).expect("open"));
        drop(up);
        let (starters, started): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel()).unzip();
        let outcome = start_together(&ups, starters);
        let mut started = started.into_iter().map(|started| started.recv().is_ok());
        (outcome, std::array::from_fn(|_| started.next() == Some(true)))
    }

    #[test]
    fn no_worker_begins_when_one_cannot() {
        let failed = Err("no memory".to_owned());
        assert_eq!(three([Ok(()), Ok(()), failed.clone()]), (failed.clone(), [false; 3]));
        assert_eq!(three([failed.clone(), Ok(()), Ok(())]), (failed, [false; 3]));
        assert_eq!(three([Ok(()), Ok(()), Ok(())]), (Ok(()), [true; 3]));
    }
}
