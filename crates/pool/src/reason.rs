//! The reasons for which clients wait, and sums of wait times by reason.
//!
//! Always true: each reason has one word.
//! Not here: which reason applies at each moment (`why`).

/// Why a client has to wait for a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum WaitReason {
    /// Every server that the pool may have is taken (`pool_size`, `reserve_pool_size`).
    NoneFree,
    /// The pool may have more, but its database may not (`max_db_connections`).
    DatabaseLimit,
    /// The pool may have more, but its user may not (`max_user_connections`).
    UserLimit,
    /// A server is being dialed, reset or checked.
    Dialing,
    /// The last login at the host has failed and will be retried.
    Unreachable,
    /// An operator has paused the database, or all databases.
    Paused,
    /// Clients of the database are held: its primary changes or restarts, or may be none any more.
    Held,
}

impl WaitReason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NoneFree,
        Self::DatabaseLimit,
        Self::UserLimit,
        Self::Dialing,
        Self::Unreachable,
        Self::Paused,
        Self::Held,
    ];

    /// The word used in tables and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoneFree => "none_free",
            Self::DatabaseLimit => "database_limit",
            Self::UserLimit => "user_limit",
            Self::Dialing => "dialing",
            Self::Unreachable => "unreachable",
            Self::Paused => "paused",
            Self::Held => "held",
        }
    }

    /// A clause that can follow "because" in a sentence.
    #[must_use]
    pub fn clause(self) -> &'static str {
        match self {
            Self::NoneFree => "every server of the pool is taken",
            Self::DatabaseLimit => "max_db_connections is reached",
            Self::UserLimit => "max_user_connections is reached",
            Self::Dialing => "a server is being opened",
            Self::Unreachable => "the last login at the host failed",
            Self::Paused => "the pool is paused",
            Self::Held => "clients are held: the primary changes or restarts, or may be none any more",
        }
    }
}

/// The time that clients have waited, in microseconds, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waited([u64; WaitReason::ALL.len()]);

impl Waited {
    pub(crate) fn add(&mut self, why: WaitReason, micros: u64) {
        self.0[why as usize] += micros;
    }

    /// The time waited for one reason.
    #[must_use]
    pub fn of(&self, why: WaitReason) -> u64 {
        self.0[why as usize]
    }

    /// The reason for most of the time waited since `earlier`; `None` if no client has waited since.
    #[must_use]
    pub fn main_since(&self, earlier: &Self) -> Option<WaitReason> {
        let of = |why: WaitReason| self.of(why).saturating_sub(earlier.of(why));
        WaitReason::ALL.into_iter().max_by_key(|why| of(*why)).filter(|why| of(*why) > 0)
    }

    /// The time waited for all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
