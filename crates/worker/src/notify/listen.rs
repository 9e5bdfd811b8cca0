//! Moves the channels that a client's own server listens to, to the listener.
//!
//! Always true: a client's own server executes `UNLISTEN *` only after the listener listens to its channels.
//! Not here: which client listens to what (`channels`), the listener's session (`control::listeners`).

use pool::{ClientKey, ServerKey};
use protocol::state::{Kind, MARKS, Probe};
use reactor::{Io, Level};

use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Moves the channels of a client's server to the listener. Returns whether the server is being prepared for
    /// `UNLISTEN` now.
    pub(crate) fn move_channels(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(server) = self.servers.get(server_key) else { return false };
        let number = server.database;
        let is_shared = self.listens_for_all(server_key, client_key);
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        let Some(session_effects) = ready.session.session_effects.as_mut().filter(|_| is_shared) else { return false };
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
        let losses = self.registry.databases[number as usize].listening.losses;
        let news = ready.session.subscriptions(losses).listens(names());
        for channel in news {
            self.subscribe(client_key, number, channel);
        }
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        if !ready.session.subscriptions(losses).may_move(names()) {
            return self.give_to_listener(server_key, client_key);
        }
        self.mark(server_key, client_key);
        true
    }

    /// Has the client's own server send the mark at which the listener takes over.
    fn mark(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let mut number = [0; 8];
        self.io.randomness(&mut number);
        let number = u64::from_be_bytes(number);
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        if server.session.cancels_sent > 0 || !server.session.exchange.is_proven() {
            // A cancel request under way would hit the mark, or it is not certain which answer belongs to which request.
            self.arm_server(server_key);
            return;
        }
        let listening = &mut self.registry.databases[server.database as usize].listening;
        ready.session.subscriptions(listening.losses).sends_mark(number);
        listening.marks.add(number, client_key);
        self.ask(server_key, Probe::of_mark(number));
        self.arm_server(server_key);
    }

    /// The server has sent the mark, and all notifications before it: the server may leave its channels now.
    pub(crate) fn marked(&mut self, server_key: ServerKey, client_key: ClientKey, probe: Probe) {
        let Some(server) = self.servers.get(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        let place = &mut self.registry.databases[server.database as usize];
        let subscriptions = ready.session.subscriptions(place.listening.losses);
        let number = probe.mark();
        if probe.end().is_some() && subscriptions.may_leave() {
            if let Some(session_effects) = &mut ready.session.session_effects {
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
        self.catch_up(server_key, client_key, self.now);
    }

    /// A client was imported from another process that listened for it. It gets no notifications until the listener of
    /// this process listens.
    pub(crate) fn comes_listening(&mut self, client: ClientKey, channels: Vec<Box<str>>) {
        let Some(ready) = self.clients.ready_mut(client) else { return };
        let database = self.registry.pool(ready.pool).map(|place| place.database);
        let Some(database) = database.filter(|_| !channels.is_empty()) else { return };
        ready
            .session
            .subscriptions(self.registry.databases[database as usize].listening.losses)
            .comes_with(channels.iter().cloned());
        for channel in channels {
            self.subscribe(client, database, channel);
        }
        self.tell_of_loss(client, true);
    }
}
