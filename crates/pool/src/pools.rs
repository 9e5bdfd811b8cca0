//! All pools of one worker: passes each event to its pool and then settles every pool that the event touched.
//!
//! Always true: after an event, every pool that it touched is settled: no client waits that could be served, every login
//! that is needed and may begin has begun, and the agenda knows when the pool has to be looked at again.
//! Not here: what one pool does (`pool`), the limits that pools share (`share`).

use std::collections::VecDeque;

use base::{Key, Random, Slab, Time};

use crate::agenda::Agenda;
use crate::imported::Imported;
use crate::pick::is_aged;
use crate::planted::has_plain_ways;
use crate::pool::{Pool, Tables};
use crate::queue::{Waiter, Waiters, WaitingFor};
use crate::quotas::Quotas;
use crate::slot::{Move, Work};
use crate::{
    ClientKey, CloseReason, Command, Event, Failure, Fingerprint, Limits, PoolKey, Refusal, ServerKey, Snapshot, State,
    WaitReason,
};

/// All pools of one worker.
#[derive(Debug)]
pub struct Pools {
    pub(crate) pools: Slab<Pool>,
    pub(crate) tables: Tables,
    pub(crate) quotas: Quotas,
    /// Pools that have to be settled before the event is over.
    pub(crate) unsettled: VecDeque<PoolKey>,
    /// An online restart is importing servers. No pool is settled before the last one has arrived, because limits depend
    /// on their number.
    is_arriving: bool,
    agenda: Agenda,
}

impl Pools {
    /// Returns an empty set of pools. The seed decides the jitter of login retries.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            pools: Slab::with_capacity(u32::MAX),
            tables: Tables { slots: Slab::with_capacity(u32::MAX), waiters: Waiters::new(), random: Random::new(seed) },
            quotas: Quotas::default(),
            unsettled: VecDeque::new(),
            is_arriving: false,
            agenda: Agenda::default(),
        }
    }

    /// Opens the pool of a database and a user, both given as small numbers of the caller's choice. Several pools may have the same
    /// pair, such as that of the primary and that of the replicas: they share the limits of both. `min_pool_size` applies from now on, because a pool is opened when a client logs in or when the database
    /// entry names the user of its servers.
    pub fn open(&mut self, now: Time, database: u32, user: u32, limits: Limits) -> PoolKey {
        let unnamed = Key::NOWHERE;
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

    /// Changes the limits of a pool, also for clients that wait already. Idle servers above a lowered limit are closed at
    /// once, others when they are returned.
    pub fn set_limits(&mut self, now: Time, pool: PoolKey, limits: Limits, out: &mut Vec<Command>) {
        self.with(pool, |pool, tables| pool.set_limits(now, tables, limits, out));
        self.settle(now, out);
    }

    /// Sets how many servers all pools of a database may have together; 0 is unlimited. A lowered limit closes no server,
    /// but none is opened above it.
    pub fn set_database_limit(&mut self, database: u32, servers_max: u32) {
        let database = self.quotas.database(database);
        database.servers_max = servers_max;
        if let Some((first, _)) = database.line.first() {
            self.wake(first);
        }
    }

    /// Sets whether servers of this user need a grant of the ledger. If servers exist when the limit is set, grants for
    /// them are requested at the next event.
    pub fn set_user_limit(&mut self, user: u32, is_limited: bool) {
        self.change_user_limit(user, is_limited);
    }

    /// Forgets a user, so that its number can be reused. Returns false while a pool or an unanswered ask to the ledger
    /// still refers to the user.
    pub fn forget_user(&mut self, user: u32) -> bool {
        self.quotas.forget_user(user)
    }

    /// Closes a pool whose database was removed or killed (`why`): all its servers are closed and all its waiting clients are refused. The
    /// pool is forgotten together with its last server.
    pub fn close(&mut self, now: Time, pool: PoolKey, why: CloseReason, out: &mut Vec<Command>) {
        self.with(pool, |pool, tables| pool.close(now, tables, why, out));
        self.settle(now, out);
    }

    /// Adds a server that was taken over from another process, and returns its key; `None` if there is no such pool. The
    /// server counts against all limits. If that makes too many, servers are closed as soon as no client has them. No pool
    /// is settled before [`Self::have_arrived`], because more servers may follow.
    pub fn arrive(&mut self, now: Time, key: PoolKey, imported: Imported, out: &mut Vec<Command>) -> Option<ServerKey> {
        let pool = self.pools.get_mut(key)?;
        let server = pool.arrive(now, &mut self.tables, imported, out);
        let user = self.quotas.user(pool.user);
        user.is_in_arrears |= user.is_limited;
        self.unsettled.push_back(key);
        self.is_arriving = true;
        Some(server)
    }

    /// All servers of the other process have arrived: settles the pools.
    pub fn have_arrived(&mut self, now: Time, out: &mut Vec<Command>) {
        self.is_arriving = false;
        self.settle(now, out);
    }

    /// Notes that the parameters with which clients of a pool are greeted were taken over from another process.
    pub fn note_welcome(&mut self, key: PoolKey) {
        if let Some(pool) = self.pools.get_mut(key) {
            pool.note_welcome();
        }
    }

    /// When the login of a server was completed, and since when the server has been in its present state.
    #[must_use]
    pub fn times_of(&self, server: ServerKey) -> Option<(Time, Time)> {
        self.tables.slots.get(server).map(|slot| (slot.born, slot.since))
    }

    /// Applies an event, and appends the commands that follow from it to `out`.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Wants { pool, client, fingerprint } => {
                self.waits(now, Waiter::new(client, pool, WaitingFor::Server, now, fingerprint), out);
            }
            Event::WantsAgain { pool, client, since, fingerprint } => {
                self.waits(now, Waiter::new(client, pool, WaitingFor::Server, since, fingerprint), out);
            }
            Event::WantsDedicated { pool, client, since } => {
                self.waits(now, Waiter::new(client, pool, WaitingFor::Dedicated, since, Fingerprint::default()), out);
            }
            Event::Greets { pool, client } => {
                self.waits(now, Waiter::new(client, pool, WaitingFor::Welcome, now, Fingerprint::default()), out);
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
            Event::EndedIdle { server } => {
                let since = self.tables.slots.get(server).map_or(now, |slot| slot.since);
                self.with_pool_of(server, |pool, _| pool.limits.check_before(now.since(since)));
            }
            Event::Lost { server } => self.free(now, server, Move::Lose, out),
            Event::Closed { server } => self.free(now, server, Move::Close, out),
            Event::Retire { pool } => self.with(pool, |pool, tables| pool.retire(now, tables, out)),
            Event::RetireServer { server } => {
                self.with_pool_of(server, |pool, tables| pool.retire_server(now, tables, server, out));
            }
            Event::MoveServer { server } => {
                self.with_pool_of(server, |pool, tables| pool.move_server(now, tables, server, out));
            }
            Event::TryAgain { pool } => self.with(pool, |pool, _| pool.logins.try_again()),
            Event::Vacate { pool } => self.with(pool, |pool, _| pool.put_off_minimum(now)),
            Event::VacateServer { server } => {
                self.with_pool_of(server, |pool, tables| pool.vacate_server(now, tables, server, out));
            }
            Event::Pause { pool, why } => self.with(pool, |pool, tables| pool.pause(now, tables, why, out)),
            Event::Resume { pool } => self.with(pool, |pool, _| pool.resume()),
            Event::Granted { user, need } => self.granted(now, user, need, out),
            Event::Denied { user } => self.denied(now, user),
            Event::Wanted { user, is_wanted } => self.sought(now, user, is_wanted, out),
            Event::Tick => self.tick(now, out),
        }
        self.settle(now, out);
    }

    /// When [`Event::Tick`] must be handled next. It may be too early, never too late. `None` if no deadline is pending.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.agenda.first()
    }

    /// The present state of a pool, for display.
    #[must_use]
    pub fn snapshot(&self, now: Time, pool: PoolKey) -> Option<Snapshot> {
        self.pools.get(pool).map(|pool| pool.snapshot(now, &self.tables))
    }

    /// The present state of a pool's wait queue, for [`WaitPeriod`](crate::WaitPeriod).
    pub fn look_at_waits(&mut self, now: Time, pool: PoolKey) -> Option<crate::QueueSample> {
        let pool = self.pools.get_mut(pool)?;
        Some(pool.look_at_waits(now, &self.tables))
    }

    /// What the waiting clients of a pool wait for; `None` if none waits.
    #[must_use]
    pub fn waits_for(&self, pool: PoolKey) -> Option<WaitReason> {
        self.pools.get(pool)?.waits_for(&self.tables)
    }

    /// Whether clients wait in a pool that may log in for them.
    #[must_use]
    pub fn waits_for_login(&self, pool: PoolKey) -> bool {
        self.pools.get(pool).is_some_and(|pool| {
            let mut queues = [&pool.waiting, &pool.greeting, &pool.dedicated].into_iter();
            !pool.is_closed && !pool.is_paused() && queues.any(|queue| !queue.is_empty())
        })
    }

    /// The pool whose waiting clients profit when this pool has a server evicted; `None` if they are clients of another
    /// worker or of this pool itself.
    #[must_use]
    pub fn evicted_for(&self, pool: PoolKey) -> Option<PoolKey> {
        let row = self.pools.get(pool)?;
        let beside = || self.quotas.beside(pool, row.database, row.user);
        // These get the room before others.
        beside().find(|key| self.is_bare(*key)).or_else(|| beside().next())
    }

    /// Whether the last login of a pool at its host failed.
    #[must_use]
    pub fn has_failed(&self, pool: PoolKey) -> bool {
        self.pools.get(pool).is_some_and(|pool| pool.logins.failure().is_some())
    }

    /// The servers of a pool that are lent or dedicated to a client.
    pub fn lent(&self, pool: PoolKey) -> impl Iterator<Item = ServerKey> {
        let lists = self
            .pools
            .get(pool)
            .into_iter()
            .flat_map(|pool| [State::Lent, State::Dedicated].map(|state| pool.servers.list(state)));
        lists.flat_map(|list| list.iter(&self.tables.slots)).map(|(server, _)| server)
    }

    /// Whether a server with these session settings should be returned to its pool at once, rather than held for a client
    /// that may come back (affinity hold). False if all clients at the front of the wait queue have other settings.
    #[must_use]
    pub fn is_returned_at_once(&self, pool: PoolKey, fingerprint: Fingerprint) -> bool {
        let Some(pool) = self.pools.get(pool) else { return true };
        let is_always_checked = pool.limits.check_after.is_some_and(|after| after.is_zero());
        let is_called = pool.is_paused() || pool.has_to_yield;
        let has_use = pool.waiting.is_empty() || pool.waiting.has_alike(&self.tables.waiters, fingerprint);
        pool.limits.reset || is_always_checked || is_called || has_use
    }

    /// The keys of all pools, in table order.
    #[must_use]
    pub fn keys(&self) -> Vec<PoolKey> {
        self.pools.keys()
    }

    /// The limits of a pool.
    #[must_use]
    pub fn limits(&self, pool: PoolKey) -> Option<&Limits> {
        self.pools.get(pool).map(|pool| &pool.limits)
    }

    /// How many idle servers of a pool would be checked before they are lent (`sv_used` of PgBouncer's SHOW POOLS).
    #[must_use]
    pub fn aged(&self, now: Time, pool: PoolKey) -> u32 {
        let Some(pool) = self.pools.get(pool) else { return 0 };
        let idle = pool.servers.list(State::Idle).iter(&self.tables.slots);
        idle.filter(|(_, slot)| is_aged(slot, &pool.limits, now)).count() as u32
    }

    /// The pool of a server.
    #[must_use]
    pub fn pool_of(&self, server: ServerKey) -> Option<PoolKey> {
        self.tables.slots.get(server).map(|slot| slot.pool)
    }

    /// The state of a server; [`State::Free`] if there is no such server.
    #[must_use]
    pub fn state_of(&self, server: ServerKey) -> State {
        self.tables.slots.get(server).map_or(State::Free, |slot| slot.state)
    }

    /// Whether a server will be closed as soon as it is returned (`close_needed` of PgBouncer's SHOW SERVERS).
    #[must_use]
    pub fn is_obsolete(&self, server: ServerKey) -> bool {
        let Some(slot) = self.tables.slots.get(server) else { return false };
        self.pools.get(slot.pool).is_some_and(|pool| pool.is_obsolete(slot))
    }

    /// Queues a client for what it needs. A client that waits elsewhere leaves that queue, because it waits in one place only.
    fn waits(&mut self, now: Time, waiter: Waiter, out: &mut Vec<Command>) {
        let Waiter { client, pool: key, waiting_for, .. } = waiter;
        if let Some(waiter) = self.tables.waiters.at(client) {
            if (waiter.client, waiter.pool, waiter.waiting_for) == (client, key, waiting_for) {
                return;
            }
            self.with(waiter.pool, |pool, tables| pool.left(tables, waiter.client, waiter.waiting_for));
        }
        if self.pools.get(key).is_none() {
            out.push(Command::Refuse { client, why: Refusal::DatabaseRemoved });
            return;
        }
        self.with(key, |pool, tables| match waiting_for {
            WaitingFor::Server => pool.wants(now, tables, waiter, out),
            WaitingFor::Welcome => pool.greets(tables, waiter, out),
            WaitingFor::Dedicated => pool.wants_dedicated(tables, waiter, out),
        });
    }

    fn left(&mut self, key: PoolKey, client: ClientKey) {
        let Some(waiter) = self.tables.waiters.of(client).filter(|waiter| waiter.pool == key) else { return };
        self.with(key, |pool, tables| pool.left(tables, client, waiter.waiting_for));
    }

    fn dial_failed(&mut self, now: Time, server: ServerKey, failure: Failure, out: &mut Vec<Command>) {
        let Some(slot) = self.tables.slots.get(server) else { return };
        let (key, state, began, owner) = (slot.pool, slot.state, slot.born, slot.owner);
        self.free(now, server, Move::Lose, out);
        // If the server was given up while it was being dialed, its failure says nothing about the next login.
        match (state, owner) {
            (State::Dialing, _) => self.with(key, |pool, tables| pool.dial_failed(tables, began, failure, out)),
            (State::Dedicating, Some(owner)) => {
                self.with(key, |pool, tables| pool.dedicated_failed(tables, owner, began, failure, out));
            }
            _ => {}
        }
    }

    /// Removes a server by a move that frees its slot.
    fn free(&mut self, now: Time, server: ServerKey, by: Move, out: &mut Vec<Command>) {
        let Some(slot) = self.tables.slots.get(server) else { return };
        let (key, is_granted) = (slot.pool, slot.is_granted);
        let is_reset_failed = by == Move::Lose && slot.state == State::Cleaning(Work::Reset);
        let Some(pool) = self.pools.get_mut(key) else { return };
        if is_reset_failed {
            pool.logins.reset(true);
        }
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

    /// Settles the pools that the event touched, and those touched by settling them.
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

    /// Sets the alarm of a pool, or forgets the pool if it is over.
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

    /// Whether the plain ways are open, and no pool has to be settled.
    pub(crate) fn has_nothing_to_settle(&self) -> bool {
        has_plain_ways() && self.unsettled.is_empty()
    }

    /// Has a pool looked at by the next tick, which is due at once.
    pub(crate) fn wake(&mut self, key: PoolKey) {
        self.look_at(Time(0), key);
    }

    /// Has a pool looked at at this time.
    pub(crate) fn look_at(&mut self, time: Time, key: PoolKey) {
        if let Some(pool) = self.pools.get_mut(key) {
            self.agenda.ring_by(time, key, &mut pool.alarm);
        }
    }

    /// Runs `act` on a pool and queues the pool for settling.
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
