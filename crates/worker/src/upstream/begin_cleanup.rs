//! Cleaning begins: resets, checks, and servers that their clients left behind.
//!
//! Always true: a server that is not proven clean within its time is closed, never lent.
//! Not here: what becomes of a server, and what has to be said to it to make it clean (`protocol::loan`); what its answers mean (`cleanup`).

use config::CheckQuery;
use measure::Closed;
use pool::{Event, Fingerprint, PoolKey, Pools, Return, ServerKey};
use protocol::loan::{Ended, Life};
use reactor::Io;
use wire::write;

use crate::data::server::Stage;
use crate::letters::ActiveConfig;
use crate::upstream::cleaning::{Cleaning, Query};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Runs the reset query.
    pub(crate) fn reset(&mut self, key: ServerKey) {
        let sql = self.active.settings.server_reset_query.clone().unwrap_or_default();
        self.ask_server(key, &sql, Query::Reset);
    }

    /// Runs the check query.
    pub(crate) fn check(&mut self, key: ServerKey) {
        let sql = match &self.active.settings.server_check_query {
            CheckQuery::Sql(sql) => sql.to_string(),
            CheckQuery::Empty | CheckQuery::Off => String::new(),
        };
        self.ask_server(key, &sql, Query::Check);
    }

    fn ask_server(&mut self, key: ServerKey, sql: &str, query: Query) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let mut out = Vec::new();
        write::query(&mut out, sql);
        server.session.exchange.asks_ours();
        server.stage = Stage::Cleaning(Cleaning::new(self.now, server.heard, Some(query)));
        self.io.send(server.conn, out.into());
        self.hear_server(key);
        self.arm_server(key);
    }

    /// The query of a server has run into `query_timeout`. One that is well answers a cancel request at once, and is kept; one that hangs
    /// must not keep its place in the pool for as long again.
    pub(crate) fn hurry_cleaning(&mut self, key: ServerKey) {
        if let Some(Stage::Cleaning(cleaning)) = self.servers.get_mut(key).map(|server| &mut server.stage) {
            cleaning.is_hurried = true;
            self.arm_server(key);
        }
    }

    /// A client has its server no more: it is given back, made clean or closed.
    pub(crate) fn take_back(&mut self, key: ServerKey, ended: Ended) {
        match ended {
            Ended::Clean => {
                let Some(server) = self.servers.get_mut(key) else { return };
                server.stage = Stage::Idle;
                self.resume_server(key);
                self.give_back(key);
            }
            Ended::Unclean { out, is_cancelled } => {
                if let Some(server) = self.servers.get(key).filter(|_| !out.is_empty()) {
                    self.io.send(server.conn, out.into());
                }
                self.begin_cleaning(key);
                if is_cancelled {
                    self.cancel_server(key, None);
                }
            }
            Ended::Doomed(_) if self.cancel_server(key, None) => self.begin_cleaning(key),
            Ended::Doomed(why) | Ended::Closed(why) => self.lose_server(key, Closed::Dirty, why.words()),
        }
    }

    fn begin_cleaning(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.stage = Stage::Cleaning(Cleaning::new(self.now, server.heard, None));
        (server.query_since, server.xact_since) = (None, None);
        self.resume_server(key);
        self.hear_server(key);
        self.tell_pools(Event::Returned { server: key, as_: Return::Mending, fingerprint: Fingerprint::default() });
        self.arm_server(key);
    }

    /// A cancel request has come to its end: when the query of a client that left still runs, it gets another one. `was_sent` says that
    /// PostgreSQL has sent the signal.
    pub(crate) fn plan_another_cancel(&mut self, key: ServerKey, was_sent: bool) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let Stage::Cleaning(cleaning) = &mut server.stage else { return };
        let is_wanted = match server.session.life {
            Life::Mending(_) => server.session.exchange.is_running(),
            Life::Doomed(_) => {
                cleaning.heard.take_if(|_| !was_sent);
                true
            }
            _ => false,
        };
        if is_wanted {
            cleaning.cancel_again = Some(self.now + cleaning.cancel_pause);
            cleaning.cancel_pause *= 2;
            self.arm_server(key);
        }
    }

    /// The time for another cancel request has come.
    pub(crate) fn cancel_again(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let Stage::Cleaning(cleaning) = &mut server.stage else { return };
        cleaning.cancel_again = None;
        if let Life::Doomed(why) = server.session.life {
            let before = cleaning.heard.replace(server.heard);
            // A signal that is not answered has come to a server that waits for the rest of a message, or will be heeded all the same.
            if before == Some(server.heard) || !server.session.is_at_work() {
                self.lose_server(key, Closed::Dirty, why.words());
                return;
            }
        }
        if server.session.exchange.is_running() {
            self.cancel_server(key, None);
        }
        self.arm_server(key);
    }
}

/// The query that ends every loan of a pool, if any.
pub(crate) fn reset_of<'a>(pools: &Pools, active: &'a ActiveConfig, pool: PoolKey) -> Option<&'a str> {
    let is_reset = pools.limits(pool).is_some_and(|limits| limits.reset);
    active.settings.server_reset_query.as_deref().filter(|_| is_reset)
}
