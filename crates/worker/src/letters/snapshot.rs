//! One worker at one moment, as the console and the metrics show it.
//!
//! Always true: it is a copy, and nothing that is done with it reaches the worker; a part that nobody wants is empty.
//! Not here: who fills it (`admin/snapshot`), and how it is shown (`control`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Time, Wall};
use measure::Connections;
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
    /// [`PoolRow::measures`], and [`Snapshot::busy`].
    pub measures: Detail,
    /// [`Snapshot::applications`].
    pub applications: bool,
    /// [`Snapshot::waits`].
    pub waits: bool,
    /// [`Snapshot::statements`].
    pub statements: bool,
}

/// One worker at one moment.
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
    /// The peers that it has had cancel requests for.
    pub peers: Vec<PeerRow>,
    /// What keeps servers for single clients.
    pub pins: Vec<PinRow>,
    /// How often that has begun.
    pub pin_totals: Vec<PinTotal>,
    /// How often servers of a database were asked for what, in the order of [`PROBED`].
    pub probes: Vec<(Arc<str>, [u64; PROBED.len()])>,
    /// The channels that clients listen to, where one server does that for all.
    pub channels: Vec<ChannelRow>,
    /// Clients that are logging in.
    pub login_clients: u32,
    /// Names whose addresses are remembered.
    pub names: u32,
    /// Names that are being looked up.
    pub names_asked: u32,
    /// Times a server or client broke the protocol in a way that nobody has an explanation for.
    pub protocol_surprises: u64,
    /// How logins, TLS handshakes and cancel requests have ended.
    pub connections: Connections,
    /// Connections that have not logged in, and how many have lost their place to others or found none.
    pub unauthenticated: u32,
    /// See there.
    pub turned_away: u64,
    /// Of what sessions keep (`session_verify`).
    pub verified: Verified,
    /// How long it has worked since its start.
    pub busy: Duration,
    /// For how long it has been there.
    pub alive: Duration,
    /// What transactions have come to, by application.
    pub applications: Vec<ApplicationRow>,
    /// The same of applications that are told apart no more.
    pub other_applications: measure::Sums,
    /// Who waits for a server, and who has one.
    pub waits: Vec<WaitRow>,
    /// Which statements take the time of servers.
    pub statements: Vec<StatementsOf>,
}

/// A client or a server.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its user.
    pub user: Arc<str>,
    /// Its database.
    pub database: Arc<str>,
    /// Which stream it is for: none, physical or logical.
    pub replication: &'static str,
    /// In PgBouncer's words: active, idle, waiting, ...; for servers active, idle, used, tested, new, ...
    pub state: &'static str,
    /// What it does, where that says less: what it waits for, in which phase of a transaction it is, how it is made clean.
    pub state_detail: &'static str,
    /// Theirs: address and port; `unix` and the port for unix sockets.
    pub addr: String,
    /// Their port.
    pub port: u16,
    /// Ours.
    pub local_addr: String,
    /// Our port.
    pub local_port: u16,
    /// When it was connected.
    pub connect_time: Wall,
    /// When it was last asked for something.
    pub request_time: Wall,
    /// How long the present query has waited, if it waits.
    pub wait: Duration,
    /// Whether it is closed as soon as that is possible.
    pub close_needed: bool,
    /// Its number.
    pub id: u64,
    /// The number of whom it is linked with.
    pub link: Option<u64>,
    /// The process at the other end: of a unix socket's client, or the server's.
    pub remote_pid: u32,
    /// How it is secured: `PROTOCOL/CIPHER/ECDH=CURVE`; empty if it is not.
    pub tls: Box<str>,
    /// Its application_name.
    pub application_name: Box<str>,
    /// Bytes that it has said and nobody has looked at.
    pub held: usize,
    /// Bytes that it has been given and has not taken.
    pub unsent: usize,
    /// Its prepared statements.
    pub prepared_statements: usize,
    /// Bytes that are remembered for a client.
    pub memory: usize,
    /// When a server was last asked for something, if it does nothing now and is in no transaction.
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
    /// Whether one server listens for all of them now.
    pub is_heard: bool,
}

/// How often what was known of a session was compared with what its server told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verified {
    /// All times.
    pub sessions: u64,
    /// When they differed.
    pub mistaken: u64,
}

/// A name of hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostRow {
    /// The name.
    pub name: Arc<str>,
    /// How long its addresses are believed.
    pub ttl: Duration,
    /// Its addresses; none if there are none.
    pub addresses: Vec<IpAddr>,
}

/// Cancel requests for another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerRow {
    /// The number of that process.
    pub peer: u16,
    /// Requests that have been sent.
    pub active: u32,
    /// Requests that wait for a connection.
    pub waiting: u32,
    /// Connections that are being made.
    pub dialing: u32,
}

/// Something that a client holds on its server, which is nobody else's meanwhile.
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
    /// For how long.
    pub age: Duration,
    /// The moment when that was found.
    pub since: Wall,
}

/// How often clients of a database began to hold something.
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
    /// Servers held back until cancel requests at them are over.
    pub sv_being_canceled: u32,
    /// Servers that are ready.
    pub sv_idle: u32,
    /// Servers that are ready but have to be checked first.
    pub sv_used: u32,
    /// Servers that are being checked or cleaned.
    pub sv_tested: u32,
    /// Servers that are being dialed.
    pub sv_login: u32,
    /// How long the first in the queue has waited.
    pub maxwait: Duration,
    /// When a loan ends.
    pub mode: pool::Mode,
    /// What it has come to, if that was asked for.
    pub measures: Option<Box<PoolMeasures>>,
}

/// A database in use.
#[derive(Clone, Debug)]
pub struct DatabaseRow {
    /// Its name.
    pub name: Arc<str>,
    /// What is configured for it; for a database made from `*` nobody else knows it.
    pub entry: Arc<config::Database>,
    /// Its servers.
    pub servers: u32,
    /// Its clients.
    pub clients: u32,
    /// What is known of its functions: `unknown`, `known`, `partly` where some texts are beyond a bound, `unread` where all are, `ignored`
    /// (`session_unseen`); empty where sessions do not follow their clients.
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
    /// Rows that are there and free.
    pub free: usize,
}

/// What has been counted for a database since the start. Times in microseconds.
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
    /// Those that had to be prepared on a server.
    pub server_parse_count: u64,
    /// Bound statements.
    pub bind_count: u64,
    /// Logins of clients.
    pub client_login_count: u64,
    /// Turns of workers that were slow for somebody of this database.
    pub slow_turn_count: u64,
    /// The longest of them.
    pub turn_time_max: u64,
}

impl Totals {
    /// Counts what was done about prepared statements.
    pub(crate) fn add_statements(&mut self, tally: Tally) {
        self.client_parse_count += tally.client_parses;
        self.server_parse_count += tally.server_parses;
        self.bind_count += tally.binds;
    }
}
