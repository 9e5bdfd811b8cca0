//! Work that concerns all clients who listen in a database, done a part in each turn.
//!
//! Always true: a turn does no more of it than [`COST_MAX`], or one client's part where that alone costs more; while any is left the next turn
//! comes at once, with whatever has happened meanwhile. What has not been done yet changes nothing for a client that is looked at before
//! ([`Ready::subscriptions`](crate::data::client::Ready::ear)).
//! Not here: what is to be done, and why (`listen`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use base::{Key, Time};
use config::NotifyLost;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use reactor::{Chunk, Io};

use crate::data::client::{Client, Link, Stage};
use crate::notify::listen::Channel;
use crate::turn::Worker;

/// What is left to be done. There is one task at most for the loss of a session for all, and one for each answer about a channel.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    tasks: VecDeque<Task>,
    /// Notifications that have not been passed on to all, one for each session for all at most. They come before the tasks: what is to be done
    /// about a session has been known later than what it had told.
    telling: VecDeque<Telling>,
    /// What has been done in this turn has cost so much.
    cost: u32,
}

/// Something that concerns many clients of a database, by its number.
#[derive(Debug)]
pub(crate) enum Task {
    /// Each client that relied on the session for all is told that it has been lost: those at so many places, from this one on.
    CutOff { database: u32, next: u32, left: u32 },
    /// Each client of a channel is told that the session for all listens to it ([`Channel::telling`](crate::notify::listen::Channel::telling)).
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

    fn has_left(&self) -> bool {
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
    fn next_task(&mut self) -> Option<Task> {
        if self.is_spent() { None } else { self.tasks.pop_front() }
    }

    /// What is told next, if this turn tells any more.
    fn next_telling(&mut self) -> Option<Telling> {
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

    fn costs(&mut self, what: usize) {
        self.cost = self.cost.saturating_add(u32::try_from(what).unwrap_or(u32::MAX));
    }
}

impl<I: Io> Worker<I> {
    /// Does what this turn does of what is left: at its end, so that nothing of it happens in the middle of something else.
    pub(crate) fn work_off(&mut self) {
        while let Some(telling) = self.backlog.next_telling() {
            let most = self.backlog.clients_left();
            self.go_on_telling_all(telling, most);
            self.settle();
        }
        while let Some(task) = self.backlog.next_task() {
            let rest = match task {
                Task::CutOff { database, next, left } => self.cut_off_some(database, next, left),
                Task::Heard { database, channel } => self.tell_some_who_are_heard(database, channel),
                Task::Refused { database, channels } => self.refuse_some(database, channels),
                Task::Unheard { database, channel, clients } => self.tell_some_who_are_not(database, channel, clients),
                Task::NoneHeard { database, channels } => self.tell_some_that_none_is(database, channels),
                Task::GoOn { server } => self.go_on_with(server),
            };
            if let Some(rest) = rest {
                self.backlog.tasks.push_front(rest);
            }
        }
    }

    /// Tells a notification to so many of those who have not been told it.
    fn go_on_telling_all(&mut self, telling: Telling, most: usize) {
        let Telling { server, database, body, from } = telling;
        if let Some(from) = self.tell_all(database, &body, from, most) {
            self.backlog.telling.push_front(Telling { server, database, body, from });
        }
    }

    fn cut_off_some(&mut self, database: u32, mut next: u32, mut left: u32) -> Option<Task> {
        while left > 0 {
            if self.backlog.is_spent() {
                return Some(Task::CutOff { database, next, left });
            }
            let key = self.clients.key_at(next);
            next = if next + 1 < self.clients.places() { next + 1 } else { 0 };
            left -= 1;
            self.backlog.costs(1);
            if let Some(key) = key
                && let Some(channels) = self.channels_in(key, database)
            {
                self.backlog.costs(CLIENT_COST + channels * CHANNEL_COST);
                self.tell_news(key);
                self.settle();
            }
        }
        None
    }

    /// To how many channels a client listens, if it does so in this database.
    fn channels_in(&self, client: ClientKey, database: u32) -> Option<usize> {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(client) else { return None };
        let subscriptions = ready.session.subscriptions.as_ref()?;
        let is_there = self.places.pool(ready.pool).is_some_and(|place| place.database == database);
        is_there.then(|| subscriptions.channel_count())
    }

    fn tell_some_who_are_heard(&mut self, database: u32, channel: Box<str>) -> Option<Task> {
        loop {
            if self.backlog.is_spent() {
                return Some(Task::Heard { database, channel });
            }
            let listening = &mut self.places.databases[database as usize].listening;
            let losses = listening.losses;
            let entry = listening.channels.get_mut(&channel)?;
            let from = entry.telling.take().filter(|_| entry.is_heard(losses))?;
            let Some(client) = entry.clients.range((from, Bound::Unbounded)).next().copied() else {
                self.give_up_channel(database, &channel);
                return None;
            };
            entry.telling = Some(Bound::Excluded(client));
            self.backlog.costs(CLIENT_COST);
            let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(client) else { continue };
            let Some(subscriptions) = ready.session.subscriptions_if_any(losses) else { continue };
            subscriptions.is_heard(&channel);
            // Its channels are taken over all at once.
            if !subscriptions.has_own() {
                self.end_loan_of_listener(client);
            }
            self.tell_news(client);
            self.settle();
        }
    }

    fn refuse_some(&mut self, database: u32, mut channels: std::vec::IntoIter<(Box<str>, u64)>) -> Option<Task> {
        loop {
            if self.backlog.is_spent() {
                return Some(Task::Refused { database, channels });
            }
            let (channel, number) = channels.next()?;
            self.backlog.costs(CHANNEL_COST);
            let known = &mut self.places.databases[database as usize].listening.channels;
            if known.get(&channel).is_none_or(|entry| entry.number != number) {
                continue;
            }
            let clients = known.remove(&channel).map(|entry| entry.clients).unwrap_or_default();
            let rest = self.tell_some_who_are_not(database, channel, clients);
            if rest.is_some() {
                self.backlog.tasks.push_front(Task::Refused { database, channels });
                return rest;
            }
        }
    }

    fn tell_some_who_are_not(&mut self, database: u32, channel: Box<str>, mut clients: BTreeSet<Key>) -> Option<Task> {
        while !clients.is_empty() {
            if self.backlog.is_spent() {
                return Some(Task::Unheard { database, channel, clients });
            }
            let Some(client) = clients.pop_first() else { break };
            self.backlog.costs(CLIENT_COST);
            let listening = &self.places.databases[database as usize].listening;
            let losses = listening.losses;
            // It may have left the channel meanwhile, and come again.
            if listening.channels.get(&channel).is_some_and(|entry| entry.clients.contains(&client)) {
                continue;
            }
            let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(client) else { continue };
            let Some(subscriptions) = ready.session.subscriptions_if_any(losses) else { continue };
            if subscriptions.is_unheard(&channel) {
                self.backlog.costs(subscriptions.channel_count() * CHANNEL_COST);
                self.lose_channel(client, database, &channel);
                self.settle();
                continue;
            }
            self.end_loan_of_listener(client);
            self.tell_news(client);
            self.settle();
        }
        None
    }

    /// Nobody listens to a channel that a client has left to the session for all. Unless it is to be disconnected (`notify_lost`) the session is
    /// asked again, and the client is told of the loss when that listens.
    fn lose_channel(&mut self, client: ClientKey, database: u32, channel: &str) {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(client) else { return };
        if self.force.settings.notify_lost == NotifyLost::Disconnect || !self.may_listen_beside(ready.pool) {
            // Without that session it hears nothing, whatever it is told.
            self.fail_client(client, &Fault::NotificationsLost);
        } else {
            self.subscribe(client, database, channel.into());
            self.tell_of_loss(client, true);
        }
    }

    fn tell_some_that_none_is(&mut self, database: u32, mut channels: BTreeMap<Box<str>, Channel>) -> Option<Task> {
        while !channels.is_empty() {
            if self.backlog.is_spent() {
                return Some(Task::NoneHeard { database, channels });
            }
            let Some((channel, entry)) = channels.pop_first() else { break };
            self.backlog.costs(CHANNEL_COST);
            let rest = self.tell_some_who_are_not(database, channel, entry.clients);
            if rest.is_some() {
                self.backlog.tasks.push_front(Task::NoneHeard { database, channels });
                return rest;
            }
        }
        None
    }

    /// Whether a server has to wait with what has come: it tells many, and something is to be done before.
    pub(crate) fn lines_up(&self, key: ServerKey) -> bool {
        self.backlog.has_left() && self.tells_all(key)
    }

    /// Whether the next message of a server is looked at in another turn, if this one has done so much.
    pub(crate) fn is_for_later(&self, key: ServerKey) -> bool {
        self.tells_all(key) && self.servers.get(key).is_some_and(|server| server.session.scanner.is_between())
    }

    /// Whether a server is that of a session for all. At rest there are no turns for what is left.
    pub(crate) fn tells_all(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key).filter(|server| !server.is_released) else { return false };
        let client = server.client().and_then(|client| self.clients.get(client));
        self.rest.is_none() && client.is_some_and(|client| client.is_listener)
    }

    /// More has come from a server, behind what is kept. It is as if that had not been received yet: nothing overtakes it.
    pub(crate) fn keep_for_later(&mut self, key: ServerKey, chunk: Chunk) {
        let chunk = self.unpinned(chunk);
        if let Some(later) = self.later_of(key) {
            later.push_back(chunk);
        }
    }

    /// The rest of what has come from a server is kept, before what is kept already.
    pub(crate) fn keep_rest_for_later(&mut self, key: ServerKey, rest: Chunk) {
        let rest = self.unpinned(rest);
        if let Some(later) = self.later_of(key) {
            later.push_front(rest);
        }
    }

    fn later_of(&mut self, key: ServerKey) -> Option<&mut VecDeque<Chunk>> {
        let server = self.servers.get_mut(key)?;
        if server.later.is_none() {
            self.io.pause(server.conn);
            self.backlog.add(Task::GoOn { server: key });
        }
        Some(server.later.get_or_insert_default())
    }

    fn go_on_with(&mut self, key: ServerKey) -> Option<Task> {
        let mut behind = std::mem::take(self.servers.get_mut(key)?.later.as_mut()?);
        while let Some(chunk) = behind.pop_front() {
            self.converse(key, chunk, 0);
            self.settle();
            // It may have been ended meanwhile, with all that had to come before.
            let Some(later) = self.servers.get_mut(key)?.later.as_mut() else { continue };
            if !later.is_empty() {
                later.append(&mut behind);
                return Some(Task::GoOn { server: key });
            }
        }
        self.servers.get_mut(key)?.later = None;
        self.receive_next(key);
        None
    }

    /// All that is kept of a server is passed on: it has ended, its client goes, or everybody comes to rest.
    pub(crate) fn end_later(&mut self, key: ServerKey) {
        while let Some(at) = self.backlog.telling.iter().position(|telling| telling.server == key) {
            let Some(telling) = self.backlog.telling.remove(at) else { break };
            self.go_on_telling_all(telling, usize::MAX);
        }
        let Some(later) = self.servers.get_mut(key).and_then(|server| server.later.take()) else { return };
        for chunk in later {
            let Some(server) = self.servers.get_mut(key) else { return };
            let was_released = std::mem::replace(&mut server.is_released, true);
            self.converse(key, chunk, 0);
            if let Some(server) = self.servers.get_mut(key) {
                server.is_released = was_released;
            }
        }
        self.receive_next(key);
    }

    /// A client may leave to the session for all what its own server listens to, if that has nothing else to do.
    fn end_loan_of_listener(&mut self, client: ClientKey) {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(client) else { return };
        if let Link::Loan(server) = ready.link
            && self
                .servers
                .get(server)
                .is_some_and(|server| server.session.exchange.may_end() && server.session.life.probe().is_none())
        {
            self.backlog.costs(
                ready.session.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.channel_count())
                    * CHANNEL_COST,
            );
            self.end_loan_if_over(server, client);
            self.settle();
        }
    }
}

/// What a turn does of it: 2 ms or less on a machine of today.
const COST_MAX: u32 = 200_000;
/// What a client costs, in the time that it takes to see that a place for one is free, which is some ten nanoseconds,
const CLIENT_COST: usize = 50;
/// and each of its channels, where they are given up or taken over.
const CHANNEL_COST: usize = 50;

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
