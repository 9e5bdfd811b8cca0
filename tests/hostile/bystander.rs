//! A client that runs one small query after the other, and records the longest wait.
//!
//! The time that the kernel lets the pooler's threads wait for a processor is subtracted: two dozen attackers and their
//! servers run on the same processors.
//! Always true: a query that is running when the bystander is stopped is awaited to its end, or to its limit.
//! Not here: what it is compared with (`trial`).

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tests::client::Client;
use tests::message;

/// The client.
pub(crate) struct Bystander {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What it has measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) longest: Duration,
    /// The median of the waits.
    pub(crate) median: Duration,
    /// The 99th percentile of the waits.
    pub(crate) p99: Duration,
    pub(crate) is_lost: bool,
}

impl Bystander {
    /// Logs in, runs a first query that does not count, and continues.
    pub(crate) fn begin(address: SocketAddr, user: &str, database: &str, queue: RunQueue) -> Self {
        let mut client = Client::login(address, user, database);
        client.run(QUERY);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || work(client, &over, &queue));
        Self { is_over, thread }
    }

    /// Lets it finish its query and run a last one.
    pub(crate) fn end(self) -> Seen {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().expect("it panics nowhere")
    }
}

/// How long threads have waited for a processor.
pub(crate) struct RunQueue(Vec<PathBuf>);

impl RunQueue {
    /// Of no thread.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Of a pooler's threads with this name, or of all its threads if none has it.
    pub(crate) fn of(pid: u32, name: &str) -> Self {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the pooler runs");
        let tasks: Vec<PathBuf> = tasks.flatten().map(|task| task.path()).collect();
        let is_named = |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with(name));
        let named: Vec<PathBuf> = tasks.iter().filter(|task| is_named(task)).cloned().collect();
        let chosen = if named.is_empty() { tasks } else { named };
        Self(chosen.into_iter().map(|task| task.join("schedstat")).collect())
    }

    /// The wait so far. A thread that has ended does not count.
    fn waited(&self) -> Duration {
        let of = |path: &PathBuf| {
            let stat = fs::read_to_string(path).unwrap_or_default();
            stat.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
        };
        Duration::from_nanos(self.0.iter().map(of).sum())
    }
}

fn work(mut client: Client, over: &AtomicBool, queue: &RunQueue) -> Seen {
    let mut seen = Seen::default();
    let mut waits = Vec::new();
    loop {
        let is_last = over.load(Ordering::SeqCst);
        let (begun, queued) = (Instant::now(), queue.waited());
        let is_answered = ask(&mut client, begun + WAIT_MAX);
        let queued = queue.waited().saturating_sub(queued);
        waits.push(begun.elapsed().saturating_sub(queued));
        seen.is_lost = !is_answered;
        if is_last || !is_answered {
            waits.sort_unstable();
            seen.longest = waits.last().copied().unwrap_or_default();
            seen.median = waits[waits.len() / 2];
            seen.p99 = waits[(waits.len() - 1) * 99 / 100];
            return seen;
        }
        // A pause between two queries, so that the measurement does not take the processor from what it measures.
        std::thread::park_timeout(PAUSE);
    }
}

fn ask(client: &mut Client, end: Instant) -> bool {
    if client.peer.try_send(&message::query(QUERY)).is_err() {
        return false;
    }
    loop {
        match client.peer.frame_within(end.saturating_duration_since(Instant::now())) {
            Ok(frame) if frame.tag == b'Z' => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

const QUERY: &str = "select 1";
const PAUSE: Duration = Duration::from_millis(1);
/// A longer wait counts as a lost connection.
const WAIT_MAX: Duration = Duration::from_secs(20);
