//! What a pool remembers of a time in which its clients wait for long, and when pools are looked at for that.
//!
//! Always true: who begins to wait is seen by a look that begins later; so many pools are looked at in one turn, and the others in those that follow.
//! Not here: who looks (`admin::spells`), when such a time begins and ends (crate `pool`).

use std::time::Duration;

use base::Time;
use pool::Spell;

/// Of one pool.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) spell: Option<Spell>,
    /// Who had its servers when most waited.
    pub(crate) holders: Box<str>,
}

impl Watched {
    /// A client that has waited for so long has a server now, or is refused one.
    #[cold]
    pub(crate) fn has_waited(&mut self, now: Time, enough: Option<Duration>, waited: Duration) {
        if let (Some(spell), Some(enough)) = (&mut self.spell, enough) {
            spell.has_waited(now, enough, waited);
        }
    }
}

/// When pools are looked at.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// A timer is set.
    is_armed: bool,
    /// Somebody has begun to wait since the last pass began.
    is_asked: bool,
    /// How far the pass is that goes on.
    pass: Option<Pass>,
}

/// A look at all pools.
#[derive(Debug, Default)]
struct Pass {
    /// The last one that was looked at, by database and user number.
    after: Option<(u32, u32)>,
    /// When to look again.
    next: Option<Time>,
}

impl Watch {
    /// Somebody begins to wait. Whether a timer has to be set.
    #[inline]
    pub(crate) fn asks(&mut self) -> bool {
        self.is_asked = true;
        !std::mem::replace(&mut self.is_armed, true)
    }

    /// The timer has come: pools behind this one are looked at.
    pub(crate) fn goes_on(&mut self) -> Option<(u32, u32)> {
        if self.pass.is_none() {
            self.is_asked = false;
        }
        self.pass.get_or_insert_default().after
    }

    /// A pool has been looked at, and wants to be again at this time.
    pub(crate) fn looked(&mut self, pool: (u32, u32), due: Option<Time>) {
        let pass = self.pass.get_or_insert_default();
        pass.after = Some(pool);
        pass.next = pass.next.into_iter().chain(due).min();
    }

    /// All of them have been: when to look again, if anybody waits. Whoever has begun to wait meanwhile has waited for `enough` then.
    pub(crate) fn ends(&mut self, now: Time, enough: Option<Duration>) -> Option<Time> {
        let pass = self.pass.take().unwrap_or_default();
        let asked = enough.filter(|_| self.is_asked).map(|enough| now + enough);
        let next = pass.next.into_iter().chain(asked).min().map(|next| next.max(now + LOOK_AGAIN_MIN));
        self.is_armed = next.is_some();
        next
    }
}

/// Pools are looked at no more often than this.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(100);
/// So many are in one turn.
pub(crate) const LOOKS_MAX: usize = 256;
/// Shorter waits are noticed only by who looks.
pub(crate) const WAITED_LONG: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Option<Duration> = Some(Duration::from_secs(1));

    #[test]
    fn nobody_looks_while_nobody_waits() {
        let mut watch = Watch::default();
        assert!(watch.asks());
        assert!(!watch.asks(), "the timer is set");
        assert_eq!(watch.goes_on(), None);
        watch.looked((0, 1), None);
        assert_eq!(watch.ends(Time::from_secs(2), ENOUGH), None);
        assert!(watch.asks());
    }

    #[test]
    fn who_begins_to_wait_while_pools_are_looked_at_is_seen_by_the_next_look() {
        let mut watch = Watch::default();
        watch.asks();
        assert_eq!(watch.goes_on(), None);
        watch.looked((0, 1), Some(Time::from_secs(9)));
        // In the next turn; meanwhile somebody waits in the pool that has been looked at.
        assert!(!watch.asks());
        assert_eq!(watch.goes_on(), Some((0, 1)));
        watch.looked((3, 1), Some(Time::from_secs(8)));
        assert_eq!(watch.ends(Time::from_secs(2), ENOUGH), Some(Time::from_secs(3)));
        assert_eq!(watch.goes_on(), None, "from the beginning");
        watch.looked((0, 1), Some(Time::from_secs(3)));
        assert_eq!(watch.ends(Time::from_secs(3), ENOUGH), Some(Time(3_100_000)), "not at once");
    }
}
