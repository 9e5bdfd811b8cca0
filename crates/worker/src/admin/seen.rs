//! What is to be seen of waits, and of where time has gone: values for the control thread.

use std::sync::Arc;
use std::time::Duration;

use base::Wall;
use measure::{Histogram, Histograms, Lives, Phase, Statement, StatementSums, Sums};
use pool::{WaitReason, Waited};

/// How much of what has been measured is wanted.
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
    /// The other pool's database; empty where it was no other pool of this worker: clients of another worker, a replication client of
    /// the pool itself, or one that needs the database alone.
    pub database: Arc<str>,
    /// The other pool's user.
    pub user: Arc<str>,
    /// How many.
    pub count: u64,
}

/// What a pool has come to since it was opened.
#[derive(Clone, Debug, Default)]
pub struct PoolMeasures {
    /// What those who wait wait for.
    pub waits_for: Option<WaitReason>,
    /// Why the last login at the host did not come about, unless one has since.
    pub failure: Option<Arc<str>>,
    /// How many servers it may have, its reserve included; 0 is any number.
    pub limit: u32,
    /// The most servers that have been lent at once.
    pub peak_lent: u32,
    /// How long all its clients have waited, by what they waited for.
    pub waited: Waited,
    /// Where the time of its transactions has gone.
    pub sums: Sums,
    /// Servers opened and closed.
    pub lives: Lives,
    /// For whom servers were evicted.
    pub evicted_by: Vec<Evicted>,
    /// How long its transactions have waited for a server.
    pub wait: Option<Box<Histogram>>,
    /// How long they have lasted in all.
    pub total: Option<Box<Histogram>>,
    /// Both, and each phase, where that was asked for.
    pub histograms: Option<Box<Histograms>>,
}

/// What the transactions of an application have come to.
#[derive(Clone, Debug)]
pub struct ApplicationRow {
    /// Its database.
    pub database: Arc<str>,
    /// Its user.
    pub user: Arc<str>,
    /// What it calls itself.
    pub name: Box<str>,
    /// Where the time of its transactions has gone.
    pub sums: Sums,
}

/// The statements of a database.
#[derive(Clone, Debug)]
pub struct StatementsOf {
    /// Its name.
    pub database: Arc<str>,
    /// Those that take most of the time.
    pub rows: Vec<Statement>,
    /// What all others have come to.
    pub folded: StatementSums,
}

/// A client that waits for a server, or has one.
#[derive(Clone, Debug)]
pub struct WaitRow {
    /// Its database.
    pub database: Arc<str>,
    /// The user of its pool.
    pub user: Arc<str>,
    /// What it calls itself.
    pub application_name: Box<str>,
    /// Its address; `unix` for unix sockets.
    pub addr: String,
    /// Its port.
    pub port: u16,
    /// Its number.
    pub client: u64,
    /// Its number, and the process, of the server that it has.
    pub server: Option<(u64, u32)>,
    /// What it does, or waits for.
    pub doing: Doing,
    /// Since when that is so.
    pub since: Wall,
    /// For how long that has been so.
    pub doing_for: Duration,
    /// How long its transaction has lasted, or how long it has waited in all.
    pub transaction: Duration,
    /// Its last request, without values.
    pub statement: Box<str>,
    /// Whether that changes or locks rows, so that it may wait for another transaction.
    pub may_wait_for_lock: bool,
    /// What it is kept for beyond its transaction.
    pub pins: Box<str>,
    /// What ends this by itself, and when.
    pub ends: Option<(Duration, Box<str>)>,
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
    /// It has a server outside a transaction: what its session holds keeps that.
    Kept,
    /// It has a server outside a transaction because its pool is in session mode.
    Session,
    /// Its transaction has just ended: its server is asked what the session keeps, or stays a moment with it.
    Between,
}

impl Doing {
    /// In a table.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Waits(WaitReason::NoneFree) => "waits: every server of the pool is taken",
            Self::Waits(WaitReason::DatabaseLimit) => "waits: max_db_connections is reached",
            Self::Waits(WaitReason::UserLimit) => "waits: max_user_connections is reached",
            Self::Waits(WaitReason::Dialing) => "waits: a server is being opened",
            Self::Waits(WaitReason::Unreachable) => "waits: the last login at the host failed",
            Self::Waits(WaitReason::Paused) => "waits: paused",
            Self::Delayed => "waits: a rate limit delays it",
            Self::In(Phase::Waiting) => "gets its server",
            Self::In(Phase::Settings) => "its server takes over its settings",
            Self::In(Phase::FirstByte) => "its server works on the request",
            Self::In(Phase::Streaming) => "its server answers",
            Self::In(Phase::Blocked) => "does not read its answer",
            Self::In(Phase::Thinking) => "idle in transaction",
            Self::Kept => "idle, keeps its server",
            Self::Session => "idle in its session",
            Self::Between => "between two transactions",
        }
    }
}
