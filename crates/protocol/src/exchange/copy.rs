//! A COPY that reads from the client, of which the server ignores Sync and Flush.
//!
//! Always true: each Sync that a COPY may have ignored counts as stray until an answer tells.
//! Not here: everything else that a server owes (`exchange`).
//!
//! The rules are those of `commands/copyfromparse.c` of PostgreSQL.

use wire::{backend, frontend};

use super::{Asked, Count, Exchange};
use crate::owed::Owed;

impl Exchange {
    /// The client sends a message of this kind while a COPY reads from it.
    pub(super) fn asked_in_copy(&mut self, kind: u8) -> Asked {
        match kind {
            frontend::COPY_DATA | frontend::FLUSH => {}
            frontend::SYNC => self.stray_syncs += 1,
            frontend::COPY_DONE | frontend::COPY_FAIL => {
                self.is_copying_in = false;
                self.has_failed_copy = kind == frontend::COPY_FAIL && self.has_open_batch();
            }
            _ => return Asked::Unexpected,
        }
        Asked::Forward
    }

    /// Whether only the stray Syncs of a COPY that has failed are in doubt, where this COPY is the oldest item. What was
    /// sent behind a COPY of the extended protocol is skipped up to a Sync, and which Sync that is depends on how far the
    /// COPY has read.
    pub(super) fn will_be_settled(&self) -> bool {
        match self.owed.front() {
            Some(Owed::Query) => true,
            Some(Owed::Batch { answers: 0 | 1 }) => matches!(self.owed.get(1), None | Some(Owed::Sync)),
            _ => false,
        }
    }

    /// Whether a message of this kind answers a query of our own. A `ReadyForQuery` may still be that of a stray Sync,
    /// which was sent before the query.
    #[must_use]
    #[inline]
    pub fn answers_ours(&self, kind: u8) -> bool {
        let is_stray = || kind == backend::READY_FOR_QUERY && self.count == Count::Doubtful && self.stray_syncs > 0;
        self.is_ours() && !is_stray()
    }

    /// Something later than every stray Sync is being answered.
    pub(super) fn settle_doubt(&mut self) {
        if self.count != Count::Lost {
            self.stray_syncs = 0;
            self.count = Count::Sure;
        }
    }

    /// From now on the server reads CopyData and ignores the Syncs that are on their way to it, up to the end of the
    /// COPY.
    pub(super) fn copy_begins(&mut self) {
        let end = self.owed.iter().position(|owed| *owed == Owed::CopyEnd);
        let before = self.owed.len();
        // Any other message before the end violates the protocol: the COPY fails when it reads the message, or has failed
        // before.
        let is_mixed = self.owed.range(1..end.unwrap_or(before)).any(|owed| *owed != Owed::Sync);
        if is_mixed || matches!(self.owed.front(), Some(Owed::Batch { answers: 2.. })) {
            self.count = Count::Lost;
        }
        let mut left = end.unwrap_or(before);
        self.owed.retain(|owed| {
            let is_ignored = *owed == Owed::Sync && left > 0;
            left = left.saturating_sub(1);
            !is_ignored
        });
        let ignored = before - self.owed.len();
        self.stray_syncs += ignored as u32;
        match end {
            Some(end) => drop(self.owed.remove(end - ignored)),
            None => self.is_copying_in = true,
        }
    }
}
