//! What happens at a time: deployments, storms, restarts, changed rates and settings, long transactions, and PgBouncer's rounds.
//!
//! Always true: an event of tenants that have a name concerns all groups of that name.
//! Not here: when (`clock`).

use base::Time;
use pool::Event;

use super::clock::Next;
use super::run::{MINIMUM_ROUND, Run};
use super::upstream::ServerState;
use crate::simulate::spec::{Behaviour, Happening, Pooler};

impl Run<'_> {
    pub(super) fn begin_happening(&mut self, index: u32) {
        let event = &self.spec.events[index as usize];
        match &event.what {
            Happening::Deploy { overlap } => self.deploy(&event.tenants, *overlap),
            Happening::Storm { clients, within } => self.storm(&event.tenants, *clients, *within),
            Happening::Restart { down } => {
                self.down_until = self.now + down;
                self.lose_all();
            }
            Happening::Rate { factor, lasting } => {
                self.sources.change_rate(self.now, &event.tenants, *factor, &mut self.clock);
                self.clock.plan(self.now.saturating_add(*lasting), Next::HappeningEnds { index });
            }
            Happening::Long { clients, lasts } => {
                for tenant in self.sources.tenants_of(&event.tenants) {
                    (0..*clients).for_each(|_| self.arrive_long(tenant, *lasts));
                }
            }
            Happening::Reload { poolers } => self.reload(poolers),
        }
    }

    pub(super) fn end_happening(&mut self, index: u32) {
        let event = &self.spec.events[index as usize];
        if let Happening::Rate { .. } = event.what {
            self.sources.change_rate(self.now, &event.tenants, 1.0, &mut self.clock);
        }
    }

    fn deploy(&mut self, name: &Option<String>, overlap: u64) {
        for tenant in self.sources.tenants_of(name) {
            for process in self.replace_processes(tenant) {
                self.clock.plan(self.now + overlap, Next::ProcessEnds { process });
            }
        }
    }

    fn storm(&mut self, name: &Option<String>, clients: u32, within: u64) {
        let tenants = self.sources.tenants_of(name);
        let processes: Vec<u32> = tenants.into_iter().map(|tenant| self.add_storm_process(tenant)).collect();
        self.sources.storm(self.now, &processes, clients, within, &mut self.clock);
    }

    fn reload(&mut self, poolers: &[Pooler]) {
        self.poolers = poolers.to_vec();
        for (number, (pooler, database)) in poolers.iter().zip(&self.spec.databases).enumerate() {
            let tenants = database.groups.iter().map(|group| group.tenants).sum();
            self.pools.set_database_limit(number as u32, pooler.database_limit(tenants));
        }
        for row in 0..self.pool_rows.len() {
            let (key, database, user) =
                (self.pool_rows[row].key, self.pool_rows[row].database, self.pool_rows[row].user);
            let pooler = &self.poolers[database as usize];
            if pooler.user_max > 0 {
                self.quota.limit(user, pooler.user_max);
            }
            self.pools.set_user_limit(user, pooler.user_max > 0);
            let mut fresh = Vec::new();
            self.pools.set_limits(Time(self.now), key, pooler.limits, &mut fresh);
            self.commands.extend(fresh);
        }
    }

    /// A login has failed because the server is down. Trunkline tries it again after an eighth of the time that the outage has lasted,
    /// by one pool for all; PgBouncer lets each pool wait for `server_login_retry`.
    pub(super) fn note_outage(&mut self) {
        let is_ours = self.poolers.iter().any(|pooler| pooler.behaviour == Behaviour::Trunkline);
        if is_ours && self.now < self.down_until && self.down_since.is_none() {
            self.down_since = Some(self.now);
            self.clock.plan(self.now + OUTAGE_PAUSE_MIN, Next::TryAgain);
        }
    }

    pub(super) fn try_again(&mut self) {
        let Some(since) = self.down_since else { return };
        let is_down = self.now < self.down_until;
        let failed = self.pool_rows.iter().map(|row| (row.key, row.database)).filter(|(key, database)| {
            self.poolers[*database as usize].behaviour == Behaviour::Trunkline && self.pools.has_failed(*key)
        });
        let pools: Vec<_> = failed.map(|(key, _)| key).take(if is_down { 1 } else { usize::MAX }).collect();
        pools.into_iter().for_each(|pool| self.handle(Event::TryAgain { pool }));
        if is_down {
            let pause = ((self.now - since) / 8).clamp(OUTAGE_PAUSE_MIN, OUTAGE_PAUSE_MAX);
            self.clock.plan(self.now + pause, Next::TryAgain);
        } else {
            self.down_since = None;
        }
    }

    /// PgBouncer up to 1.17: a pool below `min_pool_size` opens a server in each round, and if the database is full, the server that has
    /// been idle longest is closed for it, whichever pool it is in. 1.18 does not do this any more, and Trunkline never has.
    pub(super) fn minimum_round(&mut self) {
        self.clock.plan(self.now + MINIMUM_ROUND, Next::MinimumRound);
        let mut idle: Vec<(u64, u32)> = Vec::new();
        for (index, row) in self.servers.iter().enumerate() {
            if row.state == ServerState::Idle {
                idle.push((row.since, index as u32));
            }
        }
        idle.sort_unstable();
        for pool in 0..self.pool_rows.len() {
            let row = &self.pool_rows[pool];
            let (database, key) = (row.database as usize, row.key);
            let pooler = &self.poolers[database];
            let tenants = self.spec.databases[database].groups.iter().map(|group| group.tenants).sum();
            let limit = pooler.database_limit(tenants);
            let is_short = row.open + row.dialing < u64::from(pooler.limits.servers_min) && row.dialing == 0;
            let is_full = limit > 0 && self.database_servers[database] >= limit;
            if pooler.behaviour != Behaviour::PgBouncer117 || !is_short || !is_full {
                continue;
            }
            let victim = idle.iter().position(|(_, index)| {
                let row = &self.servers[*index as usize];
                row.pool != key && self.pool_rows[row.pool.index as usize].database as usize == database
            });
            if let Some(place) = victim {
                let (_, index) = idle.remove(place);
                let server = self.servers[index as usize].key;
                self.handle(Event::VacateServer { server });
            }
        }
    }
}

/// The shortest and the longest pause of the pooler between two attempts at a server that is down.
const OUTAGE_PAUSE_MIN: u64 = 100_000;
const OUTAGE_PAUSE_MAX: u64 = 15_000_000;
