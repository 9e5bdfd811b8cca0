//! Simulated sockets: latency, bandwidth, windows, segments, and every way in which a connection can end.
//!
//! Always true: bytes arrive in the order in which they were sent, none is made up, and a lost byte is lost with all
//! that come after it. The bytes on their way are bounded by the window of their connection.
//! Not here: who sends (`io`, `app`, `postgres`), when faults happen (`faults`).

use std::collections::VecDeque;
use std::time::Duration;

use base::{Key, Time};
use reactor::{Address, Chunk, LINGER};

use crate::sim::agenda::{Agenda, Arrival, Event};
use crate::sim::dice::Dice;
use crate::sim::fake_tls;
use crate::sim::worker_io::WorkerIo;

/// The holder of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// It is on its way to a holder.
    Nobody,
    /// A worker, which knows it by this key.
    Worker {
        worker: u8,
        line: Key,
    },
    App(u32),
    /// The connection of an application that carries a cancel request.
    Canceller(u32),
    Session(u32),
    /// Another process of the group, by the number of the connection.
    Peer(u32),
    /// A stranger with a cancel request.
    Asker(u32),
    /// The control thread, which uses it as a client of a worker, by the number of the connection.
    OwnClient(u64),
}

/// How a connection carries bytes.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// The time from one end to the other, least and most, microseconds.
    pub(crate) latency: (u64, u64),
    /// How many of a thousand connections split their bytes into small segments.
    pub(crate) torn: u32,
    /// How many bytes may be sent and not read.
    pub(crate) window: usize,
    /// Bytes per millisecond.
    pub(crate) bandwidth: u64,
    /// How many of a thousand connections are far slower than that.
    pub(crate) narrow: u32,
}

/// One end of a connection. The number of the other end differs in the last bit.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) holder: Holder,
    /// Bytes that the network has not taken.
    /// How a worker cuts what it sends into chunks, and its work into turns, makes no difference.
    ignores_cuts: bool,
    outbox: VecDeque<Chunk>,
    outbox_at: usize,
    outbox_bytes: usize,
    last_arrival: Time,
    /// The end sends a FIN once the outbox is empty.
    is_shutting: bool,
    is_shut: bool,
    wants_drained: bool,
    /// Bytes of the outbox were lost when the connection was cut.
    is_cut_short: bool,
    /// Bytes from the other end that are not read: first those that have arrived, then those on their way.
    pipe: VecDeque<u8>,
    pub(crate) arrived_bytes: usize,
    pub(crate) is_eof: bool,
    pub(crate) is_reset: bool,
    /// Its holder has closed it.
    pub(crate) is_closed: bool,
    /// The bytes given and read here are encrypted.
    pub(crate) is_encrypted: bool,
    /// The user ID of the other end, if that is on this machine.
    pub(crate) uid: Option<u32>,
    pace: Pace,
    /// The longest segment.
    segment: usize,
    /// Number of bytes that its holder has read.
    pub(crate) read_bytes: u64,
    /// Number of bytes that its holder has given.
    given_bytes: u64,
    /// When its holder gave the last of them.
    pub(crate) given: Time,
    /// When the bytes were given that the other end has not read, and those of its last read: (number of the last byte,
    /// time).
    givings: VecDeque<(u64, Time)>,
}

impl End {
    /// Returns how many bytes were given and read here.
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
    /// How a worker cuts what it sends into chunks, and its work into turns, makes no difference.
    ignores_cuts: bool,
    pub(crate) agenda: Agenda,
    pub(crate) dice: Dice,
    pub(crate) ends: Vec<End>,
    /// The address that each connection was opened to, by its far end.
    pub(crate) aims: Vec<Option<Address>>,
    pub(crate) pace: Pace,
    /// Number of connections that workers have open.
    pub(crate) descriptors: usize,
    pub(crate) descriptors_max: usize,
    pub(crate) worker_ios: Vec<WorkerIo>,
    /// Ends with unhandled events that workers do not hold.
    pub(crate) news: VecDeque<u32>,
}

impl Net {
    pub(crate) fn new(now: Time, dice: Dice, pace: Pace, ignores_cuts: bool) -> Self {
        Self {
            ignores_cuts,
            agenda: Agenda::new(now),
            dice,
            ends: Vec::new(),
            aims: Vec::new(),
            pace,
            descriptors: 0,
            descriptors_max: usize::MAX,
            worker_ios: Vec::new(),
            news: VecDeque::new(),
        }
    }

    /// Whether the turns of workers take time.
    pub(crate) fn turns_take_time(&self) -> bool {
        !self.ignores_cuts
    }

    pub(crate) fn end(&self, end: u32) -> &End {
        &self.ends[end as usize]
    }

    pub(crate) fn end_mut(&mut self, end: u32) -> &mut End {
        &mut self.ends[end as usize]
    }

    /// Opens a connection; returns the near end. The far end gets a holder when the attempt reaches its address.
    pub(crate) fn dial(&mut self, holder: Holder, aim: Option<Address>) -> u32 {
        let near = self.connection(holder, aim);
        let latency = self.latency(near);
        self.agenda.after(latency, Event::Knocks { end: near ^ 1 });
        near
    }

    /// Makes an established connection; returns the near end. The far end gets a holder when it is handed over.
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
                ignores_cuts: self.ignores_cuts,
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

    /// The far end accepts or refuses a connection.
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
        let chunk = if row.is_encrypted {
            let mut bytes = chunk.bytes().to_vec();
            fake_tls::encrypt(&mut bytes);
            bytes.into()
        } else {
            chunk
        };
        if row.ignores_cuts {
            let before = row.outbox.pop_back();
            let before = before.as_ref().map_or(&[][..], Chunk::bytes);
            row.outbox.push_back([before, chunk.bytes()].concat().into());
        } else {
            row.outbox.push_back(chunk);
        }
    }

    /// Gives bytes and sends them.
    pub(crate) fn say(&mut self, end: u32, bytes: Vec<u8>) {
        self.give(end, bytes.into());
        self.push(end);
    }

    /// Returns the number of bytes that the network has not taken.
    pub(crate) fn unsent(&self, end: u32) -> usize {
        self.end(end).outbox_bytes
    }

    /// Lets the network take what it can. Returns whether it has taken everything.
    pub(crate) fn push(&mut self, end: u32) -> bool {
        if self.end(end).is_reset {
            // Nothing leaves a broken connection, not even its FIN.
            return true;
        }
        let now = self.agenda.now();
        let Ok([row, far]) = self.ends.get_disjoint_mut([end as usize, (end ^ 1) as usize]) else {
            unreachable!("a connection has two ends")
        };
        // Segments that arrive at the same time are one event, because they are read together.
        let mut landing: Option<(Time, u32)> = None;
        let (low, high) = row.pace.latency;
        let mut room = row.pace.window.saturating_sub(far.pipe.len());
        while let Some(chunk) = row.outbox.front().filter(|_| room > 0) {
            let bytes = chunk.bytes();
            let begun = row.outbox_at;
            while row.outbox_at < bytes.len() && room > 0 {
                // Only the start of a long chunk is split: a byte at a time is slow enough.
                let segment = if row.outbox_at < TORN_BYTES { row.segment } else { WHOLE_SEGMENT };
                let longest = (bytes.len() - row.outbox_at).min(room).min(segment);
                // On a connection that splits, segments are usually shorter than they might be.
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

    /// Returns when the other end gave the byte at this distance from the end of the last read.
    pub(crate) fn was_given(&self, end: u32, but_bytes: usize) -> Option<Time> {
        let bytes = self.end(end).read_bytes - but_bytes as u64;
        self.end(end ^ 1).givings.iter().find(|(upto, _)| *upto >= bytes).map(|(_, at)| *at)
    }

    /// Pushes, and tells the worker that waits for that when everything was taken.
    pub(crate) fn push_and_tell(&mut self, end: u32) {
        if self.push(end) && std::mem::take(&mut self.ends[end as usize].wants_drained) {
            self.drained(end);
        }
    }

    /// Returns whether all bytes given at this end were read at the other.
    pub(crate) fn is_heard(&self, end: u32) -> bool {
        let row = self.end(end);
        row.outbox_bytes == 0 && self.end(end ^ 1).pipe.is_empty()
    }

    /// Asks for a completion once everything was taken.
    pub(crate) fn want_drained(&mut self, end: u32) {
        self.end_mut(end).wants_drained = true;
    }

    /// Sends nothing more; bytes given before still leave.
    pub(crate) fn shut(&mut self, end: u32) {
        self.end_mut(end).is_shutting = true;
        self.push(end);
    }

    /// Closes an end. Bytes given before still leave, within `LINGER`.
    pub(crate) fn close(&mut self, end: u32) {
        self.shut(end);
        self.leave(end);
        if self.end(end).outbox_bytes > 0 {
            self.agenda.after(LINGER, Event::Lingered { end });
        }
    }

    /// Closes an end at once; bytes that were not taken are lost.
    pub(crate) fn drop_end(&mut self, end: u32) {
        self.clear_outbox(end);
        self.close(end);
    }

    /// Closes an end with a reset: the other side loses the bytes under way.
    pub(crate) fn reset(&mut self, end: u32) {
        self.clear_outbox(end);
        let latency = self.latency(end);
        let row = self.end_mut(end);
        (row.is_shutting, row.is_shut) = (true, true);
        self.agenda.after(latency, Event::Arrives { end: end ^ 1, what: Arrival::Reset });
        self.leave(end);
    }

    /// Something between the two ends cuts the connection: bytes under way are lost, and both ends get a reset.
    pub(crate) fn cut(&mut self, end: u32) {
        for end in [end, end ^ 1] {
            self.end_mut(end).is_cut_short |= self.unsent(end) > 0;
            self.clear_outbox(end);
            let latency = self.latency(end);
            self.agenda.after(latency, Event::Arrives { end, what: Arrival::Reset });
        }
    }

    /// Drops the bytes that were not taken.
    pub(crate) fn clear_outbox(&mut self, end: u32) {
        let row = self.end_mut(end);
        row.outbox.clear();
        (row.outbox_at, row.outbox_bytes) = (0, 0);
    }

    /// Nobody reads here any more: arriving bytes are dropped, and their sender gets a reset.
    fn leave(&mut self, end: u32) {
        let row = self.end_mut(end);
        row.is_closed = true;
        row.lose_arrived();
    }

    /// A closed connection has had time enough for its unsent bytes.
    pub(crate) fn lingered(&mut self, end: u32) {
        self.clear_outbox(end);
        self.push(end);
    }

    /// Bytes, a FIN or a reset reach an end.
    pub(crate) fn arrive(&mut self, end: u32, what: Arrival) {
        let is_closed = self.end(end).is_closed;
        match what {
            Arrival::Bytes(bytes) if is_closed || self.end(end).is_reset => {
                self.end_mut(end).pipe.drain(..bytes as usize);
                let other = self.end(end ^ 1);
                if is_closed && !other.is_closed && !other.is_reset {
                    // As in TCP, bytes sent to a closed end cause a reset.
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

/// The user ID of the pooler.
pub(crate) const OWN_UID: u32 = 0;
/// Bytes per millisecond of a narrow connection.
const NARROW_BANDWIDTH: u64 = 100;
/// The longest segment of a connection that does not split.
const WHOLE_SEGMENT: usize = 16_384;
/// The longest segments of connections that do.
const SMALL_SEGMENTS: [usize; 5] = [1, 2, 7, 50, 400];
/// How many bytes of a chunk are split; the rest is sent whole.
const TORN_BYTES: usize = 400;
