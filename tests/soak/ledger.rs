//! The outcome of each transaction of one client, as far as the client can know it.
//!
//! Always true: a transaction is `Absent` until its COMMIT (or the message that commits it) is about to be sent.
//! Not here: what the tables contain (`rest`).

/// One client's transactions, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    committed: u64,
    unknown: u64,
}

/// One transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// How many rows it writes.
    pub(crate) parts: u8,
    pub(crate) outcome: Outcome,
}

/// Whether its rows must be in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Absent,
    /// The connection broke before the answer: all of them or none.
    Unknown,
    Committed,
}

impl Ledger {
    /// A new transaction with so many rows.
    pub(crate) fn begin(&mut self, parts: u8) -> usize {
        self.entries.push(Entry { parts, outcome: Outcome::Absent });
        self.entries.len() - 1
    }

    /// The transaction is about to be committed: from now on only an answer can tell its outcome.
    pub(crate) fn commits(&mut self, number: usize) {
        self.entries[number].outcome = Outcome::Unknown;
        self.unknown += 1;
    }

    /// An answer has told the outcome.
    pub(crate) fn ended(&mut self, number: usize, outcome: Outcome) {
        if self.entries[number].outcome == Outcome::Unknown {
            self.unknown -= 1;
        }
        if outcome == Outcome::Committed {
            self.committed += 1;
        }
        self.entries[number].outcome = outcome;
    }

    /// Lowest and highest possible value of the counter in the table.
    pub(crate) fn counter(&self) -> (u64, u64) {
        (self.committed, self.committed + self.unknown)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
