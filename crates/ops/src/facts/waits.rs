//! What sessions were seen to wait for: samples of `pg_stat_activity`, counted in groups.
//!
//! Always true: idle sessions are counted, and are no part of a share; the number of groups is bounded, what comes later is counted together.
//! Not here: taking the samples (`doctor/sampling`).

use std::collections::BTreeMap;

/// A group: state, wait type, wait event, database, role, application. A session on a processor waits for nothing.
pub(crate) type Group = [String; 6];

/// The samples.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Waits {
    /// Samples that were taken.
    pub(crate) samples: u64,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
    groups: BTreeMap<Group, u64>,
    /// The most client sessions in a sample, idle ones too, without our own.
    pub(crate) sessions_max: u64,
    /// The most sessions that were running a statement.
    pub(crate) active_max: u64,
}

impl Waits {
    /// Adds one sample: the sessions of each group.
    pub(crate) fn add(&mut self, sample: impl Iterator<Item = (Group, u64)>) {
        self.samples += 1;
        let (mut sessions, mut active) = (0, 0);
        for (group, count) in sample {
            sessions += count;
            active += if group[STATE] == "active" { count } else { 0 };
            let is_full = self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&group);
            let group = if is_full {
                [&*group[STATE], &*group[TYPE], &*group[EVENT], "other", "other", "other"].map(str::to_owned)
            } else {
                group
            };
            *self.groups.entry(group).or_default() += count;
        }
        self.sessions_max = self.sessions_max.max(sessions);
        self.active_max = self.active_max.max(active);
    }

    /// Sessions that were in use, over all samples: running a statement, or in a transaction.
    pub(crate) fn busy(&self) -> f64 {
        self.of(|group| group[STATE] != "idle")
    }

    /// Sessions that were running a statement, over all samples.
    pub(crate) fn active(&self) -> f64 {
        self.of(|group| group[STATE] == "active")
    }

    /// Sessions that were running a statement, on average.
    pub(crate) fn active_mean(&self) -> f64 {
        self.active() / (self.samples.max(1) as f64)
    }

    /// Sessions that were idle in a transaction.
    pub(crate) fn idle_in_transaction(&self) -> f64 {
        self.of(|group| group[STATE].starts_with("idle in transaction"))
    }

    /// Sessions that were running a statement and waited for one of these events.
    pub(crate) fn waiting_for(&self, events: &[&str]) -> f64 {
        self.of(|group| group[STATE] == "active" && events.contains(&&*group[EVENT]))
    }

    /// Sessions that were running a statement and waited for an event of this type; without a type they used a processor.
    pub(crate) fn of_type(&self, kind: &str) -> f64 {
        self.of(|group| group[STATE] == "active" && group[TYPE] == kind)
    }

    /// Sessions that sent rows, or waited for the next statement of their transaction. One that is active and waits for a statement does neither: the
    /// server reads the state first, and a short statement has ended when it reads the wait.
    pub(crate) fn at_client(&self) -> f64 {
        self.waiting_for(&["ClientWrite"])
            + self.of(|group| group[STATE] != "active" && group[EVENT] == "ClientRead" && group[STATE] != "idle")
    }

    fn of(&self, is_counted: impl Fn(&Group) -> bool) -> f64 {
        self.groups.iter().filter(|(group, _)| is_counted(group)).map(|(_, count)| *count as f64).sum()
    }

    /// The largest groups that were in use, the largest first.
    pub(crate) fn largest(&self) -> Vec<(&Group, u64)> {
        let mut groups: Vec<_> = self
            .groups
            .iter()
            .filter(|(group, _)| group[STATE] != "idle")
            .map(|(group, count)| (group, *count))
            .collect();
        groups.sort_by_key(|(group, count)| (u64::MAX - count, *group));
        groups
    }
}

const STATE: usize = 0;
const TYPE: usize = 1;
const EVENT: usize = 2;
/// Groups that are kept apart.
const GROUPS_MAX: usize = 5000;

/// Samples for tests: state, wait type, wait event, sessions.
#[cfg(test)]
pub(crate) fn waits(samples: u64, groups: &[(&str, &str, &str, u64)]) -> Waits {
    let mut waits = Waits { seconds: samples as f64 / 100.0, ..Waits::default() };
    for _ in 0..samples {
        waits.add(groups.iter().map(|(state, kind, event, count)| {
            ([*state, *kind, *event, "app", "web", "rails"].map(str::to_owned), *count)
        }));
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_sessions_in_use_and_the_largest_group_comes_first() {
        let waits = waits(
            10,
            &[
                ("active", "Client", "ClientWrite", 3),
                ("active", "Client", "ClientRead", 1),
                ("idle in transaction", "Client", "ClientRead", 2),
                ("idle", "Client", "ClientRead", 50),
            ],
        );
        assert_eq!((waits.busy(), waits.active(), waits.at_client()), (60.0, 40.0, 50.0));
        assert_eq!((waits.sessions_max, waits.active_max), (56, 4));
        assert_eq!(waits.waiting_for(&["ClientWrite"]), 30.0);
        assert_eq!(waits.largest().iter().map(|(_, count)| *count).collect::<Vec<_>>(), [30, 20, 10]);
    }

    #[test]
    fn the_number_of_groups_is_bounded_and_nothing_is_lost() {
        let mut waits = Waits::default();
        let group = |n: u64| ["active", "", "", "d", "r", &n.to_string()].map(str::to_owned);
        waits.add((0..20_000).map(|n| (group(n), 1)));
        assert_eq!((waits.active(), waits.groups.len()), (20_000.0, GROUPS_MAX + 1));
    }
}
