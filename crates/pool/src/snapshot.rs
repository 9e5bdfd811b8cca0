//! The visible state of a pool, for console, metrics and simulation, and for the time limit of a login that waits for
//! the pool. No decision of the machine itself is based on it.

use base::Time;

use crate::{Failure, Limits, WaitReason, Waited};

/// One pool at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The caller's number of the database.
    pub database: u32,
    /// The caller's number of the user.
    pub user: u32,
    /// The limits in force.
    pub limits: Limits,
    /// Clients that wait for a server.
    pub waiting: u32,
    /// Clients that wait to be greeted after the first login.
    pub greeting: u32,
    /// Clients that wait for a dedicated server whose dialing has not begun.
    pub dedicated_waiting: u32,
    /// Since when the first client that waits for a server has waited.
    pub waiting_since: Option<Time>,
    /// Servers that are being dialed or logged in to.
    pub dialing: u32,
    /// Servers that wait for a client.
    pub idle: u32,
    /// Servers that are lent to a client.
    pub lent: u32,
    /// Servers that are being reset or cleaned up.
    pub cleaning: u32,
    /// Servers that are being checked.
    pub checking: u32,
    /// Dedicated servers that are being dialed or logged in to.
    pub dedicating: u32,
    /// Dedicated servers that are bound to their clients.
    pub bound: u32,
    /// Servers that are being closed.
    pub closing: u32,
    /// Dedicated servers in any state.
    pub dedicated: u32,
    /// Whether the server parameters of a login are known.
    pub is_welcomed: bool,
    /// Why the last login failed, unless a login has succeeded since.
    pub failure: Option<Failure>,
    /// What the waiting clients wait for.
    pub waits_for: Option<WaitReason>,
    /// How long clients have waited since the pool was opened, by reason.
    pub waited: Waited,
    /// The largest number of servers that were lent at once since the pool was opened.
    pub peak_lent: u32,
}

impl Snapshot {
    /// Servers in any state, as the limits count them.
    #[must_use]
    pub fn servers(&self) -> u32 {
        self.dialing
            + self.idle
            + self.lent
            + self.cleaning
            + self.checking
            + self.dedicating
            + self.bound
            + self.closing
    }
}
