//! What will happen, in order of time; what happens at the same time, in the order in which it was planned.
//!
//! Always true: time never goes back.
//! Not here: what comes of an event (`world`).

use std::collections::VecDeque;
use std::time::Duration;

use base::{Key, Time};

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Event {
    /// Bytes, or an end, reach this end of a connection.
    Arrives { end: u32, what: Arrival },
    /// A dial reaches its aim, whose end this is.
    Knocks { end: u32 },
    /// A dial is answered at the end that dialed.
    Answered { end: u32, is_welcome: bool },
    /// A connection that says its last words has had time enough.
    Lingered { end: u32 },
    /// Somebody has thought about the last word of a handshake that a worker has begun.
    Handshaken { worker: u8, line: Key, is_good: bool },
    /// A worker has its turn.
    Turn { worker: u8 },
    /// The next letter from one to another is delivered.
    Letter { to: u8 },
    /// An application's alarm rings.
    App { app: u32, number: u32 },
    /// A session of PostgreSQL has done its work.
    Session { session: u32, number: u32 },
    /// A session of PostgreSQL is told that there is something new on the channels of its database.
    Woken { session: u32 },
    /// The control thread reads the next of the letters that it takes its time for.
    ControlReads,
    /// The control thread is told what it has asked for.
    ControlIsTold { number: u32 },
    /// The control thread may have something to do at this time.
    ControlWakes,
    /// A fault of the plan begins.
    Fault { index: u32 },
    /// A fault of the plan ends.
    Mended { index: u32 },
    /// The faults are over.
    Heals,
    /// The pooler is told to go down.
    GoesDown { index: u32 },
    /// Something at a peer, or with somebody who asks for one.
    Peers(Alarm),
    /// The world looks at itself.
    Look,
}

/// What reaches the end of a connection.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// So many bytes more of what is on its way.
    Bytes(u32),
    Fin,
    Reset,
}

/// What happens to peers, and to those who ask them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Alarm {
    /// Somebody asks.
    Asks(u32),
    /// Somebody who has asked waits no longer.
    Leaves(u32),
    /// A peer is done with a call.
    Done(u32),
}

/// The queue of events: a radix heap, which is cheap because time never goes back.
///
/// An event waits in the slot of the highest bit in which its time differs from the present, so that events of the same
/// time are always in the same slot, in the order in which they were planned.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// What happens now.
    due: VecDeque<Event>,
    slots: [Vec<(Time, Event)>; u64::BITS as usize],
    /// A bit for each slot that is not empty.
    used: u64,
    now: Time,
}

impl Agenda {
    /// Nothing planned, at `now`.
    pub(crate) fn new(now: Time) -> Self {
        Self { due: VecDeque::new(), slots: [const { Vec::new() }; u64::BITS as usize], used: 0, now }
    }

    /// The time.
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

    /// Plans an event.
    pub(crate) fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    /// Goes on to the next event.
    pub(crate) fn next(&mut self) -> Option<Event> {
        if self.due.is_empty() && self.used != 0 {
            let slot = self.used.trailing_zeros() as usize;
            self.used &= !(1 << slot);
            let mut events = std::mem::take(&mut self.slots[slot]);
            self.now = events.iter().map(|&(at, _)| at).min()?;
            // Each goes to a lower slot, or is due.
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
