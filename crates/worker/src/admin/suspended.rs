//! A suspended worker: what it puts off, and what it keeps.
//!
//! Always true: nothing that is kept is lost or overtaken.
//! Not here: how it comes to rest (`suspend`).

use std::collections::{HashSet, VecDeque};

use base::{Key, Time};
use pool::{Command, ServerKey};
use reactor::Completion;

use crate::letters::{Shutdown, ToWorker};

/// A suspended worker.
#[derive(Debug)]
pub(crate) struct Suspended<S> {
    /// The connections are to be handed over to another process.
    pub(super) is_handover: bool,
    /// When connections that are not at rest are closed (`suspend_timeout`); None once all are at rest.
    pub(super) until: Option<Time>,
    /// When connections that are not at rest are closed (`suspend_timeout`); kept when all are at rest.
    pub(super) limit: Option<Time>,
    /// When the connections that are not at rest are logged; None once that is done or all are at rest.
    pub(super) tell_at: Option<Time>,
    /// Commands of the pools, with their times, carried out when the worker is resumed.
    pub(super) deferred: Vec<(Command, Time)>,
    /// Set once something has been packed.
    pub(super) frozen: Option<Frozen<S>>,
}

impl<S> Suspended<S> {
    pub(super) fn new(is_handover: bool, until: Option<Time>, tell_at: Time) -> Self {
        Self { is_handover, until, limit: until, tell_at: Some(tell_at), deferred: Vec::new(), frozen: None }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.until.into_iter().chain(self.tell_at).min().filter(|_| self.frozen.is_none())
    }

    /// Returns a letter that is to be read now, and keeps it otherwise. Operators are answered: they may cancel the restart.
    pub(crate) fn keep_letter(&mut self, letter: ToWorker<S>) -> Option<ToWorker<S>> {
        let Some(frozen) = &mut self.frozen else { return Some(letter) };
        match letter {
            ToWorker::Pack { .. }
            | ToWorker::HandedOver
            | ToWorker::WakeUp
            | ToWorker::ForgetOrder { .. }
            | ToWorker::ConsoleAnswer { .. }
            | ToWorker::ConsolePart { .. }
            | ToWorker::Show { .. }
            | ToWorker::Shutdown(Shutdown::Now) => Some(letter),
            _ => {
                frozen.kept.letters.push_back(letter);
                None
            }
        }
    }
}

/// What must not be touched any more, since another process may have it already, and what has come meanwhile.
#[derive(Debug)]
pub(crate) struct Frozen<S> {
    /// The packed clients and servers.
    pub(super) clients: HashSet<Key>,
    pub(super) servers: HashSet<ServerKey>,
    pub(super) kept: Kept<S>,
}

/// Completions and letters that nothing has looked at yet.
#[derive(Debug)]
pub(crate) struct Kept<S> {
    pub(crate) completions: Vec<Completion<S>>,
    pub(crate) letters: VecDeque<ToWorker<S>>,
}

impl<S> Default for Kept<S> {
    fn default() -> Self {
        Self { completions: Vec::new(), letters: VecDeque::new() }
    }
}
