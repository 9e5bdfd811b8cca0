//! What is left to be done for all clients who listen in a database, a part in each turn.
//!
//! Always true: a turn does no more of it than [`COST_MAX`], or one client's part where that alone costs more; while any is left the next turn
//! comes at once, with whatever has happened meanwhile. What has not been done yet changes nothing for a client that is looked at before
//! ([`Ready::subscriptions`](crate::data::client::Ready::ear)).
//! Not here: doing it (`work_off`), why it is to be done (`channels`, `news`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use base::{Key, Time};
use pool::ServerKey;

use crate::notify::listening::Channel;

/// What is left to be done. There is one task at most for the loss of a session for all, and one for each answer about a channel.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(super) tasks: VecDeque<Task>,
    /// Notifications that have not been passed on to all, one for each session for all at most. They come before the tasks: what is to be done
    /// about a session has been known later than what it had told.
    pub(super) telling: VecDeque<Telling>,
    /// What has been done in this turn has cost so much.
    cost: u32,
}

/// Something that concerns many clients of a database, by its number.
#[derive(Debug)]
pub(crate) enum Task {
    /// Each client that relied on the session for all is told that it has been lost: those at so many places, from this one on.
    CutOff { database: u32, next: u32, left: u32 },
    /// Each client of a channel is told that the session for all listens to it ([`Channel::telling`](crate::notify::listening::Channel::telling)).
    Heard { database: u32, channel: Box<str> },
    /// Each client of these channels is told that it cannot, where that answers the question that was asked about the channel last.
    Refused { database: u32, channels: std::vec::IntoIter<(Box<str>, u64)> },
    /// Each of these is told that it cannot listen to a channel.
    Unheard { database: u32, channel: Box<str>, clients: BTreeSet<Key> },
    /// The same of all these channels, of which nothing is known any more.
    NoneHeard { database: u32, channels: BTreeMap<Box<str>, Channel> },
    /// What the session for all has told on this server is passed on.
    GoOn { server: ServerKey },
}

/// A notification that some clients of its channel are still to be told, from one on.
#[derive(Debug)]
pub(crate) struct Telling {
    /// On which server the session for all was told it.
    pub(crate) server: ServerKey,
    pub(crate) database: u32,
    pub(crate) body: Box<[u8]>,
    pub(crate) from: Bound<Key>,
}

impl Backlog {
    pub(crate) fn begin_turn(&mut self) {
        self.cost = 0;
    }

    /// Whatever is left is gone on with at once.
    pub(crate) fn next_deadline(&self, now: Time) -> Option<Time> {
        self.has_left().then_some(now)
    }

    pub(super) fn has_left(&self) -> bool {
        !self.tasks.is_empty() || !self.telling.is_empty()
    }

    /// The rest of a notification is told in the turns that come.
    pub(crate) fn tell_later(&mut self, telling: Telling) {
        self.telling.push_back(telling);
    }

    /// On which servers something has been told that has not been passed on to all.
    pub(crate) fn who_tells(&self) -> impl Iterator<Item = ServerKey> {
        self.telling.iter().map(|telling| telling.server)
    }

    /// How many clients this turn still tells something.
    pub(crate) fn clients_left(&self) -> usize {
        COST_MAX.saturating_sub(self.cost) as usize / CLIENT_COST
    }

    pub(crate) fn add(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    /// The session for all of a database has been lost, where clients have so many places. Who has not been told yet of an earlier loss is told of
    /// both at once.
    pub(crate) fn cut_off(&mut self, database: u32, places: u32) {
        let is_its = |task: &&mut Task| matches!(task, Task::CutOff { database: of, .. } if *of == database);
        match self.tasks.iter_mut().find(is_its) {
            Some(Task::CutOff { left, .. }) => *left = places,
            _ => self.add(Task::CutOff { database, next: 0, left: places }),
        }
    }

    /// What is done next, if this turn does any more.
    pub(super) fn next_task(&mut self) -> Option<Task> {
        if self.is_spent() { None } else { self.tasks.pop_front() }
    }

    /// What is told next, if this turn tells any more.
    pub(super) fn next_telling(&mut self) -> Option<Telling> {
        if self.clients_left() > 0 { self.telling.pop_front() } else { None }
    }

    /// Whether this turn does no more of it. What has been told of before is told to all first.
    pub(crate) fn is_spent(&self) -> bool {
        self.cost >= COST_MAX || !self.telling.is_empty()
    }

    /// So many clients are told something.
    pub(crate) fn tells(&mut self, clients: usize) {
        self.costs(clients * CLIENT_COST);
    }

    pub(super) fn costs(&mut self, what: usize) {
        self.cost = self.cost.saturating_add(u32::try_from(what).unwrap_or(u32::MAX));
    }
}

/// What a turn does of it: 2 ms or less on a machine of today.
const COST_MAX: u32 = 200_000;
/// What a client costs, in the time that it takes to see that a place for one is free, which is some ten nanoseconds,
pub(crate) const CLIENT_COST: usize = 50;
/// and each of its channels, where they are given up or taken over.
pub(crate) const CHANNEL_COST: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_by_one_task_for_each_database_however_often_it_comes() {
        let mut backlog = Backlog::default();
        backlog.cut_off(1, 10);
        backlog.cut_off(2, 10);
        let Some(Task::CutOff { database: 1, next: 0, left: 10 }) = backlog.next_task() else { panic!("{backlog:?}") };
        // It is gone on with behind those who have been told.
        backlog.tasks.push_front(Task::CutOff { database: 1, next: 7, left: 3 });
        backlog.cut_off(1, 12);
        assert_eq!(backlog.tasks.len(), 2);
        assert!(matches!(backlog.next_task(), Some(Task::CutOff { database: 1, next: 7, left: 12 })), "{backlog:?}");
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
