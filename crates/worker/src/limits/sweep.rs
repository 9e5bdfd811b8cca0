//! Forgets what has been unused for long: pools, and databases made from `*`.
//!
//! Always true: nothing refers to a database that is forgotten; one sweep forgets a bounded number of databases, and
//! the next one follows soon if more are left. The known databases made from `*` are at most those in use,
//! [`AUTOMATIC_MAX`] others, and those made since the last sweep.
//! Not here: users (`users`).

use std::collections::BTreeSet;
use std::time::Duration;

use pool::{CloseReason, PoolKey};
use reactor::{Io, Level};

use crate::deadlines::SWEEP_PERIOD;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    pub(crate) fn sweep(&mut self) {
        self.registry.arms_sweep(false);
        self.sweep_pools();
        let is_more = self.sweep_databases();
        self.arm_sweep_in(if is_more { NEXT_AFTER } else { SWEEP_PERIOD });
    }

    /// Forgets databases made from `*`: those unused for `autodb_idle_timeout`, those that do not exist after
    /// `server_login_retry`, and unused ones while there are too many. Returns whether more are left to forget.
    fn sweep_databases(&mut self) -> bool {
        let databases = self.registry.databases();
        let mut excess = databases.filter(|(_, place)| place.is_automatic()).count().saturating_sub(AUTOMATIC_MAX);
        let of_clients = self.pools_of_clients().filter_map(|pool| Some(self.registry.pool(pool)?.database));
        let mut used: BTreeSet<u32> =
            of_clients.chain(self.servers.iter().map(|(_, server)| server.database())).collect();
        // What is derived from a line counts under its number.
        let lines = |number: &u32| self.registry.known_database(self.registry.line_name(*number));
        used.extend(used.iter().filter_map(lines).collect::<Vec<_>>());
        let (idle_limit, retry) =
            (self.hands.active.settings.autodb_idle_timeout, self.hands.active.settings.server_login_retry);
        let mut forgotten = Vec::new();
        for (number, place) in self.registry.databases_mut() {
            if !place.is_automatic() {
                continue;
            }
            if place.clients > 0 || used.contains(&number) {
                place.unused_since = None;
                continue;
            }
            let age = self.hands.now.since(*place.unused_since.get_or_insert(self.hands.now));
            let is_due = idle_limit.is_some_and(|limit| age >= limit) || place.is_missing && age >= retry;
            if (is_due || excess > 0) && forgotten.len() <= FORGOTTEN_MAX {
                excess = excess.saturating_sub(1);
                forgotten.push(number);
            }
        }
        let is_more = forgotten.len() > FORGOTTEN_MAX;
        for &number in forgotten.iter().take(FORGOTTEN_MAX) {
            let name = &self.registry.database_at(number).name;
            self.hands.log.add(
                Level::Log,
                format_args!("dropping database '{name}' as it does not exist anymore or inactive auto-database"),
            );
            self.close_pools_of(number, CloseReason::DatabaseRemoved);
            self.registry.forget_database(number);
        }
        is_more
    }

    /// Forgets pools that have had no clients and servers for `pool_idle_timeout`, except those with `min_pool_size`.
    fn sweep_pools(&mut self) {
        let Some(limit) = self.hands.active.settings.pool_idle_timeout else { return };
        let of_servers = self.servers.iter().map(|(_, server)| server.pool());
        let used: BTreeSet<_> = self.pools_of_clients().chain(of_servers).collect();
        for pool in self.registry.pool_keys() {
            let has_minimum = self.pools.limits(pool).is_some_and(|limits| limits.servers_min > 0);
            let Some(place) = self.registry.pool_mut(pool) else { continue };
            if has_minimum || used.contains(&pool) {
                place.unused_since = None;
                continue;
            }
            let age = self.hands.now.since(*place.unused_since.get_or_insert(self.hands.now));
            if age >= limit {
                let (user, database) = (place.user_name.clone(), place.database_name.clone());
                let secs = age.as_secs();
                self.hands.log.add(
                    Level::Log,
                    format_args!(
                        "cleaning up idle pool for user {user} on db {database} because: pool idle timeout (age= {secs}s)"
                    ),
                );
                self.close_pool(pool, CloseReason::DatabaseRemoved);
            }
        }
    }

    /// The pools of each client that has one, including the control thread's connections, which are not counted elsewhere.
    fn pools_of_clients(&self) -> impl Iterator<Item = PoolKey> {
        let of_reads = self.clients.iter().filter_map(|(_, client)| Some(client.ready()?.home()));
        self.clients.iter().filter_map(|(_, client)| client.pool()).chain(of_reads)
    }

    /// Closes the pools of a database: waiting clients get an error, servers are closed.
    pub(crate) fn close_pools_of(&mut self, database: u32, why: CloseReason) {
        self.registry.pools_of(database).into_iter().for_each(|key| self.close_pool(key, why));
    }

    fn close_pool(&mut self, key: PoolKey, why: CloseReason) {
        self.with_pools(|pools, now, wanted| pools.close(now, key, why, wanted));
        self.settle();
        self.registry.remove_pool(key);
    }
}

/// At most this many databases are forgotten in one sweep,
const FORGOTTEN_MAX: usize = 200;
/// and the next sweep follows after this time if more are left.
const NEXT_AFTER: Duration = Duration::from_millis(10);
/// Unused databases made from `*` are forgotten early while a worker knows more databases made from `*` than this.
const AUTOMATIC_MAX: usize = 5000;
