//! Cancel requests, for servers of this process and for other processes.
//!
//! Always true: a request hits the query that it is meant for, or none.
//! Not here: cancel requests of our own for servers that are cleaned up (`upstream::cleanup`).

use std::collections::HashMap;

use base::{Key, Slab, WorkerId};
use protocol::cancel::KeyName;

use crate::cancel::tables::{CANCELS_MAX, Cancel, Forwards};

pub(crate) mod aim;
pub(crate) mod answer;
pub(crate) mod peers;
pub(crate) mod requesters;
pub(crate) mod requests;
pub(crate) mod tables;

/// Cancel requests, and the clients' cancel keys.
#[derive(Debug)]
pub(crate) struct Cancels {
    rows: Slab<Cancel>,
    /// Requests for other processes.
    forwards: Forwards,
    /// The client of each key.
    keys: HashMap<KeyName, Key>,
    /// The present workers of clients whose keys name this worker because they were on it in the previous process.
    moved_keys: HashMap<KeyName, WorkerId>,
}

impl Default for Cancels {
    fn default() -> Self {
        let rows = Slab::with_capacity(CANCELS_MAX);
        Self { rows, forwards: Forwards::default(), keys: HashMap::new(), moved_keys: HashMap::new() }
    }
}

impl Cancels {
    /// A client has this key from now on.
    pub(crate) fn give_key(&mut self, name: KeyName, client: Key) {
        self.keys.insert(name, client);
    }

    /// The client of this key has gone.
    pub(crate) fn forget_key(&mut self, name: KeyName) {
        self.keys.remove(&name);
    }

    /// The clients of these keys are now at other workers.
    pub(crate) fn keys_move(&mut self, keys: impl IntoIterator<Item = (KeyName, WorkerId)>) {
        self.moved_keys.extend(keys);
    }

    /// The client of such a key has gone.
    pub(crate) fn forget_moved_key(&mut self, name: KeyName) {
        self.moved_keys.remove(&name);
    }

    /// The key of the request for a server at this place of the table.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        self.rows.key_at(index)
    }

    /// The key of the request for another process at this place of the table.
    pub(crate) fn forward_at(&self, index: u32) -> Option<Key> {
        self.forwards.key_at(index)
    }
}
