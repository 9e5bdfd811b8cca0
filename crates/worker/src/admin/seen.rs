//! What is shown of waits and of where time goes: values for the control thread.

use std::sync::Arc;
use std::time::Duration;

use base::Wall;
use measure::{Histogram, Histograms, Lives, Phase, Statement, StatementSums, Sums};
use pool::{WaitReason, Waited};

/// How much of the measurements is wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// Sums, and the distributions of waits and of whole transactions.
    Sums,
    /// All distributions.
    Histograms,
}

/// Servers of a pool that were closed for clients of another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The other pool's database; empty if it was no other pool of this worker but clients of another worker, a
    /// replication client of the pool itself, or one that needs the database to itself.
    pub database: Arc<str>,
    /// The other pool's user.
    pub user: Arc<str>,
    /// How many.
    pub count: u64,
}

/// What has become of reads that might have gone to replicas (`read_routing`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCounts {
    /// Given to a replica.
    pub to_replica: u64,
    /// Given to the primary, since no replica was known to have replayed what the client has written, or has asked for.
    pub behind: u64,
    /// Of those that were given to a replica: refused by it, and then given to the primary.
    pub refused: u64,
    /// Of those that were given to a replica: lost with it, and then given to the primary.
    pub lost: u64,
}

/// Measurements of a pool since it was opened.
#[derive(Clone, Debug, Default)]
pub struct PoolMeasures {
    /// What the waiting clients wait for.
    pub waits_for: Option<WaitReason>,
    /// Why the last login to the host failed, unless one has succeeded since.
    pub failure: Option<Arc<str>>,
    /// How many servers the pool may have, its reserve included; 0 is any number.
    pub limit: u32,
    /// The most servers that have been lent at once.
    pub peak_lent: u32,
    /// How long all its clients have waited, by reason.
    pub waited: Waited,
    /// Where the time of its transactions has gone.
    pub sums: Sums,
    /// Servers opened and closed.
    pub lives: Lives,
    /// For which pools servers were evicted.
    pub evicted_by: Vec<Evicted>,
    /// Reads of its clients.
    pub reads: ReadCounts,
    /// How long its transactions have waited for a server.
    pub wait: Option<Box<Histogram>>,
    /// How long they have lasted in all.
    pub total: Option<Box<Histogram>>,
    /// The histograms of both, and of each phase, where they were asked for.
    pub histograms: Option<Box<Histograms>>,
}

/// Sums of the transactions of an application.
#[derive(Clone, Debug)]
pub struct ApplicationRow {
    /// Its database.
    pub database: Arc<str>,
    /// Its user.
    pub user: Arc<str>,
    /// The application's name.
    pub name: Box<str>,
    /// Where the time of its transactions has gone.
    pub sums: Sums,
}

/// The statements of a database.
#[derive(Clone, Debug)]
pub struct StatementsOf {
    /// The database's name.
    pub database: Arc<str>,
    /// The statements that take most of the time.
    pub rows: Vec<Statement>,
    /// The sums of all others.
    pub folded: StatementSums,
}

/// A client that waits for a server, or has one.
#[derive(Clone, Debug)]
pub struct WaitRow {
    /// Its database.
    pub database: Arc<str>,
    /// The user of its pool.
    pub user: Arc<str>,
    /// The application's name.
    pub application_name: Box<str>,
    /// Its address; `unix` for unix sockets.
    pub addr: String,
    /// Its port.
    pub port: u16,
    /// The client's number.
    pub client: u64,
    /// The number of its server, and the process ID of that backend.
    pub server: Option<(u64, u32)>,
    /// What the client does, or waits for.
    pub doing: Doing,
    /// Since when it does so.
    pub since: Wall,
    /// For how long it has done so.
    pub doing_for: Duration,
    /// For how long its transaction has lasted, or how long it has waited in all.
    pub transaction: Duration,
    /// Its last request, without values.
    pub statement: Box<str>,
    /// What the request, and what the client holds, have to do with locks, as far as their texts tell.
    pub locks: LockSigns,
    /// Why it keeps its server beyond the transaction.
    pub pins: Box<str>,
    /// The timeout that ends this state, and when it does.
    pub ends: Option<(Duration, Box<str>)>,
}

/// What a client seems to have to do with locks. PostgreSQL is not asked: these are only signs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LockSigns {
    /// The request changes or locks rows or tables, or takes an advisory lock, so that it may wait for a lock.
    pub may_wait: bool,
    /// The request takes an advisory lock.
    pub wants_advisory: bool,
    /// The request locks a table as a whole: even readers of the table wait until its transaction ends.
    pub locks_table: bool,
    /// The client holds an advisory lock beyond its transaction.
    pub holds_advisory: bool,
}

/// What a client does, or waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Doing {
    /// It waits for a server, for this reason.
    Waits(WaitReason),
    /// A rate limit delays it.
    Delayed,
    /// It has a server, and is in this phase of a transaction.
    In(Phase),
    /// It has a server outside a transaction, because of what its session holds there.
    Kept,
    /// It has a server outside a transaction because its pool is in session mode.
    Session,
    /// It reads a replication stream, which has no end.
    Replicates,
    /// Its transaction has just ended: its server is being probed, or is held for the client for a moment.
    Between,
}

impl Doing {
    /// The words for a table.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Waits(WaitReason::NoneFree) => "waits: every server of the pool is taken",
            Self::Waits(WaitReason::DatabaseLimit) => "waits: max_db_connections is reached",
            Self::Waits(WaitReason::UserLimit) => "waits: max_user_connections is reached",
            Self::Waits(WaitReason::Dialing) => "waits: a server is being opened",
            Self::Waits(WaitReason::Unreachable) => "waits: the last login at the host failed",
            Self::Waits(WaitReason::Paused) => "waits: paused",
            Self::Waits(WaitReason::Held) => "waits: held",
            Self::Delayed => "waits: a rate limit delays it",
            Self::In(Phase::Waiting) => "gets its server",
            Self::In(Phase::Settings) => "its server takes over its settings",
            Self::In(Phase::FirstByte) => "its server works on the request",
            Self::In(Phase::Streaming) => "its server answers",
            Self::In(Phase::Blocked) => "does not read its answer",
            Self::In(Phase::Thinking) => "idle in transaction",
            Self::Kept => "idle, keeps its server",
            Self::Session => "idle in its session",
            Self::Replicates => "replicates",
            Self::Between => "between two transactions",
        }
    }
}
