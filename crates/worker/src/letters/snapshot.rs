//! One worker at one moment, as the console and the metrics show it.
//!
//! Always true: it is a copy, and changing it does not affect the worker; parts that were not asked for are empty.
//! Not here: filling it (`admin/snapshot`), showing it (`control`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Time, Wall};
use measure::{Connections, Excess, Failing, KnownHost, Recent};
use protocol::prepared::Tally;
use protocol::state::{Kind, PROBED, Pin};

use super::{ApplicationRow, Detail, PoolMeasures, StatementsOf, WaitRow};

/// Which parts of a [`Snapshot`] are wanted; the others stay empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    /// [`Snapshot::clients`].
    pub clients: bool,
    /// [`Snapshot::servers`].
    pub servers: bool,
    /// [`Snapshot::pools`], [`Snapshot::databases`], [`Snapshot::users`], [`Snapshot::peers`] and the sums.
    pub pools: bool,
    /// [`Snapshot::stats`].
    pub stats: bool,
    /// [`Snapshot::tables`].
    pub memory: bool,
    /// [`Snapshot::logins`].
    pub logins: bool,
    /// [`Snapshot::hosts`].
    pub hosts: bool,
    /// [`Snapshot::pins`], [`Snapshot::pin_totals`], [`Snapshot::probes`] and [`Snapshot::channels`].
    pub pins: bool,
    /// [`PoolRow::measures`].
    pub measures: Detail,
    /// [`Snapshot::applications`].
    pub applications: bool,
    /// [`Snapshot::waits`].
    pub waits: bool,
    /// [`Snapshot::statements`].
    pub statements: bool,
}

impl Parts {
    /// No parts.
    pub const NOTHING: Self = Self {
        clients: false,
        servers: false,
        pools: false,
        stats: false,
        memory: false,
        logins: false,
        hosts: false,
        pins: false,
        measures: Detail::None,
        applications: false,
        statements: false,
        waits: false,
    };

    /// What is in either.
    #[must_use]
    pub fn union(one: Self, other: Self) -> Self {
        Self {
            clients: one.clients || other.clients,
            servers: one.servers || other.servers,
            pools: one.pools || other.pools,
            stats: one.stats || other.stats,
            memory: one.memory || other.memory,
            logins: one.logins || other.logins,
            hosts: one.hosts || other.hosts,
            pins: one.pins || other.pins,
            measures: one.measures.max(other.measures),
            applications: one.applications || other.applications,
            statements: one.statements || other.statements,
            waits: one.waits || other.waits,
        }
    }
}

/// The state of one worker: at one moment, if it is small (`admin/slices`).
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its clients that are logged in, those of the console included.
    pub clients: Vec<Row>,
    /// Its clients that are not logged in.
    pub logins: Vec<Row>,
    /// Its servers, those being dialed included.
    pub servers: Vec<Row>,
    /// Its pools, in no order that means anything.
    pub pools: Vec<PoolRow>,
    /// The databases that live here and are in use.
    pub databases: Vec<DatabaseRow>,
    /// What each user has here.
    pub users: Vec<UserRow>,
    /// Counters by database.
    pub stats: Vec<(Arc<str>, Totals)>,
    /// Its tables.
    pub tables: Vec<TableRow>,
    /// The names whose addresses it remembers.
    pub hosts: Vec<HostRow>,
    /// The hosts at which logins have ended; with [`Parts::hosts`].
    pub known_hosts: Vec<KnownHost>,
    /// The peers to which it sends cancel requests.
    pub peers: Vec<PeerRow>,
    /// The pins of its clients.
    pub pins: Vec<PinRow>,
    /// How often pins of each kind began.
    pub pin_totals: Vec<PinTotal>,
    /// How often servers of a database were probed for what, in the order of [`PROBED`].
    pub probes: Vec<(Arc<str>, [u64; PROBED.len()])>,
    /// The channels that clients listen to through a listener.
    pub channels: Vec<ChannelRow>,
    /// Clients that are logging in.
    pub login_clients: u32,
    /// Names whose addresses are remembered.
    pub names: u32,
    /// Names that are being looked up.
    pub names_asked: u32,
    /// Times a server or client broke the protocol in a way that has no explanation.
    pub protocol_violations: u64,
    /// How logins, TLS handshakes and cancel requests have ended.
    pub connections: Connections,
    /// What has failed a moment ago.
    pub failures: Vec<Recent>,
    /// How often something has failed since the start, by kind and reason.
    pub failure_totals: Vec<(Failing, &'static str, u64)>,
    /// The databases in which queries fail more often than usually; with [`Parts::stats`].
    pub failing_queries: Vec<FailingQueries>,
    /// Connections that have not logged in.
    pub unauthenticated: u32,
    /// How many of these have lost their place or found none.
    pub turned_away: u64,
    /// How many clients were refused because too many, or too much, would have been held while a primary changes.
    pub hold_refused: u64,
    /// Results of `session_verify`.
    pub verified: Verified,
    /// For how long its thread has run or waited for a processor since its start.
    pub busy: Duration,
    /// Time since its start.
    pub alive: Duration,
    /// `busy` and `alive` a second or two ago; longer ago only if the worker slept in between.
    pub load_before: (Duration, Duration),
    /// Sums of transactions by application.
    pub applications: Vec<ApplicationRow>,
    /// The sums of all other applications.
    pub other_applications: measure::Sums,
    /// The clients that wait for a server, and those that have one.
    pub waits: Vec<WaitRow>,
    /// The statements that take the most time of servers.
    pub statements: Vec<StatementsOf>,
}

/// A client or a server.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its user.
    pub user: Arc<str>,
    /// Its database.
    pub database: Arc<str>,
    /// The kind of its replication stream: none, physical or logical.
    pub replication: &'static str,
    /// In PgBouncer's words: active, idle, waiting, ...; for servers active, idle, used, tested, new, ...
    pub state: &'static str,
    /// More detail than `state`: what it waits for, the phase of its transaction, the step of its cleanup.
    pub state_detail: &'static str,
    /// The peer's address, `unix` for unix sockets.
    pub addr: String,
    /// The peer's port.
    pub port: u16,
    /// Our address.
    pub local_addr: String,
    /// Our port.
    pub local_port: u16,
    /// When the connection was established.
    pub connect_time: Wall,
    /// When it last sent or was sent a request.
    pub request_time: Wall,
    /// How long the present query has waited, if it waits.
    pub wait: Duration,
    /// Whether it is closed as soon as possible.
    pub close_needed: bool,
    /// Its number.
    pub id: u64,
    /// The number of the client or server that it is linked with.
    pub link: Option<u64>,
    /// The process at the other end: of a unix socket's client, or the server's.
    pub remote_pid: u32,
    /// Its TLS: `PROTOCOL/CIPHER/ECDH=CURVE`; empty without TLS.
    pub tls: Box<str>,
    /// Its application_name.
    pub application_name: Box<str>,
    /// Bytes that were received from it and not handled yet.
    pub held: usize,
    /// Bytes queued for it and not sent yet.
    pub unsent: usize,
    /// Its prepared statements.
    pub prepared_statements: usize,
    /// Bytes of prepared statements that are kept for a client.
    pub memory: usize,
    /// When a server last got a request, if it runs none now and is in no transaction.
    pub at_rest_since: Option<Time>,
}

/// A channel to which clients listen.
#[derive(Clone, Debug)]
pub struct ChannelRow {
    /// In which database.
    pub database: Arc<str>,
    /// Its name.
    pub channel: Box<str>,
    /// How many clients listen to it.
    pub clients: usize,
    /// Whether a listener listens to it for all of them now.
    pub is_heard: bool,
}

/// How often the known state of a session was compared with what its server reported (`session_verify`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Verified {
    /// All comparisons.
    pub sessions: u64,
    /// Those that differed.
    pub mistaken: u64,
}

/// A database in which queries fail more often than usually.
#[derive(Clone, PartialEq, Debug)]
pub struct FailingQueries {
    /// Its name.
    pub database: Arc<str>,
    /// How many fail.
    pub excess: Excess,
}

/// A host name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostRow {
    /// The name.
    pub name: Arc<str>,
    /// How long its addresses are still valid.
    pub ttl: Duration,
    /// Its addresses; empty if it has none.
    pub addresses: Vec<IpAddr>,
}

/// Cancel requests for another process (`[peers]`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerRow {
    /// The `peer_id` of that process.
    pub peer: u16,
    /// Requests that have been sent.
    pub active: u32,
    /// Requests that wait for a connection.
    pub waiting: u32,
    /// Connections that are being made.
    pub dialing: u32,
}

/// A pin: something for which a client keeps its server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinRow {
    /// The client's database.
    pub database: Arc<str>,
    /// The client's user.
    pub user: Arc<str>,
    /// Its application_name.
    pub application_name: Box<str>,
    /// Its address; `unix` for unix sockets.
    pub addr: String,
    /// Its port.
    pub port: u16,
    /// Its number.
    pub client: u64,
    /// The number of its server.
    pub server: u64,
    /// The server's process.
    pub remote_pid: u32,
    /// What it holds, since when, and by which statement.
    pub pin: Pin,
    /// How long it has been held.
    pub age: Duration,
    /// When it was found.
    pub since: Wall,
}

/// How often clients of a database began to hold something of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinTotal {
    /// The database.
    pub database: Arc<str>,
    /// What they held.
    pub kind: Kind,
    /// How often.
    pub total: u64,
}

/// A pool.
#[derive(Clone, Debug)]
pub struct PoolRow {
    /// Its database.
    pub database: Arc<str>,
    /// Its user on the server.
    pub user: Arc<str>,
    /// Clients with a server, or idle.
    pub cl_active: u32,
    /// Clients that wait.
    pub cl_waiting: u32,
    /// Cancel requests on their way to a server.
    pub cl_active_cancel_req: u32,
    /// Cancel requests that wait.
    pub cl_waiting_cancel_req: u32,
    /// Servers that are lent.
    pub sv_active: u32,
    /// Connections that carry a cancel request.
    pub sv_active_cancel: u32,
    /// Servers that are not lent until cancel requests at them are over.
    pub sv_being_canceled: u32,
    /// Servers that are ready.
    pub sv_idle: u32,
    /// Servers that are ready but have to be checked first.
    pub sv_used: u32,
    /// Servers that are being checked or cleaned.
    pub sv_tested: u32,
    /// Servers that are being dialed.
    pub sv_login: u32,
    /// How long the first client in the wait queue has waited.
    pub maxwait: Duration,
    /// When a loan ends.
    pub mode: pool::Mode,
    /// Its counters, if they were asked for.
    pub measures: Option<Box<PoolMeasures>>,
}

impl PoolRow {
    /// A pool without clients and servers.
    #[must_use]
    pub fn empty(database: Arc<str>, user: Arc<str>, mode: pool::Mode) -> Self {
        Self {
            database,
            user,
            cl_active: 0,
            cl_waiting: 0,
            cl_active_cancel_req: 0,
            cl_waiting_cancel_req: 0,
            sv_active: 0,
            sv_active_cancel: 0,
            sv_being_canceled: 0,
            sv_idle: 0,
            sv_used: 0,
            sv_tested: 0,
            sv_login: 0,
            maxwait: Duration::ZERO,
            mode,
            measures: None,
        }
    }
}

/// A database in use.
#[derive(Clone, Debug)]
pub struct DatabaseRow {
    /// Its name.
    pub name: Arc<str>,
    /// Its configuration, which no other thread has for a database made from `*`.
    pub entry: Arc<config::Database>,
    /// Its servers.
    pub servers: u32,
    /// Its clients.
    pub clients: u32,
    /// What is known of its functions: `unknown`, `known`, `partly` where some texts exceed a bound, `unread` where all
    /// do, `ignored` (`session_unseen`); empty where session state does not follow clients.
    pub functions: &'static str,
}

/// A user in use.
#[derive(Clone, Debug)]
pub struct UserRow {
    /// Its name.
    pub name: Arc<str>,
    /// Its servers.
    pub servers: u32,
    /// Its clients.
    pub clients: u32,
}

/// A table of the worker.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// Its name.
    pub name: &'static str,
    /// Bytes of a row.
    pub size: usize,
    /// Rows in use.
    pub used: usize,
    /// Rows allocated and free.
    pub free: usize,
}

/// Counters of a database since the start. Times in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Loans begun.
    pub server_assignment_count: u64,
    /// Transactions.
    pub xact_count: u64,
    /// Queries; a pipeline counts once per batch answered.
    pub query_count: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes from servers.
    pub sent: u64,
    /// Time in transactions.
    pub xact_time: u64,
    /// Time in queries.
    pub query_time: u64,
    /// Time clients have waited for servers.
    pub wait_time: u64,
    /// Prepared statements of clients.
    pub client_parse_count: u64,
    /// Those that had to be prepared on a server as well.
    pub server_parse_count: u64,
    /// Bound statements.
    pub bind_count: u64,
    /// Logins of clients.
    pub client_login_count: u64,
    /// Queries that got an error from their server; a pipeline counts once.
    pub error_count: u64,
    /// Slow turns of workers in which a connection of this database took the most time.
    pub slow_turn_count: u64,
    /// The longest of them.
    pub turn_time_max: u64,
}

impl std::ops::AddAssign<Tally> for Totals {
    fn add_assign(&mut self, tally: Tally) {
        self.client_parse_count += tally.client_parses;
        self.server_parse_count += tally.server_parses;
        self.bind_count += tally.binds;
    }
}
