//! Clients that the operator disconnects: all of them must go, and nobody else.
//!
//! Always true: only clients that the operator has meant get the error of such a disconnection, and all of these are
//! disconnected.
//! Not here: how the operator finds them (`faults`).

use std::collections::BTreeSet;
use std::time::Duration;

use base::Time;
use worker::letters::{Shutdown, Whose};

use crate::app::Ended;
use crate::checks::witness::Charge;
use crate::postgres::session::Session;
use crate::state::World;

impl World {
    /// Another process has taken over: the open searches and orders of the old one are dropped, and completed
    /// RECONNECTs are kept.
    pub(crate) fn forget_evictions(&mut self) {
        self.evicted.sought.clear();
        self.evicted.renewals.retain(|(_, _, is_obeyed)| *is_obeyed);
        self.evicted.suspects.clear();
    }

    /// Every worker has answered a KILL_CLIENT.
    pub(crate) fn check_killed(&mut self, id: u64, done: usize) {
        let Some(Some(end)) = self.evicted.killed.get(&id).copied() else { return };
        let net = self.net.borrow();
        let (is_there, has_left) = (!net.end(end).is_closed, net.end(end ^ 1).is_closed);
        if done > 0 {
            self.witness.count("clients killed");
        }
        // A client that leaves by itself may be gone before the order arrives.
        if is_there && !has_left {
            let text = format!("KILL_CLIENT {id} has been obeyed by {done} workers, and the client is there");
            self.witness.accuse(Charge::NotServed, text);
        }
    }

    /// The log says that a client was killed.
    pub(crate) fn check_log_of_kills(&mut self) {
        let unmeant = self.checkers.killed.drain(..).find(|id| !self.evicted.killed.contains_key(id));
        if let Some(id) = unmeant {
            self.witness.accuse(Charge::NoReason, format!("client {id} is killed, and nobody wanted that"));
        }
    }

    /// RECONNECT is ordered.
    pub(crate) fn renewal_ordered(&mut self, whose: &Whose) {
        self.evicted.renewals.push((self.witness.now, whose.clone(), false));
    }

    /// Every worker has executed a RECONNECT.
    pub(crate) fn renewal_obeyed(&mut self, whose: &Whose) {
        let first = self.evicted.renewals.iter_mut().find(|(_, other, is_obeyed)| other == whose && !is_obeyed);
        if let Some((_, _, is_obeyed)) = first {
            *is_obeyed = true;
        }
    }

    /// Checks that no session-pooled server outside a transaction is older than a RECONNECT, where `server_fast_close`
    /// is set.
    pub(crate) fn look_at_renewals(&mut self) {
        let before = std::mem::take(&mut self.evicted.suspects);
        let now = self.witness.now;
        let is_fast = self.checkers.forces.iter().all(|(_, active)| active.settings.server_fast_close);
        let net = self.net.borrow();
        let is_stalled = net.worker_ios.iter().any(|worker_io| worker_io.busy_until > now);
        if self.evicted.renewals.is_empty() || !is_fast || is_stalled || self.is_suspended() {
            return;
        }
        let is_old = |session: &Session| {
            let is_meant = |whose: &Whose| whose.as_deref().is_none_or(|name| *name == *session.database);
            let mut renewals = self.evicted.renewals.iter();
            renewals.any(|(at, whose, is_obeyed)| *is_obeyed && session.born < *at && is_meant(whose))
        };
        let sessions = &self.postgres.sessions;
        let is_left = |session: &&Session| {
            // A server is not closed while a cancel request may still hit it.
            let is_aimed_at = || sessions.iter().any(|other| other.aims_at() == Some(session.number));
            let is_open = !net.end(session.end).is_closed && !net.end(session.end ^ 1).is_closed;
            let is_quiet = session.is_quiet() && net.is_heard(session.end) && net.is_heard(session.end ^ 1);
            is_open && is_quiet && session.database.starts_with("session") && is_old(session) && !is_aimed_at()
        };
        let left: BTreeSet<u32> = self.postgres.sessions.iter().filter(is_left).map(|session| session.number).collect();
        if let Some(number) = left.intersection(&before).next() {
            let text = format!("server {number} is there after a RECONNECT, and could have been closed");
            self.witness.accuse(Charge::NotServed, text);
        }
        self.evicted.suspects = left;
    }

    /// The control thread has no more servers lent, since it will soon disconnect all remaining clients.
    pub(crate) fn lending_ends(&mut self) {
        self.witness.note(|| "STOPS LENDING".to_owned());
        self.witness.count("shutdowns that lend no more");
        self.evicted.lending_ended = Some(self.witness.now);
        // From now on, for good.
        self.evicted.last = Time(u64::MAX);
    }

    /// The control thread disconnects all remaining clients (`shutdown_timeout`).
    pub(crate) fn clients_are_ended(&mut self) {
        self.witness.note(|| "ENDS CLIENTS".to_owned());
        self.witness.count("shutdowns out of patience");
        self.evicted.all_since = Some(self.witness.now);
        self.evicted.mended_by = Some(self.moment().time + MENDING_MAX);
        // From now on, for good.
        self.evicted.last = Time(u64::MAX);
        self.checkers.drained.clear();
    }

    /// A client gets an error before it is disconnected.
    pub(crate) fn check_eviction(&mut self, app: u32, ended: &Ended) {
        let Ended::Refused { text, .. } = ended else { return };
        if text.contains("(shutdown_timeout)") && self.evicted.lending_ended.or(self.evicted.all_since).is_none() {
            let text = format!("application {app} is told {text:?}, and nobody has run out of patience");
            self.witness.accuse(Charge::NoReason, text);
        }
    }

    /// All workers report that nothing is left that the shutdown waits for: then no query of a disconnected client may
    /// run, and no transaction of one may be open.
    pub(crate) fn check_mended(&mut self) {
        if self.evicted.all_since.is_none() || self.checkers.shutdown != Some(Shutdown::WaitForClients) {
            return;
        }
        let net = self.net.borrow();
        let is_open = |end: u32| !net.end(end).is_closed && !net.end(end ^ 1).is_closed && !net.end(end).is_reset;
        let busy = self.postgres.sessions.iter().find(|session| is_open(session.end) && session.is_in_transaction());
        if let Some(session) = busy {
            let text = format!("server {} is in a transaction, and its client has been sent away", session.number);
            self.witness.accuse(Charge::LoanEndedEarly, text);
        }
    }
}

/// How long the control thread waits until the servers of the disconnected clients are cancelled and rolled back.
const MENDING_MAX: Duration = Duration::from_secs(10);
