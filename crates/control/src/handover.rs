//! An online restart, as the control thread of the process that ends sees it: TAKEOVER, everything stands still, all is
//! carried over, the end; or it fails, and everything goes on.
//!
//! Always true: one is under way at a time; while it is, nothing is ordered that would change what is handed over.
//! Not here: what is carried and how (`courier`).

use std::sync::mpsc::{self, Sender};

use reactor::Level;
use worker::letters::{Ids, Order as Task, Shutdown, ToWorker};

use crate::console::Refusal;
use crate::control::Control;
use crate::courier::{Courier, Hello, News, VERSION, meeting_place};
use crate::orders::Waiter;
use crate::service::Service;

/// A new process that takes over.
#[derive(Debug)]
pub(crate) struct Handover {
    /// Told when everything stands still.
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
        self.handover = Some(Handover { still, rounds: 0 });
        self.courier = Some(Courier {
            path: meeting_place(&socket),
            own_uid: self.force.own_uid,
            hello: Hello::new(&self.force),
            ids: self.ids.clone(),
            workers: self.posts().to_vec(),
            still: told,
        });
        Ok(())
    }

    /// The courier that is to set out; [`Event::News`](crate::Event::News) follows.
    pub(crate) fn next_courier(&mut self) -> Option<Courier<S>> {
        self.courier.take()
    }

    /// The courier reports.
    pub(crate) fn hear_courier(&mut self, news: News) {
        match news {
            News::Ready if self.shutdown.is_none() => {
                self.log(Level::Log, format_args!("online restart: the new process is ready, suspending"));
                self.is_suspended = true;
                self.stand_still();
            }
            News::Ready => self.handover = None,
            News::Done => {
                self.log(Level::Log, format_args!("online restart: handed over, exiting"));
                self.has_handed_over = true;
                self.shutdown = Some(Shutdown::Now);
                self.post_all(|| ToWorker::HandedOver);
            }
            News::Failed(why) => {
                self.handover = None;
                self.log(Level::Error, format_args!("online restart failed, going on: {why}"));
                if self.is_suspended && self.shutdown.is_none() {
                    self.wake_up("an online restart that has failed");
                }
            }
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
