//! What one room wants of another that is not below it: a value, which is queued together with what the pools want done.
//!
//! Always true: nobody relies on what a task does before it is done, which is after the event that caused it and before the next; whom it names may have
//! gone by then, and then nothing is done.
//! Not here: doing it (`settle`).

use pool::{ClientKey, Command, ServerKey};
use protocol::fault::Fault;

use crate::notify::listening::Waiter;

/// Something that is to be done.
#[derive(Debug)]
pub(crate) enum Task {
    /// A pool wants it done.
    Pools(Command),
    /// What a client has held back is looked at, since it may go on.
    GoOn(ClientKey),
    /// What a client has said may have been the end of its loan.
    EndLoan { server: ServerKey, client: ClientKey },
    /// What is withheld from the client of this server it is given.
    Release(ServerKey),
    /// Nobody of these waits any longer for the session for all, which `is_level` with them or is not waited for.
    ReleaseAll { waits: Vec<Waiter>, is_level: bool },
    /// A client waits no longer for the session for all, in the wait of this number: it listens now.
    Joined { client: ClientKey, number: u64 },
    /// A client is closed, that has been given what was withheld from it.
    Close { client: ClientKey, how: ClientClose },
}

/// How a client is closed.
#[derive(Debug)]
pub(crate) enum ClientClose {
    /// It is told why, and so is the log.
    Failed(Box<Fault>),
    /// It is told why; the log is told in another way.
    Unlogged(Box<Fault>),
    /// Without a word, for this reason.
    Parted(Box<str>),
}
