//! All pools of one worker: which event goes to which of them, and who is looked at afterwards.
//!
//! Always true: when an event has been handled, every pool that it touched is settled: nobody waits who could be served,
//! no login is missing that could begin, the agenda knows when to look again.
//! Not here: what one pool does (`pool`), what they compete for (`share`).

use std::collections::VecDeque;

use base::{Key, Random, Slab, Time};

use crate::agenda::Agenda;
use crate::imported::Imported;
use crate::pick::is_aged;
use crate::pool::{Pool, Tables};
use crate::queue::{Seat, Seats, Wish};
use crate::quotas::Quotas;
use crate::slot::Move;
use crate::{
    ClientKey, Command, Event, Failure, Fingerprint, Limits, PoolKey, Refusal, ServerKey, Snapshot, State, WaitReason,
};

/// All pools of one worker.
#[derive(Debug)]
pub struct Pools {
    pub(crate) pools: Slab<Pool>,
    pub(crate) tables: Tables,
    pub(crate) quotas: Quotas,
    /// Pools that have to be settled before the event is over.
    pub(crate) unsettled: VecDeque<PoolKey>,
    /// Servers of another process are coming: what their number allows is not known before the last.
    is_arriving: bool,
    agenda: Agenda,
}

impl Pools {
    /// No pool yet. The seed decides the jitter of retries.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            pools: Slab::with_capacity(u32::MAX),
            tables: Tables { slots: Slab::with_capacity(u32::MAX), seats: Seats::new(), random: Random::new(seed) },
            quotas: Quotas::default(),
            unsettled: VecDeque::new(),
            is_arriving: false,
            agenda: Agenda::default(),
        }
    }

    /// Opens the pool of a database and a user, both in small numbers of the caller's choice; the pair must not be open
    /// yet. A pool is opened because a client came or because the database names the user of its servers, so from now
    /// on its minimum is kept.
    pub fn open(&mut self, now: Time, database: u32, user: u32, limits: Limits) -> PoolKey {
        let unnamed = Key { index: 0, generation: 0 };
        let inserted = self.pools.insert(Pool::new(unnamed, database, user, limits));
        let key = inserted.expect("the table of pools is as large as keys can count");
        let pool = self.pools.get_mut(key).expect("it has just been opened");
        pool.key = key;
        self.quotas.open(key, database, user);
        if limits.servers_min > 0 {
            self.agenda.ring_by(now, key, &mut pool.alarm);
        }
        key
    }

    /// Other limits hold from now on, also for who waits already. Idle servers above a lowered limit close at once,
    /// others when they come back.
    pub fn set_limits(&mut self, now: Time, pool: PoolKey, limits: Limits, out: &mut Vec<Command>) {
        self.with(pool, |pool, tables| pool.set_limits(now, tables, limits, out));
        self.settle(now, out);
    }

    /// How many servers all pools of a database may have together; 0 is unlimited. A lowered limit closes nothing, but
    /// nothing is opened above it.
    pub fn set_database_limit(&mut self, database: u32, servers_max: u32) {
        let database = self.quotas.database(database);
        database.servers_max = servers_max;
        if let Some((first, _)) = database.line.first() {
            self.wake(first);
        }
    }

    /// Whether servers of this user need a grant of the ledger. When the limit is set while servers exist, they are
    /// asked for at the next event.
    pub fn set_user_limit(&mut self, user: u32, is_limited: bool) {
        self.change_user_limit(user, is_limited);
    }

    /// Forgets a user whose number is to be given to another. Whether nothing refers to it: no pool that is there still, and no
    /// question to the ledger.
    pub fn forget_user(&mut self, user: u32) -> bool {
        self.quotas.forget_user(user)
    }

    /// The database is gone: every server is closed, everybody who waits is refused. The pool is forgotten with its last
    /// server.
    pub fn close(&mut self, now: Time, pool: PoolKey, out: &mut Vec<Command>) {
        self.with(pool, |pool, tables| pool.close(now, tables, out));
        self.settle(now, out);
    }

    /// A server comes from another process; its key. It is counted against all limits, and opens none above them: what is
    /// too many closes as soon as nobody has it. Nothing follows from it before [`Self::have_arrived`]: others may be about to
    /// come. `None` if there is no such pool.
    pub fn arrive(&mut self, now: Time, key: PoolKey, imported: Imported, out: &mut Vec<Command>) -> Option<ServerKey> {
        let pool = self.pools.get_mut(key)?;
        let server = pool.arrive(now, &mut self.tables, imported, out);
        let user = self.quotas.user(pool.user);
        user.is_in_arrears |= user.is_limited;
        self.unsettled.push_back(key);
        self.is_arriving = true;
        Some(server)
    }

    /// All servers that come from another process are there.
    pub fn have_arrived(&mut self, now: Time, out: &mut Vec<Command>) {
        self.is_arriving = false;
        self.settle(now, out);
    }

    /// What clients of a pool are greeted with is known from another process.
    pub fn is_welcomed(&mut self, key: PoolKey) {
        if let Some(pool) = self.pools.get_mut(key) {
            pool.is_welcomed_already();
        }
    }

    /// When the login of a server was complete, and since when it stands where it stands.
    #[must_use]
    pub fn times_of(&self, server: ServerKey) -> Option<(Time, Time)> {
        self.tables.slots.get(server).map(|slot| (slot.born, slot.since))
    }

    /// The world tells the pools something; the pools say what must be done about it.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Wants { pool, client, fingerprint } => {
                self.wishes(now, Seat::new(client, pool, Wish::Server, now, fingerprint), out);
            }
            Event::WantsAgain { pool, client, since, fingerprint } => {
                self.wishes(now, Seat::new(client, pool, Wish::Server, since, fingerprint), out);
            }
            Event::WantsDedicated { pool, client, since } => {
                self.wishes(now, Seat::new(client, pool, Wish::Dedicated, since, Fingerprint::default()), out);
            }
            Event::Greets { pool, client } => {
                self.wishes(now, Seat::new(client, pool, Wish::Welcome, now, Fingerprint::default()), out);
            }
            Event::Left { client, pool } => self.left(pool, client),
            Event::Ready { server } => self.with_pool_of(server, |pool, tables| pool.ready(now, tables, server, out)),
            Event::DialFailed { server, failure } => self.dial_failed(now, server, failure, out),
            Event::TakeOutsideSize { server } => {
                self.with_pool_of(server, |pool, tables| pool.take_outside_size(tables, server))
            }
            Event::Returned { server, as_, fingerprint } => {
                self.with_pool_of(server, |pool, tables| pool.returned(now, tables, server, (as_, fingerprint), out));
            }
            Event::Cleaned { server } => {
                self.with_pool_of(server, |pool, tables| pool.cleaned(now, tables, server, out))
            }
            Event::Lost { server } => self.free(now, server, Move::Lose, out),
            Event::Closed { server } => self.free(now, server, Move::Close, out),
            Event::Retire { pool } => self.with(pool, |pool, tables| pool.retire(now, tables, out)),
            Event::RetireServer { server } => {
                self.with_pool_of(server, |pool, tables| pool.retire_server(now, tables, server, out));
            }
            Event::Vacate { pool } => self.with(pool, |pool, _| pool.put_off_minimum(now)),
            Event::VacateServer { server } => {
                self.with_pool_of(server, |pool, tables| pool.vacate_server(now, tables, server, out));
            }
            Event::Pause { pool } => self.with(pool, |pool, tables| pool.pause(now, tables, out)),
            Event::Resume { pool } => self.with(pool, |pool, _| pool.resume()),
            Event::Granted { user, need } => self.granted(now, user, need, out),
            Event::Denied { user } => self.denied(now, user),
            Event::Wanted { user, is_wanted } => self.sought(now, user, is_wanted, out),
            Event::Tick => self.tick(now, out),
        }
        self.settle(now, out);
    }

    /// When [`Event::Tick`] must be handled next, if ever. It may be earlier than anything is due, never later.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.agenda.first()
    }

    /// How a pool looks.
    #[must_use]
    pub fn snapshot(&self, now: Time, pool: PoolKey) -> Option<Snapshot> {
        self.pools.get(pool).map(|pool| pool.snapshot(now, &self.tables))
    }

    /// Who waits in a pool, for whoever watches that ([`Spell`](crate::Spell)).
    pub fn look_at_waits(&mut self, now: Time, pool: PoolKey) -> Option<crate::Look> {
        let pool = self.pools.get_mut(pool)?;
        Some(pool.look_at_waits(now, &self.tables))
    }

    /// What the clients wait for that wait in a pool.
    #[must_use]
    pub fn waits_for(&self, pool: PoolKey) -> Option<WaitReason> {
        self.pools.get(pool)?.waits_for(&self.tables)
    }

    /// The pool whose clients wait for what this one gives up; `None` if they are at another worker, or its own.
    #[must_use]
    pub fn evicts(&self, pool: PoolKey) -> Option<PoolKey> {
        let row = self.pools.get(pool)?;
        self.quotas.first_beside(pool, row.database, row.user)
    }

    /// Whether the last login at the host of a pool has failed.
    #[must_use]
    pub fn has_failed(&self, pool: PoolKey) -> bool {
        self.pools.get(pool).is_some_and(|pool| pool.logins.failure().is_some())
    }

    /// The servers of a pool that clients have.
    pub fn lent(&self, pool: PoolKey) -> impl Iterator<Item = ServerKey> {
        let lists = self
            .pools
            .get(pool)
            .into_iter()
            .flat_map(|pool| [State::Lent, State::Dedicated].map(|state| pool.servers.list(state)));
        lists.flat_map(|list| list.iter(&self.tables.slots)).map(|(server, _)| server)
    }

    /// Whether a server in which this is set is better given back to its pool than left for a moment with a client that may come back at once:
    /// not if everybody in front of those who wait has something else set.
    #[must_use]
    pub fn wants_back(&self, pool: PoolKey, fingerprint: Fingerprint) -> bool {
        let Some(pool) = self.pools.get(pool) else { return true };
        let is_always_checked = pool.limits.check_after.is_some_and(|after| after.is_zero());
        let is_called = pool.is_paused || pool.has_to_yield;
        let has_use = pool.waiting.is_empty() || pool.waiting.has_alike(&self.tables.seats, fingerprint);
        pool.limits.reset || is_always_checked || is_called || has_use
    }

    /// All pools, in the order of their places.
    #[must_use]
    pub fn keys(&self) -> Vec<PoolKey> {
        self.pools.keys()
    }

    /// The limits of a pool.
    #[must_use]
    pub fn limits(&self, pool: PoolKey) -> Option<&Limits> {
        self.pools.get(pool).map(|pool| &pool.limits)
    }

    /// Idle servers of a pool that would be checked before they are lent (`sv_used` of PgBouncer's SHOW POOLS).
    #[must_use]
    pub fn aged(&self, now: Time, pool: PoolKey) -> u32 {
        let Some(pool) = self.pools.get(pool) else { return 0 };
        let idle = pool.servers.list(State::Idle).iter(&self.tables.slots);
        idle.filter(|(_, slot)| is_aged(slot, &pool.limits, now)).count() as u32
    }

    /// Whose a server is.
    #[must_use]
    pub fn pool_of(&self, server: ServerKey) -> Option<PoolKey> {
        self.tables.slots.get(server).map(|slot| slot.pool)
    }

    /// Where a server stands; [`State::Free`] for one that is not there.
    #[must_use]
    pub fn state_of(&self, server: ServerKey) -> State {
        self.tables.slots.get(server).map_or(State::Free, |slot| slot.state)
    }

    /// Whether a server is closed as soon as it comes back (`close_needed` of PgBouncer's SHOW SERVERS).
    #[must_use]
    pub fn is_obsolete(&self, server: ServerKey) -> bool {
        let Some(slot) = self.tables.slots.get(server) else { return false };
        self.pools.get(slot.pool).is_some_and(|pool| pool.is_obsolete(slot))
    }

    /// A client waits for something. It waits in one place only, the latest.
    fn wishes(&mut self, now: Time, wished: Seat, out: &mut Vec<Command>) {
        let Seat { client, pool: key, wish, .. } = wished;
        if let Some(seat) = self.tables.seats.at(client) {
            if (seat.client, seat.pool, seat.wish) == (client, key, wish) {
                return;
            }
            self.with(seat.pool, |pool, tables| pool.left(tables, seat.client, seat.wish));
        }
        if self.pools.get(key).is_none() {
            out.push(Command::Refuse { client, why: Refusal::DatabaseRemoved });
            return;
        }
        self.with(key, |pool, tables| match wish {
            Wish::Server => pool.wants(now, tables, wished, out),
            Wish::Welcome => pool.greets(tables, wished, out),
            Wish::Dedicated => pool.wants_dedicated(tables, wished, out),
        });
    }

    fn left(&mut self, key: PoolKey, client: ClientKey) {
        let Some(seat) = self.tables.seats.of(client).filter(|seat| seat.pool == key) else { return };
        self.with(key, |pool, tables| pool.left(tables, client, seat.wish));
    }

    fn dial_failed(&mut self, now: Time, server: ServerKey, failure: Failure, out: &mut Vec<Command>) {
        let Some(slot) = self.tables.slots.get(server) else { return };
        let (key, state, began, owner) = (slot.pool, slot.state, slot.born, slot.owner);
        self.free(now, server, Move::Lose, out);
        // One that was given up while it was being dialed says nothing about the next.
        match (state, owner) {
            (State::Dialing, _) => self.with(key, |pool, tables| pool.dial_failed(tables, began, failure, out)),
            (State::Dedicating, Some(owner)) => {
                self.with(key, |pool, tables| pool.dedicated_failed(tables, owner, began, failure, out));
            }
            _ => {}
        }
    }

    /// A server is gone, by a move that ends in a free slot.
    fn free(&mut self, now: Time, server: ServerKey, by: Move, out: &mut Vec<Command>) {
        let Some(slot) = self.tables.slots.get(server) else { return };
        let (key, is_granted) = (slot.pool, slot.is_granted);
        let Some(pool) = self.pools.get_mut(key) else { return };
        if !pool.servers.shift(&mut self.tables.slots, server, by, now) {
            return;
        }
        pool.count_again(server);
        let user = pool.user;
        if is_granted {
            self.give_back(user, out);
        }
        self.unsettled.push_back(key);
    }

    fn tick(&mut self, now: Time, out: &mut Vec<Command>) {
        while let Some(key) = self.agenda.next_due(now) {
            self.with(key, |pool, tables| {
                pool.alarm = None;
                pool.tick(now, tables, out);
            });
        }
    }

    /// Settles whom the event has touched, and whom that touches.
    fn settle(&mut self, now: Time, out: &mut Vec<Command>) {
        while !self.is_arriving
            && let Some(key) = self.unsettled.pop_front()
        {
            let Some(pool) = self.pools.get_mut(key) else { continue };
            pool.serve(now, &mut self.tables, out);
            self.share(now, key, out);
            if let Some(pool) = self.pools.get_mut(key) {
                pool.measure_waits(now, &self.tables);
            }
            self.look_again(now, key);
        }
    }

    /// Sets the alarm of a pool, or forgets the pool.
    fn look_again(&mut self, now: Time, key: PoolKey) {
        let Some(pool) = self.pools.get_mut(key) else { return };
        if !pool.is_over() {
            if let Some(deadline) = pool.deadline(now, &self.tables) {
                self.agenda.ring_by(deadline, key, &mut pool.alarm);
            }
            return;
        }
        self.agenda.cancel(key, &mut pool.alarm);
        self.quotas.forget(key, pool.database, pool.user);
        self.pools.remove(key);
    }

    /// Has a pool looked at with the next tick, which is due at once.
    pub(crate) fn wake(&mut self, key: PoolKey) {
        if let Some(pool) = self.pools.get_mut(key) {
            self.agenda.ring_by(Time(0), key, &mut pool.alarm);
        }
    }

    /// Does something with a pool, which is settled afterwards.
    pub(crate) fn with(&mut self, key: PoolKey, act: impl FnOnce(&mut Pool, &mut Tables)) {
        if let Some(pool) = self.pools.get_mut(key) {
            act(pool, &mut self.tables);
            self.unsettled.push_back(key);
        }
    }

    fn with_pool_of(&mut self, server: ServerKey, act: impl FnOnce(&mut Pool, &mut Tables)) {
        if let Some(key) = self.pool_of(server) {
            self.with(key, act);
        }
    }
}
