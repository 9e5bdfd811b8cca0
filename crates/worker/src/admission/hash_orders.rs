//! Orders hashes from the threads beside the workers, and cancels such orders.
//!
//! Always true: a client that leaves gives up its order; the next client that waited for the same hash takes it over.
//! Not here: what the hashes are for (`hashing`).

use auth::Derivation;
use base::{Key, Origin};
use pool::ServerKey;
use reactor::{Address, Io};

use crate::admission::questions::{HashAsker, HashQuestion};
use crate::letters::ToControl;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    pub(crate) fn hash_for_client(&mut self, key: Key, derivation: Derivation) {
        let Some(client) = self.clients.get(key) else { return };
        let (asker, origin) = (HashAsker::Client(key), client.peer.origin());
        (self.posts.control)(ToControl::Hash(HashQuestion { from: self.id, asker, origin, derivation }));
    }

    /// Has a password hashed that a server asks for.
    pub(crate) fn hash_for_server(&mut self, key: ServerKey, derivation: Derivation) {
        let Some(server) = self.servers.get(key) else { return };
        let (asker, origin) =
            (HashAsker::Server(key), server.address.as_ref().map_or(Origin::LocalServers, Address::origin));
        (self.posts.control)(ToControl::Hash(HashQuestion { from: self.id, asker, origin, derivation }));
    }

    /// A client that waited for a hash has gone.
    pub(crate) fn hash_unneeded(&mut self, key: Key, of_user: Option<u32>) {
        let mut next = None;
        if let Some(under_way) = of_user.map(|user| &mut self.registry.users[user as usize].hashing)
            && let Some(hashing) = under_way
        {
            if hashing.waiting.remove(&key) {
                return;
            }
            if hashing.asker == key {
                next = hashing.waiting.pop_first().map(|next| (next, hashing.derivation.clone()));
                match &next {
                    Some((next, _)) => hashing.asker = *next,
                    None => *under_way = None,
                }
            }
        }
        (self.posts.control)(ToControl::HashUnneeded { from: self.id, asker: HashAsker::Client(key) });
        if let Some((next, derivation)) = next {
            // It waited for the order of another client, and may come from another address.
            self.hash_for_client(next, derivation);
        }
    }
}
