//! Limits: users, databases, rates, pins, channels, held clients, and slots that the workers share.
//!
//! Always true: whoever takes a slot gives it back; unused users, pools and databases are forgotten.
//! Not here: the servers of one pool and its wait queue (crate `pool`).

use base::{Key, WorkerId};
use pool::{LedgerKey, Letter};
use reactor::Io;

use crate::hands::Hands;
use crate::limits::held_clients::HeldClients;
use crate::limits::lending::Lending;
use crate::limits::rate_limits::Rating;

pub(crate) mod apply;
pub(crate) mod channels;
pub(crate) mod held_clients;
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
    held: HeldClients,
    /// Number of connections that were closed because of `max_unauthenticated_connections`.
    turned_away: u64,
}

impl Limits {
    pub(crate) fn new(id: WorkerId, workers: u8) -> Self {
        Self {
            lending: Lending::new(id, workers),
            rating: Rating::default(),
            held: HeldClients::default(),
            turned_away: 0,
        }
    }

    /// Gives a slot back that was granted to nobody who is still there.
    pub(crate) fn give_back<I: Io>(&mut self, key: &LedgerKey, hands: &Hands<I>) {
        self.lending.give(key, hands);
    }

    /// Handles a letter from another worker to the ledger.
    pub(crate) fn ledger_hears<I: Io>(&mut self, from: WorkerId, letter: Letter, hands: &Hands<I>) {
        self.lending.ledger_hears(from, letter, hands);
    }

    /// Whether a rate limit counts transactions.
    #[inline]
    pub(crate) fn counts_transactions(&self) -> bool {
        self.rating.counts_transactions
    }

    /// Whether any client was ever rejected, so that a client may have a request to skip.
    #[inline]
    pub(crate) fn has_rejected(&self) -> bool {
        self.rating.has_rejected
    }

    /// A client has come from another process with a request to skip.
    pub(crate) fn note_skips(&mut self) {
        self.rating.has_rejected = true;
    }

    /// A client is no longer delayed.
    pub(crate) fn forget_delay(&mut self, client: Key) {
        self.rating.forget(client);
    }

    /// Whether any client is held while its primary changes.
    #[inline]
    pub(crate) fn holds_clients(&self) -> bool {
        !self.held.is_empty()
    }

    /// A client no longer waits.
    pub(crate) fn forget_hold(&mut self, client: Key) {
        self.held.forget(client);
    }

    /// The clients of a database are not held any more.
    pub(crate) fn end_hold(&mut self, database: u32) {
        self.held.release(database);
    }

    /// How many clients were refused because of `hold_clients_max` or `hold_bytes_max`.
    pub(crate) fn hold_refused(&self) -> u64 {
        self.held.refused()
    }

    /// Number of connections that were closed because of `max_unauthenticated_connections`.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away
    }
}
