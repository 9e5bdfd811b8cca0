//! What a client waits for.
//!
//! Always true: each reason has one word.
//! Not here: which of them it is, and for how long (`why`).

/// What keeps a client from having a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum WaitReason {
    /// Every server that the pool may have is taken (`pool_size`, `reserve_pool_size`).
    NoneFree,
    /// The pool may have more, but its database may not (`max_db_connections`).
    DatabaseLimit,
    /// The pool may have more, but its user may not (`max_user_connections`).
    UserLimit,
    /// A server is being dialed, or made clean.
    Dialing,
    /// The last login at the host has failed, and is tried again.
    Unreachable,
    /// An operator has paused the database, or everything.
    Paused,
}

impl WaitReason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::NoneFree, Self::DatabaseLimit, Self::UserLimit, Self::Dialing, Self::Unreachable, Self::Paused];

    /// In tables and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoneFree => "none_free",
            Self::DatabaseLimit => "database_limit",
            Self::UserLimit => "user_limit",
            Self::Dialing => "dialing",
            Self::Unreachable => "unreachable",
            Self::Paused => "paused",
        }
    }
}
