//! The tokens that prove to an etcd who we are.
//!
//! Always true: there is one for each cluster, and it is of the login that its line names now.
//! Not here: the login (`etcd`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::Cluster;

/// The tokens, by clusters, with the lines whose logins they are of.
#[derive(Clone, Default)]
pub(crate) struct Tokens(Arc<Mutex<Known>>);

type Known = BTreeMap<Arc<str>, (Arc<Cluster>, Arc<str>)>;

impl Tokens {
    /// The token for a cluster.
    pub(super) fn of(&self, cluster: &Arc<Cluster>) -> Option<Arc<str>> {
        let known = self.lock();
        let (line, token) = known.get(&cluster.name)?;
        (line.etcd == cluster.etcd).then(|| Arc::clone(token))
    }

    pub(super) fn know(&self, cluster: &Arc<Cluster>, token: &str) {
        self.lock().insert(Arc::clone(&cluster.name), (Arc::clone(cluster), token.into()));
    }

    pub(super) fn forget(&self, cluster: &Arc<Cluster>) {
        self.lock().remove(&cluster.name);
    }

    /// Forgets those of other clusters than these.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.lock().retain(|name, _| is_there(name));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}
