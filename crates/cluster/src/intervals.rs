//! How often members and agents are asked, and for how long an answer counts.
//!
//! Always true: while nothing happens, nobody is asked more often than ten times a second.
//! Not here: who is asked when (`cluster`, `agents`, `store`).

use std::time::Duration;

use base::Time;

use crate::cluster::Cluster;
use crate::event::Gate;

impl Cluster {
    /// The time until a member is checked again.
    pub(crate) fn interval(&self, now: Time) -> Duration {
        let is_new = self.without_since.is_some_and(|since| now.since(since) < HURRY_MAX);
        let is_hurried = is_new || self.switchover.is_some() || self.gate == Gate::Fenced || self.is_schedule_near();
        if is_hurried { HURRIED.min(self.terms.check_interval) } else { self.terms.check_interval }
    }

    /// The time until an agent, or the store, is asked again: not as often as members, since both read it from somewhere else.
    pub(crate) fn agent_interval(&self, now: Time) -> Duration {
        let interval = self.interval(now);
        let steady = if interval < self.terms.check_interval { interval } else { (interval * 2).min(AGENT_STEADY) };
        interval.max(steady).max(AGENT_INTERVAL_MIN)
    }

    /// How long the answer of an agent counts.
    pub(crate) fn answer_lasts(&self) -> Duration {
        (self.terms.check_interval * 3).max(ANSWER_LASTS_MIN)
    }
}

/// The time between two checks while there is no primary, or a switchover is under way,
const HURRIED: Duration = Duration::from_millis(100);
/// for the first minute of an outage.
const HURRY_MAX: Duration = Duration::from_secs(60);
/// Agents read what they answer from their store of configuration.
const AGENT_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// While all is well, once in a second is often enough.
const AGENT_STEADY: Duration = Duration::from_secs(1);
/// How long the answer of an agent counts at least.
const ANSWER_LASTS_MIN: Duration = Duration::from_secs(3);
