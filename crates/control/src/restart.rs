//! How the control thread behaves while a new process takes over: it suspends everything, and ends or goes on.
//!
//! Always true: once an online restart is over, however it ended, no order of it is waited for any more.
//! Not here: which restart is under way and when the process may let go (`handover`).

use reactor::Level;
use worker::letters::{Order as Task, ToWorker};

use crate::console::Refusal;
use crate::control::{Control, TaskPurpose};
use crate::events::EventKind;
use crate::handover::HandoverStep;
use crate::orders::suspend_refused;
use crate::transfer::{News, VERSION};

impl<S> Control<S> {
    /// Returns whether the process ends because a new process has taken over.
    #[must_use]
    pub fn has_handed_over(&self) -> bool {
        self.handovers.is_done()
    }

    /// Carries out TAKEOVER: a new process wants to take over.
    ///
    /// # Errors
    /// A takeover is impossible now, or not with that process.
    pub(crate) fn begin_handover(&mut self, version: u64) -> Result<(), Refusal> {
        if version != VERSION {
            return Err(Refusal::new(format!("this process hands over in version {VERSION}, not {version}")));
        }
        if self.shutdown.way().is_some() {
            return Err(Refusal::new("pooler is shutting down"));
        }
        let standing = &self.hands.active.standing;
        if self.is_suspended || standing.is_all_paused() {
            let what = if self.is_suspended { "suspended" } else { "paused" };
            let hint = format!("All databases are {what}: RESUME on the console of the old process ends that.");
            return Err(Refusal::new("already suspended/paused").hinted(hint));
        }
        if !standing.paused().is_empty() {
            return Err(suspend_refused(standing));
        }
        self.handovers.begin(&self.ids, &self.clusters, &self.hands)
    }

    /// Handles a report of the transfer.
    pub(crate) fn hear_courier(&mut self, number: u64, news: News) {
        match self.handovers.hear(number, news) {
            None => {}
            Some(HandoverStep::StandStill) => {
                self.tell(
                    EventKind::Restart,
                    Level::Log,
                    format_args!("online restart: the new process is ready, suspending"),
                );
                let steps = self.tracers.end_all();
                self.go_on_with_traces(steps);
                self.is_suspended = true;
                self.stand_still();
            }
            Some(HandoverStep::Done(pid)) => {
                self.tell(EventKind::Restart, Level::Log, format_args!("online restart: handed over, exiting"));
                if let Some(pid) = pid {
                    self.service.goes_on_in(pid);
                }
                self.shutdown.end();
                self.hands.post_all(|| ToWorker::HandedOver);
            }
            Some(HandoverStep::Failed(why)) => {
                self.tell(EventKind::Restart, Level::Error, format_args!("online restart failed, going on: {why}"));
                self.undo_handover("an online restart that has failed");
            }
        }
    }

    /// Calls off the online restart; this process goes on.
    pub(crate) fn call_off_handover(&mut self, by: &str) {
        self.tell(EventKind::Restart, Level::Log, format_args!("online restart called off by {by}, going on"));
        self.undo_handover(by);
    }

    fn undo_handover(&mut self, by: &str) {
        self.forget_handover();
        if self.is_suspended {
            self.wake_up(by);
        }
    }

    /// Forgets the restart; later reports of its transfer are ignored.
    pub(crate) fn forget_handover(&mut self) {
        self.handovers.forget();
        for (question, _) in self.pending_orders.take_back(|purpose| *purpose == TaskPurpose::Handover) {
            self.hands.post_all(|| ToWorker::ForgetOrder { question });
        }
    }

    fn stand_still(&mut self) {
        self.give(&Task::Suspend { is_handover: true }, TaskPurpose::Handover);
    }

    /// All workers are suspended.
    pub(crate) fn stands_still(&mut self) {
        if self.handovers.stands_still(|| self.events.pack()) {
            self.stand_still();
        }
    }
}
