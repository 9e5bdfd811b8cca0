//! What can go wrong beside the applications' own manners, and when.
//!
//! Always true: a fault ends by itself, and all have ended when the world heals.
//! Not here: which ones a seed draws (`faults`, beside this), what they do (`crate::faults`).

use std::sync::Arc;

use worker::letters::Whose;

use crate::postgres::manner::{Answers, Mood};

/// A fault and its time, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) what: What,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A host changes its mood.
    Mood { host: usize, mood: Mood },
    /// A session is ended by an administrator.
    Terminate { which: u64 },
    /// A session dies.
    Crash { which: u64 },
    /// All sessions of a host die.
    CrashAll { host: usize },
    /// A connection is reset from outside.
    Reset { which: u64 },
    /// A worker gets no turn.
    Stall { worker: u8, micros: u64 },
    /// The clock jumps ahead by so much.
    Jump { micros: u64 },
    /// The operator reloads.
    Reload { dice: u64 },
    /// Few receive buffers.
    FewBuffers { worker: u8 },
    /// No descriptors for anybody new.
    NoDescriptors,
    /// What is received comes in pieces of at most so many bytes.
    TinyPieces { worker: u8, bytes: usize },
    /// Names are not found.
    NoNames,
    /// Nothing goes wrong: somebody looks.
    Show,
    /// Servers take their time.
    SlowServers { factor: u64 },
    /// The operator orders something, and undoes it at the end.
    Order(Command),
    /// The file of secrets has mistakes.
    Secrets { dice: u64 },
    /// Clients are asked for another proof.
    AuthType { to: &'static str },
    /// Something about secrets and external authenticators.
    Trouble(Trouble),
}

/// What an operator orders.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Pause(Whose),
    Kill(Arc<str>),
    Disable(Arc<str>),
    Reconnect(Whose),
    /// One of those who are there then.
    KillClient(u64),
    /// Everything comes to rest.
    Suspend,
    /// Everything comes to rest for another process, which may not come up.
    Handover {
        dice: u64,
        succeeds: bool,
    },
}

/// A trouble.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// A user gets another secret, and stays with it; the operator may reload at the end.
    NewSecret { user: &'static str, reloads: bool },
    /// A host answers questions about users otherwise than usual.
    Answers { host: usize, how: Answers },
    /// The external authenticator cannot be asked.
    NoExternalAuth,
    /// The control thread takes so many times as long.
    Slow { factor: u64 },
}
