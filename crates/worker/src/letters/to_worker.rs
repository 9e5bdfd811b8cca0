//! Letters to a worker: orders, questions, and what others have to tell it.
//!
//! Always true: each is read in the worker's next turn, and nobody waits for that.
//! Not here: what a worker does about a letter.

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
    ActiveConfig, Cursor, FunctionsMade, HashAsker, Hashed, Imports, Order, Parcel, Parts, Sole, SystemUser, Verdict,
};

/// To a worker.
#[derive(Debug)]
pub enum ToWorker<S> {
    /// A client comes home: its database lives here.
    Client(Box<GreetedClient<S>>),
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
    WorkerQuota(pool::Answer),
    /// One of our clients has lost its place among the connections that have not logged in.
    Displaced(ClientKey),
    /// New settings are in force.
    ActiveConfig(Arc<ActiveConfig>),
    /// A name has been looked up.
    Resolved {
        /// The name.
        name: Arc<str>,
        /// What was found.
        found: Found,
    },
    /// What was asked with [`ToControl::AskExternalAuth`].
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
    /// More for one of our clients of the console, which has not been answered yet. That it has taken that is told with
    /// [`ToControl::ConsoleTook`](super::ToControl::ConsoleTook).
    ConsolePart {
        /// Whom.
        client: ClientKey,
        /// Whole messages.
        bytes: Vec<u8>,
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
    Arrive(Box<Imports<S>>),
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

/// Somebody waits for a cancel request to be done. Then it must not be done any more: whoever made it may have asked for something else,
/// whatever `cancel_wait_timeout` has become meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Since when.
    pub since: Time,
    /// Until when.
    pub until: Option<Time>,
}

/// A client between its greeting and its home.
#[derive(Debug)]
pub struct GreetedClient<S> {
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
