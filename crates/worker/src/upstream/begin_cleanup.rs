//! Begins the cleanup of servers: reset query, check query, and servers whose clients left in the middle.
//!
//! Always true: a server that is not proven clean within its time is closed and never lent again.
//! Not here: whether a server can be cleaned, and the messages for that (`protocol::loan`); the server's answers (`cleanup`).

use config::CheckQuery;
use measure::Closed;
use pool::{Event, Fingerprint, PoolKey, Pools, Return, ServerKey};
use protocol::exchange::Exchange;
use protocol::loan::{Ended, Life};
use protocol::server::reset::ResetQuery;
use reactor::Io;
use wire::write;

use crate::data::server::ServerStage;
use crate::letters::ActiveConfig;
use crate::upstream::cleaning::{Cleaning, Query};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Runs the reset query.
    pub(crate) fn reset(&mut self, key: ServerKey) {
        // A reload may have removed it.
        let reset = self.active.settings.server_reset_query.clone().unwrap_or_else(|| ResetQuery::new(""));
        self.begin_query(key, Query::Reset, |exchange, out| reset.ask(exchange, out));
    }

    /// Runs the check query.
    pub(crate) fn check(&mut self, key: ServerKey) {
        let sql = match &self.active.settings.server_check_query {
            CheckQuery::Sql(sql) => sql.to_string(),
            CheckQuery::Empty | CheckQuery::Off => String::new(),
        };
        self.begin_query(key, Query::Check, |exchange, out| {
            write::query(out, &sql);
            exchange.asks_ours();
        });
    }

    fn begin_query(&mut self, key: ServerKey, query: Query, ask: impl FnOnce(&mut Exchange, &mut Vec<u8>)) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.stage = ServerStage::Cleaning(Cleaning::new(self.now, server.last_received, Some(query)));
        let mut out = Vec::new();
        ask(&mut server.session.exchange, &mut out);
        self.io.send(server.conn, out.into());
        self.hear_server(key);
        self.arm_server(key);
    }

    /// A server's query has run into `query_timeout`. A healthy server answers the cancel request at once and is kept;
    /// a hanging one must not occupy its slot for another `server_mend_timeout`.
    pub(crate) fn hurry_cleaning(&mut self, key: ServerKey) {
        if let Some(ServerStage::Cleaning(cleaning)) = self.servers.get_mut(key).map(|server| &mut server.stage) {
            cleaning.is_hurried = true;
            self.arm_server(key);
        }
    }

    /// Takes a server back from its client: it is returned to the pool, cleaned or closed.
    pub(crate) fn take_back(&mut self, key: ServerKey, ended: Ended) {
        match ended {
            Ended::Clean => {
                let Some(server) = self.servers.get_mut(key) else { return };
                server.stage = ServerStage::Idle;
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
        server.stage = ServerStage::Cleaning(Cleaning::new(self.now, server.last_received, None));
        (server.query_since, server.xact_since) = (None, None);
        self.resume_server(key);
        self.hear_server(key);
        self.tell_pools(Event::Returned { server: key, as_: Return::Cleanup, fingerprint: Fingerprint::default() });
        self.arm_server(key);
    }

    /// A cancel request at this server has finished. If the query of the client that left still runs, another one is
    /// planned. `was_sent` says that the postmaster has sent the signal.
    pub(crate) fn plan_another_cancel(&mut self, key: ServerKey, was_sent: bool) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let ServerStage::Cleaning(cleaning) = &mut server.stage else { return };
        let is_wanted = match server.session.life {
            Life::CleaningUp(_) => server.session.exchange.is_running(),
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

    /// Sends another cancel request, now that its time has come.
    pub(crate) fn cancel_again(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let ServerStage::Cleaning(cleaning) = &mut server.stage else { return };
        cleaning.cancel_again = None;
        if let Life::Doomed(why) = server.session.life {
            let before = cleaning.heard.replace(server.last_received);
            // A server that stays silent after the signal waits for the rest of a message, or handles the signal
            // without our help.
            if before == Some(server.last_received) || !server.session.exchange.is_at_work() {
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

/// The reset query that runs at the end of each loan of a pool, if any.
pub(crate) fn reset_of<'a>(pools: &Pools, active: &'a ActiveConfig, pool: PoolKey) -> Option<&'a ResetQuery> {
    let is_reset = pools.limits(pool).is_some_and(|limits| limits.reset);
    active.settings.server_reset_query.as_ref().filter(|_| is_reset)
}
