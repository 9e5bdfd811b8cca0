//! The threads of the data plane, and their kernel interface.
//!
//! Always true: a worker's kernel interface is created on the thread that uses it; `start` returns only when all workers
//! have one.

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

/// Starts as many workers as `active.homes` has.
///
/// # Errors
/// A thread or its kernel interface cannot be created.
pub(crate) fn start(
    choice: &Choice,
    active: &Arc<ActiveConfig>,
    listeners: &[Arc<Listener>],
    control: Post<ToControl>,
    ids: &Ids,
    start: Start,
    seed: u64,
) -> Result<Workers, Fatal> {
    let mut boxes = Vec::new();
    let mut workers: Vec<Post<ToWorker<Socket>>> = Vec::new();
    for _ in 0..active.homes.workers() {
        let waker = reactor::waker().map_err(|error| Fatal(format!("eventfd: {error}")))?;
        let (sender, inbox) = mpsc::channel();
        workers.push(letter_box(sender, waker.clone()));
        boxes.push((inbox, waker));
    }
    let handshake_pool = HandshakePool::new(
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(HANDSHAKE_THREADS_MAX),
    );
    let posts =
        Posts { workers: workers.clone(), control, ids: ids.clone(), unauthenticated: Unauthenticated::default() };
    let (up, ups) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    for (number, (inbox, waker)) in (0..=u8::MAX).zip(boxes) {
        let equipment = Equipment {
            listeners: listeners.to_vec(),
            waker: waker.clone(),
            buffers: BUFFERS_PER_WORKER,
            tuning: active.tuning,
            log: Arc::clone(&active.log),
        };
        let tools = Tools {
            id: WorkerId(number),
            inbox,
            posts: posts.clone(),
            active: Arc::clone(active),
            handshake_pool: handshake_pool.clone(),
            start,
            waker,
            seed: seed.wrapping_add(u64::from(number)),
            up: up.clone(),
            end: end.clone(),
        };
        let thread = std::thread::Builder::new().name(format!("worker {number}"));
        let backend = choice.backend;
        let spawned = thread.spawn(move || tools.work(backend, equipment));
        spawned.map_err(|error| Fatal(format!("cannot start a thread: {error}")))?;
    }
    drop((up, end));
    for _ in 0..workers.len() {
        match ups.recv() {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(Fatal(format!("{} failed: {why}", choice.name()))),
            Err(_) => return Err(Fatal("a worker ended before it began".to_owned())),
        }
    }
    Ok(Workers { posts: workers, ended })
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
}
