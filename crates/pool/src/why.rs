//! What the clients of a pool wait for, and for how long they have waited for each reason.
//!
//! Always true: at each moment all waiting clients of a pool wait for the same reason. The sum over all reasons is the time
//! that all clients have waited.

use base::Time;

use crate::pool::{Pool, Tables, first_since};
use crate::quotas::Demand;
use crate::reason::{WaitReason, Waited};
use crate::slot::State;
use crate::wait_period::QueueSample;

/// Measures how long the clients of one pool wait, by reason.
#[derive(Debug, Default)]
pub(crate) struct WaitMeter {
    waited: Waited,
    /// How many clients have waited since `since` for the reason `why`.
    waiting: u32,
    since: Time,
    why: Option<WaitReason>,
    /// The largest number of clients that waited at once since the last [`Pool::look_at_waits`].
    most: u32,
}

impl WaitMeter {
    /// Notes how many clients wait from now on, and for which reason.
    pub(crate) fn note(&mut self, now: Time, waiting: u32, why: Option<WaitReason>) {
        if let Some(why) = self.why.filter(|_| self.waiting > 0) {
            self.waited.add(why, self.since_noted(now));
        }
        (self.waiting, self.since, self.why) = (waiting, now, why);
        self.most = self.most.max(waiting);
    }

    /// The time waited up to now, by reason.
    pub(crate) fn so_far(&self, now: Time) -> Waited {
        let mut waited = self.waited;
        if let Some(why) = self.why {
            waited.add(why, self.since_noted(now));
        }
        waited
    }

    /// The time that all clients together have waited since the last note, in microseconds.
    fn since_noted(&self, now: Time) -> u64 {
        u64::from(self.waiting) * now.0.saturating_sub(self.since.0)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0
    }
}

impl Pool {
    /// What the waiting clients wait for; `None` if none waits.
    pub(crate) fn waits_for(&self, tables: &Tables) -> Option<WaitReason> {
        if self.waiting.is_empty() && self.dedicated.is_empty() && self.greeting.is_empty() {
            return None;
        }
        let is_dialing = self.servers.count(State::Dialing) + self.servers.count(State::Dedicating) > 0;
        let is_full = self.limits.ceiling().is_some_and(|ceiling| self.counted(tables) >= ceiling);
        Some(match self.demand {
            _ if self.is_held() => WaitReason::Held,
            _ if self.is_paused() => WaitReason::Paused,
            _ if self.logins.failure().is_some() => WaitReason::Unreachable,
            Demand::Room { .. } => WaitReason::DatabaseLimit,
            Demand::Grant(_) => WaitReason::UserLimit,
            Demand::None if is_full && !is_dialing => WaitReason::NoneFree,
            Demand::None if is_dialing || self.servers.coming() > 0 => WaitReason::Dialing,
            Demand::None => WaitReason::NoneFree,
        })
    }

    /// Returns the state of the wait queues, and resets the largest number of waiting clients.
    pub(crate) fn look_at_waits(&mut self, now: Time, tables: &Tables) -> QueueSample {
        let waiting = self.waiting.len() + self.dedicated.len() + self.greeting.len();
        QueueSample {
            most: std::mem::take(&mut self.waits.most).max(waiting),
            since: first_since([&self.waiting, &self.greeting, &self.dedicated], tables),
            why: self.waits_for(tables),
            waited: self.waits.so_far(now),
        }
    }

    /// Updates the meter with the present number of waiting clients and their reason.
    pub(crate) fn measure_waits(&mut self, now: Time, tables: &Tables) {
        let waiting = self.waiting.len() + self.dedicated.len();
        if waiting > 0 || !self.waits.is_idle() {
            let why = self.waits_for(tables);
            self.waits.note(now, waiting, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_who_wait_is_divided_by_what_they_wait_for() {
        let mut meter = WaitMeter::default();
        meter.note(Time(100), 1, Some(WaitReason::Dialing));
        meter.note(Time(150), 3, Some(WaitReason::NoneFree));
        assert_eq!(meter.so_far(Time(160)).total(), 50 + 30);
        meter.note(Time(250), 0, None);
        meter.note(Time(900), 2, Some(WaitReason::Paused));
        let waited = meter.so_far(Time(1000));
        let by_reason = WaitReason::ALL.map(|why| waited.of(why));
        assert_eq!(by_reason, [300, 0, 0, 50, 0, 200, 0]);
        assert!(WaitReason::ALL.iter().enumerate().all(|(place, why)| *why as usize == place));
        assert_eq!(waited.total(), 550);
    }
}
