//! How pools compete for servers of a database and servers of a user.
//!
//! Always true: a login begins only when its user has a grant (if the user is limited) and its database has room (if the
//! database is limited). A server is evicted only for a waiting client, never to reach a minimum, and only from a pool
//! in which no client waits, unless the other pool starves: then the pools of a database take turns.
//! Not here: whether a pool needs a login (`pool`), whether an eviction for it pays (`evict`), how grants are shared among
//! workers (`ledger`).

use base::Time;

use crate::planted::size_for_database;
use crate::pool::{Pool, Tables};
use crate::pools::Pools;
use crate::quotas::{Demand, Place};
use crate::wanted::Wanted;
use crate::{Command, Need, PoolKey};

impl Pools {
    /// Begins the logins that a pool needs, or puts the pool in line for them; then serves the lines that this may have moved.
    pub(crate) fn share(&mut self, now: Time, key: PoolKey, out: &mut Vec<Command>) {
        self.seek(now, key, out);
        let Some((database, user)) = self.pools.get(key).map(|pool| (pool.database, pool.user)) else { return };
        let place = self.quotas.database(database);
        let (has_line, has_to_yield) = (!place.line.is_empty(), place.has_to_yield);
        if has_line {
            self.fill_database(now, database, out);
            self.evict_for_database(now, database, out);
        }
        if has_line || has_to_yield {
            self.choose_who_yields(now, database);
        }
        if self.quotas.user(user).owes_one {
            self.evict_for_ledger(now, user, out);
        }
        self.ask(user, out);
    }

    /// Handles a grant of the ledger.
    pub(crate) fn granted(&mut self, now: Time, number: u32, need: Need, out: &mut Vec<Command>) {
        let user = self.quotas.user(number);
        match need {
            Need::Client => user.asked = user.asked.saturating_sub(1),
            Need::Minimum => user.is_minimum_asked = false,
        }
        if self.pay_arrears(number) {
            return;
        }
        match self.quotas.user(number).line.first() {
            Some((key, _)) => self.use_grant(now, key, number, out),
            None => self.give_back(number, out),
        }
        self.ask(number, out);
    }

    /// Handles a denial of the ledger for a minimum.
    pub(crate) fn denied(&mut self, now: Time, number: u32) {
        self.quotas.user(number).is_minimum_asked = false;
        while let Some(key) = self.quotas.user(number).line.first_minimum() {
            self.step_out(key);
            self.with(key, |pool, _| pool.put_off_minimum(now));
        }
    }

    /// Notes whether a worker waits at the ledger for a server of this user.
    pub(crate) fn sought(&mut self, now: Time, number: u32, is_wanted: bool, out: &mut Vec<Command>) {
        self.quotas.user(number).owes_one = is_wanted;
        if is_wanted {
            self.evict_for_ledger(now, number, out);
        }
    }

    /// Gives a grant back to the ledger, because its server is closed or was not needed. This also settles an owed server,
    /// because the worker that waits at the ledger can use this grant.
    pub(crate) fn give_back(&mut self, number: u32, out: &mut Vec<Command>) {
        self.quotas.user(number).owes_one = false;
        out.push(Command::GiveBack { user: number });
    }

    /// Sets whether servers of this user need a grant from now on. Pools that need no grant any more leave the line; for
    /// servers without a grant, grants are asked for. The next tick, which is due at once, settles these pools.
    pub(crate) fn change_user_limit(&mut self, number: u32, is_limited: bool) {
        let user = self.quotas.user(number);
        user.is_limited = is_limited;
        user.is_in_arrears = is_limited;
        let first = user.pools.first().copied();
        let in_line = if is_limited { Vec::new() } else { user.line.pools() };
        for key in first.into_iter().chain(in_line.iter().copied()) {
            self.wake(key);
        }
        for key in in_line {
            self.step_out(key);
        }
    }

    /// Begins logins until the pool needs none, or until it has to stand in line.
    fn seek(&mut self, now: Time, key: PoolKey, out: &mut Vec<Command>) {
        while let Some(pool) = self.pools.get(key) {
            match (pool.wanted(now, &self.tables), pool.demand.place()) {
                (None, None) => return,
                (Some(wanted), None) => {
                    if !self.obtain(now, key, wanted, out) {
                        return;
                    }
                }
                (Some(wanted), Some(place)) if wanted.need() == place.need => return,
                (_, Some(_)) => {
                    let user = pool.user;
                    if self.step_out(key).has_grant() {
                        self.give_back(user, out);
                    }
                }
            }
        }
    }

    /// Begins a login, or puts the pool in line for it. Returns whether the login has begun.
    fn obtain(&mut self, now: Time, key: PoolKey, wanted: Wanted, out: &mut Vec<Command>) -> bool {
        let Some(pool) = self.pools.get_mut(key) else { return false };
        if !self.quotas.user(pool.user).is_limited {
            return self.take_room(now, key, wanted, false, out);
        }
        pool.demand = Demand::Grant(self.quotas.queue_for_grant(key, pool.user, wanted.need()));
        false
    }

    /// As [`Pools::obtain`], for a pool that holds a grant or needs none.
    fn take_room(&mut self, now: Time, key: PoolKey, wanted: Wanted, is_granted: bool, out: &mut Vec<Command>) -> bool {
        let Some((database, user)) = self.pools.get(key).map(|pool| (pool.database, pool.user)) else { return false };
        if self.has_room(database) && self.quotas.database(database).line.is_empty() {
            self.begin(now, key, wanted, is_granted, out);
            return true;
        }
        // A grant for a minimum is not held back, because a client elsewhere may wait for it.
        let keeps_grant = is_granted && wanted.need() == Need::Client;
        if is_granted && !keeps_grant {
            self.give_back(user, out);
        }
        let place = self.quotas.queue_for_room(key, database, wanted.need());
        self.set_demand(key, Demand::Room { place, is_granted: keeps_grant });
        false
    }

    /// Uses a grant for the pool at the front of its user's line.
    fn use_grant(&mut self, now: Time, key: PoolKey, user: u32, out: &mut Vec<Command>) {
        let place = self.step_out(key).place();
        self.unsettled.push_back(key);
        match self.still_wanted(now, key, place) {
            Some(wanted) => {
                self.take_room(now, key, wanted, true, out);
            }
            None => self.give_back(user, out),
        }
    }

    /// Gives the free room of a database to the pools in line for it.
    fn fill_database(&mut self, now: Time, number: u32, out: &mut Vec<Command>) {
        while self.has_room(number) {
            let Some(key) = self.next_in_line(now, number) else { return };
            let demand = self.step_out(key);
            self.unsettled.push_back(key);
            let Some(user) = self.pools.get(key).map(|pool| pool.user) else { return };
            // A pool that lacks a required grant has to stand in the line of its user first.
            let may_begin = demand.has_grant() || !self.quotas.user(user).is_limited;
            match self.still_wanted(now, key, demand.place()) {
                Some(wanted) if may_begin => self.begin(now, key, wanted, demand.has_grant(), out),
                _ if demand.has_grant() => self.give_back(user, out),
                _ => {}
            }
        }
    }

    /// Has the largest pool of a database close the next server that is returned, if another pool starves and no server of the
    /// database is being closed for it.
    fn choose_who_yields(&mut self, now: Time, number: u32) {
        let is_starving = self.next_in_line(now, number).is_some_and(|key| self.starves(now, key));
        let database = self.quotas.database(number);
        let pools = || database.pools.iter().filter_map(|key| self.pools.get(*key));
        let is_full = pools().map(|pool| pool.servers.staying()).sum::<u32>() >= database.servers_max;
        let is_needed = is_full && is_starving;
        let largest = pools().max_by_key(|pool| (pool.servers.shared() - pool.outside_size_count(), pool.key));
        let victim = largest.map(|pool| pool.key).filter(|_| is_needed);
        database.has_to_yield = victim.is_some();
        let mut is_new = false;
        for key in &database.pools {
            if let Some(pool) = self.pools.get_mut(*key) {
                let has_to_yield = Some(*key) == victim;
                is_new |= has_to_yield && !pool.has_to_yield;
                pool.has_to_yield = has_to_yield;
            }
        }
        if let Some(victim) = victim.filter(|_| is_new) {
            self.go_to_end_of_line(victim, number);
        }
    }

    /// Puts a pool that has to give up a server at the end of the database's line.
    fn go_to_end_of_line(&mut self, key: PoolKey, database: u32) {
        let Some(&Demand::Room { place, is_granted }) = self.pools.get(key).map(|pool| &pool.demand) else { return };
        self.quotas.database(database).line.leave(place);
        let place = self.quotas.queue_for_room(key, database, place.need);
        self.set_demand(key, Demand::Room { place, is_granted });
    }

    /// The pool that gets the next server of a database: the first starving pool, or else the first that no server of its own
    /// will serve, or else the first in line. Otherwise a pool whose clients are always served by its own servers would stay
    /// in front of the others for ever, and would get the room for which another pool has had a server evicted.
    fn next_in_line(&mut self, now: Time, number: u32) -> Option<PoolKey> {
        let line = &self.quotas.database(number).line;
        let (first, all) = (line.first().map(|(key, _)| key), line.pools());
        let starving = all.iter().copied().find(|key| self.starves(now, *key));
        starving.or_else(|| all.iter().copied().find(|key| self.is_bare(*key))).or(first)
    }

    fn starves(&self, now: Time, key: PoolKey) -> bool {
        self.pools.get(key).is_some_and(|pool| pool.starves(now, &self.tables))
    }

    /// Evicts an idle server for a worker in the ledger's line, or leaves it owed if there is none.
    fn evict_for_ledger(&mut self, now: Time, number: u32, out: &mut Vec<Command>) {
        let user = self.quotas.user(number);
        let pools = user.pools.iter().filter_map(|key| self.pools.get(*key));
        if let Some(victim) = longest_idle(pools, &self.tables) {
            user.owes_one = false;
            self.with(victim, |pool, tables| pool.evict(now, tables, out));
        }
    }

    /// Sends or withdraws asks, so that there is one for each pool in line and for each server without a grant.
    fn ask(&mut self, number: u32, out: &mut Vec<Command>) {
        let user = self.quotas.user(number);
        if user.is_calm() {
            return;
        }
        let mut needed = user.line.clients();
        if user.is_in_arrears {
            let pools = user.pools.iter().filter_map(|key| self.pools.get(*key));
            let arrears = pools.flat_map(|pool| pool.servers.ungranted(&self.tables.slots)).count() as u32;
            user.is_in_arrears = arrears > 0;
            needed += arrears;
        }
        while user.asked < needed {
            user.asked += 1;
            out.push(Command::Ask { user: number, need: Need::Client });
        }
        while user.asked > needed {
            user.asked -= 1;
            out.push(Command::Withdraw { user: number });
        }
        if !user.is_minimum_asked && user.line.first_minimum().is_some() {
            user.is_minimum_asked = true;
            out.push(Command::Ask { user: number, need: Need::Minimum });
        }
    }

    /// Uses a grant for a server that was opened before the limit was set. Returns whether there was such a server.
    fn pay_arrears(&mut self, number: u32) -> bool {
        let user = self.quotas.user(number);
        if !user.is_in_arrears {
            return false;
        }
        let pools = user.pools.iter().filter_map(|key| self.pools.get(*key));
        let mut ungranted = pools.flat_map(|pool| pool.servers.ungranted(&self.tables.slots));
        let Some(server) = ungranted.next() else { return false };
        drop(ungranted);
        self.tables.slots.get_mut(server).expect("it was found above").is_granted = true;
        true
    }

    fn begin(&mut self, now: Time, key: PoolKey, wanted: Wanted, is_granted: bool, out: &mut Vec<Command>) {
        if let Some(pool) = self.pools.get_mut(key) {
            pool.dial(now, &mut self.tables, wanted, is_granted, out);
        }
    }

    /// The login that a pool needs, if it is still of the kind for which the pool stood in line.
    fn still_wanted(&self, now: Time, key: PoolKey, place: Option<Place>) -> Option<Wanted> {
        let wanted = self.pools.get(key)?.wanted(now, &self.tables)?;
        (Some(wanted.need()) == place.map(|place| place.need)).then_some(wanted)
    }

    /// Whether a database may have one more server.
    fn has_room(&mut self, number: u32) -> bool {
        let database = self.quotas.database(number);
        let pools = database.pools.iter().filter_map(|key| self.pools.get(*key));
        database.servers_max == 0
            || pools.map(|pool| size_for_database(&pool.servers)).sum::<u32>() < database.servers_max
    }

    /// Takes a pool out of its line, and returns its former demand.
    fn step_out(&mut self, key: PoolKey) -> Demand {
        let Some(pool) = self.pools.get_mut(key) else { return Demand::None };
        let demand = std::mem::take(&mut pool.demand);
        match demand {
            Demand::None => {}
            Demand::Grant(place) => self.quotas.user(pool.user).line.leave(place),
            Demand::Room { place, .. } => self.quotas.database(pool.database).line.leave(place),
        }
        demand
    }

    fn set_demand(&mut self, key: PoolKey, demand: Demand) {
        if let Some(pool) = self.pools.get_mut(key) {
            pool.demand = demand;
        }
    }
}

/// The pool with the longest idle server that may be evicted; ties by the key of the pool.
fn longest_idle<'a>(pools: impl Iterator<Item = &'a Pool>, tables: &Tables) -> Option<PoolKey> {
    let candidates = pools.filter(|pool| pool.may_be_evicted());
    candidates.min_by_key(|pool| (pool.idle_since(tables), pool.key)).map(|pool| pool.key)
}
