//! Handles the ledger's answers: clients and pools get the slots they asked for, or are refused.
//!
//! Always true: a slot granted to a client that has gone is given back.
//! Not here: asking for slots (`shared_slots`).

use base::Key;
use pool::{Answer, Event, LedgerKey, Outcome};
use protocol::fault::Fault;
use reactor::Io;

use crate::limits::shared_slots::read_claim;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Handles an answer of the ledger.
    pub(crate) fn worker_quota_hears(&mut self, answer: Answer) {
        let (mut outcomes, mut letters) = (Vec::new(), Vec::new());
        self.limits.lending.worker_quota.handle(answer, &mut outcomes, &mut letters);
        self.send_letters(letters);
        for outcome in outcomes {
            match outcome {
                Outcome::Granted { key: LedgerKey::Clients, claimant, .. } => {
                    self.client_slot_taken(Key::from_bits(claimant));
                }
                Outcome::Granted { key: key @ LedgerKey::UserClients(_), claimant, .. } => {
                    self.user_slot_taken(Key::from_bits(claimant), &key);
                }
                Outcome::Granted { key: LedgerKey::UserServers(_), claimant, .. } => {
                    let (user, need) = read_claim(claimant);
                    self.tell_pools(Event::Granted { user, need });
                }
                Outcome::Denied { key: LedgerKey::Clients, claimant, .. } => {
                    let limit = self.active.settings.max_client_conn;
                    self.fail_client(Key::from_bits(claimant), &Fault::ClientsFull { limit });
                }
                Outcome::Denied { key: LedgerKey::UserClients(name), claimant, .. } => {
                    let limit = self.active.settings.max_user_client_connections(&name).unwrap_or(0);
                    self.fail_client(Key::from_bits(claimant), &Fault::UserClientsFull { limit });
                }
                Outcome::Denied { key: LedgerKey::UserServers(_), claimant, .. } => {
                    self.tell_pools(Event::Denied { user: read_claim(claimant).0 });
                }
                Outcome::Wanted { key: LedgerKey::UserServers(name), is_wanted } => {
                    if let Some(user) = self.registry.known_user(&name) {
                        self.tell_pools(Event::Wanted { user, is_wanted });
                    }
                }
                Outcome::Wanted { .. } => {}
            }
            self.settle();
        }
    }
}
