//! Hosts that are out of order, and when they are tried again while clients wait.
//!
//! Always true: of all pools that need the same hosts, one at a time tries them again, after an eighth of the time that the outage has
//! lasted so far; so an outage of a second is noticed to be over after a tenth of a second, and one of an hour does not cost the
//! host a login for each pool and second.
//! Not here: the pause of each pool by itself (`pool::dial`), the logins (`login`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Time;
use pool::PoolKey;

/// The outages of a worker, by the hosts that they concern.
#[derive(Debug, Default)]
pub(crate) struct Outages(BTreeMap<Box<str>, Outage>);

/// One outage.
#[derive(Debug)]
pub(super) struct Outage {
    /// When the first login failed.
    pub(super) since: Time,
    /// When the hosts are tried again.
    next: Time,
    /// When a failed login was last logged.
    told: Time,
    /// The pools of which a login has failed.
    pub(super) pools: BTreeSet<PoolKey>,
}

impl Outages {
    /// Whether no outage is known.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A login of a pool has failed at all of these hosts. `longest` is the longest pause until they are tried again.
    pub(super) fn begins(&mut self, hosts: &str, pool: PoolKey, now: Time, longest: Duration) {
        if !self.0.contains_key(hosts) {
            self.0.insert(hosts.into(), Outage { since: now, next: now, told: now, pools: BTreeSet::new() });
        }
        if let Some(outage) = self.0.get_mut(hosts) {
            // Nobody has needed them for so long that this may be another outage.
            if now >= outage.next + longest.max(PAUSE_MIN) {
                outage.since = now;
            }
            outage.pools.insert(pool);
            outage.next = now + pause(now.since(outage.since), longest);
        }
    }

    /// One of these hosts has answered a login. Returns the outage, of which the pools need not wait any longer.
    pub(super) fn ends(&mut self, hosts: &str) -> Option<Outage> {
        self.0.remove(hosts)
    }

    /// A pool needs other hosts from now on.
    pub(super) fn leaves(&mut self, pool: PoolKey) {
        self.0.retain(|_, outage| {
            outage.pools.remove(&pool);
            !outage.pools.is_empty()
        });
    }

    /// Whether a failed login at these hosts is not worth a line: one was logged less than `every` ago.
    pub(super) fn is_told(&mut self, hosts: &str, now: Time, every: Duration) -> bool {
        let Some(outage) = self.0.get_mut(hosts) else { return false };
        let is_told = now < outage.told + every;
        if !is_told {
            outage.told = now;
        }
        is_told
    }

    /// When hosts are to be tried again.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.0.values().map(|outage| outage.next).min()
    }

    /// The hosts that are to be tried again now: for each outage the pools that need them. An outage is over for the pools that
    /// `is_known` does not know any more.
    pub(super) fn due(
        &mut self,
        now: Time,
        longest: Duration,
        is_known: impl Fn(PoolKey) -> bool,
    ) -> Vec<Vec<PoolKey>> {
        self.0.retain(|_, outage| {
            outage.pools.retain(|pool| is_known(*pool));
            !outage.pools.is_empty()
        });
        let mut due = Vec::new();
        for outage in self.0.values_mut().filter(|outage| outage.next <= now) {
            outage.next = now + pause(now.since(outage.since), longest);
            due.push(outage.pools.iter().copied().collect());
        }
        due
    }
}

/// The pause until hosts are tried again that have been out of order for this time.
fn pause(lasted: Duration, longest: Duration) -> Duration {
    (lasted / 8).clamp(PAUSE_MIN, longest.max(PAUSE_MIN))
}

/// The shortest pause.
const PAUSE_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(15);

    fn pool(index: u32) -> PoolKey {
        PoolKey { index, generation: NonZeroU32::MIN }
    }

    fn at(millis: u64) -> Time {
        Time::from_secs(100) + Duration::from_millis(millis)
    }

    #[test]
    fn a_short_outage_is_tried_often_and_a_long_one_seldom() {
        let mut outages = Outages::default();
        let (mut tries, mut now) = (Vec::new(), at(0));
        while now < at(600_000) {
            outages.begins("a:5432", pool(1), now, LONGEST);
            let next = outages.next_deadline().expect("an outage");
            tries.push(next.since(now).as_millis());
            now = next;
            assert_eq!(outages.due(now, LONGEST, |_| true), [vec![pool(1)]]);
        }
        assert_eq!(tries[..9], [100; 9]);
        assert!(tries.is_sorted() && tries.last() == Some(&15_000), "{tries:?}");
        assert!(tries.len() < 90, "{} tries in ten minutes", tries.len());
    }

    #[test]
    fn pools_with_the_same_hosts_have_one_outage() {
        let mut outages = Outages::default();
        outages.begins("a:5432", pool(1), at(0), LONGEST);
        outages.begins("a:5432", pool(2), at(50), LONGEST);
        outages.begins("b:5432", pool(3), at(50), LONGEST);
        assert_eq!(outages.due(at(149), LONGEST, |_| true), Vec::<Vec<PoolKey>>::new());
        assert_eq!(outages.due(at(150), LONGEST, |_| true), [vec![pool(1), pool(2)], vec![pool(3)]]);
        let ended = outages.ends("a:5432").expect("an outage");
        assert_eq!((ended.since, ended.pools.into_iter().collect::<Vec<_>>()), (at(0), vec![pool(1), pool(2)]));
        assert!(outages.ends("a:5432").is_none());
    }

    #[test]
    fn what_nobody_needs_any_more_is_forgotten() {
        let mut outages = Outages::default();
        outages.begins("a:5432", pool(1), at(0), LONGEST);
        outages.leaves(pool(2));
        assert!(!outages.is_empty());
        outages.leaves(pool(1));
        assert!(outages.is_empty());
        outages.begins("a:5432", pool(1), at(0), LONGEST);
        assert!(outages.due(at(100), LONGEST, |_| false).is_empty() && outages.is_empty());
        assert_eq!(outages.next_deadline(), None);
    }

    #[test]
    fn an_outage_is_logged_once_in_a_while() {
        let mut outages = Outages::default();
        assert!(!outages.is_told("a:5432", at(0), LONGEST), "the first failure is logged");
        outages.begins("a:5432", pool(1), at(0), LONGEST);
        assert!(outages.is_told("a:5432", at(100), LONGEST) && outages.is_told("a:5432", at(14_999), LONGEST));
        assert!(!outages.is_told("a:5432", at(15_000), LONGEST) && outages.is_told("a:5432", at(15_001), LONGEST));
    }
}
