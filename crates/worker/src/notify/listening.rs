//! Who listens to what, who waits for the session that listens for all, and for whom that waits.
//!
//! Always true: what is known of a channel is known for the session for all of now: one that is lost takes it along ([`Listening::losses`]).
//! Not here: what one client has heard (`protocol::state::Subscriptions`), what is done (`channels`, `news`, `own_news`).

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
    pub(crate) channels: BTreeMap<Box<str>, Channel>,
    /// The client that listens for all, if it is there.
    pub(crate) session: Option<Key>,
    /// How often it has been lost with what it listened to. What a client listens to is looked at in this light whenever it is looked at
    /// ([`ClientSession::subscriptions`]), and each client's in its turn ([`Task::CutOff`](crate::notify::backlog::Task::CutOff)).
    pub(crate) losses: u64,
    /// How many questions have been asked.
    pub(super) asked: u64,
    /// Whose the marks are that the session for all has not come to yet.
    pub(super) marks: Marks<Key>,
    /// Who waits for the session for all.
    pub(crate) rounds: Rounds<Waiter>,
    /// How many waits of that kind there have been.
    pub(crate) waits: u64,
    /// For which clients the session for all waits.
    pub(crate) patience: Patience<Key>,
}

impl Listening {
    /// Whether the session for all listens to a channel.
    pub(crate) fn is_heard(&self, channel: &str) -> bool {
        self.channels.get(channel).is_some_and(|entry| entry.is_heard(self.losses))
    }
}

/// Who listens to one.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) clients: BTreeSet<Key>,
    /// The number of the question whether somebody listens to it for all; 0 where it has not been asked.
    pub(crate) number: u64,
    /// How often the session for all had been lost ([`Listening::losses`]) when it came to listen to it last.
    pub(super) heard: Option<u64>,
    /// Whose turn it is to be told that it does, if all have not been told ([`Task::Heard`](crate::notify::backlog::Task::Heard)).
    pub(crate) telling: Option<Bound<Key>>,
}

impl Channel {
    /// Whether the session for all listens to it, which has been lost so often.
    pub(crate) fn is_heard(&self, losses: u64) -> bool {
        self.heard == Some(losses)
    }
}

/// Who waits for the session for all, and the number of the wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    /// A server whose `ReadyForQuery` is withheld.
    Server(ServerKey, u64),
    /// A client that is about to listen through that session.
    Client(ClientKey, u64),
}

/// A `ReadyForQuery` outside of transactions, and what its server has said behind that.
#[derive(Debug)]
pub(crate) struct Withheld {
    /// The number of this wait: whoever is released by an answer that was for another one has waited in vain.
    pub(super) number: u64,
    pub(crate) until: Time,
    pub(super) behind: VecDeque<Chunk>,
    /// The server is not received from: what it says is its client's only after that.
    pub(crate) is_paused: bool,
}

/// A client that waits for the session for all.
#[derive(Debug)]
pub(crate) struct Joining {
    /// Of this wait.
    pub(super) number: u64,
    pub(crate) until: Time,
    pub(super) channels: Vec<Box<str>>,
    /// How many tags answer it, and which.
    pub(super) tags: (usize, &'static str),
}

/// When somebody may have been waited for long enough, in the order of time, and in which database.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    pub(super) rows: VecDeque<(Time, u32)>,
}

impl Alarms {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(at, _)| *at)
    }
}

/// The session for all answers at once, unless something is wrong with it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
