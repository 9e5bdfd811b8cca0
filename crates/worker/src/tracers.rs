//! Tracers: what consoles are told of as it happens (`TRACE`), and how much of it a worker tells.
//!
//! Always true: what waits to be told has a bound for each tracer, in number and in bytes, for each letter; there is one letter in
//! [`TOLD_EVERY`] at most; what finds no room is counted and forgotten.
//! Not here: what happens (`tracing`), how it is shown (`control::console`).

use std::sync::Arc;
use std::time::Duration;

use base::{Time, Wall};
use pool::WaitReason;
use route::Dialect;
use wire::backend::TxStatus;

/// Whom a tracer is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Traced {
    /// The client of this number.
    Client(u64),
    /// Who calls itself so (`application_name`).
    Application(Arc<str>),
    /// The clients of a database.
    Database(Arc<str>),
}

/// Something that has happened to a client.
#[derive(Clone, Debug)]
pub struct Happening {
    /// When.
    pub at: Wall,
    /// Which tracers are about that client: a bit for each.
    pub tracers: Mask,
    /// The client's number.
    pub client: u64,
    /// The number of its server, if it has one.
    pub server: Option<u64>,
    /// What.
    pub what: What,
}

/// What has happened to it.
#[derive(Clone, Debug)]
pub enum What {
    /// It has logged in.
    LoggedIn {
        /// To which database.
        database: Arc<str>,
        /// As whom.
        user: Arc<str>,
        /// What it calls itself.
        application: Box<str>,
        /// From where.
        addr: Box<str>,
    },
    /// It asks for something.
    Requested(Box<Requested>),
    /// It waits for a server.
    Waits {
        /// Why.
        why: Option<WaitReason>,
        /// To ask this, as far as it is here.
        request: Option<Box<Requested>>,
    },
    /// A rate limit delays it.
    Delayed,
    /// It has got a server.
    Lent {
        /// After so long.
        waited: Duration,
    },
    /// Its server is told what it has set.
    Told {
        /// In these statements.
        texts: Vec<String>,
    },
    /// The first bytes of an answer have come.
    Answers {
        /// So long after the request.
        after: Duration,
    },
    /// Its request has failed.
    Failed(Box<Failed>),
    /// Its request has been answered.
    Answered {
        /// Rows that were returned or changed.
        rows: u64,
        /// Bytes of the answer.
        bytes: u64,
        /// After so long.
        took: Duration,
        /// Where the server stands now.
        status: TxStatus,
    },
    /// Its server stays a moment, since it may come back at once.
    Stays,
    /// It keeps its server, since its session holds this.
    Keeps {
        /// In words.
        what: String,
    },
    /// Its server is given back.
    Returned,
    /// Its server is closed.
    Lost {
        /// Why.
        why: Box<str>,
    },
    /// Its request is refused by the pooler, and its session goes on.
    Refused {
        /// Why.
        why: Box<str>,
    },
    /// Somebody wants its request cancelled.
    Cancelled,
    /// It has gone, or was sent away.
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
    /// The bytes of it that have come at once.
    pub bytes: usize,
    /// Its text, or the beginning of that, with all values.
    pub text: Box<[u8]>,
    /// Whether that is all of the text.
    pub is_whole: bool,
    /// How the text is to be read.
    pub dialect: Dialect,
    /// What it is made of, for who may see values (`trace_values`).
    pub raw: Option<Box<[u8]>>,
}

/// An error that a server has told.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Its code.
    pub state: [u8; 5],
    /// The body of its `ErrorResponse`, if that has come at once.
    pub body: Box<[u8]>,
    /// How the text of its request begins.
    pub text: Box<[u8]>,
    /// How that is to be read.
    pub dialect: Dialect,
    /// It may be shown as it is.
    pub shows_values: bool,
}

/// A bit for each tracer.
pub type Mask = u8;

/// The tracers of a worker, and what waits to be told.
#[derive(Debug, Default)]
pub(crate) struct Tracers {
    traced: [Option<Traced>; TRACERS_MAX],
    waiting: Vec<Happening>,
    /// What the present letter has of each.
    told_of: [Room; TRACERS_MAX],
    dropped: [u64; TRACERS_MAX],
    pub(crate) is_armed: bool,
    /// When the last letter was sent.
    told: Time,
}

/// What a letter has of one tracer.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    happenings: usize,
    bytes: usize,
}

impl Tracers {
    /// A tracer begins at this place.
    pub(crate) fn begin(&mut self, place: usize, traced: Traced) {
        if let Some(row) = self.traced.get_mut(place) {
            *row = Some(traced);
        }
    }

    /// The one at this place ends; what it has not been told is forgotten.
    pub(crate) fn end(&mut self, place: usize) {
        let Some(row) = self.traced.get_mut(place) else { return };
        *row = None;
        self.dropped[place] = 0;
        let bit = 1 << place;
        self.waiting.iter_mut().for_each(|happening| happening.tracers &= !bit);
        self.waiting.retain(|happening| happening.tracers != 0);
    }

    /// Whether there is any.
    pub(crate) fn is_any(&self) -> bool {
        self.traced.iter().any(Option::is_some)
    }

    /// Those that are about a client.
    pub(crate) fn about(&self, id: u64, database: &str, application: &str) -> Mask {
        let is_about = |traced: &Traced| match traced {
            Traced::Client(number) => *number == id,
            Traced::Application(name) => **name == *application,
            Traced::Database(name) => **name == *database,
        };
        let bits = self.traced.iter().enumerate().filter(|(_, traced)| traced.as_ref().is_some_and(is_about));
        bits.fold(0, |mask, (place, _)| mask | 1 << place)
    }

    /// The tracers that have room for one thing more; the others count it.
    pub(crate) fn with_room(&mut self, tracers: Mask) -> Mask {
        let mut mask = tracers;
        for place in (0..TRACERS_MAX).filter(|place| tracers & 1 << place != 0) {
            let Room { happenings, bytes } = self.told_of[place];
            if happenings >= HAPPENINGS_MAX || bytes >= BYTES_MAX {
                mask &= !(1 << place);
                self.dropped[place] += 1;
            }
        }
        mask
    }

    /// Something has happened that these have room for.
    pub(crate) fn add(&mut self, happening: Happening) {
        let bytes = happening.bytes();
        for place in (0..TRACERS_MAX).filter(|place| happening.tracers & 1 << place != 0) {
            self.told_of[place].happenings += 1;
            self.told_of[place].bytes += bytes;
        }
        self.waiting.push(happening);
    }

    /// When it may be told.
    pub(crate) fn due(&self, now: Time) -> Time {
        (self.told + TOLD_EVERY).max(now)
    }

    /// All of it, and what each has missed.
    pub(crate) fn tell(&mut self, now: Time) -> (Vec<Happening>, [u64; TRACERS_MAX]) {
        (self.is_armed, self.told, self.told_of) = (false, now, Default::default());
        (std::mem::take(&mut self.waiting), std::mem::take(&mut self.dropped))
    }
}

impl Happening {
    /// What it takes, about.
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

/// So many tracers there may be at a time.
pub const TRACERS_MAX: usize = 8;
/// Of a text, and of what a request is made of, so much is told.
pub(crate) const TRACED_BYTES_MAX: usize = 16_384;
/// A letter tells of so many things for each tracer,
const HAPPENINGS_MAX: usize = 100;
/// and is full with so many bytes for it.
const BYTES_MAX: usize = 65_536;
/// There is one letter in so much time.
const TOLD_EVERY: Duration = Duration::from_millis(50);
/// What the shortest of them takes, about.
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
        assert_eq!(tracers.due(Time(6)), Time(5) + TOLD_EVERY);
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

    #[test]
    fn who_ends_is_told_nothing_more() {
        let mut tracers = Tracers::default();
        tracers.begin(0, Traced::Client(1));
        tracers.begin(1, Traced::Client(1));
        happens(&mut tracers, 0b01);
        happens(&mut tracers, 0b11);
        tracers.end(0);
        let (told, _) = tracers.tell(Time(0));
        assert_eq!(told.iter().map(|happening| happening.tracers).collect::<Vec<_>>(), [0b10]);
    }
}
