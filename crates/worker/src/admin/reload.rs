//! New settings come into force, between two turns.
//!
//! Always true: afterwards everything is as if it had been so from the start, except what is said to need a restart; nobody
//! is let go whom the new settings do not concern.
//! Not here: reading and checking them (`config`, `control::reload`).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::planted::{self, Planted};
use protocol::fault::Fault;
use reactor::Io;

use crate::data::client::Stage;
use crate::data::server::Server;
use crate::letters::Force;
use crate::turn::Worker;

/// What becomes of a database under new settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    /// It is gone, or belongs to another user.
    Removed,
}

impl<I: Io> Worker<I> {
    /// Takes new settings over.
    pub(crate) fn come_into_force(&mut self, force: Arc<Force>) {
        self.io.tune(force.tuning);
        self.io.log_to(force.log.clone());
        let is_demand_new = self.force.tls.demand_parts != force.tls.demand_parts;
        let old = std::mem::replace(&mut self.force, force);
        self.texts.forget_parameters();
        if !planted::is(Planted::RememberedThroughReload) {
            self.remembered.clear();
        }
        self.count_clients_of_users(&old.settings);
        if is_demand_new {
            self.retire_servers();
        }
        let removed: Vec<usize> =
            (0..self.places.databases.len()).filter(|&number| self.renew_database(number) == Fate::Removed).collect();
        self.remove_databases(&removed);
        self.apply_limits();
        self.renew_rates();
        self.places.pool_keys().into_iter().for_each(|pool| self.stand(pool));
        self.close_obsolete_sessions();
        self.end_lonely_listening();
        self.renew_peers();
        self.arm_sweep();
        if self.shutdown.is_none() {
            self.open_forced_pools();
        }
    }

    /// Servers stand on what TLS was before: each is replaced as soon as nobody uses it.
    fn retire_servers(&mut self) {
        for number in 0..self.places.databases.len() as u32 {
            self.retire_servers_of(number);
        }
    }

    fn renew_database(&mut self, number: usize) -> Fate {
        let Some(old) = self.places.databases[number].entry.clone() else { return Fate::Stays };
        let new = self.force.settings.database(&old.name);
        // A database made from `*` is never removed by a file that does not name it, as long as there is a `*`.
        self.places.databases[number].entry = new.clone();
        let Some(new) = new else { return Fate::Removed };
        if old.user != new.user {
            // Its pools are those of another user now.
            return Fate::Removed;
        }
        if new.must_reconnect(&old) {
            self.retire_servers_of(number as u32);
        }
        Fate::Stays
    }

    /// Databases are gone, or their pools are: so are their clients and servers.
    pub(crate) fn remove_databases(&mut self, numbers: &[usize]) {
        if numbers.is_empty() {
            return;
        }
        let pools: BTreeSet<_> = numbers.iter().flat_map(|&number| self.pools_of(number as u32)).collect();
        for key in self.clients.keys() {
            let is_here = match self.clients.get(key).map(|client| &client.stage) {
                Some(Stage::Ready(ready)) => pools.contains(&ready.pool),
                Some(Stage::Login(login)) => login.waits_for().is_some_and(|pool| pools.contains(&pool)),
                _ => false,
            };
            if is_here {
                self.fail_client(key, &Fault::DatabaseRemoved);
                self.settle();
            }
        }
        for &number in numbers {
            self.close_pools_of(number as u32);
        }
    }

    pub(crate) fn pools_of(&self, database: u32) -> Vec<pool::PoolKey> {
        self.places.pools().filter(|(_, place)| place.database == database).map(|(key, _)| key).collect()
    }

    /// Tells all machines the limits that are in force.
    pub(crate) fn apply_limits(&mut self) {
        self.limit_unauthenticated();
        self.limit_process();
        self.library.limit_clients(self.force.settings.max_client_memory as usize);
        self.places.has_idle_timeouts = false;
        let force = self.force.clone();
        let users: Vec<u32> = self.places.users().map(|(number, _)| number).collect();
        for number in users {
            self.places.time_user(number, &force.settings);
            self.limit_user(number);
        }
        for pool in self.places.pool_keys() {
            let Some(place) = self.places.pool(pool) else { continue };
            let (database, user) = (place.database, place.user_name.clone());
            let Some(entry) = self.places.databases[database as usize].entry.clone() else { continue };
            let limit = force.settings.max_db_connections(&entry).unwrap_or(0);
            self.pools.set_database_limit(database, limit);
            let mut limits = force.settings.pool_limits(&entry, &user);
            if self.shutdown.is_some() {
                limits.servers_min = 0;
            }
            let follows = force.settings.follows_state(&entry, &user);
            if let Some(place) = self.places.pool_mut(pool) {
                place.mode = limits.mode;
                place.pin_rules = std::rc::Rc::new(force.settings.pin_rules(&entry, &user));
                let did_follow = std::mem::replace(&mut place.follows, follows);
                if did_follow != follows {
                    self.begin_anew(pool);
                }
            }
            let mut commands = Vec::new();
            self.pools.set_limits(self.now, pool, limits, &mut commands);
            self.queue(commands);
            self.settle();
        }
        let is_kept = |server: &Server| server.client().is_some_and(|client| self.is_marked(client));
        let kept: Vec<_> = self.servers.iter().filter(|(_, server)| is_kept(server)).map(|(key, _)| key).collect();
        kept.into_iter().for_each(|key| self.arm_server(key));
        if self.places.has_idle_timeouts {
            for key in self.clients.keys() {
                self.arm_client(key);
            }
        }
    }
}
