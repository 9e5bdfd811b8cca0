//! Online restart, in the process that ends: its state is packed, and stays unchanged until it is known that the other
//! process has taken over.
//!
//! Always true: only what is at rest is packed, and nothing is touched from then on, so that this process can continue
//! if the other one fails, and only the other one sends anything if it does not; connections with TLS, replication
//! streams and those of the control thread stay behind.
//! Not here: what is packed (`parcel`), the transport (`control::transfer`).

use measure::Closed;
use pool::{PoolKey, ServerKey, State};
use protocol::fault::Fault;
use protocol::loan::{LoanPhase, SetParameters};
use protocol::prepared::Gathered;
use protocol::state::{Hold, Kind, Policy};
use protocol::vars::Vars;
use reactor::Io;

use crate::data::client::{Client, ClientStage, Ready};
use crate::data::server::ServerStage;
use crate::handover::parcel::{
    Cursor, Export, PackedClient, PackedPool, PackedReady, PackedServer, PackedStage, PackedVars, Pair, Parcel,
    PoolName,
};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Packs the next part of this worker's state.
    pub(crate) fn pack(&mut self, from: Cursor) -> Parcel<I::Socket> {
        self.freeze();
        let (export, sockets, listeners) = (Export::default(), Vec::new(), Vec::new());
        let mut parcel = Parcel { export, sockets, listeners, next: None, fault: None };
        let packed = match from {
            Cursor::Start => self.pack_start(&mut parcel),
            Cursor::Clients(place) => self.pack_clients(place, &mut parcel),
            Cursor::Servers(place) => self.pack_servers(place, &mut parcel),
        };
        if let Err(error) = packed {
            parcel.fault = Some(error.to_string());
        }
        parcel
    }

    fn pack_start(&self, parcel: &mut Parcel<I::Socket>) -> std::io::Result<()> {
        parcel.listeners = self.hands.io.listeners()?;
        if self.admin.is_resting() {
            // Before the worker is suspended only the listening sockets are asked for.
            parcel.export.pools = self.registry.pools().filter_map(|(key, _)| self.packed_pool(key)).collect();
        }
        parcel.next = Some(Cursor::Clients(0));
        Ok(())
    }

    fn pack_clients(&mut self, place: u32, parcel: &mut Parcel<I::Socket>) -> std::io::Result<()> {
        let (mut gathered, mut clients, mut servers) = (Gathered::default(), Vec::new(), Vec::new());
        parcel.next = Some(Cursor::Servers(0));
        for (key, client) in self.clients.iter().filter(|(key, _)| key.index >= place) {
            if parcel.export.pairs.len() >= PAIRS_MAX {
                parcel.next = Some(Cursor::Clients(key.index));
                break;
            }
            if self.may_go(client)
                && let Some((pair, sockets)) = self.packed_pair(client, &mut gathered)?
            {
                parcel.sockets.extend(sockets);
                parcel.export.pairs.push(pair);
                clients.push(key);
                servers.extend(client.server());
            }
        }
        parcel.export.statements = gathered.pack();
        self.note_packed(clients, servers);
        Ok(())
    }

    /// A client and its server, with their sockets; `None` if one of the connections has just ended.
    fn packed_pair(&self, client: &Client, gathered: &mut Gathered) -> std::io::Result<Option<(Pair, Vec<I::Socket>)>> {
        let Some(packed) = self.packed_client(client, gathered) else { return Ok(None) };
        let (mut conns, mut sockets) = (vec![client.conn], Vec::new());
        let server = match client.server() {
            None => None,
            Some(key) => {
                let Some(server) = self.packed_server(key, gathered) else { return Ok(None) };
                conns.extend(self.servers.get(key).map(|server| server.conn()));
                Some(server)
            }
        };
        for conn in conns {
            match self.hands.io.duplicate(conn) {
                Ok(socket) => sockets.push(socket),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some((Pair { client: Some(packed), server }, sockets)))
    }

    fn pack_servers(&mut self, place: u32, parcel: &mut Parcel<I::Socket>) -> std::io::Result<()> {
        let (mut gathered, mut servers) = (Gathered::default(), Vec::new());
        for (key, server) in self.servers.iter().filter(|(key, _)| key.index >= place) {
            if parcel.export.pairs.len() >= PAIRS_MAX {
                parcel.next = Some(Cursor::Servers(key.index));
                break;
            }
            // A server that the pool has lent is clean as well, because the attach command was put off.
            let is_clean = matches!(self.pools.state_of(key), State::Idle | State::Lent);
            let may_go = matches!(server.stage(), ServerStage::Idle) && is_clean && !self.pools.is_obsolete(key);
            // A server whose connection has ended meanwhile is left out.
            if may_go
                && server.security().is_none()
                && let Ok(socket) = self.hands.io.duplicate(server.conn())
                && let Some(server) = self.packed_server(key, &mut gathered)
            {
                parcel.sockets.push(socket);
                parcel.export.pairs.push(Pair { client: None, server: Some(server) });
                servers.push(key);
            }
        }
        parcel.export.statements = gathered.pack();
        self.note_packed(Vec::new(), servers);
        Ok(())
    }

    /// Whether a client can be handed over, together with its server if it has one.
    fn may_go(&self, client: &Client) -> bool {
        // A replication stream has a dedicated server; its client reconnects by itself.
        let is_stream = match &client.stage {
            ClientStage::Login(login) => login.request().replication.is_some(),
            ClientStage::Ready(ready) => ready.replication().is_some(),
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => false,
        };
        let is_open = client.security.is_none() && !client.is_own && self.hands.io.is_at_rest(client.conn);
        let is_free = match &client.stage {
            ClientStage::Greeting(greeting) => !greeting.is_shaking(),
            ClientStage::Login(login) => login.waits_for().is_some(),
            ClientStage::Ready(_) => true,
            ClientStage::Cancelling(_) | ClientStage::Console(_) => false,
        };
        let may_server = match client.server() {
            None => true,
            Some(server) => self.servers.get(server).is_some_and(|server| {
                // Queries of ours in front of a request are answered with it, in whichever process the server is by then.
                let phase = &server.session().phase;
                let may_go = matches!(phase, LoanPhase::Running | LoanPhase::Foreseeing(_) | LoanPhase::ApplyingAlong);
                matches!(server.stage(), ServerStage::Lent { .. })
                    && may_go
                    && server.security().is_none()
                    && server.session().cancels_sent == 0
                    && self.hands.io.is_at_rest(server.conn())
            }),
        };
        is_open && is_free && may_server && !is_stream
    }

    fn packed_pool(&self, key: PoolKey) -> Option<PackedPool> {
        let place = self.registry.pool(key)?;
        let database = self.registry.database_at(place.database);
        let (entry, function_catalog) = (database.entry.as_ref()?, &database.function_catalog);
        Some(PackedPool {
            name: self.pool_name(key)?,
            stamp: entry.stamp(),
            welcome: place
                .welcome_for(true)
                .map(|welcome| ((&*welcome.fixed).into(), self.packed_vars(welcome.statuses.vars()))),
            begun: place.welcome_for(true).and_then(|welcome| welcome.begun.as_deref()).cloned().unwrap_or_default(),
            is_welcome_old: place.welcome.is_none(),
            keys: place.keys.as_ref().map(|keys| ((&keys.client_key[..]).into(), (&keys.server_key[..]).into())),
            follows: place.follows,
            custom: function_catalog.custom.of(place.user).map(str::to_owned).collect(),
            is_custom_incomplete: !function_catalog.custom.is_complete(place.user, base::Time(0)),
            asks_for_sequences: function_catalog.asks_for_sequences(place.user),
            told: place.judged.as_ref().or(place.reported_secret.as_ref()).map(|secret| (&*secret.text()).into()),
        })
    }

    fn pool_name(&self, key: PoolKey) -> Option<PoolName> {
        let place = self.registry.pool(key)?;
        Some(PoolName { database: place.database_name.to_string(), user: place.user_name.to_string() })
    }

    /// The pins of a session, except those that pass: sequences, and channels that a listener is to take over.
    fn packed_pins(&self, ready: &Ready) -> Vec<(Hold, u64, Box<str>)> {
        let rules = self.registry.pool(ready.home()).map(|place| &place.pin_rules);
        let passes = |kind| match kind {
            Kind::Channel => rules.is_none_or(|rules| rules.policy(kind) == Policy::Virtualize),
            kind => kind == Kind::Sequence,
        };
        let pins = ready.pins().filter(|pin| !passes(pin.hold.kind));
        pins.map(|pin| (pin.hold.clone(), pin.since.0, pin.statement.clone())).collect()
    }

    fn packed_vars(&self, vars: &Vars) -> PackedVars {
        let named = self.hands.active.tracked.reported_names().enumerate();
        named.filter_map(|(place, name)| Some((name.to_owned(), vars.get(place)?.to_owned()))).collect()
    }

    fn packed_set_parameters(&self, set: SetParameters) -> Vec<String> {
        let named = self.hands.active.tracked.startup_names();
        named.filter(|(place, _)| set.has(*place)).map(|(_, name)| name.to_owned()).collect()
    }

    fn packed_client(&self, client: &Client, gathered: &mut Gathered) -> Option<PackedClient> {
        let stage = match &client.stage {
            ClientStage::Greeting(greeting) => PackedStage::Greeting {
                said: greeting.unread().into(),
                has_spoken: greeting.has_spoken(),
                since_wall: greeting.since_wall().0,
                awaits_proxy_header: greeting.awaits_proxy_header(),
            },
            ClientStage::Login(login) => {
                let (pool, since) = login.waits_since()?;
                PackedStage::Welcome {
                    pool: self.pool_name(pool)?,
                    user: login.request().user.to_string(),
                    minor: login.request().minor,
                    vars: self.packed_vars(&login.request().vars),
                    settings: login.request().settings.clone(),
                    said: login.unread().into(),
                    since: since.0,
                }
            }
            ClientStage::Ready(ready) => PackedStage::Ready(Box::new(self.packed_ready(ready, gathered)?)),
            ClientStage::Cancelling(_) | ClientStage::Console(_) => return None,
        };
        Some(PackedClient {
            id: client.id,
            since: client.since.0,
            asked: client.last_received.0,
            is_unix: client.is_on_unix_socket(),
            stage,
            told_address: client.told_address(),
        })
    }

    fn packed_ready(&self, ready: &Ready, gathered: &mut Gathered) -> Option<PackedReady> {
        let session = ready.session();
        let (key, key_rest) = ready.cancel_key().parts();
        let collected = session.collected.as_ref();
        let subscriptions = session.subscriptions.iter();
        let session_effects = session.session_effects.as_ref();
        Some(PackedReady {
            pool: self.pool_name(ready.home())?,
            user: self.registry.user_at(session.user).name.to_string(),
            vars: self.packed_vars(&session.vars),
            overrides: session.overrides.as_deref().cloned().unwrap_or_default(),
            given: session.initial_overrides.as_deref().cloned().unwrap_or_default(),
            began: (session.initial_vars != session.vars).then(|| self.packed_vars(&session.initial_vars)),
            channels: subscriptions.flat_map(|subscriptions| subscriptions.channels().map(Box::from)).collect(),
            unlistens: session_effects.map(|effects| effects.unlistens.clone()).unwrap_or_default(),
            pins: self.packed_pins(ready),
            cancel_key: key.into(),
            cancel_key_rest: (!key_rest.is_empty()).then(|| key_rest.into()),
            scanner: session.scanner.clone(),
            fate: session.fate,
            names: session.names.as_ref().map(|names| names.pack(gathered)),
            unnamed: session.unnamed.pack(&session.vars),
            collected: collected.map(|collected| (collected.bytes.as_slice().into(), collected.body_bytes)),
            is_notified: ready.is_notified(),
            skips: ready.skips(),
            is_answer_torn: ready.is_answer_torn(),
            held: ready.held().iter().flat_map(|held| held.bytes()).collect::<Vec<_>>().as_slice().into(),
            waits_since: ready.link().waits_since().map(|since| since.0),
        })
    }

    fn packed_server(&self, key: ServerKey, gathered: &mut Gathered) -> Option<PackedServer> {
        let server = self.servers.get(key)?;
        let (born, since) = self.pools.times_of(key)?;
        Some(PackedServer {
            id: server.id(),
            pool: self.pool_name(server.pool())?,
            address: server.address()?.into(),
            host: server.host().name().to_string(),
            since: server.since().0,
            heard: server.last_received().0,
            asked: server.request_time().0,
            query_since: server.query_since().map(|since| since.0),
            xact_since: server.xact_since().map(|since| since.0),
            query_number: server.query_number(),
            exchange: server.session().exchange.clone(),
            server_statements: server.session().server_statements.pack(gathered),
            vars: self.packed_vars(&server.session().vars),
            began: (server.session().initial_vars != server.session().vars)
                .then(|| self.packed_vars(&server.session().initial_vars)),
            set_parameters: self.packed_set_parameters(server.session().set_parameters),
            overrides: server.session().overrides.as_deref().cloned().unwrap_or_default(),
            told_by: server.session().setting_statements,
            reported_name: server.session().reported_name.clone(),
            cancel_key: server.cancel_key().into(),
            scanner: server.session().scanner.clone(),
            fate: server.session().fate,
            collected: server.session().collected.as_slice().into(),
            times: (born.0, since.0),
            is_obsolete: self.pools.is_obsolete(key),
            is_asked_in_advance: matches!(server.session().phase, LoanPhase::Foreseeing(_)),
        })
    }

    /// The other process has taken over. What was left behind is closed, clients with an error; what was packed now
    /// belongs to the other process and is not touched.
    pub(crate) fn part_from_the_rest(&mut self) {
        let (clients, servers) = self.left_behind();
        for key in clients {
            match self.clients.get(key).map(|client| &client.stage) {
                Some(ClientStage::Console(_) | ClientStage::Cancelling(_)) => {
                    self.part_from_client(key, "online restart");
                }
                _ => self.fail_client(key, &Fault::HandedOver),
            }
        }
        for key in servers {
            self.lose_server(key, Closed::Shutdown, "online restart");
        }
        self.admin.hand_over();
    }
}

/// At most this many pairs in one parcel, because their sockets must fit into one message between the processes.
const PAIRS_MAX: usize = 90;
