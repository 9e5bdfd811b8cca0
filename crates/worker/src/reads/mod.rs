//! Reads that go to replicas (`read_routing`): which requests, to which hosts, and what becomes of a refusal.
//!
//! Always true: a request goes to a replica only if it says so itself or is proven only to read, and only to a host that is known to
//! have replayed all that its client has written; a read that was proven is answered as the primary answers it.
//! Not here: what a text says (`route::reads`), what replicas have replayed (crate `cluster`).

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::Replayed;
use route::ReadsCache;

pub(crate) mod choose;
pub(crate) mod known_names;
pub(crate) mod routing;
pub(crate) mod take_back;
pub(crate) mod withheld;

/// What is known for all clients.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// What texts have said.
    texts: ReadsCache,
    /// What the replicas of each cluster have replayed.
    replayed: BTreeMap<Arc<str>, Arc<[Replayed]>>,
    /// Number of answers about names so far, which tells them apart.
    answers: u64,
}

impl Reads {
    /// The control thread tells what the replicas of a cluster have replayed.
    pub(crate) fn have_replayed(&mut self, cluster: Arc<str>, replicas: Arc<[Replayed]>) {
        self.replayed.insert(cluster, replicas);
    }
}
