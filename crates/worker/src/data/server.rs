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
    pub(crate) conn: Conn,
    /// Its number in logs and on the console.
    pub(crate) id: u64,
    pub(crate) pool: PoolKey,
    pub(crate) database: u32,
    /// Its address; cancel requests for it go there too.
    pub(crate) address: Option<Address>,
    pub(crate) host: DialedHost,
    /// The TLS session, if it is encrypted.
    pub(crate) security: Option<Arc<Security>>,
    /// When dialing began.
    pub(crate) since: Time,
    pub(crate) stage: ServerStage,
    /// The client whose dedicated server this is, if it is one.
    pub(crate) dedicated: Option<Box<Dedicated>>,
    /// The state of its session, and what it has been sent and has answered.
    pub(crate) session: ServerSession,
    /// The client of its last loan.
    pub(crate) last_client: Option<ClientKey>,
    /// What the server reported at its login and in `connect_query`, kept until its first loan.
    pub(crate) welcome: Option<Rc<Welcome>>,
    /// Process ID and secret key, for cancel requests.
    pub(crate) cancel_key: Box<[u8]>,
    pub(crate) is_paused: bool,
    /// It answers a question about functions, and is received from one buffer at a time.
    pub(crate) is_slowed: bool,
    /// It owes so many answers that its client is not read until some have come.
    pub(crate) is_full: bool,
    /// Messages from the server that its client is not given yet.
    pub(crate) withheld: Option<Box<Withheld>>,
    /// Bytes received on the shared `LISTEN` session that later turns look at
    /// ([`Broadcast::HandleKept`](crate::notify::backlog::Broadcast::HandleKept)).
    pub(crate) later: Option<VecDeque<Chunk>>,
    /// The withheld messages are being given to the client now.
    pub(crate) is_released: bool,
    /// The settings that are being reset ahead of its client's request, and that no server of the pool has reset yet.
    pub(crate) resetting: Box<[Box<str>]>,
    /// Whether it stays for a moment with a client that may come back at once.
    pub(crate) affinity_hold: AffinityHold,
    pub(crate) timer: Option<(TimerId, Time)>,
    /// When the current query and transaction began.
    pub(crate) query_since: Option<Time>,
    pub(crate) xact_since: Option<Time>,
    /// The TLS settings of its handshake: cancel requests for it use the same, even after a reload.
    pub(crate) demand: Option<Arc<Demand>>,
    /// When its last bytes arrived.
    pub(crate) last_received: Time,
    /// When its client's last request had been answered.
    pub(crate) answered: Time,
    /// When it was last sent a request, settings or a probe (`request_time`).
    pub(crate) request_time: Time,
    /// Number of queries sent to it; names the query that a cancel request is meant for.
    pub(crate) query_number: u64,
    /// The last query that failed.
    pub(crate) failed_query: u64,
    /// The beginning of its client's last request.
    pub(crate) request_head: RequestHead,
    /// The current request, if it is sampled or traced.
    pub(crate) sampled: Option<Box<Sampled>>,
    /// The course of the current transaction, if long ones are logged.
    pub(crate) course: Option<Box<Course>>,
    /// Why it was opened.
    pub(crate) opened_for: Opened,
    /// Whether it is for reads that are routed to replicas.
    is_replica: bool,
    /// It has logged in, and was counted as opened.
    pub(crate) is_counted: bool,
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
