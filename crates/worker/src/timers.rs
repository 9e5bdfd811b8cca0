//! What a deadline in the wheel is about.
//!
//! Always true: the wheel knows names only; whose they are is looked up when it fires.
//! Not here: when something is due (`deadlines`), what is done then (`due`).

use base::{Key, Time};
use pool::ServerKey;

/// What a deadline is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// A client's login, idleness or wait.
    Client(Key),
    /// A server's dial, loan or cleaning.
    Server(ServerKey),
    /// A dial that found no descriptor.
    Redial(ServerKey),
    /// A cancel request's patience.
    Cancel(Key),
    /// The patience of a cancel request for another process.
    Forward(Key),
    /// A client's statement that needs a database to itself has not been answered promptly.
    Claim(Key),
    /// Somebody whom a rate limit delays, or the end of one that held somebody back.
    Rates(Time),
    /// A look at the pools that nobody uses, and at the databases that were made from `*`.
    Sweep,
    /// What the control thread is to be told of.
    Reports,
    /// What tracers are to be told of.
    Traced,
    /// What the control thread is to be told of traces.
    Spans,
    /// A look at who waits in the pools.
    Watch,
}
