//! What is done about what only one server can have, and about what nobody can read (`session_policy`, `session_unseen`).
//!
//! Always true: rules that refuse nothing cost a look at one of them.
//! Not here: how an operator says them (crate `config`), who obeys them (`loan`).

use std::time::Duration;

use super::pins::Kind;

/// What is done about a client that holds something on its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// It keeps the server.
    Pin,
    /// The same, and it is told.
    Warn,
    /// It does not keep the server, wherever that is possible: one server listens for all; statements are prepared where their client
    /// goes.
    Virtualize,
    /// It is refused.
    Reject,
}

/// What is done about what functions may have changed in a session, where no text tells (`session_unseen`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unseen {
    /// The server is asked.
    Verify,
    /// The client keeps its server.
    Pin,
    /// It is taken to be nothing.
    Ignore,
}

/// What clients of a pool may hold on its servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinRules {
    /// What is done about each kind, in the order of [`Kind::ALL`].
    pub policies: [Policy; Kind::ALL.len()],
    /// So many servers may be kept together; `None` is any number.
    pub servers_max: Option<u32>,
    /// So long may one be kept; `None` is for ever.
    pub age_max: Option<Duration>,
    /// What is done about what functions may have changed.
    pub unseen: Unseen,
}

impl PinRules {
    /// What is done about this kind.
    #[must_use]
    pub fn policy(&self, kind: Kind) -> Policy {
        self.policies[kind as usize]
    }

    /// Whether anything is refused.
    #[must_use]
    pub fn has_refusals(&self) -> bool {
        self.policies.contains(&Policy::Reject)
    }
}
