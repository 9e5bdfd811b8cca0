//! Channels: which clients listen to which, and whether the listener does.
//!
//! Always true: the listener of a database listens to every channel that any of its clients listens to; it is asked for
//! each channel once.
//! Not here: how many channels there may be (`limits::channels`), passing notifications on (`news`).

use std::collections::BTreeSet;
use std::ops::Bound;

use base::counted;
use pool::{ClientKey, PoolKey, ServerKey};
use protocol::state::{Kind, MARKS, Policy};
use reactor::{Io, Level};

use crate::data::client::{Client, ClientStage};
use crate::letters::ToControl;
use crate::notify::backlog::Broadcast;
use crate::notify::listening::{Channel, Listening};
use crate::planted::{has_left, is_listened_to};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether the listener may take over the channels that this client's server listens to (`session_policy`).
    pub(crate) fn listens_for_all(&self, server: ServerKey, client: ClientKey) -> bool {
        let Some(server) = self.servers.get(server).filter(|server| server.dedicated().is_none()) else { return false };
        let Some(ready) = self.clients.ready(client) else { return false };
        let session_effects = ready.session().session_effects.iter();
        let channels = session_effects.flat_map(|session_effects| session_effects.channels());
        self.may_listen_through_all(server.pool(), client, channels.filter(|name| *name != MARKS))
    }

    /// Whether a client may listen to these channels through the listener: it must use the listener's encoding, and the
    /// limits must allow it.
    pub(crate) fn may_listen_through_all<'a>(
        &self,
        pool: PoolKey,
        client: ClientKey,
        channels: impl Iterator<Item = &'a str>,
    ) -> bool {
        let Some(ready) = self.clients.ready_unless_own(client) else { return false };
        let encoding =
            self.hands.active.tracked.place("client_encoding").and_then(|place| ready.session().vars.get(place));
        let is_read = encoding.is_none_or(|encoding| matches!(encoding, "UTF8" | "SQL_ASCII"));
        let Some(place) = self.registry.pool(pool) else { return false };
        is_read
            && self.may_listen_beside(pool)
            && place.pin_rules.policy(Kind::Channel) == Policy::Virtualize
            && self.has_room_for(ready, place.database, channels)
    }

    /// Adds a client to a channel; asks the control thread to listen if the channel is new.
    pub(crate) fn subscribe(&mut self, client: ClientKey, database: u32, channel: Box<str>) {
        let Some(ready) = self.clients.ready_mut(client) else { return };
        let place = self.registry.database_at_mut(database);
        let Listening { channels, last_request, losses, .. } = &mut place.listening;
        let entry = channels.entry(channel.clone()).or_default();
        entry.clients.insert(client);
        if is_listened_to(entry.is_heard(*losses)) {
            ready.session_mut().subscriptions(*losses).listener_listens(&channel);
        }
        if entry.number == 0 {
            *last_request += 1;
            entry.number = *last_request;
            let (database, number) = (place.name.clone(), *last_request);
            let is_relied_on = ready.session_mut().subscriptions(*losses).relies_on(&channel);
            let user = self.registry.user_at(ready.session().user).name.clone();
            (self.hands.posts.control)(ToControl::Listen { database, user, channel, number, is_relied_on });
        }
    }

    /// Removes a client from these channels.
    fn unsubscribe(&mut self, client: ClientKey, database: u32, channels: &[Box<str>]) {
        for channel in channels {
            let place = self.registry.database_at_mut(database);
            let Some(entry) = place.listening.channels.get_mut(channel) else { continue };
            entry.clients.remove(&client);
            self.give_up_channel(database, channel);
        }
    }

    /// Gives up a channel without clients once the listener listens to it: an UNLISTEN that reached the listener later
    /// could undo a LISTEN that has come to it with a server meanwhile.
    pub(crate) fn give_up_channel(&mut self, database: u32, channel: &str) {
        let place = self.registry.database_at_mut(database);
        let losses = place.listening.losses;
        let is_over = |entry: &Channel| entry.clients.is_empty() && entry.is_heard(losses);
        if place.listening.channels.get(channel).is_some_and(is_over) {
            place.listening.channels.remove(channel);
            let database = place.name.clone();
            (self.hands.posts.control)(ToControl::Unlisten { database, channel: channel.into() });
        }
    }

    /// A client has sent UNLISTEN, and the probe has shown as far as it can which channels are left.
    pub(crate) fn leave_channels(&mut self, client: ClientKey, database: u32) {
        let Some(ready) = self.clients.ready_mut(client) else { return };
        let session = ready.session_mut();
        let Some(session_effects) = &mut session.session_effects else { return };
        let left = session_effects.unlistens.take();
        let Some(subscriptions) = &mut session.subscriptions else { return };
        subscriptions.knows_losses(self.registry.database_at(database).listening.losses);
        // Its server has left these channels and listens to them again, as clients do that begin with `UNLISTEN *`.
        let again: BTreeSet<&str> = session_effects.channels().collect();
        let is_left = |name: &str| has_left(left.has(name) && !again.contains(name));
        let gone = subscriptions.leaves(is_left);
        if subscriptions.is_idle() {
            ready.session_mut().subscriptions = None;
        }
        self.unsubscribe(client, database, &gone);
    }

    /// A client goes, or its session state is no longer followed: it listens to nothing.
    pub(crate) fn stop_listening(&mut self, client: ClientKey) {
        let Some(ready) = self.clients.ready_mut(client) else { return };
        let Some(mut subscriptions) = ready.session_mut().subscriptions.take() else { return };
        let Some(database) = self.registry.pool(ready.home()).map(|place| place.database) else { return };
        self.unsubscribe(client, database, &subscriptions.leaves(|_| true));
        self.end_wait_for_client(database, client);
        // Its server may be closed before it has sent the mark.
        self.registry.database_at_mut(database).listening.marks.forget(client);
    }

    /// The listener listens to a channel now. `number` is that of the request: the answer to a request made before all
    /// clients left the channel says nothing about clients that came later.
    pub(crate) fn heard(&mut self, database: &str, channel: Box<str>, number: u64) {
        let Some(place) = self.registry.known_database(database) else { return };
        let Listening { channels, losses, .. } = &mut self.registry.database_at_mut(place).listening;
        let Some(entry) = channels.get_mut(&channel).filter(|entry| entry.number == number) else { return };
        entry.heard = Some(*losses);
        if entry.telling.replace(Bound::Unbounded).is_none() {
            self.notify.backlog.add(Broadcast::Heard { database: place, channel });
        }
    }

    /// The listener cannot listen to these channels. There may be thousands, so their clients are told in turns.
    pub(crate) fn unheard(&mut self, database: &str, channels: Vec<(Box<str>, u64)>, error: &str) {
        let Some(place) = self.registry.known_database(database) else { return };
        self.warn_of_unheard(database, error, channels.len());
        self.notify.backlog.add(Broadcast::Refused { database: place, channels: channels.into_iter() });
    }

    fn warn_of_unheard(&mut self, database: &str, why: &str, channels: usize) {
        let channels = counted(channels, "channel");
        let line = format_args!(
            "nobody can listen for all clients of {database}, they keep their servers: {why} ({channels})"
        );
        self.hands.log.add(Level::Warning, line);
    }

    /// There may be no listener in a database any more. There may be thousands of channels, so their clients are told
    /// in turns.
    pub(crate) fn end_listening_for_all(&mut self, database: u32, why: &str) {
        let place = self.registry.database_at_mut(database);
        let channels = std::mem::take(&mut place.listening.channels);
        if channels.is_empty() {
            return;
        }
        let name = place.name.clone();
        self.warn_of_unheard(&name, why, channels.len());
        self.notify.backlog.add(Broadcast::NoneHeard { database, channels });
        (self.hands.posts.control)(ToControl::UnlistenAll { database: name });
    }

    /// The listener is lost and listens to nothing until it is back.
    pub(crate) fn listener_lost(&mut self, database: &str) {
        if let Some(number) = self.registry.known_database(database) {
            self.cut_off_all(number);
        }
    }

    /// The listener has lost its server before it sent anything there, and goes on with another one. The channels of
    /// the client from which it had taken that server (`give_to_listener`) are no longer listened to.
    pub(crate) fn lose_given_channels(&mut self, listener: ClientKey, database: u32) {
        if let Some(Client { stage: ClientStage::Ready(ready), is_listener: true, .. }) = self.clients.get_mut(listener)
            && ready
                .session_mut()
                .session_effects
                .as_mut()
                .is_some_and(|session_effects| !session_effects.leave().is_empty())
        {
            self.cut_off_all(database);
        }
    }

    /// The listener of a database is lost: its clients are told in turns that notifications may have been lost.
    fn cut_off_all(&mut self, database: u32) {
        let listening = &mut self.registry.database_at_mut(database).listening;
        listening.marks.clear();
        listening.losses += 1;
        self.notify.backlog.cut_off(database, self.clients.places());
    }

    /// The listener of a database has logged in.
    pub(crate) fn listener_comes(&mut self, listener: ClientKey, database: u32) {
        self.registry.database_at_mut(database).listening.session = Some(listener);
    }
}
