//! An online restart, as the control thread of the process that ends sees it: TAKEOVER, everything stands still, all is
//! carried over, the end; or it fails, and everything goes on.
//!
//! Always true: one is under way at a time; while it is, nothing is ordered that would change what is handed over. The last word
//! is said here and nowhere else, in the moment in which this process has handed over, and never after a shutdown was ordered
//! or the restart was called off: what a courier brings of such a one is dropped.
//! Not here: what is carried and how (`courier`), and what everything does meanwhile (`orders`).

use std::sync::mpsc::{self, Sender};

use worker::letters::Ids;

use crate::console::Refusal;
use crate::courier::{Courier, Hello, LastWord, News, PATIENCE, STILLNESS_MAX, meeting_place};
use crate::present::Present;
use crate::words_of;

/// The online restarts of this process.
pub(crate) struct Handovers<S> {
    /// How many have begun.
    pub(crate) begun: u64,
    /// The one that is under way.
    open: Option<Handover>,
    courier: Option<Courier<S>>,
    /// A new process has taken over.
    is_done: bool,
}

/// A new process that takes over.
#[derive(Debug)]
struct Handover {
    /// Which of all online restarts it is: the courier of one that was called off may still be on its way.
    number: u64,
    /// Told when everything stands still; dropped to call the courier back.
    still: Sender<()>,
    /// How often all workers have said that they stand still: a client that was on the way from one to another when they said so
    /// first is there when they say so again.
    rounds: u32,
}

/// What follows from a courier's report.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Everything is to stand still.
    StandStill,
    /// The new process has everything, and has been told that it is alone: it is this one, as far as it is known.
    Done(Option<u32>),
    /// It has failed.
    Failed(String),
}

impl<S> Default for Handovers<S> {
    fn default() -> Self {
        Self { begun: 0, open: None, courier: None, is_done: false }
    }
}

impl<S> Handovers<S> {
    /// TAKEOVER: the courier sets out.
    ///
    /// # Errors
    /// There is no place to meet the new process.
    pub(crate) fn begin(&mut self, ids: &Ids, present: &Present<S>) -> Result<(), Refusal> {
        let settings = &present.active.settings;
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
        self.courier = Some(Courier {
            number,
            stillness_max,
            path: meeting_place(&socket),
            own_uid: present.active.own_uid,
            hello: Hello::new(&present.active, stillness_max),
            ids: ids.clone(),
            workers: present.posts().to_vec(),
            still: told,
        });
        Ok(())
    }

    /// The courier that is to set out.
    pub(crate) fn next_courier(&mut self) -> Option<Courier<S>> {
        self.courier.take()
    }

    /// The courier of an online restart reports. Of one that was called off, or if we go down, nothing follows: a last word that
    /// comes with this is never said.
    pub(crate) fn hear(&mut self, number: u64, news: News) -> Option<Turn> {
        self.open.as_ref().filter(|handover| handover.number == number)?;
        Some(match news {
            News::Ready => Turn::StandStill,
            News::Done(last_word) => self.let_go(last_word),
            News::Failed(why) => Turn::Failed(why),
        })
    }

    /// The new process has everything: it is told that it is alone.
    fn let_go(&mut self, last_word: LastWord) -> Turn {
        match last_word.say() {
            Ok(pid) => {
                self.is_done = true;
                Turn::Done(pid)
            }
            Err(error) => Turn::Failed(format!("the new process was lost: {}", words_of(&error))),
        }
    }

    /// All workers stand still. Whether they are to say so once more.
    pub(crate) fn stands_still(&mut self) -> bool {
        let Some(handover) = &mut self.open else { return false };
        handover.rounds += 1;
        let is_sure = handover.rounds >= 2;
        if is_sure {
            // A courier that has given up meanwhile says so itself.
            let _ = handover.still.send(());
        }
        !is_sure
    }

    /// From now on nothing can be handed over, whatever the courier brings.
    pub(crate) fn forget(&mut self) {
        (self.open, self.courier) = (None, None);
    }

    /// Whether one is under way.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether a new process has taken over.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }
}
