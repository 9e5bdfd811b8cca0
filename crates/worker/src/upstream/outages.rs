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
    /// When a login failed last.
    failed: Time,
    /// When the hosts are tried again; `None` once nobody has waited for longer than any pool rests after a failed login.
    next: Option<Time>,
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
            self.0.insert(
                hosts.into(),
                Outage { since: now, failed: now, next: None, told: now, pools: BTreeSet::new() },
            );
        }
        if let Some(outage) = self.0.get_mut(hosts) {
            // Nobody has needed them for so long that this may be another outage.
            if now >= outage.failed + 2 * longest.max(PAUSE_MIN) {
                outage.since = now;
            }
            outage.pools.insert(pool);
            (outage.failed, outage.next) = (now, Some(now + pause(now.since(outage.since), longest)));
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
        self.0.values().filter_map(|outage| outage.next).min()
    }

    /// The hosts that are to be tried again now: for each outage a pool that needs them and in which clients wait. An outage is over
    /// for the pools that `is_known` does not know any more.
    pub(super) fn due(
        &mut self,
        now: Time,
        longest: Duration,
        is_known: impl Fn(PoolKey) -> bool,
        waits: impl Fn(PoolKey) -> bool,
    ) -> Vec<PoolKey> {
        self.0.retain(|_, outage| {
            outage.pools.retain(|pool| is_known(*pool));
            !outage.pools.is_empty()
        });
        let mut due = Vec::new();
        for outage in self.0.values_mut().filter(|outage| outage.next.is_some_and(|next| next <= now)) {
            let waiting = outage.pools.iter().copied().find(|pool| waits(*pool));
            // Later a pool asks for a login by itself when a client comes.
            let is_watched = waiting.is_some() || now < outage.failed + longest.max(PAUSE_MIN);
            outage.next = is_watched.then(|| now + pause(now.since(outage.since), longest));
            due.extend(waiting);
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
            assert_eq!(outages.due(now, LONGEST, |_| true, |_| true), [pool(1)]);
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
        assert_eq!(outages.due(at(149), LONGEST, |_| true, |_| true), []);
        assert_eq!(outages.due(at(150), LONGEST, |_| true, |waiting| waiting != pool(1)), [pool(2), pool(3)]);
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
        assert!(outages.due(at(100), LONGEST, |_| false, |_| true).is_empty() && outages.is_empty());
        assert_eq!(outages.next_deadline(), None);
    }

    #[test]
    fn hosts_that_nobody_waits_for_are_left_alone_when_no_pool_rests_any_more() {
        let mut outages = Outages::default();
        outages.begins("a:5432", pool(1), at(0), LONGEST);
        let mut looks = 0;
        while let Some(next) = outages.next_deadline() {
            assert!(outages.due(next, LONGEST, |_| true, |_| false).is_empty());
            looks += 1;
            assert!(next <= at(30_000) && looks < 100, "{next:?}");
        }
        assert!(looks > 10 && !outages.is_empty(), "a client that comes while a pool rests is seen: {looks}");
        // The next failed login belongs to another outage.
        outages.begins("a:5432", pool(1), at(40_000), LONGEST);
        assert_eq!(outages.next_deadline(), Some(at(40_100)));
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
