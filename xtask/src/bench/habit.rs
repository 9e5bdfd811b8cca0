//! What drivers send by themselves, as something that is measured.
//!
//! Not here: the scripts (`tests/habits`) and how they are read (`habits`).

use std::cmp::Ordering;
use std::fs;
use std::path::Path;

use habits::{Habit, Reconnects};
use ops::trial::Protocol;

use super::contestant::SERVERS;

/// A habit, with a connection for all transactions or one for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played {
    pub(super) habit: &'static Habit,
    pub(super) reconnects: Reconnects,
}

impl Played {
    /// Those that send something at connect are measured by that, too.
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
            // With more clients than servers it would wait for ever: for a server that is kept, or because pgbench prepares with its
            // thread standing still, also while all servers are in transactions of other clients of that thread.
            Reconnects::Never if self.protocol() == Protocol::Prepared || self.habit.keeps.is_some() => SERVERS,
            Reconnects::Never => CLIENTS,
            Reconnects::Always => CLIENTS_RECONNECTING,
        }
    }

    pub(super) fn protocol(self) -> Protocol {
        match self.habit.protocol_of_pgbench() {
            habits::Protocol::Simple => Protocol::Simple,
            habits::Protocol::Extended => Protocol::Extended,
            habits::Protocol::Prepared => Protocol::Prepared,
        }
    }
}

/// The scripts, for as long as the program runs.
pub(super) fn read(root: &Path) -> Result<&'static [Habit], String> {
    crate::habits::read(root).map(|habits| &*habits.leak())
}

/// The tables that they work on.
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

/// As many as in the case `connect`.
const CLIENTS_RECONNECTING: u32 = 8;
