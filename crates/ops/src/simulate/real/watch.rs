//! What the machine did during a run: processor time, memory and servers, each second.
//!
//! Always true: a look never delays the load, which is another thread's; the processor time of a server that was restarted is that of all its processes,
//! but for what the old ones used after the last look at them.
//! Not here: what a process is used for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::objects::PREFIX;
use crate::trial::{children_of, cpu_of, family_cpu_of, memory_of};

/// One look.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Look {
    /// Seconds of the run.
    pub(super) at: f64,
    /// Processor seconds so far: PostgreSQL with all its processes, the pooler, ourselves.
    pub(super) server_cpu: f64,
    pub(super) pooler_cpu: f64,
    pub(super) own_cpu: f64,
    /// Bytes, without shared memory, where the kernel tells them apart.
    pub(super) pooler_memory: u64,
    /// Of the servers of our databases; looked at every fifth second, and 0 in between.
    pub(super) server_memory: u64,
    /// Processes of PostgreSQL that serve our databases.
    pub(super) servers: u32,
}

/// Who is watched.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// PostgreSQL, if it is ours; another process after a restart.
    pub(super) server: Option<Arc<AtomicU32>>,
    pub(super) pooler: Option<u32>,
}

/// A watch that runs.
pub(super) struct Watch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Look>>,
}

impl Watch {
    /// Begins now; also looks at these times of the run, in microseconds.
    pub(super) fn begin(watched: Watched, mut also_at: Vec<u64>) -> Self {
        let (stop, is_over) = mpsc::channel();
        let began = Instant::now();
        also_at.sort_unstable_by(|a, b| b.cmp(a));
        let thread = std::thread::spawn(move || {
            let mut former = Former::default();
            let mut look = |at, with_memory| former.look(&watched, at, with_memory);
            let mut looks = vec![look(Duration::ZERO, true)];
            let mut next = Duration::from_secs(1);
            loop {
                let due = also_at.last().map_or(next, |at| next.min(Duration::from_micros(*at)));
                match is_over.recv_timeout(due.saturating_sub(began.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {
                        looks.push(look(began.elapsed(), due == next && next.as_secs().is_multiple_of(5)));
                        if due == next {
                            next += Duration::from_secs(1);
                        } else {
                            also_at.pop();
                        }
                    }
                    _ => {
                        looks.push(look(began.elapsed(), true));
                        return looks;
                    }
                }
            }
        });
        Self { stop, thread }
    }

    /// Ends the watch.
    pub(super) fn end(self) -> Vec<Look> {
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// The look nearest to a time in seconds.
pub(super) fn nearest(looks: &[Look], at: f64) -> Look {
    let distance = |look: &&Look| (look.at - at).abs();
    looks.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).copied().unwrap_or_default()
}

/// The server's processes before its last restart.
#[derive(Default)]
struct Former {
    pid: Option<u32>,
    /// Processor seconds of all before that one.
    earlier: f64,
    /// Of that one, at the last look.
    last: f64,
}

impl Former {
    fn look(&mut self, watched: &Watched, at: Duration, with_memory: bool) -> Look {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let cpu = |pid: Option<u32>| pid.and_then(cpu_of).map_or(0.0, |cpu| seconds(cpu.total_us()));
        let server = watched.server.as_ref().map(|pid| pid.load(Ordering::Relaxed));
        let servers: Vec<u32> = server.map(children_of).unwrap_or_default();
        let servers: Vec<u32> = servers.into_iter().filter(|pid| is_ours(*pid)).collect();
        let memory = |pid: u32| memory_of(pid).map_or(0, |memory| memory.bytes);
        let used = server.map_or(0.0, |pid| seconds(family_cpu_of(pid).total_us()));
        if self.pid != server {
            self.earlier += self.last;
            (self.pid, self.last) = (server, 0.0);
        }
        // One that has stopped has used what it had used before.
        self.last = self.last.max(used);
        Look {
            at: at.as_secs_f64(),
            server_cpu: self.earlier + self.last,
            pooler_cpu: cpu(watched.pooler),
            own_cpu: cpu(Some(std::process::id())),
            pooler_memory: watched.pooler.map_or(0, memory),
            server_memory: if with_memory {
                servers.iter().take(PROCESSES_MAX).map(|pid| memory(*pid)).sum()
            } else {
                0
            },
            servers: servers.len() as u32,
        }
    }
}

/// Recognised by the process title that PostgreSQL sets: `postgres: tlsim_1_1_2 tlsim_1 127.0.0.1(40606) idle`.
fn is_ours(pid: u32) -> bool {
    let title = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    title.windows(PREFIX.len()).any(|part| part == PREFIX.as_bytes())
}

/// Reading the memory of more processes would cost more than the load.
const PROCESSES_MAX: usize = 200;
