//! The measurement of what drivers send on their own.
//!
//! Not here: the scripts (`tests/habits`) and their reader (`habits`).

use std::cmp::Ordering;
use std::fs;
use std::path::Path;

use habits::{Habit, Reconnects};

use super::contestant::SERVERS;

/// A habit, with one connection for all transactions or one for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played {
    pub(super) habit: &'static Habit,
    pub(super) reconnects: Reconnects,
}

impl Played {
    /// All habits to measure; those that send something at connect are also measured with a connection for each
    /// transaction.
    pub(super) fn all(habits: &'static [Habit]) -> Vec<Self> {
        let measured = || habits.iter().filter(|habit| habit.not_measured.is_none());
        let mut all: Vec<Self> = measured().map(|habit| Self { habit, reconnects: Reconnects::Never }).collect();
        let greeting = measured().filter(|habit| !habit.connect.is_empty());
        all.extend(greeting.map(|habit| Self { habit, reconnects: Reconnects::Always }));
        all.sort();
        all
    }

    pub(super) fn name(self) -> String {
        match self.reconnects {
            Reconnects::Never => format!("habits/{}", self.habit.name),
            Reconnects::Always => format!("habits/{}/connect", self.habit.name),
        }
    }

    pub(super) fn title(self) -> String {
        match self.reconnects {
            Reconnects::Never => self.habit.title.clone(),
            Reconnects::Always => format!("{} A connection for each transaction.", self.habit.title),
        }
    }

    pub(super) fn clients(self) -> u32 {
        match self.reconnects {
            // With more clients than servers it would wait for ever.
            Reconnects::Never if self.habit.keeps.is_some() => SERVERS,
            Reconnects::Never => CLIENTS,
            Reconnects::Always => CLIENTS_RECONNECTING,
        }
    }
}

/// Reads the scripts and leaks them, because scenarios refer to them until the program ends.
pub(super) fn read(root: &Path) -> Result<&'static [Habit], String> {
    crate::habits::read(root).map(|habits| &*habits.leak())
}

/// The SQL that creates the tables of the scripts.
pub(super) fn setup(root: &Path) -> Result<String, String> {
    let path = root.join(crate::habits::FOLDER).join("setup.sql");
    fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

impl PartialEq for Played {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Played {}

impl PartialOrd for Played {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Played {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(&other.name())
    }
}

/// Twice as many as servers.
const CLIENTS: u32 = 2 * SERVERS;

/// As many as in the scenario `connect`.
const CLIENTS_RECONNECTING: u32 = 8;
