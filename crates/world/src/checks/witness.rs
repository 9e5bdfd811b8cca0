//! The accusations: what was seen that must not happen.
//!
//! Always true: the first accusation is kept, because those after it may be its consequences.
//! Not here: the checks (`checks`).

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use base::Time;

use crate::checks::board::Board;
use crate::postgres::sql::Nonce;

/// The kinds of accusation, numbered as in the list of checkers in `ARCHITECTURE.md`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Charge {
    /// 1: a client received bytes meant for another, or did not receive its own.
    ForeignBytes,
    /// 2: a server was lent to two clients.
    TwoLoans,
    /// 3: a loan ended while an answer was due or a transaction was open.
    LoanEndedEarly,
    /// 4: a limit was exceeded.
    LimitExceeded,
    /// 5: slots were lost or counted twice.
    Slots,
    /// 6: a cancel request hit a statement that it was not meant for.
    StrayCancel,
    /// 7: a client waited beyond its deadline, was refused without need, or was overtaken.
    NotServed,
    /// 8: memory grew beyond its bound.
    Memory,
    /// 9: the counters differ from what happened.
    Counters,
    /// 10: a server was closed, or a client refused, without a reason that an operator could name.
    NoReason,
    /// 11: session state was left behind: parameters, locks, statements.
    LeftOver,
    /// 12: a client got a server of a paused database.
    BrokenPause,
    /// 13: a write was acknowledged and is lost, or reached a host that must not be written to; a read was sent to the wrong host.
    WrongHost,
    /// An assertion of the pooler failed.
    Panic,
}

impl Charge {
    /// All charges for which bugs are planted; the pooler's own assertions need no proof.
    pub const ALL: [Self; 13] = [
        Self::ForeignBytes,
        Self::TwoLoans,
        Self::LoanEndedEarly,
        Self::LimitExceeded,
        Self::Slots,
        Self::StrayCancel,
        Self::NotServed,
        Self::Memory,
        Self::Counters,
        Self::NoReason,
        Self::LeftOver,
        Self::BrokenPause,
        Self::WrongHost,
    ];
}

impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ForeignBytes => "1 foreign bytes",
            Self::TwoLoans => "2 two loans",
            Self::LoanEndedEarly => "3 loan ended early",
            Self::LimitExceeded => "4 limit exceeded",
            Self::Slots => "5 slots",
            Self::StrayCancel => "6 stray cancel",
            Self::NotServed => "7 not served",
            Self::Memory => "8 memory",
            Self::Counters => "9 counters",
            Self::NoReason => "10 no reason",
            Self::LeftOver => "11 left over",
            Self::BrokenPause => "12 broken pause",
            Self::WrongHost => "13 wrong host",
            Self::Panic => "an assertion",
        })
    }
}

/// What was seen in a world.
#[derive(Debug)]
pub(crate) struct Witness {
    /// The first accusation.
    pub(crate) accusation: Option<(Charge, String)>,
    /// The last log lines of the simulation, if they are kept.
    moments: VecDeque<String>,
    moments_max: usize,
    /// A checksum over all events: two runs of a seed must have the same.
    pub(crate) sum: u64,
    /// How often each thing happened.
    pub(crate) tally: HashMap<&'static str, u64>,
    pub(crate) now: Time,
    /// When a server last received something of each application.
    pub(crate) heard: HashMap<u32, Time>,
    /// Applications that have just logged in.
    pub(crate) guests: Vec<u32>,
    /// Writes that applications were told to be committed, until they are checked.
    pub(crate) acknowledged: Vec<Nonce>,
    /// The committed notifications and their listeners.
    pub(crate) board: Rc<RefCell<Board>>,
}

impl Witness {
    pub(crate) fn new(moments_max: usize) -> Self {
        Self {
            accusation: None,
            moments: VecDeque::new(),
            moments_max,
            sum: 0xcbf2_9ce4_8422_2325,
            tally: HashMap::new(),
            now: Time(0),
            heard: HashMap::new(),
            guests: Vec::new(),
            acknowledged: Vec::new(),
            board: Rc::default(),
        }
    }

    /// Records an accusation.
    pub(crate) fn accuse(&mut self, charge: Charge, text: String) {
        self.note(|| format!("ACCUSED of {charge}: {text}"));
        self.accusation.get_or_insert((charge, text));
    }

    /// Keeps a log line, if they are kept.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.moments_max == 0 {
            return;
        }
        if self.moments.len() == self.moments_max {
            self.moments.pop_front();
        }
        let (secs, micros) = (self.now.0 / 1_000_000, self.now.0 % 1_000_000);
        let line = format!("{secs:>5}.{micros:06} {}", text());
        self.moments.push_back(line);
    }

    /// Adds an event to the checksum.
    pub(crate) fn fold(&mut self, value: u64) {
        self.sum = (self.sum ^ value).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Counts a thing that happened.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// Returns the last log lines.
    pub(crate) fn into_moments(self) -> Vec<String> {
        self.moments.into()
    }
}
