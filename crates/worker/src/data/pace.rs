//! How much is read from clients that send much: a buffer from each of them in its turn, and of few of them in a turn of the
//! worker.
//!
//! Always true: a client that has filled a receive buffer is received from again, a single time, when those that have
//! waited longer have been; it is received from without interruption as before once it has sent little a number of times.
//! Those that wait are in the order of their turns; a client stands in the line once, or has gone. What a turn reads of long texts,
//! all of which costs, is bounded by that, however many clients send them.
//! Not here: back-pressure (`flow`), which pauses a client beside this; COPY and replication, whose data nothing reads.

use std::collections::VecDeque;

use base::Key;
use reactor::{BUFFER_BYTES, Io};

use crate::data::client::{Client, ClientStage};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client has sent so many bytes, which have been dealt with.
    pub(crate) fn pace(&mut self, key: Key, bytes: usize) {
        let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        let server = ready.link.server().and_then(|server| self.servers.get(server));
        let is_copying = server.is_some_and(|server| server.session.exchange.is_copying_in());
        let is_unread = is_copying || ready.replication.is_some() || self.admin.is_resting();
        ready.pace = match ready.pace {
            Pace::Waits => Pace::Waits,
            Pace::Stream if is_unread => return,
            Pace::Once { .. } if is_unread => Pace::Stream,
            Pace::Stream | Pace::Once { .. } if bytes >= MUCH => {
                self.paced.push(key);
                Pace::Waits
            }
            Pace::Once { little } if little < LITTLE_MAX => Pace::Once { little: little + 1 },
            Pace::Stream | Pace::Once { .. } => Pace::Stream,
        };
        if ready.pace == Pace::Waits {
            self.hands.io.pause(*conn);
        } else if let Some(how) = ready.receives() {
            self.hands.io.receive(*conn, how);
        }
    }

    /// The next clients in line are received from, before the kernel is asked for what has happened.
    pub(crate) fn receive_from_paced(&mut self) {
        let mut count = 0;
        while count < CLIENTS_PER_TURN
            && let Some(key) = self.paced.pop()
        {
            count += usize::from(self.takes_turn(key, Pace::Once { little: 0 }));
        }
    }

    /// The worker is suspended: nobody waits for a turn any more.
    pub(crate) fn receive_from_all_paced(&mut self) {
        while let Some(key) = self.paced.pop() {
            self.takes_turn(key, Pace::Stream);
        }
    }

    /// Receives from a client that has waited for that, and returns whether it does: the client may be gone, and a paused
    /// client takes another turn when it is resumed.
    fn takes_turn(&mut self, key: Key, pace: Pace) -> bool {
        let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else {
            return false;
        };
        ready.pace = pace;
        let how = ready.receives();
        how.into_iter().for_each(|how| self.hands.io.receive(*conn, how));
        how.is_some()
    }
}

/// So many of the clients that wait are received from in a turn: 64 KiB, which takes a sixth of a millisecond to read if all
/// of it is dense SQL. More than one buffer from each would cost a bulk load less, but others more time: with four from a
/// single client that sends without a pause, the 99th percentile of another's queries is twice as long.
const CLIENTS_PER_TURN: usize = 8;

/// How a client is received from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Pace {
    /// Whenever it sends.
    #[default]
    Stream,
    /// It waits for its turn.
    Waits,
    /// Once, and again as long as it sends little, so that the beginning of its next long text does not come all at
    /// once; it has done so this many times in a row.
    Once { little: u8 },
}

impl Pace {
    /// Whether so many bytes of a client with this pace have a consequence for it.
    #[inline]
    pub(crate) fn is_touched_by(self, bytes: usize) -> bool {
        (bytes >= MUCH) | (self != Self::Stream)
    }
}

/// The clients that wait to be received from, in the order of their turns.
#[derive(Debug, Default)]
pub(crate) struct Paced(VecDeque<Key>);

impl Paced {
    /// A client, which does not stand in the line yet, waits for its turn.
    pub(super) fn push(&mut self, client: Key) {
        self.0.push_back(client);
    }

    /// The client that has waited longest; it may have gone.
    pub(super) fn pop(&mut self) -> Option<Key> {
        self.0.pop_front()
    }

    /// Whether the next turn of the worker has to follow at once.
    pub(crate) fn is_any_waiting(&self) -> bool {
        !self.0.is_empty()
    }
}

/// From so many bytes on there may be more in the client's socket: a receive buffer is full, or nearly, if it was
/// encrypted.
pub(super) const MUCH: usize = BUFFER_BYTES / 4 * 3;
/// A client that has sent little so many times in a row is received from whenever it sends: that costs a little less.
pub(super) const LITTLE_MAX: u8 = 64;

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
