//! Shutdowns: the control thread sends them because one was ordered, or because nothing is left to wait for.
//!
//! Always true: nothing is left when all workers say so.
//! Not here: how a world ends then (`phases`).

use base::Time;
use worker::letters::Shutdown;

use crate::checks::checkers::Phase;
use crate::checks::witness::Charge;
use crate::sim::net::Holder;
use crate::state::{START, World};

impl World {
    /// The control thread orders the workers to shut down, on demand or because nothing is left to wait for.
    pub(crate) fn goes_down(&mut self, way: Shutdown) {
        let now = self.witness.now;
        let before = self.checkers.shutdown;
        if before == Some(Shutdown::Now) {
            return;
        }
        let is_impatient = self.plan.shutdowns.iter().any(|&(at, way)| way == Shutdown::Now && START + at <= now.0);
        if way == Shutdown::Now && before.is_some() && !is_impatient {
            match self.evicted.mended_by.is_some_and(|end| end <= self.moment().time) {
                true if self.plan.is_calm => {
                    let text = "the servers of those who were sent away are not clean in time".to_owned();
                    self.witness.accuse(Charge::NotServed, text);
                }
                true => {}
                false => self.check_drained(),
            }
        }
        if way == Shutdown::Now {
            // One worker ends before the other, so the end of a connection for a cancel request tells nothing from now
            // on.
            self.evicted.last = Time(u64::MAX);
        }
        self.operator.handover = None;
        self.checkers.shutdown = Some(way);
        self.checkers.phase = Phase::GoingDown { since: now };
    }

    /// Checks that nothing is left, when all workers have said so.
    pub(crate) fn check_drained(&mut self) {
        let net = self.net.borrow();
        // Connections that the old process has not closed yet do not count for the new one.
        let is_its = |holder| matches!(holder, Holder::Worker { worker, .. } if self.serving_workers.contains(&worker));
        let is_ours = |end: u32| is_its(net.end(end ^ 1).holder) && !net.end(end ^ 1).is_closed;
        let left = match self.checkers.shutdown {
            Some(Shutdown::WaitForServers) => {
                // The connection of a cancel request does not count as a server.
                let sessions = self.postgres.sessions.iter().filter(|session| session.is_server());
                sessions.filter(|session| is_ours(session.end)).count()
            }
            _ => self.apps.iter().filter_map(|app| app.end).filter(|&end| is_ours(end)).count(),
        };
        if left > 0 {
            self.witness.accuse(Charge::Slots, format!("all workers are drained, and {left} are left"));
        }
        drop(net);
        self.check_mended();
        self.witness.count("shutdowns");
    }
}
