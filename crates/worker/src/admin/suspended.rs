//! A worker that has been suspended: what is put off, and what is kept.
//!
//! Always true: nothing that is kept is lost or overtaken.
//! Not here: how it comes to rest (`suspend`).

use std::collections::{HashSet, VecDeque};

use base::{Key, Time};
use pool::{Command, ServerKey};
use reactor::Completion;

use crate::letters::{Shutdown, ToWorker};

/// A worker that has been suspended.
#[derive(Debug)]
pub(crate) struct Suspended<S> {
    /// Another process is to have all conversations.
    pub(super) is_handover: bool,
    /// When those who have not come to rest are closed (`suspend_timeout`), until all have.
    pub(super) until: Option<Time>,
    /// The same, whether or not all have.
    pub(super) limit: Option<Time>,
    /// When it is said who has not come to rest, unless everybody has.
    pub(super) tell_at: Option<Time>,
    /// What the pools want done to clients, and since when: done when it is woken.
    pub(super) put_off: Vec<(Command, Time)>,
    /// Once something has been packed.
    pub(super) frozen: Option<Frozen<S>>,
}

impl<S> Suspended<S> {
    pub(super) fn new(is_handover: bool, until: Option<Time>, tell_at: Time) -> Self {
        Self { is_handover, until, limit: until, tell_at: Some(tell_at), put_off: Vec::new(), frozen: None }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.until.into_iter().chain(self.tell_at).min().filter(|_| self.frozen.is_none())
    }

    /// Keeps a letter if it is not to be read now. Operators are heard and answered: they may call the restart off.
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

/// What is not touched any more, because another process may have it already, and what has come meanwhile.
#[derive(Debug)]
pub(crate) struct Frozen<S> {
    /// What has been packed.
    pub(super) clients: HashSet<Key>,
    pub(super) servers: HashSet<ServerKey>,
    pub(super) kept: Kept<S>,
}

/// What has happened meanwhile and nobody has looked at.
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
