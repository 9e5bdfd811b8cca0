//! The row of a client, in every stage of its connection.
//!
//! Always true: a stage carries what exists only in it; a client has one server at most.
//! Not here: what is done with its messages (`hear`, `forward`), how it logged in (`admission`).

use protocol::state::Pin;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use base::{Key, Slab, Time};
use pool::{ClientKey, Fingerprint, HoldHistory, PoolKey, ServerKey};
use protocol::cancel::CancelKey;
use protocol::loan::ClientSession;
use protocol::replication::Replication;
use reactor::tls::Security;
use reactor::{Chunk, Conn, Peer, Receive, TimerId};
use wire::{Scanner, Step, frontend};

use crate::admin::console::ConsoleClient;
use crate::admission::applicant::LoggingIn;
use crate::admission::greeting::Greeting;
use crate::data::claims::Claimed;
use crate::data::held::{Held, Skips, first_request};
use crate::data::pace::Pace;
use crate::data::server::fingerprint;
use crate::letters::{AddressSource, CancelWait};
use crate::measured::Meter;
use crate::notify::listening::ListenWait;
use crate::observe::tracers::Mask;
use crate::reads::routing::Routing;

/// The clients of a worker.
#[derive(Debug)]
pub(crate) struct Clients(Slab<Client>);

impl Clients {
    pub(crate) fn with_capacity(capacity: u32) -> Self {
        Self(Slab::with_capacity(capacity))
    }

    /// A client that is logged in to a pool.
    #[inline]
    pub(crate) fn ready(&self, key: Key) -> Option<&Ready> {
        self.0.get(key).and_then(Client::ready)
    }

    #[inline]
    pub(crate) fn ready_mut(&mut self, key: Key) -> Option<&mut Ready> {
        match &mut self.0.get_mut(key)?.stage {
            ClientStage::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// A client that is logged in to a pool, unless it is a connection of our own control thread.
    pub(crate) fn ready_unless_own(&self, key: Key) -> Option<&Ready> {
        self.0.get(key).filter(|client| !client.is_own)?.ready()
    }

    /// A client that is logged in to a pool, if it is a listener.
    pub(crate) fn ready_listener(&self, key: Key) -> Option<&Ready> {
        self.0.get(key).filter(|client| client.is_listener)?.ready()
    }

    /// A client that is logging in.
    pub(crate) fn login(&self, key: Key) -> Option<&LoggingIn> {
        match &self.0.get(key)?.stage {
            ClientStage::Login(login) => Some(login),
            _ => None,
        }
    }

    pub(crate) fn login_mut(&mut self, key: Key) -> Option<&mut LoggingIn> {
        match &mut self.0.get_mut(key)?.stage {
            ClientStage::Login(login) => Some(login),
            _ => None,
        }
    }
}

impl Deref for Clients {
    type Target = Slab<Client>;

    #[inline]
    fn deref(&self) -> &Slab<Client> {
        &self.0
    }
}

impl DerefMut for Clients {
    #[inline]
    fn deref_mut(&mut self) -> &mut Slab<Client> {
        &mut self.0
    }
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) conn: Conn,
    /// Its number in logs and on the console.
    pub(crate) id: u64,
    /// Its address: that of its socket, or the one that a proxy has told.
    pub(crate) peer: Peer,
    pub(crate) address_source: AddressSource,
    /// The TLS session, if it is encrypted.
    pub(crate) security: Option<Arc<Security>>,
    /// When it was accepted.
    pub(crate) since: Time,
    /// When its last bytes arrived.
    pub(crate) last_received: Time,
    /// When its last request had been answered completely.
    pub(crate) answered: Time,
    pub(crate) timer: Option<(TimerId, Time)>,
    /// The slots that it takes of the limits.
    pub(crate) slots: LimitSlots,
    /// A connection of our own control thread: not shown, and not counted by any limit.
    pub(crate) is_own: bool,
    /// The control thread's connection that listens on behalf of all clients: notifications to it are passed on to them.
    pub(crate) is_listener: bool,
    /// The console's tracers that follow this client.
    pub(crate) tracers: Mask,
    pub(crate) stage: ClientStage,
}

/// The slots that a client takes of the limits; given back when it is closed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitSlots {
    /// Of `max_client_conn`.
    pub(crate) has_client_slot: bool,
    /// Of `max_user_client_connections`.
    pub(crate) has_user_slot: bool,
    /// Its entry among the connections that have not logged in.
    pub(crate) unauthenticated: Option<NonZeroU64>,
    /// The numbers of the database and the user under which it is counted.
    pub(crate) counted: Option<(u32, u32)>,
}

/// What the conversation with the client waits for.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // Nearly all clients are ready: a box would cost one more indirection for each message.
pub(crate) enum ClientStage {
    /// The startup packet.
    Greeting(Box<Greeting>),
    /// The cancel request that it sent to be delivered; with the time since which it waits.
    Cancelling(CancelWait),
    /// The password, or the first server of its pool.
    Login(Box<LoggingIn>),
    /// Queries.
    Ready(Ready),
    /// Console commands.
    Console(Box<ConsoleClient>),
}

/// A client that is logged in to a pool.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The pool to which it belongs; while a replica reads for it, that of the replicas.
    pub(super) pool: PoolKey,
    /// Where its requests go, if some may go to replicas.
    pub(super) routing: Option<Box<Routing>>,
    /// The state of its session.
    pub(super) session: ClientSession,
    /// The kind of replication stream, if it has a dedicated server.
    pub(super) replication: Option<Replication>,
    pub(super) cancel_key: CancelKey,
    pub(super) link: Link,
    /// The server of its last loan.
    pub(super) last_server: Option<ServerKey>,
    /// Whether an affinity hold for this client pays off.
    pub(super) hold_history: HoldHistory,
    /// Whether a server of its pool has accepted the parameters of its startup packet.
    pub(super) are_parameters_accepted: bool,
    pub(super) is_paused: bool,
    pub(super) pace: Pace,
    pub(super) is_notified: bool,
    /// Its server was lost in the middle of a message to the client: the client would read anything more as the rest of
    /// that message.
    pub(super) is_answer_torn: bool,
    /// It is closed as soon as it has been given what is withheld from it; nothing more is read from it.
    pub(super) is_leaving: bool,
    /// Its last statement, if that needs a database to itself (`DROP DATABASE`).
    pub(super) claimed: Option<Box<Claimed>>,
    /// The first request that is held is a LISTEN, which needs no server.
    pub(super) listen_wait: Option<Box<ListenWait>>,
    /// Which of its messages are skipped after an error of ours.
    pub(super) skips: Skips,
    /// Its bytes that nothing has looked at yet.
    pub(super) held: Option<Box<Held>>,
    /// Where the time of its current transaction goes.
    pub(super) meter: Meter,
}

/// How a client stands with its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// It needs no server.
    None,
    /// A rate limit has delayed it since this time.
    Delayed(Time),
    /// It has waited for a server since this time.
    Waiting(Time),
    /// It has waited for a server of a replica since this time.
    AsksReplica(Time),
    /// It has this server.
    Loan(ServerKey),
}

impl Link {
    /// The client's server.
    #[inline]
    pub(crate) fn server(self) -> Option<ServerKey> {
        match self {
            Self::Loan(server) => Some(server),
            Self::None | Self::Delayed(_) | Self::Waiting(_) | Self::AsksReplica(_) => None,
        }
    }

    /// Since when it has waited, for a rate limit or a server.
    pub(crate) fn waits_since(self) -> Option<Time> {
        match self {
            Self::Delayed(since) | Self::Waiting(since) | Self::AsksReplica(since) => Some(since),
            Self::None | Self::Loan(_) => None,
        }
    }
}

impl Ready {
    /// The memory that it takes: prepared statements, bytes that no server has been sent, session state that is followed.
    pub(crate) fn memory(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.len());
        self.session.memory() + held
    }

    pub(crate) fn new(pool: PoolKey, session: ClientSession, cancel_key: CancelKey) -> Self {
        Self {
            pool,
            routing: None,
            session,
            replication: None,
            cancel_key,
            link: Link::None,
            last_server: None,
            hold_history: HoldHistory::default(),
            are_parameters_accepted: false,
            is_paused: false,
            pace: Pace::default(),
            is_notified: false,
            is_answer_torn: false,
            is_leaving: false,
            claimed: None,
            listen_wait: None,
            skips: Skips::Nothing,
            held: None,
            meter: Meter::default(),
        }
    }

    /// The pool to which it belongs; while a replica reads for it, that of the replicas.
    pub(crate) fn pool(&self) -> PoolKey {
        self.pool
    }

    /// It belongs to this pool from now on.
    pub(crate) fn belongs_to(&mut self, pool: PoolKey) {
        self.pool = pool;
    }

    /// The state of its session.
    pub(crate) fn session(&self) -> &ClientSession {
        &self.session
    }

    /// The state of its session, to be changed.
    pub(crate) fn session_mut(&mut self) -> &mut ClientSession {
        &mut self.session
    }

    /// How it stands with its pool.
    pub(crate) fn link(&self) -> Link {
        self.link
    }

    /// Stands with its pool in this way from now on. Its server, if it has one, says the same ([`Server::lends`]).
    ///
    /// [`Server::lends`]: crate::data::server::Server::lends
    pub(crate) fn takes(&mut self, link: Link) {
        self.link = link;
    }

    /// A rate limit delays it from now on.
    pub(crate) fn note_delayed(&mut self, now: Time) {
        (self.link, self.is_notified) = (Link::Delayed(now), false);
    }

    /// The kind of replication stream, if it has a dedicated server.
    pub(crate) fn replication(&self) -> Option<Replication> {
        self.replication
    }

    /// It has a dedicated server for this kind of stream, or none.
    pub(crate) fn streams(&mut self, replication: Option<Replication>) {
        self.replication = replication;
    }

    /// The key of its cancel requests.
    pub(crate) fn cancel_key(&self) -> &CancelKey {
        &self.cancel_key
    }

    /// Whether it has been told that it waits.
    pub(crate) fn is_notified(&self) -> bool {
        self.is_notified
    }

    /// It has been told that it waits, or not.
    pub(crate) fn note_notified(&mut self, is_notified: bool) {
        self.is_notified = is_notified;
    }

    /// Whether its server was lost in the middle of a message to it.
    pub(crate) fn is_answer_torn(&self) -> bool {
        self.is_answer_torn
    }

    /// Its last message is incomplete for good, or is not.
    pub(crate) fn tears_answer(&mut self, is_answer_torn: bool) {
        self.is_answer_torn = is_answer_torn;
    }

    /// How much is received from it at a time.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The LISTEN that it waits with, without a server.
    pub(crate) fn listen_wait(&self) -> Option<&ListenWait> {
        self.listen_wait.as_deref()
    }

    /// The LISTEN that it waits with, to begin or end the wait.
    pub(crate) fn listen_wait_mut(&mut self) -> &mut Option<Box<ListenWait>> {
        &mut self.listen_wait
    }

    /// Which of its messages are skipped.
    pub(crate) fn skips(&self) -> Skips {
        self.skips
    }

    /// Which of its messages are skipped from now on, after an error of ours.
    pub(crate) fn skips_from_now(&mut self, skips: Skips) {
        self.skips = skips;
    }

    /// Its bytes that nothing has looked at yet.
    pub(crate) fn held(&self) -> Option<&Held> {
        self.held.as_deref()
    }

    /// Its bytes that nothing has looked at yet, to be taken or added to.
    pub(crate) fn held_mut(&mut self) -> &mut Option<Box<Held>> {
        &mut self.held
    }

    /// Where the time of its current transaction goes.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Where the time of its current transaction goes, to be counted.
    pub(crate) fn meter_mut(&mut self) -> &mut Meter {
        &mut self.meter
    }

    /// Whether it is closed as soon as it has been given what is withheld from it. It is, from now on.
    pub(crate) fn leaves(&mut self) -> bool {
        std::mem::replace(&mut self.is_leaving, true)
    }

    /// Where its requests go, if some may go to replicas.
    pub(crate) fn routing(&self) -> Option<&Routing> {
        self.routing.as_deref()
    }

    /// The same, to be changed.
    pub(crate) fn routing_mut(&mut self) -> Option<&mut Routing> {
        self.routing.as_deref_mut()
    }

    /// The state of its session, and where its requests go, if some may go to replicas.
    pub(crate) fn session_and_routing(&mut self) -> Option<(&ClientSession, &mut Routing)> {
        Some((&self.session, self.routing.as_deref_mut()?))
    }

    /// Has its requests routed from now on, or not any more.
    pub(crate) fn set_routing(&mut self, routing: Option<Routing>) {
        self.routing = routing.map(Box::new);
    }

    /// Whether the client has, or may have, session state on its server that must be probed.
    pub(crate) fn is_marked(&self) -> bool {
        self.session.session_effects.as_ref().is_some_and(|session_effects| session_effects.is_marked())
    }

    /// Whether the client is known to keep its server for something.
    pub(crate) fn has_pins(&self) -> bool {
        self.session.session_effects.as_ref().is_some_and(|session_effects| !session_effects.pins().is_empty())
    }

    /// The things for which the client keeps its server.
    pub(crate) fn pins(&self) -> impl Iterator<Item = &Pin> {
        self.session.session_effects.iter().flat_map(|session_effects| session_effects.pins().iter())
    }

    /// Whether the client's server has to be probed before it is known what the client has there.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.session.session_effects.as_ref().is_some_and(|session_effects| session_effects.is_asked_for())
    }

    /// The fingerprint of its session, for the choice of a server. `key` is that of the client.
    pub(crate) fn fingerprint(&self, key: ClientKey) -> Fingerprint {
        fingerprint(self.session.overrides.as_deref(), self.session.placeholders, Some(key))
    }

    /// Whether the client has this server.
    pub(crate) fn has_loan_of(&self, server: ServerKey) -> bool {
        self.link == Link::Loan(server)
    }

    /// How the client is to be received from now.
    pub(crate) fn receives(&self) -> Option<Receive> {
        match self.pace {
            _ if self.is_paused => None,
            Pace::Stream => Some(Receive::Stream),
            Pace::Once { .. } => Some(Receive::Once),
            Pace::Waits => None,
        }
    }

    /// Takes the first of the held chunks.
    pub(crate) fn pop_held(&mut self) -> Option<Chunk> {
        let held = self.held.as_mut()?;
        let chunk = held.pop();
        if held.is_empty() {
            self.held = None;
        }
        chunk
    }

    /// The held bytes, if they came in one piece.
    pub(crate) fn held_in_one_piece(&self) -> Option<&[u8]> {
        self.held.as_ref().and_then(|held| held.in_one_piece())
    }

    /// Whether what is held ends with a Terminate.
    pub(crate) fn has_said_goodbye(&self) -> bool {
        let Some(held) = self.held.as_ref() else { return false };
        let mut scanner = self.session.scanner.clone();
        let mut is_goodbye = false;
        for bytes in held.chunks() {
            let mut at = 0;
            while let Step::Piece(piece) = scanner.next(bytes, at, u32::MAX) {
                is_goodbye = piece.kind == frontend::TERMINATE && piece.is_last();
                at = piece.range.end;
                if at == bytes.len() {
                    break;
                }
            }
        }
        is_goodbye
    }

    /// Removes the first held request, if it is complete, and the lone Syncs before it. Returns the number of these Syncs.
    pub(crate) fn drop_first_request(&mut self) -> Option<usize> {
        let held = self.held.as_ref()?;
        let mut bytes = self.session.scanner.torn_header().to_vec();
        bytes.extend(held.bytes());
        let first = first_request(&bytes)?;
        self.hold_from(bytes, first.end);
        Some(first.syncs)
    }

    /// Holds, of all the bytes that no server was sent, those from a position on that is between two messages.
    pub(crate) fn hold_from(&mut self, mut bytes: Vec<u8>, at: usize) {
        bytes.drain(..at);
        self.session.scanner = Scanner::default();
        self.held = (!bytes.is_empty()).then(|| {
            let mut held = Held::default();
            held.push(bytes.into());
            Box::new(held)
        });
    }

    /// The kind and declared length of the next message, if its header has arrived completely.
    pub(crate) fn next_header(&self) -> Option<(u8, u32)> {
        let mut header = [0; 5];
        let torn = self.session.scanner.torn_header();
        let held = self.held.iter().flat_map(|held| held.bytes());
        let mut bytes = torn.iter().copied().chain(held);
        for place in &mut header {
            *place = bytes.next()?;
        }
        Some((header[0], u32::from_be_bytes([header[1], header[2], header[3], header[4]])))
    }
}

impl Client {
    /// What is kept of a client that is logged in to a pool.
    #[inline]
    pub(crate) fn ready(&self) -> Option<&Ready> {
        match &self.stage {
            ClientStage::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// Whether its connection uses the Unix socket; if a proxy's does, it may still have an address.
    pub(crate) fn is_on_unix_socket(&self) -> bool {
        match self.address_source {
            AddressSource::Socket => matches!(self.peer, Peer::Unix { .. }),
            AddressSource::HeaderOverTcp => false,
            AddressSource::HeaderOverUnix => true,
        }
    }

    /// Its address, if a PROXY header has told it.
    pub(crate) fn told_address(&self) -> Option<SocketAddr> {
        self.peer.tcp().filter(|_| self.address_source != AddressSource::Socket)
    }

    /// The pool of a client that is logged in, or waits for the first server of its pool.
    pub(crate) fn pool(&self) -> Option<PoolKey> {
        match &self.stage {
            ClientStage::Ready(ready) => Some(ready.pool),
            ClientStage::Login(login) => login.waits_for(),
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => None,
        }
    }

    /// The client's server.
    pub(crate) fn server(&self) -> Option<ServerKey> {
        self.ready().and_then(|ready| ready.link.server())
    }

    /// Whether the client waits for a server, to be let in or for its request.
    pub(crate) fn is_waiting(&self) -> bool {
        match &self.stage {
            ClientStage::Ready(ready) => ready.link.waits_since().is_some(),
            ClientStage::Login(login) => login.waits_for().is_some(),
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => false,
        }
    }

    /// Since when the client has been silent while nothing was owed to it: time in which it waited for an answer does not count.
    pub(crate) fn silent_since(&self) -> Time {
        self.last_received.max(self.answered)
    }
}

/// Whether notifications to this client have to be looked at.
pub(crate) fn has_subscriptions(clients: &Slab<Client>, client: ClientKey) -> bool {
    subscriptions_and_session_effects(clients, Some(client)).0
}

/// Whether notifications to this client have to be looked at, and whether the client may have changed something in its
/// session.
pub(crate) fn subscriptions_and_session_effects(clients: &Slab<Client>, client: Option<ClientKey>) -> (bool, bool) {
    match client.and_then(|client| clients.get(client)) {
        Some(Client { is_listener, stage: ClientStage::Ready(ready), .. }) => {
            (*is_listener || ready.session.subscriptions.is_some(), ready.session.session_effects.is_some())
        }
        Some(Client { is_listener, .. }) => (*is_listener, false),
        None => (false, false),
    }
}
