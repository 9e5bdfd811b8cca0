//! Cancel requests of clients, for servers of this process and for other processes, and those of our own.
//!
//! Always true: a request hits the query that it is meant for, or none.
//! Not here: when a server that is cleaned up needs one (`upstream::cleanup`).

use std::collections::HashMap;

use base::{Key, Slab, WorkerId};
use pool::{PoolKey, ServerKey};
use protocol::cancel::KeyName;

use crate::cancel::tables::{CANCELS_MAX, Cancel, Forwards};

pub(crate) mod aim;
pub(crate) mod peers;
pub(crate) mod requests;
mod rows;
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

impl Cancels {
    /// The cancel request to a server at this index.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        self.rows.key_at(index)
    }

    /// The cancel request to another process at this index.
    pub(crate) fn forward_key_at(&self, index: u32) -> Option<Key> {
        self.forwards.rows.key_at(index)
    }

    /// Whether a cancel request is on its way to a server.
    pub(crate) fn is_aimed_at(&self, server: ServerKey) -> bool {
        self.rows.iter().any(|(_, cancel)| cancel.server == server)
    }

    /// The cancel requests that are on their way to servers of a pool.
    pub(crate) fn count(&self, pool: PoolKey) -> u32 {
        // Each row of SHOW POOLS asks this, and after a burst of requests the empty table has many places.
        if self.rows.is_empty() {
            return 0;
        }
        self.rows.iter().filter(|(_, cancel)| cancel.pool == pool).count() as u32
    }

    /// The server that a cancel request is for.
    pub(crate) fn server_of(&self, key: Key) -> Option<ServerKey> {
        Some(self.rows.get(key)?.server)
    }

    /// The client of a key with this name. The rest of its key may differ.
    pub(crate) fn client_of(&self, name: KeyName) -> Option<Key> {
        self.keys.get(&name).copied()
    }

    /// From now on this is the key of a client.
    pub(crate) fn give(&mut self, name: KeyName, client: Key) {
        self.keys.insert(name, client);
    }

    /// Takes over where the clients are whose keys name this worker.
    pub(crate) fn take_over(&mut self, moved: impl IntoIterator<Item = (KeyName, WorkerId)>) {
        self.moved_keys.extend(moved);
    }

    /// The client of this key, which is on another worker, has gone.
    pub(crate) fn retire_moved(&mut self, name: &KeyName) {
        self.moved_keys.remove(name);
    }
}

impl Default for Cancels {
    fn default() -> Self {
        let rows = Slab::with_capacity(CANCELS_MAX);
        Self { rows, forwards: Forwards::default(), keys: HashMap::new(), moved_keys: HashMap::new() }
    }
}
