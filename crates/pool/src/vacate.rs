//! Closes unused servers of a pool, because a client needs the database without other connections (`DROP DATABASE` and its
//! kin).
//!
//! Always true: waiting clients are still served, and a client that has a server keeps it.
//! Not here: which client needs the database, and which servers are connected to it (crate `worker`).

use base::Time;

use crate::pool::{Pool, Tables};
use crate::slot::State;
use crate::{CloseReason, Command, ServerKey};

impl Pool {
    /// Closes a server that is idle, or being dialed while no client waits for it.
    pub(crate) fn vacate_server(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        let Some(slot) = tables.slots.get(server) else { return };
        let is_for_minimum = self.waiting.is_empty() && self.greeting.is_empty();
        if slot.state == State::Idle || slot.state == State::Dialing && is_for_minimum {
            self.expire(now, tables, server, CloseReason::DatabaseClaimed, out);
        }
    }
}
