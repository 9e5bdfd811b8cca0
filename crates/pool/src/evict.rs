//! When a login that needs the place of another pool's server pays.
//!
//! Always true: a pool has at most one server evicted for it before it has logged in, and never one of a pool in which
//! clients wait. A pool that has servers of its own lets its clients wait for these first, for as long as two logins take.
//! The last server of a pool goes only to a pool without servers, or after nobody has missed it for [`UNMISSED`], or to a
//! client that has waited for as long.
//! Not here: who gets the room (`share`), servers of busy pools for starving ones (`share::choose_who_yields`).

use std::time::Duration;

use base::Time;

use crate::pool::{Pool, first_since};
use crate::pools::Pools;
use crate::slot::State;
use crate::{Command, PoolKey};

impl Pools {
    /// Evicts idle servers for the clients that wait for room in this database, as far as that pays now, and has the pools for
    /// which it will pay later looked at then.
    pub(crate) fn evict_for_database(&mut self, now: Time, number: u32, out: &mut Vec<Command>) {
        let database = self.quotas.database(number);
        if database.line.clients() == 0 {
            return;
        }
        let hungry = database.line.with_clients();
        let staying = database.pools.iter().filter_map(|key| self.pools.get(*key)).map(|pool| pool.servers.staying());
        // Room that is there once the servers that are being closed are closed.
        let mut coming = database.servers_max.saturating_sub(staying.sum());
        let (bare, served): (Vec<_>, Vec<_>) = hungry.into_iter().partition(|key| self.is_bare(*key));
        for key in bare {
            let is_dialing = self.pools.get(key).is_some_and(Pool::is_dialing);
            if coming > 0 {
                coming -= u32::from(!is_dialing);
            } else if !is_dialing && !self.evict_for(now, key, number, out) {
                return;
            }
        }
        if coming > 0 {
            return;
        }
        for key in served {
            if !self.pools.get(key).is_some_and(Pool::is_dialing) && self.evict_for(now, key, number, out) {
                return;
            }
        }
    }

    /// Whether clients wait in a pool for what no server of its own will give them.
    pub(crate) fn is_bare(&self, key: PoolKey) -> bool {
        self.pools.get(key).is_some_and(Pool::is_bare)
    }

    /// Evicts the server that is missed least for this pool, if that pays. Returns whether it did.
    fn evict_for(&mut self, now: Time, key: PoolKey, number: u32, out: &mut Vec<Command>) -> bool {
        let Some(pool) = self.pools.get(key) else { return false };
        let Some(since) = first_since([&pool.waiting, &pool.greeting, &pool.dedicated], &self.tables) else {
            return false;
        };
        let is_bare = pool.is_bare();
        // A server that has just logged in has to show first that it is not enough.
        let waits_from = if is_bare { since } else { since.max(pool.logged_in_at) };
        let patience_ends = waits_from + pool.patience();
        let others = self.quotas.database(number).pools.iter().filter_map(|key| self.pools.get(*key));
        let candidates = others.filter(|other| other.may_be_evicted()).filter_map(|other| {
            let idle_since = other.idle_since(&self.tables)?;
            let unmissed_from = idle_since + UNMISSED;
            let pays_from = match (is_bare, other.has_spare()) {
                (true, true) => now,
                (false, true) => patience_ends,
                (true, false) => patience_ends.min(unmissed_from),
                // Its own servers may be lent for long, so it does not wait for ever for one that is used now and then.
                (false, false) => patience_ends.max(unmissed_from.min(waits_from + UNMISSED)),
            };
            // Of several that pay now, the spare one goes first, then the one that has been idle longest.
            Some((pays_from.max(now), !other.has_spare(), idle_since, other.key))
        });
        let Some((pays_from, _, _, victim)) = candidates.min() else { return false };
        if pays_from > now {
            self.look_at(pays_from, key);
            return false;
        }
        self.with(victim, |pool, tables| pool.evict(now, tables, out));
        true
    }
}

impl Pool {
    /// Whether no server of the pool will serve the first of its waiting clients.
    fn is_bare(&self) -> bool {
        let own = self.servers.usable() - self.outside_size_count();
        !self.dedicated.is_empty() || own == 0 && !(self.waiting.is_empty() && self.greeting.is_empty())
    }

    fn is_dialing(&self) -> bool {
        self.servers.count(State::Dialing) + self.servers.count(State::Dedicating) > 0
    }

    /// Whether the pool keeps a server when one is evicted.
    fn has_spare(&self) -> bool {
        self.servers.usable() - self.outside_size_count() > 1
    }

    /// How long a client waits before a server that others may miss is evicted for it.
    fn patience(&self) -> Duration {
        (self.login_took * 2).clamp(PATIENCE_MIN, PATIENCE_MAX)
    }
}

/// A server that has been idle for this long is surplus, whatever pool it is in.
const UNMISSED: Duration = Duration::from_secs(1);
/// The shortest patience: a login rarely takes less than a tenth of it, and the server that is closed for it would have to
/// be opened again.
const PATIENCE_MIN: Duration = Duration::from_millis(50);
/// The longest patience, well below the second after which a pool without servers starves.
const PATIENCE_MAX: Duration = Duration::from_millis(500);
