//! Servers that are opened for nobody: for `min_pool_size`, and in the place of one that was closed because another host suits better.
//!
//! Always true: only an idle server is closed for that, and none while clients wait or the pool is paused; one login for each is begun, unless
//! a client's login comes first.
//! Not here: which server moves, and where to (`host_choice`, the worker).

use base::Time;

use crate::pool::{Pool, Tables};
use crate::slot::State;
use crate::wanted::Wanted;
use crate::{CloseReason, Command, ServerKey};

impl Pool {
    /// Closes an idle server, in whose place another one is to be opened.
    pub(crate) fn move_server(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        let is_idle = tables.slots.get(server).is_some_and(|slot| slot.state == State::Idle);
        if is_idle && !self.is_closed && !self.is_paused() && self.waiting.is_empty() {
            self.moved += 1;
            self.expire(now, tables, server, CloseReason::Moved, out);
        }
    }

    /// The login that is needed for nobody: for `min_pool_size`, or in the place of a server that has moved.
    pub(crate) fn spare(&self) -> Option<Wanted> {
        match self.is_below_minimum() {
            true => Some(Wanted::Minimum),
            false => (self.moved > 0 && !self.is_closed).then_some(Wanted::Moved),
        }
    }

    pub(crate) fn is_below_minimum(&self) -> bool {
        !self.is_closed && self.servers.shared() - self.outside_size_count() < self.limits.servers_min
    }
}
