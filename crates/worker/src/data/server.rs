//! The row of a server, in every stage of its connection.
//!
//! Always true: a stage carries what exists only in it; a server is lent to one client at most.
//! Not here: what is done with its messages (`converse`), how it is dialed (`upstream::dial`), lent (`attach`) and
//! cleaned up (`upstream::cleanup`).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use base::Time;
use config::Host;
use measure::Opened;
use pool::{AffinityHold, ClientKey, Fingerprint, PoolKey};
use protocol::loan::{LoanPhase, ServerSession};
use protocol::server::login::ServerLogin;
use protocol::state::Overrides;
use protocol::vars::Vars;
use reactor::tls::{Demand, Security};
use reactor::{Address, Chunk, Conn, Io, TimerId};
use wire::write;

use crate::notify::listening::Withheld;
use crate::observe::course::{Course, RequestHead};
use crate::observe::sampled::Sampled;
use crate::registry::Welcome;
use crate::upstream::attempt::Attempt;
use crate::upstream::cleanup::Cleaning;
use crate::upstream::dedicated::Dedicated;
use crate::upstream::dialed_host::DialedHost;

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) conn: Conn,
    /// Its number in logs and on the console.
    pub(super) id: u64,
    pub(super) pool: PoolKey,
    pub(super) database: u32,
    /// Its address; cancel requests for it go there too.
    pub(super) address: Option<Address>,
    pub(super) host: DialedHost,
    /// The TLS session, if it is encrypted.
    pub(super) security: Option<Arc<Security>>,
    /// When dialing began.
    pub(super) since: Time,
    pub(super) stage: ServerStage,
    /// The client whose dedicated server this is, if it is one.
    pub(super) dedicated: Option<Box<Dedicated>>,
    /// The state of its session, and what it has been sent and has answered.
    pub(super) session: ServerSession,
    /// The client of its last loan.
    pub(super) last_client: Option<ClientKey>,
    /// What the server reported at its login and in `connect_query`, kept until its first loan.
    pub(super) welcome: Option<Rc<Welcome>>,
    /// Process ID and secret key, for cancel requests.
    pub(super) cancel_key: Box<[u8]>,
    pub(super) is_paused: bool,
    /// It answers a question about functions, and is received from one buffer at a time.
    pub(super) is_slowed: bool,
    /// It owes so many answers that its client is not read until some have come.
    pub(super) is_full: bool,
    /// Messages from the server that its client is not given yet.
    pub(super) withheld: Option<Box<Withheld>>,
    /// Bytes received on the shared `LISTEN` session that later turns look at
    /// ([`Broadcast::HandleKept`](crate::notify::backlog::Broadcast::HandleKept)).
    pub(super) later: Option<VecDeque<Chunk>>,
    /// The withheld messages are being given to the client now.
    pub(super) is_released: bool,
    /// The settings that are being reset ahead of its client's request, and that no server of the pool has reset yet.
    pub(super) resetting: Box<[Box<str>]>,
    /// Whether it stays for a moment with a client that may come back at once.
    pub(super) affinity_hold: AffinityHold,
    pub(super) timer: Option<(TimerId, Time)>,
    /// When the current query and transaction began.
    pub(super) query_since: Option<Time>,
    pub(super) xact_since: Option<Time>,
    /// The TLS settings of its handshake: cancel requests for it use the same, even after a reload.
    pub(super) demand: Option<Arc<Demand>>,
    /// When its last bytes arrived.
    pub(super) last_received: Time,
    /// When its client's last request had been answered.
    pub(super) answered: Time,
    /// When it was last sent a request, settings or a probe (`request_time`).
    pub(super) request_time: Time,
    /// Number of queries sent to it; names the query that a cancel request is meant for.
    pub(super) query_number: u64,
    /// The last query that failed.
    pub(super) failed_query: u64,
    /// The beginning of its client's last request.
    pub(super) request_head: RequestHead,
    /// The current request, if it is sampled or traced.
    pub(super) sampled: Option<Box<Sampled>>,
    /// The course of the current transaction, if long ones are logged.
    pub(super) course: Option<Box<Course>>,
    /// Why it was opened.
    pub(super) opened_for: Opened,
    /// Whether it is for reads that are routed to replicas.
    is_replica: bool,
    /// It has logged in, and was counted as opened.
    pub(super) is_counted: bool,
}

/// What a server that is taken over from another process was doing there; see [`Server`].
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) cancel_key: Box<[u8]>,
    pub(crate) last_received: Time,
    pub(crate) request_time: Time,
    pub(crate) query_since: Option<Time>,
    pub(crate) xact_since: Option<Time>,
    pub(crate) query_number: u64,
}

/// What a server is doing.
#[derive(Debug)]
pub(crate) enum ServerStage {
    /// The name of its host is being looked up.
    Resolving,
    /// The connection is being established, or waits for a descriptor.
    Connecting(Box<Attempt>),
    /// TLS is being negotiated.
    Securing(Securing),
    /// We are logging in.
    Login(Box<ServerLogin>),
    /// `connect_query` runs.
    Introducing,
    /// It is ready to be lent.
    Idle,
    /// It is lent to a client.
    Lent {
        /// The client.
        client: ClientKey,
    },
    /// It is being cleaned up.
    Cleaning(Cleaning),
}

/// How far TLS with a server has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Securing {
    /// The SSLRequest has been sent.
    Asked,
    /// The server speaks TLS, and the handshake is under way.
    Shaking,
}

impl Server {
    /// It is for reads that are routed to replicas, or not.
    pub(crate) fn serves_reads(&mut self, is_replica: bool) {
        self.is_replica = is_replica;
    }

    /// Whether it is for reads that are routed to replicas.
    pub(crate) fn is_replica(&self) -> bool {
        self.is_replica
    }

    /// A server that is about to be dialed.
    pub(crate) fn new(conn: Conn, id: u64, pool: PoolKey, database: u32, vars: Rc<Vars>, now: Time) -> Self {
        Self {
            conn,
            id,
            pool,
            database,
            address: None,
            host: DialedHost::default(),
            security: None,
            since: now,
            stage: ServerStage::Resolving,
            dedicated: None,
            session: ServerSession::new(vars),
            last_client: None,
            welcome: None,
            cancel_key: Box::default(),
            is_paused: false,
            is_slowed: false,
            is_full: false,
            withheld: None,
            later: None,
            is_released: false,
            resetting: Box::default(),
            affinity_hold: AffinityHold::default(),
            timer: None,
            query_since: None,
            xact_since: None,
            demand: None,
            last_received: now,
            answered: now,
            request_time: now,
            query_number: 0,
            failed_query: 0,
            request_head: RequestHead::default(),
            sampled: None,
            course: None,
            opened_for: Opened::Client,
            is_replica: false,
            is_counted: false,
        }
    }

    /// What it is doing.
    pub(crate) fn stage(&self) -> &ServerStage {
        &self.stage
    }

    /// What it is doing, to go on with it.
    pub(crate) fn stage_mut(&mut self) -> &mut ServerStage {
        &mut self.stage
    }

    /// The state of its session, and what it has been sent and has answered.
    pub(crate) fn session(&self) -> &ServerSession {
        &self.session
    }

    /// The state of its session, to be changed.
    pub(crate) fn session_mut(&mut self) -> &mut ServerSession {
        &mut self.session
    }

    /// What it is doing, and its session.
    pub(crate) fn stage_and_session(&mut self) -> (&mut ServerStage, &mut ServerSession) {
        (&mut self.stage, &mut self.session)
    }

    /// Begins to do something else.
    pub(crate) fn enters(&mut self, stage: ServerStage) {
        self.stage = stage;
    }

    /// The host that it is dialed at.
    pub(crate) fn host(&self) -> &DialedHost {
        &self.host
    }

    /// The host that it is dialed at, to note what is found out about it.
    pub(crate) fn host_mut(&mut self) -> &mut DialedHost {
        &mut self.host
    }

    /// It is dialed at this host.
    pub(crate) fn set_host(&mut self, host: DialedHost) {
        self.host = host;
    }

    /// Its connection.
    pub(crate) fn conn(&self) -> Conn {
        self.conn
    }

    /// Its number in logs and on the console.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The pool that it belongs to.
    pub(crate) fn pool(&self) -> PoolKey {
        self.pool
    }

    /// The number of its database.
    pub(crate) fn database(&self) -> u32 {
        self.database
    }

    /// Its address, once it is known.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Its TLS session, if it is encrypted.
    pub(crate) fn security(&self) -> Option<&Security> {
        self.security.as_deref()
    }

    /// When dialing it began.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// The client whose dedicated server this is, if it is one.
    pub(crate) fn dedicated(&self) -> Option<&Dedicated> {
        self.dedicated.as_deref()
    }

    /// Process ID and secret key, for cancel requests; empty before the login.
    pub(crate) fn cancel_key(&self) -> &[u8] {
        &self.cancel_key
    }

    /// The TLS settings of its handshake, which cancel requests for it use as well.
    pub(crate) fn demand(&self) -> Option<&Arc<Demand>> {
        self.demand.as_ref()
    }

    /// Whether nothing is received from it, because its client does not take more.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether it owes so many answers that its client is not read until some have come.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// When the current query began.
    pub(crate) fn query_since(&self) -> Option<Time> {
        self.query_since
    }

    /// When the current transaction began.
    pub(crate) fn xact_since(&self) -> Option<Time> {
        self.xact_since
    }

    /// When its last bytes arrived.
    pub(crate) fn last_received(&self) -> Time {
        self.last_received
    }

    /// When its client's last request had been answered.
    pub(crate) fn answered(&self) -> Time {
        self.answered
    }

    /// When it was last sent a request, settings or a probe.
    pub(crate) fn request_time(&self) -> Time {
        self.request_time
    }

    /// Number of queries sent to it.
    pub(crate) fn query_number(&self) -> u64 {
        self.query_number
    }

    /// Whether it has logged in, and was counted as opened.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// What its client is not given yet.
    pub(crate) fn withheld(&self) -> Option<&Withheld> {
        self.withheld.as_deref()
    }

    /// What its client is not given yet, to be added to.
    pub(crate) fn withheld_mut(&mut self) -> Option<&mut Withheld> {
        self.withheld.as_deref_mut()
    }

    /// This is not given to its client yet.
    pub(crate) fn withholds(&mut self, withheld: Withheld) {
        self.withheld = Some(Box::new(withheld));
    }

    /// Nothing is withheld any more. Returns what was.
    pub(crate) fn take_withheld(&mut self) -> Option<Withheld> {
        self.withheld.take().map(|withheld| *withheld)
    }

    /// Bytes received on the shared `LISTEN` session that later turns look at.
    pub(crate) fn later(&mut self) -> &mut Option<VecDeque<Chunk>> {
        &mut self.later
    }

    /// Whether later turns look at bytes that have been received.
    pub(crate) fn keeps_for_later(&self) -> bool {
        self.later.is_some()
    }

    /// Whether the withheld messages are being given to the client now.
    pub(crate) fn is_released(&self) -> bool {
        self.is_released
    }

    /// The withheld messages are being given to the client from now on, or are not. Returns what was so before.
    pub(crate) fn releases(&mut self, is_released: bool) -> bool {
        std::mem::replace(&mut self.is_released, is_released)
    }

    /// The current request, if it is sampled or traced, and the session with the tally of its answer.
    pub(crate) fn sampled(&mut self) -> (&mut Option<Box<Sampled>>, &mut ServerSession) {
        (&mut self.sampled, &mut self.session)
    }

    /// The course of the current transaction.
    pub(crate) fn course(&mut self) -> &mut Course {
        self.course.get_or_insert_default()
    }

    /// The beginning of its client's last request.
    pub(crate) fn request_head(&self) -> &RequestHead {
        &self.request_head
    }

    /// The address that is, or was, dialed.
    pub(crate) fn dials(&mut self, address: Address) {
        self.address = Some(address);
    }

    /// Its connection is this one, or none ([`Conn::NOWHERE`]).
    pub(crate) fn connects_by(&mut self, conn: Conn) {
        self.conn = conn;
    }

    /// The attempt to connect that is under way.
    pub(crate) fn attempt(&mut self) -> Option<&mut Attempt> {
        match &mut self.stage {
            ServerStage::Connecting(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// Why it is opened.
    pub(crate) fn set_opened_for(&mut self, why: Opened) {
        self.opened_for = why;
    }

    /// It is the dedicated server of a client.
    pub(crate) fn set_dedicated(&mut self, dedicated: Dedicated) {
        self.dedicated = Some(Box::new(dedicated));
    }

    /// The client whose dedicated server this is, to be changed.
    pub(crate) fn dedicated_mut(&mut self) -> Option<&mut Dedicated> {
        self.dedicated.as_deref_mut()
    }

    /// The handshake with these TLS settings begins.
    pub(crate) fn shakes_hands(&mut self, demand: Option<Arc<Demand>>) {
        self.demand = demand;
    }

    /// The TLS handshake is complete.
    pub(crate) fn set_security(&mut self, security: Arc<Security>) {
        self.security = Some(security);
    }

    /// It has let us in: the key for cancel requests, and what it has reported.
    pub(crate) fn note_welcome(&mut self, cancel_key: Box<[u8]>, welcome: Rc<Welcome>) {
        (self.cancel_key, self.welcome) = (cancel_key, Some(welcome));
    }

    /// What it reported at its login, which its first loan takes.
    pub(crate) fn take_welcome(&mut self) -> Option<Rc<Welcome>> {
        self.welcome.take()
    }

    /// The key for cancel requests, and the number of those under way.
    pub(crate) fn key_and_cancels(&mut self) -> (&[u8], &mut u32) {
        (&self.cancel_key, &mut self.session.cancels_sent)
    }

    /// Its entry in the wheel of timers.
    pub(crate) fn timer(&mut self) -> &mut Option<(TimerId, Time)> {
        &mut self.timer
    }

    /// Whether, and until when, it stays with a client that may come back at once.
    pub(crate) fn affinity_hold(&self) -> &AffinityHold {
        &self.affinity_hold
    }

    /// It is sent a request, settings or a probe.
    pub(crate) fn note_request(&mut self, now: Time) {
        self.request_time = now;
    }

    /// Its bytes have arrived.
    pub(crate) fn note_received(&mut self, now: Time) {
        self.last_received = now;
    }

    /// Nothing is received from it until it is resumed. Returns whether something was before.
    pub(crate) fn pauses(&mut self) -> bool {
        !std::mem::replace(&mut self.is_paused, true)
    }

    /// Its current query has failed. Returns whether that is new: a pipeline counts as one query.
    pub(crate) fn fails_query(&mut self) -> bool {
        std::mem::replace(&mut self.failed_query, self.query_number) != self.query_number
    }

    /// The query and the transaction that it may be in are no client's any more.
    pub(crate) fn runs_nothing(&mut self) {
        (self.query_since, self.xact_since) = (None, None);
    }

    /// It was taken over from another process.
    pub(crate) fn resumes(&mut self, from: Resumed) {
        self.cancel_key = from.cancel_key;
        (self.last_received, self.answered, self.request_time) =
            (from.last_received, from.last_received, from.request_time);
        (self.query_since, self.xact_since) = (from.query_since, from.xact_since);
        self.query_number = from.query_number;
        self.is_counted = true;
    }

    /// Sends a query of our own, whose answer no client gets.
    pub(crate) fn ask(&mut self, io: &mut impl Io, sql: &str) {
        let mut out = Vec::new();
        write::query(&mut out, sql);
        self.session.exchange.asks_ours();
        io.send(self.conn, out.into());
    }

    /// Lends the server to this client, or continues its loan in the given phase.
    pub(crate) fn lends(&mut self, client: ClientKey, phase: LoanPhase) {
        debug_assert!(self.session.phase.probe().is_none(), "a server was to be lent that is asked something");
        self.stage = ServerStage::Lent { client };
        self.session.phase.becomes(phase);
    }

    /// The loan is over, and the server is clean.
    pub(crate) fn comes_to_rest(&mut self) {
        self.stage = ServerStage::Idle;
        self.session.phase.becomes(LoanPhase::Free);
    }

    /// The client that has the server.
    pub(crate) fn client(&self) -> Option<ClientKey> {
        match self.stage {
            ServerStage::Lent { client, .. } => Some(client),
            _ => None,
        }
    }

    /// Whether the server is held for a client that has not come back, and stands between two messages.
    pub(super) fn is_held_for_affinity(&self) -> bool {
        let session = &self.session;
        self.affinity_hold.is_waiting() && !session.scanner.is_in_body() && session.exchange.owes_nothing()
    }

    /// Whether a switchover waits neither for this server nor for its client. A stream of replication ends when the former primary has
    /// sent all that it has written, which it does before it is down; a replication connection between two requests writes nothing, and
    /// what one does meanwhile is written before the primary is down, or is rolled back.
    pub(crate) fn outlasts_drain(&self) -> bool {
        let Some(dedicated) = &self.dedicated else { return false };
        let exchange = &self.session.exchange;
        !dedicated.takes_queries() || exchange.is_copying_in() || exchange.may_end()
    }

    /// Whether a request of its client may have been carried out although its answer has not come. Replication repeats what it has
    /// asked for.
    pub(crate) fn owes_outcome(&self) -> bool {
        self.dedicated.is_none() && !self.session.exchange.owes_client_nothing()
    }

    /// Whether it is, or is dialed, at this host.
    pub(crate) fn is_at(&self, host: &Host, port: u16) -> bool {
        self.host.is(host, port, self.address.as_ref())
    }

    /// The fingerprint of its session, for the choice of a server.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        fingerprint(self.session.overrides.as_deref(), self.session.placeholders, self.last_client)
    }

    /// The process ID of its backend, from its cancel key; 0 before the login.
    pub(crate) fn pid(&self) -> u32 {
        self.cancel_key.first_chunk().map_or(0, |pid| u32::from_be_bytes(*pid))
    }

    /// Until when something is withheld from its client at most.
    pub(crate) fn withheld_until(&self) -> Option<Time> {
        self.withheld.as_ref().map(|withheld| withheld.until())
    }

    /// Whether nothing is received from the server because messages are withheld, or wait to be looked at.
    pub(crate) fn is_silenced(&self) -> bool {
        self.later.is_some() || self.withheld.as_ref().is_some_and(|withheld| withheld.is_paused())
    }

    /// Until when the server is kept for `currval` and `lastval` while its client is silent.
    pub(crate) fn sequences_due(&self) -> Option<Time> {
        self.session.sequences_until.filter(|_| self.client().is_some() && self.session.exchange.may_end())
    }
}

/// The fingerprint of the settings of a session that this client has, or had last, and of the settings with a dot that
/// it has ever had. A role must be set again for any other client ([`Overrides::doubt_identity`]), so a session with
/// one suits no other client.
pub(crate) fn fingerprint(overrides: Option<&Overrides>, placeholders: u64, client: Option<ClientKey>) -> Fingerprint {
    let Some(overrides) = overrides else { return Fingerprint { settings: 0, placeholders } };
    let mut settings = overrides.fingerprint();
    if overrides.has_identity() {
        let mut hasher = DefaultHasher::new();
        client.hash(&mut hasher);
        settings ^= hasher.finish() as u32;
    }
    Fingerprint { settings, placeholders }
}
