//! The rules of rate limits that the workers share, and each worker's part in them.
//!
//! Always true: nobody takes the lock whom no rule is for.
//! Not here: counting (`pool::Rates`), the order of those who wait (`pool::Delayed`), what is done (`rates`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Key, Time, Wall};
use config::Settings;
use pool::{Delayed, RateRow, Rates, Ticket};

/// The rules of the process, and what they have counted: workers share them. Nobody takes the lock
/// whom no rule is for.
#[derive(Debug)]
pub struct RateLimits(Mutex<Rates>);

impl RateLimits {
    /// The rules of these settings. The seed is secret.
    #[must_use]
    pub fn new(settings: &Settings, seed: [u8; 32]) -> Self {
        let limits = Self(Mutex::new(Rates::new(seed)));
        limits.put_in_force(settings);
        limits
    }

    /// The rules of these settings hold from now on.
    pub fn put_in_force(&self, settings: &Settings) {
        self.rates().put_in_force(settings.rate_limits.values());
    }

    /// How they look at this time, each with the moment since when it holds somebody back, if it does.
    #[must_use]
    pub fn snapshot(&self, now: Time, wall: Wall) -> Vec<(RateRow, Option<Wall>)> {
        let moment = |since| Wall(wall.0 - now.since(since).as_micros() as i64);
        self.rates().snapshot().into_iter().map(|row| (row.clone(), row.limiting_since.map(moment))).collect()
    }

    pub(super) fn rates(&self) -> MutexGuard<'_, Rates> {
        // A panic ends the process: nobody leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This worker's part in them.
#[derive(Debug, Default)]
pub(crate) struct Rating {
    /// Whether a rule is for logins, before and after they have shown who they are.
    pub(super) counts_knocks: bool,
    pub(super) counts_logins: bool,
    /// Whether one is for transactions.
    pub(super) counts_transactions: bool,
    /// Whether a client has ever been rejected, so that one may have something to be skipped.
    pub(super) has_rejected: bool,
    pub(super) delayed: Delayed,
    /// When the next one of them is woken, or the end of a limit is looked for.
    pub(super) armed: Option<Time>,
}

impl Rating {
    /// A client is gone.
    pub(crate) fn forget(&mut self, client: Key) {
        if !self.delayed.is_empty() {
            self.delayed.leave(client);
        }
    }
}

/// Whether somebody who was held back comes again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comes {
    Anew,
    Again(Ticket),
}
