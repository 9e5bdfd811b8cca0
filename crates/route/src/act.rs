//! What one statement does.
//!
//! Always true: an act alone tells what it may touch; names and values in it are complete.
//! Not here: how it is read from the text (`classify`).

use crate::dirty_state::DirtyState;
use crate::lock::LockCall;
use crate::setting::Change;

/// What one statement does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// It begins, ends, or divides a transaction.
    Transaction(Control),
    /// It changes these settings for the rest of the session.
    Set(Box<[Change]>),
    /// `RESET ALL`.
    ResetAll,
    /// `DISCARD ALL`.
    DiscardAll,
    /// `PREPARE name AS ...`, and what its statement touches when it is executed.
    Prepare {
        /// Its name.
        name: Box<str>,
        /// What the statement touches.
        touches: DirtyState,
        /// The text that prepares it on any server, if it is the only statement of its text and can be prepared elsewhere
        /// ([`crate::prepared`]).
        sql: Option<Box<str>>,
    },
    /// `DEALLOCATE name`, or `DEALLOCATE ALL`.
    Deallocate {
        /// The name; `None` for all.
        name: Option<Box<str>>,
    },
    /// `EXECUTE name`.
    Execute {
        /// The name of the statement.
        name: Box<str>,
    },
    /// `UNLISTEN name`, or `UNLISTEN *`.
    Unlisten {
        /// The channel; `None` for all.
        channel: Option<Box<str>>,
    },
    /// `SELECT pg_advisory_lock(1)` and the like, alone.
    Lock(LockCall),
    /// Anything else.
    Other {
        /// What it may touch.
        touches: DirtyState,
        /// What it may only release, without an effect on a session that holds nothing of the kind.
        releases: DirtyState,
        /// The settings that it may change, where it touches `SETTINGS`.
        names: Box<[Box<str>]>,
    },
}

/// A statement that controls transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// `BEGIN`, `START TRANSACTION`.
    Begin,
    /// `COMMIT`, `END`, `PREPARE TRANSACTION`; with `AND CHAIN` another one begins at once.
    Commit {
        /// Whether another one begins at once.
        chain: bool,
    },
    /// `ROLLBACK`, `ABORT`.
    Rollback {
        /// Whether another one begins at once.
        chain: bool,
    },
    /// `SAVEPOINT name`.
    Savepoint(Box<str>),
    /// `RELEASE name`.
    Release(Box<str>),
    /// `ROLLBACK TO name`.
    RollbackTo(Box<str>),
}

impl Act {
    /// What it may touch.
    #[must_use]
    pub fn touches(&self) -> DirtyState {
        match self {
            Self::Transaction(_) => DirtyState::NOTHING,
            Self::Set(_) => DirtyState::SETTINGS,
            Self::ResetAll => DirtyState::ANY_SETTING,
            Self::DiscardAll => DirtyState::ANYTHING.without(DirtyState::FUNCTIONS),
            Self::Prepare { .. } => DirtyState::STATEMENTS,
            // What the prepared statement does is known from its PREPARE.
            Self::Execute { .. } | Self::Deallocate { .. } => DirtyState::STATEMENTS,
            Self::Unlisten { .. } => DirtyState::CHANNELS,
            Self::Lock(_) => DirtyState::LOCKS,
            Self::Other { touches, releases, .. } => *touches | *releases,
        }
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let more = match self {
            Self::Set(changes) => changes.iter().map(Change::bytes).sum(),
            Self::Prepare { name, sql, .. } => name.len() + sql.as_ref().map_or(0, |sql| sql.len()),
            Self::Execute { name } | Self::Deallocate { name: Some(name) } | Self::Unlisten { channel: Some(name) } => {
                name.len()
            }
            Self::Transaction(Control::Savepoint(name) | Control::Release(name) | Control::RollbackTo(name)) => {
                name.len()
            }
            Self::Other { names, .. } => names_bytes(names),
            Self::Transaction(_) | Self::ResetAll | Self::DiscardAll | Self::Lock(_) => 0,
            Self::Deallocate { name: None } | Self::Unlisten { channel: None } => 0,
        };
        size_of::<Self>() + more
    }

    /// Not all names of settings that it may change have been read.
    pub(crate) fn untell(&mut self) {
        if let Self::Other { touches, .. } | Self::Prepare { touches, .. } = self
            && touches.has(DirtyState::ANY_SETTING)
        {
            *touches |= DirtyState::UNTOLD;
        }
    }

    /// Whether it matters to the session state, when its effect is certain.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        matches!(
            self,
            Self::Set(_) | Self::ResetAll | Self::DiscardAll | Self::Prepare { .. } | Self::Deallocate { .. }
        )
    }

    pub(crate) fn nothing() -> Self {
        Self::other(DirtyState::NOTHING)
    }

    pub(crate) fn other(touches: DirtyState) -> Self {
        Self::Other { touches, releases: DirtyState::NOTHING, names: Box::default() }
    }

    pub(crate) fn releasing(releases: DirtyState) -> Self {
        Self::Other { touches: DirtyState::NOTHING, releases, names: Box::default() }
    }

    /// The same act, touching and releasing more.
    pub(crate) fn with(self, more: DirtyState, let_go: DirtyState) -> Self {
        match self {
            Self::Other { touches, releases, names } => {
                Self::Other { touches: touches | more, releases: releases | let_go, names }
            }
            act => act,
        }
    }
}

/// Everything that these statements touch.
pub(crate) fn all_touched(acts: &[Act]) -> DirtyState {
    acts.iter().fold(DirtyState::NOTHING, |all, act| all | act.touches())
}

pub(crate) fn names_bytes(names: &[Box<str>]) -> usize {
    names.iter().map(|name| size_of_val(name) + name.len()).sum()
}

/// How many settings of one statement are kept by their names.
pub(crate) const NAMES_MAX: usize = 256;
