//! The configurations that the pooler was given, and which of them it may have used at a time.
//!
//! Always true: a configuration begins before its first byte is written, and is in force when the pooler has confirmed it.
//! So the one in use at any time is one of those from the last in force to the last begun.
//! Not here: what a configuration contains (`era`), how it is loaded (`stage`).

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::era::Era;

/// All configurations, in their order.
#[derive(Debug)]
pub(crate) struct Eras(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    eras: Vec<Arc<Era>>,
    /// When each came into force; the last may not be yet.
    in_force: Vec<Instant>,
}

/// What is known at a time: the numbers of two configurations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    in_force: usize,
    begun: usize,
}

impl Moment {
    /// Returns whether no change is under way, and none has happened since `other`.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.in_force == other.begun && self.begun == other.begun
    }
}

impl Eras {
    /// With the configuration that is in force from the start.
    pub(crate) fn new(first: Era) -> Self {
        Self(Mutex::new(Inner { eras: vec![Arc::new(first)], in_force: vec![Instant::now()] }))
    }

    /// A configuration is about to be written. Returns its number.
    pub(crate) fn begin(&self, era: Era) -> usize {
        let mut inner = self.inner();
        inner.eras.push(Arc::new(era));
        inner.eras.len() - 1
    }

    /// The pooler has confirmed the last configuration.
    pub(crate) fn is_in_force(&self) {
        let mut inner = self.inner();
        if inner.in_force.len() < inner.eras.len() {
            inner.in_force.push(Instant::now());
        }
    }

    /// The configuration that was begun last.
    pub(crate) fn latest(&self) -> Arc<Era> {
        self.inner().eras.last().expect("there is a first one").clone()
    }

    pub(crate) fn now(&self) -> Moment {
        let inner = self.inner();
        Moment { in_force: inner.in_force.len() - 1, begun: inner.eras.len() - 1 }
    }

    /// Returns whether the pooler may have used a configuration of this kind at some time between two moments.
    pub(crate) fn may_be(&self, from: Moment, until: Moment, kind: impl Fn(&Era) -> bool) -> bool {
        self.inner().eras[from.in_force..=until.begun].iter().any(|era| kind(era))
    }

    /// Returns whether the clients of a database may have been disconnected between two moments.
    pub(crate) fn may_have_sent_away(&self, from: Moment, until: Moment, database: &str) -> bool {
        let inner = self.inner();
        inner.eras[until.begun].tenure(database) > inner.eras[from.in_force].tenure(database)
    }

    /// Returns whether clients that were connected at the first moment must have been disconnected before the second.
    pub(crate) fn must_have_sent_away(&self, from: Moment, until: Moment, database: &str) -> bool {
        let inner = self.inner();
        if until.in_force <= from.in_force {
            return false;
        }
        // A client that has connected meanwhile may have done so under a configuration that was only begun, but not under
        // one without the database.
        let has_gone = inner.eras[from.in_force + 1..=until.in_force].iter().any(|era| !era.has(database));
        has_gone || inner.eras[until.in_force].tenure(database) > inner.eras[from.begun].tenure(database)
    }

    /// Since when all configurations in force are of this kind; `None` when the last one is not, or is not confirmed.
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
