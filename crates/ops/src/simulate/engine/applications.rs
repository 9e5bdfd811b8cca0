//! The applications: processes with pools of connections to the pooler, and the transactions on these connections.
//!
//! Always true: a transaction that has arrived is in one place: it waits in its process, its client logs in, waits in the pooler or
//! has a server; or it has ended. Its response time counts from its arrival.
//! Not here: when transactions arrive (`traffic`), what servers do (`upstream`).

use std::collections::VecDeque;

use base::{Key, Time};
use pool::{Event, Fingerprint, Mode, ServerKey};

use super::clock::Next;
use super::run::Run;
use super::tally::Refused;
use super::upstream::ServerState;
use crate::simulate::spec::{Application, Transaction};

/// A process of an application.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) tenant: u32,
    application: Application,
    /// Clients without a transaction; the one used last is used next.
    idle: Vec<Key>,
    open: u32,
    waiting: VecDeque<Pending>,
    /// No new transaction is given to it, and its clients end.
    is_over: bool,
}

/// A transaction that has not begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    arrived: u64,
    /// The user of a closed loop who waits for it, with its source.
    user: Option<(u32, u32)>,
    /// For how long it has a server, if that is not by its kind.
    lasts: Option<u64>,
}

/// A client of the pooler.
#[derive(Debug)]
pub(super) struct Client {
    process: u32,
    transaction: Option<Pending>,
    /// Its server; in session mode also between two transactions.
    server: Option<ServerKey>,
    /// Whether it is in a queue of the pooler.
    is_waiting: bool,
    kind: u32,
    /// Statements that have not begun.
    statements: u32,
    is_executing: bool,
    queued: u64,
    attached: u64,
    executed: u64,
    transactions: u32,
    idle_since: u64,
    has_idle_timer: bool,
}

impl Process {
    pub(super) fn new(tenant: u32, application: Application) -> Self {
        Self { tenant, application, idle: Vec::new(), open: 0, waiting: VecDeque::new(), is_over: false }
    }
}

impl Run<'_> {
    /// A transaction arrives at a tenant.
    pub(super) fn arrive(&mut self, tenant: u32, user: Option<(u32, u32)>) {
        let pending = Pending { arrived: self.now, user, lasts: None };
        self.arrive_at(tenant, pending);
    }

    /// A transaction that has a server for so long.
    pub(super) fn arrive_long(&mut self, tenant: u32, lasts: u64) {
        self.arrive_at(tenant, Pending { arrived: self.now, user: None, lasts: Some(lasts) });
    }

    fn arrive_at(&mut self, tenant: u32, pending: Pending) {
        let process = self.sources.one_of(&self.tenants[tenant as usize].processes);
        self.arrive_in(process, pending);
    }

    /// A client of a storm comes: it logs in for one transaction.
    pub(super) fn storm_client(&mut self, process: u32) {
        self.arrive_in(process, Pending { arrived: self.now, user: None, lasts: None });
    }

    fn arrive_in(&mut self, process: u32, pending: Pending) {
        let tenant = self.processes[process as usize].tenant;
        self.counts[tenant as usize].arrived += 1;
        self.areas.now.in_system += 1;
        self.give(process, pending);
    }

    /// A process begins a transaction on an idle client or a new one, or lets it wait.
    fn give(&mut self, process: u32, pending: Pending) {
        let is_full = self.areas.now.in_system > IN_SYSTEM_MAX;
        let row = &mut self.processes[process as usize];
        let most = row.application.client_pool;
        if is_full {
            self.refused(process, pending, Refused::ApplicationFull);
        } else if let Some(client) = row.idle.pop() {
            self.begin(client, pending);
        } else if most == 0 || row.open < most {
            self.connect(process, Some(pending));
        } else if row.waiting.len() < WAITING_MAX {
            row.waiting.push_back(pending);
        } else {
            self.refused(process, pending, Refused::ApplicationFull);
        }
    }

    /// A process opens a connection to the pooler.
    fn connect(&mut self, process: u32, transaction: Option<Pending>) {
        let tenant = self.processes[process as usize].tenant;
        let database = self.sources.groups[self.tenants[tenant as usize].group as usize].database;
        let most = self.poolers[database as usize].clients_max;
        let client = Client {
            process,
            transaction,
            server: None,
            is_waiting: false,
            kind: 0,
            statements: 0,
            is_executing: false,
            queued: 0,
            attached: 0,
            executed: 0,
            transactions: 0,
            idle_since: self.now,
            has_idle_timer: false,
        };
        let has_room = most == 0 || self.clients.len() < most as usize;
        let key = if has_room { self.clients.insert(client).ok() } else { None };
        let Some(client) = key else {
            if let Some(pending) = transaction {
                self.refused(process, pending, Refused::MaxClientConn);
            }
            return;
        };
        self.processes[process as usize].open += 1;
        self.areas.now.clients += 1;
        self.clients_peak = self.clients_peak.max(self.areas.now.clients as u32);
        match self.spec.client.login.draw(&mut self.dice) {
            0 => self.client_logged_in(client),
            after => self.clock.plan(self.now + after, Next::ClientLoggedIn { client }),
        }
    }

    /// A client's login is complete.
    pub(super) fn client_logged_in(&mut self, client: Key) {
        let Some(row) = self.clients.get_mut(client) else { return };
        match row.transaction.take() {
            Some(pending) => self.begin(client, pending),
            None => self.rest(client),
        }
    }

    /// A client begins a transaction: it needs a server, unless it has one.
    fn begin(&mut self, client: Key, pending: Pending) {
        let now = self.now;
        let Some(row) = self.clients.get_mut(client) else { return };
        (row.transaction, row.queued) = (Some(pending), now);
        let tenant = self.processes[row.process as usize].tenant;
        if let Some(server) = row.server {
            self.attached(client, server);
            return;
        }
        row.is_waiting = true;
        let pool = self.pool_of(tenant);
        let fingerprint = Fingerprint::default();
        self.areas.now.waiting += 1;
        // The ways of the worker: the plain one, the one of a full pool, and the one for all the rest.
        if let Some(server) = self.pools.lend(Time(now), pool, client, fingerprint) {
            self.lent(client, server);
        } else if !self.pools.queue(Time(now), pool, client, fingerprint) {
            self.handle(Event::Wants { pool, client, fingerprint });
        }
    }

    /// A client that waited in the pooler has a server.
    pub(super) fn lent(&mut self, client: Key, server: ServerKey) {
        self.areas.now.waiting -= 1;
        self.areas.now.lent += 1;
        let now = self.now;
        let Some(row) = self.server(server) else {
            self.breaks(format!("server {server:?} was lent and is unknown"));
            return;
        };
        (row.state, row.client, row.since) = (ServerState::Lent, Some(client), now);
        match self.client(client) {
            Some(row) if row.transaction.is_some() => (row.server, row.is_waiting) = (Some(server), false),
            _ => self.breaks(format!("client {client:?} was lent a server that it does not want")),
        }
        self.attached(client, server);
    }

    fn mode_of(&self, server: ServerKey) -> Mode {
        let pool = self.servers[server.index as usize].pool;
        let database = self.pool_rows[pool.index as usize].database;
        self.poolers[database as usize].limits.mode
    }

    /// A client has a server, and sends its first statement.
    fn attached(&mut self, client: Key, server: ServerKey) {
        let now = self.now;
        let Some(row) = self.clients.get_mut(client) else { return };
        let Some(pending) = row.transaction else { return };
        (row.attached, row.executed) = (now, 0);
        let (process, waited) = (row.process, now - row.queued);
        let tenant = self.processes[process as usize].tenant as usize;
        let number = self.tenants[tenant].group as usize;
        self.counts[tenant].attached += 1;
        self.counts[tenant].waited += waited;
        if pending.arrived >= self.spec.warm_up {
            self.note_wait(tenant, waited);
            self.app_waits.note(now - waited - pending.arrived);
            if let Some(slice) = self.slice_of(pending.arrived) {
                slice.attached += 1;
                slice.waited += waited;
            }
        }
        let group = &self.sources.groups[number];
        let kind = group.kinds.as_ref().map_or(0, |kinds| self.dice.place(kinds));
        let transaction = &group.group.transactions[kind];
        let row = self.clients.get_mut(client).expect("it was there above");
        (row.kind, row.statements) = (kind as u32, transaction.statements);
        let measured = if self.measured.is_empty() { None } else { self.measured_work(pending.arrived, tenant as u32) };
        let is_contended = self.spec.server.is_contended();
        let lasts = pending.lasts.or(measured).or_else(|| (!is_contended).then(|| self.whole(client, transaction)));
        match lasts {
            Some(lasts) => {
                self.clients.get_mut(client).expect("it was there above").statements = 0;
                self.clock.plan(now + lasts, Next::Step { client });
            }
            None => self.execute(client),
        }
        debug_assert!(self.servers[server.index as usize].client == Some(client));
    }

    /// For how long a transaction was measured to have a server, each time once.
    fn measured_work(&mut self, arrived: u64, tenant: u32) -> Option<u64> {
        self.measured.get_mut(&(arrived, tenant))?.pop()
    }

    /// How long a whole transaction has a server, if statements do not slow each other down.
    fn whole(&mut self, client: Key, transaction: &Transaction) -> u64 {
        let statements = u64::from(transaction.statements);
        let executed: u64 = (0..statements).map(|_| transaction.service.draw(&mut self.dice)).sum();
        let thought: u64 = (1..statements).map(|_| transaction.think.draw(&mut self.dice)).sum();
        if let Some(row) = self.clients.get_mut(client) {
            row.executed = executed;
        }
        executed + thought + statements * self.spec.server.round_trip + (statements - 1) * self.spec.client.round_trip
    }

    /// The next statement runs in the server, which others slow down.
    fn execute(&mut self, client: Key) {
        self.executing += 1;
        let (slowdown, contended) = (self.slowdown(), self.contended());
        let Some(row) = self.clients.get_mut(client) else { return };
        let tenant = self.processes[row.process as usize].tenant as usize;
        let group = self.sources.groups[self.tenants[tenant].group as usize].group;
        let time = group.transactions[row.kind as usize].service.draw(&mut self.dice);
        let lasts = (time as f64 * slowdown) as u64;
        row.statements = row.statements.saturating_sub(1);
        row.is_executing = true;
        row.executed += match self.spec.server.cores {
            // Waiting for a processor uses none.
            Some(_) => (time as f64 * contended) as u64,
            None => lasts,
        };
        self.clock.plan(self.now + lasts, Next::Step { client });
    }

    /// A statement has ended, or the time between two of them.
    pub(super) fn step_ends(&mut self, client: Key) {
        let Some(row) = self.clients.get_mut(client) else { return };
        if row.is_executing {
            row.is_executing = false;
            self.executing -= 1;
            let has_more = row.statements > 0;
            let tenant = self.processes[row.process as usize].tenant as usize;
            let transaction =
                &self.sources.groups[self.tenants[tenant].group as usize].group.transactions[row.kind as usize];
            let gap = self.spec.server.round_trip
                + if has_more { self.spec.client.round_trip + transaction.think.draw(&mut self.dice) } else { 0 };
            if gap > 0 {
                self.clock.plan(self.now + gap, Next::Step { client });
                return;
            }
        }
        match self.clients.get_mut(client) {
            Some(row) if row.statements > 0 => self.execute(client),
            _ => self.transaction_ends(client),
        }
    }

    /// A transaction is over, and its client goes on with the next one.
    fn transaction_ends(&mut self, client: Key) {
        let now = self.now;
        let Some(row) = self.clients.get_mut(client) else { return };
        let Some(pending) = row.transaction.take() else { return };
        row.transactions += 1;
        let (process, held, executed, server) = (row.process, now - row.attached, row.executed, row.server);
        let tenant = self.processes[process as usize].tenant as usize;
        let counts = &mut self.counts[tenant];
        counts.done += 1;
        counts.held += held;
        counts.executed += executed;
        if pending.arrived >= self.spec.warm_up && pending.lasts.is_none() {
            let response = now - pending.arrived + self.spec.client.round_trip;
            self.responses.note(response);
            self.group_times[self.tenants[tenant].group as usize].responses.note(response);
        }
        if let Some(slice) = self.slice_of(now) {
            slice.done += 1;
        }
        self.ended(tenant, pending);
        if let Some(server) = server.filter(|server| self.mode_of(*server) != Mode::Session) {
            if let Some(row) = self.clients.get_mut(client) {
                row.server = None;
            }
            self.give_back(server);
        }
        self.next_transaction(client);
    }

    /// A transaction has ended in whatever way.
    fn ended(&mut self, tenant: usize, pending: Pending) {
        self.areas.now.in_system -= 1;
        self.counts[tenant].in_system += self.now - pending.arrived;
        if let Some((source, user)) = pending.user {
            self.sources.user_thinks(self.now, source, user, &mut self.clock);
        }
    }

    /// A client without a transaction takes the next one of its process, or rests, or closes.
    fn next_transaction(&mut self, client: Key) {
        let Some(row) = self.clients.get(client) else { return };
        let process = &mut self.processes[row.process as usize];
        let most = process.application.transactions_max;
        if process.is_over || most > 0 && row.transactions >= most {
            self.close_client(client);
        } else if let Some(pending) = process.waiting.pop_front() {
            self.begin(client, pending);
        } else {
            self.rest(client);
        }
    }

    fn rest(&mut self, client: Key) {
        let now = self.now;
        let Some(row) = self.clients.get_mut(client) else { return };
        row.idle_since = now;
        let process = &mut self.processes[row.process as usize];
        if process.is_over {
            self.close_client(client);
            return;
        }
        process.idle.push(client);
        if let Some(after) = process.application.idle_max.filter(|_| !row.has_idle_timer) {
            row.has_idle_timer = true;
            self.clock.plan(now + after, Next::ClientIdle { client });
        }
    }

    /// Closes a client that has been idle for too long, or looks again when it will have been.
    pub(super) fn client_idles(&mut self, client: Key) {
        let now = self.now;
        let Some(row) = self.clients.get_mut(client) else { return };
        row.has_idle_timer = false;
        let process = &mut self.processes[row.process as usize];
        let Some(after) = process.application.idle_max else { return };
        let Some(place) = process.idle.iter().position(|idle| *idle == client) else { return };
        let due = row.idle_since + after;
        if due > now {
            row.has_idle_timer = true;
            self.clock.plan(due, Next::ClientIdle { client });
            return;
        }
        process.idle.remove(place);
        self.close_client(client);
    }

    /// A client disconnects. Its process opens another one if a transaction waits.
    fn close_client(&mut self, client: Key) {
        let Some(row) = self.clients.remove(client) else { return };
        self.areas.now.clients -= 1;
        if let Some(server) = row.server {
            self.give_back(server);
        }
        let process = &mut self.processes[row.process as usize];
        process.open -= 1;
        if let Some(pending) = process.waiting.pop_front() {
            self.give(row.process, pending);
        }
    }

    /// The pooler refuses a client that waits, and closes it.
    pub(super) fn refuse_client(&mut self, client: Key, why: Refused) {
        let Some(row) = self.clients.get_mut(client) else { return };
        let Some(pending) = row.transaction.take() else {
            self.breaks(format!("client {client:?} was refused what it does not want"));
            return;
        };
        row.is_waiting = false;
        let (process, waited) = (row.process, self.now - row.queued);
        self.areas.now.waiting -= 1;
        let tenant = self.processes[process as usize].tenant as usize;
        self.counts[tenant].waited += waited;
        if pending.arrived >= self.spec.warm_up {
            // It counts with the time at which it was given up: it would have waited for at least as long.
            self.note_wait(tenant, waited);
        }
        self.refused(process, pending, why);
        self.close_client(client);
    }

    fn refused(&mut self, process: u32, pending: Pending, why: Refused) {
        let tenant = self.processes[process as usize].tenant as usize;
        self.counts[tenant].refused[why as usize] += 1;
        if pending.arrived >= self.spec.warm_up {
            let response = self.now - pending.arrived;
            self.responses.note(response);
            self.group_times[self.tenants[tenant].group as usize].responses.note(response);
        }
        self.ended(tenant, pending);
    }

    /// The server of a client is lost: its transaction has failed, and the pooler closes the client.
    pub(super) fn server_of_client_lost(&mut self, client: Key) {
        self.areas.now.lent -= 1;
        let Some(row) = self.clients.get_mut(client) else { return };
        row.server = None;
        let pending = row.transaction.take();
        if std::mem::take(&mut row.is_executing) {
            self.executing -= 1;
        }
        let (process, held) = (row.process, self.now - row.attached);
        let tenant = self.processes[process as usize].tenant as usize;
        if let Some(pending) = pending {
            self.counts[tenant].failed += 1;
            self.counts[tenant].held += held;
            self.ended(tenant, pending);
        } else {
            self.processes[process as usize].idle.retain(|idle| *idle != client);
        }
        self.close_client(client);
    }

    /// Replaces the processes of a tenant by new ones, which connect at once. Returns the old ones.
    pub(super) fn replace_processes(&mut self, tenant: u32) -> Vec<u32> {
        let first = self.processes.len() as u32;
        let old = std::mem::take(&mut self.tenants[tenant as usize].processes);
        for process in &old {
            let application = self.processes[*process as usize].application;
            self.processes.push(Process::new(tenant, application));
        }
        let new: Vec<u32> = (first..self.processes.len() as u32).collect();
        for process in &new {
            for _ in 0..self.processes[*process as usize].application.client_pool {
                self.connect(*process, None);
            }
        }
        self.tenants[tenant as usize].processes = new;
        old
    }

    /// A process whose clients log in for one transaction each.
    pub(super) fn add_storm_process(&mut self, tenant: u32) -> u32 {
        let application = Application { processes: 1, client_pool: 0, transactions_max: 1, idle_max: None };
        self.processes.push(Process::new(tenant, application));
        self.processes.len() as u32 - 1
    }

    /// A process that has been replaced ends: what waits in it goes to its successors.
    pub(super) fn process_ends(&mut self, process: u32) {
        let row = &mut self.processes[process as usize];
        row.is_over = true;
        let (tenant, idle, waiting) = (row.tenant, std::mem::take(&mut row.idle), std::mem::take(&mut row.waiting));
        for client in idle {
            self.close_client(client);
        }
        for pending in waiting {
            let next = self.sources.any_of(&self.tenants[tenant as usize].processes);
            self.give(next, pending);
        }
    }

    /// The time that transactions in progress have spent up to now: in the system, waiting in the pooler, with a server.
    pub(super) fn in_progress(&self) -> InProgress {
        let mut sum = InProgress::default();
        let now = self.now;
        for process in &self.processes {
            for pending in &process.waiting {
                sum.transactions += 1;
                sum.in_system += now - pending.arrived;
            }
        }
        for (_, client) in self.clients.iter() {
            sum.lent += u64::from(client.server.is_some());
            let Some(pending) = client.transaction else { continue };
            sum.transactions += 1;
            sum.in_system += now - pending.arrived;
            if client.server.is_some() {
                sum.held += now - client.attached;
            } else if client.is_waiting {
                sum.waiting += 1;
                sum.waited += now - client.queued;
            }
        }
        sum
    }
}

/// What transactions in progress have spent so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct InProgress {
    pub(super) transactions: u64,
    pub(super) in_system: u64,
    pub(super) waiting: u64,
    pub(super) waited: u64,
    pub(super) lent: u64,
    pub(super) held: u64,
}

/// Transactions that wait in a process; one more is refused.
const WAITING_MAX: usize = 1_000_000;
/// Transactions that have not ended, in all processes; one more is refused.
const IN_SYSTEM_MAX: u64 = 5_000_000;
