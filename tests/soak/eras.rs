//! Which configurations the pooler has been told, and which it may have gone by at some moment.
//!
//! Always true: a configuration counts as begun before its first byte is written, and as in force when the pooler has said so.
//! What it goes by at any moment is therefore one of those from the last in force to the last begun.
//! Not here: what a configuration says (`era`), how it is brought into force (`stage`).

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::era::Era;

/// All of them, in their order.
#[derive(Debug)]
pub(crate) struct Eras(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    eras: Vec<Arc<Era>>,
    /// When each came into force: the last may not have yet.
    in_force: Vec<Instant>,
}

/// What is known at a moment: two numbers of configurations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    in_force: usize,
    begun: usize,
}

impl Moment {
    /// Whether no change is under way, nor has been one since `other`.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.in_force == other.begun && self.begun == other.begun
    }
}

impl Eras {
    /// With the one that is in force from the start.
    pub(crate) fn new(first: Era) -> Self {
        Self(Mutex::new(Inner { eras: vec![Arc::new(first)], in_force: vec![Instant::now()] }))
    }

    /// The next one is about to be written: its number.
    pub(crate) fn begin(&self, era: Era) -> usize {
        let mut inner = self.inner();
        inner.eras.push(Arc::new(era));
        inner.eras.len() - 1
    }

    /// The pooler has said that it goes by the last one.
    pub(crate) fn is_in_force(&self) {
        let mut inner = self.inner();
        if inner.in_force.len() < inner.eras.len() {
            inner.in_force.push(Instant::now());
        }
    }

    /// The one that was begun last.
    pub(crate) fn latest(&self) -> Arc<Era> {
        self.inner().eras.last().expect("there is a first one").clone()
    }

    pub(crate) fn now(&self) -> Moment {
        let inner = self.inner();
        Moment { in_force: inner.in_force.len() - 1, begun: inner.eras.len() - 1 }
    }

    /// Whether the pooler may have gone by one of this kind at some time between two moments.
    pub(crate) fn may_be(&self, from: Moment, until: Moment, kind: impl Fn(&Era) -> bool) -> bool {
        self.inner().eras[from.in_force..=until.begun].iter().any(|era| kind(era))
    }

    /// Whether the clients of a database may have been sent away between two moments.
    pub(crate) fn may_have_sent_away(&self, from: Moment, until: Moment, database: &str) -> bool {
        let inner = self.inner();
        inner.eras[until.begun].tenure(database) > inner.eras[from.in_force].tenure(database)
    }

    /// Whether those who were inside at the first moment have been sent away before the second, without any doubt.
    pub(crate) fn must_have_sent_away(&self, from: Moment, until: Moment, database: &str) -> bool {
        let inner = self.inner();
        if until.in_force <= from.in_force {
            return false;
        }
        // Who came in meanwhile may have done so under what was begun; but nobody under one that does not know the database.
        let has_gone = inner.eras[from.in_force + 1..=until.in_force].iter().any(|era| !era.has(database));
        has_gone || inner.eras[until.in_force].tenure(database) > inner.eras[from.begun].tenure(database)
    }

    /// Since when all that have been in force are of this kind; `None` when the last one is not, or is still on its way.
    pub(crate) fn all_since(&self, kind: impl Fn(&Era) -> bool) -> Option<Instant> {
        let inner = self.inner();
        if inner.in_force.len() < inner.eras.len() {
            return None;
        }
        let run = inner.eras.iter().rev().take_while(|era| kind(era)).count();
        inner.in_force.get(inner.eras.len() - run).copied()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics while he holds the eras")
    }
}
