//! Divides what another process has handed over among the workers of this one.
//!
//! Always true: every client and server comes to the home worker of its database, with all that belongs to it.
//! Not here: how it came to this process (`control`), how it is unpacked (`import`).

use std::collections::BTreeMap;
use std::sync::Arc;

use base::WorkerId;
use config::Homes;

use crate::handover::parcel::{Export, Imports, Pair};

/// Everything that another process has handed over.
#[derive(Debug)]
pub struct Import<S> {
    export: Export,
    pairs: Vec<(Pair, Vec<S>)>,
}

impl<S> Import<S> {
    /// Adds a part. Its sockets come in the order of its pairs, each client's before its server's; `socket` makes the
    /// next one and is told whether it is a unix socket.
    pub fn add(&mut self, part: Export, mut socket: impl FnMut(bool) -> Option<S>) {
        for pair in part.pairs {
            let sockets = pair.are_unix().filter_map(&mut socket).collect();
            self.pairs.push((pair, sockets));
        }
        self.export.pools.extend(part.pools);
        self.export.statements.extend(part.statements);
    }

    /// The numbers of clients and servers.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let clients = self.pairs.iter().filter(|(pair, _)| pair.client.is_some()).count();
        let servers = self.pairs.iter().filter(|(pair, _)| pair.server.is_some()).count();
        (clients, servers)
    }

    /// Divides everything into one share for each worker.
    #[must_use]
    pub fn share_out(self, homes: &Homes) -> Vec<Imports<S>> {
        let workers = usize::from(homes.workers());
        let statements = self.export.statements.into_iter().map(|packed| (packed.id, packed));
        let statements: Arc<BTreeMap<_, _>> = Arc::new(statements.collect());
        let nothing = |_| {
            let statements = Arc::clone(&statements);
            Imports { pools: Vec::new(), statements, pairs: Vec::new(), moved_keys: Vec::new() }
        };
        let mut shares: Vec<Imports<S>> = (0..workers).map(nothing).collect();
        for pool in self.export.pools {
            shares[usize::from(homes.home_of(&pool.name.database).0)].pools.push(pool);
        }
        for (number, (pair, sockets)) in self.pairs.into_iter().enumerate() {
            let anybody = WorkerId((number % workers) as u8);
            let home = pair.database().map_or(anybody, |database| homes.home_of(database));
            if let Some(name) = pair.client.as_ref().and_then(|client| client.key_name()) {
                let named = usize::from(name.worker().0) % workers;
                if named != usize::from(home.0) {
                    shares[named].moved_keys.push((name, home));
                }
            }
            shares[usize::from(home.0)].pairs.push((pair, sockets));
        }
        shares
    }
}

impl<S> Default for Import<S> {
    fn default() -> Self {
        Self { export: Export::default(), pairs: Vec::new() }
    }
}
