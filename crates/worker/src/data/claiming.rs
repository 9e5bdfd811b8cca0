//! A client has sent a statement that needs a database to itself: tells all workers.
//!
//! Always true: workers are told only after PostgreSQL has had the time to refuse the statement, as it does at once
//! where the client lacks the privilege or something else is wrong; nothing waits for what the other workers do.
//! Not here: how such a statement is recognized (`claims`), which servers are closed for it (`vacate`).

use std::sync::Arc;
use std::time::Duration;

use base::Key;
use pool::ServerKey;
use reactor::Io;
use wire::backend::TxStatus;

use crate::data::claims::{ClaimProgress, Claimed, Phase, begins};
use crate::data::client::Link;
use crate::letters::ToWorker;
use crate::timers::Timer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether the client's last statement was such a one.
    pub(crate) fn has_claimed(&self, key: Key) -> bool {
        self.clients.ready(key).is_some_and(|ready| ready.claimed.is_some())
    }

    /// A client sends something to its server: notes whether that is such a statement, and nothing else.
    pub(crate) fn note_claim(&mut self, key: Key, server_key: ServerKey, bytes: &[u8]) {
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let before = ready.claimed.take();
        let Some(server) = self.servers.get(server_key).filter(|server| server.dedicated.is_none()) else { return };
        if ready.session.scanner.is_in_body() || !ready.session.scanner.torn_header().is_empty() {
            return;
        }
        if !server.session.exchange.owes_client_nothing() || server.session.exchange.status() != TxStatus::Idle {
            ready.claimed = before.filter(|before| before.is_all_until_sync(bytes, 0));
            return;
        }
        let dialect = self.texts.dialect(&ready.session.vars, &self.active.tracked);
        let next = self.now + PROMPT;
        let claimed = begins(bytes, before.as_deref(), dialect);
        ready.claimed = claimed.map(|claimed| Box::new(Claimed { since: self.now, next, ..claimed }));
        if ready.claimed.is_some() {
            self.timers.insert(next, Timer::Claim(key));
        }
    }

    /// If such a statement is still unanswered, has idle servers of its database closed.
    pub(crate) fn claim_due(&mut self, key: Key) {
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let (Link::Loan(server), Some(claimed)) = (ready.link, &mut ready.claimed) else { return };
        let Some(server) = self.servers.get(server) else { return };
        // PostgreSQL may not have begun to execute messages that no Sync follows.
        let is_executed = !server.session.exchange.owes_client_nothing() && !server.session.exchange.wants_sync();
        let (Some(address), true) = (server.address.clone(), is_executed && claimed.next <= self.now) else { return };
        let claim = claimed.claim.clone();
        claimed.next = self.now + ROUND;
        if self.now.since(claimed.since) < PATIENCE {
            self.timers.insert(claimed.next, Timer::Claim(key));
        }
        let phase = Phase::Waits(self.client_prefix(key));
        self.post_claim_progress(ClaimProgress { claim, address, phase });
    }

    /// A client's server has changed the catalog: if it did so by such a statement, all workers are told.
    pub(crate) fn claim_done(&mut self, key: Key) {
        let Some(ready) = self.clients.ready(key) else { return };
        let (Link::Loan(server), Some(claimed)) = (ready.link, &ready.claimed) else { return };
        let Some(address) = self.servers.get(server).and_then(|server| server.address.clone()) else { return };
        self.post_claim_progress(ClaimProgress { claim: claimed.claim.clone(), address, phase: Phase::Done });
    }

    fn post_claim_progress(&self, progress: ClaimProgress) {
        let progress = Arc::new(progress);
        self.posts.workers.iter().for_each(|post| post(ToWorker::ClaimProgress(progress.clone())));
    }
}

/// PostgreSQL refuses a statement within this time, unless it executes it or waits for other sessions to leave the database.
const PROMPT: Duration = Duration::from_millis(100);
/// Pause before idle servers that were opened meanwhile are closed again,
const ROUND: Duration = Duration::from_millis(500);
/// for as long as PostgreSQL waits (5 seconds: `CountOtherDBBackends` in `storage/ipc/procarray.c`).
const PATIENCE: Duration = Duration::from_secs(5);
