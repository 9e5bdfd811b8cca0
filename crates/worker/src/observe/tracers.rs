//! Tracers: the events that consoles see as they happen (`TRACE`), and how many of them a worker sends.
//!
//! Always true: the events of one letter are bounded in number and in bytes for each tracer; there is at most one
//! letter in [`LETTER_PAUSE`]; events that find no room are only counted; when a tracer begins or ends, a turn looks at
//! [`PLACES_A_TURN`] places of the table of clients at most.
//! Not here: the events (`tracing`), how they are shown (`control::console`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::{Time, Wall};
use pool::WaitReason;
use route::Dialect;
use wire::backend::TxStatus;

/// Which clients a tracer follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Traced {
    /// The client of this number.
    Client(u64),
    /// Clients with this `application_name`.
    Application(Arc<str>),
    /// The clients of a database.
    Database(Arc<str>),
}

/// An event of a traced client.
#[derive(Clone, Debug)]
pub struct Happening {
    /// When.
    pub at: Wall,
    /// The tracers that follow the client: a bit for each.
    pub tracers: Mask,
    /// The client's number.
    pub client: u64,
    /// The number of its server, if it has one.
    pub server: Option<u64>,
    /// The event.
    pub what: What,
}

/// The kinds of events.
#[derive(Clone, Debug)]
pub enum What {
    /// The client has logged in.
    LoggedIn {
        /// The database.
        database: Arc<str>,
        /// The user.
        user: Arc<str>,
        /// Its `application_name`.
        application: Box<str>,
        /// Its address.
        addr: Box<str>,
    },
    /// A request of the client is forwarded.
    Requested(Box<Requested>),
    /// The client waits for a server.
    Waits {
        /// Why.
        why: Option<WaitReason>,
        /// The request it waits with, as far as it has arrived.
        request: Option<Box<Requested>>,
    },
    /// A rate limit delays it.
    Delayed,
    /// The client has got a server.
    Lent {
        /// How long it waited.
        waited: Duration,
    },
    /// The client's settings are applied to its server.
    Told {
        /// The SQL for that.
        texts: Vec<String>,
    },
    /// The first bytes of an answer have arrived.
    Answers {
        /// Time since the request.
        after: Duration,
    },
    /// The request has failed.
    Failed(Box<Failed>),
    /// The request has been answered.
    Answered {
        /// Rows that were returned or changed.
        rows: u64,
        /// Bytes of the answer.
        bytes: u64,
        /// Time since the request.
        took: Duration,
        /// The transaction status of the server.
        status: TxStatus,
    },
    /// The server is held for the client for a moment (affinity hold).
    Stays,
    /// The client keeps its server because of its session state.
    Keeps {
        /// The pins, in words.
        what: String,
    },
    /// The client's server is given back.
    Returned,
    /// The client's server is closed.
    Lost {
        /// Why.
        why: Box<str>,
    },
    /// The pooler refuses the request; the session goes on.
    Refused {
        /// Why.
        why: Box<str>,
    },
    /// A cancel request for the client's query has come.
    Cancelled,
    /// The client has disconnected, or was disconnected.
    Left {
        /// Why.
        why: Box<str>,
    },
}

/// A request.
#[derive(Clone, Debug)]
pub struct Requested {
    /// The kinds of its first messages.
    pub kinds: Box<[u8]>,
    /// Number of its bytes that arrived together.
    pub bytes: usize,
    /// Its text, or the beginning of that, including all values.
    pub text: Box<[u8]>,
    /// Whether that is all of the text.
    pub is_whole: bool,
    /// How to read the text.
    pub dialect: Dialect,
    /// Its raw bytes, if values may be shown (`trace_values`).
    pub raw: Option<Box<[u8]>>,
}

/// An error from a server.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Its SQLSTATE.
    pub state: [u8; 5],
    /// The body of its `ErrorResponse`, if that arrived in one piece.
    pub body: Box<[u8]>,
    /// The beginning of the request's text.
    pub text: Box<[u8]>,
    /// How to read the text.
    pub dialect: Dialect,
    /// Whether the error may be shown with its values.
    pub shows_values: bool,
}

/// A bit for each tracer.
pub type Mask = u8;

/// The tracers of a worker, and the events that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Tracers {
    traced: [Option<Traced>; TRACERS_MAX],
    /// Tracers that have begun or ended, and which clients do not all know that.
    spreading: [Option<Spreading>; TRACERS_MAX],
    /// Whether any of these is there; each turn asks.
    is_any_spreading: bool,
    /// Whether the clients include one that the tracer follows, as far as they have been looked at.
    is_found: [bool; TRACERS_MAX],
    waiting: Vec<Happening>,
    /// What the next letter contains for each tracer.
    waiting_of: [Room; TRACERS_MAX],
    dropped: [u64; TRACERS_MAX],
    pub(super) is_armed: bool,
    /// When the last letter was sent.
    last_letter: Time,
}

/// How far the clients have been told of the beginning or the end of a tracer.
#[derive(Clone, Copy, Debug)]
struct Spreading {
    /// The next place in the table of clients.
    next: u32,
}

/// What a letter contains for one tracer.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    happenings: usize,
    bytes: usize,
}

impl Tracers {
    /// Begins a tracer with this number.
    pub(crate) fn begin(&mut self, place: usize, traced: Traced) {
        if let Some(row) = self.traced.get_mut(place) {
            *row = Some(traced);
            self.is_found[place] = false;
            self.spread(place);
        }
    }

    /// Ends the tracer with this number; its waiting events are forgotten.
    pub(crate) fn end(&mut self, place: usize) {
        let Some(row) = self.traced.get_mut(place) else { return };
        *row = None;
        self.dropped[place] = 0;
        self.spread(place);
        let bit = 1 << place;
        self.waiting.iter_mut().for_each(|happening| happening.tracers &= !bit);
        self.waiting.retain(|happening| happening.tracers != 0);
    }

    /// Whether there is any tracer.
    pub(crate) fn is_any(&self) -> bool {
        self.traced.iter().any(Option::is_some)
    }

    /// Whether a tracer has begun or ended and not all clients have been looked at since.
    pub(crate) fn is_spreading(&self, place: usize) -> bool {
        self.spreading.get(place).is_some_and(Option::is_some)
    }

    /// Whether that is so of any tracer.
    pub(crate) fn is_any_spreading(&self) -> bool {
        self.is_any_spreading
    }

    /// All clients are to be looked at for the tracer with this number.
    fn spread(&mut self, place: usize) {
        self.spreading[place] = Some(Spreading { next: 0 });
        self.is_any_spreading = true;
    }

    /// Returns the places in the table of clients that this turn looks at, of `places`, for all tracers that have begun
    /// or ended, as a bit for each: first for those that have come as far as the one that is furthest behind.
    pub(crate) fn next_slice(&mut self, places: u32) -> (Mask, Range<u32>) {
        let from = self.spreading.iter().flatten().map(|spreading| spreading.next).min().unwrap_or(0);
        let others = self.spreading.iter().flatten().map(|spreading| spreading.next).filter(|next| *next > from);
        let to = from.saturating_add(PLACES_A_TURN).min(places).min(others.min().unwrap_or(u32::MAX)).max(from);
        let mut mask = 0;
        for (place, row) in self.spreading.iter_mut().enumerate() {
            if row.is_some_and(|spreading| spreading.next == from) {
                mask |= 1 << place;
                *row = (to < places).then_some(Spreading { next: to });
            }
        }
        self.is_any_spreading = self.spreading.iter().any(Option::is_some);
        (mask, from..to)
    }

    /// Notes which of these tracers follow a client.
    pub(crate) fn found(&mut self, tracers: Mask) {
        (0..TRACERS_MAX).filter(|place| tracers & 1 << place != 0).for_each(|place| self.is_found[place] = true);
    }

    /// Whether a tracer follows any client.
    pub(crate) fn is_found(&self, place: usize) -> bool {
        self.is_found.get(place).is_some_and(|is_found| *is_found)
    }

    /// The tracers that follow a client.
    pub(crate) fn about(&self, id: u64, database: &str, application: &str) -> Mask {
        let is_about = |traced: &Traced| match traced {
            Traced::Client(number) => *number == id,
            Traced::Application(name) => **name == *application,
            Traced::Database(name) => **name == *database,
        };
        let bits = self.traced.iter().enumerate().filter(|(_, traced)| traced.as_ref().is_some_and(is_about));
        bits.fold(0, |mask, (place, _)| mask | 1 << place)
    }

    /// Those of these tracers that have room for one more event; for the others it is counted as dropped.
    pub(crate) fn with_room(&mut self, tracers: Mask) -> Mask {
        let tracers = self.not_ended(tracers);
        let mut mask = tracers;
        for place in (0..TRACERS_MAX).filter(|place| tracers & 1 << place != 0) {
            let Room { happenings, bytes } = self.waiting_of[place];
            if happenings >= HAPPENINGS_MAX || bytes >= BYTES_MAX {
                mask &= !(1 << place);
                self.dropped[place] += 1;
            }
        }
        mask
    }

    /// Those of a client's tracers that have not ended: the client may not have been looked at since one has.
    fn not_ended(&self, tracers: Mask) -> Mask {
        let ended = self.traced.iter().enumerate().filter(|(_, traced)| traced.is_none());
        ended.fold(tracers, |mask, (place, _)| mask & !(1 << place))
    }

    /// Counts events as dropped for these tracers.
    pub(crate) fn drop_some(&mut self, tracers: Mask, count: u64) {
        let tracers = self.not_ended(tracers);
        (0..TRACERS_MAX).filter(|place| tracers & 1 << place != 0).for_each(|place| self.dropped[place] += count);
    }

    /// Adds an event for tracers that have room for it.
    pub(crate) fn add(&mut self, happening: Happening) {
        let bytes = happening.bytes();
        for place in (0..TRACERS_MAX).filter(|place| happening.tracers & 1 << place != 0) {
            self.waiting_of[place].happenings += 1;
            self.waiting_of[place].bytes += bytes;
        }
        self.waiting.push(happening);
    }

    /// When the next letter may be sent.
    pub(crate) fn due(&self, now: Time) -> Time {
        (self.last_letter + LETTER_PAUSE).max(now)
    }

    /// Returns all waiting events, and the number that each tracer has missed.
    pub(crate) fn tell(&mut self, now: Time) -> (Vec<Happening>, [u64; TRACERS_MAX]) {
        (self.is_armed, self.last_letter, self.waiting_of) = (false, now, Default::default());
        (std::mem::take(&mut self.waiting), std::mem::take(&mut self.dropped))
    }
}

impl Happening {
    /// Approximate size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let own = match &self.what {
            What::LoggedIn { application, addr, .. } => application.len() + addr.len(),
            What::Requested(requested) | What::Waits { request: Some(requested), .. } => {
                requested.text.len() + requested.kinds.len() + requested.raw.as_ref().map_or(0, |raw| raw.len())
            }
            What::Told { texts } => texts.iter().map(String::len).sum(),
            What::Failed(failed) => failed.body.len() + failed.text.len(),
            What::Keeps { what } => what.len(),
            What::Lost { why } | What::Refused { why } | What::Left { why } => why.len(),
            What::Waits { request: None, .. }
            | What::Delayed
            | What::Lent { .. }
            | What::Answers { .. }
            | What::Answered { .. }
            | What::Stays
            | What::Returned
            | What::Cancelled => 0,
        };
        HAPPENING_BYTES + own
    }
}

/// Maximum number of tracers at a time.
pub const TRACERS_MAX: usize = 8;
/// Bytes kept of a text, and of a request's raw bytes.
pub(crate) const TRACED_BYTES_MAX: usize = 16_384;
/// Maximum number of events of a tracer in a letter,
const HAPPENINGS_MAX: usize = 100;
/// and of bytes.
const BYTES_MAX: usize = 65_536;
/// Minimum time between two letters.
const LETTER_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of places in the table of clients that one turn looks at.
const PLACES_A_TURN: u32 = 256;
/// Approximate size of the shortest event.
const HAPPENING_BYTES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn stays(tracers: Mask) -> Happening {
        Happening { at: Wall(0), tracers, client: 1, server: None, what: What::Stays }
    }

    fn happens(tracers: &mut Tracers, mask: Mask) {
        let mask = tracers.with_room(mask);
        if mask != 0 {
            tracers.add(stays(mask));
        }
    }

    #[test]
    fn a_tracer_is_about_one_client_an_application_or_a_database() {
        let mut tracers = Tracers::default();
        assert!(!tracers.is_any());
        tracers.begin(0, Traced::Client(7));
        tracers.begin(3, Traced::Database("shop".into()));
        tracers.begin(7, Traced::Application("cart".into()));
        assert_eq!(tracers.about(7, "d", "a"), 1);
        assert_eq!(tracers.about(8, "shop", "cart"), 1 << 3 | 1 << 7);
        assert_eq!(tracers.about(8, "shopping", ""), 0);
        tracers.end(3);
        assert_eq!(tracers.about(7, "shop", "cart"), 1 | 1 << 7);
    }

    #[test]
    fn a_flood_for_one_tracer_takes_nothing_from_another_and_is_counted() {
        let mut tracers = Tracers::default();
        tracers.begin(0, Traced::Client(1));
        tracers.begin(1, Traced::Database("d".into()));
        (0..1000).for_each(|_| happens(&mut tracers, 0b10));
        happens(&mut tracers, 0b11);
        let (told, dropped) = tracers.tell(Time(5));
        assert_eq!(told.len(), HAPPENINGS_MAX + 1);
        assert_eq!(told.last().map(|happening| happening.tracers), Some(0b01));
        assert_eq!(dropped[..2], [0, 1001 - HAPPENINGS_MAX as u64]);
        assert_eq!(tracers.due(Time(6)), Time(5) + LETTER_PAUSE);
        happens(&mut tracers, 0b10);
        assert_eq!(tracers.tell(Time(7)).0.len(), 1, "the next letter has room again");
    }

    #[test]
    fn long_texts_fill_a_letter_before_its_number_does() {
        let mut tracers = Tracers::default();
        tracers.begin(0, Traced::Client(1));
        for _ in 0..10 {
            if tracers.with_room(1) != 0 {
                let what = What::Left { why: "x".repeat(TRACED_BYTES_MAX).into() };
                tracers.add(Happening { what, ..stays(1) });
            }
        }
        let (told, dropped) = tracers.tell(Time(0));
        assert!(told.iter().map(Happening::bytes).sum::<usize>() < BYTES_MAX + TRACED_BYTES_MAX + HAPPENING_BYTES);
        assert_eq!(told.len() as u64 + dropped[0], 10);
    }

    /// Before, one turn looked at all clients of the worker, of which there may be tens of thousands.
    #[test]
    fn a_turn_looks_at_a_part_of_the_clients() {
        let mut tracers = Tracers::default();
        tracers.begin(2, Traced::Client(1));
        let mut seen = Vec::new();
        for turn in 0..10 {
            if turn == 1 {
                tracers.begin(5, Traced::Client(1));
            }
            let (mask, range) = tracers.next_slice(600);
            seen.push((mask, range));
            if !tracers.is_any_spreading() {
                break;
            }
        }
        let (one, other, both) = (1 << 2, 1 << 5, 1 << 2 | 1 << 5);
        assert_eq!(seen, [(one, 0..256), (other, 0..256), (both, 256..512), (both, 512..600)]);
        tracers.end(2);
        assert!(tracers.is_spreading(2) && !tracers.is_spreading(5));
        assert_eq!(tracers.next_slice(0), (one, 0..0));
        assert!(!tracers.is_any_spreading(), "a worker without clients");
    }

    #[test]
    fn who_ends_is_told_nothing_more() {
        let mut tracers = Tracers::default();
        tracers.begin(0, Traced::Client(1));
        tracers.begin(1, Traced::Client(1));
        happens(&mut tracers, 0b01);
        happens(&mut tracers, 0b11);
        tracers.end(0);
        assert_eq!(tracers.with_room(0b11), 0b10, "the client has not been looked at since");
        let (told, _) = tracers.tell(Time(0));
        assert_eq!(told.iter().map(|happening| happening.tracers).collect::<Vec<_>>(), [0b10]);
    }
}
