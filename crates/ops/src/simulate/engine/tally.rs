//! What is counted during a run, by two ways that do not know of each other: times of each transaction, and areas under curves.
//!
//! Always true: counters only grow; what was counted before the end of the warm-up can be subtracted. Histograms hold transactions
//! that arrived after the warm-up only.
//! Not here: what the numbers mean (`outcome`), whether they agree (`conservation`).

use pool::{CloseReason, OpenReason};

use crate::load::Times;

/// Why a transaction got no server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    QueryWaitTimeout,
    MaxClientConn,
    LoginFailed,
    ApplicationFull,
}

impl Refused {
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::QueryWaitTimeout, "query_wait_timeout"),
        (Self::MaxClientConn, "max_client_conn"),
        (Self::LoginFailed, "login_failed"),
        (Self::ApplicationFull, "application_queue_full"),
    ];
}

/// The reasons for which servers are opened, in the order of their counters.
pub(crate) const OPENED: [(OpenReason, &str); 5] = [
    (OpenReason::Client, "client"),
    (OpenReason::MinPoolSize, "min_pool_size"),
    (OpenReason::Reserve, "reserve"),
    (OpenReason::Replication, "replication"),
    (OpenReason::Moved, "moved"),
];

/// The reasons for which servers are closed, in the order of their counters.
pub(crate) const CLOSED: [&str; 7] =
    ["evicted", "evicted_for_minimum", "idle_timeout", "lifetime", "too_many", "server_lost", "other"];

/// The counter of a reason.
pub(crate) fn closed_place(why: CloseReason) -> usize {
    match why {
        CloseReason::Evicted => 0,
        CloseReason::DatabaseClaimed => 1,
        CloseReason::IdleTooLong => 2,
        CloseReason::LifetimeOver => 3,
        CloseReason::TooManyServers => 4,
        _ => 6,
    }
}

/// The counter of servers that were lost in a restart.
pub(crate) const LOST: usize = 5;
/// The counter of servers that were closed for their age.
pub(crate) const LIFETIME: usize = 3;

/// What is counted for a tenant, or for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) arrived: u64,
    pub(crate) done: u64,
    /// Begun, and broken off by the server.
    pub(crate) failed: u64,
    pub(crate) refused: [u64; Refused::ALL.len()],
    /// How often a client got a server, and the sum of the waits for it.
    pub(crate) attached: u64,
    pub(crate) waited: u64,
    /// The sum of the times of transactions that have ended, from their arrival.
    pub(crate) in_system: u64,
    /// The sum of the times for which transactions that have ended had a server.
    pub(crate) held: u64,
    /// The sum of the statements' times in the server.
    pub(crate) executed: u64,
}

impl Counts {
    pub(crate) fn refusals(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// What was counted since.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut refused = self.refused;
        refused.iter_mut().zip(earlier.refused).for_each(|(now, before)| *now -= before);
        Self {
            arrived: self.arrived - earlier.arrived,
            done: self.done - earlier.done,
            failed: self.failed - earlier.failed,
            refused,
            attached: self.attached - earlier.attached,
            waited: self.waited - earlier.waited,
            in_system: self.in_system - earlier.in_system,
            held: self.held - earlier.held,
            executed: self.executed - earlier.executed,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.done += other.done;
        self.failed += other.failed;
        self.refused.iter_mut().zip(other.refused).for_each(|(sum, more)| *sum += more);
        self.attached += other.attached;
        self.waited += other.waited;
        self.in_system += other.in_system;
        self.held += other.held;
        self.executed += other.executed;
    }
}

/// What is counted for the servers of a pool, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ServerCounts {
    pub(crate) dialed: [u64; OPENED.len()],
    pub(crate) opened: u64,
    pub(crate) logins_failed: u64,
    /// Logins that were given up before they ended.
    pub(crate) given_up: u64,
    pub(crate) closed: [u64; CLOSED.len()],
}

impl ServerCounts {
    pub(crate) fn dials(&self) -> u64 {
        self.dialed.iter().sum()
    }

    pub(crate) fn closings(&self) -> u64 {
        self.closed.iter().sum()
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut counts = *self;
        counts.dialed.iter_mut().zip(earlier.dialed).for_each(|(now, before)| *now -= before);
        counts.closed.iter_mut().zip(earlier.closed).for_each(|(now, before)| *now -= before);
        counts.opened -= earlier.opened;
        counts.logins_failed -= earlier.logins_failed;
        counts.given_up -= earlier.given_up;
        counts
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.dialed.iter_mut().zip(other.dialed).for_each(|(sum, more)| *sum += more);
        self.closed.iter_mut().zip(other.closed).for_each(|(sum, more)| *sum += more);
        self.opened += other.opened;
        self.logins_failed += other.logins_failed;
        self.given_up += other.given_up;
    }
}

/// How many there are now, and the area under each curve so far: numbers times microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Areas {
    last: u64,
    pub(crate) now: Levels,
    pub(crate) area: Levels,
}

/// A number for each curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Levels {
    /// Transactions that have arrived and not ended.
    pub(crate) in_system: u64,
    /// Clients in the pooler's queues.
    pub(crate) waiting: u64,
    /// Servers that are lent.
    pub(crate) lent: u64,
    /// Servers whose login is complete and that are not being closed.
    pub(crate) open: u64,
    /// Clients of the pooler.
    pub(crate) clients: u64,
}

impl Areas {
    /// Adds what lies under the curves up to this time.
    pub(crate) fn advance(&mut self, now: u64) {
        let time = now - self.last;
        self.last = now;
        self.area.in_system += self.now.in_system * time;
        self.area.waiting += self.now.waiting * time;
        self.area.lent += self.now.lent * time;
        self.area.open += self.now.open * time;
        self.area.clients += self.now.clients * time;
    }
}

/// A part of the run, for batch means and to see whether the run was steady.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Slice {
    pub(crate) attached: u64,
    pub(crate) waited: u64,
    pub(crate) done: u64,
}

/// What is told apart by group.
#[derive(Clone, Debug)]
pub(crate) struct GroupTimes {
    pub(crate) waits: Times,
    pub(crate) responses: Times,
}
