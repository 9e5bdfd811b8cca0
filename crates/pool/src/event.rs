//! The events that a worker passes to its pools.
//!
//! Always true: an event with a stale key, or about a client that does not wait, is harmless.

use base::Time;

use crate::{ClientKey, CloseReason, Failure, Need, PoolKey, ServerKey};

/// A digest of the settings of a session, by which a server that suits a client is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint {
    /// A hash of all settings. A server with the client's hash probably needs no `SET` before it is lent; a collision does no
    /// harm. 0 is a session in which nothing is set.
    pub settings: u32,
    /// The settings with a dot in their names that the session has ever had, as a bit set in which names may share a bit.
    /// PostgreSQL keeps each as a placeholder: once it has existed in a session, `current_setting(name, true)` returns `''`
    /// there, and NULL otherwise.
    pub placeholders: u64,
}

impl Fingerprint {
    /// A session with these settings that has never had a setting with a dot in its name.
    #[must_use]
    pub const fn of(settings: u32) -> Self {
        Self { settings, placeholders: 0 }
    }

    /// Whether both sessions have the same settings.
    #[must_use]
    pub const fn is_like(self, other: Self) -> bool {
        self.settings == other.settings
    }

    /// How well a server with the client's settings suits the client: best if both sessions have had the same placeholders,
    /// second best if the server has had none that the client has not. `None` if their settings differ.
    #[must_use]
    pub(crate) fn fit(self, client: Self) -> Option<Fit> {
        self.is_like(client).then(|| match self.placeholders & !client.placeholders {
            0 if self == client => Fit::Exact,
            0 => Fit::Fresh,
            _ => Fit::Like,
        })
    }
}

/// How well a server suits a client, from worst to best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fit {
    /// The client may read `''` for a placeholder that it has never set.
    Like,
    /// The server has never had a placeholder that the client has not had.
    Fresh,
    /// Both have had the same placeholders. Preferred to [`Fit::Fresh`], so that servers without a placeholder stay without it.
    Exact,
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A client needs a server. A client waits in one place only: a later event for another place replaces an earlier one; a
    /// repeated event keeps its place.
    Wants {
        /// The pool.
        pool: PoolKey,
        /// The client.
        client: ClientKey,
        /// The settings of the client's session.
        fingerprint: Fingerprint,
    },
    /// A client needs another server, because the one that it was lent was lost before any request was sent to it. The client
    /// gets its former place in the wait queue.
    WantsAgain {
        /// The pool.
        pool: PoolKey,
        /// The client.
        client: ClientKey,
        /// When the client first began to wait.
        since: Time,
        /// The settings of the client's session.
        fingerprint: Fingerprint,
    },
    /// A client waits for the server parameters of a first login, with which it is to be greeted.
    Greets {
        /// The pool.
        pool: PoolKey,
        /// The client.
        client: ClientKey,
    },
    /// A client needs a dedicated server, as replication does: the server is dialed for this client, closed with it and
    /// never lent. While it is being dialed the client is in no queue; if the client leaves then, the worker sends
    /// [`Event::Lost`] for the server.
    WantsDedicated {
        /// The pool.
        pool: PoolKey,
        /// The client.
        client: ClientKey,
        /// When the client first began to wait.
        since: Time,
    },
    /// A waiting client has disconnected, or no longer needs a server.
    Left {
        /// The pool.
        pool: PoolKey,
        /// The client.
        client: ClientKey,
    },
    /// A login is complete.
    Ready {
        /// The server that was dialed.
        server: ServerKey,
    },
    /// A login has failed. The socket is already closed; the slot becomes free at once.
    DialFailed {
        /// The server that was dialed.
        server: ServerKey,
        /// Why.
        failure: Failure,
    },
    /// A lent server works for all clients of its database (it listens for notifications). Until it is returned it does not
    /// count against the size of its pool, but it does count against the limits of its database and its user.
    TakeOutsideSize {
        /// The lent server; at most one in a pool.
        server: ServerKey,
    },
    /// A loan is over.
    Returned {
        /// The server that was lent.
        server: ServerKey,
        /// Its condition.
        as_: Return,
        /// The settings of its session.
        fingerprint: Fingerprint,
    },
    /// The work ordered by [`crate::Command::Reset`] or [`crate::Command::Check`], or begun with [`Return::Cleanup`], has
    /// succeeded.
    Cleaned {
        /// The server that was being cleaned.
        server: ServerKey,
    },
    /// PostgreSQL has ended an idle server because of its own `idle_session_timeout`. [`Event::Lost`] follows.
    EndedIdle {
        /// The server.
        server: ServerKey,
    },
    /// The connection of a server in any state has ended; the slot becomes free at once.
    Lost {
        /// The server.
        server: ServerKey,
    },
    /// A [`crate::Command::Close`] has been carried out; the slot becomes free at once.
    Closed {
        /// The server that was being closed.
        server: ServerKey,
    },
    /// All present servers of a pool are obsolete (RECONNECT, changed connection settings): those idle or being dialed are
    /// closed now, the others when they are returned. The outcomes of former logins are forgotten.
    Retire {
        /// The pool.
        pool: PoolKey,
    },
    /// One server is obsolete, because its host name no longer resolves to the server's address: as [`Event::Retire`], for
    /// this server alone.
    RetireServer {
        /// The server.
        server: ServerKey,
    },
    /// Another host suits better: an idle server is closed, and another one opened for nobody as soon as there is room for it. A
    /// server that is not idle stays.
    MoveServer {
        /// The server.
        server: ServerKey,
    },
    /// A host of the pool may be back after an outage: the pause after its last failed login is over.
    TryAgain {
        /// The pool.
        pool: PoolKey,
    },
    /// A client needs the database of this pool without other connections: no server is opened for `min_pool_size` for a
    /// while.
    Vacate {
        /// The pool.
        pool: PoolKey,
    },
    /// A client needs the database of this server without other connections: the server is closed now if no client has it or
    /// waits for its login.
    VacateServer {
        /// The server.
        server: ServerKey,
    },
    /// An operator pauses the pool: servers idle or being dialed are closed now, the others when they are returned. No client
    /// gets a server before [`Event::Resume`], and none is refused because of the pause.
    Pause {
        /// The pool.
        pool: PoolKey,
        /// The reason for closing its servers.
        why: CloseReason,
    },
    /// The pause is over: waiting clients are served.
    Resume {
        /// The pool.
        pool: PoolKey,
    },
    /// The ledger granted one server of this user, in answer to [`crate::Command::Ask`].
    Granted {
        /// The user.
        user: u32,
        /// The need named in the ask; the grant may be used for another one.
        need: Need,
    },
    /// The ledger denied an ask of [`crate::Need::Minimum`].
    Denied {
        /// The user.
        user: u32,
    },
    /// Whether any worker, this one included, waits in the ledger's line for a server of this user. For each event with
    /// `true`, one idle server is closed, at once or as soon as there is one.
    Wanted {
        /// The user.
        user: u32,
        /// Whether a worker waits.
        is_wanted: bool,
    },
    /// The time [`crate::Pools::next_deadline`] has passed.
    Tick,
}

/// The condition in which a server is returned from a loan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Return {
    /// The server owes no answer and is outside a transaction block.
    Clean,
    /// The client abandoned the server. The worker has begun to cancel, roll back and reset, and will send
    /// [`Event::Cleaned`] or [`Event::Lost`].
    Cleanup,
}
