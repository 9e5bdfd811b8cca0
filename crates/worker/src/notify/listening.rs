//! Tables of LISTEN: which client listens to what, which clients wait for their database's listener, and for which
//! clients the listener waits.
//!
//! Always true: what is known of a channel holds for the present listener only: when a listener is lost it no longer
//! counts ([`Listening::losses`]).
//! Not here: the notifications of one client (`protocol::state::Subscriptions`), what is done with these tables
//! (`channels`, `news`, `own_news`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use base::{Key, Time};
use pool::{ClientKey, ServerKey};
use protocol::state::{Marks, Patience, Rounds};
use reactor::Chunk;

/// The channels of one database.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(super) channels: BTreeMap<Box<str>, Channel>,
    /// The client that is the listener, if it has logged in.
    pub(super) session: Option<Key>,
    /// How often the listener has been lost with its channels. Each access to a client's subscriptions takes this
    /// number into account first ([`ClientSession::subscriptions`]), and each client is told of a loss in its turn
    /// ([`Broadcast::CutOff`](crate::notify::backlog::Broadcast::CutOff)).
    pub(super) losses: u64,
    /// Number of the last `Listen` request to the control thread.
    pub(super) last_request: u64,
    /// The owners of the marks that the listener has not received yet.
    pub(super) marks: Marks<Key>,
    /// The servers and clients that wait for an answer of the listener.
    pub(super) rounds: Rounds<Waiter>,
    /// Number of the last such wait.
    pub(super) waits: u64,
    /// The clients for which the listener waits.
    pub(super) patience: Patience<Key>,
}

impl Listening {
    /// The client that is the listener, if it has logged in.
    pub(crate) fn session(&self) -> Option<Key> {
        self.session
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// How often the listener has been lost with its channels.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// The channels that clients listen to.
    pub(crate) fn channels(&self) -> &BTreeMap<Box<str>, Channel> {
        &self.channels
    }

    /// Whether the listener listens to a channel.
    pub(crate) fn is_heard(&self, channel: &str) -> bool {
        self.channels.get(channel).is_some_and(|entry| entry.is_heard(self.losses))
    }
}

/// The clients that listen to one channel.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(super) clients: BTreeSet<Key>,
    /// Number of the request that the listener listen to it; 0 before there was one.
    pub(super) number: u64,
    /// [`Listening::losses`] when the listener last began to listen to it.
    pub(super) heard: Option<u64>,
    /// Where to continue telling its clients that the listener listens to it; `None` when all are told
    /// ([`Broadcast::Heard`](crate::notify::backlog::Broadcast::Heard)).
    pub(super) telling: Option<Bound<Key>>,
}

impl Channel {
    /// How many clients listen to it.
    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Whether the listener, which was lost `losses` times, listens to it.
    pub(crate) fn is_heard(&self, losses: u64) -> bool {
        self.heard == Some(losses)
    }
}

/// What waits for the listener, and the number of the wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    /// A server whose `ReadyForQuery` is withheld.
    Server(ServerKey, u64),
    /// A client that is about to listen through the listener.
    Client(ClientKey, u64),
}

/// A `ReadyForQuery` outside of transactions that is withheld from the client, and the server's messages behind it.
#[derive(Debug)]
pub(crate) struct Withheld {
    /// The number of this wait: an answer for another wait does not end it.
    pub(super) number: u64,
    pub(super) until: Time,
    pub(super) following: VecDeque<Chunk>,
    /// The server is paused: its further messages may reach the client only after the withheld ones.
    pub(super) is_paused: bool,
}

impl Withheld {
    /// Until when it is withheld at most.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Whether nothing is received from the server meanwhile.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }
}

/// A client that waits for the listener so that it can listen through it.
#[derive(Debug)]
pub(crate) struct ListenWait {
    /// The number of this wait.
    pub(super) number: u64,
    pub(super) until: Time,
    pub(super) channels: Vec<Box<str>>,
    /// How many `CommandComplete` answer the client's text, and their tag.
    pub(super) tags: (usize, &'static str),
}

impl ListenWait {
    /// Until when it waits at most.
    pub(crate) fn until(&self) -> Time {
        self.until
    }
}

/// When the waiting for slow clients may end, in the order of time, and in which database.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    pub(super) rows: VecDeque<(Time, u32)>,
}

impl Alarms {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(at, _)| *at)
    }
}

/// The listener answers at once, unless something is wrong with it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
