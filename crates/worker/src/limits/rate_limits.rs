//! The rules of rate limits that the workers share, and each worker's part in them.
//!
//! Always true: the lock is not taken for clients that no rule is about.
//! Not here: counting (`pool::Rates`), the order of delayed clients (`pool::Delayed`), delaying and rejecting (`rates`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Key, Time, Wall};
use config::Settings;
use pool::{Delayed, RateRow, Rates, Ticket};

/// The rules of the process and their counters, shared by the workers. The lock is not taken for clients that no rule
/// is about.
#[derive(Debug)]
pub struct RateLimits(Mutex<Rates>);

impl RateLimits {
    /// Creates the rules of these settings. The seed is secret.
    #[must_use]
    pub fn new(settings: &Settings, seed: [u8; 32]) -> Self {
        let limits = Self(Mutex::new(Rates::new(seed)));
        limits.put_in_force(settings);
        limits
    }

    /// Replaces the rules by those of these settings.
    pub fn put_in_force(&self, settings: &Settings) {
        self.rates().put_in_force(settings.rate_limits.values());
    }

    /// The state of the rules at this time, each with the moment since when it has been limiting, if it does.
    #[must_use]
    pub fn snapshot(&self, now: Time, wall: Wall) -> Vec<(RateRow, Option<Wall>)> {
        let moment = |since| Wall(wall.0 - now.since(since).as_micros() as i64);
        self.rates().snapshot().into_iter().map(|row| (row.clone(), row.limiting_since.map(moment))).collect()
    }

    pub(super) fn rates(&self) -> MutexGuard<'_, Rates> {
        // A panic ends the process, so no thread leaves the rules half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This worker's part in them.
#[derive(Debug, Default)]
pub(crate) struct Rating {
    /// Whether a rule counts logins, before and after authentication.
    pub(super) counts_knocks: bool,
    pub(super) counts_logins: bool,
    /// Whether a rule counts transactions.
    pub(super) counts_transactions: bool,
    /// Whether any client was ever rejected, so that a client may have a request to skip.
    pub(super) has_rejected: bool,
    pub(super) delayed: Delayed,
    /// When the timer is set to fire, for the next delayed client or the end of a limit.
    pub(super) armed: Option<Time>,
}

impl Rating {
    /// A client is no longer delayed.
    pub(crate) fn forget(&mut self, client: Key) {
        if !self.delayed.is_empty() {
            self.delayed.leave(client);
        }
    }
}

/// Whether a client comes for the first time or after a delay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comes {
    Anew,
    Again(Ticket),
}
