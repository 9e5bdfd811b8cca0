//! What travels between threads, and nothing else does: values in letters.
//!
//! Always true: a letter owns what it carries; nobody waits for an answer within a turn; control reads a worker only by
//! asking for a [`Snapshot`] and changes it only by an order.
//! Not here: what anybody does about a letter.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use auth::{Hba, IdentMaps, Secret, UserFile};
use base::{Time, Wall, WorkerId};
use config::{Homes, Settings};
use pool::{ClientKey, PoolKey};
use protocol::cancel::{CancelKey, KeyName};
use protocol::client::greeting;
use protocol::prepared::Tally;
use protocol::state::{Kind, Pin};
use protocol::vars::Tracked;
use reactor::tls::{Demand, Offer, Security};
use reactor::{LogTarget, Peer, TcpTuning};
use wire::Request;

pub use crate::admin::console::{Commander, Right};
pub use crate::admin::seen::{ApplicationRow, Detail, Doing, PoolMeasures, StatementsOf, WaitRow};
pub use crate::admin::standing::{Order, Standing, Whose};
pub use crate::admission::questions::SystemUser;
pub use crate::admission::questions::{HashAsker, HashQuestion, Hashed};
pub use crate::admission::questions::{Judge, PasswordQuestion, Verdict};
pub use crate::data::claims::{Phase, Sole};
pub use crate::data::functions::FunctionsMade;
pub use crate::handover::estate::Estate;
pub use crate::handover::parcel::{Arrivals, Cursor, Luggage, Pair, Parcel};
pub use crate::limits::rate_limits::RateLimits;
pub use crate::limits::unauthenticated::Unauthenticated;
pub use crate::reports::{Report, ReportKind};

/// Everything that is in force: replaced as a whole, between two turns.
#[derive(Clone, Debug)]
pub struct Force {
    /// The configuration.
    pub settings: Settings,
    /// Which worker each database lives on.
    pub homes: Homes,
    /// The file of secrets, as read last.
    pub users: UserFile,
    /// The rules of `auth_type = hba`; none with another one.
    pub hba: Arc<Hba>,
    /// The maps of system users.
    pub idents: Arc<IdentMaps>,
    /// Parameters that follow a client.
    pub tracked: Tracked,
    /// What makes the salts of users that do not exist; random, as old as the process.
    pub mock_key: [u8; 32],
    /// What TLS needs on both legs.
    pub tls: TlsTerms,
    /// Settings of sockets that are opened from now on.
    pub tuning: TcpTuning,
    /// Where log lines go.
    pub log: Arc<LogTarget>,
    /// The user id of this process, who may enter the console by the unix socket.
    pub own_uid: u32,
    /// What operators have ordered and not undone.
    pub standing: Standing,
    /// Rate limits, and what they have counted: the same for as long as the process lives.
    pub rates: Arc<RateLimits>,
}

/// What TLS needs on both legs: certificates, keys and authorities, as read last.
#[derive(Clone, Debug, Default)]
pub struct TlsTerms {
    /// What clients are offered, if anything.
    pub offer: Option<Arc<Offer>>,
    /// What servers must fulfil, if they are asked for TLS at all.
    pub demand: Option<Arc<Demand>>,
    /// Everything that the demand was made of, but for the private key: servers that stand on another one are replaced.
    pub demand_parts: Arc<[u8]>,
}

/// What a lookup has found: addresses, or why there are none.
pub type Found = Result<Addresses, Arc<str>>;

/// The addresses of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// At least one, each once.
    pub all: Vec<IpAddr>,
    /// How long they are good, if whoever told them has said so.
    pub ttl: Option<Duration>,
}

/// A way to post letters to somebody, from any thread. It never blocks.
pub type Post<L> = Arc<dyn Fn(L) + Send + Sync>;

/// Everybody's letter box, as one worker knows them.
pub struct Posts<S> {
    /// The workers, by number.
    pub workers: Vec<Post<ToWorker<S>>>,
    /// The control thread.
    pub control: Post<ToControl>,
    /// The numbers of clients and servers.
    pub ids: Ids,
    /// The connections of the process that have not logged in.
    pub unauthenticated: Unauthenticated,
}

impl<S> Clone for Posts<S> {
    fn clone(&self) -> Self {
        let Self { workers, control, ids, unauthenticated } = self;
        let (workers, control) = (workers.clone(), control.clone());
        Self { workers, control, ids: ids.clone(), unauthenticated: unauthenticated.clone() }
    }
}

/// One number for each client and each server of the process, in the order in which they come: PgBouncer's scripts count on that.
/// It costs one addition per connection.
#[derive(Clone, Debug, Default)]
pub struct Ids(Arc<AtomicU64>);

impl Ids {
    /// The next number, from 1 on.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Goes on behind those that another process has given out.
    pub fn begin_behind(&self, last: u64) {
        self.0.fetch_max(last, Ordering::Relaxed);
    }

    /// The last one that was given out.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S> std::fmt::Debug for Posts<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Posts").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

/// Somebody waits for a cancel request to be done. Then it must not be done any more: whoever made it may have asked for something else,
/// whatever `cancel_wait_timeout` has become meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Since when.
    pub since: Time,
    /// Until when.
    pub until: Option<Time>,
}

/// To a worker.
#[derive(Debug)]
pub enum ToWorker<S> {
    /// A client comes home: its database lives here.
    Client(Box<Traveller<S>>),
    /// The control thread itself comes as a client, with a question to a server: nobody asks it who it is, and no limit counts
    /// it.
    Own(S),
    /// The same, to listen for all clients of a database.
    Listener(S),
    /// The session that listens for all listens to a channel now.
    Heard {
        /// In which database.
        database: Arc<str>,
        /// To which.
        channel: Box<str>,
        /// The worker's number for the question.
        number: u64,
    },
    /// It cannot listen to channels.
    Unheard {
        /// In which database.
        database: Arc<str>,
        /// To which, each with the worker's number for the question.
        channels: Vec<(Box<str>, u64)>,
        /// Why.
        error: String,
    },
    /// Servers whose locks are not what is known of them, all that one PostgreSQL has told of.
    LocksDiffer(Vec<LocksDiffer>),
    /// That session has ended: it listens to nothing until it is there again.
    ListenerLost {
        /// In which database.
        database: Arc<str>,
    },
    /// A client has said a statement that needs a database to itself.
    Sole(Arc<Sole>),
    /// Functions of a database are being made, or have been.
    FunctionsMade(Box<FunctionsMade>),
    /// Somebody wants a query of one of our clients cancelled.
    Cancel {
        /// Whose query.
        key: CancelKey,
        /// Who waits to be told that it is done, by closing the connection.
        requester: Requester,
        /// For how long.
        waits: Waits,
    },
    /// Somebody wants a query cancelled whose client is at another process, and the connections to that one are kept here.
    PassOn {
        /// The number of that process.
        peer: u16,
        /// What it is to be told.
        key: CancelKey,
        /// Who waits to be told that it is done.
        requester: Requester,
        /// For how long.
        waits: Waits,
    },
    /// What one of our clients wanted cancelled has been, or never will be.
    CancelOver(ClientKey),
    /// To the ledger, which lives on worker 0.
    Ledger {
        /// Who writes.
        from: WorkerId,
        /// What.
        letter: pool::Letter,
    },
    /// From the ledger.
    Purse(pool::Answer),
    /// One of our clients has lost its place among the connections that have not logged in.
    Displaced(ClientKey),
    /// New settings are in force.
    Force(Arc<Force>),
    /// A name has been looked up.
    Resolved {
        /// The name.
        name: Arc<str>,
        /// What was found.
        found: Found,
    },
    /// What was asked with [`ToControl::AskJudge`].
    Judged {
        /// For which client.
        client: ClientKey,
        /// The answer.
        verdict: Verdict,
    },
    /// What was asked with [`ToControl::Hash`].
    Hashed {
        /// For whom.
        asker: HashAsker,
        /// What came of it.
        hashed: Hashed,
    },
    /// What was asked with [`ToControl::AskSecret`].
    Told {
        /// For whom it was asked.
        inquirer: Inquirer,
        /// The answer.
        told: Told,
    },
    /// What was asked with [`ToControl::SystemUser`].
    SystemUser {
        /// The client that it is.
        client: ClientKey,
        /// The answer.
        found: SystemUser,
    },
    /// Control wants to see something.
    Show {
        /// Control's number for the question.
        question: u64,
        /// What.
        what: Parts,
    },
    /// The console's answer to one request of one of our clients: whole messages, or none.
    ConsoleAnswer {
        /// Whom.
        client: ClientKey,
        /// What it reads.
        bytes: Vec<u8>,
        /// Whether the connection ends with it.
        closes: bool,
    },
    /// Do this once.
    Order {
        /// Control's number for it.
        question: u64,
        /// What.
        order: Order,
    },
    /// Nobody waits any longer for what this order waits for.
    ForgetOrder {
        /// Control's number for it.
        question: u64,
    },
    /// Another process is to have what is here, from this place on; whoever waits for the parcel gets it directly.
    Pack {
        /// Where the last one ended.
        from: Cursor,
        /// For it.
        out: Sender<Parcel<S>>,
    },
    /// The client of a key with these first bytes, which name the receiver although it lives elsewhere, is gone.
    KeyGone(KeyName),
    /// What another process has had comes here.
    Arrive(Box<Arrivals<S>>),
    /// Another process has what was packed: what it has not got is told so, and that is the end.
    HandedOver,
    /// What [`Order::Suspend`] has brought to rest goes on.
    WakeUp,
    /// Go down this way.
    Shutdown(Shutdown),
    /// A shutdown has waited for so many seconds, and no longer: clients that are left are to be sent away.
    EndClients {
        /// How many.
        secs: u64,
    },
}

/// A connection that carried a cancel request: where it is, and which it is there.
pub type Requester = (WorkerId, ClientKey);

/// A client between its greeting and its home.
#[derive(Debug)]
pub struct Traveller<S> {
    /// Its connection.
    pub socket: S,
    /// Who it is.
    pub peer: Peer,
    /// How it is secured, if it is.
    pub security: Option<Arc<Security>>,
    /// What it asked for.
    pub request: greeting::Request,
    /// What it has sent beyond that.
    pub early: Vec<u8>,
    /// Its number in the logs and on the console.
    pub id: u64,
    /// When it was accepted.
    pub since: Time,
    /// The same on the calendar.
    pub since_wall: Wall,
    /// Whether it came with [`ToWorker::Own`].
    pub is_own: bool,
    /// Its place among the connections that have not logged in.
    pub unauthenticated: Option<NonZeroU64>,
}

/// A server has advisory locks that no client is known to hold, or its client is taken to hold some that are not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocksDiffer {
    /// The server's number.
    pub server: u64,
    /// Those that nobody is known to hold, in words.
    pub locks: Vec<String>,
    /// Whether this has not been told before.
    pub is_new: bool,
}

/// Who needs to know a user's secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inquirer {
    /// A client that logs in as that user.
    Client(ClientKey),
    /// A pool of that user, because a server has refused the secret that it was told before.
    Pool(PoolKey),
}

/// What a server is asked about a user (`auth_query`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretQuestion {
    /// Who asks.
    pub from: WorkerId,
    /// For whom.
    pub inquirer: Inquirer,
    /// Which database is asked.
    pub database: Arc<str>,
    /// As whom.
    pub asker: Arc<str>,
    /// The question, with the user's name as its only parameter.
    pub sql: Arc<str>,
    /// The user.
    pub user: Arc<str>,
}

/// What a server has said about a user.
#[derive(Clone, Debug)]
pub enum Told {
    /// It knows the user, by this name; without a secret nobody can log in as that user.
    User {
        /// The name.
        name: Arc<str>,
        /// What it has stored.
        secret: Arc<Secret>,
    },
    /// It does not know the user.
    Nobody,
    /// The question had no answer; what is to be logged about it.
    Unanswered(String),
    /// The server could not be asked, and this is what its clients are told.
    Refused {
        /// Five characters.
        sqlstate: [u8; 5],
        /// The text.
        text: Arc<str>,
        /// More about it.
        detail: Option<Arc<str>>,
        /// What can be done.
        hint: Option<Arc<str>>,
    },
}

/// How to go down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// At once.
    Now,
    /// When every server has been given back; nobody gets another.
    WaitForServers,
    /// When every client has gone; nobody new is let in.
    WaitForClients,
}

/// To the control thread.
#[derive(Debug)]
pub enum ToControl {
    /// Look this name up.
    Resolve {
        /// Who asks.
        from: WorkerId,
        /// The name.
        name: Arc<str>,
    },
    /// A server is to be asked about a user.
    AskSecret(SecretQuestion),
    /// The client for which a server was to be asked is gone.
    SecretUnneeded {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
    },
    /// Somebody who knows is to judge a password.
    AskJudge(PasswordQuestion),
    /// The client whose password was to be judged is gone.
    JudgeUnneeded {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
    },
    /// A password is to be hashed.
    Hash(HashQuestion),
    /// That for which a password was to be hashed is gone.
    HashUnneeded {
        /// Who asked.
        from: WorkerId,
        /// For whom.
        asker: HashAsker,
    },
    /// Who is this user of the system?
    SystemUser {
        /// Who asks.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
        /// The user's number.
        uid: u32,
    },
    /// The client whose user of the system was to be looked up is gone.
    SystemUserUnneeded {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
    },
    /// What has happened, for `SHOW EVENTS`.
    Reports {
        /// Where.
        from: WorkerId,
        /// Different things.
        reports: Vec<Report>,
        /// So many others were too many to tell.
        dropped: u64,
    },
    /// A client of the console has said something.
    Console {
        /// Where the client is.
        from: WorkerId,
        /// Which it is.
        client: ClientKey,
        /// What it may do.
        right: Right,
        /// Who that is.
        by: Box<Commander>,
        /// What it wants.
        request: Request,
    },
    /// A client of the console is gone, perhaps before its answer.
    ConsoleLeft {
        /// Where the client was.
        from: WorkerId,
        /// Which it was.
        client: ClientKey,
    },
    /// A client listens to a channel that nobody listened to before: somebody is to do that for all.
    Listen {
        /// In which database.
        database: Arc<str>,
        /// As whom.
        user: Arc<str>,
        /// To which.
        channel: Box<str>,
        /// The worker's number for the question; later ones are greater.
        number: u64,
        /// The client has no server of its own any more that could go on with it.
        is_relied_on: bool,
    },
    /// Nobody listens to it any more.
    Unlisten {
        /// In which database.
        database: Arc<str>,
        /// To which.
        channel: Box<str>,
    },
    /// Nobody listens to any channel of a database any more, and nobody may: its session for all ends.
    UnlistenAll {
        /// In which database.
        database: Arc<str>,
    },
    /// A client of the console no longer wants what it waits for.
    ConsoleCancel {
        /// Where the client is.
        from: WorkerId,
        /// Which it is.
        client: ClientKey,
    },
    /// What was ordered with [`ToWorker::Order`] is done, or what it waited for has come.
    Obeyed {
        /// Who answers.
        from: WorkerId,
        /// Control's number for the order.
        question: u64,
        /// Whether there was anything to do it to.
        is_done: bool,
    },
    /// A worker is suspended, and the console, which lives there, has no client left who could wake it.
    ConsolesGone,
    /// What was asked for with [`ToWorker::Show`].
    Shown {
        /// Who answers.
        from: WorkerId,
        /// Control's number for the question.
        question: u64,
        /// What is to be seen.
        snapshot: Box<Snapshot>,
    },
    /// Whether this worker has anything left that the shutdown waits for has changed.
    Drained {
        /// Which.
        from: WorkerId,
        /// Whether nothing is left.
        is_drained: bool,
    },
}

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
    /// [`Snapshot::pins`], [`Snapshot::pin_totals`] and [`Snapshot::channels`].
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

/// How often what was known of a session was compared with what its server told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verified {
    /// All times.
    pub sessions: u64,
    /// When they differed.
    pub mistaken: u64,
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
