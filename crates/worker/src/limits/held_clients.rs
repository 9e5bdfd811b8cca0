//! How many clients are held while the primary of a database changes, and how much they have sent (`hold_clients_max`,
//! `hold_bytes_max` of a cluster).
//!
//! Always true: a client counts from when it begins to wait in a held database until it no longer waits, or the hold ends; what
//! it has sent is charged to it alone. Who comes beyond a limit is refused at once, and those who are held stay.
//! Not here: when clients are held (`admin::standing`), how much of one client is read while it waits (`data::hear`).

use std::collections::BTreeMap;

use base::Key;
use pool::CloseReason;
use protocol::fault::Fault;
use reactor::Io;

use crate::worker::Worker;

/// The clients that are held.
#[derive(Debug, Default)]
pub(super) struct HeldClients {
    /// The database of each, and how many bytes of it wait.
    clients: BTreeMap<Key, (u32, usize)>,
    databases: BTreeMap<u32, Sum>,
    refused: u64,
}

/// What is held in one database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    clients: usize,
    bytes: usize,
}

/// What may be held in one database; `None` is without limit.
#[derive(Clone, Copy, Debug)]
struct Most {
    clients: Option<u32>,
    bytes: Option<u32>,
}

impl HeldClients {
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// How many clients were refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Charges so many bytes to a client of a database, instead of what was charged before.
    ///
    /// # Errors
    /// The setting by which the client cannot be held.
    fn charge(&mut self, client: Key, database: u32, bytes: usize, most: Most) -> Result<(), &'static str> {
        self.forget(client);
        let sum = self.databases.entry(database).or_default();
        let new = Sum { clients: sum.clients + 1, bytes: sum.bytes + bytes };
        let is_over = |count: usize, max: Option<u32>| max.is_some_and(|max| count > max as usize);
        let wrong = match new {
            Sum { clients, .. } if is_over(clients, most.clients) => Some("hold_clients_max"),
            Sum { bytes, .. } if is_over(bytes, most.bytes) => Some("hold_bytes_max"),
            _ => None,
        };
        if let Some(setting) = wrong {
            self.refused += 1;
            return Err(setting);
        }
        *sum = new;
        self.clients.insert(client, (database, bytes));
        Ok(())
    }

    /// A client no longer waits.
    pub(super) fn forget(&mut self, client: Key) {
        let Some((database, bytes)) = self.clients.remove(&client) else { return };
        if let Some(sum) = self.databases.get_mut(&database) {
            *sum = Sum { clients: sum.clients - 1, bytes: sum.bytes - bytes };
        }
    }

    /// The clients of a database are not held any more.
    pub(super) fn release(&mut self, database: u32) {
        if self.databases.remove(&database).is_some() {
            self.clients.retain(|_, (held, _)| *held != database);
        }
    }
}

impl<I: Io> Worker<I> {
    /// Charges what a client has sent to it if it waits in a held database, or refuses the client.
    #[cold]
    pub(crate) fn charge_hold(&mut self, key: Key) {
        let Some(client) = self.clients.get(key).filter(|client| !client.is_own) else { return };
        let Some(ready) = client.ready().filter(|ready| ready.link().waits_since().is_some()) else { return };
        let Some(place) = self.registry.pool(ready.pool()).filter(|place| place.paused == Some(CloseReason::Held))
        else {
            return;
        };
        let (pool, database) = (ready.pool(), place.database);
        let bytes = ready.held().map_or(0, |held| held.len());
        let cluster = self.registry.entry_of(pool).and_then(|entry| entry.cluster.as_ref());
        let Some(cluster) = cluster.and_then(|name| self.hands.active.settings.clusters.get(name)) else { return };
        let most = Most { clients: cluster.hold_clients_max, bytes: cluster.hold_bytes_max };
        if let Err(setting) = self.limits.held.charge(key, database, bytes, most) {
            let fault = Fault::HoldFull { setting };
            self.fails_to_serve(pool, &fault.text());
            self.fail_client(key, &fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> Key {
        Key { index, ..Key::NOWHERE }
    }

    #[test]
    fn each_database_holds_so_many_clients_and_bytes() {
        let most = Most { clients: Some(2), bytes: Some(100) };
        let mut held = HeldClients::default();
        assert_eq!(held.charge(key(1), 7, 60, most), Ok(()));
        assert_eq!(held.charge(key(2), 7, 50, most), Err("hold_bytes_max"));
        assert_eq!(held.charge(key(2), 7, 40, most), Ok(()));
        assert_eq!(held.charge(key(3), 7, 0, most), Err("hold_clients_max"));
        assert_eq!(held.charge(key(3), 8, 100, most), Ok(()), "another database");
        // Who is held and sends more is charged for it, and goes if that is too much.
        assert_eq!(held.charge(key(1), 7, 61, most), Err("hold_bytes_max"));
        assert_eq!(held.charge(key(4), 7, 60, most), Ok(()), "in its place");
        held.forget(key(4));
        held.forget(key(4));
        assert_eq!(held.charge(key(5), 7, 60, most), Ok(()));
        held.release(7);
        assert_eq!((held.clients.len(), held.refused()), (1, 3));
        held.forget(key(5));
        held.release(8);
        assert!(held.is_empty() && held.databases.is_empty());
    }

    #[test]
    fn without_limits_all_are_held() {
        let mut held = HeldClients::default();
        let all = Most { clients: None, bytes: None };
        assert!((0..100).all(|number| held.charge(key(number), 1, usize::MAX >> 8, all).is_ok()));
    }
}
