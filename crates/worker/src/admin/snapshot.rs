//! What this worker reports about itself, for the console and the metrics.
//!
//! Always true: counts are taken by looking; nothing is decided by them.
//! Not here: what is printed (`control`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{Key, Time, Wall};
use protocol::prepared::Statement;
use protocol::replication::Replication;
use protocol::state::Pin;
use reactor::tls::Security;
use reactor::{Io, Peer};

use crate::admin::console::CONSOLE;
use crate::admin::seen::Doing;
use crate::data::client::{Client, ClientStage, Link};
use crate::data::server::{Server, ServerStage};
use crate::letters::{
    ApplicationRow, ChannelRow, DatabaseRow, Detail, Parts, PinRow, PinTotal, PoolRow, Row, Snapshot, StatementsOf,
    TableRow, UserRow,
};
use crate::measured::Application;
use crate::registry::DatabasePlace;
use crate::upstream::cleaning::{detail, word};
use crate::worker::Worker;

impl DatabasePlace {
    /// The channels that its clients listen to.
    pub(crate) fn channel_rows(&self) -> impl Iterator<Item = ChannelRow> {
        self.listening.channels.iter().map(|(name, channel)| ChannelRow {
            database: self.name.clone(),
            channel: name.clone(),
            clients: channel.clients.len(),
            is_heard: channel.is_heard(self.listening.losses),
        })
    }
}

impl<I: Io> Worker<I> {
    /// Collects the parts that are wanted.
    pub(crate) fn snapshot(&self, what: Parts) -> Snapshot {
        let is_logging_in = |client: &&Client| matches!(client.stage, ClientStage::Greeting(_) | ClientStage::Login(_));
        let mut snapshot = Snapshot {
            login_clients: self.clients.iter().map(|(_, client)| client).filter(is_logging_in).count() as u32,
            names: self.registry.names.len() as u32,
            names_asked: self.names_asked() as u32,
            protocol_surprises: self.protocol_surprises,
            connections: self.connections,
            failures: self.failures.recent(self.now).collect(),
            failure_totals: self.failures.totals().collect(),
            unauthenticated: self.clients.iter().filter(|(_, client)| client.seat.unauthenticated.is_some()).count()
                as u32,
            turned_away: self.limits.turned_away,
            verified: self.verified,
            busy: self.io.awake(),
            alive: self.now.since(self.begun),
            load_before: self.recent_load.before(),
            ..Snapshot::default()
        };
        if what.clients {
            snapshot.clients = self.client_rows(false);
        }
        if what.logins {
            snapshot.logins = self.client_rows(true);
        }
        if what.hosts {
            snapshot.hosts = self.host_rows();
            snapshot.known_hosts = self.hosts.rows(self.now).collect();
        }
        if what.servers {
            snapshot.servers = self.servers.iter().map(|(key, server)| self.server_row(key, server)).collect();
        }
        if what.pools {
            snapshot.pools = self.pool_rows(what.measures);
            snapshot.databases = self.database_rows();
            snapshot.users = self.user_rows();
            snapshot.peers = self.peer_rows();
        }
        if what.stats {
            snapshot.failing_queries = self.failing_queries();
            let databases = self.registry.databases.iter().enumerate();
            let with_pool: BTreeSet<u32> = self.registry.pools().map(|(_, place)| place.database).collect();
            snapshot.stats = databases
                .filter(|(number, place)| *place.name == *CONSOLE || with_pool.contains(&(*number as u32)))
                .map(|(_, place)| (place.name.clone(), place.totals))
                .collect();
        }
        if what.pins {
            snapshot.pins = self.clients.iter().flat_map(|(key, _)| self.pin_rows(key)).collect();
            let databases = self.registry.databases.iter().filter(|place| place.entry.is_some());
            let totals = databases
                .flat_map(|place| place.function_catalog.pins().map(|(kind, total)| (&place.name, kind, total)));
            let row = |(database, kind, total): (&Arc<str>, _, _)| PinTotal { database: database.clone(), kind, total };
            snapshot.pin_totals = totals.filter(|(_, _, total)| *total > 0).map(row).collect();
            let probes = |place: &DatabasePlace| (place.name.clone(), place.probes);
            let asked = self.registry.databases.iter().filter(|place| place.entry.is_some());
            snapshot.probes = asked.filter(|place| place.probes.iter().any(|count| *count > 0)).map(probes).collect();
            snapshot.channels = self.registry.databases.iter().flat_map(DatabasePlace::channel_rows).collect();
        }
        if what.applications {
            let row = |Application { name: (database, user, name), sums, .. }: &Application| ApplicationRow {
                database: database.clone(),
                user: user.clone(),
                name: name.clone(),
                sums: *sums,
            };
            snapshot.applications = self.applications.rows().map(row).collect();
            snapshot.other_applications = self.applications.folded;
        }
        if what.statements {
            let of = |place: &DatabasePlace| {
                place.statements.as_ref().map(|statements| StatementsOf {
                    database: place.name.clone(),
                    rows: statements.rows().to_vec(),
                    folded: *statements.folded(),
                })
            };
            snapshot.statements = self.registry.databases.iter().filter_map(of).collect();
        }
        if what.waits {
            snapshot.waits = self.wait_rows();
        }
        if what.memory {
            snapshot.tables = self.table_rows();
        }
        snapshot
    }

    pub(crate) fn wall_of(&self, time: Time) -> Wall {
        let ago = self.now.since(time).as_micros() as i64;
        Wall(self.io.wall().0 - ago)
    }

    /// The clients that are logging in, or all others.
    fn client_rows(&self, are_logging_in: bool) -> Vec<Row> {
        let rows = self.clients.iter().filter_map(|(key, _)| self.client_row(key));
        rows.filter(|row| (row.state == LOGIN) == are_logging_in).collect()
    }

    fn client_row(&self, key: Key) -> Option<Row> {
        let client = self.clients.get(key).filter(|client| !client.is_own)?;
        let state_detail = self.detail_of_client(client);
        let (user, database, state, link, application_name, since) = match &client.stage {
            ClientStage::Cancelling(_) => return None,
            ClientStage::Greeting(_) => ("(nouser)".into(), "(nodb)".into(), LOGIN, None, "".into(), None),
            ClientStage::Login(login) => {
                let state = if login.waits_for().is_some() { "waiting" } else { LOGIN };
                let request = &login.request;
                ((*request.user).into(), (*request.database).into(), state, None, "".into(), Some(client.since))
            }
            ClientStage::Console(console) => {
                ((*console.user).into(), CONSOLE.into(), "idle", None, console.application_name.clone(), None)
            }
            ClientStage::Ready(ready) => {
                let database = self.registry.pool(ready.pool)?.database_name.clone();
                let user = self.registry.users[ready.session.user as usize].name.clone();
                let name: Box<str> =
                    ready.session.vars.get(self.active.tracked.application_name()).unwrap_or("").into();
                let (state, link, since) = match ready.link {
                    Link::None => ("idle", None, None),
                    Link::Waiting(since) | Link::Delayed(since) => ("waiting", None, Some(since)),
                    Link::Loan(server) => {
                        let server = self.servers.get(server);
                        ("active", server.map(|server| server.id), server.and_then(|server| server.query_since))
                    }
                };
                (user, database, state, link, name, since)
            }
        };
        let (held, names, memory) = match &client.stage {
            ClientStage::Ready(ready) => {
                let names = ready.session.names.as_ref().map_or(0, |names| names.count());
                (ready.held.as_ref().map_or(0, |held| held.len()), names, ready.memory())
            }
            _ => (0, 0, 0),
        };
        let ours = self.io.near_end(client.conn);
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
            local_port: ours.map_or(self.active.settings.listen_port, |ours| ours.port()),
            addr,
            port,
            connect_time: self.wall_of(client.since),
            request_time: self.wall_of(client.last_received),
            wait: since.map_or(Duration::ZERO, |since| self.now.since(since)),
            close_needed: false,
            id: client.id,
            link,
            remote_pid,
            tls: tls_summary(client.security.as_deref()),
            application_name,
            held,
            unsent: self.io.unsent(client.conn),
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
        match &server.stage {
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
            ServerStage::Cleaning(cleaning) => detail(cleaning, server.session.life.phase()),
        }
    }

    /// What a client holds on its server.
    fn pin_rows(&self, key: Key) -> Vec<PinRow> {
        let Some(ready) = self.clients.ready(key) else { return Vec::new() };
        let (Link::Loan(server), Some(session_effects)) = (&ready.link, &ready.session.session_effects) else {
            return Vec::new();
        };
        if session_effects.pins().is_empty() {
            return Vec::new();
        }
        let (Some(client), Some(server)) = (self.client_row(key), self.servers.get(*server)) else { return Vec::new() };
        let row = |pin: &Pin| PinRow {
            database: client.database.clone(),
            user: client.user.clone(),
            application_name: client.application_name.clone(),
            addr: client.addr.clone(),
            port: client.port,
            client: client.id,
            server: server.id,
            remote_pid: server.pid(),
            pin: pin.clone(),
            age: self.now.since(pin.since),
            since: self.wall_of(pin.since),
        };
        session_effects.pins().iter().map(row).collect()
    }

    fn server_row(&self, key: Key, server: &Server) -> Row {
        let place = self.registry.pool(server.pool);
        let state = match &server.stage {
            ServerStage::Resolving
            | ServerStage::Connecting(_)
            | ServerStage::Securing(_)
            | ServerStage::Login(_)
            | ServerStage::Introducing => "new",
            ServerStage::Idle if self.wants_check(server) => "used",
            ServerStage::Idle => "idle",
            ServerStage::Lent { .. } => "active",
            ServerStage::Cleaning(_) => word(server.session.life.phase()),
        };
        let is_at_rest =
            matches!(server.stage, ServerStage::Idle | ServerStage::Lent { .. }) && server.session.exchange.may_end();
        let (ours, theirs) = (self.io.near_end(server.conn), self.io.far_end(server.conn));
        let port = self.registry.port_of(server.database);
        Row {
            user: place.map_or_else(|| "(nouser)".into(), |place| place.user_name.clone()),
            database: place.map_or_else(|| "(nodb)".into(), |place| place.database_name.clone()),
            replication: Replication::word(server.dedicated.as_ref().map(|dedicated| dedicated.kind)),
            state,
            state_detail: self.detail_of_server(server),
            addr: theirs.map_or_else(|| "unix".to_owned(), |theirs| theirs.ip().to_string()),
            port: theirs.map_or(port, |theirs| theirs.port()),
            local_addr: ours.map_or_else(|| "unix".to_owned(), |ours| ours.ip().to_string()),
            local_port: ours.map_or(port, |ours| ours.port()),
            connect_time: self.wall_of(server.since),
            request_time: self.wall_of(server.request_time),
            wait: server.query_since.map_or(Duration::ZERO, |since| self.now.since(since)),
            close_needed: self.pools.is_obsolete(key),
            id: server.id,
            link: server.client().and_then(|client| self.clients.get(client)).map(|client| client.id),
            remote_pid: server.pid(),
            tls: tls_summary(server.security.as_deref()),
            application_name: server.session.vars.get(self.active.tracked.application_name()).unwrap_or("").into(),
            held: 0,
            unsent: self.io.unsent(server.conn),
            prepared_statements: server.session.server_statements.count(),
            memory: 0,
            at_rest_since: is_at_rest.then_some(server.request_time),
        }
    }

    /// Whether an idle server would be checked before it is lent, a state that PgBouncer calls used.
    fn wants_check(&self, server: &Server) -> bool {
        let check_after = self.pools.limits(server.pool).and_then(|limits| limits.check_after);
        check_after.is_some_and(|after| !after.is_zero() && self.now.since(server.last_received) >= after)
    }

    fn pool_rows(&self, detail: Detail) -> Vec<PoolRow> {
        let mut rows: BTreeMap<_, _> =
            self.registry.pools().map(|(key, place)| (key, self.empty_row(key, place, detail))).collect();
        for (_, client) in self.clients.iter().filter(|(_, client)| !client.is_own) {
            match client.pool().and_then(|pool| rows.get_mut(&pool)) {
                Some(row) if client.is_waiting() => row.cl_waiting += 1,
                Some(row) => row.cl_active += 1,
                None => {}
            }
        }
        for (_, server) in self.servers.iter() {
            let Some(row) = rows.get_mut(&server.pool) else { continue };
            match &server.stage {
                ServerStage::Resolving
                | ServerStage::Connecting(_)
                | ServerStage::Securing(_)
                | ServerStage::Login(_)
                | ServerStage::Introducing => row.sv_login += 1,
                ServerStage::Idle if self.wants_check(server) => row.sv_used += 1,
                ServerStage::Idle => row.sv_idle += 1,
                ServerStage::Lent { .. } => row.sv_active += 1,
                ServerStage::Cleaning(_) if word(server.session.life.phase()) == "tested" => row.sv_tested += 1,
                ServerStage::Cleaning(_) => row.sv_being_canceled += 1,
            }
        }
        let mut rows: Vec<PoolRow> = rows.into_values().collect();
        let consoles =
            self.clients.iter().filter(|(_, client)| matches!(client.stage, ClientStage::Console(_))).count();
        if self.registry.known_database(CONSOLE).is_some() {
            let console = PoolRow::empty(CONSOLE.into(), CONSOLE.into(), pool::Mode::Statement);
            rows.push(PoolRow { cl_active: consoles as u32, ..console });
        }
        rows
    }

    fn empty_row(&self, key: pool::PoolKey, place: &crate::registry::PoolPlace, detail: Detail) -> PoolRow {
        let snapshot = self.pools.snapshot(self.now, key);
        let waited = snapshot.and_then(|snapshot| snapshot.waiting_since).map(|since| self.now.since(since));
        PoolRow {
            cl_active_cancel_req: place.cancels,
            sv_active_cancel: place.cancels,
            maxwait: waited.unwrap_or_default(),
            measures: self.measures(key, place, detail),
            ..PoolRow::empty(place.database_name.clone(), place.user_name.clone(), place.mode)
        }
    }

    fn database_rows(&self) -> Vec<DatabaseRow> {
        let servers = tally(self.servers.iter().map(|(_, server)| server.database));
        let followed: BTreeSet<u32> =
            self.registry.pools().filter(|(_, place)| place.follows).map(|(_, place)| place.database).collect();
        let databases = self.registry.databases.iter().zip(0_u32..);
        let row = |(place, number): (&crate::registry::DatabasePlace, u32)| {
            let (name, entry) = (place.name.clone(), place.entry.clone()?);
            let servers = servers.get(&number).copied().unwrap_or(0);
            let functions = if followed.contains(&number) { place.function_catalog.word(self.now) } else { "" };
            Some(DatabaseRow { name, entry, servers, clients: place.clients, functions })
        };
        databases.filter_map(row).collect()
    }

    fn user_rows(&self) -> Vec<UserRow> {
        let users =
            self.servers.iter().filter_map(|(_, server)| self.registry.pool(server.pool)).map(|place| place.user);
        let servers = tally(users);
        let row = |(number, place): (u32, &crate::registry::UserPlace)| {
            let servers = servers.get(&number).copied().unwrap_or(0);
            UserRow { name: place.name.clone(), servers, clients: place.clients }
        };
        self.registry.users().map(row).collect()
    }

    fn table_rows(&self) -> Vec<TableRow> {
        let (all, unused) = self.io.buffers();
        let used = all - unused;
        let (prepared, users_known) = (&self.statement_registry, self.registry.users_known());
        let row = |name, size, used, free| TableRow { name, size, used, free };
        vec![
            row("client_cache", size_of::<Client>(), self.clients.len(), 0),
            row("server_cache", size_of::<Option<Server>>(), self.servers.len(), self.servers.free()),
            row("db_cache", size_of::<crate::registry::DatabasePlace>(), self.registry.databases.len(), 0),
            row(
                "user_cache",
                size_of::<crate::registry::UserPlace>(),
                users_known,
                self.registry.users.len() - users_known,
            ),
            row("pool_cache", size_of::<crate::registry::PoolPlace>(), self.registry.pools().count(), 0),
            row("prepared_statement_cache", Statement::BYTES, prepared.count(), 0),
            row("prepared_text_cache", 1, prepared.bytes(), 0),
            row("iobuf_cache", reactor::BUFFER_BYTES, used, self.io.buffers_touched() - used),
        ]
    }
}

/// Version and cipher of TLS as shown to people.
fn tls_summary(security: Option<&Security>) -> Box<str> {
    security.map(|security| security.summary.clone()).unwrap_or_default()
}

/// The state of a client that is logging in.
const LOGIN: &str = "login";

/// How often each number occurs.
fn tally(numbers: impl Iterator<Item = u32>) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    for number in numbers {
        *counts.entry(number).or_insert(0) += 1;
    }
    counts
}
