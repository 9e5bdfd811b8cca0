//! A full pool: queues another client, and lends a returned server to the first that waits, without settling the pool anew.
//!
//! Always true: the pools are left as [`Event::Wants`](crate::Event::Wants) and [`Event::Returned`](crate::Event::Returned)
//! leave them, which the tests compare; in whatever state they would do more, nothing is changed here.
//! Not here: a pool in which nobody waits (`lend`), who is served first (`queue`).

use std::time::Duration;

use base::{Time, earliest};

use crate::pool::{Pool, Tables};
use crate::pools::Pools;
use crate::queue::{Waiter, WaitingFor};
use crate::quotas::Quotas;
use crate::slot::State;
use crate::{ClientKey, Fingerprint, PoolKey, ServerKey, WaitReason};

impl Pools {
    /// Queues a client that waits nowhere, if that is all that [`Event::Wants`](crate::Event::Wants) would do: all servers that
    /// the pool may have are lent. Returns false where that event has to be handled.
    #[must_use]
    pub fn queue(&mut self, now: Time, key: PoolKey, client: ClientKey, fingerprint: Fingerprint) -> bool {
        let is_settled = self.has_nothing_to_settle() && self.tables.waiters.at(client).is_none();
        let Some(pool) = self.pools.get_mut(key).filter(|_| is_settled) else { return false };
        if !pool.is_full(now, &self.tables, &self.quotas) {
            return false;
        }
        pool.waiting.join(&mut self.tables.waiters, Waiter::new(client, key, WaitingFor::Server, now, fingerprint));
        self.queue_changed(now, key);
        true
    }

    /// Lends a clean server with these settings to the next waiting client with the same, if all servers of the pool are lent
    /// and that is all that [`Event::Returned`](crate::Event::Returned) would do. Returns the client, and for how long it has
    /// waited; `None` where that event has to be handled.
    #[must_use]
    pub fn pass_on(&mut self, now: Time, server: ServerKey, fingerprint: Fingerprint) -> Option<(ClientKey, Duration)> {
        let Tables { slots, waiters, .. } = &self.tables;
        let slot = slots.get(server).filter(|_| self.has_nothing_to_settle())?;
        let (key, pool) = (slot.pool, self.pools.get(slot.pool)?);
        let is_passed_on = pool.is_full(now, &self.tables, &self.quotas)
            && !pool.limits.reset
            && pool.limits.check_after.is_none_or(|after| !after.is_zero())
            && pool.waiting.has_alike(waiters, fingerprint)
            && pool.fault_of(slot, now).is_none();
        if !is_passed_on {
            return None;
        }
        let (pool, Tables { slots, waiters, .. }) = (self.pools.get_mut(key)?, &mut self.tables);
        let waiter = pool.waiting.pop_alike(waiters, fingerprint)?;
        pool.servers.lend_on(slots, server, fingerprint, now);
        pool.rest(&self.tables, server);
        self.queue_changed(now, key);
        Some((waiter.client, now.since(waiter.since)))
    }

    /// The queue of a full pool has become longer or shorter: measures the waits, and sets the pool's alarm.
    fn queue_changed(&mut self, now: Time, key: PoolKey) {
        let Some(pool) = self.pools.get_mut(key) else { return };
        let waiting = pool.waiting.len();
        pool.waits.note(now, waiting, (waiting > 0).then_some(WaitReason::NoneFree));
        if let Some(due) = pool.full_deadline(&self.tables)
            && pool.alarm.is_none_or(|alarm| alarm > due)
        {
            self.look_at(due, key);
        }
    }
}

impl Pool {
    /// Whether every server that the pool may have is lent, and clients wait for nothing else: then no login begins, whoever
    /// comes or goes. A closed pool has no server that is lent, and a pool without a line stands in none.
    fn is_full(&self, now: Time, tables: &Tables, quotas: &Quotas) -> bool {
        let lent = self.servers.count(State::Lent);
        self.limits.servers_max > 0
            && lent >= self.limits.servers_max
            && lent == self.servers.total()
            && !self.is_paused()
            && self.logins.failure().is_none()
            && self.dedicated.is_empty()
            && self.outside_size.is_none()
            && self.reserve_from(tables).is_none_or(|from| from > now)
            && !self.takes_reserve_at_once(now)
            && quotas.are_calm(self.database, self.user)
    }

    /// Whether a client need not wait before the reserve is used for it.
    fn takes_reserve_at_once(&self, now: Time) -> bool {
        self.limits.reserve_max > 0 && self.limits.reserve_after.is_some_and(|after| now + after <= now)
    }

    /// When a full pool has to be looked at again.
    fn full_deadline(&self, tables: &Tables) -> Option<Time> {
        earliest([self.wait_deadline(tables), self.expiry_look, self.reserve_from(tables)])
    }
}

#[cfg(test)]
mod tests {
    use base::Key;

    use super::*;
    use crate::{Command, Event, Failure, Limits};

    const SAME: Fingerprint = Fingerprint { settings: 0, placeholders: 0 };

    /// A pool of one server, which is lent to the client 9.
    fn full_pool(limits: Limits) -> (Pools, PoolKey, ServerKey) {
        let mut pools = Pools::new(0);
        let pool = pools.open(Time(0), 0, 0, Limits { servers_max: 1, ..limits });
        let mut out = Vec::new();
        pools.handle(Time(0), Event::Wants { pool, client: Key::first(9), fingerprint: SAME }, &mut out);
        let Some(Command::Dial { server, .. }) = out.pop() else { panic!("no login begins") };
        pools.handle(Time(1), Event::Ready { server }, &mut out);
        (pools, pool, server)
    }

    fn in_transactions() -> Limits {
        Limits { reset: false, ..Limits::default() }
    }

    fn handle(pools: &mut Pools, event: Event) {
        pools.handle(Time(3), event, &mut Vec::new());
    }

    fn queue(pools: &mut Pools, pool: PoolKey, at: u64, client: u32) -> bool {
        pools.queue(Time(at), pool, Key::first(client), SAME)
    }

    #[test]
    fn a_returned_server_goes_to_who_has_waited_longest() {
        let (mut pools, pool, server) = full_pool(in_transactions());
        assert!(queue(&mut pools, pool, 2, 3) && queue(&mut pools, pool, 3, 1));
        assert!(!queue(&mut pools, pool, 3, 1), "it waits already");
        let pass_on = |pools: &mut Pools, at| pools.pass_on(Time(at), server, SAME);
        assert_eq!(pass_on(&mut pools, 10), Some((Key::first(3), Duration::from_micros(8))));
        assert_eq!(pass_on(&mut pools, 11), Some((Key::first(1), Duration::from_micros(8))));
        assert_eq!(pass_on(&mut pools, 12), None, "nobody waits");
        assert_eq!(pools.snapshot(Time(12), pool).map(|snapshot| snapshot.waited.total()), Some(1 + 16));
    }

    #[test]
    fn whoever_waits_too_long_is_refused_in_time() {
        let limits = Limits { servers_max: 1, wait_max: None, lifetime_max: None, ..in_transactions() };
        let (mut pools, pool, _) = full_pool(limits);
        pools.set_limits(Time(2), pool, Limits { wait_max: Some(Duration::from_secs(2)), ..limits }, &mut Vec::new());
        assert_eq!(pools.next_deadline(), None);
        assert!(queue(&mut pools, pool, 5, 0));
        assert_eq!(pools.next_deadline(), Some(Time(2_000_005)));
    }

    #[test]
    fn a_pool_that_may_open_a_server_queues_nobody_here() {
        let (mut pools, pool, server) = full_pool(in_transactions());
        pools.set_limits(Time(2), pool, Limits { servers_max: 2, ..in_transactions() }, &mut Vec::new());
        assert!(!queue(&mut pools, pool, 3, 0), "there is room");
        pools.set_limits(Time(2), pool, Limits { servers_max: 1, ..in_transactions() }, &mut Vec::new());
        assert!(queue(&mut pools, pool, 3, 0));
        let reserve = Limits { servers_max: 1, reserve_max: 1, ..in_transactions() };
        pools.set_limits(Time(4), pool, reserve, &mut Vec::new());
        assert!(queue(&mut pools, pool, 4, 1), "the reserve is for who has waited");
        assert!(pools.next_deadline().is_some_and(|due| due <= Time(5_000_003)));
        assert!(!queue(&mut pools, pool, 5_000_003, 2));
        assert_eq!(pools.pass_on(Time(5_000_003), server, SAME), None);
        let (mut pools, pool, _) = full_pool(in_transactions());
        pools.set_limits(Time(4), pool, Limits { reserve_after: Some(Duration::ZERO), ..reserve }, &mut Vec::new());
        assert!(!queue(&mut pools, pool, 5, 0), "the reserve is for whoever comes");
    }

    #[test]
    fn a_server_that_must_not_be_lent_as_it_is_is_not_passed_on() {
        let refuses = |what: &str, limits: Limits, change: fn(&mut Pools, PoolKey, ServerKey)| {
            let (mut pools, pool, server) = full_pool(limits);
            assert!(queue(&mut pools, pool, 2, 0), "{what}");
            change(&mut pools, pool, server);
            assert_eq!(pools.pass_on(Time(9_000_000), server, SAME), None, "{what}");
        };
        let nothing = |_: &mut Pools, _: PoolKey, _: ServerKey| {};
        refuses("it is reset first", Limits { reset: true, ..Limits::default() }, nothing);
        refuses("it is checked first", Limits { check_after: Some(Duration::ZERO), ..in_transactions() }, nothing);
        refuses("for one loan", Limits { lifetime_max: Some(Duration::ZERO), ..in_transactions() }, nothing);
        refuses("too old", Limits { lifetime_max: Some(Duration::from_secs(8)), ..in_transactions() }, nothing);
        refuses("paused", in_transactions(), |pools, pool, _| {
            handle(pools, Event::Pause { pool, why: crate::CloseReason::PauseMode });
        });
        refuses("obsolete", in_transactions(), |pools, pool, _| handle(pools, Event::Retire { pool }));
        refuses("outside the size", in_transactions(), |pools, _, server| {
            handle(pools, Event::TakeOutsideSize { server });
        });
        refuses("asked for by the ledger", in_transactions(), |pools, _, _| {
            handle(pools, Event::Wanted { user: 0, is_wanted: true });
        });
        refuses("somebody wants one alone", in_transactions(), |pools, pool, _| {
            handle(pools, Event::WantsDedicated { pool, client: Key::first(7), since: Time(3) });
        });
    }

    #[test]
    fn a_server_outside_the_size_is_counted_again_when_it_is_returned() {
        let (mut pools, pool, server) = full_pool(in_transactions());
        let mut out = Vec::new();
        pools.handle(Time(2), Event::TakeOutsideSize { server }, &mut out);
        pools.handle(Time(3), Event::Wants { pool, client: Key::first(0), fingerprint: SAME }, &mut out);
        let Some(Command::Dial { server: other, .. }) = out.pop() else { panic!("no login begins") };
        pools.handle(Time(4), Event::Ready { server: other }, &mut out);
        pools.handle(Time(5), Event::Wants { pool, client: Key::first(1), fingerprint: SAME }, &mut out);
        assert_eq!(pools.pass_on(Time(6), server, SAME), None, "the pool has one too many then");
        assert!(!queue(&mut pools, pool, 6, 2));
    }

    #[test]
    fn nobody_is_served_while_servers_arrive() {
        let (mut pools, pool, server) = full_pool(in_transactions());
        assert!(queue(&mut pools, pool, 2, 0));
        let imported = crate::Imported { born: Time(0), since: Time(2), is_lent: false, is_obsolete: false };
        let other = pools.open(Time(0), 1, 1, Limits::default());
        pools.arrive(Time(3), other, imported, &mut Vec::new());
        assert!(!queue(&mut pools, pool, 3, 1));
        assert_eq!(pools.pass_on(Time(3), server, SAME), None);
        pools.have_arrived(Time(4), &mut Vec::new());
        assert!(queue(&mut pools, pool, 5, 1) && pools.pass_on(Time(5), server, SAME).is_some());
    }

    #[test]
    fn who_has_other_settings_is_for_the_event() {
        let (mut pools, pool, server) = full_pool(in_transactions());
        assert!(queue(&mut pools, pool, 2, 0));
        assert_eq!(pools.pass_on(Time(3), server, Fingerprint::of(7)), None);
        assert!(pools.queue(Time(3), pool, Key::first(1), Fingerprint::of(7)));
        let passed_on = pools.pass_on(Time(4), server, Fingerprint::of(7));
        assert_eq!(passed_on.map(|(client, _)| client), Some(Key::first(1)), "it goes before the first");
    }

    #[test]
    fn a_pool_whose_logins_fail_or_stand_in_line_queues_nobody_here() {
        let (mut pools, pool, _) = full_pool(in_transactions());
        let mut out = Vec::new();
        pools.set_limits(Time(2), pool, Limits { servers_max: 2, ..in_transactions() }, &mut out);
        pools.handle(Time(2), Event::Wants { pool, client: Key::first(0), fingerprint: SAME }, &mut out);
        let Some(Command::Dial { server, .. }) = out.pop() else { panic!("no login begins") };
        let failure = Failure::unreachable("connect failed");
        pools.handle(Time(3), Event::DialFailed { server, failure }, &mut out);
        pools.set_limits(Time(4), pool, Limits { servers_max: 1, ..in_transactions() }, &mut out);
        assert!(!queue(&mut pools, pool, 5, 1), "its last login has failed");
        let (mut pools, pool, _) = full_pool(in_transactions());
        pools.set_user_limit(0, true);
        assert!(!queue(&mut pools, pool, 5, 1), "its servers need grants");
    }

    #[test]
    fn the_last_server_returned_is_for_the_calm_way() {
        let (mut pools, _, server) = full_pool(in_transactions());
        assert_eq!(pools.pass_on(Time(3), server, SAME), None);
        assert!(pools.take_back(Time(3), server, SAME));
        assert_eq!(pools.state_of(server), State::Idle);
    }
}
