//! The present, as every part of the control thread may see it: the time, what is in force, and whom to tell.
//!
//! Always true: to log and to post waits for nobody.
//! Not here: what is told to whom, and when something else is put in force (`control`, `reload`, `orders`).

use std::fmt;
use std::sync::Arc;

use base::{Time, Wall, WorkerId};
use reactor::{Level, Lines, Subject};
use worker::letters::{ActiveConfig, Post, ToWorker};

/// The present, on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// On a clock that only goes forward, which did not begin to go just now.
    pub time: Time,
    /// On the calendar.
    pub wall: Wall,
}

/// What every part may know, and whom it may tell. `S` is a connection between workers.
pub(crate) struct Present<S> {
    pub(crate) now: Moment,
    pub(crate) active: Arc<ActiveConfig>,
    workers: Vec<Post<ToWorker<S>>>,
}

impl<S> Present<S> {
    pub(crate) fn new(now: Moment, active: Arc<ActiveConfig>, workers: Vec<Post<ToWorker<S>>>) -> Self {
        Self { now, active, workers }
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The letter boxes of all of them.
    pub(crate) fn posts(&self) -> &[Post<ToWorker<S>>] {
        &self.workers
    }

    pub(crate) fn post(&self, to: WorkerId, letter: ToWorker<S>) {
        if let Some(post) = self.workers.get(usize::from(to.0)) {
            post(letter);
        }
    }

    /// Tells the worker on which a database lives.
    pub(crate) fn post_home(&self, database: &str, letter: ToWorker<S>) {
        self.post(self.active.homes.home_of(database), letter);
    }

    pub(crate) fn post_all(&self, letter: impl Fn() -> ToWorker<S>) {
        self.workers.iter().for_each(|post| post(letter()));
    }

    /// Tells all workers what is in force.
    pub(crate) fn post_config(&self) {
        self.post_all(|| ToWorker::ActiveConfig(Arc::clone(&self.active)));
    }

    pub(crate) fn log(&self, level: Level, line: fmt::Arguments<'_>) {
        self.active.log.write_one(self.now.wall, level, line);
    }

    /// The same about somebody.
    pub(crate) fn log_about(&self, about: &Subject, level: Level, line: fmt::Arguments<'_>) {
        let mut lines = Lines::default();
        lines.about(about, level, line);
        self.active.log.write(self.now.wall, &lines);
    }
}
