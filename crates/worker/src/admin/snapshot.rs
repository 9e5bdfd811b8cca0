//! What this worker reports about itself, for the console and the metrics.
//!
//! Always true: counts are taken by looking; nothing is decided by them.
//! Not here: which rows are read in a turn (`slices`), what is printed (`control`).

use std::ops::Bound;
use std::time::Duration;

use base::{Key, Time, Wall};
use pool::PoolKey;
use protocol::prepared::Statement;
use protocol::replication::Replication;
use protocol::state::Pin;
use reactor::tls::Security;
use reactor::{Io, Peer};

use crate::admin::console::CONSOLE;
use crate::admin::seen::Doing;
use crate::admin::under_way::{DatabaseTally, PoolTally, Tallies};
use crate::data::client::{Client, ClientStage, Link};
use crate::data::server::{Server, ServerStage};
use crate::letters::{
    ApplicationRow, ChannelRow, DatabaseRow, Detail, Parts, PinRow, PinTotal, PoolRow, Row, Snapshot, StatementsOf,
    TableRow, UserRow,
};
use crate::measured::Application;
use crate::registry::{DatabasePlace, PoolPlace};
use crate::upstream::cleanup::{detail, word};
use crate::worker::Worker;

impl DatabasePlace {
    /// The next channel behind `after` that its clients listen to.
    pub(super) fn channel_after(&self, after: Option<&str>) -> Option<ChannelRow> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (name, channel) = self.listening.channels().range::<str, _>((begin, Bound::Unbounded)).next()?;
        Some(ChannelRow {
            database: self.name.clone(),
            channel: name.clone(),
            clients: channel.count(),
            is_heard: channel.is_heard(self.listening.losses()),
        })
    }
}

impl<I: Io> Worker<I> {
    /// Adds what is small, all of one moment, to a snapshot whose rows have been read; `servers` have been counted.
    pub(super) fn complete(&self, snapshot: &mut Snapshot, what: Parts, servers: usize) {
        snapshot.names = self.names.len() as u32;
        snapshot.protocol_violations = self.protocol_violations;
        snapshot.connections = self.hands.connections;
        snapshot.failures = self.failures.recent(self.hands.now).collect();
        snapshot.failure_totals = self.failures.totals().collect();
        snapshot.turned_away = self.limits.turned_away();
        snapshot.hold_refused = self.limits.hold_refused();
        snapshot.verified = self.verified;
        snapshot.busy = self.hands.io.awake();
        snapshot.alive = self.hands.now.since(self.begun);
        snapshot.load_before = self.recent_load.before();
        if what.hosts {
            snapshot.known_hosts = self.hosts.rows(self.hands.now).collect();
        }
        if what.pools {
            snapshot.peers = self.cancel.peer_rows();
        }
        if what.applications {
            let row = |Application { name: (database, user, name), sums, .. }: &Application| ApplicationRow {
                database: database.clone(),
                user: user.clone(),
                name: name.clone(),
                sums: *sums,
            };
            snapshot.applications = self.applications.rows().map(row).collect();
            snapshot.other_applications = self.applications.folded();
        }
        if what.memory {
            snapshot.tables = self.table_rows(servers);
        }
    }

    /// Reads what is wanted of a database, and returns what that has cost.
    pub(super) fn read_database(&self, number: u32, what: Parts, tallies: &Tallies, snapshot: &mut Snapshot) -> u32 {
        let place = self.registry.database_at(number);
        let tally = tallies.databases.get(&number).copied().unwrap_or_default();
        let mut cost = 1;
        if what.pools {
            snapshot.databases.extend(self.database_row(place, tally));
            cost += 10;
        }
        if what.stats {
            snapshot.failing_queries.extend(self.failing_queries(place));
            if tally.has_pool || *place.name == *CONSOLE {
                snapshot.stats.push((place.name.clone(), place.totals));
            }
            cost += 10;
        }
        if what.pins && place.entry.is_some() {
            let row = |(kind, total)| PinTotal { database: place.name.clone(), kind, total };
            snapshot.pin_totals.extend(place.function_catalog.pins().filter(|(_, total)| *total > 0).map(row));
            if place.probes.iter().any(|count| *count > 0) {
                snapshot.probes.push((place.name.clone(), place.probes));
            }
            cost += 10;
        }
        if what.statements
            && let Some(statements) = &place.statements
        {
            cost += 3 * statements.rows().len() as u32;
            snapshot.statements.push(StatementsOf {
                database: place.name.clone(),
                rows: statements.rows().to_vec(),
                folded: *statements.folded(),
            });
        }
        cost
    }

    pub(crate) fn wall_of(&self, time: Time) -> Wall {
        let ago = self.hands.now.since(time).as_micros() as i64;
        Wall(self.hands.io.wall().0 - ago)
    }

    pub(super) fn client_row(&self, key: Key) -> Option<Row> {
        let client = self.clients.get(key).filter(|client| !client.is_own)?;
        let state_detail = self.detail_of_client(client);
        let (user, database, state, link, application_name, since) = match &client.stage {
            ClientStage::Cancelling(_) => return None,
            ClientStage::Greeting(_) => ("(nouser)".into(), "(nodb)".into(), LOGIN, None, "".into(), None),
            ClientStage::Login(login) => {
                let state = if login.waits_for().is_some() { "waiting" } else { LOGIN };
                let request = &login.request();
                ((*request.user).into(), (*request.database).into(), state, None, "".into(), Some(client.since))
            }
            ClientStage::Console(console) => {
                ((*console.user).into(), CONSOLE.into(), "idle", None, console.application_name.clone(), None)
            }
            ClientStage::Ready(ready) => {
                let database = self.registry.pool(ready.home())?.database_name.clone();
                let user = self.registry.user_at(ready.session().user).name.clone();
                let name: Box<str> =
                    ready.session().vars.get(self.hands.active.tracked.application_name()).unwrap_or("").into();
                let (state, link, since) = match ready.link() {
                    Link::None => ("idle", None, None),
                    Link::Waiting(since) | Link::AsksReplica(since) | Link::Delayed(since) => {
                        ("waiting", None, Some(since))
                    }
                    Link::Loan(server) => {
                        let server = self.servers.get(server);
                        ("active", server.map(|server| server.id()), server.and_then(|server| server.query_since()))
                    }
                };
                (user, database, state, link, name, since)
            }
        };
        let (held, names, memory) = match &client.stage {
            ClientStage::Ready(ready) => {
                let names = ready.session().names.as_ref().map_or(0, |names| names.count());
                (ready.held().map_or(0, |held| held.len()), names, ready.memory())
            }
            _ => (0, 0, 0),
        };
        let ours = self.hands.io.near_end(client.conn);
        let (addr, port) = self.address_of_peer(client);
        let remote_pid = match client.peer {
            Peer::Tcp { .. } => 0,
            Peer::Unix { pid, .. } => pid,
        };
        Some(Row {
            user,
            database,
            replication: Replication::word(self.replication_of(key)),
            state,
            state_detail,
            local_addr: ours.map_or_else(|| "unix".to_owned(), |ours| ours.ip().to_string()),
            local_port: ours.map_or(self.hands.active.settings.listen_port, |ours| ours.port()),
            addr,
            port,
            connect_time: self.wall_of(client.since),
            request_time: self.wall_of(client.last_received),
            wait: since.map_or(Duration::ZERO, |since| self.hands.now.since(since)),
            close_needed: false,
            id: client.id,
            link,
            remote_pid,
            tls: tls_summary(client.security.as_deref()),
            application_name,
            held,
            unsent: self.hands.io.unsent(client.conn),
            prepared_statements: names,
            memory,
            at_rest_since: None,
        })
    }

    /// What a client does, more exactly than by its state.
    fn detail_of_client(&self, client: &Client) -> &'static str {
        let doing = match &client.stage {
            ClientStage::Ready(ready) => self.doing(client, ready).map(|(doing, _)| doing),
            ClientStage::Login(login) => {
                login.waits_for().and_then(|pool| self.pools.waits_for(pool)).map(Doing::Waits)
            }
            _ => None,
        };
        doing.map_or("", Doing::words)
    }

    /// What a server does, more exactly than by its state.
    fn detail_of_server(&self, server: &Server) -> &'static str {
        match server.stage() {
            ServerStage::Resolving => "the name of its host is looked up",
            ServerStage::Connecting(_) => "connects",
            ServerStage::Securing(_) => "agrees on TLS",
            ServerStage::Login(_) => "logs in",
            ServerStage::Introducing => "its session is prepared (connect_query)",
            ServerStage::Idle => "",
            ServerStage::Lent { .. } => {
                let client = server.client().and_then(|client| self.clients.get(client));
                client.map_or("", |client| self.detail_of_client(client))
            }
            ServerStage::Cleaning(cleaning) => detail(cleaning, server.session().phase.kind()),
        }
    }

    /// What a client holds on its server.
    pub(super) fn pin_rows(&self, key: Key) -> Vec<PinRow> {
        let Some(ready) = self.clients.ready(key) else { return Vec::new() };
        let (Link::Loan(server), Some(session_effects)) = (ready.link(), &ready.session().session_effects) else {
            return Vec::new();
        };
        if session_effects.pins().is_empty() {
            return Vec::new();
        }
        let (Some(client), Some(server)) = (self.client_row(key), self.servers.get(server)) else { return Vec::new() };
        let row = |pin: &Pin| PinRow {
            database: client.database.clone(),
            user: client.user.clone(),
            application_name: client.application_name.clone(),
            addr: client.addr.clone(),
            port: client.port,
            client: client.id,
            server: server.id(),
            remote_pid: server.pid(),
            pin: pin.clone(),
            age: self.hands.now.since(pin.since),
            since: self.wall_of(pin.since),
        };
        session_effects.pins().iter().map(row).collect()
    }

    pub(super) fn server_row(&self, key: Key, server: &Server) -> Row {
        let place = self.registry.pool(server.pool());
        let state = match server.stage() {
            ServerStage::Resolving
            | ServerStage::Connecting(_)
            | ServerStage::Securing(_)
            | ServerStage::Login(_)
            | ServerStage::Introducing => "new",
            ServerStage::Idle if self.wants_check(server) => "used",
            ServerStage::Idle => "idle",
            ServerStage::Lent { .. } => "active",
            ServerStage::Cleaning(_) => word(server.session().phase.kind()),
        };
        let is_at_rest = matches!(server.stage(), ServerStage::Idle | ServerStage::Lent { .. })
            && server.session().exchange.may_end();
        let (ours, theirs) = (self.hands.io.near_end(server.conn()), self.hands.io.far_end(server.conn()));
        let port = server.host().port();
        Row {
            user: place.map_or_else(|| "(nouser)".into(), |place| place.user_name.clone()),
            database: place.map_or_else(|| "(nodb)".into(), |place| place.database_name.clone()),
            replication: Replication::word(server.dedicated().map(|dedicated| dedicated.kind())),
            state,
            state_detail: self.detail_of_server(server),
            addr: theirs.map_or_else(|| "unix".to_owned(), |theirs| theirs.ip().to_string()),
            port: theirs.map_or(port, |theirs| theirs.port()),
            local_addr: ours.map_or_else(|| "unix".to_owned(), |ours| ours.ip().to_string()),
            local_port: ours.map_or(port, |ours| ours.port()),
            connect_time: self.wall_of(server.since()),
            request_time: self.wall_of(server.request_time()),
            wait: server.query_since().map_or(Duration::ZERO, |since| self.hands.now.since(since)),
            close_needed: self.pools.is_obsolete(key),
            id: server.id(),
            link: server.client().and_then(|client| self.clients.get(client)).map(|client| client.id),
            remote_pid: server.pid(),
            tls: tls_summary(server.security()),
            application_name: server
                .session()
                .vars
                .get(self.hands.active.tracked.application_name())
                .unwrap_or("")
                .into(),
            held: 0,
            unsent: self.hands.io.unsent(server.conn()),
            prepared_statements: server.session().server_statements.count(),
            memory: 0,
            at_rest_since: is_at_rest.then_some(server.request_time()),
        }
    }

    /// Whether an idle server would be checked before it is lent, a state that PgBouncer calls used.
    pub(super) fn wants_check(&self, server: &Server) -> bool {
        let check_after = self.pools.limits(server.pool()).and_then(|limits| limits.check_after);
        check_after.is_some_and(|after| !after.is_zero() && self.hands.now.since(server.last_received()) >= after)
    }

    pub(super) fn pool_row(&self, key: PoolKey, place: &PoolPlace, tally: PoolTally, detail: Detail) -> PoolRow {
        let snapshot = self.pools.snapshot(self.hands.now, key);
        let waited = snapshot.and_then(|snapshot| snapshot.waiting_since).map(|since| self.hands.now.since(since));
        let cancels = self.cancel.count(key);
        PoolRow {
            cl_active: tally.cl_active,
            cl_waiting: tally.cl_waiting,
            cl_active_cancel_req: cancels,
            sv_active: tally.sv_active,
            sv_active_cancel: cancels,
            sv_being_canceled: tally.sv_being_canceled,
            sv_idle: tally.sv_idle,
            sv_used: tally.sv_used,
            sv_tested: tally.sv_tested,
            sv_login: tally.sv_login,
            maxwait: waited.unwrap_or_default(),
            measures: self.measures(key, place, detail),
            ..PoolRow::empty(place.database_name.clone(), place.user_name.clone(), place.mode)
        }
    }

    fn database_row(&self, place: &DatabasePlace, tally: DatabaseTally) -> Option<DatabaseRow> {
        let (name, entry) = (place.name.clone(), place.entry.clone()?);
        let functions = if tally.follows { place.function_catalog.word(self.hands.now) } else { "" };
        Some(DatabaseRow { name, entry, servers: tally.servers, clients: place.clients, functions })
    }

    pub(super) fn user_row(&self, number: u32, tallies: &Tallies) -> UserRow {
        let place = self.registry.user_at(number);
        let servers = tallies.users.get(&number).copied().unwrap_or(0);
        UserRow { name: place.name.clone(), servers, clients: place.clients }
    }

    fn table_rows(&self, servers: usize) -> Vec<TableRow> {
        let (all, unused) = self.hands.io.buffers();
        let used = all - unused;
        let (prepared, users_known) = (&self.statement_registry, self.registry.users_known());
        let row = |name, size, used, free| TableRow { name, size, used, free };
        vec![
            row("client_cache", size_of::<Client>(), self.clients.len(), 0),
            row("server_cache", size_of::<Option<Server>>(), servers, self.servers.places() as usize - servers),
            row("db_cache", size_of::<crate::registry::DatabasePlace>(), self.registry.database_numbers().len(), 0),
            row(
                "user_cache",
                size_of::<crate::registry::UserPlace>(),
                users_known,
                self.registry.user_numbers_taken() - users_known,
            ),
            row("pool_cache", size_of::<crate::registry::PoolPlace>(), self.registry.pools_known(), 0),
            row("prepared_statement_cache", Statement::BYTES, prepared.count(), 0),
            row("prepared_text_cache", 1, prepared.bytes(), 0),
            row("iobuf_cache", reactor::BUFFER_BYTES, used, self.hands.io.buffers_touched() - used),
        ]
    }
}

/// Version and cipher of TLS as shown to people.
fn tls_summary(security: Option<&Security>) -> Box<str> {
    security.map(|security| security.summary.clone()).unwrap_or_default()
}

/// The state of a client that is logging in.
pub(super) const LOGIN: &str = "login";
