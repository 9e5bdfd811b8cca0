//! What the TLS of Patroni's interfaces and of etcd demands.
//!
//! Always true: a file of authorities is read once for each line of a cluster in force, so a RELOAD reads it again; what cannot be used is tried
//! again with the next question.
//! Not here: reading such a file (`http_client`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::{Cluster, Endpoint};
use tokio::task::spawn_blocking;
use tokio_rustls::rustls::ClientConfig;

use crate::http_client::demand;

/// The demands, by clusters and by the settings that name their files, with the lines that they are of.
#[derive(Clone, Default)]
pub(crate) struct Authorities(Arc<Mutex<Known>>);

type Known = BTreeMap<(Arc<str>, &'static str), (Arc<Cluster>, Arc<ClientConfig>)>;

impl Authorities {
    /// What a server has to prove; `None` without TLS. `setting` names the file in an error.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(super) async fn demand(
        &self,
        cluster: &Arc<Cluster>,
        endpoint: &Endpoint,
        setting: &'static str,
        ca_file: Option<&Arc<str>>,
    ) -> Result<Option<Arc<ClientConfig>>, String> {
        if !endpoint.is_tls {
            return Ok(None);
        }
        let key = (Arc::clone(&cluster.name), setting);
        if let Some((line, demand)) = self.lock().get(&key)
            && Arc::ptr_eq(line, cluster)
        {
            return Ok(Some(Arc::clone(demand)));
        }
        let (endpoint, ca_file) = (endpoint.clone(), ca_file.cloned());
        let read = spawn_blocking(move || demand(&endpoint, setting, ca_file.as_deref()));
        let read = read.await.map_err(|error| error.to_string())??;
        if let Some(demand) = &read {
            self.lock().insert(key, (Arc::clone(cluster), Arc::clone(demand)));
        }
        Ok(read)
    }

    /// Forgets those of other clusters than these.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.lock().retain(|(name, _), _| is_there(name));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}
