//! The queue of future events, ordered by time, and by the order of planning at the same time.
//!
//! Always true: time never goes back.
//! Not here: what follows from an event (`world`).

use std::collections::VecDeque;
use std::time::Duration;

use base::{Key, Time};

use crate::members;

/// An event of the simulation.
#[derive(Debug)]
pub(crate) enum Event {
    /// Bytes, or an end, reach this end of a connection.
    Arrives { end: u32, what: Arrival },
    /// A connection attempt reaches its target, which has this end.
    Knocks { end: u32 },
    /// A connection attempt is accepted or refused, at the end that made it.
    Answered { end: u32, is_welcome: bool },
    /// A connection that was closed with unsent bytes has had time enough for these.
    Lingered { end: u32 },
    /// The last message of a TLS handshake that a worker has begun was checked.
    Handshaken { worker: u8, line: Key, is_good: bool },
    /// A worker has its turn.
    Turn { worker: u8 },
    /// The next letter to a worker or to the control thread is delivered.
    Letter { to: u8 },
    /// An alarm of an application rings.
    App { app: u32, number: u32 },
    /// A session of PostgreSQL has done its work.
    Session { session: u32, number: u32 },
    /// A session of PostgreSQL is woken for new notifications in its database.
    Woken { session: u32 },
    /// The control thread reads the next of the letters that may wait.
    ControlReads,
    /// The control thread gets an answer from outside.
    ControlIsTold { number: u32 },
    /// A deadline of the control thread may have come.
    ControlWakes,
    /// A fault of the plan begins.
    Fault { index: u32 },
    /// A fault of the plan ends.
    Mended { index: u32 },
    /// The faults are over.
    Heals,
    /// The pooler is told to shut down.
    GoesDown { index: u32 },
    /// An alarm of a peer or of a stranger.
    Peers(Alarm),
    /// An alarm of the cluster.
    Members(members::Alarm),
    /// The periodic checks run.
    Look,
}

/// What reaches the end of a connection.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// This many more bytes.
    Bytes(u32),
    Fin,
    Reset,
}

/// Alarms of peers, and of strangers that send cancel requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Alarm {
    /// A stranger connects.
    Asks(u32),
    /// A stranger disconnects.
    Leaves(u32),
    /// A peer is done with a connection.
    Done(u32),
}

/// The queue of events: a radix heap, which is cheap because time never goes back.
///
/// An event is stored in the slot of the highest bit in which its time differs from the present. So events of the same
/// time are always in the same slot, in the order in which they were planned.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The events of the present time.
    due: VecDeque<Event>,
    slots: [Vec<(Time, Event)>; u64::BITS as usize],
    /// A bit for each slot that is not empty.
    used: u64,
    now: Time,
}

impl Agenda {
    /// An empty queue at the time `now`.
    pub(crate) fn new(now: Time) -> Self {
        Self { due: VecDeque::new(), slots: [const { Vec::new() }; u64::BITS as usize], used: 0, now }
    }

    /// The present time.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Plans an event; one in the past happens now.
    pub(crate) fn at(&mut self, at: Time, event: Event) {
        let at = at.max(self.now);
        match (at.0 ^ self.now.0).checked_ilog2() {
            None => self.due.push_back(event),
            Some(slot) => {
                self.slots[slot as usize].push((at, event));
                self.used |= 1 << slot;
            }
        }
    }

    /// Plans an event after a delay.
    pub(crate) fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    /// Advances to the next event and returns it.
    pub(crate) fn next(&mut self) -> Option<Event> {
        if self.due.is_empty() && self.used != 0 {
            let slot = self.used.trailing_zeros() as usize;
            self.used &= !(1 << slot);
            let mut events = std::mem::take(&mut self.slots[slot]);
            self.now = events.iter().map(|&(at, _)| at).min()?;
            // Each event moves to a lower slot, or is due.
            events.drain(..).for_each(|(at, event)| self.at(at, event));
            self.slots[slot] = events;
        }
        self.due.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_planned_first_for_a_time_happens_first() {
        let mut agenda = Agenda::new(Time(10));
        agenda.at(Time(30), Event::Heals);
        agenda.at(Time(20), Event::Turn { worker: 1 });
        agenda.at(Time(20), Event::Turn { worker: 2 });
        agenda.at(Time(5), Event::Turn { worker: 0 });
        let order = std::iter::from_fn(|| agenda.next().map(|event| (agenda.now().0, format!("{event:?}"))));
        let order: Vec<_> = order.map(|(at, event)| format!("{at} {event}")).collect();
        assert_eq!(order, ["10 Turn { worker: 0 }", "20 Turn { worker: 1 }", "20 Turn { worker: 2 }", "30 Heals"]);
    }
}
