//! How a pool looks from outside, for console, metrics and simulation. Never used for decisions.

use base::Time;

use crate::{Failure, Limits, WaitReason, Waited};

/// One pool at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The caller's name of the database.
    pub database: u32,
    /// The caller's name of the user.
    pub user: u32,
    /// What is in force.
    pub limits: Limits,
    /// Clients that wait for a server.
    pub waiting: u32,
    /// Clients that wait for the first login.
    pub greeting: u32,
    /// Clients that wait for a dedicated server which is not being dialed yet.
    pub dedicated_waiting: u32,
    /// Since when the first client that waits for a server has waited.
    pub waiting_since: Option<Time>,
    /// Servers whose login is on its way.
    pub dialing: u32,
    /// Servers that wait for a client.
    pub idle: u32,
    /// Servers that a client has.
    pub lent: u32,
    /// Servers that are being reset or mended.
    pub cleaning: u32,
    /// Servers that are being checked.
    pub checking: u32,
    /// Dedicated servers whose login is on its way.
    pub dedicating: u32,
    /// Dedicated servers that their clients have.
    pub bound: u32,
    /// Servers that are being closed.
    pub closing: u32,
    /// Dedicated servers in any state.
    pub dedicated: u32,
    /// Whether the parameters of a login are known.
    pub is_welcomed: bool,
    /// Why the last login did not come about, unless one has succeeded since.
    pub failure: Option<Failure>,
    /// What those who wait wait for.
    pub waits_for: Option<WaitReason>,
    /// How long clients have waited here since the pool was opened, by what they waited for.
    pub waited: Waited,
    /// The most servers that have been lent at once since then.
    pub peak_lent: u32,
}

impl Snapshot {
    /// Servers in any state: what the limits count.
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
