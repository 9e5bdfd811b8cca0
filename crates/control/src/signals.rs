//! The meaning of each signal, when a signal is ignored, and how a waiting shutdown continues.
//!
//! Always true: every signal is logged, in PgBouncer's words.
//! Not here: catching signals (`run`), what a shutdown waits for (`shutdown_progress`).

use base::{WorkerId, counted};
use reactor::Level;
use worker::letters::{Order as Task, Shutdown, ToWorker};

use crate::control::{Control, TaskPurpose};
use crate::event::Signal;
use crate::events::EventKind;
use crate::shutdown_progress::Expired;

impl<S> Control<S> {
    /// Acts on a signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let is_going_down = self.shutdown.way().is_some();
        self.happened(EventKind::Signal, signal.name());
        match signal {
            Signal::Hangup | Signal::User1 if self.handovers.is_open() => {
                self.hands.log(Level::Log, format_args!("got {signal:?} during an online restart, ignoring"));
            }
            Signal::User2 if self.handovers.is_open() => self.call_off_handover("SIGUSR2"),
            Signal::Hangup => {
                self.hands.log(Level::Log, format_args!("got SIGHUP, re-reading config"));
                // A service manager that was told STOPPING=1 gets no RELOADING=1 or READY=1 after it.
                if is_going_down {
                    // Errors have been logged.
                    let _ = self.reload();
                } else {
                    self.service.reloading();
                    // Errors have been logged.
                    let _ = self.reload();
                    self.service.ready();
                }
            }
            Signal::Terminate if is_going_down => {
                self.hands.log(Level::Log, format_args!("got SIGTERM while shutting down, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::Terminate => {
                let text = "got SIGTERM, shutting down, waiting for all clients disconnect";
                self.hands.log(Level::Log, format_args!("{text}"));
                self.go_down_by_signal(Shutdown::WaitForClients);
            }
            Signal::Interrupt if is_going_down => {
                self.hands.log(Level::Log, format_args!("got SIGINT while shutting down, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::Interrupt => {
                let text = "got SIGINT, shutting down, waiting for all servers connections to be released";
                self.hands.log(Level::Log, format_args!("{text}"));
                self.go_down_by_signal(Shutdown::WaitForServers);
            }
            Signal::Quit => {
                self.hands.log(Level::Log, format_args!("got SIGQUIT, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::User1 if self.hands.active.standing.is_all_paused() || self.is_suspended => {
                self.hands.log(Level::Log, format_args!("got SIGUSR1, but already paused/suspended"));
            }
            Signal::User1 => {
                self.hands.log(Level::Log, format_args!("got SIGUSR1, pausing all activity"));
                self.pause_all();
            }
            Signal::User2 if is_going_down => {
                self.hands.log(Level::Log, format_args!("got SIGUSR2 while shutting down, ignoring"));
            }
            Signal::User2 if self.is_suspended => {
                self.hands.log(Level::Log, format_args!("got SIGUSR2, continuing from SUSPEND"));
                self.wake_up("SIGUSR2");
            }
            Signal::User2 if self.hands.active.standing.is_all_paused() => {
                self.hands.log(Level::Log, format_args!("got SIGUSR2, continuing from PAUSE"));
                self.unpause(&None, "SIGUSR2");
            }
            Signal::User2 => self.hands.log(Level::Log, format_args!("got SIGUSR2, but not paused/suspended")),
        }
    }

    /// Begins a shutdown. As in PgBouncer, a suspended process does not wait but ends at once.
    fn go_down_by_signal(&mut self, way: Shutdown) {
        if self.is_suspended || self.handovers.is_open() {
            let what = if self.handovers.is_open() { "takeover" } else { "suspend" };
            self.hands.log(Level::Fatal, format_args!("{what} was in progress, going down immediately"));
            self.has_failed = true;
            self.go_down(Shutdown::Now);
        } else {
            self.go_down(way);
        }
    }

    /// A worker reports whether it has anything left that the shutdown waits for.
    pub(crate) fn drained(&mut self, from: WorkerId, is_drained: bool) {
        if self.shutdown.drained(from, is_drained, self.hands.workers()) {
            self.give(&Task::ConfirmDrained, TaskPurpose::Shutdown);
        }
    }

    /// `confirmed` workers have confirmed that they have nothing left.
    pub(crate) fn all_are_drained(&mut self, confirmed: u32) {
        if let Some(what) = self.shutdown.confirmed(confirmed, self.hands.workers()) {
            self.tell(EventKind::Shutdown, Level::Log, format_args!("{what} connections dropped, exiting"));
            self.go_down(Shutdown::Now);
        }
    }

    /// Acts when a deadline of the shutdown has passed.
    pub(crate) fn expire_shutdown(&mut self) {
        let limit = self.hands.active.settings.shutdown_timeout;
        match self.shutdown.expire(self.hands.now.time, limit) {
            None => {}
            Some(Expired::Exit) => {
                let line = format_args!("shutdown_timeout: servers were not clean in time, exiting");
                self.tell(EventKind::Shutdown, Level::Warning, line);
                self.go_down(Shutdown::Now);
            }
            Some(Expired::StopLending { secs, left }) => {
                let (time, left) = (counted(secs, "second"), counted(left.as_secs_f64().ceil() as u64, "second"));
                let line = format_args!(
                    "shutdown_timeout: have waited for {time}, no client gets a server any more; transactions may end within {left}"
                );
                self.tell(EventKind::Shutdown, Level::Log, line);
                self.hands.post_all(|| ToWorker::StopLending { secs });
            }
            Some(Expired::CloseClients { secs }) => {
                let time = counted(secs, "second");
                self.tell(
                    EventKind::Shutdown,
                    Level::Warning,
                    format_args!("shutdown_timeout: have waited for {time}, closing the clients that are left"),
                );
                self.hands.post_all(|| ToWorker::EndClients { secs });
            }
        }
    }
}
