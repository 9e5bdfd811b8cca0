//! The cleanup of servers: reset query, check query, and servers whose clients left in the middle.
//!
//! Always true: a server is lent again only when it is proven clean; each cleanup has a deadline, after which the server is
//! closed.
//! Not here: whether a server can be cleaned, the messages for that, and the progress of a cleanup (`protocol::loan`).

use std::time::Duration;

use base::Time;
use config::CheckQuery;
use measure::Closed;
use pool::{Event, Fingerprint, PoolKey, Pools, Return, ServerKey};
use protocol::exchange::Exchange;
use protocol::loan::{Ended, LoanPhase, LoanPhaseKind};
use protocol::server::reset::ResetQuery;
use reactor::Io;
use wire::write;

use crate::data::probe::terms;
use crate::data::server::ServerStage;
use crate::letters::ActiveConfig;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Runs the reset query.
    pub(crate) fn reset(&mut self, key: ServerKey) {
        // A reload may have removed it.
        let reset = self.hands.active.settings.server_reset_query.clone().unwrap_or_else(|| ResetQuery::new(""));
        self.begin_query(key, Query::Reset, |exchange, out| reset.ask(exchange, out));
    }

    /// Runs the check query.
    pub(crate) fn check(&mut self, key: ServerKey) {
        let sql = match &self.hands.active.settings.server_check_query {
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
        server.enters(ServerStage::Cleaning(Cleaning::new(self.hands.now, server.last_received(), Some(query))));
        let mut out = Vec::new();
        ask(&mut server.session_mut().exchange, &mut out);
        self.hands.io.send(server.conn(), out.into());
        self.hear_server(key);
        self.arm_server(key);
    }

    /// A server's query has run into `query_timeout`. A healthy server answers the cancel request at once and is kept;
    /// a hanging one must not occupy its slot for another `server_mend_timeout`.
    pub(crate) fn hurry_cleaning(&mut self, key: ServerKey) {
        if let Some(ServerStage::Cleaning(cleaning)) = self.servers.get_mut(key).map(|server| server.stage_mut()) {
            cleaning.is_hurried = true;
            self.arm_server(key);
        }
    }

    /// Takes a server back from its client: it is returned to the pool, cleaned or closed.
    pub(crate) fn take_back(&mut self, key: ServerKey, ended: Ended) {
        match ended {
            Ended::Clean => {
                let Some(server) = self.servers.get_mut(key) else { return };
                server.enters(ServerStage::Idle);
                self.resume_server(key);
                self.give_back(key);
            }
            Ended::Unclean { out, is_cancelled } => {
                if let Some(server) = self.servers.get(key).filter(|_| !out.is_empty()) {
                    self.hands.io.send(server.conn(), out.into());
                }
                self.begin_cleaning(key);
                if is_cancelled {
                    self.cancel_server(key);
                }
            }
            Ended::Doomed(_) if self.cancel_server(key) => self.begin_cleaning(key),
            Ended::Doomed(why) | Ended::Closed(why) => self.lose_server(key, Closed::Dirty, why.words()),
        }
    }

    fn begin_cleaning(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.enters(ServerStage::Cleaning(Cleaning::new(self.hands.now, server.last_received(), None)));
        server.runs_nothing();
        self.resume_server(key);
        self.hear_server(key);
        self.tell_pools(Event::Returned { server: key, as_: Return::Cleanup, fingerprint: Fingerprint::default() });
        self.arm_server(key);
    }

    /// A cancel request at this server has finished.
    pub(crate) fn cancel_over(&mut self, key: ServerKey, was_sent: bool) {
        self.plan_another_cancel(key, was_sent);
        let Some(server) = self.servers.get_mut(key).filter(|_| was_sent) else { return };
        server.session_mut().cancels_sent -= 1;
        if server.session().cancels_sent == 0 {
            self.cancels_over(key);
        }
    }

    /// A cancel request at this server has finished. If the query of the client that left still runs, another one is
    /// planned. `was_sent` says that the postmaster has sent the signal.
    fn plan_another_cancel(&mut self, key: ServerKey, was_sent: bool) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let (ServerStage::Cleaning(cleaning), session) = server.stage_and_session() else { return };
        let is_wanted = match session.phase {
            LoanPhase::CleaningUp(_) => session.exchange.is_running(),
            LoanPhase::Doomed(_) => {
                cleaning.heard.take_if(|_| !was_sent);
                true
            }
            _ => false,
        };
        if is_wanted {
            cleaning.cancel_again = Some(self.hands.now + cleaning.cancel_pause);
            cleaning.cancel_pause *= 2;
            self.arm_server(key);
        }
    }

    /// Sends another cancel request, now that its time has come.
    pub(crate) fn cancel_again(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let last_received = server.last_received();
        let (ServerStage::Cleaning(cleaning), session) = server.stage_and_session() else { return };
        cleaning.cancel_again = None;
        if let LoanPhase::Doomed(why) = session.phase {
            let before = cleaning.heard.replace(last_received);
            // A server that stays silent after the signal waits for the rest of a message, or handles the signal
            // without our help.
            if before == Some(last_received) || !session.exchange.is_at_work() {
                self.lose_server(key, Closed::Dirty, why.words());
                return;
            }
        }
        if session.exchange.is_running() {
            self.cancel_server(key);
        }
        self.arm_server(key);
    }

    /// Continues the cleanup after the server's `ReadyForQuery`.
    pub(crate) fn continue_cleanup(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key).filter(|server| !server.session().would_be_cancelled()) else {
            return;
        };
        let (pool, last_received) = (server.pool(), server.last_received());
        let (ServerStage::Cleaning(cleaning), session) = server.stage_and_session() else { return };
        // The server answers, so it does not hang. Further queries that the client had pipelined may have to be
        // cancelled as well.
        cleaning.is_hurried = false;
        let (ended, knowledge) = match session.phase {
            LoanPhase::ProbingAlone(_) => {
                let place = self.registry.pool(pool);
                let told = session.probed_alone(place.map(|place| terms(place, &self.hands.active, self.hands.now)));
                if matches!(session.phase, LoanPhase::CleaningUp(_)) {
                    // The cleanup queries that follow the probe get a deadline of their own.
                    *cleaning = Cleaning::new(self.hands.now, last_received, None);
                }
                told
            }
            _ => (session.continue_ending(), None),
        };
        self.learn(key, knowledge);
        let Some(server) = self.servers.get_mut(key) else { return };
        match ended {
            Ended::Clean => {
                server.enters(ServerStage::Idle);
                // What it has reported meanwhile is not the doing of a client any more.
                self.role_reported(key);
                self.tell_pools(Event::Cleaned { server: key });
            }
            Ended::Unclean { out, .. } => {
                if !out.is_empty() {
                    self.hands.io.send(server.conn(), out.into());
                }
                self.arm_server(key);
            }
            Ended::Doomed(why) | Ended::Closed(why) => self.lose_server(key, Closed::Dirty, why.words()),
        }
    }

    /// The last cancel request at this server has finished.
    fn cancels_over(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        match server.stage() {
            ServerStage::Cleaning(_) => self.continue_cleanup(key),
            ServerStage::Lent { client, .. } => {
                let client = *client;
                if server.session().exchange.may_end()
                    && server.session().phase.probe().is_none()
                    && self.is_marked(client)
                {
                    self.end_loan_if_over(key, client);
                }
                self.hands.enqueue(Task::ForwardHeld(client));
            }
            _ => {}
        }
    }
}

/// The reset query that runs at the end of each loan of a pool, if any.
pub(crate) fn reset_of<'a>(pools: &Pools, active: &'a ActiveConfig, pool: PoolKey) -> Option<&'a ResetQuery> {
    let is_reset = pools.limits(pool).is_some_and(|limits| limits.reset);
    active.settings.server_reset_query.as_ref().filter(|_| is_reset)
}

/// When the cleanup of a server began, and its deadline.
#[derive(Debug)]
pub(crate) struct Cleaning {
    pub(super) since: Time,
    /// When the next cancel request is due: PostgreSQL ignores one that arrives before the query begins.
    pub(super) cancel_again: Option<Time>,
    pub(super) cancel_pause: Duration,
    /// Time of the server's last message when the current cancel request was sent; `None` if that request was not delivered.
    pub(super) heard: Option<Time>,
    /// The client's query ran into `query_timeout`, so the server has been waited for long enough.
    pub(super) is_hurried: bool,
    /// The pool's own query that runs; `None` if the server is cleaned because its client left in the middle.
    pub(super) query: Option<Query>,
}

/// A query that the pool itself runs between two loans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Query {
    /// The reset query.
    Reset,
    /// The check query.
    Check,
}

impl Cleaning {
    pub(super) fn new(since: Time, heard: Time, query: Option<Query>) -> Self {
        let (cancel_again, heard) = (None, Some(heard));
        Self { since, cancel_again, cancel_pause: CANCEL_AGAIN, heard, is_hurried: false, query }
    }

    /// When the next cancel request is due.
    pub(crate) fn cancel_again(&self) -> Option<Time> {
        self.cancel_again
    }

    /// The pool's own query that runs.
    pub(crate) fn query(&self) -> Option<Query> {
        self.query
    }

    /// When the server is closed unless it is clean by then.
    pub(crate) fn ends(&self, mend_timeout: Duration) -> Time {
        self.since + if self.is_hurried { mend_timeout.min(CANCEL_TAKES_MAX) } else { mend_timeout }
    }

    /// Names the limit that ends the cleanup.
    pub(crate) fn too_late(&self) -> &'static str {
        if self.is_hurried { "it does not answer a cancel request after query_timeout" } else { "server_mend_timeout" }
    }

    /// Why the server is closed if the pool's own query fails; `None` while no such query runs.
    pub(crate) fn failure(&self) -> Option<&'static str> {
        Some(match self.query? {
            Query::Reset => "reset query failed",
            Query::Check => "test query failed",
        })
    }
}

/// Describes the cleanup on the console, in more detail than PgBouncer's states.
pub(crate) fn detail(cleaning: &Cleaning, phase: LoanPhaseKind) -> &'static str {
    match (cleaning.query, phase) {
        (Some(Query::Reset), _) => "server_reset_query runs",
        (Some(Query::Check), _) => "server_check_query runs",
        (None, LoanPhaseKind::ProbingAlone) => "its client has left, it is asked what its session keeps",
        (None, LoanPhaseKind::AwaitingCancels) => "is clean, a cancel request at it is not over",
        (None, LoanPhaseKind::Doomed) => "is closed when its query has ended",
        (None, _) => "its client has left, it is made clean",
    }
}

/// The state of the server on the console, in PgBouncer's words.
pub(crate) fn word(phase: LoanPhaseKind) -> &'static str {
    match phase {
        LoanPhaseKind::CleaningUp | LoanPhaseKind::AwaitingCancels | LoanPhaseKind::Doomed => "being_canceled",
        _ => "tested",
    }
}

/// How long an abandoned query may outlive its first cancel request before it gets another; doubled each time.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// How long a query that ran into `query_timeout` may outlive its cancel request before its server is closed: enough
/// for a connection to the postmaster and the start of a process on a busy machine.
const CANCEL_TAKES_MAX: Duration = Duration::from_millis(100);
