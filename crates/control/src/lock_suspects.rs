//! Which clients seem to hold the locks for which others wait.
//!
//! Always true: PostgreSQL is not asked, so texts of statements and times are only signs; the work grows with the number of
//! clients, however many pools they have.
//! Not here: the sentence about it (`diagnosis`).

use std::collections::BTreeMap;

use measure::Phase;
use worker::letters::{Doing, WaitRow};

/// The clients of one database that may keep others waiting: of each kind the one with the oldest transaction.
#[derive(Clone, Copy, Default)]
pub(crate) struct LockKeepers<'a> {
    /// Idle in a transaction whose statement locks a table as a whole.
    of_table: Option<&'a WaitRow>,
    of_advisory_lock: Option<&'a WaitRow>,
    /// Its transaction is open, and it does not wait for an answer.
    of_transaction: Option<&'a WaitRow>,
}

/// A client that seems to hold a lock for which others wait.
pub(crate) struct Suspect<'a> {
    pub(crate) keeper: &'a WaitRow,
    /// How many statements seem to wait for it.
    pub(crate) count: usize,
}

impl<'a> LockKeepers<'a> {
    /// Those of each database.
    pub(crate) fn by_database(rows: &[&'a WaitRow]) -> BTreeMap<&'a str, Self> {
        let mut all: BTreeMap<&str, Self> = BTreeMap::new();
        for row in rows {
            all.entry(&row.database).or_default().note(row);
        }
        all
    }

    fn note(&mut self, row: &'a WaitRow) {
        let is_thinking = row.doing == Doing::In(Phase::Thinking);
        let is_open = is_thinking || matches!(row.doing, Doing::In(Phase::Streaming | Phase::Blocked));
        for (keeper, is_one) in [
            (&mut self.of_table, is_thinking && row.locks.locks_table),
            (&mut self.of_advisory_lock, row.locks.holds_advisory),
            (&mut self.of_transaction, is_open),
        ] {
            if is_one && keeper.is_none_or(|known| row.transaction >= known.transaction) {
                *keeper = Some(row);
            }
        }
    }

    /// The client that most of these statements of its database seem to wait for. It has had its transaction open, or its
    /// advisory lock, for longer than they have lasted.
    pub(crate) fn suspect(&self, working: &[&WaitRow]) -> Option<Suspect<'a>> {
        let keepers = [self.of_table, self.of_advisory_lock, self.of_transaction];
        let suspects = keepers.into_iter().flatten().map(|keeper| {
            let count = working.iter().filter(|row| seems_to_wait_for(row, keeper)).count();
            Suspect { keeper, count }
        });
        suspects.filter(|suspect| suspect.count > 0).max_by_key(|suspect| suspect.count)
    }
}

fn seems_to_wait_for(row: &WaitRow, keeper: &WaitRow) -> bool {
    let signs = match (keeper.doing, keeper.locks.locks_table) {
        (Doing::Kept, _) => row.locks.wants_advisory,
        (Doing::In(Phase::Thinking), true) => true,
        _ => row.locks.may_wait,
    };
    signs && row.doing == Doing::In(Phase::FirstByte) && keeper.transaction >= row.doing_for
}
