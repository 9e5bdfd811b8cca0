//! For whom a session that listens for all waits: those who take what it tells more slowly than it comes.
//!
//! Always true: nobody is waited for longer than [`PATIENCE`] from when it fell behind; who has not kept up by then is on its own until it has
//! taken everything, and is waited for anew when it falls behind again.
//! Not here: who is behind, and what waiting is (`worker::behind`).

use std::collections::BTreeMap;
use std::time::Duration;

use base::Time;

/// Who is behind, of those whom one session tells.
#[derive(Clone, Debug)]
pub struct Patience<K> {
    /// Until when each is waited for; `None` is no more.
    behind: BTreeMap<K, Option<Time>>,
}

impl<K> Default for Patience<K> {
    fn default() -> Self {
        Self { behind: BTreeMap::new() }
    }
}

impl<K: Ord> Patience<K> {
    /// Somebody is behind: until when it is waited for from now on, if it was not behind before.
    pub fn falls_behind(&mut self, who: K, now: Time) -> Option<Time> {
        if self.is_behind(&who) {
            return None;
        }
        let until = now + PATIENCE;
        self.behind.insert(who, Some(until));
        Some(until)
    }

    /// Whether somebody is behind, waited for or not.
    #[must_use]
    pub fn is_behind(&self, who: &K) -> bool {
        self.behind.contains_key(who)
    }

    /// Whether it is waited for.
    #[must_use]
    pub fn is_waited_for(&self, who: &K) -> bool {
        self.behind.get(who).is_some_and(Option::is_some)
    }

    /// It has taken everything, or is gone. Whether it was behind.
    pub fn keeps_up(&mut self, who: &K) -> bool {
        self.behind.remove(who).is_some()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        for until in self.behind.values_mut() {
            *until = until.filter(|until| *until > now);
        }
    }

    /// Whether anybody is waited for.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.behind.values().any(Option::is_some)
    }
}

/// A client that reads has taken what lies before it by then.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1);

    #[test]
    fn who_keeps_up_is_waited_for_again_for_as_long() {
        let mut patience = Patience::default();
        let until = patience.falls_behind("ann", NOW).expect("she was not behind");
        assert!(patience.is_waiting() && patience.is_waited_for(&"ann"));
        assert_eq!(patience.falls_behind("ann", until), None, "she is behind already");
        assert!(patience.keeps_up(&"ann") && !patience.keeps_up(&"ann"));
        assert!(!patience.is_waiting() && !patience.is_behind(&"ann"));
        let almost = Time(until.0 - 1);
        let again = patience.falls_behind("ann", almost).expect("anew");
        patience.tick(until);
        assert!(patience.is_waited_for(&"ann"), "that was the end of the first time");
        patience.tick(again);
        assert!(!patience.is_waited_for(&"ann"));
    }

    #[test]
    fn who_does_not_keep_up_is_not_waited_for_until_it_has() {
        let mut patience = Patience::default();
        let until = patience.falls_behind("ann", NOW).expect("she was not behind");
        let later = patience.falls_behind("bob", until).expect("nor was he");
        patience.tick(until);
        assert!(patience.is_behind(&"ann") && !patience.is_waited_for(&"ann"));
        assert!(patience.is_waiting(), "for him");
        assert_eq!(patience.falls_behind("ann", later), None);
        patience.keeps_up(&"bob");
        assert!(!patience.is_waiting());
        patience.keeps_up(&"ann");
        assert!(patience.falls_behind("ann", later).is_some());
    }
}
