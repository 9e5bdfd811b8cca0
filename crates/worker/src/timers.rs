//! What a deadline in the timer wheel is for.
//!
//! Always true: the wheel holds only keys; the row is looked up when the timer fires.
//! Not here: when a deadline is due (`deadlines`), what happens then (`deadlines`).

use base::{Key, Time};
use pool::ServerKey;

/// What a deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A client's login, idle time or wait.
    Client(Key),
    /// A server's dial, loan or cleanup.
    Server(ServerKey),
    /// A dial that found no free descriptor is tried again.
    Redial(ServerKey),
    /// The timeout of a cancel request.
    Cancel(Key),
    /// The timeout of a cancel request that was forwarded to another process.
    Forward(Key),
    /// A client's statement that needs a database without other sessions (such as DROP DATABASE) was not answered promptly.
    Claim(Key),
    /// A client that a rate limit delays may go on, or a rate limit delays nobody any more.
    Rates(Time),
    /// Looks for unused pools and for databases made from `*`.
    Sweep,
    /// Reports events to the control thread.
    Reports,
    /// Sends traced events to the control thread.
    Traced,
    /// Sends spans to the control thread.
    Spans,
    /// Checks for clients that wait in the pools.
    Watch,
    /// Hosts that are out of order are tried again.
    Outages,
    /// Servers move to hosts that suit better.
    Moves,
}
