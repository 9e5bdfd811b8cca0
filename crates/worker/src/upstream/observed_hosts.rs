//! What this worker has seen of its hosts: whether they answer logins, their roles, and which are out of order.
//!
//! Always true: it changes with logins and reports only; a timer is asked for whenever the next attempt is due earlier than the last
//! one that was asked for.
//! Not here: what an attempt is (`failure`), how long one waits for it (`outages`).

use std::time::Duration;

use base::Time;
use measure::{HostRole, Hosts, KnownHost, LoginEnd};
use pool::PoolKey;

use crate::upstream::outages::{Outage, Outages};

/// The hosts of a worker.
#[derive(Debug, Default)]
pub(crate) struct ObservedHosts {
    states: Hosts,
    outages: Outages,
    /// For when a timer was asked for, if it has not fired.
    armed: Option<Time>,
    /// Whether there will be a look at which servers had better be at other hosts.
    is_move_armed: bool,
}

impl ObservedHosts {
    /// A login at a host has ended.
    pub(crate) fn login_ends(&mut self, now: Time, host: &str, end: LoginEnd<'_>) {
        self.states.login_ends(now, host, end);
    }

    /// Whether a host did not answer last.
    pub(crate) fn is_unreachable(&self, host: &str) -> bool {
        self.states.is_unreachable(host)
    }

    /// A server has reported the role of its host. Returns the former role, if it was another.
    pub(super) fn has_role(&mut self, now: Time, host: &str, role: HostRole) -> Option<HostRole> {
        self.states.has_role(now, host, role)
    }

    /// What is known of each host.
    pub(crate) fn rows(&self, now: Time) -> impl Iterator<Item = KnownHost> {
        self.states.rows(now)
    }

    /// A login of a pool has failed at all of these hosts. Returns when a timer has to fire, if none does in time.
    pub(super) fn outage_begins(&mut self, hosts: &str, pool: PoolKey, now: Time, longest: Duration) -> Option<Time> {
        self.outages.begins(hosts, pool, now, longest);
        self.arm()
    }

    /// One of these hosts has answered a login. Returns the outage, of which the pools need not wait any longer.
    pub(super) fn outage_ends(&mut self, hosts: impl FnOnce() -> Option<String>) -> Option<Outage> {
        if self.outages.is_empty() {
            return None;
        }
        self.outages.ends(&hosts()?)
    }

    /// A pool needs other hosts from now on.
    pub(crate) fn leave_outages(&mut self, pool: PoolKey) {
        self.outages.leaves(pool);
    }

    /// Whether a failed login at these hosts was logged less than `every` ago; if not, one is now.
    pub(super) fn is_outage_told(&mut self, hosts: impl FnOnce() -> String, now: Time, every: Duration) -> bool {
        !self.outages.is_empty() && self.outages.is_told(&hosts(), now, every)
    }

    /// A timer has fired. Returns for each outage of which the hosts are to be tried again a pool in which clients wait for them, and
    /// when a timer has to fire next.
    pub(super) fn due(
        &mut self,
        now: Time,
        longest: Duration,
        is_known: impl Fn(PoolKey) -> bool,
        waits: impl Fn(PoolKey) -> bool,
    ) -> (Vec<PoolKey>, Option<Time>) {
        self.armed = self.armed.filter(|at| *at > now);
        let due = self.outages.due(now, longest, is_known, waits);
        (due, self.arm())
    }

    /// There is to be a look at which servers had better be at other hosts. Returns whether a timer has to fire for that.
    pub(super) fn arm_moves(&mut self) -> bool {
        !std::mem::replace(&mut self.is_move_armed, true)
    }

    /// The timer for that look has fired.
    pub(super) fn moves_are_due(&mut self) {
        self.is_move_armed = false;
    }

    fn arm(&mut self) -> Option<Time> {
        let next = self.outages.next_deadline()?;
        let is_late = self.armed.is_none_or(|at| next < at);
        is_late.then(|| *self.armed.insert(next))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn one_timer_is_set_for_however_many_outages() {
        let mut hosts = ObservedHosts::default();
        let pool = |index| PoolKey { index, generation: NonZeroU32::MIN };
        let (longest, at) = (Duration::from_secs(15), |millis| Time::from_secs(1) + Duration::from_millis(millis));
        let begins =
            |hosts: &mut ObservedHosts, word: &str, millis| hosts.outage_begins(word, pool(1), at(millis), longest);
        assert_eq!(begins(&mut hosts, "a", 0), Some(at(100)));
        assert_eq!(begins(&mut hosts, "b", 50), None, "one fires before");
        assert!(hosts.outage_ends(|| Some("a".into())).is_some_and(|outage| outage.pools.len() == 1));
        assert_eq!(begins(&mut hosts, "a", 60), None, "the first timer is still to fire");
        let (due, next) = hosts.due(at(100), longest, |_| true, |_| true);
        assert_eq!((due.len(), next), (0, Some(at(150))));
        // A timer that fires too late for nobody sets no other one.
        assert_eq!(hosts.due(at(120), longest, |_| true, |_| true), (Vec::new(), None));
        let (due, next) = hosts.due(at(160), longest, |_| true, |_| true);
        assert_eq!((due.len(), next), (2, Some(at(260))));
        hosts.outage_ends(|| Some("a".into()));
        hosts.outage_ends(|| Some("b".into()));
        assert_eq!(hosts.due(at(260), longest, |_| true, |_| true), (Vec::new(), None));
        assert_eq!(begins(&mut hosts, "c", 300), Some(at(400)));
    }
}
