//! What one module needs from another that is not below it: a value, queued together with the commands of the pools.
//!
//! Always true: a task is carried out after the event that caused it and before the next event, and no code relies on
//! its effect earlier; a task does nothing if the client or server that it names has gone by then.
//! Not here: carrying tasks out (`settle`).

use pool::{ClientKey, Command, ServerKey};
use protocol::fault::Fault;

use crate::notify::listening::Waiter;

/// Work that is queued.
#[derive(Debug)]
pub(crate) enum Task {
    /// A command of the pools.
    Pools(Command),
    /// Forwards a client's requests that were held back, if they may be forwarded now.
    ForwardHeld(ClientKey),
    /// The client may have sent the last message of its loan.
    EndLoan { server: ServerKey, client: ClientKey },
    /// Sends this server's withheld messages to its client.
    Release(ServerKey),
    /// These waiters no longer wait for the listener of their database: it has caught up (`has_caught_up`), or nobody waits
    /// for it any more.
    ReleaseAll { waiters: Vec<Waiter>, has_caught_up: bool },
    /// A waiting client cancels its first held request.
    CancelWaiting(ClientKey),
    /// The cancel request that this client has sent is over: its connection is closed.
    RequestOver(ClientKey),
    /// A cancel request at this server is over. `was_sent` says that the postmaster has sent the signal.
    CancelOver { server: ServerKey, was_sent: bool },
    /// A cancel request may still hit this server, and nobody can tell when.
    LoseServer { server: ServerKey, why: &'static str },
    /// Closes a client after the messages withheld from it were sent.
    Close { client: ClientKey, how: ClientClose },
}

/// How a client is closed.
#[derive(Debug)]
pub(crate) enum ClientClose {
    /// With an error for the client and a line in the log.
    Failed(Box<Fault>),
    /// With an error for the client; the log line is written elsewhere.
    Unlogged(Box<Fault>),
    /// Without an error for the client, for this reason.
    Parted(Box<str>),
}
