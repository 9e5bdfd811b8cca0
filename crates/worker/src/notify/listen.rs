//! LISTEN: clients that come to listen through the listener, with a server of their own or without one.
//!
//! Always true: a client's own server executes `UNLISTEN *` only after the listener listens to its channels. A client without a
//! server, which listens only to channels to which the listener listens already, gets every notification that is committed after
//! its LISTEN was answered, and none that was committed before it sent LISTEN; if anything prevents this, it gets a server as
//! usual. What it has sent while it waited is handled as if it had just arrived.
//! Not here: which client listens to what (`channels`), the listener's session (`control::listeners`), other waits for the
//! listener (`own_news`).
//!
//! The listener reports what was committed before it was asked ahead of its answer ([`protocol::state::Rounds`]): the client
//! gets none of the notifications before that answer, and all those after it.

use pool::{ClientKey, ServerKey};
use protocol::state::{Kind, MARKS, Probe};
use reactor::{Io, Level};
use wire::backend::TxStatus;
use wire::frame::HEADER_BYTES;
use wire::{frontend, write};

use crate::data::client::{Client, ClientStage, Link};
use crate::notify::listening::{ListenWait, PATIENCE, Waiter};
use crate::planted::has_caught_up_already;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Moves the channels of a client's server to the listener. Returns whether the server is being prepared for
    /// `UNLISTEN` now.
    pub(crate) fn move_channels(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(server) = self.servers.get(server_key) else { return false };
        let number = server.database();
        let is_shared = self.listens_for_all(server_key, client_key);
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        let Some(session_effects) = ready.session_mut().session_effects.as_mut().filter(|_| is_shared) else {
            return false;
        };
        // The channel of the marks is our own.
        let channels: Vec<Box<str>> = session_effects.channels().filter(|name| *name != MARKS).map(Box::from).collect();
        if channels.is_empty() {
            let is_left_over = session_effects.channels().next().is_some();
            if is_left_over {
                session_effects.wants_to_leave();
                self.probe_session(server_key, client_key, true);
            }
            return is_left_over;
        }
        let names = || channels.iter().map(|name| &**name);
        let losses = self.registry.database_at(number).listening.losses;
        let news = ready.session_mut().subscriptions(losses).listens(names());
        for channel in news {
            self.subscribe(client_key, number, channel);
        }
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        if !ready.session_mut().subscriptions(losses).may_move(names()) {
            return self.give_to_listener(server_key, client_key);
        }
        self.mark(server_key, client_key);
        true
    }

    /// Has the client's own server send the mark at which the listener takes over.
    fn mark(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let mut number = [0; 8];
        self.hands.io.randomness(&mut number);
        let number = u64::from_be_bytes(number);
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        if server.session().cancels_sent > 0 || !server.session().exchange.is_proven() {
            // A cancel request under way would hit the mark, or it is not certain which answer belongs to which request.
            self.arm_server(server_key);
            return;
        }
        let listening = &mut self.registry.database_at_mut(server.database()).listening;
        ready.session_mut().subscriptions(listening.losses).sends_mark(number);
        listening.marks.add(number, client_key);
        self.ask(server_key, Probe::of_mark(number));
        self.arm_server(server_key);
    }

    /// The server has sent the mark, and all notifications before it: the server may leave its channels now.
    pub(crate) fn marked(&mut self, server_key: ServerKey, client_key: ClientKey, probe: Probe) {
        let Some(server) = self.servers.get(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        let place = self.registry.database_at_mut(server.database());
        let subscriptions = ready.session_mut().subscriptions(place.listening.losses);
        let number = probe.mark();
        if probe.end().is_some() && subscriptions.may_leave() {
            if let Some(session_effects) = &mut ready.session_mut().session_effects {
                session_effects.wants_to_leave();
            }
            self.probe_session(server_key, client_key, true);
            return;
        }
        subscriptions.void_mark();
        if let Some(number) = number {
            place.listening.marks.take(number);
        }
        let function_catalog = &mut place.function_catalog;
        let text = "nobody can take over what this client listens to: its server cannot NOTIFY";
        if function_catalog.is_news(Kind::Channel, text) {
            self.log_client(client_key, Level::Warning, format_args!("{text}"));
        }
        self.arm_server(server_key);
        self.catch_up(server_key, client_key, self.hands.now);
    }

    /// A client was imported from another process that listened for it. It gets no notifications until the listener of
    /// this process listens.
    pub(crate) fn comes_listening(&mut self, client: ClientKey, channels: Vec<Box<str>>) {
        let Some(ready) = self.clients.ready_mut(client) else { return };
        let database = self.registry.pool(ready.home()).map(|place| place.database);
        let Some(database) = database.filter(|_| !channels.is_empty()) else { return };
        ready
            .session_mut()
            .subscriptions(self.registry.database_at(database).listening.losses)
            .comes_with(channels.iter().cloned());
        for channel in channels {
            self.subscribe(client, database, channel);
        }
        self.tell_of_loss(client, true);
    }

    /// Returns whether the first message of a client without a server, of this length, only listens to channels
    /// to which the listener listens already. Then the client waits for the listener's answer.
    pub(crate) fn begin_listen_wait(&mut self, key: ClientKey, length: u32) -> bool {
        let Some(ready) = self.clients.ready(key) else { return false };
        let Some(place) = self.registry.pool(ready.home()) else { return false };
        let database = place.database as usize;
        // Databases without a listener end here.
        if self.registry.database_at(database as u32).listening.session.is_none() || !place.follows {
            return false;
        }
        let is_known =
            ready.session().session_effects.as_ref().is_none_or(|session_effects| !session_effects.unlistens.is_any());
        let first = ready
            .held()
            .filter(|_| ready.session().scanner.torn_header().is_empty() && is_known)
            .and_then(|held| held.first());
        let message = first.and_then(|bytes| bytes.get(..1 + length as usize));
        let Some((&frontend::QUERY, message)) = message.and_then(<[u8]>::split_first) else { return false };
        let Some((0, text)) = message.get(HEADER_BYTES - 1..).and_then(<[u8]>::split_last) else { return false };
        let (pool, may_ask) = (ready.home(), !self.admin.is_resting() && !self.admin.is_going_down());
        let dialect = self.texts.dialect(&ready.session().vars, &self.hands.active.tracked);
        let Some(listens) = route::listens(text, dialect).filter(|_| may_ask) else { return false };
        let listening = &self.registry.database_at(database as u32).listening;
        if !listens.channels.iter().all(|channel| listening.is_heard(channel))
            || self.server_for_all(database as u32).is_none()
            || !self.may_listen_through_all(pool, key, listens.channels.iter().map(|channel| &**channel))
        {
            return false;
        }
        let listening = &mut self.registry.database_at_mut(database as u32).listening;
        let number = listening.waits + 1;
        if !listening.rounds.comes(Waiter::Client(key, number)) {
            return false;
        }
        listening.waits = number;
        let until = self.hands.now + PATIENCE;
        if let Some(ready) = self.clients.ready_mut(key) {
            let wait = ListenWait { number, until, channels: listens.channels, tags: listens.tags };
            *ready.listen_wait_mut() = Some(Box::new(wait));
        }
        if has_caught_up_already() {
            self.hands.enqueue(Task::ReleaseAll { waiters: vec![Waiter::Client(key, number)], has_caught_up: true });
            return true;
        }
        self.ask_listener(database as u32);
        self.arm_client(key);
        true
    }

    /// Ends the client's wait `number`: the client listens now if the listener has caught up (`has_caught_up`), and gets a
    /// server otherwise.
    pub(crate) fn end_listen_wait(&mut self, key: ClientKey, number: Option<u64>, has_caught_up: bool) {
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let wait = ready.listen_wait_mut().take_if(|wait| number.is_none_or(|number| wait.number == number));
        let (Some(wait), Some(place)) = (wait, self.registry.pool(ready.home())) else { return };
        let database = place.database;
        let listening = &self.registry.database_at(database).listening;
        let losses = listening.losses;
        if !has_caught_up || !wait.channels.iter().all(|channel| listening.is_heard(channel)) {
            self.want_first(key);
            self.skip_rejected(key);
            return;
        }
        ready.session_mut().subscriptions(losses).listens(wait.channels.iter().map(|channel| &**channel));
        for channel in wait.channels {
            self.subscribe(key, database, channel);
        }
        let totals = &mut self.registry.database_at_mut(database).totals;
        totals.query_count += 1;
        totals.xact_count += 1;
        let Some(Client { conn, stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(key) else {
            return;
        };
        ready.session_mut().subscriptions(losses).move_to_listener();
        ready.drop_first_request();
        *answered = self.hands.now;
        let (count, tag) = wait.tags;
        let mut out = Vec::new();
        (0..count).for_each(|_| write::command_complete(&mut out, tag));
        write::ready_for_query(&mut out, TxStatus::Idle);
        self.hands.io.send(*conn, out.into());
        self.resume_client(key);
        self.arm_client(key);
        // What the client has sent behind the request that was answered.
        if let Some(ready) = self.clients.ready_mut(key).filter(|ready| ready.link() == Link::None) {
            let rest = ready.held_mut().take();
            self.hold_again(key, rest);
        }
    }
}
