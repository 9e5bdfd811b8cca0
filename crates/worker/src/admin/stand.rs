//! Pauses and resumes pools as ordered.
//!
//! Always true: the pool machine is told once for each change.
//! Not here: what a pause means to a pool (crate `pool`).

use pool::{CloseReason, Event, PoolKey};
use reactor::Io;

use crate::registry::PoolPlace;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a pool is to be paused.
    pub(crate) fn is_pause_ordered(&self, pool: PoolKey) -> bool {
        let is_database_paused = |place: &PoolPlace| self.active.standing.pauses(&place.database_name);
        self.admin.is_ending_servers() || self.registry.pool(pool).is_some_and(is_database_paused)
    }

    /// Pauses or resumes a pool as it is ordered now.
    pub(crate) fn stand(&mut self, pool: PoolKey) {
        let is_paused = self.is_pause_ordered(pool);
        let Some(place) = self.registry.pool_mut(pool) else { return };
        if std::mem::replace(&mut place.is_paused, is_paused) != is_paused {
            let database = place.database;
            let is_killed = self.active.standing.killed.contains(&place.database_name);
            let why = if is_killed { CloseReason::Killed } else { CloseReason::PauseMode };
            self.tell_pools(if is_paused { Event::Pause { pool, why } } else { Event::Resume { pool } });
            if is_paused {
                self.renew_listener(database);
            }
        }
    }
}
