//! When the cleanup of a server began, and its deadline.
//!
//! Always true: each cleanup has a deadline, after which the server is closed.
//! Not here: the progress of a cleanup (`protocol::loan`), its messages (`begin_cleanup`, `cleanup`).

use std::time::Duration;

use base::Time;
use protocol::loan::Phase;

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

/// The state of the server on the console, in PgBouncer's words.
pub(crate) fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::CleaningUp | Phase::AwaitingCancels | Phase::Doomed => "being_canceled",
        _ => "tested",
    }
}

/// How long an abandoned query may outlive its first cancel request before it gets another; doubled each time.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// How long a query that ran into `query_timeout` may outlive its cancel request before its server is closed: enough
/// for a connection to the postmaster and the start of a process on a busy machine.
const CANCEL_TAKES_MAX: Duration = Duration::from_millis(100);
