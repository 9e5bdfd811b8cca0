//! The servers: carries out what the pools order, and tells them what came of it.
//!
//! Always true: commands are carried out in their order; a server has one state, which is the pool's state of it.
//! Not here: which server a client gets (crate `pool`).

use base::{Key, Time};
use pool::{Command, Event, Failure, Fingerprint, PoolKey, Refusal, Return, ServerKey};

use super::clock::Next;
use super::loans::{LOANS_MAX, Loan};
use super::run::Run;
use super::tally::{LOST, OPENED, Refused, closed_place};

/// A server, or the place of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerRow {
    pub(super) key: ServerKey,
    pub(super) pool: PoolKey,
    pub(super) state: ServerState,
    pub(super) client: Option<Key>,
    pub(super) since: u64,
}

/// The state of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ServerState {
    Free,
    Dialing { will_fail: bool, is_counted: bool },
    Idle,
    Lent,
    Working,
    Closing,
}

impl Run<'_> {
    /// Carries out a command of the pools.
    pub(super) fn carry_out(&mut self, command: Command) {
        match command {
            Command::Dial { pool, server, why, .. } => {
                let place = OPENED.iter().position(|(reason, _)| *reason == why).unwrap_or(0);
                self.row_of(pool).counts.dialed[place] += 1;
                self.dial(pool, server);
            }
            Command::Attach { client, server, .. } | Command::Bind { client, server, .. } => self.lent(client, server),
            Command::Welcome { .. } | Command::Note(_) => {}
            Command::Reset { server } => {
                let after = self.spec.server.reset.draw(&mut self.dice) + self.spec.server.round_trip;
                self.work(server, after);
            }
            Command::Check { server } => self.work(server, self.spec.server.round_trip),
            Command::Close { server, why } => self.close(server, closed_place(why)),
            Command::Refuse { client, why } => {
                let why = match why {
                    Refusal::QueryWaitTimeout(_) => Refused::QueryWaitTimeout,
                    _ => Refused::LoginFailed,
                };
                self.refuse_client(client, why);
            }
            Command::Ask { user, need } => {
                let events = self.quota.ask(user, need);
                events.into_iter().for_each(|event| self.handle(event));
            }
            Command::Withdraw { user } => {
                let events = self.quota.withdraw(user);
                events.into_iter().for_each(|event| self.handle(event));
            }
            Command::GiveBack { user } => {
                let events = self.quota.give_back(user);
                events.into_iter().for_each(|event| self.handle(event));
            }
        }
    }

    fn dial(&mut self, pool: PoolKey, server: ServerKey) {
        let most = self.spec.server.connections_max;
        let is_refused = most > 0 && self.connections >= most;
        let will_fail = is_refused || self.now < self.down_until;
        let is_counted = self.spec.server.is_contended() && !will_fail;
        let index = server.index as usize;
        let state = ServerState::Dialing { will_fail, is_counted };
        let row = ServerRow { key: server, pool, state, client: None, since: self.now };
        if index >= self.servers.len() {
            let free = ServerRow { key: Key::NOWHERE, state: ServerState::Free, ..row };
            self.servers.resize(index + 1, free);
        }
        self.servers[index] = row;
        self.connections += 1;
        self.row_of(pool).dialing += 1;
        self.database_counts(pool, 1);
        self.executing += u32::from(is_counted);
        let login = self.spec.server.login.draw(&mut self.dice);
        let lasts = match (will_fail, is_counted) {
            // The kernel answers for a server that is down; a full one answers soon.
            (true, _) => self.spec.server.round_trip,
            // The network is not slower because processors are busy.
            (_, true) => {
                let computed = login.min((self.spec.server.login_cpu * 1e6) as u64);
                login - computed + (computed as f64 * self.shared() * self.contended()) as u64
            }
            _ => login,
        };
        self.clock.plan(self.now + lasts, Next::ServerLogin { server });
    }

    /// Counts the servers of a database, and looks whether there are more than there may be.
    fn database_counts(&mut self, pool: PoolKey, more: i32) {
        let database = self.row_of(pool).database as usize;
        let count = self.database_servers[database].saturating_add_signed(more);
        self.database_servers[database] = count;
        self.database_peak[database] = self.database_peak[database].max(count);
    }

    pub(super) fn server_login_ends(&mut self, server: ServerKey) {
        let is_down = self.now < self.down_until;
        let Some(row) = self.server(server) else { return };
        let ServerState::Dialing { will_fail, is_counted } = row.state else { return };
        let pool = row.pool;
        self.executing -= u32::from(is_counted);
        self.row_of(pool).dialing -= 1;
        if will_fail || is_down {
            self.row_of(pool).counts.logins_failed += 1;
            self.forget(server);
            let failure = match is_down || self.spec.server.connections_max == 0 {
                true => Failure::unreachable("connect failed"),
                false => Failure::refused(*b"53300", "sorry, too many clients already"),
            };
            self.handle(Event::DialFailed { server, failure });
            self.note_outage();
            return;
        }
        let row = self.row_of(pool);
        row.counts.opened += 1;
        row.open += 1;
        self.areas.now.open += 1;
        self.login_cpu += self.spec.server.login_cpu;
        self.set_idle(server);
        self.handle(Event::Ready { server });
    }

    fn set_idle(&mut self, server: ServerKey) {
        let now = self.now;
        if let Some(row) = self.server(server) {
            (row.state, row.client, row.since) = (ServerState::Idle, None, now);
        }
    }

    /// A client gives its server back; the first that waits gets it, in the ways of the worker.
    pub(super) fn give_back(&mut self, server: ServerKey) {
        let (now, fingerprint) = (Time(self.now), Fingerprint::default());
        self.areas.now.lent -= 1;
        self.note_loan(server);
        self.set_idle(server);
        if let Some((client, _)) = self.pools.pass_on(now, server, fingerprint) {
            self.lent(client, server);
        } else if !self.pools.take_back(now, server, fingerprint) {
            self.handle(Event::Returned { server, as_: Return::Clean, fingerprint });
        }
    }

    /// Writes down a loan that is over, if loans are written down.
    fn note_loan(&mut self, server: ServerKey) {
        let Some(row) = self.servers.get(server.index as usize).filter(|row| row.key == server) else { return };
        let loan = Loan { pool: row.pool.index, at: row.since, held: self.now - row.since };
        let Some(loans) = self.loans.as_mut().filter(|_| loan.at >= self.spec.warm_up) else { return };
        if loans.len() < LOANS_MAX {
            loans.push(loan);
        } else {
            self.loans_until.get_or_insert(self.now);
        }
    }

    fn work(&mut self, server: ServerKey, after: u64) {
        if let Some(row) = self.server(server) {
            row.state = ServerState::Working;
            self.clock.plan(self.now + after, Next::ServerClean { server });
        }
    }

    fn close(&mut self, server: ServerKey, why: usize) {
        let Some(row) = self.server(server) else { return };
        let (pool, state) = (row.pool, row.state);
        row.state = ServerState::Closing;
        if let ServerState::Dialing { is_counted, .. } = state {
            self.executing -= u32::from(is_counted);
            let row = self.row_of(pool);
            row.dialing -= 1;
            row.counts.given_up += 1;
        } else {
            let row = self.row_of(pool);
            row.open -= 1;
            row.counts.closed[why] += 1;
            self.areas.now.open -= 1;
        }
        self.clock.plan(self.now, Next::ServerClosed { server });
    }

    pub(super) fn server_closed(&mut self, server: ServerKey) {
        if self.server(server).is_some_and(|row| row.state == ServerState::Closing) {
            self.forget(server);
            self.handle(Event::Closed { server });
        }
    }

    /// A server is gone.
    fn forget(&mut self, server: ServerKey) {
        let Some(row) = self.server(server) else { return };
        (row.state, row.client, row.key) = (ServerState::Free, None, Key::NOWHERE);
        let pool = row.pool;
        self.connections -= 1;
        self.database_counts(pool, -1);
    }

    /// The server ends all connections.
    pub(super) fn lose_all(&mut self) {
        let all: Vec<ServerRow> = self.servers.iter().copied().filter(|row| row.state != ServerState::Free).collect();
        for row in all {
            let server = row.key;
            match row.state {
                ServerState::Free => {}
                // Its login finds out by itself that the server is down.
                ServerState::Dialing { .. } => {}
                ServerState::Closing => self.server_closed(server),
                ServerState::Idle | ServerState::Lent | ServerState::Working => {
                    let pool = self.row_of(row.pool);
                    pool.open -= 1;
                    pool.counts.closed[LOST] += 1;
                    self.areas.now.open -= 1;
                    self.forget(server);
                    if let Some(client) = row.client {
                        self.server_of_client_lost(client);
                    }
                    self.handle(Event::Lost { server });
                }
            }
        }
    }

    /// How many times longer a statement takes now than alone.
    pub(super) fn slowdown(&self) -> f64 {
        let share = self.spec.server.cpu_share;
        (1.0 - share + share * self.shared()) * self.contended()
    }

    /// How many times longer computing takes now, because processors are shared.
    fn shared(&self) -> f64 {
        let busy = f64::from(self.executing) * self.spec.server.cpu_share;
        self.spec.server.cores.map_or(1.0, |cores| (busy / f64::from(cores)).max(1.0))
    }

    /// How many times more work a statement is now than alone.
    pub(super) fn contended(&self) -> f64 {
        let n = f64::from(self.executing.max(1));
        self.spec.server.contention.map_or(1.0, |(alpha, beta)| 1.0 + alpha * (n - 1.0) + beta * n * (n - 1.0))
    }
}
