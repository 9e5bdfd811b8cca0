//! Deadlines in a timer wheel: inserting and removing one cost the same however many there are.
//!
//! Always true: no deadline fires early; each fires within one tick if [`Wheel::expire`] is called when
//! [`Wheel::next_deadline`] says; a removed deadline never fires.
//! Not here: the meaning of a deadline.

use std::time::Duration;

use base::{Key, Slab, Time};

/// The id of a deadline that has not fired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerId(Key);

/// Deadlines, each with a value.
#[derive(Debug)]
pub struct Wheel<T> {
    entries: Slab<Entry<T>>,
    /// The first entry of each slot, level by level.
    slots: [[Option<Key>; SLOTS]; LEVELS],
    /// One bit per slot: whether the slot has entries.
    taken: [u64; LEVELS],
    /// The tick up to which everything has fired.
    tick: u64,
    /// The next tick at which a deadline fires or a slot has to be spread over a lower level. It is asked for in each turn,
    /// and seldom changes.
    next: Option<u64>,
}

#[derive(Debug)]
struct Entry<T> {
    word: T,
    at: Time,
    level: u8,
    slot: u8,
    before: Option<Key>,
    after: Option<Key>,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel that stands at `now`.
    #[must_use]
    pub fn new(now: Time) -> Self {
        let slots = [[None; SLOTS]; LEVELS];
        let tick = now.0 / TICK_MICROS;
        Self { entries: Slab::with_capacity(u32::MAX), slots, taken: [0; LEVELS], tick, next: None }
    }

    /// Inserts a deadline.
    pub fn insert(&mut self, at: Time, word: T) -> TimerId {
        let entry = Entry { word, at, level: 0, slot: 0, before: None, after: None };
        let Ok(key) = self.entries.insert(entry) else { unreachable!("a wheel holds four thousand million entries") };
        let tick = self.link(key, at);
        self.next = Some(self.next.map_or(tick, |next| next.min(tick)));
        TimerId(key)
    }

    /// Removes a deadline. Nothing happens if it has fired already.
    pub fn remove(&mut self, id: TimerId) {
        if self.entries.get(id.0).is_some() {
            let leaves_slot_empty = self.unlink(id.0);
            self.entries.remove(id.0);
            if leaves_slot_empty {
                self.next = self.next_tick();
            }
        }
    }

    /// Advances to `now` and passes the values of all deadlines that are due to `fire`.
    pub fn expire(&mut self, now: Time, mut fire: impl FnMut(T)) {
        let target = now.0 / TICK_MICROS;
        if self.next.is_some_and(|next| next <= target) {
            self.advance(target, &mut fire);
            self.next = self.next_tick();
        }
        self.tick = self.tick.max(target);
    }

    /// Advances to a tick at which something has to be done, or to one after it.
    fn advance(&mut self, target: u64, fire: &mut impl FnMut(T)) {
        while self.tick < target {
            self.tick = self.next_tick().map_or(target, |next| next.min(target));
            for level in (1..LEVELS).rev() {
                if self.tick.trailing_zeros() >= level as u32 * SLOT_BITS {
                    self.spread(level);
                }
            }
            let slot = (self.tick & SLOT_MASK) as usize;
            while let Some(key) = self.slots[0][slot] {
                self.unlink(key);
                if let Some(entry) = self.entries.remove(key) {
                    fire(entry.word);
                }
            }
        }
    }

    /// When [`Wheel::expire`] has to be called next, if ever.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.next.map(|tick| Time(tick * TICK_MICROS))
    }

    /// Number of deadlines in the wheel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the wheel is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Finds `next`.
    fn next_tick(&self) -> Option<u64> {
        let mut best: Option<u64> = None;
        for level in 0..LEVELS {
            if self.taken[level] == 0 {
                continue;
            }
            let shift = level as u32 * SLOT_BITS;
            let here = self.tick >> shift;
            // Slots after the current one, in the order in which they are reached; the current slot comes last, a whole
            // round later.
            let turned = self.taken[level].rotate_right(((here + 1) & SLOT_MASK) as u32);
            let ahead = u64::from(turned.trailing_zeros()) + 1;
            let tick = (here + ahead) << shift;
            best = Some(best.map_or(tick, |best| best.min(tick)));
        }
        best
    }

    /// Spreads the entries of this level's current slot over the lower levels.
    fn spread(&mut self, level: usize) {
        let slot = ((self.tick >> (level as u32 * SLOT_BITS)) & SLOT_MASK) as usize;
        let mut next = self.slots[level][slot].take();
        self.taken[level] &= !(1 << slot);
        while let Some(key) = next {
            let Some(entry) = self.entries.get_mut(key) else { unreachable!("a slot lists living entries") };
            next = entry.after;
            let at = entry.at;
            self.link_from(key, at, self.tick);
        }
    }

    /// Links an entry, and returns the tick at which its slot is reached.
    fn link(&mut self, key: Key, at: Time) -> u64 {
        // Not before the next tick: the current one has been handled.
        self.link_from(key, at, self.tick + 1)
    }

    /// Links an entry to the slot of its tick, which is not before `earliest`, and returns the tick at which that is reached.
    fn link_from(&mut self, key: Key, at: Time, earliest: u64) -> u64 {
        let due = at.0.div_ceil(TICK_MICROS).max(earliest);
        let ahead = due - self.tick;
        let level = (0..LEVELS - 1).find(|&level| ahead < 1 << ((level as u32 + 1) * SLOT_BITS)).unwrap_or(LEVELS - 1);
        // A deadline beyond the last level's reach waits in that level's farthest slot and is spread again from there.
        let reach = (1_u64 << (LEVELS as u32 * SLOT_BITS)) - 1;
        let shift = level as u32 * SLOT_BITS;
        let round = (self.tick + ahead.min(reach)) >> shift;
        let slot = (round & SLOT_MASK) as usize;
        let first = self.slots[level][slot].replace(key);
        self.taken[level] |= 1 << slot;
        if let Some(first) = first.and_then(|first| self.entries.get_mut(first)) {
            first.before = Some(key);
        }
        let Some(entry) = self.entries.get_mut(key) else { unreachable!("the entry was just put in") };
        (entry.level, entry.slot, entry.before, entry.after) = (level as u8, slot as u8, None, first);
        round << shift
    }

    /// Returns whether its slot is empty now.
    fn unlink(&mut self, key: Key) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        let (level, slot, before, after) =
            (usize::from(entry.level), usize::from(entry.slot), entry.before, entry.after);
        match before.and_then(|before| self.entries.get_mut(before)) {
            Some(before) => before.after = after,
            None => self.slots[level][slot] = after,
        }
        if let Some(after) = after.and_then(|after| self.entries.get_mut(after)) {
            after.before = before;
        }
        let is_empty = self.slots[level][slot].is_none();
        if is_empty {
            self.taken[level] &= !(1 << slot);
        }
        is_empty
    }
}

/// The resolution of the wheel: no deadline of a pooler needs a finer one.
pub const TICK: Duration = Duration::from_micros(TICK_MICROS);

const TICK_MICROS: u64 = 4096;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_MASK: u64 = SLOTS as u64 - 1;
/// Five levels reach 64^5 ticks, about fifty days; a deadline beyond that is spread again.
const LEVELS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fired(wheel: &mut Wheel<u32>, now: Time) -> Vec<u32> {
        let mut words = Vec::new();
        wheel.expire(now, |word| words.push(word));
        words.sort_unstable();
        words
    }

    #[test]
    fn nothing_fires_early_and_everything_within_a_tick() {
        let mut wheel = Wheel::new(Time(0));
        wheel.insert(Time(1_000_000), 1);
        assert_eq!(fired(&mut wheel, Time(999_999)), []);
        assert_eq!(fired(&mut wheel, Time(1_000_000) + TICK), [1]);
    }

    #[test]
    fn what_was_taken_out_never_fires() {
        let mut wheel = Wheel::new(Time(0));
        let gone = wheel.insert(Time(5000), 1);
        wheel.insert(Time(5000), 2);
        wheel.remove(gone);
        wheel.remove(gone);
        assert_eq!(fired(&mut wheel, Time(50_000)), [2]);
        assert!(wheel.is_empty());
        assert_eq!(wheel.next_deadline(), None);
    }

    #[test]
    fn a_deadline_in_the_past_fires_at_the_next_tick() {
        let mut wheel = Wheel::new(Time(1_000_000));
        wheel.insert(Time(3), 1);
        let next = wheel.next_deadline().expect("a deadline");
        assert!(next <= Time(1_000_000) + TICK);
        assert_eq!(fired(&mut wheel, next), [1]);
    }

    proptest! {
        #[test]
        fn waking_when_told_fires_everything_in_time(
            deadlines in prop::collection::vec(0_u64..400_000_000_000, 1..60),
            start in 0_u64..1_000_000_000,
        ) {
            let mut wheel = Wheel::new(Time(start));
            for (word, &at) in deadlines.iter().enumerate() {
                wheel.insert(Time(at), word);
            }
            let mut left = deadlines.len();
            while let Some(next) = wheel.next_deadline() {
                let mut words = Vec::new();
                wheel.expire(next, |word| words.push(word));
                for word in words {
                    left -= 1;
                    prop_assert!(next.0 >= deadlines[word]);
                    prop_assert!(next.0 <= deadlines[word].max(start) + 2 * TICK_MICROS);
                }
            }
            prop_assert_eq!(left, 0);
        }

        #[test]
        fn late_calls_fire_exactly_what_is_due(
            deadlines in prop::collection::vec(0_u64..60_000_000, 1..60),
            mut calls in prop::collection::vec(0_u64..70_000_000, 1..20),
        ) {
            calls.sort_unstable();
            let mut wheel = Wheel::new(Time(0));
            for (word, &at) in deadlines.iter().enumerate() {
                wheel.insert(Time(at), word as u32);
            }
            let mut all = Vec::new();
            for now in calls {
                all.extend(fired(&mut wheel, Time(now)));
                for (word, &at) in deadlines.iter().enumerate() {
                    let has = all.contains(&(word as u32));
                    if has { prop_assert!(at <= now); }
                    if at + TICK_MICROS <= now { prop_assert!(has); }
                }
            }
        }
    }
}
