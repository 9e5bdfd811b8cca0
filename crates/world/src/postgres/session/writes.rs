//! The role of a session's host, and the writes of a session on a member of a cluster.
//!
//! Always true: a write is committed with its transaction, just before that is answered; the role is reported at the login, and when it has
//! changed before the next `ReadyForQuery`, as PostgreSQL does.
//! Not here: what the members have in common (`members::history`).

use wire::backend::TxStatus;
use wire::write;

use super::state::Session;
use crate::postgres::sql::Nonce;

impl Session {
    /// Tells the role of its host for the first time.
    pub(super) fn tell_role(&mut self) {
        let Some(history) = &self.history else { return };
        self.in_recovery = history.borrow().members[self.host].in_recovery;
        self.write_role();
        write::parameter_status(&mut self.out, "default_transaction_read_only", "off");
    }

    /// Reports the role of its host if it has changed.
    pub(super) fn report_role(&mut self) {
        let Some(history) = &self.history else { return };
        let history = history.borrow();
        let in_recovery = history.members[self.host].in_recovery;
        let now = history.now;
        drop(history);
        if in_recovery != self.in_recovery {
            self.in_recovery = in_recovery;
            self.told_primary = (!in_recovery).then_some(now);
            self.write_role();
        }
    }

    /// What it has told of its role may have reached nobody.
    pub(crate) fn forget_told(&mut self) {
        self.told_primary = None;
    }

    fn write_role(&mut self) {
        let is_standby = if self.in_recovery { "on" } else { "off" };
        write::parameter_status(&mut self.out, "in_hot_standby", is_standby);
    }

    /// A statement begins: nobody is lent a server of which the host has told another role than its database asks for.
    pub(super) fn check_role(&mut self, nonce: Nonce) {
        let former = self.last_app.replace(nonce.app);
        let is_lent_anew = self.tx == TxStatus::Idle && former != Some(nonce.app);
        if let (Some(history), Some(told)) = (&self.history, self.told_primary.filter(|_| is_lent_anew)) {
            history.borrow_mut().reads(nonce, &self.database, self.works_since.since(told));
        }
    }

    /// Runs a write. Returns whether the host takes it.
    pub(super) fn write(&mut self, nonce: Nonce) -> bool {
        let Some(history) = &self.history else { return true };
        let is_taken = history.borrow_mut().write(self.host, nonce);
        self.writes.extend(is_taken.then_some(nonce));
        is_taken
    }

    /// The transaction is committed.
    pub(super) fn commit_writes(&mut self) {
        let writes = std::mem::take(&mut self.writes);
        if let Some(history) = &self.history {
            history.borrow_mut().commit(self.host, &self.database, writes);
        }
    }
}
