//! Listening for many: one session per database listens to every channel that any of its clients listens to.
//!
//! Always true: a client's own server leaves its channels only after the session for all listens to them; a client whose
//! notifications may have been lost is told so, or disconnected (`notify_lost`).
//! Not here: what one client has heard (`protocol::state::Subscriptions`), the session that listens for all (`control::listeners`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use base::planted::{self, Planted};
use base::{Key, Slab};
use config::NotifyLost;
use pool::{ClientKey, PoolKey, ServerKey};
use protocol::fault::Fault;
use protocol::loan::ClientSession;
use protocol::state::{Kind, MARKS, Marks, Patience, Policy, Probe, Rounds, channel_of, mark_of};
use reactor::{Io, Level};
use wire::backend::{self, TxStatus};
use wire::write::{self, Says};

use crate::data::client::{Client, Link, Ready, Stage as ClientStage};
use crate::letters::{ChannelRow, ToControl};
use crate::notify::backlog::{Task, Telling};
use crate::notify::own_news::Waiter;
use crate::places::DatabasePlace;
use crate::turn::Worker;

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
    asked: u64,
    /// Whose the marks are that the session for all has not come to yet.
    marks: Marks<Key>,
    /// Who waits for the session for all.
    pub(crate) rounds: Rounds<Waiter>,
    /// How many waits of that kind there have been.
    pub(crate) waits: u64,
    /// For which clients the session for all waits.
    pub(crate) patience: Patience<Key>,
}

/// Who listens to one.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) clients: BTreeSet<Key>,
    /// The number of the question whether somebody listens to it for all; 0 where it has not been asked.
    pub(crate) number: u64,
    /// How often the session for all had been lost ([`Listening::losses`]) when it came to listen to it last.
    heard: Option<u64>,
    /// Whose turn it is to be told that it does, if all have not been told ([`Task::Heard`](crate::notify::backlog::Task::Heard)).
    pub(crate) telling: Option<Bound<Key>>,
}

impl Channel {
    /// Whether the session for all listens to it, which has been lost so often.
    pub(crate) fn is_heard(&self, losses: u64) -> bool {
        self.heard == Some(losses)
    }
}

impl Listening {
    /// Whether the session for all listens to a channel.
    pub(crate) fn is_heard(&self, channel: &str) -> bool {
        self.channels.get(channel).is_some_and(|entry| entry.is_heard(self.losses))
    }
}

impl DatabasePlace {
    /// The channels of its clients.
    pub(crate) fn channel_rows(&self) -> impl Iterator<Item = ChannelRow> {
        self.listening.channels.iter().map(|(name, channel)| ChannelRow {
            database: self.name.clone(),
            channel: name.clone(),
            clients: channel.clients.len(),
            is_heard: channel.is_heard(self.listening.losses),
        })
    }
}

impl<I: Io> Worker<I> {
    /// The server of a client listens for it: somebody else is to do that for all. Whether the server is being told to leave now.
    pub(crate) fn move_channels(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(server) = self.servers.get(server_key) else { return false };
        let number = server.database;
        let is_shared = self.listens_for_all(server_key, client_key);
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else {
            return false;
        };
        let Some(traces) = ready.session.traces.as_mut().filter(|_| is_shared) else { return false };
        // That it listens to marks is our doing.
        let channels: Vec<Box<str>> = traces.channels().filter(|name| *name != MARKS).map(Box::from).collect();
        if channels.is_empty() {
            let is_left_over = traces.channels().next().is_some();
            if is_left_over {
                traces.wants_to_leave();
                self.probe_session(server_key, client_key, true);
            }
            return is_left_over;
        }
        let names = || channels.iter().map(|name| &**name);
        let losses = self.places.databases[number as usize].listening.losses;
        let news = ready.session.subscriptions(losses).listens(names());
        for channel in news {
            self.subscribe(client_key, number, channel);
        }
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else {
            return false;
        };
        if !ready.session.subscriptions(losses).may_move(names()) {
            return self.give_to_listener(server_key, client_key);
        }
        self.mark(server_key, client_key);
        true
    }

    /// A client's own server sends the mark at which the session for all takes over.
    fn mark(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let mut number = [0; 8];
        self.io.randomness(&mut number);
        let number = u64::from_be_bytes(number);
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        if server.session.cancels_sent > 0 || !server.session.exchange.is_proven() {
            // A cancel request that is still on its way would hit it, and what answers what has to be known.
            self.arm_server(server_key);
            return;
        }
        let listening = &mut self.places.databases[server.database as usize].listening;
        ready.session.subscriptions(listening.losses).is_marked(number);
        listening.marks.add(number, client_key);
        self.ask(server_key, Probe::of_mark(number));
        self.arm_server(server_key);
    }

    /// A server has sent the mark, and told what stands before it: it may leave its channels now.
    pub(crate) fn marked(&mut self, server_key: ServerKey, client_key: ClientKey, probe: Probe) {
        let Some(server) = self.servers.get(server_key) else { return };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let place = &mut self.places.databases[server.database as usize];
        let subscriptions = ready.session.subscriptions(place.listening.losses);
        let number = probe.mark();
        if probe.end().is_some() && subscriptions.may_leave() {
            if let Some(traces) = &mut ready.session.traces {
                traces.wants_to_leave();
            }
            self.probe_session(server_key, client_key, true);
            return;
        }
        subscriptions.is_unmarked();
        if let Some(number) = number {
            place.listening.marks.take(number);
        }
        let learned = &mut place.learned;
        let text = "nobody can take over what this client listens to: its server cannot NOTIFY";
        if learned.is_news(Kind::Channel, text) {
            let line = self.client_prefix(client_key);
            self.log.add(Level::Warning, format_args!("{line}{text}"));
        }
        self.arm_server(server_key);
        self.catch_up(server_key, client_key, self.now);
    }

    /// Whether what this client listens to on its server is listened to for all (`session_policy`).
    pub(crate) fn listens_for_all(&self, server: ServerKey, client: ClientKey) -> bool {
        let Some(server) = self.servers.get(server).filter(|server| server.private.is_none()) else { return false };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get(client) else { return false };
        let channels = ready.session.traces.iter().flat_map(|traces| traces.channels()).filter(|name| *name != MARKS);
        self.may_listen_through_all(server.pool, client, channels)
    }

    /// Whether these channels of a client may be listened to for all: it must read the encoding that they are told in, and there must be room.
    pub(crate) fn may_listen_through_all<'a>(
        &self,
        pool: PoolKey,
        client: ClientKey,
        channels: impl Iterator<Item = &'a str>,
    ) -> bool {
        let Some(Client { stage: ClientStage::Ready(ready), is_own: false, .. }) = self.clients.get(client) else {
            return false;
        };
        let encoding = self.force.tracked.place("client_encoding").and_then(|place| ready.session.vars.get(place));
        let is_read = encoding.is_none_or(|encoding| matches!(encoding, "UTF8" | "SQL_ASCII"));
        let Some(place) = self.places.pool(pool) else { return false };
        is_read
            && self.may_listen_beside(pool)
            && place.pin_rules.policy(Kind::Channel) == Policy::Virtualize
            && self.has_room_for(ready, place.database, channels)
    }

    /// Whether so many channels more may be listened to for a client and its database.
    fn has_room_for<'a>(&self, ready: &Ready, database: u32, channels: impl Iterator<Item = &'a str>) -> bool {
        let (of_client, of_database) = (self.force.settings.max_client_channels, self.force.settings.max_db_channels);
        let known = &self.places.databases[database as usize].listening.channels;
        let has =
            |name: &str| ready.session.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.has(name));
        let news: Vec<&str> = channels.filter(|name| !has(name)).collect();
        let all =
            news.len() + ready.session.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.channel_count());
        let unknown = news.iter().filter(|name| !known.contains_key(**name)).count();
        let is_within = |count: usize, limit: u32| limit == 0 || count <= limit as usize;
        // Who listens to nothing new is not made to keep a server by a limit that has been lowered.
        news.is_empty() || is_within(all, of_client) && (unknown == 0 || is_within(known.len() + unknown, of_database))
    }

    /// Whether a pool may have a server that does nothing but listen, beside one that works: the limit of its own size does not count.
    pub(crate) fn may_listen_beside(&self, pool: PoolKey) -> bool {
        let Some(place) = self.places.pool(pool) else { return false };
        let settings = &self.force.settings;
        let entry = self.places.databases[place.database as usize].entry.as_ref();
        let of_database = entry.and_then(|entry| settings.max_db_connections(entry));
        of_database != Some(1) && settings.max_user_connections(&place.user_name) != Some(1)
    }

    /// A client listens to a channel.
    pub(crate) fn subscribe(&mut self, client: ClientKey, database: u32, channel: Box<str>) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client) else { return };
        let place = &mut self.places.databases[database as usize];
        let Listening { channels, asked, losses, .. } = &mut place.listening;
        let entry = channels.entry(channel.clone()).or_default();
        entry.clients.insert(client);
        if entry.is_heard(*losses) || planted::is(Planted::ListenerBelieved) {
            ready.session.subscriptions(*losses).is_heard(&channel);
        }
        if entry.number == 0 {
            *asked += 1;
            entry.number = *asked;
            let (database, number) = (place.name.clone(), *asked);
            let is_relied_on = ready.session.subscriptions(*losses).relies_on(&channel);
            let user = self.places.users[ready.session.user as usize].name.clone();
            (self.posts.control)(ToControl::Listen { database, user, channel, number, is_relied_on });
        }
    }

    /// A client no longer listens to these channels.
    fn unsubscribe(&mut self, client: ClientKey, database: u32, channels: &[Box<str>]) {
        for channel in channels {
            let place = &mut self.places.databases[database as usize];
            let Some(entry) = place.listening.channels.get_mut(channel) else { continue };
            entry.clients.remove(&client);
            self.give_up_channel(database, channel);
        }
    }

    /// A channel that nobody listens to any more is given up once it is heard: an order that came to the session for all later would
    /// take from it what it has been given with a server since.
    pub(crate) fn give_up_channel(&mut self, database: u32, channel: &str) {
        let place = &mut self.places.databases[database as usize];
        let losses = place.listening.losses;
        let is_over = |entry: &Channel| entry.clients.is_empty() && entry.is_heard(losses);
        if place.listening.channels.get(channel).is_some_and(is_over) {
            place.listening.channels.remove(channel);
            let database = place.name.clone();
            (self.posts.control)(ToControl::Unlisten { database, channel: channel.into() });
        }
    }

    /// A client has said that it leaves channels, and its server has told that this is so as far as that goes.
    pub(crate) fn leave_channels(&mut self, client: ClientKey, database: u32) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client) else { return };
        let Some(traces) = &mut ready.session.traces else { return };
        let left = traces.unlistens.take();
        let Some(subscriptions) = &mut ready.session.subscriptions else { return };
        subscriptions.knows_losses(self.places.databases[database as usize].listening.losses);
        // What its server listens to it has left and listened to again, as those do who begin with `UNLISTEN *`.
        let again: BTreeSet<&str> = traces.channels().collect();
        let is_left = |name: &str| left.has(name) && !planted::is(Planted::LeftChannelTold) && !again.contains(name);
        let gone = subscriptions.leaves(is_left);
        if subscriptions.is_idle() {
            ready.session.subscriptions = None;
        }
        self.unsubscribe(client, database, &gone);
    }

    /// A client goes, or is not followed any more.
    pub(crate) fn stop_listening(&mut self, client: ClientKey) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client) else { return };
        let Some(mut subscriptions) = ready.session.subscriptions.take() else { return };
        let Some(database) = self.places.pool(ready.pool).map(|place| place.database) else { return };
        self.unsubscribe(client, database, &subscriptions.leaves(|_| true));
        self.listener_keeps_up(database, client);
        // Its server may be closed before it has sent the mark.
        self.places.databases[database as usize].listening.marks.forget(client);
    }

    /// The session for all listens to a channel now. `number` is that of the question: one that was asked before everybody
    /// had left the channel says nothing of who has come since.
    pub(crate) fn heard(&mut self, database: &str, channel: Box<str>, number: u64) {
        let Some(place) = self.places.known_database(database) else { return };
        let Listening { channels, losses, .. } = &mut self.places.databases[place as usize].listening;
        let Some(entry) = channels.get_mut(&channel).filter(|entry| entry.number == number) else { return };
        entry.heard = Some(*losses);
        if entry.telling.replace(Bound::Unbounded).is_none() {
            self.backlog.add(Task::Heard { database: place, channel });
        }
    }

    /// The session for all cannot listen to these channels. There may be thousands, whose clients are told each in its turn.
    pub(crate) fn unheard(&mut self, database: &str, channels: Vec<(Box<str>, u64)>, error: &str) {
        let Some(place) = self.places.known_database(database) else { return };
        self.warn_of_unheard(database, error, channels.len());
        self.backlog.add(Task::Refused { database: place, channels: channels.into_iter() });
    }

    fn warn_of_unheard(&mut self, database: &str, why: &str, channels: usize) {
        let line = format_args!(
            "nobody can listen for all clients of {database}, they keep their servers: {why} ({channels} channels)"
        );
        self.log.add(Level::Warning, line);
    }

    /// Nobody may listen for all clients of a database any more: there may be thousands of channels, whose clients are told each in its turn.
    pub(crate) fn end_listening_for_all(&mut self, database: u32, why: &str) {
        let place = &mut self.places.databases[database as usize];
        let channels = std::mem::take(&mut place.listening.channels);
        if channels.is_empty() {
            return;
        }
        let name = place.name.clone();
        self.warn_of_unheard(&name, why, channels.len());
        self.backlog.add(Task::NoneHeard { database, channels });
        (self.posts.control)(ToControl::UnlistenAll { database: name });
    }

    /// The session for all has ended, and listens to nothing until it is there again.
    pub(crate) fn listener_lost(&mut self, database: &str) {
        if let Some(number) = self.places.known_database(database) {
            self.cut_off_all(number);
        }
    }

    /// The session for all has lost a server before it said anything there: it goes on with another one. Nobody listens any more to the channels
    /// of the client whose server that was (`give_to_listener`).
    pub(crate) fn lose_given_channels(&mut self, listener: ClientKey, database: u32) {
        if let Some(Client { stage: ClientStage::Ready(ready), is_listener: true, .. }) = self.clients.get_mut(listener)
            && ready.session.traces.as_mut().is_some_and(|traces| !traces.leave().is_empty())
        {
            self.cut_off_all(database);
        }
    }

    /// Nobody listens for all clients of a database: those that relied on it are told that notifications may have been lost, each in its turn.
    fn cut_off_all(&mut self, database: u32) {
        let listening = &mut self.places.databases[database as usize].listening;
        listening.marks.clear();
        listening.losses += 1;
        self.backlog.cut_off(database, self.clients.places());
    }

    /// A client comes from another process, which has listened for it. Until somebody does here it hears nothing.
    pub(crate) fn comes_listening(&mut self, client: ClientKey, channels: Vec<Box<str>>) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client) else { return };
        let database = self.places.pool(ready.pool).map(|place| place.database);
        let Some(database) = database.filter(|_| !channels.is_empty()) else { return };
        ready
            .session
            .subscriptions(self.places.databases[database as usize].listening.losses)
            .comes_with(channels.iter().cloned());
        for channel in channels {
            self.subscribe(client, database, channel);
        }
        self.tell_of_loss(client, true);
    }

    /// Notifications for a client may have been lost. It is told when it can be sure to hear what comes: not yet, if nobody listens.
    pub(crate) fn tell_of_loss(&mut self, client: ClientKey, is_cut_off: bool) {
        match self.force.settings.notify_lost {
            NotifyLost::Disconnect => self.fail_client(client, &Fault::NotificationsLost),
            NotifyLost::Notice | NotifyLost::Notify => {
                if let Some(Client {
                    stage:
                        ClientStage::Ready(Ready {
                            session: ClientSession { subscriptions: Some(subscriptions), .. }, ..
                        }),
                    ..
                }) = self.clients.get_mut(client)
                {
                    subscriptions.owes_word();
                }
                if !is_cut_off {
                    self.tell_news(client);
                }
            }
        }
    }

    /// A server tells of a notification, whole.
    pub(crate) fn notified(&mut self, server_key: ServerKey, body: &[u8]) {
        let Some(server) = self.servers.get(server_key) else { return };
        let (Some(client_key), number) = (server.client(), server.database) else { return };
        let Some(client) = self.clients.get_mut(client_key) else { return };
        if client.is_listener {
            self.spread(server_key, number, body);
        } else if let ClientStage::Ready(ready) = &mut client.stage
            && let Some(subscriptions) =
                ready.session.subscriptions_if_any(self.places.databases[number as usize].listening.losses)
        {
            let is_told = subscriptions.own(body);
            if is_told {
                self.give_client_own(server_key, notification(body));
            }
            self.tell_news(client_key);
        }
    }

    /// Passes a notification on to all whom it concerns.
    fn spread(&mut self, server: ServerKey, database: u32, body: &[u8]) {
        let listening = &mut self.places.databases[database as usize].listening;
        if channel_of(body) == Some(MARKS) {
            let client = mark_of(body).and_then(|number| Some((number, listening.marks.take(number)?)));
            if let Some((number, client)) = client
                && let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client)
                && let Some(subscriptions) = ready.session.subscriptions_if_any(listening.losses)
            {
                subscriptions.shared_mark(number);
            }
            return;
        }
        // What comes behind it waits, if it is not told to all in this turn (`lines_up`).
        let most = if self.tells_all(server) { self.backlog.clients_left().max(1) } else { usize::MAX };
        if let Some(from) = self.tell_all(database, body, Bound::Unbounded, most) {
            self.backlog.tell_later(Telling { server, database, body: body.into(), from });
        }
    }

    /// Tells a notification to so many clients of its channel, from one on. From where on the others are to be told, if there are any.
    pub(crate) fn tell_all(&mut self, database: u32, body: &[u8], from: Bound<Key>, most: usize) -> Option<Bound<Key>> {
        let listening = &self.places.databases[database as usize].listening;
        let losses = listening.losses;
        let channel = listening.channels.get(channel_of(body)?)?;
        let mut rest = channel.clients.range((from, Bound::Unbounded)).copied();
        let clients: Vec<Key> = rest.by_ref().take(most).collect();
        let next = rest.next().map(Bound::Included);
        self.backlog.tells(clients.len());
        for client in clients {
            let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client) else { continue };
            ready.session.subscriptions(losses).shared(body);
            self.tell_news(client);
            self.wait_for_listener(database, client);
        }
        next
    }

    /// Tells a client what it is owed, if it stands outside a transaction and between two messages, as PostgreSQL does.
    pub(crate) fn tell_news(&mut self, client_key: ClientKey) {
        let queue_max = self.notify_queue_max();
        let force = Arc::clone(&self.force);
        let Some(client) = self.clients.get_mut(client_key) else { return };
        let conn = client.conn;
        let ClientStage::Ready(ready) = &mut client.stage else { return };
        let is_outside = match ready.link {
            Link::None | Link::Waiting(_) | Link::Delayed(_) => true,
            Link::Loan(server) => self.servers.get(server).is_some_and(|server| {
                let exchange = &server.session.exchange;
                server.withheld.is_some()
                    || exchange.owes_client_nothing()
                        && exchange.status() == TxStatus::Idle
                        && !server.session.is_in_message()
            }),
        };
        let is_answer_torn = ready.is_answer_torn;
        let Some(number) = self.places.pool(ready.pool).map(|place| place.database) else { return };
        let listening = &self.places.databases[number as usize].listening;
        let ClientSession { subscriptions: Some(subscriptions), traces, .. } = &mut ready.session else { return };
        subscriptions.knows_losses(listening.losses);
        if subscriptions.is_owed_word() && force.settings.notify_lost == NotifyLost::Disconnect {
            self.fail_client(client_key, &Fault::NotificationsLost);
            return;
        }
        // What it may have left already it is not told of before that is known.
        let unlistens = traces.as_ref().map(|traces| &traces.unlistens).filter(|unlistens| unlistens.is_any());
        let may_have_left = unlistens.map(|unlistens| |channel: &str| unlistens.may_have(channel));
        let unsent = self.io.unsent(conn);
        // A single one may be longer than that, and what was under way already when it began to be waited for.
        let is_room_for_one = subscriptions.kept_count() == 1 && unsent == 0;
        let is_waited_for = listening.patience.is_waited_for(&client_key);
        let is_allowed = is_room_for_one || is_waited_for;
        if subscriptions.kept_bytes() + unsent > queue_max && subscriptions.kept_bytes() > 0 && !is_allowed {
            subscriptions.drop_kept();
            if subscriptions.is_owed_word() {
                return;
            }
            let line = self.client_prefix(client_key);
            let what =
                format_args!("{line}more notifications wait for it than notify_queue_size allows: they are lost");
            self.log.add(Level::Warning, what);
            self.tell_of_loss(client_key, false);
            return;
        }
        if unsent > queue_max {
            // It reads an answer that is longer than that.
            self.io.tell_when_drained(conn);
            return;
        }
        if !is_outside || is_answer_torn {
            return;
        }
        let mut out = Vec::new();
        if subscriptions.takes_word(|channel| listening.is_heard(channel)) {
            match force.settings.notify_lost {
                NotifyLost::Notify => write_notification(&mut out, &force.settings.notify_lost_channel),
                _ => write_loss(&mut out),
            }
        }
        for body in subscriptions.take_kept(may_have_left) {
            write::message(&mut out, backend::NOTIFICATION_RESPONSE, |out| out.extend_from_slice(&body));
        }
        if !out.is_empty() {
            self.io.send(conn, out.into());
        }
    }
}

/// Whether a client's notifications are looked at.
pub(crate) fn has_subscriptions(clients: &Slab<Client>, client: ClientKey) -> bool {
    subscriptions_and_traces(clients, Some(client)).0
}

/// The same, and whether it may have changed something in its session.
pub(crate) fn subscriptions_and_traces(clients: &Slab<Client>, client: Option<ClientKey>) -> (bool, bool) {
    match client.and_then(|client| clients.get(client)) {
        Some(Client { is_listener, stage: ClientStage::Ready(ready), .. }) => {
            (*is_listener || ready.session.subscriptions.is_some(), ready.session.traces.is_some())
        }
        Some(Client { is_listener, .. }) => (*is_listener, false),
        None => (false, false),
    }
}

fn notification(body: &[u8]) -> Box<[u8]> {
    let mut out = Vec::new();
    write::message(&mut out, backend::NOTIFICATION_RESPONSE, |out| out.extend_from_slice(body));
    out.into()
}

/// A notification of our own, of no server's process.
fn write_notification(out: &mut Vec<u8>, channel: &str) {
    write::message(out, backend::NOTIFICATION_RESPONSE, |out| {
        out.extend_from_slice(&[0; 4]);
        write::c_string(out, channel);
        write::c_string(out, "");
    });
}

fn write_loss(out: &mut Vec<u8>) {
    let verdict = Fault::NotificationsLost.verdict();
    let (sqlstate, hint) =
        ("01000", "Probe again at what the notifications are about: what comes from now on is heard.");
    let says = Says { severity: "NOTICE", sqlstate, message: &verdict.text, detail: None, hint: Some(hint) };
    write::notice(out, says);
}
