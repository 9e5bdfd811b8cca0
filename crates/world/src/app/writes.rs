//! What an application knows of its writes: which are committed, and which are in doubt.
//!
//! Always true: a write counts as committed when the end of its transaction was answered, and is in doubt while that answer is due.
//! Not here: what became of the writes (`members::history`).

use wire::backend::TxStatus;

use super::belief::Effect;
use super::state::App;
use crate::checks::witness::Witness;

impl App {
    /// The oldest request is answered.
    pub(super) fn mind_writes(&mut self, status: TxStatus, was_aborted: bool, witness: &mut Witness) {
        let Some(request) = self.asked.front() else { return };
        match request.effect {
            _ if was_aborted || status == TxStatus::Failed => self.writes.clear(),
            Effect::Writes => self.writes.push(request.nonce),
            Effect::Drops => self.writes.clear(),
            Effect::None | Effect::Commits => {}
        }
        if status == TxStatus::Idle {
            witness.acknowledged.append(&mut self.writes);
        }
    }

    /// The connection is about to be given up: notes what the application waits for.
    pub(super) fn note_doubts(&mut self) {
        self.was_waiting = !self.asked.is_empty() || !self.rest.is_empty();
        self.in_doubt.clear();
        // Those behind the first request that has no answer may have had none because of that.
        let Some(request) = self.asked.front() else { return };
        match request.effect {
            Effect::Writes if request.before.tx == TxStatus::Idle => self.in_doubt.push(request.nonce),
            Effect::Commits => self.in_doubt.append(&mut self.writes),
            _ => {}
        }
    }
}
