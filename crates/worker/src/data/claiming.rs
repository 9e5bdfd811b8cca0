//! A client says a statement that needs a database to itself: all workers are told.
//!
//! Always true: nobody is told before PostgreSQL has had the time to refuse the statement, as it does at once where its client has no right to it or something else
//! is wrong; nothing waits for what the others do.
//! Not here: how such a statement is recognized (`claims`), what is done about it (`vacate`).

use std::sync::Arc;
use std::time::Duration;

use base::Key;
use pool::ServerKey;
use reactor::Io;
use wire::backend::TxStatus;

use crate::data::claims::{Claimed, Phase, Sole, begins};
use crate::data::client::{Client, Link, Stage as ClientStage};
use crate::letters::ToWorker;
use crate::timers::Timer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a client's last words were such a statement.
    pub(crate) fn has_claimed(&self, key: Key) -> bool {
        let client = self.clients.get(key).map(|client| &client.stage);
        matches!(client, Some(ClientStage::Ready(ready)) if ready.claimed.is_some())
    }

    /// A client says something to its server: whether that is such a statement, and nothing else.
    pub(crate) fn note_claim(&mut self, key: Key, server_key: ServerKey, bytes: &[u8]) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        let before = ready.claimed.take();
        let Some(server) = self.servers.get(server_key).filter(|server| server.dedicated.is_none()) else { return };
        if ready.session.scanner.is_in_body() || !ready.session.scanner.torn_header().is_empty() {
            return;
        }
        if !server.session.exchange.owes_client_nothing() || server.session.exchange.status() != TxStatus::Idle {
            ready.claimed = before.filter(|before| before.goes_on(bytes, 0));
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

    /// If such a statement is still not answered, whoever is connected to its database without need goes.
    pub(crate) fn claim_due(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        let (Link::Loan(server), Some(claimed)) = (ready.link, &mut ready.claimed) else { return };
        let Some(server) = self.servers.get(server) else { return };
        // What no Sync follows PostgreSQL may not have begun to execute.
        let is_executed = !server.session.exchange.owes_client_nothing() && !server.session.exchange.wants_sync();
        let (Some(address), true) = (server.address.clone(), is_executed && claimed.next <= self.now) else { return };
        let claim = claimed.claim.clone();
        claimed.next = self.now + ROUND;
        if self.now.since(claimed.since) < PATIENCE {
            self.timers.insert(claimed.next, Timer::Claim(key));
        }
        let phase = Phase::Waits(self.client_prefix(key));
        self.tell_of_sole(Sole { claim, address, phase });
    }

    /// A client's server has changed something in the catalog: if that was such a statement, all workers are told.
    pub(crate) fn claim_done(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get(key) else { return };
        let (Link::Loan(server), Some(claimed)) = (ready.link, &ready.claimed) else { return };
        let Some(address) = self.servers.get(server).and_then(|server| server.address.clone()) else { return };
        self.tell_of_sole(Sole { claim: claimed.claim.clone(), address, phase: Phase::Done });
    }

    fn tell_of_sole(&self, sole: Sole) {
        let sole = Arc::new(sole);
        self.posts.workers.iter().for_each(|post| post(ToWorker::Sole(sole.clone())));
    }
}

/// PostgreSQL refuses a statement within this time, unless it waits for others to leave the database, or executes it.
const PROMPT: Duration = Duration::from_millis(100);
/// So often it is looked again who has come back meanwhile,
const ROUND: Duration = Duration::from_millis(500);
/// for as long as PostgreSQL waits (5 seconds: `CountOtherDBBackends` in `storage/ipc/procarray.c`).
const PATIENCE: Duration = Duration::from_secs(5);
