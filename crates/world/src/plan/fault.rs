//! The kinds of faults, and their times.
//!
//! Always true: a fault ends by itself, and all have ended when the world heals.
//! Not here: which faults a seed draws (`faults`, beside this), what they do (`crate::faults`).

use std::sync::Arc;

use worker::letters::Whose;

use crate::plan::clusters;
use crate::postgres::manner::{Answers, Mood};

/// A fault and its time, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) what: What,
}

/// A kind of fault.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A host changes its mood.
    Mood { host: usize, mood: Mood },
    /// A session is ended as by `pg_terminate_backend`.
    Terminate { which: u64 },
    /// A session crashes.
    Crash { which: u64 },
    /// All sessions of a host crash.
    CrashAll { host: usize },
    /// A connection is reset from outside.
    Reset { which: u64 },
    /// A worker gets no turn.
    Stall { worker: u8, micros: u64 },
    /// The clock jumps forward.
    Jump { micros: u64 },
    /// The operator changes the configuration and reloads.
    Reload { dice: u64 },
    /// A worker has few receive buffers.
    FewBuffers { worker: u8 },
    /// No file descriptors are left for new connections.
    NoDescriptors,
    /// Bytes are received in pieces of at most this size.
    TinyPieces { worker: u8, bytes: usize },
    /// Host names are not found.
    NoNames,
    /// No fault: a snapshot is taken.
    Show,
    /// Servers are slower by this factor.
    SlowServers { factor: u64 },
    /// The operator gives an order, and takes it back at the end.
    Order(Command),
    /// `auth_file` has mistakes.
    Secrets { dice: u64 },
    /// `auth_type` changes.
    AuthType { to: &'static str },
    /// A trouble of authentication.
    Trouble(Trouble),
    /// Something happens to the cluster.
    Cluster(clusters::Trouble),
}

/// An order of the operator.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Pause(Whose),
    Kill(Arc<str>),
    Disable(Arc<str>),
    Reconnect(Whose),
    /// KILL_CLIENT of one of the clients that are connected then.
    KillClient(u64),
    /// SUSPEND.
    Suspend,
    /// An online restart, whose new process may not come up.
    Handover {
        dice: u64,
        succeeds: bool,
    },
}

/// A fault of authentication.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// A user's secret changes for good; the operator may reload at the end.
    NewSecret { user: &'static str, reloads: bool },
    /// A host answers `auth_query` in an unusual way.
    Answers { host: usize, how: Answers },
    /// The external authenticator is unavailable.
    NoExternalAuth,
    /// The control thread is slower by this factor.
    Slow { factor: u64 },
}
