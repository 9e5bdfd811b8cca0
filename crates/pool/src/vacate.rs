//! A pool gives up what it keeps for nobody, because somebody needs its database alone.
//!
//! Always true: whoever waits is served as ever, and who has a server keeps it.
//! Not here: who needs the database, and which servers are connected to it (crate `worker`).

use base::Time;

use crate::pool::{Pool, Tables};
use crate::slot::State;
use crate::{CloseReason, Command, ServerKey};

impl Pool {
    /// Closes a server that nobody has, and that nobody waits for.
    pub(crate) fn vacate_server(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        let Some(slot) = tables.slots.get(server) else { return };
        let is_for_minimum = self.waiting.is_empty() && self.greeting.is_empty();
        if slot.state == State::Idle || slot.state == State::Dialing && is_for_minimum {
            self.expire(now, tables, server, CloseReason::DatabaseClaimed, out);
        }
    }
}
