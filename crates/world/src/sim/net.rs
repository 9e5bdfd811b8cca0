//! Simulated sockets: latency, bandwidth, windows, segments, and every way in which a connection can end.
//!
//! Always true: bytes arrive in the order in which they were sent, none is made up, and one that is lost is lost with all
//! that come after it. What a sender may have on its way is bounded by the window of its connection.
//! Not here: who speaks (`io`, `app`, `postgres`), when faults happen (`faults`).

use std::collections::VecDeque;
use std::time::Duration;

use base::{Key, Time};
use reactor::{Address, Chunk, LINGER};

use crate::sim::agenda::{Agenda, Arrival, Event};
use crate::sim::dice::Dice;
use crate::sim::fake_tls;
use crate::sim::io::Desk;

/// Who has an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// It is on its way to somebody.
    Nobody,
    /// A worker, which calls it by this key.
    Worker {
        worker: u8,
        line: Key,
    },
    App(u32),
    /// The second connection of an application, which carries a cancel request.
    Canceller(u32),
    Session(u32),
    /// Another process of the group, by the call.
    Peer(u32),
    /// Somebody with a cancel request who is no application.
    Asker(u32),
    /// The control thread, to which a worker is one to ask a server through, by the number of the connection.
    Link(u64),
}

/// How a connection carries bytes.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Microseconds from one end to the other.
    pub(crate) latency: (u64, u64),
    /// How many of a thousand connections tear what they carry into small segments.
    pub(crate) torn: u32,
    /// Bytes that may be under way and unread.
    pub(crate) window: usize,
    /// Bytes a millisecond.
    pub(crate) bandwidth: u64,
    /// How many of a thousand connections carry far less than that.
    pub(crate) narrow: u32,
}

/// One end of a connection. The other end is the same number with its last bit turned.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) holder: Holder,
    /// What it sends and the network has not taken.
    outbox: VecDeque<Chunk>,
    outbox_at: usize,
    outbox_bytes: usize,
    last_arrival: Time,
    /// It sends nothing any more once the outbox is empty.
    is_shutting: bool,
    is_shut: bool,
    wants_drained: bool,
    /// Something that had been given and not taken was lost when the connection was cut.
    is_cut_short: bool,
    /// What has left the other end and is not read: what has arrived, then what is on its way.
    pipe: VecDeque<u8>,
    pub(crate) arrived_bytes: usize,
    pub(crate) is_eof: bool,
    pub(crate) is_reset: bool,
    /// Its holder has let it go.
    pub(crate) is_closed: bool,
    /// What is given and read here is encrypted.
    pub(crate) is_encrypted: bool,
    /// Who is at the other end, to the system, if that is this machine.
    pub(crate) uid: Option<u32>,
    pace: Pace,
    /// The longest segment.
    segment: usize,
    /// Bytes that its holder has read so far.
    pub(crate) read_bytes: u64,
    /// Bytes that its holder has given so far.
    given_bytes: u64,
    /// When its holder gave the last of them.
    pub(crate) given: Time,
    /// When it gave those that the other end has not read, and those of the last read there: up to how many, in order.
    givings: VecDeque<(u64, Time)>,
}

impl End {
    /// How many bytes have been given and read here.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        (self.given_bytes, self.read_bytes)
    }

    fn lose_arrived(&mut self) {
        self.pipe.drain(..std::mem::take(&mut self.arrived_bytes));
    }
}

/// All connections, and the workers' side of them.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) agenda: Agenda,
    pub(crate) dice: Dice,
    pub(crate) ends: Vec<End>,
    /// Where each dialed connection goes, by its far end.
    pub(crate) aims: Vec<Option<Address>>,
    pub(crate) pace: Pace,
    /// Connections that workers have open.
    pub(crate) descriptors: usize,
    pub(crate) descriptors_max: usize,
    pub(crate) desks: Vec<Desk>,
    /// Ends of applications and sessions where something has happened.
    pub(crate) news: VecDeque<u32>,
}

impl Net {
    pub(crate) fn new(now: Time, dice: Dice, pace: Pace) -> Self {
        Self {
            agenda: Agenda::new(now),
            dice,
            ends: Vec::new(),
            aims: Vec::new(),
            pace,
            descriptors: 0,
            descriptors_max: usize::MAX,
            desks: Vec::new(),
            news: VecDeque::new(),
        }
    }

    pub(crate) fn end(&self, end: u32) -> &End {
        &self.ends[end as usize]
    }

    pub(crate) fn end_mut(&mut self, end: u32) -> &mut End {
        &mut self.ends[end as usize]
    }

    /// Dials; returns the near end. The far end gets a holder when the dial reaches its aim.
    pub(crate) fn dial(&mut self, holder: Holder, aim: Option<Address>) -> u32 {
        let near = self.connection(holder, aim);
        let latency = self.latency(near);
        self.agenda.after(latency, Event::Knocks { end: near ^ 1 });
        near
    }

    /// Both ends of a connection that stands; returns the near one. The far one gets a holder when it is handed to somebody.
    pub(crate) fn pair(&mut self, holder: Holder) -> u32 {
        let near = self.connection(holder, None);
        self.end_mut(near ^ 1).uid = Some(OWN_UID);
        near
    }

    fn connection(&mut self, holder: Holder, aim: Option<Address>) -> u32 {
        let near = self.ends.len() as u32;
        let is_torn = self.dice.chance(self.pace.torn);
        let segment = if is_torn { self.dice.pick(&SMALL_SEGMENTS) } else { WHOLE_SEGMENT };
        let mut pace = self.pace.clone();
        if self.dice.chance(self.pace.narrow) {
            pace.bandwidth = NARROW_BANDWIDTH;
        }
        for holder in [holder, Holder::Nobody] {
            let end = End {
                holder,
                outbox: VecDeque::new(),
                outbox_at: 0,
                outbox_bytes: 0,
                last_arrival: Time(0),
                is_shutting: false,
                is_shut: false,
                wants_drained: false,
                is_cut_short: false,
                pipe: VecDeque::new(),
                arrived_bytes: 0,
                is_eof: false,
                is_reset: false,
                is_closed: false,
                is_encrypted: false,
                uid: None,
                pace: pace.clone(),
                segment,
                read_bytes: 0,
                given_bytes: 0,
                given: Time(0),
                givings: VecDeque::new(),
            };
            self.ends.push(end);
            self.aims.push(aim.clone());
        }
        near
    }

    /// The far end of a dial takes it, or does not.
    pub(crate) fn answer(&mut self, far: u32, is_welcome: bool) {
        let latency = self.latency(far);
        if !is_welcome {
            self.end_mut(far).is_closed = true;
        }
        self.agenda.after(latency, Event::Answered { end: far ^ 1, is_welcome });
    }

    fn latency(&mut self, end: u32) -> Duration {
        let (low, high) = self.ends[end as usize].pace.latency;
        self.dice.micros(low..=high)
    }

    /// Gives bytes to be sent. They leave with [`Net::push`].
    pub(crate) fn give(&mut self, end: u32, chunk: Chunk) {
        let now = self.agenda.now();
        let row = self.end_mut(end);
        if row.is_closed || row.is_shutting || chunk.is_empty() {
            return;
        }
        row.given = now;
        row.outbox_bytes += chunk.len();
        row.given_bytes += chunk.len() as u64;
        row.givings.push_back((row.given_bytes, now));
        if row.is_encrypted {
            let mut bytes = chunk.bytes().to_vec();
            fake_tls::encrypt(&mut bytes);
            row.outbox.push_back(bytes.into());
        } else {
            row.outbox.push_back(chunk);
        }
    }

    /// Gives bytes and lets them leave.
    pub(crate) fn say(&mut self, end: u32, bytes: Vec<u8>) {
        self.give(end, bytes.into());
        self.push(end);
    }

    /// Bytes given that the network has not taken.
    pub(crate) fn unsent(&self, end: u32) -> usize {
        self.end(end).outbox_bytes
    }

    /// Lets the network take what it can; whether everything has been taken.
    pub(crate) fn push(&mut self, end: u32) -> bool {
        if self.end(end).is_reset {
            // Nothing leaves a connection that is broken, its end neither.
            return true;
        }
        let now = self.agenda.now();
        let Ok([row, far]) = self.ends.get_disjoint_mut([end as usize, (end ^ 1) as usize]) else {
            unreachable!("a connection has two ends")
        };
        // Segments that arrive at the same time are read together, so that they are one event.
        let mut landing: Option<(Time, u32)> = None;
        let (low, high) = row.pace.latency;
        let mut room = row.pace.window.saturating_sub(far.pipe.len());
        while let Some(chunk) = row.outbox.front().filter(|_| room > 0) {
            let bytes = chunk.bytes();
            let begun = row.outbox_at;
            while row.outbox_at < bytes.len() && room > 0 {
                // What is long is torn at its start only: a byte at a time is slow enough.
                let segment = if row.outbox_at < TORN_BYTES { row.segment } else { WHOLE_SEGMENT };
                let longest = (bytes.len() - row.outbox_at).min(room).min(segment);
                // A segment is seldom as long as it may be when segments are torn at all.
                let is_torn = segment < WHOLE_SEGMENT;
                let taken = if is_torn { self.dice.among(1..=longest as u64) as usize } else { longest };
                row.outbox_at += taken;
                room -= taken;
                let flight = self.dice.among(low..=high) + taken as u64 * 1000 / row.pace.bandwidth;
                let at = Time(now.0 + flight).max(row.last_arrival);
                row.last_arrival = at;
                match &mut landing {
                    Some((then, bytes)) if *then == at => *bytes += taken as u32,
                    _ => {
                        if let Some((then, bytes)) = landing.replace((at, taken as u32)) {
                            self.agenda.at(then, Event::Arrives { end: end ^ 1, what: Arrival::Bytes(bytes) });
                        }
                    }
                }
            }
            far.pipe.extend(&bytes[begun..row.outbox_at]);
            row.outbox_bytes -= row.outbox_at - begun;
            if row.outbox_at == bytes.len() {
                row.outbox.pop_front();
                row.outbox_at = 0;
            }
        }
        if let Some((then, bytes)) = landing {
            self.agenda.at(then, Event::Arrives { end: end ^ 1, what: Arrival::Bytes(bytes) });
        }
        if row.outbox_bytes > 0 {
            return false;
        }
        let row = &mut self.ends[end as usize];
        if row.is_shutting && !row.is_shut {
            row.is_shut = true;
            let at = Time(now.0 + row.pace.latency.0).max(row.last_arrival);
            row.last_arrival = at;
            self.agenda.at(at, Event::Arrives { end: end ^ 1, what: Arrival::Fin });
        }
        true
    }

    /// Takes up to `most` bytes that have arrived.
    pub(crate) fn read(&mut self, end: u32, most: usize, out: &mut Vec<u8>) {
        let row = &mut self.ends[end as usize];
        let before = out.len();
        let taken = most.min(row.arrived_bytes);
        let before_bytes = row.read_bytes;
        let (front, back) = row.pipe.as_slices();
        let of_front = taken.min(front.len());
        out.extend_from_slice(&front[..of_front]);
        out.extend_from_slice(&back[..taken - of_front]);
        row.pipe.drain(..taken);
        row.arrived_bytes -= taken;
        row.read_bytes += taken as u64;
        if row.is_encrypted {
            fake_tls::encrypt(&mut out[before..]);
        }
        let givings = &mut self.end_mut(end ^ 1).givings;
        let is_over = |(upto, _): &(u64, Time)| *upto <= before_bytes;
        while givings.front().is_some_and(is_over) {
            givings.pop_front();
        }
        if taken > 0 && !self.end(end ^ 1).outbox.is_empty() {
            self.push_and_tell(end ^ 1);
        }
    }

    /// When the other end gave what was read here by the last read, all but so many bytes of it.
    pub(crate) fn was_given(&self, end: u32, but_bytes: usize) -> Option<Time> {
        let bytes = self.end(end).read_bytes - but_bytes as u64;
        self.end(end ^ 1).givings.iter().find(|(upto, _)| *upto >= bytes).map(|(_, at)| *at)
    }

    /// Pushes, and tells the worker that waits for it when everything has been taken.
    pub(crate) fn push_and_tell(&mut self, end: u32) {
        if self.push(end) && std::mem::take(&mut self.ends[end as usize].wants_drained) {
            self.drained(end);
        }
    }

    /// Whether everything that was ever given at this end has been read at the other.
    pub(crate) fn is_heard(&self, end: u32) -> bool {
        let row = self.end(end);
        row.outbox_bytes == 0 && self.end(end ^ 1).pipe.is_empty()
    }

    /// Asks to be told once everything has been taken.
    pub(crate) fn want_drained(&mut self, end: u32) {
        self.end_mut(end).wants_drained = true;
    }

    /// Sends nothing more; what was given still leaves.
    pub(crate) fn shut(&mut self, end: u32) {
        self.end_mut(end).is_shutting = true;
        self.push(end);
    }

    /// Lets an end go. What was given still leaves, for as long as a connection may linger.
    pub(crate) fn close(&mut self, end: u32) {
        self.shut(end);
        self.leave(end);
        if self.end(end).outbox_bytes > 0 {
            self.agenda.after(LINGER, Event::Lingered { end });
        }
    }

    /// Lets an end go at once; what was given and not taken is lost.
    pub(crate) fn drop_end(&mut self, end: u32) {
        self.clear_outbox(end);
        self.close(end);
    }

    /// Lets an end go with a bang: the other side loses what is under way.
    pub(crate) fn reset(&mut self, end: u32) {
        self.clear_outbox(end);
        let latency = self.latency(end);
        let row = self.end_mut(end);
        (row.is_shutting, row.is_shut) = (true, true);
        self.agenda.after(latency, Event::Arrives { end: end ^ 1, what: Arrival::Reset });
        self.leave(end);
    }

    /// Somebody between the two ends cuts the connection: what is under way is lost, and both hear of it.
    pub(crate) fn cut(&mut self, end: u32) {
        for end in [end, end ^ 1] {
            self.end_mut(end).is_cut_short |= self.unsent(end) > 0;
            self.clear_outbox(end);
            let latency = self.latency(end);
            self.agenda.after(latency, Event::Arrives { end, what: Arrival::Reset });
        }
    }

    /// Forgets what was given and not taken.
    pub(crate) fn clear_outbox(&mut self, end: u32) {
        let row = self.end_mut(end);
        row.outbox.clear();
        (row.outbox_at, row.outbox_bytes) = (0, 0);
    }

    /// Nobody reads here any more: what arrives is thrown away, and whoever sends it learns that in time.
    fn leave(&mut self, end: u32) {
        let row = self.end_mut(end);
        row.is_closed = true;
        row.lose_arrived();
    }

    /// A connection that says its last words has had time enough.
    pub(crate) fn lingered(&mut self, end: u32) {
        self.clear_outbox(end);
        self.push(end);
    }

    /// Something reaches an end.
    pub(crate) fn arrive(&mut self, end: u32, what: Arrival) {
        let is_closed = self.end(end).is_closed;
        match what {
            Arrival::Bytes(bytes) if is_closed || self.end(end).is_reset => {
                self.end_mut(end).pipe.drain(..bytes as usize);
                let other = self.end(end ^ 1);
                if is_closed && !other.is_closed && !other.is_reset {
                    // Who sends to somebody who has gone is told so.
                    let latency = self.latency(end);
                    self.agenda.after(latency, Event::Arrives { end: end ^ 1, what: Arrival::Reset });
                } else {
                    self.push_and_tell(end ^ 1);
                }
                return;
            }
            Arrival::Bytes(bytes) => {
                self.end_mut(end).arrived_bytes += bytes as usize;
            }
            Arrival::Fin => self.end_mut(end).is_eof = true,
            Arrival::Reset if is_closed => return,
            Arrival::Reset => {
                let row = self.end_mut(end);
                if row.is_reset {
                    return;
                }
                row.is_reset = true;
                row.lose_arrived();
                let was_sending = self.unsent(end) > 0 || self.end(end).is_cut_short;
                self.clear_outbox(end);
                if let (true, Holder::Worker { worker, line }) = (was_sending, self.end(end).holder) {
                    self.line_breaks(worker, line);
                }
            }
        }
        match self.end(end).holder {
            Holder::Worker { worker, line } => self.line_has_news(worker, line),
            Holder::Nobody => {}
            _ => self.news.push_back(end),
        }
    }
}

/// Who the pooler itself is, to the system.
pub(crate) const OWN_UID: u32 = 0;
/// What a narrow connection carries, in bytes a millisecond.
const NARROW_BANDWIDTH: u64 = 100;
/// The longest segment of a connection that tears nothing.
const WHOLE_SEGMENT: usize = 16_384;
/// The longest segments of connections that do.
const SMALL_SEGMENTS: [usize; 5] = [1, 2, 7, 50, 400];
/// So many bytes of a chunk are torn, and the rest goes whole.
const TORN_BYTES: usize = 400;
