//! Errors of a server that are not for its client: in answer to our own queries, or unasked.
//!
//! Always true: a server that refuses its client's settings is never lent as if it had them; its client is sent the reason.
//! Not here: errors for the client (`protocol::loan`).

use std::time::Duration;

use base::Time;
use measure::Closed;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use protocol::loan::{Ended, Failed, Unlendable};
use protocol::state::{Kind, Preparation};
use reactor::{Io, Level};
use wire::notice::Notice;

use crate::data::cancelled::{QUERY_CANCELED, write_cancelled};
use crate::data::server::ServerStage;
use crate::tasks::Task;
use crate::upstream::cleanup::Query;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A server has sent an error that is not for its client.
    pub(crate) fn own_error(&mut self, key: ServerKey, body: &[u8]) {
        let Some(is_ours) = self.servers.get(key).map(|server| server.session.exchange.is_ours()) else { return };
        let notice = Notice::parse(body);
        if is_ours && (self.cannot_prepare(key, &notice) || self.has_disproved_role(key, &notice)) {
            return;
        }
        if let Some(server) =
            self.servers.get_mut(key).filter(|server| is_ours && server.session.server_statements.has_own())
        {
            server.session.server_statements.doubt_own();
        }
        if is_ours && (self.reset_failed(key, &notice) || self.reset_refused(key, &notice)) {
            return;
        }
        let Some(server) = self.servers.get(key) else { return };
        let line = self.server_prefix(key);
        let what = match (&server.stage, is_ours) {
            (ServerStage::Introducing, true) if server.session.phase.probe().is_none() => {
                "error while executing exec_on_query"
            }
            (_, true) => "error in a query of our own",
            (_, false) => "server said",
        };
        // A query that we have cancelled is expected to end with an error.
        let is_wanted = !is_ours && matches!(server.stage, ServerStage::Cleaning(_));
        // What is sent along in a batch of the client fails behind the client's own error.
        let is_lent = matches!(server.stage, ServerStage::Lent { .. });
        let is_behind_error = is_ours && is_lent && notice.sqlstate == IN_FAILED_SQL_TRANSACTION;
        let level = if is_wanted || is_behind_error { Level::Debug } else { Level::Warning };
        let (severity, message) = (&notice.severity, &notice.message);
        self.hands.log.about(&line, level, format_args!("{what}: {severity}: {message}"));
        if is_ours && notice.is_fatal() {
            // The server has failed, not only our query.
            self.server_gone(key);
        } else if is_ours {
            self.ours_failed(key, &notice);
        }
    }

    /// Returns whether the query that failed was the reset query. That fails after each loan if the query is wrong, so
    /// it is logged once in a while only.
    fn reset_failed(&mut self, key: ServerKey, notice: &Notice) -> bool {
        let Some(server) = self.servers.get(key).filter(|_| !notice.is_fatal()) else { return false };
        let (exchange, settings) = (&server.session.exchange, &self.hands.active.settings);
        let of_pool = settings.server_reset_query.as_ref().map(|reset| reset.at_work(exchange.owed()));
        let statement = match &server.stage {
            ServerStage::Cleaning(cleaning) if cleaning.query() == Some(Query::Reset) => of_pool,
            _ => server.session.phase.resets(exchange),
        };
        let Some(statement) = statement.map(Box::<str>::from) else { return false };
        let place = self.registry.pool_mut(server.pool);
        if let Some(count) = place.and_then(|place| place.failed_resets.happens(self.hands.now, RESET_TOLD_EVERY)) {
            let Notice { severity, message, .. } = notice;
            let closed = match count {
                1 => "the server is closed".to_owned(),
                _ => format!("{count} servers of this pool were closed for that since the last such line"),
            };
            let text = format_args!("server_reset_query fails at \"{statement}\": {severity}: {message}; {closed}");
            self.log_server(key, Level::Warning, text);
        }
        self.ours_failed(key, notice);
        true
    }

    /// Returns whether settings of another client cannot be reset for this one. That may happen after each transaction of
    /// the other, so it is logged once in a while only.
    fn reset_refused(&mut self, key: ServerKey, notice: &Notice) -> bool {
        let is_cancelled = notice.sqlstate == QUERY_CANCELED;
        let server = self.servers.get(key).filter(|server| !notice.is_fatal() && server.client().is_some());
        let Some(server) = server.filter(|server| server.session.cannot_be_reset(is_cancelled)) else { return false };
        let place = self.registry.pool_mut(server.pool);
        if let Some(count) = place.and_then(|place| place.refused_resets.happens(self.hands.now, RESET_TOLD_EVERY)) {
            let Notice { severity, message, .. } = notice;
            let more = if count > 1 { format!(" ({count} times since the last such line)") } else { String::new() };
            let text = format_args!(
                "settings of another client cannot be reset: {severity}: {message}; the server is cleaned, and the client gets another{more}"
            );
            self.log_server(key, Level::Warning, text);
        }
        self.ours_failed(key, notice);
        true
    }

    /// A query of our own failed.
    fn ours_failed(&mut self, key: ServerKey, notice: &Notice) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let since = server.session.phase.waits_since().unwrap_or(self.hands.now);
        let failed = server.session.ours_failed(notice.sqlstate == QUERY_CANCELED);
        match (&server.stage, failed) {
            (&ServerStage::Lent { client }, Failed::CancelledAlong) => {
                self.cancelled_along(key, client, &notice.message)
            }
            // A timeout that the previous session had set has ended the settings; no client is told.
            (&ServerStage::Lent { client }, Failed::BeforeUse) => {
                self.uncount(key);
                self.lose_before_use(key, client, since, "a limit of its session ended what it was told");
            }
            (&ServerStage::Lent { client }, Failed::NotTaken(ended)) => {
                if let Some(place) = self.registry.pool_mut(server.pool) {
                    place.accepted_parameters.forget_resets();
                }
                self.uncount(key);
                self.unlink_from_client(key);
                self.take_back(key, ended);
                self.fail_client(client, &Fault::InvalidServerParameter { why: notice.message.as_str().into() });
            }
            (&ServerStage::Lent { client }, Failed::NotReset(ended)) => {
                self.gets_another(key, client, since, ended, notice)
            }
            (ServerStage::Cleaning(cleaning), failed) => {
                let why = match failed {
                    Failed::NotClean(why) => Some(why.words()),
                    _ => cleaning.failure(),
                };
                if let Some(why) = why {
                    self.log_server(key, Level::Debug, format_args!("cannot be made clean"));
                    self.lose_server(key, Closed::Dirty, why);
                }
            }
            // Like PgBouncer, we go on after a connect_query that failed; the error has been logged.
            _ => {}
        }
    }

    /// A server cannot be brought from what another client has set to what this one needs: it is made anew, and the
    /// client, whose request is still held, waits for another.
    fn gets_another(&mut self, key: ServerKey, client_key: ClientKey, since: Time, ended: Ended, notice: &Notice) {
        let is_listener = self.clients.get(client_key).is_some_and(|client| client.is_listener);
        self.uncount(key);
        if is_listener {
            self.lose_before_use(key, client_key, since, Unlendable::NotTakenOver.words());
            return;
        }
        let is_missed = self.keeps_something(client_key);
        self.unlink_from_client(key);
        self.take_back(key, ended);
        match is_missed {
            true => {
                self.fail_client(client_key, &Fault::InvalidServerParameter { why: notice.message.as_str().into() })
            }
            false => self.want_again(client_key, since),
        }
    }

    /// Returns whether the query that failed was to prepare or deallocate a statement of the client on a server that
    /// was just lent.
    fn cannot_prepare(&mut self, key: ServerKey, notice: &Notice) -> bool {
        let Some(server) = self.servers.get_mut(key).filter(|_| !notice.is_fatal()) else { return false };
        let Some(preparation) = server.session.cannot_prepare() else { return false };
        if let Preparation::Prepare(name) = preparation {
            let database = server.database as usize;
            let text = format!("cannot prepare statement \"{name}\" of its client here: {}", notice.message);
            if self.registry.database_at_mut(database as u32).function_catalog.is_news(Kind::Statement, &text) {
                self.log_server(key, Level::Log, format_args!("{text}"));
            }
        }
        true
    }

    /// The settings that a server was sent along with a request were cancelled, and the request with them: its client
    /// gets the server's message.
    fn cancelled_along(&mut self, server: ServerKey, client_key: ClientKey, message: &str) {
        self.uncount(server);
        self.lose_server(server, Closed::Dirty, Unlendable::ToldCancelled.words());
        let Some(client) = self.clients.get(client_key) else { return };
        let mut out = Vec::new();
        write_cancelled(&mut out, message, "The server was being told the settings of the session.");
        self.hands.io.send(client.conn, out.into());
        self.hands.enqueue(Task::ForwardHeld(client_key));
        self.resume_client(client_key);
    }
}

/// `in_failed_sql_transaction`
const IN_FAILED_SQL_TRANSACTION: &str = "25P02";
/// How often at most it is logged that a pool's reset query fails, or that settings cannot be reset.
const RESET_TOLD_EVERY: Duration = Duration::from_secs(60);
