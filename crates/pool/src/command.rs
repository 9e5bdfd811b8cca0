//! What the pools want done.
//!
//! Always true: commands are carried out in the order in which they stand; none needs an answer within the same call.

use std::fmt;
use std::time::Duration;

use crate::{ClientKey, Failure, PoolKey, ServerKey, WaitReason};

/// Something the worker must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Open a connection and log in; answered by [`crate::Event::Ready`] or [`crate::Event::DialFailed`].
    Dial {
        /// For whom.
        pool: PoolKey,
        /// The slot it fills.
        server: ServerKey,
        /// The client whose dedicated server it is to be.
        owner: Option<ClientKey>,
        /// What for.
        why: OpenReason,
    },
    /// Lend the server to the client.
    Attach {
        /// To whom.
        client: ClientKey,
        /// What.
        server: ServerKey,
        /// How long the client has waited.
        waited: Duration,
    },
    /// The dedicated server that was dialed for the client is ready: it has it from now on.
    Bind {
        /// Whose it is.
        client: ClientKey,
        /// What.
        server: ServerKey,
        /// How long the client has waited.
        waited: Duration,
    },
    /// The parameters of a login are known: greet the client.
    Welcome {
        /// Whom.
        client: ClientKey,
    },
    /// Run the reset query; answered by [`crate::Event::Cleaned`] or [`crate::Event::Lost`].
    Reset {
        /// On which.
        server: ServerKey,
    },
    /// Run the check query; answered by [`crate::Event::Cleaned`] or [`crate::Event::Lost`].
    Check {
        /// On which.
        server: ServerKey,
    },
    /// Close the connection; answered by [`crate::Event::Closed`].
    Close {
        /// Which.
        server: ServerKey,
        /// What the log says about it.
        why: CloseReason,
    },
    /// Tell the client that it will get no server.
    Refuse {
        /// Whom.
        client: ClientKey,
        /// Why.
        why: Refusal,
    },
    /// Ask the ledger for one more server of this user. An ask for a client waits in line until it is granted or
    /// withdrawn; one for a minimum is granted or denied soon.
    Ask {
        /// Whose.
        user: u32,
        /// What for.
        need: Need,
    },
    /// One ask for a client is no longer needed.
    Withdraw {
        /// Whose.
        user: u32,
    },
    /// A granted server of this user is gone, or was not needed after all.
    GiveBack {
        /// Whose.
        user: u32,
    },
    /// A line for the log.
    Note(Note),
}

/// Why a server is opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OpenReason {
    /// A client waits for one.
    Client,
    /// The pool is below `min_pool_size`.
    MinPoolSize,
    /// A client has waited for `reserve_pool_timeout`.
    Reserve,
    /// A client wants a replication stream.
    Replication,
}

/// What a server is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Somebody waits.
    Client,
    /// The pool is below its minimum. Nothing is evicted and nobody is delayed for that.
    Minimum,
}

/// Something an operator may want to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The pool is full and its first client has waited too long.
    ReserveTaken {
        /// Which.
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
    /// It lay idle for longer than `server_idle_timeout`.
    IdleTooLong,
    /// It is older than `server_lifetime`, or for one loan only.
    LifetimeOver,
    /// Obsolete, found idle.
    ConfigurationChanged,
    /// Obsolete, found while it was being dialed.
    ConnectStringChanged,
    /// Obsolete, found when it came back from a loan.
    CloseNeeded,
    /// Obsolete, found when it was clean and would have been lent.
    Obsolete,
    /// Its place is needed by a client of another pool.
    Evicted,
    /// The limit of the pool was lowered.
    TooManyServers,
    /// The database is gone from the configuration.
    DatabaseRemoved,
    /// An operator has paused the pool.
    PauseMode,
    /// A client drops, renames, moves or copies the database, for which nobody else may be connected to it.
    DatabaseClaimed,
}

impl CloseReason {
    /// All of them, for tables and pages.
    pub const ALL: [Self; 11] = [
        Self::IdleTooLong,
        Self::LifetimeOver,
        Self::ConfigurationChanged,
        Self::ConnectStringChanged,
        Self::CloseNeeded,
        Self::Obsolete,
        Self::Evicted,
        Self::TooManyServers,
        Self::DatabaseRemoved,
        Self::PauseMode,
        Self::DatabaseClaimed,
    ];

    /// The words for the log.
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
            Self::DatabaseRemoved => "database removed",
            Self::PauseMode => "pause mode",
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
    /// It waited for longer than `query_wait_timeout`, and for this when that was over.
    QueryWaitTimeout(WaitReason),
    /// The login it waited for was refused: one failure, shared by all who waited for it.
    LoginFailed(Failure),
    /// The last login failed a moment ago and the next attempt is not due: the failure that is remembered.
    LoginFailing(Failure),
    /// The database is gone from the configuration.
    DatabaseRemoved,
    /// The server did not let the client's dedicated login in, which says nothing about logins of others.
    DedicatedRefused(Failure),
}
