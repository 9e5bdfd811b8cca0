//! Why and since when a server is made clean.
//!
//! Always true: a server that is being made clean has a time by which it is clean, or is closed.
//! Not here: what is done (`mend`, `cleanup`).

use std::time::Duration;

use base::Time;
use protocol::exchange::Exchange;
use protocol::loan::Phase;
use protocol::server::mend::{Mend, Progress};

/// Why and since when a server is made clean.
#[derive(Debug)]
pub(crate) struct Cleaning {
    pub(crate) since: Time,
    /// When the next cancel request is due: one that arrives before its query begins is ignored by PostgreSQL.
    pub(crate) cancel_again: Option<Time>,
    pub(super) cancel_pause: Duration,
    /// Its query ran into `query_timeout`: the server has been waited for long enough.
    pub(super) is_hurried: bool,
    /// What it was being told when its client left it.
    pub(super) told: Option<Phase>,
    pub(super) kind: Kind,
}

impl Cleaning {
    pub(super) fn new(since: Time, kind: Kind) -> Self {
        Self { since, cancel_again: None, cancel_pause: CANCEL_AGAIN, is_hurried: false, told: None, kind }
    }

    /// When the server is closed if it is not clean by then.
    pub(crate) fn ends(&self, mend_timeout: Duration) -> Time {
        self.since + if self.is_hurried { mend_timeout.min(CANCEL_TAKES_MAX) } else { mend_timeout }
    }

    /// Which limit that is.
    pub(crate) fn too_late(&self) -> &'static str {
        if self.is_hurried { "it does not answer a cancel request after query_timeout" } else { "server_mend_timeout" }
    }

    /// What its client had it told, if it has not answered all of that yet.
    pub(crate) fn was_applying(&self) -> Option<Phase> {
        self.told.filter(|_| matches!(&self.kind, Kind::Mend(mend) if mend.is_draining()))
    }

    /// Whether it still answers what it was asked before, and is told to discard all that its session has then.
    pub(crate) fn will_discard_all(&self) -> bool {
        matches!(&self.kind, Kind::Mend(mend) if mend.is_draining() && mend.will_run(DISCARD_ALL))
    }

    /// Why it is closed when what we have asked fails, or `is_cancelled`.
    pub(crate) fn failure(&self, is_cancelled: bool) -> &'static str {
        match self.kind {
            _ if self.was_applying().is_some() => {
                if is_cancelled {
                    TOLD_CANCELLED
                } else {
                    NOT_TAKEN_OVER
                }
            }
            Kind::Reset => "reset query failed",
            Kind::Check => "test query failed",
            Kind::Probe | Kind::Mend(_) | Kind::AwaitCancels | Kind::Doomed { .. } => "could not be made clean",
        }
    }

    /// For the console, more than PgBouncer's words tell.
    pub(crate) fn detail(&self) -> &'static str {
        match self.kind {
            Kind::Reset => "server_reset_query runs",
            Kind::Check => "server_check_query runs",
            Kind::Probe => "its client has left, it is asked what its session keeps",
            Kind::Mend(_) => "its client has left, it is made clean",
            Kind::AwaitCancels => "is clean, a cancel request at it is not over",
            Kind::Doomed { .. } => "is closed when its query has ended",
        }
    }

    /// In PgBouncer's words for the console.
    pub(crate) fn word(&self) -> &'static str {
        match self.kind {
            Kind::Reset | Kind::Check | Kind::Probe => "tested",
            Kind::Mend(_) | Kind::AwaitCancels | Kind::Doomed { .. } => "being_canceled",
        }
    }
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// The reset query runs.
    Reset,
    /// The check query runs.
    Check,
    /// Its client left it behind while it was asked what it has.
    Probe,
    /// Its client left it behind.
    Mend(Mend),
    /// It is clean, but cancel requests at it have not come to their end.
    AwaitCancels,
    /// It will be closed, for this reason, as soon as it does nothing any more. `heard` is when it had last said something as the present
    /// cancel request was made; `None` if that request has not reached it.
    Doomed { why: &'static str, heard: Option<Time> },
}

/// How long a query that nobody waits for may outlive the first cancel request before it gets another; doubled each time.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// How long a query that ran into `query_timeout` may outlive its cancel request before its server is closed: a connection to the
/// postmaster and a new process, on a machine that has much to do.
const CANCEL_TAKES_MAX: Duration = Duration::from_millis(100);

/// Why a server is closed that may answer more than it was asked. See [`Exchange::is_proven`].
pub(crate) const UNPROVEN: &str = "unproven after a failed COPY";
/// Why one is closed that does not take what its client has set.
pub(crate) const NOT_TAKEN_OVER: &str = "invalid server parameter";
/// Why one is closed of which nobody knows whether it has taken it.
pub(crate) const TOLD_CANCELLED: &str = "what it was told has been cancelled";
/// Why one is closed with which PostgreSQL 18 would fail whatever comes next.
const MIXED: &str = "Query or FunctionCall in a batch of the extended protocol";

/// What gives a server back as it was when it logged in.
pub(crate) const DISCARD_ALL: &str = "DISCARD ALL";

/// Why a server cannot be mended: because of what it has been sent, or because of `otherwise`.
pub(crate) fn hopeless(exchange: &Exchange, otherwise: &'static str) -> &'static str {
    if exchange.may_be_lent() { otherwise } else { unfit(exchange) }
}

/// Why a server is closed that may not be lent again ([`Exchange::may_be_lent`]).
pub(crate) fn unfit(exchange: &Exchange) -> &'static str {
    if exchange.is_proven() { MIXED } else { UNPROVEN }
}

/// Whether a server does something that a cancel request ends. A COPY that waits for its data ends with the connection.
pub(crate) fn is_at_work(exchange: &Exchange) -> bool {
    exchange.is_running() && !exchange.is_copying_in()
}

/// A server that answered our one question is clean if it stands outside a transaction.
pub(crate) fn proven(exchange: &Exchange) -> Progress {
    match (exchange.owes_nothing(), exchange.may_end()) {
        (_, true) => Progress::Clean,
        (true, false) => Progress::Hopeless,
        (false, false) => Progress::Wait,
    }
}
