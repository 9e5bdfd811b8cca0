//! One pool: what it does with its own servers and its own clients.
//!
//! Always true: a client waits only while no server can be lent to it, and a server is idle only while no client waits for
//! it. [`Pool::serve`] restores this before an event is over.
//! Not here: the limits shared with other pools (`share`), passing events to pools (`pools`).

use std::time::Duration;

use base::{Random, Slab, Time, earliest};

use crate::dial::Logins;
use crate::pick::{Pick, pick};
use crate::planted::{all_of, closed_for_age, keeps_from_dialing, size};
use crate::pool_servers::PoolServers;
use crate::queue::{Queue, Waiter, Waiters, WaitingFor};
use crate::quotas::Demand;
use crate::slot::{Move, Slot, State, Work};
use crate::wanted::{Source, Wanted};
use crate::why::WaitMeter;
use crate::{
    ClientKey, CloseReason, Command, Failure, FailureKind, Fingerprint, Limits, Note, PoolKey, Refusal, Return,
    ServerKey, Snapshot, WaitReason,
};

/// The slots and waiting clients of all pools of a worker.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) slots: Slab<Slot>,
    pub(crate) waiters: Waiters,
    pub(crate) random: Random,
}

/// The servers and the waiting clients of one (database, user).
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) key: PoolKey,
    pub(crate) database: u32,
    pub(crate) user: u32,
    pub(crate) limits: Limits,
    pub(crate) servers: PoolServers,
    pub(crate) waiting: Queue,
    pub(crate) greeting: Queue,
    /// The clients that wait for a dedicated server.
    pub(crate) dedicated: Queue,
    pub(crate) demand: Demand,
    /// When the agenda wakes this pool.
    pub(crate) alarm: Option<Time>,
    /// The database was removed or killed; the pool is forgotten together with its last server.
    pub(crate) is_closed: bool,
    pub(crate) logins: Logins,
    /// Incremented by [`Pool::retire`]. A server of an earlier era is obsolete.
    pub(crate) era: u32,
    /// No server is closed for its age before this time, so that servers opened together are not closed together.
    expiry_from: Time,
    /// No idle server exceeds its lifetime before this time. It may be too early, never too late.
    pub(crate) expiry_look: Option<Time>,
    /// No login for `min_pool_size`, or for a server that has moved, begins before this time.
    minimum_from: Time,
    /// How many servers are to be opened in the place of those that have moved to another host.
    pub(crate) moved: u32,
    /// An operator has paused the pool: no client gets a server, and returned ones are closed for this reason.
    paused: Option<CloseReason>,
    /// The next server that is returned is closed in favour of a starving pool of the same database.
    pub(crate) has_to_yield: bool,
    /// How long the last login took.
    pub(crate) login_took: Duration,
    /// When the last login was completed.
    pub(crate) logged_in_at: Time,
    /// A lent server that does not count against the size of the pool.
    pub(crate) outside_size: Option<ServerKey>,
    /// Measures how long clients wait here, by reason.
    pub(crate) waits: WaitMeter,
    /// The largest number of servers that were lent at once.
    peak_lent: u32,
}

impl Pool {
    pub(crate) fn new(key: PoolKey, database: u32, user: u32, limits: Limits) -> Self {
        Self {
            key,
            database,
            user,
            limits,
            servers: PoolServers::default(),
            waiting: Queue::default(),
            greeting: Queue::default(),
            dedicated: Queue::default(),
            demand: Demand::default(),
            alarm: None,
            is_closed: false,
            logins: Logins::default(),
            era: crate::imported::FIRST_ERA,
            expiry_from: Time(0),
            expiry_look: None,
            minimum_from: Time(0),
            moved: 0,
            paused: None,
            has_to_yield: false,
            login_took: Duration::ZERO,
            logged_in_at: Time(0),
            outside_size: None,
            waits: WaitMeter::default(),
            peak_lent: 0,
        }
    }

    /// Queues a client for a server, or refuses it. The client must not wait anywhere yet.
    pub(crate) fn wants(&mut self, now: Time, tables: &mut Tables, waiter: Waiter, out: &mut Vec<Command>) {
        match self.refusal(now, tables) {
            Some(why) => out.push(Command::Refuse { client: waiter.client, why }),
            None => self.waiting.join(&mut tables.waiters, waiter),
        }
    }

    /// Queues a client for the parameters of a first login. The client must not wait anywhere yet.
    pub(crate) fn greets(&mut self, tables: &mut Tables, waiter: Waiter, out: &mut Vec<Command>) {
        let client = waiter.client;
        if self.is_closed {
            out.push(Command::Refuse { client, why: Refusal::DatabaseRemoved });
        } else if self.logins.is_welcomed() {
            out.push(Command::Welcome { client });
        } else {
            self.greeting.join(&mut tables.waiters, waiter);
        }
    }

    /// Removes a client from its queue.
    pub(crate) fn left(&mut self, tables: &mut Tables, client: ClientKey, waiting_for: WaitingFor) {
        match waiting_for {
            WaitingFor::Server => self.waiting.leave(&mut tables.waiters, client),
            WaitingFor::Welcome => self.greeting.leave(&mut tables.waiters, client),
            WaitingFor::Dedicated => self.dedicated.leave(&mut tables.waiters, client),
        }
    }

    /// Begins a login.
    pub(crate) fn dial(
        &mut self,
        now: Time,
        tables: &mut Tables,
        wanted: Wanted,
        is_granted: bool,
        out: &mut Vec<Command>,
    ) {
        let mut slot = Slot::new(self.key, now, self.era, is_granted);
        match wanted {
            Wanted::Client(_) => {}
            Wanted::Dedicated(_) => slot.owner = self.next_owner(tables),
            Wanted::Minimum | Wanted::Moved => self.minimum_from = now + MINIMUM_PACE,
        }
        self.moved = self.moved.saturating_sub(1);
        if let Wanted::Client(Source::Reserve) | Wanted::Dedicated(Source::Reserve) = wanted {
            out.push(Command::Note(Note::ReserveTaken { pool: self.key }));
        }
        let owner = slot.owner.map(|owner| owner.client);
        let has_own_place = owner.is_some() && self.limits.dedicated_max.is_some();
        let server = self.servers.dial(&mut tables.slots, slot);
        debug_assert!(has_own_place || self.limits.ceiling().is_none_or(|ceiling| self.counted(tables) <= ceiling));
        out.push(Command::Dial { pool: self.key, server, owner, why: wanted.reason() });
    }

    /// Handles a completed login.
    pub(crate) fn ready(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        if !self.servers.shift(&mut tables.slots, server, Move::Ready, now) {
            self.dedicated_ready(now, tables, server, out);
            return;
        }
        let slot = tables.slots.get_mut(server).expect("it has just moved");
        (self.login_took, self.logged_in_at) = (now.since(slot.born), now);
        slot.born = now;
        self.logins.succeeded();
        while let Some(waiter) = self.greeting.pop(&mut tables.waiters) {
            out.push(Command::Welcome { client: waiter.client });
        }
        self.lend_or_rest(now, tables, server, out);
    }

    /// Handles a failed login, whose slot is free already. If the server refused the login and no other server can serve the
    /// waiting clients, they are refused with the server's error.
    pub(crate) fn dial_failed(&mut self, tables: &mut Tables, began: Time, failure: Failure, out: &mut Vec<Command>) {
        let is_final = failure.kind == FailureKind::Refused && !self.has_future(tables);
        self.logins.failed(failure.clone(), began, &mut tables.random);
        if is_final {
            self.refuse_all(tables, &Refusal::LoginFailed(failure), out);
        }
    }

    /// Handles the end of a loan.
    pub(crate) fn returned(
        &mut self,
        now: Time,
        tables: &mut Tables,
        server: ServerKey,
        (as_, fingerprint): (Return, Fingerprint),
        out: &mut Vec<Command>,
    ) {
        self.count_again(server);
        if let Some(slot) = tables.slots.get_mut(server) {
            slot.fingerprint = fingerprint;
        }
        if as_ == Return::Cleanup {
            self.servers.shift(&mut tables.slots, server, Move::Work(Work::Cleanup), now);
            return;
        }
        let Some(slot) = tables.slots.get(server).filter(|slot| slot.state == State::Lent) else { return };
        if let Some(why) = self.fault_of(slot, now) {
            self.expire(now, tables, server, why, out);
        } else if self.limits.reset {
            self.servers.shift(&mut tables.slots, server, Move::Work(Work::Reset), now);
            out.push(Command::Reset { server });
        } else {
            self.servers.shift(&mut tables.slots, server, Move::Return, now);
            self.rest(tables, server);
        }
    }

    /// Handles a successful reset, check or cleanup of a server.
    pub(crate) fn cleaned(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        let Some(slot) = tables.slots.get(server).filter(|slot| matches!(slot.state, State::Cleaning(_))) else {
            return;
        };
        if slot.state == State::Cleaning(Work::Reset) {
            self.logins.reset(false);
        }
        match self.fault_of(slot, now) {
            Some(CloseReason::CloseNeeded) => self.expire(now, tables, server, CloseReason::Obsolete, out),
            Some(why) => self.expire(now, tables, server, why, out),
            None => {
                // If every loan begins with a check (`server_check_delay = 0`), so does the first one after a cleanup.
                let is_always_checked = self.limits.check_after.is_some_and(|after| after.is_zero());
                let is_unchecked = slot.state == State::Cleaning(Work::Cleanup) && is_always_checked;
                self.servers.shift(&mut tables.slots, server, Move::Clean, now);
                if is_unchecked {
                    self.rest(tables, server);
                } else {
                    self.lend_or_rest(now, tables, server, out);
                }
            }
        }
    }

    /// Pauses the pool: no client gets a server before [`Pool::resume`], and waiting clients keep waiting.
    pub(crate) fn pause(&mut self, now: Time, tables: &mut Tables, why: CloseReason, out: &mut Vec<Command>) {
        (self.paused, self.moved) = (Some(why), 0);
        for state in [State::Dialing, State::Idle] {
            while let Some(server) = self.servers.list(state).oldest() {
                self.expire(now, tables, server, why, out);
            }
        }
        while let Some(server) = self.servers.list(State::Dedicating).oldest() {
            self.renounce(now, tables, server, why, out);
        }
    }

    /// Ends the pause.
    pub(crate) fn resume(&mut self) {
        self.paused = None;
    }

    /// Returns whether an operator has paused the pool.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns whether that is because its primary changes or restarts.
    pub(crate) fn is_held(&self) -> bool {
        self.paused == Some(CloseReason::Held)
    }

    /// Closes the pool, because its database was removed or killed: refuses all waiting clients and closes all servers.
    pub(crate) fn close(&mut self, now: Time, tables: &mut Tables, why: CloseReason, out: &mut Vec<Command>) {
        self.is_closed = true;
        self.refuse_all(tables, &Refusal::DatabaseRemoved, out);
        for server in self.servers.keys_staying(&tables.slots) {
            if let Some(Slot { state: State::Dedicating, owner: Some(owner), .. }) = tables.slots.get(server) {
                out.push(Command::Refuse { client: owner.client, why: Refusal::DatabaseRemoved });
            }
            self.expire(now, tables, server, why, out);
        }
    }

    /// Applies changed limits.
    pub(crate) fn set_limits(&mut self, now: Time, tables: &mut Tables, limits: Limits, out: &mut Vec<Command>) {
        self.limits = limits;
        self.trim(now, tables, out);
        self.look_for_expiry(tables);
    }

    /// Closes idle servers above the ceiling of the pool.
    pub(crate) fn trim(&mut self, now: Time, tables: &mut Tables, out: &mut Vec<Command>) {
        while self.is_over_ceiling() {
            let Some(server) = self.servers.list(State::Idle).oldest() else { break };
            self.expire(now, tables, server, CloseReason::TooManyServers, out);
        }
    }

    /// Closes the server that has been idle longest, in favour of another pool.
    pub(crate) fn evict(&mut self, now: Time, tables: &mut Tables, out: &mut Vec<Command>) {
        if let Some(server) = self.servers.list(State::Idle).oldest() {
            self.expire(now, tables, server, CloseReason::Evicted, out);
        }
    }

    /// Handles passed deadlines: refuses clients after `query_wait_timeout`, closes servers after `server_lifetime` or
    /// `server_idle_timeout`.
    pub(crate) fn tick(&mut self, now: Time, tables: &mut Tables, out: &mut Vec<Command>) {
        // One reason for all of them: refusing the first client does not change what the others waited for.
        let why = self.waits_for(tables).unwrap_or(WaitReason::NoneFree);
        while self.wait_deadline(tables).is_some_and(|due| due <= now) {
            let Some(waiter) = self.waiting.pop(&mut tables.waiters) else { break };
            out.push(Command::Refuse { client: waiter.client, why: Refusal::QueryWaitTimeout(why) });
        }
        if self.expiry_look.is_some_and(|due| due <= now) {
            self.expire_the_old(now, tables, out);
        }
        while self.idle_deadline(tables).is_some_and(|due| due <= now) {
            let Some(server) = self.servers.list(State::Idle).oldest() else { break };
            self.expire(now, tables, server, CloseReason::IdleTooLong, out);
        }
    }

    /// Lends idle servers to waiting clients, in the order of the wait queue.
    pub(crate) fn serve(&mut self, now: Time, tables: &mut Tables, out: &mut Vec<Command>) {
        self.make_room(now, tables, out);
        while !self.waiting.is_empty() {
            let wanted = self.waiting.first(&tables.waiters).map(|waiter| waiter.fingerprint).unwrap_or_default();
            match pick(self.servers.list(State::Idle), &tables.slots, &self.limits, wanted, now) {
                Some(Pick::Fresh(server)) => self.attach(now, tables, server, out),
                Some(Pick::Aged(server)) if self.waiting.len() > self.servers.coming() => {
                    self.servers.shift(&mut tables.slots, server, Move::Work(Work::Check), now);
                    out.push(Command::Check { server });
                }
                _ => return,
            }
        }
    }

    /// The login that the pool would begin now by its own limits alone.
    pub(crate) fn wanted(&self, now: Time, tables: &Tables) -> Option<Wanted> {
        if !self.needs_logins() {
            return None;
        }
        let (dialing, total) = (self.servers.count(State::Dialing), self.counted(tables));
        let in_flight = dialing + self.servers.count(State::Dedicating);
        let is_open = !self.is_closed && !keeps_from_dialing(self.is_paused());
        if !is_open || !self.logins.may_begin(in_flight, &self.limits, now) {
            return None;
        }
        let has_place = self.limits.servers_max == 0 || size(total, dialing) < self.limits.servers_max;
        let place = match has_place {
            true => Some(Source::Size),
            false => self.may_take_reserve(now, tables).then_some(Source::Reserve),
        };
        let dedicated = self.dedicated_place(tables, place).map(Wanted::Dedicated);
        if self.is_dedicated_first(tables) && dedicated.is_some() {
            return dedicated;
        }
        if dialing < self.logins_missed() {
            return place.map(Wanted::Client).or(dedicated);
        }
        if dedicated.is_some() {
            return dedicated;
        }
        let is_spare_due = has_place && dialing == 0 && now >= self.minimum_from;
        self.spare().filter(|_| is_spare_due)
    }

    /// Postpones the next login for `min_pool_size`.
    pub(crate) fn put_off_minimum(&mut self, now: Time) {
        self.minimum_from = now + MINIMUM_PAUSE;
    }

    /// When the pool must be looked at again if no event comes first. A demand that is held back only by a limit has no
    /// deadline, because only an event can make room.
    pub(crate) fn deadline(&self, now: Time, tables: &Tables) -> Option<Time> {
        let ahead = |time: Option<Time>| time.filter(|time| *time > now);
        let retry = if self.needs_logins() { ahead(self.logins.retry_at(&self.limits)) } else { None };
        let minimum = if self.spare().is_some() { ahead(Some(self.minimum_from)) } else { None };
        earliest([
            self.wait_deadline(tables),
            self.idle_deadline(tables),
            self.expiry_look,
            retry,
            minimum,
            ahead(self.reserve_from(tables)),
            ahead(self.starves_from(tables)),
        ])
    }

    /// Whether the pool can be forgotten.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closed && self.servers.total() == 0
    }

    /// Whether an idle server of this pool may be evicted for another pool. A pool with waiting clients of its own would
    /// only want it back.
    pub(crate) fn may_be_evicted(&self) -> bool {
        self.waiting.is_empty() && self.servers.count(State::Idle) > 0
    }

    /// Whether the pool has no server and its first client has waited for [`STARVING`], so that another pool of the same
    /// database has to give one up. A server outside the size does not count, because it serves no waiting client.
    pub(crate) fn starves(&self, now: Time, tables: &Tables) -> bool {
        self.starves_from(tables).is_some_and(|from| from <= now)
    }

    fn starves_from(&self, tables: &Tables) -> Option<Time> {
        let is_in_line =
            matches!(self.demand, Demand::Room { .. }) && self.servers.staying() == self.outside_size_count();
        let since = first_since([&self.waiting, &self.greeting, &self.dedicated], tables).filter(|_| is_in_line)?;
        Some(since + STARVING)
    }

    /// Since when the longest idle server of the pool has been idle.
    pub(crate) fn idle_since(&self, tables: &Tables) -> Option<Time> {
        let oldest = self.servers.list(State::Idle).oldest()?;
        tables.slots.get(oldest).map(|slot| slot.since)
    }

    /// Whether a server of this pool will be closed as soon as it is returned.
    pub(crate) fn is_obsolete(&self, slot: &Slot) -> bool {
        slot.era < self.era
    }

    pub(crate) fn snapshot(&self, now: Time, tables: &Tables) -> Snapshot {
        let count = |state| self.servers.count(state);
        Snapshot {
            database: self.database,
            user: self.user,
            limits: self.limits,
            waiting: self.waiting.len(),
            greeting: self.greeting.len(),
            dedicated_waiting: self.dedicated.len(),
            waiting_since: first_since([&self.waiting, &self.dedicated], tables),
            dialing: count(State::Dialing),
            idle: count(State::Idle),
            lent: count(State::Lent),
            cleaning: count(State::Cleaning(Work::Reset)) + count(State::Cleaning(Work::Cleanup)),
            checking: count(State::Cleaning(Work::Check)),
            dedicating: count(State::Dedicating),
            bound: count(State::Dedicated),
            closing: count(State::Closing),
            dedicated: self.servers.dedicated(&tables.slots),
            is_welcomed: self.logins.is_welcomed(),
            failure: self.logins.failure().cloned(),
            waits_for: self.waits_for(tables),
            waited: self.waits.so_far(now),
            peak_lent: self.peak_lent,
        }
    }

    /// Lends a server that has just become idle to the first waiting client, or leaves it idle, or closes it.
    fn lend_or_rest(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        if self.is_over_ceiling() {
            self.expire(now, tables, server, CloseReason::TooManyServers, out);
        } else if self.waiting.is_empty() || self.is_dedicated_stuck(now, tables) {
            self.rest(tables, server);
        } else {
            self.attach(now, tables, server, out);
        }
    }

    fn attach(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        let fingerprint = tables.slots.get(server).map(|slot| slot.fingerprint).unwrap_or_default();
        let Some(waiter) = self.waiting.pop_alike(&mut tables.waiters, fingerprint) else { return };
        self.lends(now, tables, server);
        out.push(Command::Attach { client: waiter.client, server, waited: now.since(waiter.since) });
    }

    /// An idle server is lent.
    pub(crate) fn lends(&mut self, now: Time, tables: &mut Tables, server: ServerKey) {
        let is_idle = tables.slots.get(server).is_some_and(|slot| slot.state == State::Idle);
        assert!(is_idle, "only an idle server is lent");
        self.servers.shift_from(&mut tables.slots, server, State::Idle, Move::Attach, now);
        self.peak_lent = self.peak_lent.max(self.servers.count(State::Lent));
    }

    /// Notes when a server that has just become idle will exceed its lifetime.
    pub(crate) fn rest(&mut self, tables: &Tables, server: ServerKey) {
        let due = tables.slots.get(server).and_then(|slot| self.expiry_of(slot));
        self.expiry_look = earliest([self.expiry_look, due]);
    }

    pub(crate) fn expire(
        &mut self,
        now: Time,
        tables: &mut Tables,
        server: ServerKey,
        why: CloseReason,
        out: &mut Vec<Command>,
    ) {
        self.count_again(server);
        self.has_to_yield &= why != CloseReason::Evicted;
        if why == CloseReason::LifetimeOver && !self.limits.is_single_use() {
            self.expiry_from = now + self.expiry_gap();
        }
        if self.servers.shift(&mut tables.slots, server, Move::Expire, now) {
            out.push(Command::Close { server, why });
        }
    }

    /// Closes idle servers that have exceeded their lifetime, the oldest first.
    fn expire_the_old(&mut self, now: Time, tables: &mut Tables, out: &mut Vec<Command>) {
        while let Some(server) = self.oldest_expired(now, tables) {
            self.expire(now, tables, server, CloseReason::LifetimeOver, out);
        }
        self.look_for_expiry(tables);
    }

    fn oldest_expired(&self, now: Time, tables: &Tables) -> Option<ServerKey> {
        let all = closed_for_age(&self.servers, &tables.slots);
        let expired = all.filter(|(_, slot)| self.expiry_of(slot).is_some_and(|due| due <= now));
        expired.min_by_key(|(key, slot)| (slot.born, *key)).map(|(key, _)| key)
    }

    fn look_for_expiry(&mut self, tables: &Tables) {
        let idle = self.servers.list(State::Idle).iter(&tables.slots);
        self.expiry_look = idle.filter_map(|(_, slot)| self.expiry_of(slot)).min();
    }

    fn refuse_all(&mut self, tables: &mut Tables, why: &Refusal, out: &mut Vec<Command>) {
        for queue in [&mut self.waiting, &mut self.greeting, &mut self.dedicated] {
            let waiters = std::iter::from_fn(|| queue.pop(&mut tables.waiters));
            out.extend(all_of(waiters).map(|waiter| Command::Refuse { client: waiter.client, why: why.clone() }));
        }
    }

    fn refusal(&self, now: Time, tables: &Tables) -> Option<Refusal> {
        if self.is_closed {
            return Some(Refusal::DatabaseRemoved);
        }
        let failure = self.logins.refusal(&self.limits, now)?;
        let has_hope = self.is_paused() || self.servers.count(State::Dialing) > 0 || self.has_future(tables);
        (!has_hope).then(|| Refusal::LoginFailing(failure.clone()))
    }

    /// Whether the pool has a server that will serve another client. An obsolete server does not, because it is closed when it
    /// is returned.
    fn has_future(&self, tables: &Tables) -> bool {
        let is_usable =
            |state| !matches!(state, State::Dialing | State::Closing | State::Dedicating | State::Dedicated);
        let is_coming = |slot: &Slot| is_usable(slot.state) && !self.is_obsolete(slot);
        // The server outside the size serves no waiting client.
        let mut others = self.servers.iter(&tables.slots).filter(|(key, _)| self.outside_size != Some(*key));
        self.servers.usable() > 0 && others.any(|(_, slot)| is_coming(slot))
    }

    /// Why a returned server must be closed, if it must.
    pub(crate) fn fault_of(&self, slot: &Slot, now: Time) -> Option<CloseReason> {
        let was_used = slot.state != State::Cleaning(Work::Check);
        let is_too_old = match self.limits.is_single_use() {
            true => was_used,
            false => self.expiry_of(slot).is_some_and(|due| due <= now),
        };
        if is_too_old {
            Some(CloseReason::LifetimeOver)
        } else if self.is_obsolete(slot) {
            Some(CloseReason::CloseNeeded)
        } else if self.is_paused() {
            self.paused
        } else if self.is_over_ceiling() {
            Some(CloseReason::TooManyServers)
        } else if self.has_to_yield && now.since(slot.born) >= STARVING {
            Some(CloseReason::Evicted)
        } else {
            None
        }
    }

    /// When a server exceeds its lifetime. A server for a single loan is closed after that loan and never for its age.
    pub(crate) fn expiry_of(&self, slot: &Slot) -> Option<Time> {
        let lifetime = self.limits.lifetime_max.filter(|lifetime| !lifetime.is_zero())?;
        Some((slot.born + lifetime).max(self.expiry_from))
    }

    /// The time between two closings for age, such that all servers of a full pool are closed within one lifetime.
    fn expiry_gap(&self) -> Duration {
        let servers = self.limits.servers_max.max(self.servers.staying()).max(1);
        self.limits.lifetime_max.unwrap_or_default() / servers
    }

    fn is_over_ceiling(&self) -> bool {
        let staying = if self.limits.dedicated_max.is_some() { self.servers.shared() } else { self.servers.staying() };
        self.limits.ceiling().is_some_and(|ceiling| staying - self.outside_size_count() > ceiling)
    }

    /// Whether another server would help a client, or is due by `min_pool_size`.
    fn needs_logins(&self) -> bool {
        self.logins_missed() > 0 || self.spare().is_some() || !self.dedicated.is_empty()
    }

    /// How many logins would each help a client: one for each waiting client beyond the servers that are about to become
    /// idle, and one for all clients that wait to be greeted.
    fn logins_missed(&self) -> u32 {
        self.waiting.len().saturating_sub(self.servers.coming()) + u32::from(!self.greeting.is_empty())
    }

    /// Whether the next login may use the reserve pool: the first client has waited for `reserve_pool_timeout`, and no other
    /// login is in flight.
    fn may_take_reserve(&self, now: Time, tables: &Tables) -> bool {
        let has_place = self.limits.ceiling().is_some_and(|ceiling| self.counted(tables) < ceiling);
        let is_alone = self.servers.count(State::Dialing) + self.servers.count(State::Dedicating) == 0;
        has_place && is_alone && self.reserve_from(tables).is_some_and(|from| from <= now)
    }

    /// When the first client will have waited for `reserve_pool_timeout`.
    pub(crate) fn reserve_from(&self, tables: &Tables) -> Option<Time> {
        let after = self.limits.reserve_after.filter(|_| self.limits.reserve_max > 0 && self.limits.servers_max > 0)?;
        Some(first_since([&self.waiting, &self.greeting, &self.dedicated], tables)? + after)
    }

    pub(crate) fn wait_deadline(&self, tables: &Tables) -> Option<Time> {
        Some(self.waiting.first(&tables.waiters)?.since + self.limits.wait_max?)
    }

    fn idle_deadline(&self, tables: &Tables) -> Option<Time> {
        let idle_max = self.limits.idle_max.filter(|_| self.servers.shared() > self.limits.servers_min)?;
        Some(self.idle_since(tables)? + idle_max)
    }
}

/// A pool without servers whose first client has waited for this long gets a server of a busy pool, and keeps it for at least
/// as long. So pools that share too few servers take turns, with at most one login per server in this time.
const STARVING: Duration = Duration::from_secs(1);

/// The time between two logins for `min_pool_size`, so that a host which closes every connection is not dialed in a tight
/// loop. PgBouncer checks its minimum in the same interval.
const MINIMUM_PACE: Duration = Duration::from_millis(333);

/// How long logins for `min_pool_size` are postponed after the ledger denied one, or while a client needs the database
/// without other connections. PostgreSQL waits as long for other connections to go (`CountOtherDBBackends`).
const MINIMUM_PAUSE: Duration = Duration::from_secs(5);

/// Since when the first client of several queues has waited.
pub(crate) fn first_since<const N: usize>(queues: [&Queue; N], tables: &Tables) -> Option<Time> {
    queues.into_iter().filter_map(|queue| queue.first(&tables.waiters)).map(|waiter| waiter.since).min()
}
