//! The operator's rules for state that only one server can have, and for effects that no text shows (`session_policy`,
//! `session_unseen`).
//!
//! Always true: rules that refuse nothing cost one comparison.
//! Not here: how the settings are written (crate `config`), where the rules are applied (`loan`).

use std::time::Duration;

use super::pins::Kind;

/// What happens to a client that holds something on its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The client keeps the server.
    Pin,
    /// The client keeps the server and gets a NOTICE.
    Warn,
    /// The client does not keep the server, wherever that is possible: the listener of its database (`subscriptions`)
    /// takes over its channels; its statements are prepared on the servers that it gets.
    Virtualize,
    /// The client's statement is refused.
    Reject,
}

/// What is assumed about session state that functions may have changed and that no text shows (`session_unseen`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unseen {
    /// The server is probed.
    Verify,
    /// The client keeps its server.
    Pin,
    /// Functions are taken to change nothing.
    Ignore,
}

/// Rules for what clients of a pool may hold on its servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinRules {
    /// The policy for each kind, in the order of [`Kind::ALL`].
    pub policies: [Policy; Kind::ALL.len()],
    /// How many servers of the pool clients may keep at a time; `None` is no limit.
    pub servers_max: Option<u32>,
    /// How long a client may keep a server; `None` is no limit.
    pub age_max: Option<Duration>,
    /// What is assumed about changes by functions.
    pub unseen: Unseen,
}

impl PinRules {
    /// The policy for this kind.
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
