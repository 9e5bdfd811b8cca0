//! A client connects: its greeting, and the way to its home worker.
//!
//! Always true: until its startup packet is understood a client is heard one piece at a time, so that it can be handed to
//! another worker with nothing under way; it moves once, and again only if its database has moved meanwhile.
//! Not here: who it is (`login`).

use std::sync::Arc;

use base::{Key, Time, Wall};
use measure::HandshakePeer;
use protocol::client::greeting::{self, Opening, Request, SSL_REQUEST, StartupRules};
use protocol::fault::Fault;
use reactor::tls::{Security, Side};
use reactor::{Chunk, Io, Level, Peer, Receive};

use crate::admin::console::CONSOLE;
use crate::admission::applicant::LoggingIn;
use crate::admission::greeting::{Greeting, Handshake};
use crate::data::client::{Client, Seat, Stage};
use crate::letters::{GreetedClient, ToWorker, Waits};
use crate::planted::{is_stuffed, sent_along};
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// Somebody has connected.
    pub(crate) fn accepted(&mut self, socket: I::Socket, is_last: bool) {
        let peer = self.io.peer(&socket);
        let id = self.posts.ids.take();
        let (since, since_wall) = (self.now, self.io.wall());
        let is_operator =
            matches!(peer, Peer::Unix { uid: Some(uid), .. } if uid == self.active.own_uid || uid == ROOT);
        let greeting = Greeting { has_kept_descriptor: is_last && is_operator, ..Greeting::new(since_wall) };
        let Some(key) = self.take_client(socket, peer, id, since, Stage::Greeting(Box::new(greeting))) else { return };
        if !self.count_unauthenticated(key) {
            return;
        }
        if is_last && !is_operator {
            self.fail_client(key, &Fault::DescriptorsFull);
            return;
        }
        if let Some(client) = self.clients.get(key) {
            self.io.receive(client.conn, Receive::Once);
        }
        self.arm_client(key);
    }

    /// The control thread comes as a client.
    pub(crate) fn receive_own(&mut self, socket: I::Socket, is_listener: bool) {
        let (peer, since_wall) = (self.io.peer(&socket), self.io.wall());
        let stage = Stage::Greeting(Box::new(Greeting::new(since_wall)));
        let Some(key) = self.take_client(socket, peer, 0, self.now, stage) else { return };
        self.mark_own(key, true);
        if let Some(client) = self.clients.get_mut(key) {
            client.is_listener = is_listener;
            self.io.receive(client.conn, Receive::Once);
        }
        self.arm_client(key);
    }

    fn mark_own(&mut self, key: Key, is_own: bool) {
        if let Some(client) = self.clients.get_mut(key) {
            client.is_own = is_own;
        }
    }

    pub(crate) fn take_client(
        &mut self,
        socket: I::Socket,
        peer: Peer,
        id: u64,
        since: Time,
        stage: Stage,
    ) -> Option<Key> {
        let conn = base::Key { index: u32::MAX, generation: 0 };
        let (timer, seat, is_own, is_listener) = (None, Seat::default(), false, false);
        let client = Client {
            conn,
            id,
            peer,
            security: None,
            since,
            asked: self.now,
            answered: self.now,
            timer,
            seat,
            is_own,
            is_listener,
            tracers: 0,
            stage,
        };
        let Ok(key) = self.clients.insert(client) else {
            self.log.add(Level::Error, format_args!("no room for another client"));
            return None;
        };
        match self.io.adopt(socket, Owner::Client(key).to_bits()) {
            Ok(conn) => {
                if let Some(client) = self.clients.get_mut(key) {
                    client.conn = conn;
                }
                Some(key)
            }
            Err(error) => {
                self.clients.remove(key);
                self.log.add(Level::Error, format_args!("cannot use an accepted connection: {error}"));
                None
            }
        }
    }

    /// A client in its greeting has said something.
    pub(crate) fn greeted(&mut self, key: Key, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Stage::Greeting(greeting) = &mut client.stage else { return };
        greeting.has_spoken = true;
        greeting.said.extend_from_slice(bytes);
        match greeting::open(&greeting.said) {
            Opening::More => self.io.receive(client.conn, Receive::Once),
            Opening::DirectTls => {
                let said = std::mem::take(&mut greeting.said);
                if self.offers_tls(key) {
                    self.secure_client(key, &said);
                } else {
                    let line = self.client_prefix(key);
                    self.log.about(&line, Level::Log, format_args!("direct TLS is not offered here, closing"));
                    self.drop_client(key, "TLS is not offered");
                }
            }
            Opening::Encryption { bytes, request } => {
                if is_stuffed(greeting.said.len() > bytes) {
                    self.fail_client(key, &Fault::UnencryptedAfter { request });
                    return;
                }
                greeting.said.drain(..bytes);
                let (conn, is_tls) = (client.conn, request == SSL_REQUEST);
                if is_tls && client.security.is_some() {
                    self.part_from_client(key, "SSL req inside SSL");
                } else if is_tls && self.offers_tls(key) {
                    self.io.send(conn, Chunk::Own((*b"S").into()));
                    self.secure_client(key, &[]);
                } else {
                    self.io.send(conn, Chunk::Own((*b"N").into()));
                    self.io.receive(conn, Receive::Once);
                }
            }
            Opening::Cancel { key: cancel_key } => {
                // As PostgreSQL's, the connection ends when the request is done: who waits for that knows that it hits nothing
                // that is asked afterwards.
                let limit = self.active.settings.cancel_wait_timeout;
                let waits = Waits { since: self.now, until: limit.map(|limit| self.now + limit) };
                client.stage = Stage::Cancelling(waits);
                self.io.receive(client.conn, Receive::Once);
                self.arm_client(key);
                self.route_cancel(&cancel_key, key, waits);
            }
            Opening::Session { bytes, minor, parameters } => {
                let is_clear = client.security.is_none() && matches!(client.peer, Peer::Tcp(_));
                if is_clear && self.active.settings.client_tls_sslmode.forbids_clear_text() {
                    self.fail_client(key, &Fault::TlsRequired);
                    return;
                }
                let early = greeting.said.split_off(bytes);
                let (since_wall, has_kept_descriptor) = (greeting.since_wall, greeting.has_kept_descriptor);
                let ignored = &self.active.settings.ignore_startup_parameters;
                let rules = StartupRules { tracked: &self.active.tracked, ignored };
                match Request::read(minor, parameters, &rules) {
                    Ok(Request { unsupported: Some(fault), ref user, ref database, ref replication, .. })
                        if replication.is_some() || !self.would_follow(database, user) =>
                    {
                        self.fail_client(key, &fault);
                    }
                    Ok(request) if has_kept_descriptor && *request.database != *CONSOLE => {
                        self.fail_client(key, &Fault::DescriptorsFull);
                    }
                    Ok(request) => self.go_home(key, request, early, since_wall),
                    Err(fault) => self.fail_client(key, &fault),
                }
            }
            Opening::Farewell => self.part_from_client(key, "client close request"),
            Opening::Bad(fault) => self.fail_client(key, &fault),
        }
    }

    /// Whether sessions of this user in this database follow their clients. Whoever wants a database that there is not is told that, and
    /// not what could not be set in it.
    fn would_follow(&self, database: &str, user: &str) -> bool {
        let settings = &self.active.settings;
        match settings.database(database) {
            Some(entry) => settings.follows_state(&entry, user),
            None => database != CONSOLE,
        }
    }

    /// Whether this client may have TLS: not by a unix socket, and not twice.
    fn offers_tls(&self, key: Key) -> bool {
        let Some(client) = self.clients.get(key) else { return false };
        self.active.tls.offer.is_some() && client.security.is_none() && matches!(client.peer, Peer::Tcp(_))
    }

    /// Begins TLS with a client, which has said the beginning of it already. Until it stands nothing is heard of it.
    fn secure_client(&mut self, key: Key, said: &[u8]) {
        let (Some(client), Some(offer)) = (self.clients.get_mut(key), self.active.tls.offer.clone()) else { return };
        if let Stage::Greeting(greeting) = &mut client.stage {
            greeting.handshake = Some(if said.is_empty() { Handshake::ByRequest } else { Handshake::AtOnce });
        }
        if let Err(error) = self.io.secure(client.conn, Owner::Client(key).to_bits(), &Side::Called(offer), said) {
            let line = self.client_prefix(key);
            self.log.about(&line, Level::Error, format_args!("cannot begin TLS: {error}"));
            self.drop_client(key, "TLS is not offered");
        }
    }

    /// TLS stands between us and a client: now it may say what it wants.
    pub(crate) fn client_secured(&mut self, key: Key, security: Arc<Security>) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let is_protocol_agreed = security.is_protocol_agreed;
        client.security = Some(security.clone());
        let handshake = match &mut client.stage {
            Stage::Greeting(greeting) => greeting.handshake.take(),
            _ => None,
        };
        let conn = client.conn;
        self.count_handshake(HandshakePeer::Client, &security);
        // As PostgreSQL 17: who does not name the protocol may mean another service, and have been led here by somebody in between.
        if handshake == Some(Handshake::AtOnce) && !is_protocol_agreed {
            let line = self.client_prefix(key);
            let why = "received direct SSL connection request without ALPN protocol negotiation extension";
            self.log.about(&line, Level::Log, format_args!("{why}"));
            self.drop_client(key, why);
            return;
        }
        self.io.receive(conn, Receive::Once);
    }

    /// The database that the client wants may live on another worker: then it goes there, once.
    fn go_home(&mut self, key: Key, request: Request, early: Vec<u8>, since_wall: Wall) {
        let home = self.active.homes.home_of(&request.database);
        let Some(client) = self.clients.get_mut(key) else { return };
        if home == self.id || usize::from(home.0) >= self.posts.workers.len() {
            client.stage = Stage::Login(Box::new(LoggingIn::new(request)));
            self.begin_login(key, &early);
            return;
        }
        let (id, peer, since, conn, is_own) = (client.id, client.peer, client.since, client.conn, client.is_own);
        let security = client.security.clone();
        match self.io.release(conn) {
            Some(socket) => {
                let unauthenticated = client.seat.unauthenticated.take();
                self.forget_client(key);
                let greeted_client = GreetedClient {
                    socket,
                    peer,
                    security,
                    request,
                    early,
                    id,
                    since,
                    since_wall,
                    is_own,
                    unauthenticated,
                };
                (self.posts.workers[usize::from(home.0)])(ToWorker::Client(Box::new(greeted_client)));
            }
            None => {
                // Bytes of ours are still on their way to it, which can only be the answer to its request for encryption.
                self.io.tell_when_drained(conn);
                if let Some(client) = self.clients.get_mut(key) {
                    client.stage = Stage::Login(Box::new(LoggingIn::departing(request, early, since_wall)));
                }
            }
        }
    }

    /// The last byte of ours has left; the client can go home now.
    pub(crate) fn depart(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        if let Some((request, early, since_wall)) = login.departure() {
            self.go_home(key, request, early, since_wall);
        }
    }

    /// A client comes from the worker that accepted it.
    pub(crate) fn receive_greeted_client(&mut self, mut arrived: GreetedClient<I::Socket>) {
        arrived.early = sent_along(arrived.early);
        let home = self.active.homes.home_of(&arrived.request.database);
        if home != self.id {
            // Who sent it knew other settings: a database that has come or gone meanwhile may live elsewhere.
            (self.posts.workers[usize::from(home.0)])(ToWorker::Client(Box::new(arrived)));
            return;
        }
        let GreetedClient { socket, peer, security, request, early, id, since, is_own, unauthenticated, .. } = arrived;
        let stage = Stage::Login(Box::new(LoggingIn::new(request)));
        let Some(key) = self.take_client(socket, peer, id, since, stage) else {
            self.posts.unauthenticated.give_back(&peer, unauthenticated);
            return;
        };
        if !self.move_unauthenticated(key, unauthenticated) {
            self.displaced(key);
            return;
        }
        if let Some(client) = self.clients.get_mut(key) {
            client.security = security;
        }
        self.arm_client(key);
        self.mark_own(key, is_own);
        self.begin_login(key, &early);
    }
}

/// The system user that may do everything.
const ROOT: u32 = 0;
