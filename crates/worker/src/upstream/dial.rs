//! Dialing: from a free slot to a server that is logged in.
//!
//! Always true: a dial ends in exactly one of `Ready` and `DialFailed`.
//! Not here: when to dial and when to try again (`pool::dial`), the addresses of names (`host_names`).

use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use auth::{Password, Secret};
use config::{Database, Host, LoadBalance};
use pool::{ClientKey, Event, Failure, FailureKind, PoolKey, ServerKey};
use protocol::server::login::{Arrival, Identity, LOGIN_MESSAGE_BYTES_MAX, LoginFault, ServerLogin, Step as LoginStep};
use protocol::vars::Vars;
use reactor::{Address, Chunk, Conn, Io, Level, Receive};
use wire::{Step, write};

use crate::data::server::{Server, Stage};
use crate::letters::Shutdown;
use crate::places::{Doubt, PoolPlace, Welcome};
use crate::timers::Timer;
use crate::turn::{Owner, Worker};
use crate::upstream::host_names::{Asker, Known};

impl<I: Io> Worker<I> {
    /// Opens a server for a pool, or for one client of it alone.
    pub(crate) fn dial(&mut self, pool: PoolKey, key: ServerKey, owner: Option<ClientKey>) {
        let id = self.posts.ids.take();
        let Some(place) = self.places.pool(pool) else { return };
        let database = place.database;
        let unknown = self.known_vars.share(Vars::new(&self.force.tracked));
        let nowhere = Conn { index: u32::MAX, generation: 0 };
        self.servers.insert(key, Server::new(nowhere, id, pool, database, unknown, self.now));
        if owner.is_some_and(|owner| !self.pledge(owner, key)) {
            return;
        }
        self.arm_server(key);
        let Some(entry) = self.places.databases[database as usize].entry.clone() else {
            self.dial_failed(key, Failure::unreachable("database removed"));
            return;
        };
        let host = self.next_host(database, &entry);
        if let Some(server) = self.servers.get_mut(key) {
            server.host = match &host {
                Host::Ip(ip) => ip.to_string().into(),
                Host::Name(name) => name.clone(),
                Host::Unix(_) | Host::Abstract(_) => "".into(),
            };
        }
        match host {
            Host::Ip(ip) => self.connect_server(key, Address::Tcp(SocketAddr::new(ip, entry.port))),
            host @ (Host::Unix(_) | Host::Abstract(_)) => {
                let name: Box<str> = host.socket_name(entry.port).unwrap_or_default().into();
                let is_abstract = matches!(host, Host::Abstract(_));
                self.connect_server(key, if is_abstract { Address::Abstract(name) } else { Address::Unix(name) });
            }
            Host::Name(name) => self.resolve(key, &name, entry.port),
        }
    }

    /// Which of several hosts is tried: one after the other, or the same until it fails.
    fn next_host(&mut self, database: u32, entry: &Database) -> Host {
        let place = &mut self.places.databases[database as usize];
        if place.host == usize::MAX {
            place.host = 0;
        } else if entry.load_balance_hosts == LoadBalance::RoundRobin {
            place.host += 1;
        }
        entry.hosts[place.host % entry.hosts.len()].clone()
    }

    fn resolve(&mut self, key: ServerKey, name: &Arc<str>, port: u16) {
        match self.address_of(name, Asker::Server(key)) {
            Known::Address(ip) => self.connect_server(key, Address::Tcp(SocketAddr::new(ip, port))),
            Known::Nothing => self.dial_failed(key, Failure::unreachable("server DNS lookup failed")),
            Known::Later => {}
        }
    }

    /// The name of a server's host has been looked up.
    pub(crate) fn server_resolved(&mut self, key: ServerKey, name: &Arc<str>) {
        let Some(server) = self.servers.get(key) else { return };
        if let (Stage::Resolving, Some(entry)) =
            (&server.stage, self.places.databases[server.database as usize].entry.clone())
        {
            self.resolve(key, name, entry.port);
        }
    }

    fn connect_server(&mut self, key: ServerKey, address: Address) {
        match self.io.connect(&address, Owner::Server(key).to_bits()) {
            Ok(conn) => {
                let Some(server) = self.servers.get_mut(key) else { return };
                server.conn = conn;
                server.address = Some(address);
                server.stage = Stage::Connecting;
            }
            Err(error) if is_scarce(&error) => {
                // Not the server's fault: it is tried again as soon as somebody has gone, until the dial's time is over.
                let line = self.server_prefix(key);
                self.log.add(Level::Warning, format_args!("{line}connect delayed: {}", words(&error)));
                if let Some(server) = self.servers.get_mut(key) {
                    server.address = Some(address);
                    self.timers.insert(self.now + SCARCE_PAUSE, Timer::Redial(key));
                }
            }
            Err(error) => {
                let line = self.server_prefix(key);
                self.log.add(Level::Warning, format_args!("{line}connect failed: {}", words(&error)));
                self.dial_failed(key, Failure::unreachable("connect failed"));
            }
        }
    }

    /// A dial that found no descriptor is tried again.
    pub(crate) fn redial(&mut self, key: ServerKey) {
        if let Some(Server { stage: Stage::Resolving, address: Some(address), .. }) = self.servers.get(key) {
            self.connect_server(key, address.clone());
        }
    }

    /// The connection did not come about; the reactor has closed it.
    pub(crate) fn connect_failed(&mut self, key: ServerKey, error: &std::io::Error) {
        let line = self.server_prefix(key);
        self.log.add(Level::Warning, format_args!("{line}connect failed: {}", words(error)));
        self.dial_failed(key, Failure::unreachable("connect failed"));
    }

    /// The connection stands: now TLS, or the login.
    pub(crate) fn server_connected(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        if self.force.settings.log_connections {
            let ours = self.io.near_end(server.conn);
            let line = self.server_prefix(key);
            match ours {
                Some(ours) => {
                    self.log.add(Level::Log, format_args!("{line}new connection to server (from {ours})"));
                }
                None => self.log.add(Level::Log, format_args!("{line}new connection to server")),
            }
        }
        if self.asks_for_tls(key) {
            self.ask_for_tls(key);
        } else if self.lacks_tls(key) {
            self.dial_failed(key, Failure::unreachable("TLS is required and could not be set up"));
        } else {
            self.begin_server_login(key);
        }
    }

    /// Logs in to a server that stands.
    pub(crate) fn begin_server_login(&mut self, key: ServerKey) {
        let mut nonce = [0; auth::scram::NONCE_BYTES];
        self.io.randomness(&mut nonce);
        let Some(server) = self.servers.get(key) else { return };
        let channel = server.security.as_ref().and_then(|security| security.end_point.clone());
        let identity = match self.identity(server.pool, server.private.is_none()) {
            Ok(identity) => Identity { channel, ..identity },
            Err(failure) => {
                self.dial_failed(key, failure);
                return;
            }
        };
        let identity = self.identity_of_private(key, identity);
        let mut out = Vec::new();
        let login = ServerLogin::begin(identity, nonce, &mut out);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.stage = Stage::Login(Box::new(login));
        self.io.send(server.conn, out.into());
        self.io.receive(server.conn, Receive::Stream);
    }

    /// Whom the servers of a pool are logged in as, and by which secret: the database's own, else that of the user on the
    /// server. One that `is_shared` gets the name of the client that has logged in last: most clients of a pool are one program, and to that name a reset
    /// leads, so that it has not to be told again.
    fn identity(&self, pool: PoolKey, is_shared: bool) -> Result<Identity, Failure> {
        let place = self.places.pool(pool).ok_or_else(|| Failure::unreachable("database removed"))?;
        let entry = self.places.databases[place.database as usize].entry.as_ref();
        let entry = entry.ok_or_else(|| Failure::unreachable("database removed"))?;
        let parameters = [
            ("client_encoding", &entry.client_encoding),
            ("datestyle", &entry.datestyle),
            ("timezone", &entry.timezone),
            ("application_name", &entry.application_name),
        ];
        let mut parameters: Vec<(Cow<'static, str>, Box<str>)> = parameters
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), (**value.as_ref()?).into())))
            .collect();
        // Not where the server will tell what clients begin with that give none.
        let name =
            place.latest.as_ref().filter(|_| is_shared && place.welcome.is_some() && entry.application_name.is_none());
        let name = name.and_then(|vars| vars.get(self.force.tracked.application_name()));
        if let Some(name) = name.filter(|name| !name.is_empty() && name.is_ascii()) {
            parameters.push(("application_name".into(), name.into()));
        }
        Ok(Identity {
            user: place.user_name.clone(),
            database: entry.dbname.clone(),
            secret: self.secret_of_pool(place, entry).0,
            keys: place.keys.clone(),
            salted: place.salted.clone(),
            iterations_max: self.force.settings.scram_iterations_max,
            channel: None,
            parameters,
        })
    }

    /// The secret of a pool's user, and whether a server has told it (`auth_query`).
    fn secret_of_pool(&self, place: &PoolPlace, entry: &Database) -> (Arc<Secret>, bool) {
        // As in PgBouncer, the password of a line is that of its user.
        let own = entry.password.as_ref().filter(|_| entry.user.as_deref() == Some(&*place.user_name));
        if let Some(password) = own.and_then(|password| Password::new(password.expose())) {
            return (Arc::new(Secret::Plain(password)), false);
        }
        let listed = self.force.users.secret(&place.user_name).filter(|secret| !secret.is_none());
        match (place.judged.as_ref().or(listed), &place.told) {
            (Some(known), _) => (known.clone(), false),
            (None, Some(told)) => (told.clone(), true),
            (None, None) => (Arc::default(), false),
        }
    }

    /// Whether the servers of a pool are logged in by what a server has told of its user.
    pub(crate) fn is_told_secret(&self, pool: PoolKey) -> bool {
        let Some(place) = self.places.pool(pool) else { return false };
        let entry = self.places.databases[place.database as usize].entry.as_ref();
        entry.is_some_and(|entry| self.secret_of_pool(place, entry).1)
    }

    /// A server says something during its login.
    pub(crate) fn login_answered(&mut self, key: ServerKey, bytes: &[u8], from: usize) {
        let mut at = from;
        while at < bytes.len() {
            let Some(server) = self.servers.get_mut(key) else { return };
            let Stage::Login(login) = &mut server.stage else {
                self.converse(key, Chunk::Own(bytes[at..].into()), 0);
                return;
            };
            let piece = match server.session.scanner.next(bytes, at, LOGIN_MESSAGE_BYTES_MAX) {
                Step::Piece(piece) => piece,
                Step::More => return,
                Step::Bad { kind, .. } => {
                    self.login_failed(key, &LoginFault::Nonsense(kind));
                    return;
                }
            };
            at = piece.range.end;
            let step = if piece.is_whole() {
                login.hear(piece.kind, &bytes[piece.body])
            } else {
                server.session.collected.extend_from_slice(&bytes[piece.body.clone()]);
                if !piece.is_last() {
                    continue;
                }
                let body = std::mem::take(&mut server.session.collected);
                login.hear(piece.kind, &body)
            };
            match step {
                Ok(LoginStep::Wait) => {}
                Ok(LoginStep::Send(out)) => self.io.send(server.conn, out.into()),
                Ok(LoginStep::Derive(derivation)) => self.hash_for_server(key, derivation),
                Ok(LoginStep::Ready(arrival)) => self.arrived(key, arrival),
                Err(fault) => {
                    self.login_failed(key, &fault);
                    return;
                }
            }
        }
    }

    /// The login is complete.
    fn arrived(&mut self, key: ServerKey, arrival: Arrival) {
        let tracked = &self.force.tracked;
        let mut vars = Vars::new(tracked);
        let mut fixed = Vec::new();
        write::authentication(&mut fixed, 0, &[]);
        for (name, value) in &arrival.parameters {
            match tracked.place(name) {
                Some(place) => drop(vars.set(place, value)),
                None => write::parameter_status(&mut fixed, name, value),
            }
        }
        let vars = self.known_vars.share(vars);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.session.vars = vars.clone();
        server.cancel_key = arrival.key;
        let (pool, database) = (server.pool, server.database);
        server.welcome = Some(Rc::new(Welcome { fixed, vars, begun: None }));
        let takes_queries = server.private.as_ref().is_none_or(|private| private.takes_queries());
        if let Some(place) = self.places.pool_mut(pool) {
            (place.salted, place.doubt) = (arrival.salted, Doubt::None);
        }
        let entry = self.places.databases[database as usize].entry.as_ref().filter(|_| takes_queries);
        let query = entry.and_then(|entry| entry.connect_query.clone());
        let Some(server) = self.servers.get_mut(key) else { return };
        match query {
            Some(query) => {
                server.stage = Stage::Introducing;
                server.session.exchange.asks_ours();
                let mut out = Vec::new();
                write::query(&mut out, &query);
                self.io.send(server.conn, out.into());
            }
            None => self.ask_at_first(key),
        }
    }

    /// A server is ready for its first client.
    pub(crate) fn dialed(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.comes_to_rest();
        server.heard = self.now;
        self.places.databases[server.database as usize].is_missing = false;
        let (pool, is_shared) = (server.pool, server.private.is_none());
        // A server that is one client's alone gives it to that.
        let welcome = server.welcome.take_if(|_| is_shared);
        if let Some(place) = self.places.pool_mut(pool).filter(|place| is_shared && place.welcome.is_none()) {
            place.welcome = welcome;
            if let Some(welcome) = place.welcome.as_mut().filter(|_| server.session.overrides.is_some()) {
                Rc::make_mut(welcome).begun.clone_from(&server.session.overrides);
            }
        }
        self.disarm_server(key);
        self.tell_pools(Event::Ready { server: key });
        if is_shared && self.shutdown == Some(Shutdown::WaitForServers) {
            self.tell_pools(Event::Retire { pool });
        }
    }

    fn login_failed(&mut self, key: ServerKey, fault: &LoginFault) {
        let line = self.server_prefix(key);
        let failure = match fault {
            LoginFault::Refused(notice) => {
                let (severity, message) = (&notice.severity, &notice.message);
                if self.servers.get(key).is_some_and(|server| server.private.is_some()) {
                    self.log.add(Level::Error, format_args!("{line}S: login failed: {severity}: {message}"));
                } else {
                    self.log.add(Level::Warning, format_args!("{line}server login failed: {severity} {message}"));
                }
                let sqlstate = notice.sqlstate.as_bytes().try_into().unwrap_or(*b"08P01");
                if let Some(server) = self.servers.get(key).filter(|_| sqlstate == NO_SUCH_DATABASE) {
                    self.places.databases[server.database as usize].is_missing = true;
                }
                Failure::refused(sqlstate, message.as_str()).explained(notice.detail.as_deref(), notice.hint.as_deref())
            }
            LoginFault::KeysMissing => {
                let why = "cannot do SCRAM authentication: password is SCRAM secret but client authentication did not \
                           provide SCRAM keys";
                self.log.add(Level::Warning, format_args!("{line}{why}"));
                let text = "server login failed: wrong password type";
                Failure::unproved(text)
            }
            LoginFault::WrongSecret(text) => {
                self.log.add(Level::Warning, format_args!("{line}server login failed: {text}"));
                Failure::unproved(format!("server login failed: {text}"))
            }
            LoginFault::IterationsRefused { iterations, allowed } => {
                let text = match iterations {
                    0 => "server asks for a SCRAM iteration count of 0".to_owned(),
                    _ => format!(
                        "server asks for {iterations} SCRAM iterations, more than {allowed} (scram_iterations_max)"
                    ),
                };
                self.log.add(Level::Warning, format_args!("{line}server login failed: {text}"));
                Failure::unproved(format!("server login failed: {text}"))
            }
            LoginFault::UnknownMechanisms(names) => {
                let text = format!(
                    "server login failed: none of the server's SASL authentication mechanisms are supported: {names}"
                );
                self.log.add(Level::Warning, format_args!("{line}{text}"));
                Failure::unproved(text)
            }
            LoginFault::UnknownMethod(code) => {
                self.log.add(Level::Error, format_args!("{line}unknown/unsupported auth method: {code}"));
                let text = "server login failed: unsupported authentication method";
                Failure::unproved(text)
            }
            LoginFault::Nonsense(kind) => {
                self.protocol_surprises += 1;
                let shown = kind.escape_ascii();
                self.log.add(Level::Error, format_args!("{line}nonsense during login, message kind '{shown}'"));
                Failure::unreachable("server conn crashed?")
            }
        };
        self.dial_failed(key, failure);
    }

    /// A dial has failed, whatever the stage.
    pub(crate) fn dial_failed(&mut self, key: ServerKey, mut failure: Failure) {
        let Some(server) = self.servers.get(key) else { return };
        let place = &mut self.places.databases[server.database as usize];
        let stays = place.entry.as_ref().is_some_and(|entry| entry.load_balance_hosts == LoadBalance::Disable);
        if stays && failure.kind != FailureKind::Refused {
            place.host += 1;
        }
        let is_refused = failure.sqlstate.is_some() && server.private.is_some();
        let pool = server.pool;
        if let Some(place) = self.places.pool_mut(pool) {
            // Keys and salted passwords may be what was wrong.
            place.salted = None;
            let is_unproved = failure.kind == FailureKind::Refused && failure.sqlstate.is_none();
            if is_unproved || failure.sqlstate == Some(WRONG_PASSWORD) {
                // So may be what a server told of its user long ago: whoever comes next has it asked again.
                self.remembered.forget(&place.database_name, &place.user_name);
                if self.doubt_secret_of_pool(pool) {
                    // Who waits in the pool is served as soon as the secret of now is known.
                    failure.kind = FailureKind::Passing;
                }
            }
        }
        self.drop_server(key, if is_refused { "login failed" } else { &failure.text });
        self.tell_pools(Event::DialFailed { server: key, failure });
    }
}

/// What the system says, without the number that Rust adds.
pub(crate) fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

/// Whether an error says that descriptors have run out.
fn is_scarce(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| code == EMFILE || code == ENFILE)
}

/// A server has no database of this name (`ERRCODE_UNDEFINED_DATABASE`).
const NO_SUCH_DATABASE: [u8; 5] = *b"3D000";
/// A server does not take the password (`ERRCODE_INVALID_PASSWORD`).
const WRONG_PASSWORD: [u8; 5] = *b"28P01";
/// The system's numbers for "too many open files" of the process and of the machine (Linux, `errno-base.h`).
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
/// How long a dial waits for a descriptor before it looks again.
const SCARCE_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
