//! The one server of a pool that does not count against its size, because it listens for all clients of the database.
//!
//! Always true: the server is lent; as soon as it is returned, closed or lost it counts again.
//! Not here: its use (`worker::notify::listen`).

use crate::ServerKey;
use crate::pool::{Pool, Tables};
use crate::slot::State;

impl Pool {
    /// Excludes a lent server from the size of the pool, until its loan ends.
    pub(crate) fn take_outside_size(&mut self, tables: &Tables, server: ServerKey) {
        if tables.slots.get(server).is_some_and(|slot| slot.state == State::Lent) {
            self.outside_size = Some(server);
        }
    }

    /// Includes a server in the size of the pool again.
    pub(crate) fn count_again(&mut self, server: ServerKey) {
        self.outside_size = self.outside_size.filter(|aside| *aside != server);
    }

    /// How many servers are outside the size: 0 or 1.
    pub(crate) fn outside_size_count(&self) -> u32 {
        u32::from(self.outside_size.is_some())
    }
}
