//! What there may be, and how much of it: users, databases, rates, places that workers share.
//!
//! Always true: what is counted is given back by whoever took it; what nobody uses is forgotten.
//! Not here: servers of one pool and their queue (crate `pool`).

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
    /// How many connections have not had, or kept, a place among those that have not logged in.
    turned_away: u64,
}

impl Limits {
    pub(crate) fn new(id: WorkerId, workers: u8) -> Self {
        Self { lending: Lending::new(id, workers), rating: Rating::default(), turned_away: 0 }
    }

    /// A client is held back by a rate limit no longer: it has gone, or has taken its request back.
    pub(crate) fn forget_delayed(&mut self, client: Key) {
        self.rating.forget(client);
    }

    /// A client comes that may have been rejected elsewhere, and have something to be skipped.
    pub(crate) fn comes_rejected(&mut self) {
        self.rating.has_rejected = true;
    }

    /// Whether a client has ever been rejected, so that one may have something to be skipped.
    pub(crate) fn have_rejected(&self) -> bool {
        self.rating.has_rejected
    }

    /// Whether a rate limit is for transactions.
    pub(crate) fn count_transactions(&self) -> bool {
        self.rating.counts_transactions
    }

    /// How many connections have not had, or kept, a place among those that have not logged in.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away
    }
}
