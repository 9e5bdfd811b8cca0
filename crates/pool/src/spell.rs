//! When the clients of a pool begin to wait, and when that is over: what the log says of it.
//!
//! Always true: a spell begins when somebody has waited for long enough, and ends when nobody has for [`CALM`], so that a pool has one
//! beginning and one end in that time at most, however often its queue is empty for a moment.
//! Not here: why somebody waits (`why`), who looks when (`worker::admin::spells`).

use std::time::Duration;

use base::Time;

use crate::reason::{WaitReason, Waited};

/// Who waits in a pool, at one look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The most who have waited at once since the last look.
    pub most: u32,
    /// Since when the first of those has waited who wait now.
    pub since: Option<Time>,
    /// What they wait for.
    pub why: Option<WaitReason>,
    /// What all have waited since the pool was opened.
    pub waited: Waited,
}

/// A time in which clients of a pool have waited for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spell {
    began: Time,
    /// When somebody was last seen who had waited for long enough.
    last: Time,
    most: u32,
    longest: Duration,
    /// What had been waited before.
    before: Waited,
    /// What was waited for when it began.
    why: Option<WaitReason>,
}

/// What is to be said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// So many wait, the first for so long.
    Begins {
        /// The most at once.
        most: u32,
        /// For how long the first has waited.
        longest: Duration,
        /// What for.
        why: Option<WaitReason>,
    },
    /// More wait at once than before: who has the servers now is worth remembering.
    Worse,
    /// It is over.
    Ends {
        /// From when the first began to wait to when the last one was seen who had waited for long.
        lasted: Duration,
        /// The most at once.
        most: u32,
        /// The longest that anybody has waited.
        longest: Duration,
        /// What most of it was waited for.
        why: Option<WaitReason>,
    },
}

impl Spell {
    /// Looks at the clients of a pool, of which those have waited for long that have waited for `enough`.
    pub fn look(spell: &mut Option<Self>, now: Time, enough: Duration, seen: &Look) -> Option<Word> {
        let waited = seen.since.map(|since| now.since(since)).filter(|waited| *waited >= enough);
        let Some(this) = spell else {
            let longest = waited?;
            let most = seen.most.max(1);
            let began = Time(now.0.saturating_sub(longest.as_micros() as u64));
            *spell = Some(Self { began, last: now, most, longest, before: seen.waited, why: seen.why });
            return Some(Word::Begins { most, longest, why: seen.why });
        };
        if let Some(waited) = waited {
            this.notes(now, waited);
        }
        let is_worse = seen.most > this.most;
        this.most = this.most.max(seen.most);
        if now.since(this.last) < CALM {
            return is_worse.then_some(Word::Worse);
        }
        let (most, longest, lasted) = (this.most, this.longest, this.last.since(this.began));
        let why = seen.waited.main_since(&this.before).or(this.why);
        *spell = None;
        Some(Word::Ends { lasted, most, longest, why })
    }

    /// Somebody who waits no more has waited for so long.
    pub fn has_waited(&mut self, now: Time, enough: Duration, waited: Duration) {
        if waited >= enough {
            self.notes(now, waited);
        }
    }

    fn notes(&mut self, now: Time, waited: Duration) {
        self.last = now;
        self.longest = self.longest.max(waited);
    }
}

/// A pool whose clients have not waited for long for this time waits no more.
const CALM: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Duration = Duration::from_secs(1);

    fn look(spell: &mut Option<Spell>, at: u64, since: Option<u64>, most: u32) -> Option<Word> {
        let (since, why) = (since.map(millis), since.map(|_| WaitReason::NoneFree));
        Spell::look(spell, millis(at), ENOUGH, &Look { most, since, why, waited: Waited::default() })
    }

    fn millis(at: u64) -> Time {
        Time(at * 1000)
    }

    #[test]
    fn who_waits_for_an_instant_begins_nothing() {
        let mut spell = None;
        for at in (10_000..20_000).step_by(100) {
            assert_eq!(look(&mut spell, at, Some(at - 900), 50), None);
        }
        assert_eq!(spell, None);
    }

    #[test]
    fn a_spell_has_one_beginning_and_one_end() {
        let (mut spell, why) = (None, Some(WaitReason::NoneFree));
        let longest = ENOUGH;
        assert_eq!(look(&mut spell, 10_000, Some(9_000), 3), Some(Word::Begins { most: 3, longest, why }));
        assert_eq!(look(&mut spell, 11_000, Some(9_000), 2), None);
        assert_eq!(look(&mut spell, 12_000, Some(11_900), 7), Some(Word::Worse));
        if let Some(spell) = &mut spell {
            spell.has_waited(millis(12_500), ENOUGH, Duration::from_millis(3_500));
            spell.has_waited(millis(16_000), ENOUGH, Duration::from_millis(999));
        }
        assert_eq!(look(&mut spell, 17_000, None, 0), None, "somebody may come back");
        let ends =
            Word::Ends { lasted: Duration::from_millis(3_500), most: 7, longest: Duration::from_millis(3_500), why };
        assert_eq!(look(&mut spell, 17_500, None, 0), Some(ends));
        assert_eq!(spell, None);
    }

    #[test]
    fn a_queue_that_is_empty_now_and_then_makes_no_pair_for_each_time() {
        let (mut spell, mut words) = (None, 0);
        for round in 0..100 {
            let at = 10_000 + round * 2_000;
            words += u32::from(look(&mut spell, at, Some(at - 1_500), 1).is_some());
            words += u32::from(look(&mut spell, at + 1_000, None, 0).is_some());
        }
        assert_eq!(words, 1);
    }
}
