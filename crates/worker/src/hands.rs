//! What every room of a worker works with: sockets, time, timers, the log, the configuration in force, the letter boxes
//! of others, and the counters of how connections end.
//!
//! Always true: the time is that of the turn; a task that is queued here is carried out after the event that caused it
//! and before the next event.
//! Not here: anything about a client, a server or a pool. A function that is given the hands, and not the worker, cannot
//! touch one.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Time, WorkerId};
use measure::Connections;
use reactor::{Io, Lines, Wheel};

use crate::letters::{ActiveConfig, Posts};
use crate::tasks::Task;
use crate::timers::Timer;

/// Sockets, time and letters of one worker.
pub(crate) struct Hands<I: Io> {
    pub(crate) id: WorkerId,
    pub(crate) io: I,
    pub(crate) posts: Posts<I::Socket>,
    pub(crate) active: Arc<ActiveConfig>,
    /// The time of this turn.
    pub(crate) now: Time,
    pub(crate) timers: Wheel<Timer>,
    pub(crate) log: Lines,
    /// How logins, TLS handshakes and cancel requests have ended.
    pub(crate) connections: Connections,
    /// Commands and tasks that are still to be carried out.
    pub(crate) tasks: VecDeque<Task>,
}

impl<I: Io> Hands<I> {
    /// The hands of a worker that has done nothing yet.
    pub(crate) fn new(id: WorkerId, io: I, posts: Posts<I::Socket>, active: Arc<ActiveConfig>) -> Self {
        let now = io.now();
        let (timers, log, tasks) = (Wheel::new(now), Lines::default(), VecDeque::new());
        Self { id, io, posts, active, now, timers, log, connections: Connections::default(), tasks }
    }

    /// Queues what one room needs from another.
    pub(crate) fn enqueue(&mut self, task: Task) {
        self.tasks.push_back(task);
    }
}
