//! Online restart, in the process that begins: clients and servers of another process continue here.
//!
//! Always true: every client and server that arrives is treated like one that has come here by itself, and is at rest
//! until the worker is woken; a server whose configuration has changed serves no new client; a client whose database is
//! gone gets an error.
//! Not here: what was packed, and how (`parcel`, `export`).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use auth::{ScramKeys, Secret};
use base::{Key, Time, Wall};
use config::ReadRouting;
use measure::{Opened, Phase};
use pool::{ClientKey, Event, Imported, PoolKey, Pools, ServerKey};
use protocol::cancel::CancelKey;
use protocol::client::greeting::Request;
use protocol::client::statuses::Statuses;
use protocol::fault::{EndedBy, Fault};
use protocol::loan::{ClientSession, Collected, LoanPhase, SequenceOwner, shared};
use protocol::prepared::{Account, Names, PackedStatement, ServerStatements, Statement, Unnamed, Unpacking};
use protocol::state::Pin;
use protocol::vars::Vars;
use reactor::{Address, Io, Peer};

use crate::admission::applicant::LoggingIn;
use crate::admission::greeting::Greeting;
use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::held::{Held, Skips};
use crate::data::server::{Resumed, Server};
use crate::handover::parcel::{
    Imports, PackedClient, PackedPool, PackedReady, PackedServer, PackedStage, PackedVars, Pair, PoolName,
};
use crate::letters::AddressSource;
use crate::planted::{comes_with_request, own_parameters, own_statements};
use crate::registry::Welcome;
use crate::upstream::dialed_host::DialedHost;
use crate::worker::{Owner, Worker};

/// The packed statements, and those already unpacked.
struct ImportedStatements {
    packed: Arc<BTreeMap<u64, PackedStatement>>,
    found: BTreeMap<u64, Statement>,
}

impl<I: Io> Worker<I> {
    /// Takes over this worker's share of another process.
    pub(crate) fn arrive(&mut self, imports: Imports<I::Socket>) {
        let Imports { pools, statements, pairs, moved_keys } = imports;
        self.statement_registry.begin_above(statements.keys().last().copied().unwrap_or(0));
        self.cancel.take_over(moved_keys);
        for pool in pools {
            self.arrive_pool(pool);
        }
        let mut imported_statements = ImportedStatements { packed: statements, found: BTreeMap::new() };
        // Servers come first: none may be dialed for waiting clients or for `min_pool_size` while others are still to arrive.
        let (with_servers, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(pair, _)| pair.server.is_some());
        for (pair, sockets) in with_servers {
            self.arrive_pair(pair, sockets, &mut imported_statements);
            self.settle();
        }
        self.with_pools(Pools::have_arrived);
        self.settle();
        for (pair, sockets) in others {
            self.arrive_pair(pair, sockets, &mut imported_statements);
            self.settle();
        }
        self.arm_sweep();
        self.arm_moves();
        self.arm_watch();
    }

    fn arrive_pool(&mut self, packed: PackedPool) {
        let Some(pool) = self.known_pool(&packed.name) else { return };
        let welcome = packed.welcome.map(|(fixed, vars)| {
            let vars = self.vars_of(&vars);
            let statuses = Statuses::new(self.known_vars.share(vars), &self.hands.active.tracked);
            Rc::new(Welcome { fixed: fixed.0, statuses, begun: shared(packed.begun) })
        });
        let key = |bytes: Vec<u8>| bytes.try_into().ok();
        let keys = packed
            .keys
            .and_then(|(client, server)| Some(ScramKeys { client_key: key(client.0)?, server_key: key(server.0)? }));
        let entry = self.hands.active.settings.database_or_derived(&packed.name.database);
        // The welcome of servers with another configuration does not apply here.
        let before = welcome.clone();
        let is_same = entry.is_some_and(|entry| entry.stamp() == packed.stamp) && !packed.is_welcome_old;
        let welcome = welcome.filter(|_| is_same);
        let Some(place) = self.registry.pool(pool) else { return };
        // Nor does it apply if `session_state` has changed, since the state of those sessions is unknown.
        let welcome = welcome.filter(|_| place.follows == packed.follows);
        let (database, user) = (place.database as usize, place.user);
        let function_catalog = &mut self.registry.database_at_mut(database as u32).function_catalog;
        function_catalog.custom.mention(user, packed.custom.iter().map(String::as_str), self.hands.now);
        if packed.is_custom_incomplete {
            function_catalog.custom.miss_some(user, self.hands.now);
        }
        if packed.asks_for_sequences {
            function_catalog.note_asker(user);
        }
        let Some(place) = self.registry.pool_mut(pool) else { return };
        (place.keys, place.welcome_before) = (keys, before);
        let told = packed.told.map(|text| Arc::new(Secret::parse(&text.0)));
        // `auth_query` is not used for users of `auth_file`, so a secret of such a user was confirmed by an external
        // authenticator.
        let is_listed = self.hands.active.users.secret(&place.user_name).is_some_and(|secret| !secret.is_none());
        (place.reported_secret, place.judged) = if is_listed { (None, told) } else { (told, None) };
        if welcome.is_some() {
            place.welcome = welcome;
            self.pools.note_welcome(pool);
        }
    }

    /// The pool of this name, if the configuration allows it.
    fn known_pool(&mut self, name: &PoolName) -> Option<PoolKey> {
        let entry = self.hands.active.settings.database_or_derived(&name.database)?;
        if entry.user.as_ref().is_some_and(|user| **user != *name.user) {
            return None;
        }
        if let Some(parent) = self.hands.active.settings.parent_of_replicas(&name.database) {
            let home = self.known_pool(&PoolName { database: parent.name.to_string(), user: name.user.clone() })?;
            return self.replicas_of(home);
        }
        let database = self.registry.database(&entry.name, Some(entry.clone()));
        Some(self.pool_for(database, &entry, &name.user))
    }

    fn vars_of(&self, packed: &PackedVars) -> Vars {
        let mut vars = Vars::new(&self.hands.active.tracked);
        for (name, value) in packed {
            if let Some(place) = self.hands.active.tracked.reported_place(name) {
                vars.set(place, value);
            }
        }
        vars
    }

    /// Why clients of this pool cannot stay.
    fn homeless(&self, name: &PoolName) -> Fault {
        match self.hands.active.settings.database(&name.database) {
            Some(_) => Fault::ConfigurationChanged { by: EndedBy::Reload },
            None => Fault::DatabaseRemoved { by: EndedBy::Reload },
        }
    }

    fn arrive_pair(&mut self, pair: Pair, sockets: Vec<I::Socket>, imported_statements: &mut ImportedStatements) {
        let pair = pair.with_torn_answer_noted();
        let mut sockets = sockets.into_iter();
        let client = pair.client.and_then(|packed| Some((packed, sockets.next()?)));
        let server = pair.server.and_then(|packed| Some((packed, sockets.next()?)));
        let is_linked = client.is_some();
        let client = client.and_then(|(packed, socket)| self.arrive_client(packed, socket, imported_statements));
        let lent_to = client.filter(|_| is_linked);
        if let Some((packed, socket)) = server
            // A server whose client is gone is in the middle of something unknown.
            && (lent_to.is_some() || !is_linked)
        {
            let server = self.arrive_server(packed, socket, lent_to, imported_statements);
            if let (Some(client), None) = (lent_to, server) {
                self.fail_client(client, &Fault::ServerCrashed);
            }
        }
        if let Some(client) = client {
            if self.take_client_slot(client) {
                self.client_slot_taken(client);
            }
            self.arm_client(client);
            self.forward_held(client);
        }
    }

    fn arrive_client(
        &mut self,
        packed: PackedClient,
        socket: I::Socket,
        imported_statements: &mut ImportedStatements,
    ) -> Option<Key> {
        let (from, since) = (self.address_of(&packed, &socket), Time(packed.since));
        let PackedClient { id, asked, stage, .. } = packed;
        match stage {
            PackedStage::Greeting { said, has_spoken, since_wall, awaits_proxy_header } => {
                let mut greeting = Greeting::new(Wall(since_wall));
                greeting.resumes(said.0, has_spoken, awaits_proxy_header);
                let key = self.take_client(socket, from, id, since, ClientStage::Greeting(Box::new(greeting)))?;
                if self.count_unauthenticated(key) {
                    self.arm_client(key);
                }
                None
            }
            PackedStage::Welcome { pool: name, user, minor, vars, settings, said, since: waits_since } => {
                let request = Request {
                    user: user.into(),
                    database: name.database.clone().into(),
                    minor,
                    vars: self.vars_of(&vars),
                    settings,
                    unsupported: None,
                    replication: None,
                    options: None,
                    unknown_options: Vec::new(),
                    target_session_attrs: None,
                };
                let pool = self.known_pool(&name);
                let nowhere = Key::NOWHERE;
                let login = LoggingIn::proved(request, pool.unwrap_or(nowhere), Time(waits_since), said.0);
                let key = self.take_client(socket, from, id, since, ClientStage::Login(Box::new(login)))?;
                let Some(pool) = pool else {
                    self.fail_client(key, &self.homeless(&name));
                    return None;
                };
                self.count_arrival(key, pool);
                self.tell_pools(Event::Greets { pool, client: key });
                Some(key)
            }
            PackedStage::Ready(ready) => {
                self.arrive_ready(*ready, (socket, from), (id, since, Time(asked)), imported_statements)
            }
        }
    }

    /// The address of a client that arrives, and how it is known. It stays the told one, whatever the settings are now.
    fn address_of(&self, packed: &PackedClient, socket: &I::Socket) -> (Peer, AddressSource) {
        match packed.told_address {
            Some(told) if packed.is_unix => (told.into(), AddressSource::HeaderOverUnix),
            Some(told) => (told.into(), AddressSource::HeaderOverTcp),
            None => (self.hands.io.peer(socket), AddressSource::Socket),
        }
    }

    fn arrive_ready(
        &mut self,
        packed: PackedReady,
        (socket, from): (I::Socket, (Peer, AddressSource)),
        (id, since, asked): (u64, Time, Time),
        imported_statements: &mut ImportedStatements,
    ) -> Option<Key> {
        let pool = self.known_pool(&packed.pool);
        let user = self.registry.user(&packed.user, &self.hands.active.settings);
        let vars = self.vars_of(&packed.vars);
        let vars = self.known_vars.share(vars);
        let began = packed.began.map(|began| self.vars_of(&began));
        let began = began.map(|began| self.known_vars.share(began));
        let mut cancel_key = packed.cancel_key.0;
        cancel_key.extend(packed.cancel_key_rest.into_iter().flat_map(|suspended| suspended.0));
        let cancel_key = CancelKey::parse(&cancel_key)?;
        let key_name = cancel_key.name();
        let nowhere = Key::NOWHERE;
        let mut ready = Ready::new(pool.unwrap_or(nowhere), ClientSession::new(user, vars), cancel_key);
        ready.session_mut().overrides = shared(packed.overrides);
        ready.session_mut().initial_overrides = shared(packed.given);
        // Which custom settings the session has mentioned is not known, so all are assumed.
        ready.session_mut().placeholders = u64::MAX;
        if let Some(began) = began {
            ready.session_mut().initial_vars = began;
        }
        ready.session_mut().scanner = packed.scanner;
        // Only the other process has read what the session has prepared and what state it has on its server.
        if pool.and_then(|pool| self.registry.pool(pool)).is_some_and(|place| place.follows) {
            ready.session_mut().begin_unread();
            if let Some(session_effects) = &mut ready.session_mut().session_effects {
                session_effects.unlistens = packed.unlistens;
                let pin = |(hold, since, statement)| Pin { hold, since: Time(since), statement };
                session_effects.comes_keeping(packed.pins.into_iter().map(pin).collect());
            }
        }
        let place = pool.and_then(|pool| self.registry.pool(pool));
        let is_routed = place.is_some_and(|place| place.read_routing != ReadRouting::Off);
        ready.route_reads(is_routed, Some(self.hands.now));
        ready.session_mut().fate = packed.fate;
        ready.note_notified(packed.is_notified);
        ready.skips_from_now(packed.skips);
        if packed.skips != Skips::Nothing {
            self.limits.note_skips();
        }
        ready.tears_answer(packed.is_answer_torn);
        if comes_with_request(!packed.held.0.is_empty()) {
            let mut held = Held::default();
            held.push(packed.held.0.into());
            *ready.held_mut() = Some(Box::new(held));
        }
        let mut is_whole = true;
        if let Some(names) = packed.names {
            ready.session_mut().names = self
                .unpacked(imported_statements, &ready.session().account, |from| Names::unpack(names, from))
                .map(Box::new);
            is_whole &= ready.session().names.is_some();
        }
        let (vars, account) = (&ready.session().vars, &ready.session().account);
        ready.session_mut().unnamed = Unnamed::unpack(packed.unnamed, vars, account, &mut self.statement_registry);
        if let Some((bytes, body_bytes)) = packed.collected {
            let charge = self.statement_registry.charge(&ready.session().account, bytes.0.len());
            ready.session_mut().collected =
                charge.ok().map(|charge| Box::new(Collected { bytes: bytes.0, body_bytes, charge }));
            is_whole &= ready.session().collected.is_some();
        }
        let key = self.take_client(socket, from, id, since, ClientStage::Ready(ready))?;
        if let Some(client) = self.clients.get_mut(key) {
            client.last_received = asked;
        }
        self.cancel.give(key_name, key);
        let Some(pool) = pool else {
            self.fail_client(key, &self.homeless(&packed.pool));
            return None;
        };
        if !is_whole {
            self.fail_client(key, &Fault::StatementsFull);
            return None;
        }
        self.count_arrival(key, pool);
        self.comes_listening(key, packed.channels);
        // The client may have been disconnected, because no listener has listened for it for a while.
        self.clients.get(key)?;
        if let Some(waits_since) = packed.waits_since {
            self.begin_here(key, Time(waits_since));
        }
        Some(key)
    }

    fn unpacked<T>(
        &mut self,
        imported_statements: &mut ImportedStatements,
        account: &Account,
        unpack: impl FnOnce(&mut Unpacking<'_>) -> Option<T>,
    ) -> Option<T> {
        let ImportedStatements { packed, found } = imported_statements;
        unpack(&mut Unpacking { packed, found, statement_registry: &mut self.statement_registry, account })
    }

    fn count_arrival(&mut self, key: Key, pool: PoolKey) {
        let Some(place) = self.registry.pool(pool) else { return };
        let database = place.database;
        let user = match self.clients.get(key).map(|client| &client.stage) {
            Some(ClientStage::Ready(ready)) => ready.session().user,
            Some(ClientStage::Login(login)) => {
                let name = login.request().user.clone();
                self.registry.user(&name, &self.hands.active.settings)
            }
            _ => return,
        };
        self.registry.database_at_mut(database).unused_since = None;
        self.count_as(key, database, user);
    }

    /// Takes over a server, with the client that has it or without one. Returns `None` when it cannot be used here.
    fn arrive_server(
        &mut self,
        packed: PackedServer,
        socket: I::Socket,
        client: Option<ClientKey>,
        imported_statements: &mut ImportedStatements,
    ) -> Option<ServerKey> {
        let pool = self.known_pool(&packed.pool)?;
        let address: Address = packed.address.into();
        let is_clear = matches!(address, Address::Tcp(_));
        let lacks_tls = is_clear && self.hands.active.settings.server_tls_sslmode.forbids_clear_text();
        let is_elsewhere = self.registry.pool(pool).is_none_or(|place| place.welcome.is_none());
        let is_obsolete = packed.is_obsolete || lacks_tls || is_elsewhere;
        if is_obsolete && client.is_none() {
            return None;
        }
        let vars = self.vars_of(&packed.vars);
        let of_others = || Some(self.registry.pool(pool)?.welcome.as_ref()?.statuses.vars().clone());
        let vars = own_parameters(self.known_vars.share(vars), of_others);
        let began = packed.began.map(|began| self.vars_of(&began));
        let began = began.map(|began| self.known_vars.share(began));
        let server_statements = self.unpacked(imported_statements, &Account::default(), |from| {
            ServerStatements::unpack(packed.server_statements, from)
        })?;
        let database = self.registry.pool(pool)?.database;
        let (born, since) = packed.times;
        let imported = Imported { born: Time(born), since: Time(since), is_lent: client.is_some(), is_obsolete };
        let key = self.with_pools(|pools, now, wanted| pools.arrive(now, pool, imported, wanted))?;
        let conn = match self.hands.io.adopt(socket, Owner::Server(key).to_bits()) {
            Ok(conn) => conn,
            Err(_) => {
                self.tell_pools(Event::Lost { server: key });
                return None;
            }
        };
        let mut server = Server::new(conn, packed.id, pool, database, vars, Time(packed.since));
        let entry = self.registry.database_at(database).entry.clone();
        server.set_host(DialedHost::arrived(&packed.host, &address, entry.as_ref().map_or(0, |entry| entry.port)));
        server.dials(address);
        server.serves_reads(self.registry.pool(pool).is_some_and(|place| place.home.is_some()));
        if let Some(place) = entry.and_then(|entry| entry.place_of(|host, port| server.is_at(host, port))) {
            server.host_mut().stands_at(place);
        }
        server.session_mut().exchange = packed.exchange;
        // It is not known whether its open transaction or an unanswered request has created functions.
        server.session_mut().makes_functions = !server.session().exchange.may_end();
        server.session_mut().server_statements = own_statements(server_statements);
        if let Some(began) = began {
            server.session_mut().initial_vars = began;
        }
        for place in packed.set_parameters.iter().filter_map(|name| self.hands.active.tracked.startup_place(name)) {
            server.session_mut().set_parameters.list(place, true);
        }
        server.session_mut().overrides = shared(packed.overrides);
        server.session_mut().sequence_owner = SequenceOwner::Several;
        server.session_mut().placeholders = u64::MAX;
        server.session_mut().setting_statements = packed.told_by;
        server.session_mut().scanner = packed.scanner;
        server.session_mut().fate = packed.fate;
        server.session_mut().collected = packed.collected.0;
        server.resumes(Resumed {
            cancel_key: packed.cancel_key.0.into(),
            last_received: Time(packed.heard),
            request_time: Time(packed.asked),
            query_since: packed.query_since.map(Time),
            xact_since: packed.xact_since.map(Time),
            query_number: packed.query_number,
        });
        server.session_mut().reported_name = packed.reported_name;
        server.session_mut().is_applied_along = true;
        let is_along = server.session().exchange.has_ours_along();
        match client {
            Some(client) => server.lends(client, if is_along { LoanPhase::ApplyingAlong } else { LoanPhase::Running }),
            None => server.comes_to_rest(),
        }
        let (pool, xact_since) = (server.pool(), server.xact_since());
        let exchange = &server.session().exchange;
        let awaits_client = exchange.owes_client_nothing() || exchange.is_copying_in();
        let phase = if awaits_client { Phase::Thinking } else { Phase::FirstByte };
        self.servers.insert(key, server);
        if let Some(place) = self.registry.pool_mut(pool) {
            place.measured.opens(Opened::Restart);
        }
        if let Some(Client { stage: ClientStage::Ready(ready), .. }) =
            client.and_then(|client| self.clients.get_mut(client))
        {
            ready.takes(Link::Loan(key));
            ready.goes_on_reading(pool);
            // The server will send the rest of the answer.
            ready.tears_answer(false);
            if let Some(since) = xact_since {
                ready.meter_mut().division.enter(since, phase);
            }
        }
        if let Some(client) = client.filter(|_| packed.is_asked_in_advance) {
            self.expect_probe_in_advance(key, client);
        }
        self.arm_server(key);
        Some(key)
    }
}
