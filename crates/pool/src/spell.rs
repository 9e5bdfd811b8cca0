//! Spells: when the log reports that the clients of a pool begin to wait, and that this is over.
//!
//! Always true: a spell begins when a client has waited for long enough, and ends when none has for [`CALM`]. So a pool has
//! at most one beginning and one end in that time, however often its queue is empty for a moment.
//! Not here: why clients wait (`why`), when the pools are looked at (`worker::admin::spells`).

use std::time::Duration;

use base::Time;

use crate::reason::{WaitReason, Waited};

/// The state of a pool's wait queues at one look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The largest number of clients that waited at once since the last look.
    pub most: u32,
    /// Since when the first of the present waiting clients has waited.
    pub since: Option<Time>,
    /// What the present clients wait for.
    pub why: Option<WaitReason>,
    /// The time that clients have waited since the pool was opened, by reason.
    pub waited: Waited,
}

/// A period in which clients of a pool have waited for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spell {
    began: Time,
    /// When a client that had waited for long enough was last seen.
    last: Time,
    most: u32,
    longest: Duration,
    /// The time that clients had waited before the spell.
    before: Waited,
    /// What clients waited for when the spell began.
    why: Option<WaitReason>,
}

/// What is to be reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// A spell begins.
    Begins {
        /// The largest number of clients that waited at once.
        most: u32,
        /// For how long the first client has waited.
        longest: Duration,
        /// What the clients wait for.
        why: Option<WaitReason>,
    },
    /// More clients wait at once than before in this spell, so the present holders of the servers are worth recording.
    Worse,
    /// The spell is over.
    Ends {
        /// The time from when the first client began to wait until a client that had waited for long was last seen.
        lasted: Duration,
        /// The largest number of clients that waited at once.
        most: u32,
        /// The longest wait of a client.
        longest: Duration,
        /// The reason for most of the time waited.
        why: Option<WaitReason>,
    },
}

impl Spell {
    /// Updates a pool's spell from a look at its wait queues. A client has waited for long if it has waited for `enough`.
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

    /// Notes how long a client had waited that does not wait any more.
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

/// A spell ends when no client has waited for long for this time.
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
