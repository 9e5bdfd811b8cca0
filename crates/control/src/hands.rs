//! State that every part of the control thread may read: the time, the configuration in force, and the workers' letter
//! boxes.
//!
//! Always true: logging and posting never block.
//! Not here: decisions about what to post, and changes of the configuration in force (`control`, `reload`, `orders`).

use std::fmt;
use std::sync::Arc;

use base::{Time, Wall, WorkerId};
use reactor::{Level, Lines, Subject};
use worker::letters::{ActiveConfig, Post, ToWorker};

/// The current time on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clocks {
    /// Monotonic time. At the start of the process it is already greater than zero.
    pub time: Time,
    /// Wall-clock time.
    pub wall: Wall,
}

/// The time, the configuration in force and the workers' letter boxes. `S` is a connection between workers.
pub(crate) struct Hands<S> {
    pub(crate) now: Clocks,
    pub(crate) active: Arc<ActiveConfig>,
    workers: Vec<Post<ToWorker<S>>>,
}

impl<S> Hands<S> {
    pub(crate) fn new(now: Clocks, active: Arc<ActiveConfig>, workers: Vec<Post<ToWorker<S>>>) -> Self {
        Self { now, active, workers }
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The letter boxes of all workers.
    pub(crate) fn posts(&self) -> &[Post<ToWorker<S>>] {
        &self.workers
    }

    pub(crate) fn post(&self, to: WorkerId, letter: ToWorker<S>) {
        if let Some(post) = self.workers.get(usize::from(to.0)) {
            post(letter);
        }
    }

    /// Posts a letter to the home worker of a database.
    pub(crate) fn post_home(&self, database: &str, letter: ToWorker<S>) {
        self.post(self.active.homes.home_of(database), letter);
    }

    pub(crate) fn post_all(&self, letter: impl Fn() -> ToWorker<S>) {
        self.workers.iter().for_each(|post| post(letter()));
    }

    /// Sends the configuration in force to all workers.
    pub(crate) fn post_config(&self) {
        self.post_all(|| ToWorker::ActiveConfig(Arc::clone(&self.active)));
    }

    pub(crate) fn log(&self, level: Level, line: fmt::Arguments<'_>) {
        self.active.log.write_one(self.now.wall, level, line);
    }

    /// Logs a line about a client or server.
    pub(crate) fn log_about(&self, about: &Subject, level: Level, line: fmt::Arguments<'_>) {
        let mut lines = Lines::default();
        lines.about(about, level, line);
        self.active.log.write(self.now.wall, &lines);
    }
}
