//! Since when a server is made clean, and how long that may take.
//!
//! Always true: a server that is being made clean has a time by which it is clean, or is closed.
//! Not here: how far it is (`protocol::loan`), what is done (`begin_cleanup`, `cleanup`).

use std::time::Duration;

use base::Time;
use protocol::loan::Phase;

/// Since when a server is made clean, and how long that may take.
#[derive(Debug)]
pub(crate) struct Cleaning {
    pub(crate) since: Time,
    /// When the next cancel request is due: one that arrives before its query begins is ignored by PostgreSQL.
    pub(crate) cancel_again: Option<Time>,
    pub(super) cancel_pause: Duration,
    /// When it had last said something as the present cancel request was made; `None` if that request has not reached it.
    pub(super) heard: Option<Time>,
    /// Its query ran into `query_timeout`: the server has been waited for long enough.
    pub(super) is_hurried: bool,
    /// What it runs, if no client has left it.
    pub(super) query: Option<Query>,
}

/// A query of the pool's own, between two loans.
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

    /// When the server is closed if it is not clean by then.
    pub(crate) fn ends(&self, mend_timeout: Duration) -> Time {
        self.since + if self.is_hurried { mend_timeout.min(CANCEL_TAKES_MAX) } else { mend_timeout }
    }

    /// Which limit that is.
    pub(crate) fn too_late(&self) -> &'static str {
        if self.is_hurried { "it does not answer a cancel request after query_timeout" } else { "server_mend_timeout" }
    }

    /// Why it is closed if the query that it runs fails, if that is one of the pool's own.
    pub(crate) fn failure(&self) -> Option<&'static str> {
        Some(match self.query? {
            Query::Reset => "reset query failed",
            Query::Check => "test query failed",
        })
    }
}

/// For the console, by where its loan stands: more than PgBouncer's words tell.
pub(crate) fn detail(cleaning: &Cleaning, phase: Phase) -> &'static str {
    match (cleaning.query, phase) {
        (Some(Query::Reset), _) => "server_reset_query runs",
        (Some(Query::Check), _) => "server_check_query runs",
        (None, Phase::ProbingAlone) => "its client has left, it is asked what its session keeps",
        (None, Phase::AwaitingCancels) => "is clean, a cancel request at it is not over",
        (None, Phase::Doomed) => "is closed when its query has ended",
        (None, _) => "its client has left, it is made clean",
    }
}

/// In PgBouncer's words for the console, by where its loan stands.
pub(crate) fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Mending | Phase::AwaitingCancels | Phase::Doomed => "being_canceled",
        _ => "tested",
    }
}

/// How long a query that nobody waits for may outlive the first cancel request before it gets another; doubled each time.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// How long a query that ran into `query_timeout` may outlive its cancel request before its server is closed: a connection to the
/// postmaster and a new process, on a machine that has much to do.
const CANCEL_TAKES_MAX: Duration = Duration::from_millis(100);
