//! The one server of a pool that does not count against its size: what it does it does for all clients.
//!
//! Always true: it is lent; as soon as it comes back, closes or is lost it counts again.
//! Not here: who is lent it (`worker::notify::listen`).

use crate::ServerKey;
use crate::pool::{Pool, Tables};
use crate::slot::State;

impl Pool {
    /// A lent server is not one of those that the pool may have, as long as it is lent.
    pub(crate) fn take_outside_size(&mut self, tables: &Tables, server: ServerKey) {
        if tables.slots.get(server).is_some_and(|slot| slot.state == State::Lent) {
            self.outside_size = Some(server);
        }
    }

    /// A server is not set aside any more.
    pub(crate) fn count_again(&mut self, server: ServerKey) {
        self.outside_size = self.outside_size.filter(|aside| *aside != server);
    }

    /// How many servers are set aside.
    pub(crate) fn outside_size_count(&self) -> u32 {
        u32::from(self.outside_size.is_some())
    }
}
