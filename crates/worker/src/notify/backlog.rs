//! Work that concerns all clients that listen in a database, spread over many turns.
//!
//! Always true: a turn does at most [`COST_MAX`] of it, or one client's part where that alone costs more; while any is
//! left, the next turn follows at once and handles other events as well. Work not done yet changes nothing for a client
//! that is handled earlier ([`ClientSession::subscriptions`](protocol::loan::ClientSession::subscriptions)).
//! Not here: doing it (`work_off`), what causes it (`channels`, `news`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use base::{Key, Time};
use pool::ServerKey;

use crate::notify::listening::Channel;

/// The work left. There is at most one task for the loss of a listener, and one for each answer about a channel.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(super) tasks: VecDeque<Broadcast>,
    /// Notifications that not all clients have got yet, at most one for each listener. They come before the tasks,
    /// because an event that made a task was noticed after the listener had sent the notification.
    pub(super) telling: VecDeque<Telling>,
    /// Cost of what this turn has done.
    cost: u32,
}

/// Work that concerns many clients of a database, which is given by its number.
#[derive(Debug)]
pub(crate) enum Broadcast {
    /// Tells each client that relied on the listener of its loss: those in the next `left` rows of the table of
    /// clients, from `next` on.
    CutOff { database: u32, next: u32, left: u32 },
    /// Tells each client of a channel that the listener listens to it
    /// ([`Channel::telling`](crate::notify::listening::Channel::telling)).
    Heard { database: u32, channel: Box<str> },
    /// Tells each client of these channels that the listener cannot listen to them, if this answers the latest request
    /// for the channel.
    Refused { database: u32, channels: std::vec::IntoIter<(Box<str>, u64)> },
    /// Tells each of these clients that the listener cannot listen to a channel.
    Unheard { database: u32, channel: Box<str>, clients: BTreeSet<Key> },
    /// Tells each client of these channels, which have been removed, that the listener cannot listen to its channel.
    NoneHeard { database: u32, channels: BTreeMap<Box<str>, Channel> },
    /// Handles the messages of the listener that were kept from this server.
    HandleKept { server: ServerKey },
}

/// A notification that the clients of its channel from `from` on are still to get.
#[derive(Debug)]
pub(crate) struct Telling {
    /// The server of the listener that sent it.
    pub(super) server: ServerKey,
    pub(super) database: u32,
    pub(super) body: Box<[u8]>,
    pub(super) from: Bound<Key>,
}

impl Backlog {
    pub(crate) fn begin_turn(&mut self) {
        self.cost = 0;
    }

    /// The next turn follows at once if work is left.
    pub(crate) fn next_deadline(&self, now: Time) -> Option<Time> {
        self.has_left().then_some(now)
    }

    pub(super) fn has_left(&self) -> bool {
        !self.tasks.is_empty() || !self.telling.is_empty()
    }

    /// The rest of a notification is passed on in later turns.
    pub(crate) fn tell_later(&mut self, telling: Telling) {
        self.telling.push_back(telling);
    }

    /// The servers with a notification that not all clients have got.
    pub(crate) fn who_tells(&self) -> impl Iterator<Item = ServerKey> {
        self.telling.iter().map(|telling| telling.server)
    }

    /// How many more clients may get a notification in this turn.
    pub(crate) fn clients_left(&self) -> usize {
        COST_MAX.saturating_sub(self.cost) as usize / CLIENT_COST
    }

    pub(crate) fn add(&mut self, task: Broadcast) {
        self.tasks.push_back(task);
    }

    /// The listener of a database has been lost; the table of clients has `places` rows. A client that was not told of
    /// an earlier loss yet is told of both at once.
    pub(crate) fn cut_off(&mut self, database: u32, places: u32) {
        let is_its = |task: &&mut Broadcast| matches!(task, Broadcast::CutOff { database: of, .. } if *of == database);
        match self.tasks.iter_mut().find(is_its) {
            Some(Broadcast::CutOff { left, .. }) => *left = places,
            _ => self.add(Broadcast::CutOff { database, next: 0, left: places }),
        }
    }

    /// The next task, if this turn does any more.
    pub(super) fn next_task(&mut self) -> Option<Broadcast> {
        if self.is_spent() { None } else { self.tasks.pop_front() }
    }

    /// The next notification, if this turn passes any on.
    pub(super) fn next_telling(&mut self) -> Option<Telling> {
        if self.clients_left() > 0 { self.telling.pop_front() } else { None }
    }

    /// Whether this turn does no more tasks. Pending notifications are passed on to all clients first.
    pub(crate) fn is_spent(&self) -> bool {
        self.cost >= COST_MAX || !self.telling.is_empty()
    }

    /// This many clients get a notification.
    pub(crate) fn tells(&mut self, clients: usize) {
        self.costs(clients * CLIENT_COST);
    }

    pub(super) fn costs(&mut self, what: usize) {
        self.cost = self.cost.saturating_add(u32::try_from(what).unwrap_or(u32::MAX));
    }
}

/// Work of one turn: 2 ms or less on a current machine.
const COST_MAX: u32 = 200_000;
/// The cost of a client, in units of the time to find a row of the table free, some ten nanoseconds,
pub(crate) const CLIENT_COST: usize = 50;
/// and of each of its channels, where they are given up or moved.
pub(crate) const CHANNEL_COST: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_by_one_task_for_each_database_however_often_it_comes() {
        let mut backlog = Backlog::default();
        backlog.cut_off(1, 10);
        backlog.cut_off(2, 10);
        let Some(Broadcast::CutOff { database: 1, next: 0, left: 10 }) = backlog.next_task() else {
            panic!("{backlog:?}")
        };
        // The task continues behind the clients that were told already.
        backlog.tasks.push_front(Broadcast::CutOff { database: 1, next: 7, left: 3 });
        backlog.cut_off(1, 12);
        assert_eq!(backlog.tasks.len(), 2);
        assert!(
            matches!(backlog.next_task(), Some(Broadcast::CutOff { database: 1, next: 7, left: 12 })),
            "{backlog:?}"
        );
    }

    #[test]
    fn what_many_are_told_is_told_in_turns_and_before_anything_else() {
        let (mut backlog, now) = (Backlog::default(), Time::from_secs(1));
        let all = COST_MAX as usize / CLIENT_COST;
        assert_eq!(backlog.clients_left(), all);
        backlog.tells(all - 1);
        assert_eq!(backlog.clients_left(), 1);
        backlog.tells(1);
        assert!(backlog.clients_left() == 0 && backlog.is_spent());
        let server = base::Slab::with_capacity(1).insert(()).expect("room");
        backlog.tell_later(Telling { server, database: 1, body: b"news"[..].into(), from: Bound::Unbounded });
        assert!(backlog.next_telling().is_none() && backlog.is_spent() && backlog.next_deadline(now) == Some(now));
        backlog.begin_turn();
        backlog.cut_off(1, 10);
        assert!(backlog.next_task().is_none(), "not before that is told");
        assert!(backlog.next_telling().is_some() && backlog.next_task().is_some());
    }

    #[test]
    fn a_turn_does_so_much_and_the_next_comes_at_once() {
        let (mut backlog, now) = (Backlog::default(), Time::from_secs(1));
        assert_eq!(backlog.next_deadline(now), None);
        backlog.cut_off(1, 10);
        assert_eq!(backlog.next_deadline(now), Some(now));
        backlog.costs(COST_MAX as usize - 1);
        assert!(!backlog.is_spent());
        backlog.costs(usize::MAX);
        assert!(backlog.is_spent() && backlog.next_task().is_none());
        backlog.begin_turn();
        assert!(backlog.next_task().is_some() && backlog.next_deadline(now).is_none());
    }
}
