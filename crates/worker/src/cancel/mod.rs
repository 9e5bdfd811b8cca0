//! Cancel requests of clients, for servers of this process and for other processes, and those of our own.
//!
//! Always true: a request hits the query that it is meant for, or none.
//! Not here: when a server that is cleaned up needs one (`upstream::begin_cleanup`).

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
    pub(crate) rows: Slab<Cancel>,
    /// Requests for other processes.
    pub(crate) forwards: Forwards,
    /// The client of each key.
    pub(crate) keys: HashMap<KeyName, Key>,
    /// The present workers of clients whose keys name this worker because they were on it in the previous process.
    pub(crate) moved_keys: HashMap<KeyName, WorkerId>,
}

impl Default for Cancels {
    fn default() -> Self {
        let rows = Slab::with_capacity(CANCELS_MAX);
        Self { rows, forwards: Forwards::default(), keys: HashMap::new(), moved_keys: HashMap::new() }
    }
}
