//! The state of a run and its course.
//!
//! Always true: time never goes back; a deadline of the pools comes before whatever is planned for the same time.
//! Not here: what clients do (`applications`), what servers do (`upstream`), events of the spec (`happenings`).

use std::collections::{BTreeMap, VecDeque};

use base::{Key, Slab, Time};
use pool::{Command, Event, Limits, PoolKey, Pools, ServerKey};

use super::applications::{Client, Process};
use super::clock::{Clock, Next};
use super::loans::Loan;
use super::outcome::Outcome;
use super::quota::Quota;
use super::sources::Sources;
use super::tally::{Areas, Counts, GroupTimes, ServerCounts, Slice};
use super::upstream::ServerRow;
use crate::load::{Dice, Times};
use crate::simulate::spec::{Behaviour, Group, Pooler, Roles, Spec};

/// Runs a spec by a seed. `goes_on` is asked now and then, with the share of the run that is over; when it says no, the run ends with
/// what is known.
pub(crate) fn run(spec: &Spec, seed: u64, goes_on: &mut dyn FnMut(f64) -> bool) -> Outcome {
    let mut run = Run::new(spec, seed);
    let mut steps = 0_u64;
    while let Some(at) = run.next_at().filter(|at| *at <= spec.duration) {
        run.step(at);
        steps += 1;
        if steps.is_multiple_of(STEPS_BETWEEN_LOOKS) && !goes_on(run.now as f64 / spec.duration as f64) {
            return Outcome::of(run, false);
        }
    }
    run.now = spec.duration;
    Outcome::of(run, true)
}

/// Runs a spec with the work of transactions that were measured; those that were not seen draw theirs by the laws of the spec.
pub(crate) fn run_with_work(spec: &Spec, seed: u64, work: &[Measured]) -> Outcome {
    let mut run = Run::new(spec, seed);
    for measured in work {
        run.measured.entry((measured.arrived, measured.tenant)).or_default().push(measured.held);
    }
    while let Some(at) = run.next_at().filter(|at| *at <= spec.duration) {
        run.step(at);
    }
    run.now = spec.duration;
    Outcome::of(run, true)
}

/// For how long a transaction had a server, by its arrival and its tenant. In microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Measured {
    pub(crate) arrived: u64,
    /// By its place among the tenants of all databases.
    pub(crate) tenant: u32,
    pub(crate) held: u64,
}

/// A run.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) spec: &'a Spec,
    pub(super) now: u64,
    pub(super) clock: Clock,
    pub(super) dice: Dice,
    pub(super) pools: Pools,
    pub(super) quota: Quota,
    pub(super) commands: VecDeque<Command>,
    /// Where the pools put their commands, before these join the others.
    pub(super) fresh: Vec<Command>,
    /// The settings in force, by database.
    pub(super) poolers: Vec<Pooler>,
    pub(super) tenants: Vec<Tenant>,
    pub(super) sources: Sources<'a>,
    pub(super) processes: Vec<Process>,
    pub(super) clients: Slab<Client>,
    /// By the index of the pool's key.
    pub(super) pool_rows: Vec<PoolRow>,
    /// By the index of the server's key.
    pub(super) servers: Vec<ServerRow>,
    /// How many statements run, and how many logins.
    pub(super) executing: u32,
    /// Servers that are dialed, open or being closed.
    pub(super) connections: u32,
    pub(super) down_until: u64,
    /// Since when the server has been down, while pools wait for it.
    pub(super) down_since: Option<u64>,
    pub(super) counts: Vec<Counts>,
    pub(super) areas: Areas,
    pub(super) login_cpu: f64,
    pub(super) waits: Times,
    pub(super) responses: Times,
    pub(super) app_waits: Times,
    pub(super) group_times: Vec<GroupTimes>,
    /// By tenant; empty if there are more than [`TENANTS_TIMED`].
    pub(super) tenant_waits: Vec<Times>,
    pub(super) slices: Vec<Slice>,
    /// The most servers of each database so far.
    pub(super) database_peak: Vec<u32>,
    pub(super) database_servers: Vec<u32>,
    pub(super) broken: Vec<String>,
    /// The loans that are over, if they are written down.
    pub(super) loans: Option<Vec<Loan>>,
    /// Since when no more are written down, because there are too many.
    pub(super) loans_until: Option<u64>,
    pub(super) clients_peak: u32,
    /// Measured times for which transactions have a server, by arrival and tenant.
    pub(super) measured: BTreeMap<(u64, u32), Vec<u64>>,
    /// What was counted when the warm-up ended.
    pub(super) before: Option<Before>,
}

/// The counters at the end of the warm-up.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) counts: Vec<Counts>,
    pub(super) servers: Vec<ServerCounts>,
    pub(super) areas: Areas,
    pub(super) login_cpu: f64,
}

/// A tenant.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) group: u32,
    pub(super) user: u32,
    pub(super) pool: Option<PoolKey>,
    /// The processes that get new transactions.
    pub(super) processes: Vec<u32>,
}

/// A pool that has been opened.
#[derive(Debug)]
pub(super) struct PoolRow {
    pub(super) key: PoolKey,
    pub(super) database: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    /// The only tenant of the pool, if it has one alone.
    pub(super) tenant: Option<u32>,
    pub(super) counts: ServerCounts,
    /// Servers whose login is complete.
    pub(super) open: u64,
    pub(super) dialing: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(spec: &'a Spec, seed: u64) -> Self {
        let mut run = Self {
            spec,
            now: 0,
            clock: Clock::default(),
            dice: Dice::new(seed, 2),
            pools: Pools::new(seed),
            quota: Quota::new(),
            commands: VecDeque::new(),
            fresh: Vec::new(),
            poolers: spec.databases.iter().map(|database| database.pooler.clone()).collect(),
            tenants: Vec::new(),
            sources: Sources::new(seed),
            processes: Vec::new(),
            clients: Slab::with_capacity(CLIENTS_MAX),
            pool_rows: Vec::new(),
            servers: Vec::new(),
            executing: 0,
            connections: 0,
            down_until: 0,
            down_since: None,
            counts: Vec::new(),
            areas: Areas::default(),
            login_cpu: 0.0,
            waits: Times::new(3),
            responses: Times::new(3),
            app_waits: Times::new(3),
            group_times: Vec::new(),
            tenant_waits: Vec::new(),
            slices: vec![Slice::default(); SLICES],
            database_peak: vec![0; spec.databases.len()],
            database_servers: vec![0; spec.databases.len()],
            broken: Vec::new(),
            loans: None,
            loans_until: None,
            clients_peak: 0,
            measured: BTreeMap::new(),
            before: None,
        };
        run.set_up();
        run
    }

    fn set_up(&mut self) {
        let mut users = 0;
        for (number, database) in self.spec.databases.iter().enumerate() {
            let in_database = database.groups.iter().map(|group| group.tenants).sum();
            self.pools.set_database_limit(number as u32, database.pooler.database_limit(in_database));
            for group in &database.groups {
                self.add_group(number as u32, group, &mut users);
            }
        }
        if self.tenants.len() <= TENANTS_TIMED {
            self.tenant_waits = self.tenants.iter().map(|_| Times::new(2)).collect();
        }
        for (index, event) in self.spec.events.iter().enumerate() {
            self.clock.plan(event.at, Next::Happening { index: index as u32 });
        }
        if self.poolers.iter().any(|pooler| pooler.behaviour == Behaviour::PgBouncer117) {
            self.clock.plan(MINIMUM_ROUND, Next::MinimumRound);
        }
        self.clock.plan(self.spec.warm_up, Next::WarmUpEnds);
    }

    fn add_group(&mut self, database: u32, group: &'a Group, users: &mut u32) {
        let number = self.sources.add_group(database, group, self.tenants.len() as u32, &mut self.clock);
        self.group_times.push(GroupTimes { waits: Times::new(2), responses: Times::new(2) });
        for tenant in 0..group.tenants {
            *users += u32::from(tenant == 0 || group.roles == Roles::Each);
            let index = self.tenants.len() as u32;
            let first = self.processes.len() as u32;
            let application = group.application;
            self.processes.extend((0..application.processes).map(|_| Process::new(index, application)));
            let processes = (first..self.processes.len() as u32).collect();
            self.tenants.push(Tenant { group: number, user: *users - 1, pool: None, processes });
            self.counts.push(Counts::default());
        }
    }

    /// When something happens next.
    pub(super) fn next_at(&self) -> Option<u64> {
        let deadline = self.pools.next_deadline().map(|deadline| deadline.0.max(self.now));
        match (self.clock.next_at(), deadline) {
            (Some(planned), Some(deadline)) => Some(planned.min(deadline)),
            (planned, deadline) => planned.or(deadline),
        }
    }

    /// What happens at this time, which is the next one.
    pub(super) fn step(&mut self, at: u64) {
        self.now = at;
        self.areas.advance(at);
        if self.pools.next_deadline().is_some_and(|deadline| deadline.0 <= at) {
            self.handle(Event::Tick);
        } else if let Some((_, next)) = self.clock.pop() {
            self.happens(next);
        }
        while let Some(command) = self.commands.pop_front() {
            self.carry_out(command);
        }
    }

    fn happens(&mut self, next: Next) {
        match next {
            Next::Arrival { source, epoch } => {
                if let Some(tenant) = self.sources.arrives(self.now, source, epoch, &mut self.clock) {
                    self.arrive(tenant, None);
                }
            }
            Next::State { source } => self.sources.next_state(self.now, source, &mut self.clock),
            Next::User { source, user } => self.arrive(self.sources.tenant_of(source, user), Some((source, user))),
            Next::StormClient { process } => self.storm_client(process),
            Next::ClientLoggedIn { client } => self.client_logged_in(client),
            Next::Step { client } => self.step_ends(client),
            Next::ClientIdle { client } => self.client_idles(client),
            Next::ServerLogin { server } => self.server_login_ends(server),
            Next::ServerClean { server } => self.handle(Event::Cleaned { server }),
            Next::ServerClosed { server } => self.server_closed(server),
            Next::Happening { index } => self.begin_happening(index),
            Next::HappeningEnds { index } => self.end_happening(index),
            Next::ProcessEnds { process } => self.process_ends(process),
            Next::MinimumRound => self.minimum_round(),
            Next::TryAgain => self.try_again(),
            Next::WarmUpEnds => {
                self.before = Some(Before {
                    counts: self.counts.clone(),
                    servers: self.pool_rows.iter().map(|row| row.counts).collect(),
                    areas: self.areas,
                    login_cpu: self.login_cpu,
                });
            }
        }
    }

    /// Passes an event to the pools.
    pub(super) fn handle(&mut self, event: Event) {
        let mut fresh = std::mem::take(&mut self.fresh);
        self.pools.handle(Time(self.now), event, &mut fresh);
        self.commands.extend(fresh.drain(..));
        self.fresh = fresh;
    }

    /// The pool of a tenant, which is opened when its first client needs it.
    pub(super) fn pool_of(&mut self, tenant: u32) -> PoolKey {
        let row = &self.tenants[tenant as usize];
        if let Some(pool) = row.pool {
            return pool;
        }
        let (number, user) = (row.group, row.user);
        let group = &self.sources.groups[number as usize];
        let (database, first, is_alone) = (group.database, group.first_tenant, group.group.roles == Roles::Each);
        let members = if is_alone { tenant..tenant + 1 } else { first..first + group.group.tenants };
        let pooler = &self.poolers[database as usize];
        let limits: Limits = pooler.limits;
        if pooler.user_max > 0 {
            self.quota.limit(user, pooler.user_max);
            self.pools.set_user_limit(user, true);
        }
        let key = self.pools.open(Time(self.now), database, user, limits);
        debug_assert_eq!(key.index as usize, self.pool_rows.len(), "no pool is ever closed");
        self.pool_rows.push(PoolRow {
            key,
            database,
            user,
            group: number,
            tenant: is_alone.then_some(tenant),
            counts: ServerCounts::default(),
            open: 0,
            dialing: 0,
        });
        for member in members {
            self.tenants[member as usize].pool = Some(key);
        }
        key
    }

    pub(super) fn row_of(&mut self, pool: PoolKey) -> &mut PoolRow {
        &mut self.pool_rows[pool.index as usize]
    }

    /// The part of the run that a transaction belongs to which arrived then; `None` in the warm-up.
    pub(super) fn slice_of(&mut self, arrived: u64) -> Option<&mut Slice> {
        let counted = arrived.checked_sub(self.spec.warm_up)?;
        let length = (self.spec.duration - self.spec.warm_up).div_ceil(SLICES as u64).max(1);
        self.slices.get_mut((counted / length) as usize)
    }

    /// Notes how long a client has waited in the pooler.
    pub(super) fn note_wait(&mut self, tenant: usize, waited: u64) {
        self.waits.note(waited);
        self.group_times[self.tenants[tenant].group as usize].waits.note(waited);
        if let Some(waits) = self.tenant_waits.get_mut(tenant) {
            waits.note(waited);
        }
    }

    /// Notes something that must never be.
    pub(super) fn breaks(&mut self, what: String) {
        if self.broken.len() < BROKEN_MAX {
            self.broken.push(what);
        }
    }

    /// The server row of a key, if it is that server's.
    pub(super) fn server(&mut self, key: ServerKey) -> Option<&mut ServerRow> {
        self.servers.get_mut(key.index as usize).filter(|row| row.key == key)
    }

    /// The client of a key.
    pub(super) fn client(&mut self, key: Key) -> Option<&mut Client> {
        self.clients.get_mut(key)
    }
}

/// A run is asked whether it goes on some hundred times a second.
pub(super) const STEPS_BETWEEN_LOOKS: u64 = 1 << 15;
/// Clients of the pooler at once; one more is refused.
const CLIENTS_MAX: u32 = 2_000_000;
/// As many parts of a run as batches need that are made twice as long a few times.
pub(crate) const SLICES: usize = 320;
/// The time between two rounds of PgBouncer's maintenance.
pub(super) const MINIMUM_ROUND: u64 = 333_333;
const BROKEN_MAX: usize = 20;
/// More tenants are not told apart by percentiles.
const TENANTS_TIMED: usize = 256;
