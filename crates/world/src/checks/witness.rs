//! What was seen that must not be.
//!
//! Always true: the first accusation is kept; what comes after it may be its consequence.
//! Not here: who looks for what (`checks`).

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use base::Time;

use crate::checks::board::Board;

/// What may be wrong: the numbers are those of the list of checkers in `ARCHITECTURE.md`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Charge {
    /// 1: a client saw a byte that was meant for another, or none of its own.
    ForeignBytes,
    /// 2: a server was lent to two.
    TwoLoans,
    /// 3: a loan ended while something was owed or a transaction was open.
    LoanEndedEarly,
    /// 4: a limit was exceeded.
    LimitExceeded,
    /// 5: slots were lost or made up.
    Slots,
    /// 6: a cancel reached what it was not meant for.
    StrayCancel,
    /// 7: somebody waited beyond their deadline, was refused without need, or was overtaken.
    NotServed,
    /// 8: memory grew beyond its bound.
    Memory,
    /// 9: the counters do not say what happened.
    Counters,
    /// 10: a server was closed, or a client refused, without a reason that an operator could name.
    NoReason,
    /// 11: something was left behind in a session: parameters, state.
    LeftOver,
    /// 12: a client got a server of a database that was paused.
    BrokenPause,
    /// The pooler's own assertions.
    Panic,
}

impl Charge {
    /// All that bugs are planted for; the pooler's own assertions need no proof.
    pub const ALL: [Self; 12] = [
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
            Self::Panic => "an assertion",
        })
    }
}

/// What was seen, and what had happened before.
#[derive(Debug)]
pub(crate) struct Witness {
    /// The first thing that must not be.
    pub(crate) accusation: Option<(Charge, String)>,
    /// The last moments, if they are kept.
    moments: VecDeque<String>,
    moments_max: usize,
    /// A sum over all that happened: two runs of a seed must have the same.
    pub(crate) sum: u64,
    /// How often each thing happened.
    pub(crate) tally: HashMap<&'static str, u64>,
    pub(crate) now: Time,
    /// When a server has heard of each application for the last time.
    pub(crate) heard: HashMap<u32, Time>,
    /// Applications that have just been let in.
    pub(crate) guests: Vec<u32>,
    /// What was notified, and whom it concerns.
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
            board: Rc::default(),
        }
    }

    /// Says that something must not be.
    pub(crate) fn accuse(&mut self, charge: Charge, text: String) {
        self.note(|| format!("ACCUSED of {charge}: {text}"));
        self.accusation.get_or_insert((charge, text));
    }

    /// Keeps a moment, if moments are kept.
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

    /// Adds something that happened to the sum.
    pub(crate) fn fold(&mut self, value: u64) {
        self.sum = (self.sum ^ value).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Counts something.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// The last moments.
    pub(crate) fn into_moments(self) -> Vec<String> {
        self.moments.into()
    }
}
