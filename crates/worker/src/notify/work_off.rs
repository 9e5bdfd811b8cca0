//! Does a part of the work that concerns all clients that listen in a database, in each turn.
//!
//! Always true: it is done at the end of a turn, so that it never interrupts the handling of an event.
//! Not here: which work is left, and how much a turn does of it (`backlog`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use base::Key;
use config::NotifyLost;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use reactor::Io;

use crate::data::client::Link;
use crate::notify::backlog::{Broadcast, CHANNEL_COST, CLIENT_COST};
use crate::notify::listening::Channel;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Does what this turn does of what is left: at its end, so that nothing of it happens in the middle of something else.
    pub(crate) fn work_off(&mut self) {
        while let Some(telling) = self.notify.backlog.next_telling() {
            let most = self.notify.backlog.clients_left();
            self.go_on_telling_all(telling, most);
            self.settle();
        }
        while let Some(task) = self.notify.backlog.next_task() {
            let rest = match task {
                Broadcast::CutOff { database, next, left } => self.cut_off_some(database, next, left),
                Broadcast::Heard { database, channel } => self.tell_some_who_are_heard(database, channel),
                Broadcast::Refused { database, channels } => self.refuse_some(database, channels),
                Broadcast::Unheard { database, channel, clients } => {
                    self.tell_some_who_are_not(database, channel, clients)
                }
                Broadcast::NoneHeard { database, channels } => self.tell_some_that_none_is(database, channels),
                Broadcast::HandleKept { server } => self.go_on_with(server),
            };
            if let Some(rest) = rest {
                self.notify.backlog.tasks.push_front(rest);
            }
        }
    }

    fn cut_off_some(&mut self, database: u32, mut next: u32, mut left: u32) -> Option<Broadcast> {
        while left > 0 {
            if self.notify.backlog.is_spent() {
                return Some(Broadcast::CutOff { database, next, left });
            }
            let key = self.clients.key_at(next);
            next = if next + 1 < self.clients.places() { next + 1 } else { 0 };
            left -= 1;
            self.notify.backlog.costs(1);
            if let Some(key) = key
                && let Some(channels) = self.channels_in(key, database)
            {
                self.notify.backlog.costs(CLIENT_COST + channels * CHANNEL_COST);
                self.tell_news(key);
                self.settle();
            }
        }
        None
    }

    /// To how many channels a client listens, if it does so in this database.
    fn channels_in(&self, client: ClientKey, database: u32) -> Option<usize> {
        let ready = self.clients.ready(client)?;
        let subscriptions = ready.session().subscriptions.as_ref()?;
        let is_there = self.registry.pool(ready.home()).is_some_and(|place| place.database == database);
        is_there.then(|| subscriptions.channel_count())
    }

    fn tell_some_who_are_heard(&mut self, database: u32, channel: Box<str>) -> Option<Broadcast> {
        loop {
            if self.notify.backlog.is_spent() {
                return Some(Broadcast::Heard { database, channel });
            }
            let listening = &mut self.registry.database_at_mut(database).listening;
            let losses = listening.losses;
            let entry = listening.channels.get_mut(&channel)?;
            let from = entry.telling.take().filter(|_| entry.is_heard(losses))?;
            let Some(client) = entry.clients.range((from, Bound::Unbounded)).next().copied() else {
                self.give_up_channel(database, &channel);
                return None;
            };
            entry.telling = Some(Bound::Excluded(client));
            self.notify.backlog.costs(CLIENT_COST);
            let Some(ready) = self.clients.ready_mut(client) else { continue };
            let Some(subscriptions) = ready.session_mut().subscriptions_if_any(losses) else { continue };
            subscriptions.listener_listens(&channel);
            // The client's channels are moved all at once.
            if !subscriptions.has_own() {
                self.end_loan_of_listener(client);
            }
            self.tell_news(client);
            self.settle();
        }
    }

    fn refuse_some(&mut self, database: u32, mut channels: std::vec::IntoIter<(Box<str>, u64)>) -> Option<Broadcast> {
        loop {
            if self.notify.backlog.is_spent() {
                return Some(Broadcast::Refused { database, channels });
            }
            let (channel, number) = channels.next()?;
            self.notify.backlog.costs(CHANNEL_COST);
            let known = &mut self.registry.database_at_mut(database).listening.channels;
            if known.get(&channel).is_none_or(|entry| entry.number != number) {
                continue;
            }
            let clients = known.remove(&channel).map(|entry| entry.clients).unwrap_or_default();
            let rest = self.tell_some_who_are_not(database, channel, clients);
            if rest.is_some() {
                self.notify.backlog.tasks.push_front(Broadcast::Refused { database, channels });
                return rest;
            }
        }
    }

    fn tell_some_who_are_not(
        &mut self,
        database: u32,
        channel: Box<str>,
        mut clients: BTreeSet<Key>,
    ) -> Option<Broadcast> {
        while !clients.is_empty() {
            if self.notify.backlog.is_spent() {
                return Some(Broadcast::Unheard { database, channel, clients });
            }
            let Some(client) = clients.pop_first() else { break };
            self.notify.backlog.costs(CLIENT_COST);
            let listening = &self.registry.database_at(database).listening;
            let losses = listening.losses;
            // The client may have left the channel meanwhile and listened to it again.
            if listening.channels.get(&channel).is_some_and(|entry| entry.clients.contains(&client)) {
                continue;
            }
            let Some(ready) = self.clients.ready_mut(client) else { continue };
            let Some(subscriptions) = ready.session_mut().subscriptions_if_any(losses) else { continue };
            if subscriptions.listener_leaves(&channel) {
                self.notify.backlog.costs(subscriptions.channel_count() * CHANNEL_COST);
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

    /// The listener has stopped listening to a channel that a client had handed over to it. Unless the client is to be
    /// disconnected (`notify_lost`), the listener is asked again, and the client is told of the loss once it listens.
    fn lose_channel(&mut self, client: ClientKey, database: u32, channel: &str) {
        let Some(ready) = self.clients.ready(client) else { return };
        if self.hands.active.settings.notify_lost == NotifyLost::Disconnect || !self.may_listen_beside(ready.home()) {
            // Without a listener the client would get no notifications, whatever it is told.
            self.fail_client(client, &Fault::NotificationsLost);
        } else {
            self.subscribe(client, database, channel.into());
            self.tell_of_loss(client, true);
        }
    }

    fn tell_some_that_none_is(
        &mut self,
        database: u32,
        mut channels: BTreeMap<Box<str>, Channel>,
    ) -> Option<Broadcast> {
        while !channels.is_empty() {
            if self.notify.backlog.is_spent() {
                return Some(Broadcast::NoneHeard { database, channels });
            }
            let Some((channel, entry)) = channels.pop_first() else { break };
            self.notify.backlog.costs(CHANNEL_COST);
            let rest = self.tell_some_who_are_not(database, channel, entry.clients);
            if rest.is_some() {
                self.notify.backlog.tasks.push_front(Broadcast::NoneHeard { database, channels });
                return rest;
            }
        }
        None
    }

    fn go_on_with(&mut self, key: ServerKey) -> Option<Broadcast> {
        let mut behind = std::mem::take(self.servers.get_mut(key)?.later().as_mut()?);
        while let Some(chunk) = behind.pop_front() {
            self.converse(key, chunk);
            self.settle();
            // The server may have ended meanwhile; all that had to come before was handled then.
            let Some(later) = self.servers.get_mut(key)?.later().as_mut() else { continue };
            if !later.is_empty() {
                later.append(&mut behind);
                return Some(Broadcast::HandleKept { server: key });
            }
        }
        *self.servers.get_mut(key)?.later() = None;
        self.receive_next(key);
        None
    }

    /// Ends the loan of a client whose server only listens, so that the listener takes over its channels.
    fn end_loan_of_listener(&mut self, client: ClientKey) {
        let Some(ready) = self.clients.ready(client) else { return };
        if let Link::Loan(server) = ready.link()
            && self
                .servers
                .get(server)
                .is_some_and(|server| server.session().exchange.may_end() && server.session().phase.probe().is_none())
        {
            self.notify.backlog.costs(
                ready.session().subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.channel_count())
                    * CHANNEL_COST,
            );
            self.end_loan_if_over(server, client);
            self.settle();
        }
    }
}
