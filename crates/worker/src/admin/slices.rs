//! Snapshots are taken in slices: a turn reads some rows of the tables, and the next turn goes on behind them.
//!
//! Always true: a turn spends no more than [`SLICE`] on one snapshot, and what its last row costs beyond; a snapshot begins
//! after it was asked for, so that it shows everything that happened before. Whatever fits into one slice is of one
//! moment. Of more, each row is of one moment, and a server and the pins of its client are; rows that move meanwhile may
//! be missing or be counted twice.
//! Not here: what is in a row (`snapshot`, `waits`), who asks (`control::survey`).

use base::Key;
use pool::PoolKey;
use reactor::Io;

use crate::admin::console::CONSOLE;
use crate::admin::snapshot::LOGIN;
use crate::admin::under_way::{Place, Tallies, UnderWay};
use crate::admin::waits::wait_kind;
use crate::data::client::ClientStage;
use crate::data::server::ServerStage;
use crate::letters::{Detail, Parts, PoolRow, Snapshot, ToControl};
use crate::upstream::cleanup::word;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Goes on with the snapshot that is being taken, and reports it if it is complete.
    pub(crate) fn take_slice(&mut self) {
        let Some(mut under_way) = self.admin.snapshots.0.pop_front() else { return };
        if self.read_on(&mut under_way) {
            let UnderWay { question, snapshot, .. } = under_way;
            (self.hands.posts.control)(ToControl::Shown { from: self.hands.id, question, snapshot });
        } else {
            self.admin.snapshots.0.push_front(under_way);
        }
    }

    /// Reads rows until nothing is left to be spent in this turn. Returns whether the snapshot is complete.
    fn read_on(&self, under_way: &mut UnderWay) -> bool {
        let mut left = SLICE;
        while left > 0 {
            if matches!(under_way.place, Place::Rest) {
                self.read_rest(under_way);
                return true;
            }
            let cost = self.read_row(under_way);
            left = left.saturating_sub(cost);
        }
        false
    }

    /// Reads the next row, and returns what that has cost.
    fn read_row(&self, under_way: &mut UnderWay) -> u32 {
        let UnderWay { what, place, tallies, snapshot, .. } = under_way;
        let (next, cost) = match place {
            Place::Start => {
                // The rows of large tables are not moved while they are read.
                let clients = if what.clients { self.clients.len() } else { 0 };
                snapshot.clients.reserve(clients);
                snapshot.pools.reserve(if what.pools { self.registry.pools_known() + 1 } else { 0 });
                snapshot.servers.reserve(if what.servers { self.servers.places() as usize } else { 0 });
                (Place::Clients(0), 1)
            }
            Place::Clients(index) if *index < self.clients.places() => {
                let cost = self.clients.key_at(*index).map_or(1, |key| self.read_client(key, *what, tallies, snapshot));
                (Place::Clients(*index + 1), cost)
            }
            Place::Clients(_) => (Place::Servers(0), 1),
            Place::Servers(index) if *index < self.servers.places() => {
                let cost = self.servers.key_at(*index).map_or(1, |key| self.read_server(key, *what, tallies, snapshot));
                (Place::Servers(*index + 1), cost)
            }
            Place::Servers(_) => (Place::Pools(None), 1),
            Place::Pools(after) => match self.registry.pool_after(*after).filter(|_| what.pools || what.stats) {
                Some((numbers, key)) => (Place::Pools(Some(numbers)), self.read_pool(key, *what, tallies, snapshot)),
                None => (Place::Databases(0), self.read_console(*what, tallies, snapshot)),
            },
            Place::Databases(number) if self.registry.database_numbers().contains(number) => {
                let cost = self.read_database(*number, *what, tallies, snapshot);
                let next = if what.pins { Place::Channels(*number, None) } else { Place::Databases(*number + 1) };
                (next, cost)
            }
            Place::Databases(_) => (Place::Users(None), 1),
            Place::Channels(number, after) => {
                let database = self.registry.database_at(*number);
                match database.channel_after(after.as_deref()) {
                    Some(row) => {
                        let next = Place::Channels(*number, Some(row.channel.clone()));
                        snapshot.channels.push(row);
                        (next, ROW_COST)
                    }
                    None => (Place::Databases(*number + 1), 1),
                }
            }
            Place::Users(after) => match self.registry.user_after(after.as_deref()).filter(|_| what.pools) {
                Some((number, user)) => {
                    snapshot.users.push(self.user_row(number, tallies));
                    (Place::Users(Some(user.name.clone())), ROW_COST)
                }
                None => (Place::Names(None), 1),
            },
            Place::Names(after) => match self.names.place_after(after.as_deref()) {
                Some((name, place)) => {
                    snapshot.names_asked += u32::from(place.is_asked());
                    if what.hosts {
                        snapshot.hosts.push(place.row(name, self.hands.now));
                    }
                    (Place::Names(Some(name.clone())), if what.hosts { ROW_COST } else { 1 })
                }
                None => (Place::Rest, 1),
            },
            Place::Rest => (Place::Rest, 1),
        };
        under_way.place = next;
        cost
    }

    fn read_client(&self, key: Key, what: Parts, tallies: &mut Tallies, snapshot: &mut Snapshot) -> u32 {
        let Some(client) = self.clients.get(key) else { return 1 };
        let is_logging_in = matches!(client.stage, ClientStage::Greeting(_) | ClientStage::Login(_));
        snapshot.login_clients += u32::from(is_logging_in);
        snapshot.unauthenticated += u32::from(client.slots.unauthenticated.is_some());
        let mut cost = 1;
        if what.pools {
            tallies.consoles += u32::from(matches!(client.stage, ClientStage::Console(_)));
            if let Some(pool) = client.pool().filter(|_| !client.is_own) {
                let tally = tallies.pools.entry(pool).or_default();
                let count = if client.is_waiting() { &mut tally.cl_waiting } else { &mut tally.cl_active };
                *count += 1;
                cost += 1;
            }
        }
        if (what.clients || what.logins)
            && let Some(row) = self.client_row(key)
        {
            cost += ROW_COST;
            let (rows, is_wanted) = if row.state == LOGIN {
                (&mut snapshot.logins, what.logins)
            } else {
                (&mut snapshot.clients, what.clients)
            };
            if is_wanted {
                rows.push(row);
            }
        }
        if what.waits
            && let Some(kind) = wait_kind(client)
            && let rows = &mut tallies.waits[kind as usize]
            && rows.len() < WAIT_ROWS_MAX
        {
            rows.extend(self.wait_row_of(key, client));
            cost += WAIT_COST;
        }
        cost
    }

    fn read_server(&self, key: Key, what: Parts, tallies: &mut Tallies, snapshot: &mut Snapshot) -> u32 {
        let Some(server) = self.servers.get(key) else { return 1 };
        tallies.servers += 1;
        let mut cost = 1;
        if what.servers {
            snapshot.servers.push(self.server_row(key, server));
            cost += ROW_COST;
        }
        if what.pins
            && let Some(client) = server.client()
        {
            let before = snapshot.pins.len();
            snapshot.pins.extend(self.pin_rows(client));
            cost += ROW_COST * (snapshot.pins.len() - before) as u32;
        }
        if what.pools {
            let pool = tallies.pools.entry(server.pool()).or_default();
            let count = match server.stage() {
                ServerStage::Resolving
                | ServerStage::Connecting(_)
                | ServerStage::Securing(_)
                | ServerStage::Login(_)
                | ServerStage::Introducing => &mut pool.sv_login,
                ServerStage::Idle if self.wants_check(server) => &mut pool.sv_used,
                ServerStage::Idle => &mut pool.sv_idle,
                ServerStage::Lent { .. } => &mut pool.sv_active,
                ServerStage::Cleaning(_) if word(server.session().phase.kind()) == "tested" => &mut pool.sv_tested,
                ServerStage::Cleaning(_) => &mut pool.sv_being_canceled,
            };
            *count += 1;
            tallies.databases.entry(server.database()).or_default().servers += 1;
            if let Some(place) = self.registry.pool(server.pool()) {
                *tallies.users.entry(place.user).or_default() += 1;
            }
            cost += 3;
        }
        cost
    }

    fn read_pool(&self, key: PoolKey, what: Parts, tallies: &mut Tallies, snapshot: &mut Snapshot) -> u32 {
        let Some(place) = self.registry.pool(key) else { return 1 };
        let database = tallies.databases.entry(place.database).or_default();
        database.has_pool = true;
        database.follows |= place.follows;
        if !what.pools {
            return 3;
        }
        let tally = tallies.pools.remove(&key).unwrap_or_default();
        snapshot.pools.push(self.pool_row(key, place, tally, what.measures));
        ROW_COST
            + match what.measures {
                Detail::None => 0,
                Detail::Sums => MEASURES_COST,
                Detail::Histograms => HISTOGRAMS_COST,
            }
    }

    /// The console's own row among the pools.
    fn read_console(&self, what: Parts, tallies: &Tallies, snapshot: &mut Snapshot) -> u32 {
        if what.pools && self.registry.known_database(CONSOLE).is_some() {
            let console = PoolRow::empty(CONSOLE.into(), CONSOLE.into(), pool::Mode::Statement);
            snapshot.pools.push(PoolRow { cl_active: tallies.consoles, ..console });
        }
        ROW_COST
    }

    fn read_rest(&self, under_way: &mut UnderWay) {
        let UnderWay { what, tallies, snapshot, .. } = under_way;
        snapshot.waits = tallies.waits.iter_mut().flat_map(std::mem::take).collect();
        self.complete(snapshot, *what, tallies.servers);
    }
}

/// The most that a turn spends on snapshots. A unit is about a twentieth of a microsecond.
const SLICE: u32 = 4000;
/// What a row with some names and numbers costs.
const ROW_COST: u32 = 10;
/// What the measurements of a pool cost beside its row: two histograms are copied, or all of them.
const MEASURES_COST: u32 = 20;
const HISTOGRAMS_COST: u32 = 100;
/// What a row of `SHOW WAITS` costs: its statement is read.
const WAIT_COST: u32 = 40;
/// Rows of `SHOW WAITS` of each kind; `SHOW CLIENTS` has all clients.
const WAIT_ROWS_MAX: usize = 1000;

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;
