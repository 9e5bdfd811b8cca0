//! The commands of the pools to their worker.
//!
//! Always true: the worker carries out commands in their order; none needs an answer within the same call.

use std::fmt;
use std::time::Duration;

use crate::{ClientKey, Failure, PoolKey, ServerKey, WaitReason};

/// An order to the worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Open a connection and log in; answered by [`crate::Event::Ready`] or [`crate::Event::DialFailed`].
    Dial {
        /// The pool.
        pool: PoolKey,
        /// The slot of the new server.
        server: ServerKey,
        /// The client of a dedicated server.
        owner: Option<ClientKey>,
        /// Why it is opened.
        why: OpenReason,
    },
    /// Lend the server to the client.
    Attach {
        /// The client.
        client: ClientKey,
        /// The server.
        server: ServerKey,
        /// How long the client has waited.
        waited: Duration,
    },
    /// Bind to the client the dedicated server that was dialed for it, whose login is complete.
    Bind {
        /// The client.
        client: ClientKey,
        /// The server.
        server: ServerKey,
        /// How long the client has waited.
        waited: Duration,
    },
    /// Greet the client: the server parameters of a login are known.
    Welcome {
        /// The client.
        client: ClientKey,
    },
    /// Run the reset query; answered by [`crate::Event::Cleaned`] or [`crate::Event::Lost`].
    Reset {
        /// The server.
        server: ServerKey,
    },
    /// Run the check query; answered by [`crate::Event::Cleaned`] or [`crate::Event::Lost`].
    Check {
        /// The server.
        server: ServerKey,
    },
    /// Close the connection; answered by [`crate::Event::Closed`].
    Close {
        /// The server.
        server: ServerKey,
        /// The reason for the log.
        why: CloseReason,
    },
    /// Tell the client that it will get no server.
    Refuse {
        /// The client.
        client: ClientKey,
        /// Why.
        why: Refusal,
    },
    /// Ask the ledger for one more server of this user. An ask for a client waits in line until it is granted or
    /// withdrawn; an ask for a minimum is granted or denied soon.
    Ask {
        /// The user.
        user: u32,
        /// What the server is needed for.
        need: Need,
    },
    /// Withdraw one ask for a client.
    Withdraw {
        /// The user.
        user: u32,
    },
    /// Give one grant back to the ledger: a granted server of this user is closed, or was not needed after all.
    GiveBack {
        /// The user.
        user: u32,
    },
    /// A line for the log.
    Note(Note),
}

/// Why a server is opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OpenReason {
    /// A client waits for a server.
    Client,
    /// The pool is below `min_pool_size`.
    MinPoolSize,
    /// A client has waited for `reserve_pool_timeout`.
    Reserve,
    /// A client wants a replication stream.
    Replication,
    /// It takes the place of one that was closed because another host suits better.
    Moved,
}

/// What a server is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// A client waits.
    Client,
    /// The pool is below `min_pool_size`. For that no server is evicted and no client is delayed.
    Minimum,
}

/// An event that an operator may want to read in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// A login uses the reserve pool, because the pool is full and its first client has waited for `reserve_pool_timeout`.
    ReserveTaken {
        /// The pool.
        pool: PoolKey,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReserveTaken { .. } => f.write_str("taking connection from reserve_pool"),
        }
    }
}

/// Why a server is closed. Printed in PgBouncer's words, which people search their logs for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// It was idle for longer than `server_idle_timeout`.
    IdleTooLong,
    /// It is older than `server_lifetime`, or `server_lifetime` is 0 and its only loan is over.
    LifetimeOver,
    /// Obsolete, while it was idle.
    ConfigurationChanged,
    /// Obsolete, while it was being dialed.
    ConnectStringChanged,
    /// Obsolete, when it was returned from a loan.
    CloseNeeded,
    /// Obsolete, when its reset, check or cleanup had ended.
    Obsolete,
    /// A client of another pool, or one that waits for a dedicated server, needs its place.
    Evicted,
    /// The size of the pool was lowered.
    TooManyServers,
    /// The database was removed from the configuration.
    DatabaseRemoved,
    /// An operator has closed the pool (`KILL`).
    Killed,
    /// An operator has paused the pool.
    PauseMode,
    /// Clients of the pool are held while its primary changes or restarts.
    Held,
    /// Another host suits better, where the next server is opened.
    Moved,
    /// A client drops, renames, moves or copies the database, for which PostgreSQL allows no other connection to it.
    DatabaseClaimed,
}

impl CloseReason {
    /// All of them, for tables and pages.
    pub const ALL: [Self; 14] = [
        Self::IdleTooLong,
        Self::LifetimeOver,
        Self::ConfigurationChanged,
        Self::ConnectStringChanged,
        Self::CloseNeeded,
        Self::Obsolete,
        Self::Evicted,
        Self::TooManyServers,
        Self::DatabaseRemoved,
        Self::Killed,
        Self::PauseMode,
        Self::Held,
        Self::Moved,
        Self::DatabaseClaimed,
    ];

    /// The text for the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IdleTooLong => "server idle timeout",
            Self::LifetimeOver => "server lifetime over",
            Self::ConfigurationChanged => "database configuration changed",
            Self::ConnectStringChanged => "connect string changed",
            Self::CloseNeeded => "close_needed",
            Self::Obsolete => "obsolete connection",
            Self::Evicted => "evicted",
            Self::TooManyServers => "too many servers in the pool",
            Self::DatabaseRemoved | Self::Killed => "database removed",
            Self::PauseMode => "pause mode",
            Self::Held => "clients are held",
            Self::Moved => "another host suits better",
            Self::DatabaseClaimed => "database needed by one client alone",
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a client gets no server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The client waited for longer than `query_wait_timeout`, in the end for this reason.
    QueryWaitTimeout(WaitReason),
    /// The login that the client waited for was refused: one failure, shared by all clients that waited for it.
    LoginFailed(Failure),
    /// The last login has failed and the next attempt is not due yet: the failure of the last login.
    LoginFailing(Failure),
    /// The database was removed from the configuration.
    DatabaseRemoved,
    /// The server refused the login of the client's dedicated server, which says nothing about other clients' logins.
    DedicatedRefused(Failure),
}
