//! How long the listener (`subscriptions`) waits for clients that take notifications more slowly than these come.
//!
//! Always true: the listener waits for a client at most [`PATIENCE`] after it fell behind; a client that has not caught
//! up by then is not waited for until it has taken everything, and is waited for anew when it falls behind again.
//! Not here: which clients are behind, and how the listener waits (`worker::notify::behind`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Time;

/// The clients of one listener that are behind.
#[derive(Clone, Debug)]
pub struct Patience<K> {
    /// Until when the listener waits for each; `None` once it no longer does.
    behind: BTreeMap<K, Option<Time>>,
    /// The clients that are waited for, in the order in which their time ends: a tick costs what has ended, not what is
    /// behind.
    waited_for: BTreeSet<(Time, K)>,
}

impl<K> Default for Patience<K> {
    fn default() -> Self {
        Self { behind: BTreeMap::new(), waited_for: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Patience<K> {
    /// A client is behind. Returns until when it is waited for, if it was not behind before.
    pub fn falls_behind(&mut self, who: K, now: Time) -> Option<Time> {
        if self.is_behind(&who) {
            return None;
        }
        let until = now + PATIENCE;
        self.waited_for.insert((until, who.clone()));
        self.behind.insert(who, Some(until));
        Some(until)
    }

    /// Whether a client is behind, waited for or not.
    #[must_use]
    pub fn is_behind(&self, who: &K) -> bool {
        self.behind.contains_key(who)
    }

    /// Whether the listener waits for a client.
    #[must_use]
    pub fn is_waited_for(&self, who: &K) -> bool {
        self.behind.get(who).is_some_and(Option::is_some)
    }

    /// A client has taken everything, or is gone. Returns whether it was behind.
    pub fn keeps_up(&mut self, who: &K) -> bool {
        let Some((who, until)) = self.behind.remove_entry(who) else { return false };
        if let Some(until) = until {
            self.waited_for.remove(&(until, who));
        }
        true
    }

    /// Stops waiting for the clients whose time has ended.
    pub fn tick(&mut self, now: Time) {
        while self.waited_for.first().is_some_and(|(until, _)| *until <= now)
            && let Some((_, who)) = self.waited_for.pop_first()
        {
            self.behind.insert(who, None);
        }
    }

    /// Whether the listener waits for any client.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waited_for.is_empty()
    }
}

/// A client that reads its socket at all has caught up by then.
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

    /// Regression: each tick, and each client that caught up, looked at all who were behind, which took minutes.
    #[test]
    fn time_that_passes_costs_what_is_over_and_not_what_is_behind() {
        let mut patience = Patience::default();
        for who in 0..100_000 {
            let until = patience.falls_behind(who, NOW).expect("nobody was behind");
            patience.tick(Time(until.0 - 1));
            assert!(patience.is_waiting());
        }
        patience.tick(NOW + PATIENCE);
        for who in 0..100_000 {
            assert!(!patience.is_waiting() && patience.is_behind(&who));
        }
        assert!((0..100_000).all(|who| patience.keeps_up(&who)));
    }
}
