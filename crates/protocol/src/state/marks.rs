//! Which client owns each mark at which the listener of a database takes over channels, until the listener has received
//! the mark.
//!
//! Always true: a mark is found by its number, and the marks of one client without a look at those of others.
//! Not here: what a mark and the listener are (`subscriptions`), who sends marks (`worker::notify::listen`).

use std::collections::{BTreeMap, BTreeSet};

/// The marks that one listener must still receive.
#[derive(Clone, Debug)]
pub struct Marks<K> {
    owners: BTreeMap<u64, K>,
    /// The owner and the number of each mark, in the order of owners.
    numbers: BTreeSet<(K, u64)>,
}

impl<K> Default for Marks<K> {
    fn default() -> Self {
        Self { owners: BTreeMap::new(), numbers: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Marks<K> {
    /// The server of this client sends a mark with this number.
    pub fn add(&mut self, number: u64, owner: K) {
        self.take(number);
        self.owners.insert(number, owner);
        self.numbers.insert((owner, number));
    }

    /// Removes a mark that the listener has received, or that is not sent after all; returns its owner.
    pub fn take(&mut self, number: u64) -> Option<K> {
        let owner = self.owners.remove(&number)?;
        self.numbers.remove(&(owner, number));
        Some(owner)
    }

    /// Removes the marks of a client that leaves, whose server may be closed before it has sent them.
    pub fn forget(&mut self, owner: K) {
        while let Some(&(of, number)) = self.numbers.range((owner, 0)..=(owner, u64::MAX)).next() {
            self.numbers.remove(&(of, number));
            self.owners.remove(&number);
        }
    }

    /// The listener's session has been lost.
    pub fn clear(&mut self) {
        self.owners.clear();
        self.numbers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_leaves_no_mark_and_takes_nobody_elses() {
        let mut marks = Marks::default();
        for (number, owner) in [(7, "ann"), (u64::MAX, "ann"), (0, "ann"), (8, "bob"), (1, "al")] {
            marks.add(number, owner);
        }
        marks.forget("ann");
        assert_eq!([0, 7, u64::MAX].map(|number| marks.take(number)), [None; 3]);
        assert_eq!((marks.take(8), marks.take(8), marks.take(1)), (Some("bob"), None, Some("al")));
        assert!(marks.owners.is_empty() && marks.numbers.is_empty());
        marks.add(7, "ann");
        marks.add(7, "bob");
        marks.forget("ann");
        assert_eq!(marks.take(7), Some("bob"), "it is his now");
        marks.add(7, "ann");
        marks.clear();
        marks.forget("ann");
        assert_eq!(marks.take(7), None);
    }

    /// Regression: for each client that left, all marks were looked at.
    #[test]
    fn who_goes_costs_its_own_marks() {
        let mut marks = Marks::default();
        (0..100_000).for_each(|who| marks.add(who, who));
        (0..100_000).for_each(|who| marks.forget(who));
        assert!(marks.owners.is_empty() && marks.numbers.is_empty());
    }
}
