//! Letters to a worker: orders, requests, and answers.
//!
//! Always true: each letter is read in the worker's next turn, and its sender does not wait for that.
//! Not here: what a worker does with a letter.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use auth::Secret;
use base::{Time, Wall, WorkerId};
use pool::{ClientKey, PoolKey};
use protocol::cancel::{CancelKey, KeyName};
use protocol::client::greeting;
use reactor::Peer;
use reactor::tls::Security;

use super::{
    ActiveConfig, ClaimProgress, Cursor, FunctionsMade, HashAsker, Hashed, Imports, Order, Parcel, Parts, SystemUser,
    Verdict,
};

/// A letter to a worker.
#[derive(Debug)]
pub enum ToWorker<S> {
    /// A client comes to its home worker.
    Client(Box<GreetedClient<S>>),
    /// The control thread connects as a client, to query a server: it is not authenticated and not counted by any limit.
    Own(S),
    /// The control thread connects as the listener of a database.
    Listener(S),
    /// The listener of a database listens to a channel now.
    Heard {
        /// In which database.
        database: Arc<str>,
        /// The channel.
        channel: Box<str>,
        /// The worker's number for the request.
        number: u64,
    },
    /// The listener cannot listen to channels.
    Unheard {
        /// In which database.
        database: Arc<str>,
        /// The channels, each with the worker's number for the request.
        channels: Vec<(Box<str>, u64)>,
        /// Why.
        error: String,
    },
    /// Servers whose advisory locks differ from what is known; the complete result of one PostgreSQL.
    LocksDiffer(Vec<LocksDiffer>),
    /// The listener of a database has ended; it listens to nothing until it is back.
    ListenerLost {
        /// In which database.
        database: Arc<str>,
    },
    /// A client has sent a statement that needs a database without other sessions.
    ClaimProgress(Arc<ClaimProgress>),
    /// Functions of a database are being created, or have been.
    FunctionsMade(Box<FunctionsMade>),
    /// A cancel request for a query of one of this worker's clients.
    Cancel(CancelWish),
    /// A cancel request for another process, whose connections are kept by this worker.
    PassOn {
        /// The `peer_id` of that process.
        peer: u16,
        /// The request, with the key to send to it.
        wish: CancelWish,
    },
    /// A cancel request that one of this worker's clients has made is done, or has failed.
    CancelOver(ClientKey),
    /// A letter to the ledger, which lives on worker 0.
    Ledger {
        /// The worker that sends it.
        from: WorkerId,
        /// The letter.
        letter: pool::Letter,
    },
    /// An answer from the ledger.
    WorkerQuota(pool::Answer),
    /// A connection of this worker has lost its place among those that have not logged in.
    Displaced(ClientKey),
    /// A new configuration is in force.
    ActiveConfig(Arc<ActiveConfig>),
    /// The primary of this cluster accepts writes again: its hosts are tried now.
    TryHosts(Arc<str>),
    /// A replica does not answer any more: its servers are left.
    LeaveReplica {
        /// The cluster.
        cluster: Arc<str>,
        /// Its host and port, as in tables.
        host: Arc<str>,
    },
    /// What the replicas of a cluster have replayed.
    Replayed {
        /// The cluster.
        cluster: Arc<str>,
        /// Those that answer.
        replicas: Arc<[cluster::Replayed]>,
    },
    /// The answer to [`ToControl::AskReadNames`].
    ReadNames {
        /// The database.
        database: Arc<str>,
        /// How often functions had been created when it was asked.
        creations: u64,
        /// The names; `None` if they could not be read.
        names: Option<Arc<route::ReadNames>>,
    },
    /// A host of a cluster is a replica that answers, and was none, or did not.
    ReplicaIsBack {
        /// The cluster.
        cluster: Arc<str>,
        /// Its host and port, as in tables.
        host: Arc<str>,
    },
    /// A host name has been looked up.
    Resolved {
        /// The name.
        name: Arc<str>,
        /// What was found.
        found: Found,
    },
    /// The answer to [`ToControl::AskExternalAuth`].
    Judged {
        /// The client.
        client: ClientKey,
        /// The answer.
        verdict: Verdict,
    },
    /// The answer to [`ToControl::Hash`].
    Hashed {
        /// What asked for it.
        asker: HashAsker,
        /// The result.
        hashed: Hashed,
    },
    /// The answer to [`ToControl::AskSecret`].
    AuthQueryAnswer {
        /// What asked for it.
        inquirer: Inquirer,
        /// The answer.
        answer: AuthQueryAnswer,
    },
    /// The answer to [`ToControl::SystemUser`].
    SystemUser {
        /// The client.
        client: ClientKey,
        /// The answer.
        found: SystemUser,
    },
    /// The control thread wants a snapshot.
    Show {
        /// Control's number for the question.
        question: u64,
        /// Which parts of it.
        what: Parts,
    },
    /// The console's answer to one request of one of our clients: whole messages, or none.
    ConsoleAnswer {
        /// The client.
        client: ClientKey,
        /// The messages for it.
        bytes: Vec<u8>,
        /// Whether the connection is closed behind them.
        closes: bool,
    },
    /// A further part of an answer for one of our clients of the console, before the answer's end.
    /// [`ToControl::ConsoleTook`](super::ToControl::ConsoleTook) reports that the client has read it.
    ConsolePart {
        /// The client.
        client: ClientKey,
        /// Whole messages.
        bytes: Vec<u8>,
    },
    /// An order to be carried out once.
    Order {
        /// Control's number for it.
        question: u64,
        /// The order.
        order: Order,
    },
    /// The wait of this order is no longer needed.
    ForgetOrder {
        /// Control's number for it.
        question: u64,
    },
    /// Packs the worker's state for another process, from this cursor on; the parcel goes directly to the thread that
    /// waits for it.
    Pack {
        /// Where the previous parcel ended.
        from: Cursor,
        /// Where to send the parcel.
        out: Sender<Parcel<S>>,
    },
    /// A client that lives on another worker is gone; its cancel key, with these first bytes, names the receiver.
    KeyGone(KeyName),
    /// The worker's share of what another process has handed over.
    Arrive(Box<Imports<S>>),
    /// The other process has taken over: clients that were left behind are told so, and the worker ends.
    HandedOver,
    /// Ends the suspension by [`Order::Suspend`].
    WakeUp,
    /// Shuts down in this way.
    Shutdown(Shutdown),
    /// A shutdown has waited this long for clients, and will soon disconnect them: no client gets a server any more, and
    /// those that have none are disconnected.
    StopLending {
        /// The seconds waited.
        secs: u64,
    },
    /// A shutdown has waited this long for clients: those that are left are disconnected.
    EndClients {
        /// The seconds waited.
        secs: u64,
    },
}

/// The connection that carried a cancel request: its worker and its key there.
pub type Requester = (WorkerId, ClientKey);

/// A cancel request of a client.
#[derive(Clone, Debug)]
pub struct CancelWish {
    /// The cancel key that it names.
    pub key: CancelKey,
    /// The connection to be closed when the request is done.
    pub requester: Requester,
    /// Since when, and until when, the requester waits.
    pub waits: CancelWait,
}

/// How long the sender of a cancel request waits for it. Later the request must not be sent any more: the sender may
/// have begun another query, whatever `cancel_wait_timeout` has become meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CancelWait {
    /// Since when.
    pub since: Time,
    /// Until when.
    pub until: Option<Time>,
}

/// How the address of a client is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AddressSource {
    /// It is that of its socket.
    #[default]
    Socket,
    /// A proxy that is connected by TCP has told it in a PROXY header.
    HeaderOverTcp,
    /// A proxy on the Unix socket has told it in a PROXY header.
    HeaderOverUnix,
}

/// A client on its way from its greeting to its home worker.
#[derive(Debug)]
pub struct GreetedClient<S> {
    /// Its connection.
    pub socket: S,
    /// Its address.
    pub peer: Peer,
    /// How that is known.
    pub address_source: AddressSource,
    /// Its TLS, if it is secured.
    pub security: Option<Arc<Security>>,
    /// Its startup request.
    pub request: greeting::Request,
    /// Bytes it has sent beyond that.
    pub early: Vec<u8>,
    /// Its number in the logs and on the console.
    pub id: u64,
    /// When it was accepted.
    pub since: Time,
    /// When it was accepted, as calendar time.
    pub since_wall: Wall,
    /// Whether it came with [`ToWorker::Own`].
    pub is_own: bool,
    /// Its place among the connections that have not logged in.
    pub unauthenticated: Option<NonZeroU64>,
}

/// The result of a lookup: addresses, or why there are none.
pub type Found = Result<Addresses, Arc<str>>;

/// The addresses of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// At least one, each once.
    pub all: Vec<IpAddr>,
    /// How long they are valid, if the resolver said so.
    pub ttl: Option<Duration>,
}

/// A server holds advisory locks that no client is known to hold, or lacks some that its client is believed to hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocksDiffer {
    /// The server's number.
    pub server: u64,
    /// The locks that no client is known to hold, in words.
    pub locks: Vec<String>,
    /// Whether this is reported for the first time.
    pub is_new: bool,
}

/// What needs a user's secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inquirer {
    /// A client that logs in as that user.
    Client(ClientKey),
    /// A pool of that user, because a server has refused the secret that `auth_query` had returned.
    Pool(PoolKey),
}

/// The result of `auth_query` for a user.
#[derive(Clone, Debug)]
pub enum AuthQueryAnswer {
    /// The server knows the user by this name; without a secret nobody can log in as that user.
    User {
        /// The name.
        name: Arc<str>,
        /// What it has stored.
        secret: Arc<Secret>,
    },
    /// The server does not know the user.
    Nobody,
    /// The query had no usable answer; this is to be logged.
    Unanswered(String),
    /// The server could not be asked; clients get this error.
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
