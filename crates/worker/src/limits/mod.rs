//! Limits: users, databases, rates, pins, channels, and slots that the workers share.
//!
//! Always true: whoever takes a slot gives it back; unused users, pools and databases are forgotten.
//! Not here: the servers of one pool and its wait queue (crate `pool`).

use base::{Key, WorkerId};

use crate::limits::lending::Lending;
use crate::limits::rate_limits::Rating;

pub(crate) mod apply;
pub(crate) mod channels;
pub(crate) mod granted;
pub(crate) mod lending;
pub(crate) mod newcomers;
pub(crate) mod pins;
pub(crate) mod rate_limits;
pub(crate) mod rates;
pub(crate) mod shared_slots;
pub(crate) mod sweep;
pub(crate) mod unauthenticated;
pub(crate) mod users;
pub(crate) mod woken;

/// A worker's part in the limits that workers share.
#[derive(Debug)]
pub(crate) struct Limits {
    lending: Lending,
    rating: Rating,
    /// Number of connections that were closed because of `max_unauthenticated_connections`.
    turned_away: u64,
}

impl Limits {
    pub(crate) fn new(id: WorkerId, workers: u8) -> Self {
        Self { lending: Lending::new(id, workers), rating: Rating::default(), turned_away: 0 }
    }

    /// A client is no longer delayed by a rate limit: it has disconnected or withdrawn its request.
    pub(crate) fn forget_delayed(&mut self, client: Key) {
        self.rating.forget(client);
    }

    /// A client arrives from another worker; it may have been rejected there and still have a request to skip.
    pub(crate) fn comes_rejected(&mut self) {
        self.rating.has_rejected = true;
    }

    /// Whether any client was ever rejected, so that a client may have a request to skip.
    pub(crate) fn have_rejected(&self) -> bool {
        self.rating.has_rejected
    }

    /// Whether any rate limit counts transactions.
    pub(crate) fn count_transactions(&self) -> bool {
        self.rating.counts_transactions
    }

    /// Number of connections that were closed because of `max_unauthenticated_connections`.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away
    }
}
