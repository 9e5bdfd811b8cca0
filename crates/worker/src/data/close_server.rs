//! How servers are closed, and what is logged about it.
//!
//! Always true: the client of a closed server has no server any more; its pool is told.
//! Not here: why servers are closed; the errors for their clients (`loss`).

use measure::{Closed, Opened};
use pool::{CloseReason, Event, OpenReason, ServerKey};
use reactor::{Close, Io, Level};
use wire::{frontend, write};

use crate::data::client::Link;
use crate::data::server::{Server, ServerStage};
use crate::letters::{HashAsker, ToControl};
use crate::observe::spans::SpanError;
use crate::observe::tracers::What;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Closes a server that cannot be used any more, and tells its pool.
    pub(crate) fn lose_server(&mut self, key: ServerKey, cause: Closed, why: &str) {
        if let Some(client) = self.servers.get(key).and_then(Server::client) {
            self.trace(client, |_, _| Some(What::Lost { why: why.into() }));
        }
        self.unlink_from_client(key);
        self.drop_server(key, cause, why);
        self.tell_pools(Event::Lost { server: key });
    }

    /// Takes a server that goes away from its client, if it has one.
    pub(crate) fn unlink_from_client(&mut self, key: ServerKey) {
        if self.spans.is_on()
            && let Some(client) = self.servers.get(key).and_then(Server::client)
        {
            self.break_spans_of(client, key, SpanError::Word("server_lost"));
        }
        let Some(server) = self.servers.get(key) else { return };
        if let Some(client) = server.client()
            && let Some(ready) = self.clients.ready_mut(client)
        {
            ready.link = Link::None;
            ready.is_answer_torn = server.session.is_in_message();
        }
    }

    /// Removes a server's row and closes the connection, with a Terminate if the server can read one.
    pub(crate) fn drop_server(&mut self, key: ServerKey, cause: Closed, why: &str) {
        self.report_closed_server(key, cause, why);
        self.count_lost_server(key, cause, why);
        if self.hands.active.settings.log_disconnections
            && let Some(server) = self.servers.get(key)
        {
            let age = self.hands.now.since(server.since).as_secs();
            self.log_server(key, self.dial_level(key, Level::Log), format_args!("closing because: {why} (age={age}s)"));
        }
        self.unpledge(key);
        let hears = self.hears_dedicated(key);
        let Some(server) = self.servers.remove(key) else { return };
        if server.is_counted
            && let Some(place) = self.registry.pool_mut(server.pool)
        {
            place.measured.closes(cause);
        }
        if let Some((timer, _)) = server.timer {
            self.hands.timers.remove(timer);
        }
        if matches!(&server.stage, ServerStage::Login(login) if login.is_awaiting_salted()) {
            (self.hands.posts.control)(ToControl::HashUnneeded { from: self.hands.id, asker: HashAsker::Server(key) });
        }
        if matches!(server.stage, ServerStage::Securing(_)) {
            // The last TLS messages are still to be sent.
            self.hands.io.close(server.conn, Close::AfterSending);
        } else if hears
            || server.session.exchange.owes_nothing()
                && !matches!(server.stage, ServerStage::Connecting(_) | ServerStage::Resolving)
        {
            let mut out = Vec::new();
            write::bare(&mut out, frontend::TERMINATE);
            self.hands.io.send(server.conn, out.into());
            self.hands.io.close(server.conn, Close::AfterSending);
        } else {
            self.hands.io.close(server.conn, Close::Now);
        }
    }

    /// A server has logged in, and counts as opened.
    pub(crate) fn count_opened(&mut self, key: ServerKey, why: Option<Opened>) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.is_counted = true;
        let why = why.unwrap_or(server.opened_for);
        if let Some(place) = self.registry.pool_mut(server.pool) {
            place.measured.opens(why);
        }
    }

    /// A server goes: if it was being dialed as a dedicated server, its client waits for another one.
    pub(crate) fn unpledge(&mut self, key: ServerKey) {
        let Some(dedicated) = self.servers.get(key).and_then(|server| server.dedicated.as_ref()) else { return };
        if let Some(login) = self.clients.login_mut(dedicated.client())
            && login.dedicated_server() == Some(key)
        {
            login.has_lost_server();
        }
    }

    /// Whether a dedicated server can be sent a Terminate: a walsender that streams reads all the time, but only while
    /// its client stands between two messages.
    pub(crate) fn hears_dedicated(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        let Some(dedicated) = server.dedicated.as_ref().filter(|_| server.session.exchange.is_copying_in()) else {
            return false;
        };
        self.clients.ready(dedicated.client()).is_some_and(|ready| !ready.session.is_torn())
    }
}

/// The cause under which a pool's reason for closing a server is counted.
pub(crate) fn closed_for(why: CloseReason) -> Closed {
    match why {
        CloseReason::IdleTooLong => Closed::Idle,
        CloseReason::LifetimeOver => Closed::Lifetime,
        CloseReason::Evicted | CloseReason::DatabaseClaimed => Closed::Evicted,
        CloseReason::ConfigurationChanged
        | CloseReason::ConnectStringChanged
        | CloseReason::CloseNeeded
        | CloseReason::Obsolete
        | CloseReason::TooManyServers
        | CloseReason::DatabaseRemoved => Closed::Obsolete,
        CloseReason::Moved => Closed::Moved,
        CloseReason::Killed => Closed::Killed,
        CloseReason::PauseMode | CloseReason::Held => Closed::Paused,
    }
}

/// The cause under which a pool's reason for opening a server is counted.
pub(crate) fn opened_for(why: OpenReason) -> Opened {
    match why {
        OpenReason::Client => Opened::Client,
        OpenReason::MinPoolSize => Opened::MinPoolSize,
        OpenReason::Reserve => Opened::Reserve,
        OpenReason::Replication => Opened::Replication,
        OpenReason::Moved => Opened::Moved,
    }
}
