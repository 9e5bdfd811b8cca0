//! A pool pauses or goes on, as it is ordered now.
//!
//! Always true: its machine is told once.
//! Not here: what a pause means to a pool (crate `pool`).

use pool::{Event, PoolKey};
use reactor::Io;

use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Has a pool pause or go on, as it is ordered now.
    pub(crate) fn stand(&mut self, pool: PoolKey) {
        let is_ending = self.admin.is_ending_servers();
        let Some(place) = self.places.pool_mut(pool) else { return };
        let is_paused = is_ending || self.force.standing.pauses(&place.database_name);
        if std::mem::replace(&mut place.is_paused, is_paused) != is_paused {
            let database = place.database;
            self.tell_pools(if is_paused { Event::Pause { pool } } else { Event::Resume { pool } });
            if is_paused {
                self.renew_listener(database);
            }
        }
    }
}
