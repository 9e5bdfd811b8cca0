//! An online restart, as the control thread of the process that ends sees it: TAKEOVER, everything stands still, all is
//! carried over, the end; or it fails, and everything goes on.
//!
//! Always true: one is under way at a time; while it is, nothing is ordered that would change what is handed over. The last word
//! is said here and nowhere else, in the moment in which this process has handed over, and never after a shutdown was ordered
//! or the restart was called off: what a courier brings of such a one is dropped.
//! Not here: what is carried and how (`courier`).

use std::sync::mpsc::{self, Sender};

use reactor::Level;
use worker::letters::{Ids, Order as Task, Shutdown, ToWorker};

use crate::console::Refusal;
use crate::control::Control;
use crate::courier::{Courier, Hello, LastWord, News, PATIENCE, STILLNESS_MAX, VERSION, meeting_place};
use crate::orders::Waiter;
use crate::service::Service;
use crate::words_of;

/// A new process that takes over.
#[derive(Debug)]
pub(crate) struct Handover {
    /// Which of all online restarts it is: the courier of one that was called off may still be on its way.
    number: u64,
    /// Told when everything stands still; dropped to call the courier back.
    still: Sender<()>,
    /// How often all workers have said that they stand still: a client that was on the way from one to another when they said so
    /// first is there when they say so again.
    rounds: u32,
}

impl<S> Control<S> {
    /// TAKEOVER: the courier sets out.
    ///
    /// # Errors
    /// It cannot be now, or not with that process.
    pub(crate) fn begin_handover(&mut self, version: u64) -> Result<(), Refusal> {
        if version != VERSION {
            return Err(Refusal::new(format!("this process hands over in version {VERSION}, not {version}")));
        }
        if self.shutdown.is_some() {
            return Err(Refusal::new("pooler is shutting down"));
        }
        if self.is_suspended || self.force.standing.is_paused {
            return Err(Refusal::new("already suspended/paused"));
        }
        if !self.force.standing.paused.is_empty() {
            return Err(Refusal::new("cannot suspend with paused databases"));
        }
        let settings = &self.force.settings;
        let Some(socket) =
            settings.unix_socket_dir.as_ref().map(|dir| format!("{dir}/.s.PGSQL.{}", settings.listen_port))
        else {
            return Err(Refusal::new("cannot hand over without a unix socket"));
        };
        let (still, told) = mpsc::channel();
        self.handovers += 1;
        let number = self.handovers;
        let stillness_max = settings.suspend_timeout.map_or(STILLNESS_MAX, |limit| limit + PATIENCE);
        self.handover = Some(Handover { number, still, rounds: 0 });
        self.courier = Some(Courier {
            number,
            stillness_max,
            path: meeting_place(&socket),
            own_uid: self.force.own_uid,
            hello: Hello::new(&self.force, stillness_max),
            ids: self.ids.clone(),
            workers: self.posts().to_vec(),
            still: told,
        });
        Ok(())
    }

    /// The courier that is to set out; [`Event::News`](crate::Event::News) follows.
    pub fn next_courier(&mut self) -> Option<Courier<S>> {
        self.courier.take()
    }

    /// The courier of an online restart reports.
    pub(crate) fn hear_courier(&mut self, number: u64, news: News) {
        if self.handover.as_ref().is_none_or(|handover| handover.number != number) {
            // It was called off, or we go down. A last word that comes with this is never said.
            return;
        }
        match news {
            News::Ready => {
                self.log(Level::Log, format_args!("online restart: the new process is ready, suspending"));
                self.is_suspended = true;
                self.stand_still();
            }
            News::Done(last_word) => self.let_go(last_word),
            News::Failed(why) => self.fail_handover(&why),
        }
    }

    /// The new process has everything: it is told that it is alone.
    fn let_go(&mut self, last_word: LastWord) {
        match last_word.say() {
            Ok(pid) => {
                self.log(Level::Log, format_args!("online restart: handed over, exiting"));
                if let Some(pid) = pid {
                    self.service.goes_on_in(pid);
                }
                self.has_handed_over = true;
                self.shutdown = Some(Shutdown::Now);
                self.post_all(|| ToWorker::HandedOver);
            }
            Err(error) => self.fail_handover(&format!("the new process was lost: {}", words_of(&error))),
        }
    }

    fn fail_handover(&mut self, why: &str) {
        self.log(Level::Error, format_args!("online restart failed, going on: {why}"));
        self.undo_handover("an online restart that has failed");
    }

    /// Somebody has thought better of it, and everything goes on here.
    pub(crate) fn call_off_handover(&mut self, by: &str) {
        self.log(Level::Log, format_args!("online restart called off by {by}, going on"));
        self.undo_handover(by);
    }

    fn undo_handover(&mut self, by: &str) {
        self.forget_handover();
        if self.is_suspended {
            self.wake_up(by);
        }
    }

    /// From now on nothing can be handed over, whatever the courier brings.
    pub(crate) fn forget_handover(&mut self) {
        (self.handover, self.courier) = (None, None);
        for (question, _) in self.waits.take_back(|waiter| *waiter == Waiter::Handover) {
            self.post_all(|| ToWorker::ForgetOrder { question });
        }
    }

    fn stand_still(&mut self) {
        self.give(&Task::Suspend { is_handover: true }, Waiter::Handover);
    }

    /// All workers stand still.
    pub(crate) fn stands_still(&mut self) {
        let Some(handover) = &mut self.handover else { return };
        handover.rounds += 1;
        if handover.rounds < 2 {
            self.stand_still();
        } else {
            // A courier that has given up meanwhile says so itself.
            let _ = handover.still.send(());
        }
    }

    /// Whom to tell that we go down, and how things are.
    #[must_use]
    pub fn with_service(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// The numbers that clients and servers have.
    #[must_use]
    pub fn with_ids(mut self, ids: Ids) -> Self {
        self.ids = ids;
        self
    }
}
