//! Lends a server of a calm pool and takes it back: what nearly every transaction needs, without settling the pool anew.
//!
//! Always true: the pools are left as [`Event::Wants`](crate::Event::Wants) and [`Event::Returned`](crate::Event::Returned)
//! leave them, which the tests compare; in whatever state they would do more, nothing is changed here.
//! Not here: a pool in which clients wait (`full`), which server suits a client of other settings (`pick`).

use base::Time;

use crate::pick::is_aged;
use crate::pool::{Pool, Tables};
use crate::pools::Pools;
use crate::quotas::Quotas;
use crate::slot::{Move, Slot, State};
use crate::{ClientKey, Fingerprint, PoolKey, Reuse, ServerKey};

impl Pools {
    /// Lends the server returned last to a client that waits nowhere, if that is all that
    /// [`Event::Wants`](crate::Event::Wants) would do. `None` where that event has to be handled.
    #[must_use]
    pub fn lend(&mut self, now: Time, pool: PoolKey, client: ClientKey, fingerprint: Fingerprint) -> Option<ServerKey> {
        let is_settled = self.has_nothing_to_settle() && self.tables.waiters.at(client).is_none();
        let pool = self.pools.get_mut(pool).filter(|pool| is_settled && pool.is_calm(&self.quotas))?;
        let server = pool.servers.list(State::Idle).newest().filter(|_| pool.limits.reuse == Reuse::Newest)?;
        let slot = self.tables.slots.get(server)?;
        if slot.fingerprint != fingerprint || is_aged(slot, &pool.limits, now) {
            return None;
        }
        pool.lends(now, &mut self.tables, server);
        Some(server)
    }

    /// Takes back a clean server with these settings, if all that [`Event::Returned`](crate::Event::Returned) would do is to
    /// leave it idle. Returns false where that event has to be handled.
    #[must_use]
    pub fn take_back(&mut self, now: Time, server: ServerKey, fingerprint: Fingerprint) -> bool {
        let is_settled = self.has_nothing_to_settle();
        let Tables { slots, .. } = &mut self.tables;
        let Some(slot) = slots.get_mut(server).filter(|slot| slot.state == State::Lent) else { return false };
        let Some(pool) = self.pools.get_mut(slot.pool) else { return false };
        if !is_settled || !pool.is_calm(&self.quotas) || pool.limits.reset || !pool.rests_unnoticed(slot, now) {
            return false;
        }
        slot.fingerprint = fingerprint;
        pool.servers.shift_from(slots, server, State::Lent, Move::Return, now);
        pool.rest(&self.tables, server);
        true
    }
}

impl Pool {
    /// Whether nobody waits and no login is needed, so that settling the pool would change nothing. A pool that stands in a line
    /// is in that of its database or its user; a paused or closed one has no server to lend, and takes none back.
    fn is_calm(&self, quotas: &Quotas) -> bool {
        self.waits.is_idle()
            && self.greeting.is_empty()
            && (self.limits.servers_min == 0 || !self.is_below_minimum())
            && quotas.are_calm(self.database, self.user)
    }

    /// Whether a server that is returned becomes idle, and the pool is looked at early enough as it is.
    fn rests_unnoticed(&self, slot: &Slot, now: Time) -> bool {
        let is_in_time = |due: Option<Time>| due.is_none_or(|due| self.alarm.is_some_and(|alarm| alarm <= due));
        self.outside_size.is_none()
            && self.fault_of(slot, now).is_none()
            && (is_in_time(self.limits.idle_max.map(|idle_max| now + idle_max))
                || self.servers.shared() <= self.limits.servers_min)
            && is_in_time(self.expiry_of(slot))
    }
}

#[cfg(test)]
mod tests {
    use base::Key;

    use super::*;
    use crate::{Command, Event, Failure, Limits, Return};

    /// A pool with an idle server.
    fn pool_with_server() -> (Pools, PoolKey, ServerKey) {
        pool_of(0)
    }

    /// A pool that is to have this many servers, and has one, which is idle.
    fn pool_of(servers_min: u32) -> (Pools, PoolKey, ServerKey) {
        let mut pools = Pools::new(0);
        let pool = pools.open(Time(0), 0, 0, Limits { reset: false, servers_min, ..Limits::default() });
        let (client, fingerprint, mut out) = (Key::first(9), Fingerprint::default(), Vec::new());
        pools.handle(Time(0), Event::Wants { pool, client, fingerprint }, &mut out);
        let Some(Command::Dial { server, .. }) = out.pop() else { panic!("no login begins") };
        pools.handle(Time(1), Event::Ready { server }, &mut out);
        pools.handle(Time(1), Event::Returned { server, as_: Return::Clean, fingerprint }, &mut out);
        while let Some(command) = out.pop() {
            if let Command::Dial { server, .. } = command {
                let failure = Failure::unreachable("connect failed");
                pools.handle(Time(1), Event::DialFailed { server, failure }, &mut out);
            }
        }
        (pools, pool, server)
    }

    #[test]
    fn a_server_is_lent_once() {
        let (mut pools, pool, server) = pool_with_server();
        let lend = |pools: &mut Pools, client| pools.lend(Time(2), pool, Key::first(client), Fingerprint::default());
        assert_eq!(lend(&mut pools, 0), Some(server));
        assert_eq!(pools.state_of(server), State::Lent);
        assert_eq!(lend(&mut pools, 1), None);
        assert!(pools.take_back(Time(3), server, Fingerprint::of(7)));
        assert!(!pools.take_back(Time(3), server, Fingerprint::of(7)), "it is not lent");
        assert_eq!(lend(&mut pools, 1), None, "it has other settings");
    }

    #[test]
    fn who_waits_elsewhere_is_lent_nothing() {
        let (mut pools, pool, server) = pool_with_server();
        let other = pools.open(Time(0), 1, 1, Limits::default());
        let client = Key::first(0);
        let fingerprint = Fingerprint::default();
        pools.handle(Time(2), Event::Wants { pool: other, client, fingerprint }, &mut Vec::new());
        assert_eq!(pools.lend(Time(2), pool, client, fingerprint), None);
        assert_eq!(pools.lend(Time(2), pool, Key::first(1), fingerprint), Some(server));
    }

    #[test]
    fn a_pool_that_greets_or_is_too_small_has_more_to_do() {
        let (mut pools, pool, _) = pool_of(2);
        let lend =
            |pools: &mut Pools, pool| pools.lend(Time::from_secs(9), pool, Key::first(0), Fingerprint::default());
        assert_eq!(lend(&mut pools, pool), None, "it is to open a second server");
        let mut pools = Pools::new(0);
        let pool = pools.open(Time(0), 0, 0, Limits::default());
        let imported = crate::Imported { born: Time(0), since: Time(0), is_lent: false, is_obsolete: false };
        let server = pools.arrive(Time(0), pool, imported, &mut Vec::new());
        pools.have_arrived(Time(0), &mut Vec::new());
        let client = Key::first(1);
        pools.handle(Time(0), Event::Greets { pool, client }, &mut Vec::new());
        assert_eq!(lend(&mut pools, pool), None, "a client waits to be greeted");
        pools.handle(Time(0), Event::Left { pool, client }, &mut Vec::new());
        assert_eq!(lend(&mut pools, pool), server);
    }

    #[test]
    fn nothing_is_lent_while_servers_arrive() {
        let (mut pools, pool, server) = pool_with_server();
        let imported = crate::Imported { born: Time(0), since: Time(2), is_lent: false, is_obsolete: false };
        pools.arrive(Time(2), pool, imported, &mut Vec::new());
        assert_eq!(pools.lend(Time(2), pool, Key::first(0), Fingerprint::default()), None);
        pools.have_arrived(Time(2), &mut Vec::new());
        assert!(pools.lend(Time(2), pool, Key::first(0), Fingerprint::default()).is_some_and(|lent| lent != server));
    }

    #[test]
    fn a_server_outside_the_size_is_counted_again_when_it_is_returned() {
        let (mut pools, pool, server) = pool_with_server();
        assert_eq!(pools.lend(Time(2), pool, Key::first(0), Fingerprint::default()), Some(server));
        pools.handle(Time(2), Event::TakeOutsideSize { server }, &mut Vec::new());
        assert!(!pools.take_back(Time(3), server, Fingerprint::default()));
    }
}
