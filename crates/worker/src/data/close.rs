//! How clients are closed, and what is logged about it.
//!
//! Always true: a client that is closed gives back what it held: its server, its place in the wait queue, its slots,
//! its cancel key, its timer; the reason is logged before the last byte leaves.
//! Not here: why clients are closed; servers (`close_server`).

use base::Key;
use measure::{Closed, LoginOutcome};
use pool::{CloseReason, Event, Failure, FailureKind, Refusal, ServerKey};
use protocol::fault::{EndedBy, Fault};
use reactor::{Close, Io, Level};

use crate::admin::console::CONSOLE;
use crate::admission::applicant::LoginWait;
use crate::connections::outcome_of;
use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::close_server::closed_for;
use crate::data::server::Server;
use crate::letters::ToControl;
use crate::observe::spans::SpanError;
use crate::observe::tracers::What;
use crate::tasks::ClientClose;
use crate::upstream::dedicated::CLIENT_GONE;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Sends a client an error and closes it.
    pub(crate) fn fail_client(&mut self, key: Key, fault: &Fault) {
        if !self.is_closed_later(key, || ClientClose::Failed(Box::new(fault.clone()))) {
            self.fail_now(key, fault);
        }
    }

    /// Sends a client an error that is logged in another way, and closes the client.
    pub(crate) fn fail_client_unlogged(&mut self, key: Key, fault: &Fault) {
        if !self.is_closed_later(key, || ClientClose::Unlogged(Box::new(fault.clone()))) {
            self.close_with_words(key, fault);
        }
    }

    /// Closes a client that has gone, or that gets no error.
    pub(crate) fn part_from_client(&mut self, key: Key, why: &str) {
        if !self.is_closed_later(key, || ClientClose::Parted(why.into())) {
            self.part_now(key, why);
        }
    }

    /// Closes a client that has been given what was withheld from it.
    pub(crate) fn close_now(&mut self, key: Key, how: &ClientClose) {
        match how {
            ClientClose::Failed(fault) => self.fail_now(key, fault),
            ClientClose::Unlogged(fault) => self.close_with_words(key, fault),
            ClientClose::Parted(why) => self.part_now(key, why),
        }
    }

    fn fail_now(&mut self, key: Key, fault: &Fault) {
        if self.clients.get(key).is_none() {
            return;
        }
        let text = fault.text();
        let line = self.client_prefix(key);
        self.report_refused_login(key, fault);
        self.close_line(key, &text);
        if self.hands.active.settings.log_pooler_errors {
            let detail = fault.logged_detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
            self.hands.log.about(&line, Level::Warning, format_args!("pooler error: {text}{detail}"));
        }
        self.close_with_words(key, fault);
    }

    fn close_with_words(&mut self, key: Key, fault: &Fault) {
        self.trace_failure(key, fault);
        self.count_failed_client(key, fault);
        self.count_login_end(key, outcome_of(fault));
        if self.spans.is_on() {
            self.break_spans(key, SpanError::of(fault));
        }
        let Some(client) = self.clients.get(key) else { return };
        let conn = client.conn;
        let mut out = Vec::new();
        if !self.is_answer_torn(client) {
            fault.write(&mut out);
        }
        self.hands.io.send(conn, out.into());
        self.let_go(key);
        self.forget_client(key);
        self.hands.io.close(conn, Close::AfterSending);
    }

    /// Whether a client is in the middle of a message from its server, so that it would read an error of ours as a part
    /// of that message.
    fn is_answer_torn(&self, client: &Client) -> bool {
        match client.server() {
            Some(server) => self.servers.get(server).is_some_and(|server| server.session.is_in_message()),
            None => client.ready().is_some_and(|ready| ready.is_answer_torn),
        }
    }

    fn part_now(&mut self, key: Key, why: &str) {
        self.trace(key, |_, _| Some(What::Left { why: why.into() }));
        self.count_login_end(key, LoginOutcome::Gone);
        if self.spans.is_on() {
            self.break_spans(key, SpanError::Word("client_left"));
        }
        let Some(client) = self.clients.get(key) else { return };
        let conn = client.conn;
        // A peer that connects and sends nothing, such as a port check, is not worth a line.
        if !matches!(&client.stage, ClientStage::Greeting(greeting) if greeting.is_silent()) {
            self.close_line(key, why);
        }
        self.let_go(key);
        self.forget_client(key);
        self.hands.io.close(conn, Close::AfterSending);
    }

    /// Closes a client that has nothing to give back; the reason is logged only where `verbose` is on.
    pub(crate) fn drop_client(&mut self, key: Key, why: &str) {
        if let Some(client) = self.clients.get(key) {
            let conn = client.conn;
            if self.hands.active.settings.verbose > 0 {
                self.log_client(key, Level::Debug, format_args!("closing because: {why}"));
            }
            self.count_login_end(key, LoginOutcome::Refused);
            self.forget_client(key);
            self.hands.io.close(conn, Close::AfterSending);
        }
    }

    fn close_line(&mut self, key: Key, why: &str) {
        if !self.hands.active.settings.log_disconnections {
            return;
        }
        let Some(client) = self.clients.get(key).filter(|client| !client.is_own) else { return };
        let age = self.hands.now.since(client.since).as_secs();
        self.log_client(key, Level::Log, format_args!("closing because: {why} (age={age}s)"));
    }

    /// Takes a client away from its server or out of the queue that it waits in.
    fn let_go(&mut self, key: Key) {
        if let Some(spent) = self.count_transaction(key) {
            self.end_course(key, &spent);
        }
        self.stop_listening(key);
        self.listener_goes(key);
        let Some(client) = self.clients.get(key) else { return };
        match &client.stage {
            ClientStage::Ready(ready) => match ready.link {
                Link::Loan(server) => self.abandon(server, key),
                Link::Waiting(_) | Link::AsksReplica(_) => {
                    let pool = ready.pool;
                    self.tell_pools(Event::Left { pool, client: key });
                }
                Link::None | Link::Delayed(_) => {}
            },
            ClientStage::Login(login) => {
                let dedicating = login.dedicated_server();
                if let Some(pool) = login.waits_for() {
                    self.tell_pools(Event::Left { pool, client: key });
                }
                if let Some(server) = dedicating {
                    self.lose_server(server, Closed::Client, CLIENT_GONE);
                }
            }
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => {}
        }
    }

    /// Removes a client's row and everything that refers to it.
    pub(crate) fn forget_client(&mut self, key: Key) {
        let Some(client) = self.clients.remove(key) else { return };
        if let Some((timer, _)) = client.timer {
            self.hands.timers.remove(timer);
        }
        match &client.stage {
            ClientStage::Ready(ready) => {
                self.cancel.retire(ready.cancel_key.name(), &self.hands);
            }
            ClientStage::Console(console) => {
                self.cancel.retire(console.cancel_key().name(), &self.hands);
                (self.hands.posts.control)(ToControl::ConsoleLeft { from: self.hands.id, client: key });
            }
            ClientStage::Login(login) => self.withdraw_question(key, login.waits()),
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) => {}
        }
        self.limits.forget_delay(key);
        self.limits.forget_hold(key);
        if self.admin.is_resting() && matches!(client.stage, ClientStage::Console(_)) {
            self.mind_consoles();
        }
        self.unseat(key, &client);
    }

    /// A client that logs in goes: nobody needs the answer of the control thread any more that it waits for.
    fn withdraw_question(&mut self, client: Key, waits: &LoginWait) {
        let from = self.hands.id;
        match waits {
            LoginWait::Secret(_) | LoginWait::SecretAgain(_) => {
                (self.hands.posts.control)(ToControl::SecretUnneeded { from, client });
            }
            LoginWait::Verdict(..) => (self.hands.posts.control)(ToControl::ExternalAuthUnneeded { from, client }),
            LoginWait::SystemUser { .. } => (self.hands.posts.control)(ToControl::SystemUserUnneeded { from, client }),
            LoginWait::Hash(hashing) => self.hash_unneeded(client, hashing.user()),
            _ => {}
        }
    }

    /// A pool refuses a client a server.
    pub(crate) fn refuse(&mut self, key: Key, why: Refusal) {
        let mut pool = None;
        let is_unserved = matches!(why, Refusal::LoginFailed(_) | Refusal::LoginFailing(_));
        if is_unserved && let Some(Ready { link: Link::AsksReplica(since), .. }) = self.clients.ready(key) {
            let since = *since;
            return self.ask_primary(key, since);
        }
        if let Some(ready) = self.clients.ready_mut(key) {
            ready.link = Link::None;
            pool = Some(ready.pool);
        }
        let fault = match why {
            Refusal::QueryWaitTimeout(why) => {
                let since = self.clients.get(key).map_or(self.hands.now, |client| client.last_received);
                if let Some(place) = pool.and_then(|pool| self.registry.pool_mut(pool)) {
                    place.watched.has_waited(
                        self.hands.now,
                        self.hands.active.settings.log_pool_wait,
                        self.hands.now.since(since),
                    );
                }
                let why = pool.and_then(|pool| self.unserved(pool, why));
                Fault::QueryWaitTimeout { secs: self.hands.now.since(since).as_secs(), why }
            }
            Refusal::LoginFailed(Failure { kind, text, sqlstate, detail, hint, whose }) => {
                let sqlstate = sqlstate.filter(|_| kind == FailureKind::Refused).unwrap_or(*b"08P01");
                Fault::ServerSaid { sqlstate, text, detail, hint, whose }
            }
            // No host is what the database asks for, which is no matter of a login.
            Refusal::LoginFailing(Failure { text, sqlstate: Some(sqlstate), detail, hint, whose: None, .. }) => {
                Fault::ServerSaid { sqlstate, text, detail, hint, whose: None }
            }
            Refusal::LoginFailing(Failure { text, detail, hint, whose, .. }) => {
                Fault::ServerLoginFailing { cause: text, detail, hint, whose }
            }
            Refusal::DatabaseRemoved => Fault::DatabaseRemoved { by: EndedBy::Reload },
            Refusal::DedicatedRefused(failure) => match failure.sqlstate {
                Some(sqlstate) => Fault::ReplicationRefused { sqlstate, text: failure.text },
                None => Fault::server_said(*b"08P01", failure.text),
            },
        };
        pool.into_iter().for_each(|pool| self.fails_to_serve(pool, &fault.text()));
        self.fail_client(key, &fault);
    }

    /// A pool wants a server closed.
    pub(crate) fn close_for_pool(&mut self, key: ServerKey, why: CloseReason) {
        let client = self.servers.get(key).and_then(Server::client);
        let by = self.ender_of(key);
        self.count_evicted(key, why);
        self.unlink_from_client(key);
        self.drop_server(key, closed_for(why), why.as_str());
        self.tell_pools(Event::Closed { server: key });
        if let Some(client) = client {
            let fault = match why {
                CloseReason::DatabaseRemoved => Fault::DatabaseRemoved { by: EndedBy::Reload },
                _ => Fault::ConfigurationChanged { by },
            };
            self.fail_client(client, &fault);
        }
    }

    /// If a pool gives up a server for another pool of this worker, counts for which database and user it was evicted.
    fn count_evicted(&mut self, key: ServerKey, why: CloseReason) {
        let Some(server) = self.servers.get(key).filter(|server| server.is_counted) else { return };
        if closed_for(why) != Closed::Evicted {
            return;
        }
        let pool = server.pool;
        let by = (why == CloseReason::Evicted).then(|| self.pools.evicted_for(pool)).flatten();
        let by = by.and_then(|other| self.registry.pool(other));
        let nobody = || ("".into(), "".into());
        let (database, user) = by.map_or_else(nobody, |by| (by.database_name.clone(), by.user_name.clone()));
        if let Some(place) = self.registry.pool_mut(pool) {
            place.measured.count_eviction_for(database, user);
        }
    }

    /// A server, or all servers of its pool, are to be replaced.
    pub(crate) fn retired_by(&mut self, server: ServerKey, by: EndedBy) {
        let pool = self.servers.get(server).map(|server| server.pool);
        if let Some(place) = pool.and_then(|pool| self.registry.pool_mut(pool)) {
            place.retired_by = by;
        }
    }

    /// What had the servers of a pool replaced last.
    pub(crate) fn ender_of(&self, server: ServerKey) -> EndedBy {
        let pool = self.servers.get(server).and_then(|server| self.registry.pool(server.pool));
        pool.map_or(EndedBy::default(), |place| place.retired_by)
    }

    /// Tells the control thread if no console client is left who could resume a suspended process.
    pub(crate) fn mind_consoles(&mut self) {
        let is_console = |client: &Client| matches!(client.stage, ClientStage::Console(_));
        let is_here = self.hands.active.homes.home_of(CONSOLE) == self.hands.id;
        if is_here && !self.clients.iter().any(|(_, client)| is_console(client)) {
            (self.hands.posts.control)(ToControl::ConsolesGone);
        }
    }
}
