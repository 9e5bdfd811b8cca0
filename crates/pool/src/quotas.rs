//! What the pools of one worker compete for: servers of a database, servers of a user.
//!
//! Always true: a pool that needs a server stands in one line at most, and lines are first come first served. A place in
//! line is for one server; a pool that needs another one joins again at the end, so that no pool starves the others.
//! Not here: how pools join and leave the lines (`share`), limits that span workers (`ledger`).

use std::collections::{BTreeMap, BTreeSet};

use crate::{Need, PoolKey};

/// The line in which a pool waits for another server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Demand {
    /// Nowhere.
    #[default]
    None,
    /// In line for a grant of the ledger for its user.
    Grant(Place),
    /// In line for room in its database, with a grant if one is needed. The grant comes first, because it may take long, and
    /// other pools of the database should not have to wait for it.
    Room { place: Place, is_granted: bool },
}

impl Demand {
    /// The place in the line, if the pool stands in one.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            Self::None => None,
            Self::Grant(place) | Self::Room { place, .. } => Some(place),
        }
    }

    /// Whether the pool holds a grant, which must be used or given back.
    pub(crate) fn has_grant(self) -> bool {
        matches!(self, Self::Room { is_granted: true, .. })
    }
}

/// A place in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    ticket: u64,
    pub(crate) need: Need,
}

/// Pools in the order in which they joined, those with waiting clients before those below `min_pool_size`.
#[derive(Debug, Default)]
pub(crate) struct Line {
    clients: BTreeMap<u64, PoolKey>,
    minimums: BTreeMap<u64, PoolKey>,
}

impl Line {
    /// Adds a pool. Tickets must increase over time.
    pub(crate) fn join(&mut self, pool: PoolKey, ticket: u64, need: Need) -> Place {
        self.side_mut(need).insert(ticket, pool);
        Place { ticket, need }
    }

    /// Removes a pool.
    pub(crate) fn leave(&mut self, place: Place) {
        self.side_mut(place.need).remove(&place.ticket);
    }

    /// The next pool and its need.
    pub(crate) fn first(&self) -> Option<(PoolKey, Need)> {
        let client = self.clients.first_key_value().map(|(_, pool)| (*pool, Need::Client));
        client.or_else(|| self.minimums.first_key_value().map(|(_, pool)| (*pool, Need::Minimum)))
    }

    /// The next pool below its minimum.
    pub(crate) fn first_minimum(&self) -> Option<PoolKey> {
        self.minimums.first_key_value().map(|(_, pool)| *pool)
    }

    /// How many pools with waiting clients stand in line.
    pub(crate) fn clients(&self) -> u32 {
        self.clients.len() as u32
    }

    /// All pools in line, in order.
    pub(crate) fn pools(&self) -> Vec<PoolKey> {
        self.clients.values().chain(self.minimums.values()).copied().collect()
    }

    /// The pools with waiting clients, in order.
    pub(crate) fn with_clients(&self) -> Vec<PoolKey> {
        self.clients.values().copied().collect()
    }

    /// Whether the line is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.minimums.is_empty()
    }

    fn side_mut(&mut self, need: Need) -> &mut BTreeMap<u64, PoolKey> {
        match need {
            Need::Client => &mut self.clients,
            Need::Minimum => &mut self.minimums,
        }
    }
}

/// The pools of one database.
#[derive(Debug, Default)]
pub(crate) struct Database {
    /// Servers of all its pools together; 0 is unlimited.
    pub(crate) servers_max: u32,
    pub(crate) pools: BTreeSet<PoolKey>,
    pub(crate) line: Line,
    /// Whether one of the pools has to give up a server.
    pub(crate) has_to_yield: bool,
}

/// The pools of one user.
#[derive(Debug, Default)]
pub(crate) struct User {
    /// Whether a login needs a grant of the ledger.
    pub(crate) is_limited: bool,
    pub(crate) pools: BTreeSet<PoolKey>,
    pub(crate) line: Line,
    /// How many asks of [`Need::Client`] are unanswered.
    pub(crate) asked: u32,
    /// Whether an ask of [`Need::Minimum`] is unanswered.
    pub(crate) is_minimum_asked: bool,
    /// Whether there may be servers without a grant, opened before the limit was set. Grants for them are asked for like
    /// those for new servers, and are used for them first.
    pub(crate) is_in_arrears: bool,
    /// Whether an idle server is to be closed for a worker in the ledger's line.
    pub(crate) owes_one: bool,
}

impl User {
    /// Whether nothing has to be asked for or withdrawn.
    pub(crate) fn is_calm(&self) -> bool {
        self.line.is_empty() && self.asked == 0 && !self.is_in_arrears
    }
}

/// All databases and users.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    // Both tables are indexed by the caller's small numbers.
    databases: Vec<Database>,
    users: Vec<User>,
    tickets: u64,
}

impl Quotas {
    /// Adds a new pool.
    pub(crate) fn open(&mut self, pool: PoolKey, database: u32, user: u32) {
        self.database(database).pools.insert(pool);
        self.user(user).pools.insert(pool);
    }

    /// Forgets a pool, which must not stand in a line.
    pub(crate) fn forget(&mut self, pool: PoolKey, database: u32, user: u32) {
        self.database(database).pools.remove(&pool);
        self.user(user).pools.remove(&pool);
    }

    /// Forgets a user if no pool and no unanswered ask refers to it, and returns whether it did.
    pub(crate) fn forget_user(&mut self, number: u32) -> bool {
        let Some(user) = self.users.get_mut(number as usize) else { return true };
        let is_unused = user.pools.is_empty() && user.asked == 0 && !user.is_minimum_asked;
        if is_unused {
            *user = User::default();
        }
        is_unused
    }

    /// Puts a pool in the line of its user.
    pub(crate) fn queue_for_grant(&mut self, pool: PoolKey, user: u32, need: Need) -> Place {
        let ticket = self.ticket();
        self.user(user).line.join(pool, ticket, need)
    }

    /// Puts a pool in the line of its database.
    pub(crate) fn queue_for_room(&mut self, pool: PoolKey, database: u32, need: Need) -> Place {
        let ticket = self.ticket();
        self.database(database).line.join(pool, ticket, need)
    }

    /// The pools other than `pool` that have waiting clients and stand in the line of the database or the user.
    pub(crate) fn beside(&self, pool: PoolKey, database: u32, user: u32) -> impl Iterator<Item = PoolKey> {
        let of_database = self.databases.get(database as usize).map(|database| &database.line);
        let of_user = self.users.get(user as usize).map(|user| &user.line);
        let lines = of_database.into_iter().chain(of_user);
        lines.flat_map(|line| line.clients.values()).copied().filter(move |other| *other != pool)
    }

    pub(crate) fn database(&mut self, number: u32) -> &mut Database {
        row(&mut self.databases, number)
    }

    pub(crate) fn user(&mut self, number: u32) -> &mut User {
        row(&mut self.users, number)
    }

    /// Whether no pool of this database or of this user waits for a server, or has to give one up.
    pub(crate) fn are_calm(&self, database: u32, user: u32) -> bool {
        let database = self.databases.get(database as usize);
        let user = self.users.get(user as usize);
        database.is_some_and(|database| database.line.is_empty() && !database.has_to_yield)
            && user.is_some_and(|user| user.is_calm() && !user.owes_one)
    }

    /// A number larger than all before.
    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }
}

fn row<T: Default>(rows: &mut Vec<T>, number: u32) -> &mut T {
    let index = number as usize;
    if index >= rows.len() {
        rows.resize_with(index + 1, T::default);
    }
    &mut rows[index]
}

#[cfg(test)]
mod tests {
    use base::Key;

    use super::*;

    fn pool(index: u32) -> PoolKey {
        Key::first(index)
    }

    #[test]
    fn a_user_is_forgotten_when_it_has_no_pool_and_nothing_is_asked_for_it() {
        let mut quotas = Quotas::default();
        assert!(quotas.forget_user(7), "nobody has heard of it");
        quotas.open(pool(1), 0, 7);
        quotas.user(7).is_limited = true;
        assert!(!quotas.forget_user(7));
        quotas.forget(pool(1), 0, 7);
        quotas.user(7).asked = 1;
        assert!(!quotas.forget_user(7));
        quotas.user(7).asked = 0;
        quotas.user(7).is_minimum_asked = true;
        assert!(!quotas.forget_user(7));
        quotas.user(7).is_minimum_asked = false;
        assert!(quotas.forget_user(7) && !quotas.user(7).is_limited, "the next of this number is another one");
    }

    #[test]
    fn clients_go_before_minimums_and_each_in_order() {
        let mut line = Line::default();
        line.join(pool(1), 1, Need::Minimum);
        let second = line.join(pool(2), 2, Need::Client);
        line.join(pool(3), 3, Need::Client);
        assert_eq!(line.first(), Some((pool(2), Need::Client)));
        line.leave(second);
        assert_eq!(line.pools(), [pool(3), pool(1)]);
        assert_eq!((line.clients(), line.first_minimum()), (1, Some(pool(1))));
    }
}
