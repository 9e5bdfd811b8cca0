//! The streams of chance of a plan, one for each part of it.
//!
//! Always true: no two parts share a stream; what one draws says nothing of what another draws, so that every combination occurs.
//! Not here: the streams of applications, which have the applications' numbers.

/// A part of a plan that draws by itself.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Stream {
    /// Named statements.
    Names = u64::MAX,
    /// Replication.
    Replicas = u64::MAX - 1,
    /// Sessions that follow their clients.
    Marks = u64::MAX - 2,
    AuthPlan = u64::MAX - 7,
    /// Which peers there are.
    Group = u64::MAX - 40,
    /// What peers do.
    Peers = u64::MAX - 41,
    Evictions = u64::MAX - 42,
    Console = u64::MAX - 43,
    /// Cancel requests.
    Cancels = u64::MAX - 44,
    /// LISTEN.
    Listeners = u64::MAX - 45,
    /// PREPARE by SQL.
    Statements = u64::MAX - 46,
    /// Limits of pinned servers.
    Limits = u64::MAX - 47,
    /// The lengths of times.
    Lengths = u64::MAX - 48,
    /// `session_verify`.
    Verify = u64::MAX - 49,
    /// Whether all applications can be counted.
    Countable = u64::MAX - 50,
    Spans = u64::MAX - 71,
    /// Rate limits.
    Rates = u64::MAX - 72,
    /// Online restarts.
    Restarts = u64::MAX - 73,
    Tls = u64::MAX - 74,
    /// Names with an address that cannot be reached.
    Addresses = u64::MAX - 75,
    /// The reset query.
    Resets = u64::MAX - 76,
    /// How members and agents behave.
    Members = u64::MAX - 77,
    /// Who writes in a cluster, and what happens to it.
    Writers = u64::MAX - 78,
    Clusters = u64::MAX - 79,
}

impl Stream {
    /// Its number among all streams of a seed.
    pub(crate) fn number(self) -> u64 {
        self as u64
    }
}
