//! An online restart as seen by the control thread of the old process: TAKEOVER, suspension, transfer of all state,
//! exit; if a step fails, the old process goes on.
//!
//! Always true: one restart is under way at a time; meanwhile orders that would change the transferred state are
//! refused. The final message is said here and nowhere else, at the moment in which this process hands over, and never
//! after a shutdown was ordered or the restart was called off: a final message from the transfer of such a restart is
//! dropped.
//! Not here: what is transferred and how (`transfer`), and how the rest of the process behaves meanwhile (`orders`).

use std::sync::mpsc::{self, Sender};

use worker::letters::Ids;

use crate::clusters::Clusters;
use crate::console::Refusal;
use crate::hands::Hands;
use crate::packed_events::PackedEvents;
use crate::transfer::{FinalMessage, Hello, News, PATIENCE, STILLNESS_MAX, Transfer, meeting_place};
use crate::words_of;

/// The online restarts of this process.
pub(crate) struct Handovers<S> {
    /// The number of restarts that have begun.
    pub(crate) begun: u64,
    /// The restart that is under way.
    open: Option<Handover>,
    transfer: Option<Transfer<S>>,
    /// A new process has taken over.
    is_done: bool,
}

/// An online restart that is under way.
#[derive(Debug)]
struct Handover {
    /// The number of the restart. The transfer of one that was called off may still be running.
    number: u64,
    /// Signals the transfer that everything is suspended, with the events so far; dropping it calls the transfer off.
    still: Sender<PackedEvents>,
    /// How often all workers have reported that they are suspended. A client that was in transit between two workers in
    /// the first round has arrived by the second.
    rounds: u32,
}

/// The consequence of a transfer's report.
#[derive(Debug)]
pub(crate) enum HandoverStep {
    /// All workers are to be suspended.
    StandStill,
    /// The new process has everything and has been told that it is alone. Its process number, if known.
    Done(Option<u32>),
    /// The restart has failed.
    Failed(String),
}

impl<S> Default for Handovers<S> {
    fn default() -> Self {
        Self { begun: 0, open: None, transfer: None, is_done: false }
    }
}

impl<S> Handovers<S> {
    /// Carries out TAKEOVER: creates the transfer.
    ///
    /// # Errors
    /// There is no unix socket beside which to meet the new process.
    pub(crate) fn begin(&mut self, ids: &Ids, clusters: &Clusters, hands: &Hands<S>) -> Result<(), Refusal> {
        let settings = &hands.active.settings;
        let Some(socket) =
            settings.unix_socket_dir.as_ref().map(|dir| format!("{dir}/.s.PGSQL.{}", settings.listen_port))
        else {
            return Err(Refusal::new("cannot hand over without a unix socket"));
        };
        let (still, told) = mpsc::channel();
        self.begun += 1;
        let number = self.begun;
        let stillness_max = settings.suspend_timeout.map_or(STILLNESS_MAX, |limit| limit + PATIENCE);
        self.open = Some(Handover { number, still, rounds: 0 });
        self.transfer = Some(Transfer {
            number,
            stillness_max,
            path: meeting_place(&socket),
            own_uid: hands.active.own_uid,
            hello: Hello::new(&hands.active, clusters.pack(hands.now.time, settings), stillness_max),
            ids: ids.clone(),
            workers: hands.posts().to_vec(),
            still: told,
        });
        Ok(())
    }

    /// Takes the transfer that is to be started.
    pub(crate) fn next_transfer(&mut self) -> Option<Transfer<S>> {
        self.transfer.take()
    }

    /// Handles a transfer's report. A report of a restart that was called off, or that arrives during a shutdown, is
    /// ignored, and its final message is never said.
    pub(crate) fn hear(&mut self, number: u64, news: News) -> Option<HandoverStep> {
        self.open.as_ref().filter(|handover| handover.number == number)?;
        Some(match news {
            News::Ready => HandoverStep::StandStill,
            News::Done(final_message) => self.let_go(final_message),
            News::Failed(why) => HandoverStep::Failed(why),
        })
    }

    /// Tells the new process, which has everything, that it is alone.
    fn let_go(&mut self, final_message: FinalMessage) -> HandoverStep {
        match final_message.say() {
            Ok(pid) => {
                self.is_done = true;
                HandoverStep::Done(pid)
            }
            Err(error) => HandoverStep::Failed(format!("the new process was lost: {}", words_of(&error))),
        }
    }

    /// All workers are suspended. Returns whether they must report so once more.
    pub(crate) fn stands_still(&mut self, events: impl FnOnce() -> PackedEvents) -> bool {
        let Some(handover) = &mut self.open else { return false };
        handover.rounds += 1;
        let is_sure = handover.rounds >= 2;
        if is_sure {
            // A transfer that has given up meanwhile reports that itself.
            let _ = handover.still.send(events());
        }
        !is_sure
    }

    /// Forgets the restart; later reports of its transfer are ignored.
    pub(crate) fn forget(&mut self) {
        (self.open, self.transfer) = (None, None);
    }

    /// Returns whether a restart is under way.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns whether a new process has taken over.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }
}
