//! A client connects: its startup packet, and the move to its home worker.
//!
//! Always true: until its startup packet is understood a client is read with one receive at a time, so that it can be
//! handed to another worker with nothing under way; it moves once, and again only if its database has moved meanwhile.
//! Not here: its authentication (`login`).

use std::sync::Arc;

use base::{Key, Time, Wall};
use config::SessionAttrs;
use measure::HandshakePeer;
use protocol::client::greeting::{self, Opening, Request, SSL_REQUEST, StartupRules};
use protocol::fault::Fault;
use reactor::tls::{Security, Side};
use reactor::{Chunk, Io, Level, Peer, Receive};

use crate::admin::console::CONSOLE;
use crate::admission::applicant::LoggingIn;
use crate::admission::greeting::{Greeting, Handshake};
use crate::data::client::{Client, ClientStage, LimitSlots};
use crate::letters::{AddressSource, CancelWait, GreetedClient, ToWorker};
use crate::planted::{is_stuffed, sent_along};
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// A connection has been accepted.
    pub(crate) fn accepted(&mut self, socket: I::Socket, is_last: bool) {
        let peer = self.hands.io.peer(&socket);
        let id = self.hands.posts.ids.take();
        let (since, since_wall) = (self.hands.now, self.hands.io.wall());
        let is_operator = self.is_operator(peer);
        let greeting = Greeting {
            has_kept_descriptor: is_last && is_operator,
            awaits_proxy_header: self.is_proxy(peer),
            ..Greeting::new(since_wall)
        };
        let (from, stage) = ((peer, AddressSource::Socket), ClientStage::Greeting(Box::new(greeting)));
        let Some(key) = self.take_client(socket, from, id, since, stage) else { return };
        if !self.count_unauthenticated(key) {
            return;
        }
        if is_last && !is_operator {
            self.fail_client(key, &Fault::DescriptorsFull);
            return;
        }
        if let Some(client) = self.clients.get(key) {
            self.hands.io.receive(client.conn, Receive::Once);
        }
        self.arm_client(key);
    }

    /// Whether this is our own system user, or root, on the Unix socket.
    pub(crate) fn is_operator(&self, peer: Peer) -> bool {
        matches!(peer, Peer::Unix { uid: Some(uid), .. } if uid == self.hands.active.own_uid || uid == ROOT)
    }

    /// The control thread connects as a client.
    pub(crate) fn receive_own(&mut self, socket: I::Socket, is_listener: bool) {
        let (peer, since_wall) = (self.hands.io.peer(&socket), self.hands.io.wall());
        let stage = ClientStage::Greeting(Box::new(Greeting::new(since_wall)));
        let from = (peer, AddressSource::Socket);
        let Some(key) = self.take_client(socket, from, 0, self.hands.now, stage) else { return };
        if let Some(client) = self.clients.get_mut(key) {
            (client.is_own, client.is_listener) = (true, is_listener);
            self.hands.io.receive(client.conn, Receive::Once);
        }
        self.arm_client(key);
    }

    pub(crate) fn take_client(
        &mut self,
        socket: I::Socket,
        (peer, address_source): (Peer, AddressSource),
        id: u64,
        since: Time,
        stage: ClientStage,
    ) -> Option<Key> {
        let conn = base::Key::NOWHERE;
        let client = Client {
            conn,
            id,
            peer,
            address_source,
            security: None,
            since,
            last_received: self.hands.now,
            answered: self.hands.now,
            timer: None,
            slots: LimitSlots::default(),
            is_own: false,
            is_listener: false,
            tracers: 0,
            stage,
        };
        let Ok(key) = self.clients.insert(client) else {
            self.hands.log.add(Level::Error, format_args!("no room for another client"));
            return None;
        };
        match self.hands.io.adopt(socket, Owner::Client(key).to_bits()) {
            Ok(conn) => {
                if let Some(client) = self.clients.get_mut(key) {
                    client.conn = conn;
                }
                Some(key)
            }
            Err(error) => {
                self.clients.remove(key);
                self.hands.log.add(Level::Error, format_args!("cannot use an accepted connection: {error}"));
                None
            }
        }
    }

    /// Handles bytes of a client before its startup packet is complete.
    pub(crate) fn greeted(&mut self, key: Key, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let ClientStage::Greeting(greeting) = &mut client.stage else { return };
        greeting.has_spoken = true;
        greeting.unread.extend_from_slice(bytes);
        if !greeting.awaits_proxy_header || self.read_proxy_header(key) {
            self.open(key);
        }
    }

    /// Acts on what a client has sent, if that is a whole packet.
    fn open(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let ClientStage::Greeting(greeting) = &mut client.stage else { return };
        match greeting::open(&greeting.unread) {
            Opening::More => self.hands.io.receive(client.conn, Receive::Once),
            Opening::DirectTls => {
                let unread = std::mem::take(&mut greeting.unread);
                if self.offers_tls(key) {
                    self.secure_client(key, &unread);
                } else {
                    self.log_client(key, Level::Log, format_args!("direct TLS is not offered here, closing"));
                    self.drop_client(key, "TLS is not offered");
                }
            }
            Opening::Encryption { bytes, request } => {
                if is_stuffed(greeting.unread.len() > bytes) {
                    self.fail_client(key, &Fault::UnencryptedAfter { request });
                    return;
                }
                greeting.unread.drain(..bytes);
                let (conn, is_tls) = (client.conn, request == SSL_REQUEST);
                if is_tls && client.security.is_some() {
                    self.part_from_client(key, "SSL req inside SSL");
                } else if is_tls && self.offers_tls(key) {
                    self.hands.io.send(conn, Chunk::Own((*b"S").into()));
                    self.secure_client(key, &[]);
                } else {
                    self.hands.io.send(conn, Chunk::Own((*b"N").into()));
                    self.hands.io.receive(conn, Receive::Once);
                }
            }
            Opening::Cancel { key: cancel_key } => {
                // As in PostgreSQL, the connection is closed when the request has been delivered: a client that waits
                // for the end of the connection knows that the request hits no later query.
                let limit = self.hands.active.settings.cancel_wait_timeout;
                let waits = CancelWait { since: self.hands.now, until: limit.map(|limit| self.hands.now + limit) };
                client.stage = ClientStage::Cancelling(waits);
                self.hands.io.receive(client.conn, Receive::Once);
                self.arm_client(key);
                self.route_cancel(&cancel_key, key, waits);
            }
            Opening::Session { bytes, minor, parameters } => {
                let is_clear = client.security.is_none() && matches!(client.peer, Peer::Tcp { .. });
                if is_clear && self.hands.active.settings.client_tls_sslmode.forbids_clear_text() {
                    self.fail_client(key, &Fault::TlsRequired);
                    return;
                }
                let early = greeting.unread[bytes..].to_vec();
                let (since_wall, has_kept_descriptor) = (greeting.since_wall, greeting.has_kept_descriptor);
                let ignored = &self.hands.active.settings.ignore_startup_parameters;
                let rules = StartupRules { tracked: &self.hands.active.tracked, ignored };
                match Request::read(minor, parameters, &rules) {
                    Ok(Request { unsupported: Some(fault), ref user, ref database, ref replication, .. })
                        if replication.is_some() || !self.would_follow(database, user) =>
                    {
                        self.fail_client(key, &fault);
                    }
                    Ok(request) if has_kept_descriptor && *request.database != *CONSOLE => {
                        self.fail_client(key, &Fault::DescriptorsFull);
                    }
                    Ok(Request { target_session_attrs: Some(value), .. })
                        if SessionAttrs::of_word(&value).is_none() =>
                    {
                        self.fail_client(key, &Fault::TargetUnknown { value });
                    }
                    Ok(mut request) => {
                        self.ask_by_port(key, &mut request);
                        self.go_home(key, request, early, since_wall);
                    }
                    Err(fault) => self.fail_client(key, &fault),
                }
            }
            Opening::Farewell => self.part_from_client(key, "client close request"),
            Opening::Bad(fault) => self.fail_client(key, &fault),
        }
    }

    /// A client that has come by `listen_port_replica` asks for a standby, unless it asks for something itself.
    fn ask_by_port(&self, key: Key, request: &mut Request) {
        let port = self.hands.active.settings.listen_port_replica;
        if port == 0 || request.target_session_attrs.is_some() {
            return;
        }
        let near_end = self.clients.get(key).and_then(|client| self.hands.io.near_end(client.conn));
        if near_end.is_some_and(|address| address.port() == port) {
            request.target_session_attrs = Some(SessionAttrs::Standby.word().into());
        }
    }

    /// Whether session state of this user in this database follows clients. For a database that does not exist this
    /// says yes, so that the client gets the error about the database rather than about a parameter.
    fn would_follow(&self, database: &str, user: &str) -> bool {
        let settings = &self.hands.active.settings;
        match settings.database(database) {
            Some(entry) => settings.follows_state(&entry, user),
            None => database != CONSOLE,
        }
    }

    /// Whether this client may have TLS: not on a Unix socket, and not twice.
    fn offers_tls(&self, key: Key) -> bool {
        let Some(client) = self.clients.get(key) else { return false };
        self.hands.active.tls.offer.is_some() && client.security.is_none() && matches!(client.peer, Peer::Tcp { .. })
    }

    /// Begins TLS with a client, which may have sent its beginning already. Nothing of the client is read until TLS is
    /// established.
    fn secure_client(&mut self, key: Key, unread: &[u8]) {
        let (Some(client), Some(offer)) = (self.clients.get_mut(key), self.hands.active.tls.offer.clone()) else {
            return;
        };
        if let ClientStage::Greeting(greeting) = &mut client.stage {
            greeting.handshake = Some(if unread.is_empty() { Handshake::ByRequest } else { Handshake::AtOnce });
        }
        let side = Side::Called { offer, from: client.peer.origin() };
        if let Err(error) = self.hands.io.secure(client.conn, Owner::Client(key).to_bits(), &side, unread) {
            self.log_client(key, Level::Error, format_args!("cannot begin TLS: {error}"));
            self.drop_client(key, "TLS is not offered");
        }
    }

    /// TLS with a client is established: its startup packet is read now.
    pub(crate) fn client_secured(&mut self, key: Key, security: Arc<Security>) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let is_protocol_agreed = security.is_protocol_agreed;
        client.security = Some(security.clone());
        let handshake = match &mut client.stage {
            ClientStage::Greeting(greeting) => greeting.handshake.take(),
            _ => None,
        };
        let conn = client.conn;
        self.count_handshake(HandshakePeer::Client, &security);
        // As in PostgreSQL 17, a client that does not name the protocol may want another service, and a man in the
        // middle may have led it here.
        if handshake == Some(Handshake::AtOnce) && !is_protocol_agreed {
            let why = "received direct SSL connection request without ALPN protocol negotiation extension";
            self.log_client(key, Level::Log, format_args!("{why}"));
            self.drop_client(key, why);
            return;
        }
        self.hands.io.receive(conn, Receive::Once);
    }

    /// Sends the client to the home worker of its database, if that is another one.
    fn go_home(&mut self, key: Key, request: Request, early: Vec<u8>, since_wall: Wall) {
        let home = self.hands.active.homes.home_of(&request.database);
        let Some(client) = self.clients.get_mut(key) else { return };
        if home == self.hands.id || usize::from(home.0) >= self.hands.posts.workers.len() {
            client.stage = ClientStage::Login(Box::new(LoggingIn::new(request)));
            self.begin_login(key, &early);
            return;
        }
        let (id, peer, since, conn, is_own) = (client.id, client.peer, client.since, client.conn, client.is_own);
        let (security, address_source) = (client.security.clone(), client.address_source);
        match self.hands.io.release(conn) {
            Some(socket) => {
                let unauthenticated = client.slots.unauthenticated.take();
                self.forget_client(key);
                let greeted_client = GreetedClient {
                    socket,
                    peer,
                    address_source,
                    security,
                    request,
                    early,
                    id,
                    since,
                    since_wall,
                    is_own,
                    unauthenticated,
                };
                (self.hands.posts.workers[usize::from(home.0)])(ToWorker::Client(Box::new(greeted_client)));
            }
            None => {
                // The answer to the client's SSLRequest or GSSENCRequest, the only bytes that we may have sent, is
                // still on its way.
                self.hands.io.tell_when_drained(conn);
                if let Some(client) = self.clients.get_mut(key) {
                    client.stage = ClientStage::Login(Box::new(LoggingIn::departing(request, early, since_wall)));
                }
            }
        }
    }

    /// Our last byte has been sent; the client can move to its home worker now.
    pub(crate) fn depart(&mut self, key: Key) {
        if let Some((request, early, since_wall)) = self.clients.login_mut(key).and_then(LoggingIn::departure) {
            self.go_home(key, request, early, since_wall);
        }
    }

    /// A client arrives from the worker that accepted it.
    pub(crate) fn receive_greeted_client(&mut self, mut arrived: GreetedClient<I::Socket>) {
        arrived.early = sent_along(arrived.early);
        let home = self.hands.active.homes.home_of(&arrived.request.database);
        if home != self.hands.id {
            // The sender knew other settings: a database that was added or removed meanwhile may have another home.
            (self.hands.posts.workers[usize::from(home.0)])(ToWorker::Client(Box::new(arrived)));
            return;
        }
        let GreetedClient { socket, peer, security, request, early, id, since, is_own, unauthenticated, .. } = arrived;
        let (from, stage) = ((peer, arrived.address_source), ClientStage::Login(Box::new(LoggingIn::new(request))));
        let Some(key) = self.take_client(socket, from, id, since, stage) else {
            self.hands.posts.unauthenticated.give_back(&peer, unauthenticated);
            return;
        };
        if !self.move_unauthenticated(key, unauthenticated) {
            self.displaced(key);
            return;
        }
        if let Some(client) = self.clients.get_mut(key) {
            (client.security, client.is_own) = (security, is_own);
        }
        self.arm_client(key);
        self.begin_login(key, &early);
    }
}

/// The user ID of root.
const ROOT: u32 = 0;
