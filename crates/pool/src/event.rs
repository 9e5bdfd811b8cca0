//! What the world tells the pools.
//!
//! Always true: an event about somebody who is not there (a stale key, a client that does not wait) is harmless.

use base::Time;

use crate::{ClientKey, Failure, Need, PoolKey, ServerKey};

/// What is set in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint {
    /// All of it in one number: with a server of the same number a client need not be told anything, and nobody is wrong if two are
    /// the same by chance. 0 is that of a session in which nothing is set.
    pub settings: u32,
    /// The settings with a dot in their names that it has ever had, one bit for each name or for several. PostgreSQL keeps them as
    /// placeholders: whoever asks for one reads `''` from then on, and NULL otherwise.
    pub placeholders: u64,
}

impl Fingerprint {
    /// Of a session in which this is set, and no setting with a dot has ever been.
    #[must_use]
    pub const fn of(settings: u32) -> Self {
        Self { settings, placeholders: 0 }
    }

    /// Whether the same is set.
    #[must_use]
    pub const fn is_like(self, other: Self) -> bool {
        self.settings == other.settings
    }

    /// How well a server suits a client in whose session the same is set: best if both have had the same settings with a dot, and better
    /// if the server has had none that the client has not.
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
    /// The client may read `''` where it has never set anything.
    Like,
    /// The server has never had what the client has not.
    Fresh,
    /// Both have had the same, so that servers that have never had something stay so.
    Exact,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The client needs a server. A client waits in one place: a later wish elsewhere replaces an earlier one, the same
    /// wish again keeps its place.
    Wants {
        /// Where.
        pool: PoolKey,
        /// Who.
        client: ClientKey,
        /// What it has set in its session.
        fingerprint: Fingerprint,
    },
    /// The client needs another server, for the one that it got was lost before it was asked anything: it takes the place in
    /// the queue that it had.
    WantsAgain {
        /// Where.
        pool: PoolKey,
        /// Who.
        client: ClientKey,
        /// Since when it has waited in all.
        since: Time,
        /// What it has set in its session.
        fingerprint: Fingerprint,
    },
    /// The client waits for the parameters of a first login, which it is greeted with.
    Greets {
        /// Where.
        pool: PoolKey,
        /// Who.
        client: ClientKey,
    },
    /// The client needs a server that is nobody else's, as replication does: it is dialed for this client and closed with
    /// it, never lent. While it is being dialed the client waits nowhere: if it leaves, its server is [`Event::Lost`].
    WantsDedicated {
        /// Where.
        pool: PoolKey,
        /// Who.
        client: ClientKey,
        /// Since when it has waited in all.
        since: Time,
    },
    /// A client in the queue is gone, or no longer wants a server.
    Left {
        /// Where.
        pool: PoolKey,
        /// Who.
        client: ClientKey,
    },
    /// The login at the server is complete.
    Ready {
        /// Which was dialed.
        server: ServerKey,
    },
    /// The login did not come about. The socket is already gone, the slot is free at once.
    DialFailed {
        /// Which was dialed.
        server: ServerKey,
        /// Why.
        failure: Failure,
    },
    /// What is lent here is lent for all clients: until it comes back it does not count against the size of its pool, but it does
    /// against the limits of its database and its user.
    TakeOutsideSize {
        /// Which is lent. One in a pool at most.
        server: ServerKey,
    },
    /// The loan is over.
    Returned {
        /// Which was lent.
        server: ServerKey,
        /// In which condition.
        as_: Return,
        /// What is set in its session.
        fingerprint: Fingerprint,
    },
    /// What was ordered by [`crate::Command::Reset`] or [`crate::Command::Check`], or begun with [`Return::Mending`], has
    /// succeeded.
    Cleaned {
        /// Which was being cleaned.
        server: ServerKey,
    },
    /// The connection has ended, in whatever state; the slot is free at once.
    Lost {
        /// Which.
        server: ServerKey,
    },
    /// A [`crate::Command::Close`] has been carried out; the slot is free at once.
    Closed {
        /// Which was being closed.
        server: ServerKey,
    },
    /// Servers opened until now are obsolete (RECONNECT, changed connection settings): idle ones and those being dialed
    /// close now, the others when they come back. What is known of logins, good or bad, is forgotten.
    Retire {
        /// Where.
        pool: PoolKey,
    },
    /// One server is obsolete, since its host is no longer where it is: the same happens to it alone.
    RetireServer {
        /// Which.
        server: ServerKey,
    },
    /// Somebody needs the database of this pool alone: no server is opened for the minimum for a while.
    Vacate {
        /// Which.
        pool: PoolKey,
    },
    /// Somebody needs the database of this server alone: it closes now, if nobody has it or waits for its login.
    VacateServer {
        /// Which.
        server: ServerKey,
    },
    /// An operator wants the servers of this pool left alone: idle ones and those being dialed close now, the others when they
    /// come back; nobody is refused for it, and nobody gets a server before [`Event::Resume`].
    Pause {
        /// Which.
        pool: PoolKey,
    },
    /// Who has waited during a pause is served.
    Resume {
        /// Which.
        pool: PoolKey,
    },
    /// The ledger granted one server of this user, as asked by [`crate::Command::Ask`].
    Granted {
        /// Whose.
        user: u32,
        /// What it was asked for; it may be used for something else.
        need: Need,
    },
    /// The ledger has nothing left for an ask of [`crate::Need::Minimum`].
    Denied {
        /// Whose.
        user: u32,
    },
    /// Whether somebody, here or on another worker, waits in line at the ledger for a server of this user. One idle
    /// server is given up for each time this is said with `true`, at once or as soon as there is one.
    Wanted {
        /// Whose.
        user: u32,
        /// Whether somebody waits.
        is_wanted: bool,
    },
    /// [`crate::Pools::next_deadline`] has come.
    Tick,
}

/// In which condition a server comes back from a loan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Return {
    /// It owes nothing and stands outside a transaction.
    Clean,
    /// It was abandoned. The worker has begun to cancel, roll back and reset it, and will say [`Event::Cleaned`] or
    /// [`Event::Lost`].
    Mending,
}
