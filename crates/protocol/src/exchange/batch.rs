//! The batches of the extended protocol among what a server owes: the messages up to a Sync.
//!
//! Always true: what an error skips ends with the Sync that the server reads next.
//! Not here: other messages, and how an answer is counted (`exchange`).

use wire::frontend;

use super::Exchange;
use crate::owed::Owed;
use crate::planted::next_sync;

impl Exchange {
    /// [`Exchange::asked`] for a message of a batch, or the Sync that ends it, where [`Exchange::is_in_batch`].
    #[inline]
    pub fn asked_in_batch(&mut self, kind: u8) {
        if kind == frontend::SYNC {
            (self.is_skipping, self.has_executed, self.has_failed_copy) = (false, false, false);
            self.syncs += 1;
            self.owed.push_back(Owed::Sync);
            return;
        }
        self.has_executed |= kind == frontend::EXECUTE;
        self.owes_answers(1);
    }

    /// [`Exchange::asked`] for each message of a batch with this many messages before its Sync, where the server
    /// [owes nothing](Exchange::owes_nothing) and [`Exchange::may_step`].
    #[inline]
    pub fn asked_batch(&mut self, messages: u32) {
        self.owes_answers(messages);
        self.asked_in_batch(frontend::SYNC);
    }

    /// That many messages of a batch are sent.
    #[inline]
    pub(super) fn owes_answers(&mut self, messages: u32) {
        self.sent += u64::from(messages);
        match self.owed.back_mut() {
            Some(Owed::Batch { answers }) => *answers += messages,
            _ => self.owed.push_back(Owed::Batch { answers: messages }),
        }
    }

    /// Whether the last message sent belongs to a batch that is still open, and the server neither skips that nor reads a COPY.
    #[inline]
    #[must_use]
    pub fn is_in_batch(&self) -> bool {
        matches!(self.owed.back(), Some(Owed::Batch { .. } | Owed::Step(_))) && self.may_step()
    }

    /// How many of the oldest items an error in the first skips: in a batch, all up to the next Sync; otherwise none.
    pub(super) fn failed_batch(&self) -> usize {
        let Some(Owed::Batch { .. } | Owed::Step(_)) = self.owed.front() else { return 0 };
        let syncs = self.owed.iter().enumerate().filter(|(_, owed)| **owed == Owed::Sync);
        next_sync(syncs.map(|(place, _)| place)).unwrap_or(self.owed.len())
    }

    /// With nothing owed no batch is open. `has_executed` may still be set then: a Sync sent during a COPY does not clear
    /// it, and the server answers this Sync if the COPY has failed.
    pub(super) fn forgets_answered_batch(&mut self) {
        self.has_executed &= !self.owed.is_empty();
    }

    /// Removes the oldest batch if all its answers are paid and something was sent behind it. With nothing behind it the
    /// batch stays, because its Sync is still to come.
    pub(super) fn drop_paid_batch(&mut self) {
        let is_paid = self.owed.front() == Some(&Owed::Batch { answers: 0 });
        if is_paid && self.owed.iter().skip(1).any(|owed| *owed != Owed::CopyEnd) {
            self.pop();
        }
    }
}
