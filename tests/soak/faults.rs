//! The faults of a connection, drawn from the seed.
//!
//! Always true: bytes are delayed, split, or lost together with all that follow; they are never changed.
//! Not here: how it is done (`proxy`).

use std::time::Duration;

use base::Random;

use super::skewed;

/// The faults of one connection.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// What happens before the first byte.
    pub(crate) opening: Opening,
    /// From the side that has connected to the other.
    pub(crate) up: LanePlan,
    /// The opposite direction.
    pub(crate) down: LanePlan,
}

/// How a connection begins.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Opening {
    #[default]
    Plain,
    /// Closed at once.
    Refused,
    /// Nothing passes for a while.
    Slow(Duration),
}

/// The faults of one direction.
#[derive(Debug, Default)]
pub(crate) struct LanePlan {
    /// How the first bytes are split.
    pub(crate) pieces: Option<Pieces>,
    /// A fault after so many bytes.
    pub(crate) event: Option<(u64, Fault)>,
}

/// How bytes are split: the longest piece, the longest pause between two, and after how many bytes this ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    pub(crate) length_max: u64,
    pub(crate) pause_max: Duration,
    pub(crate) until: u64,
}

/// What happens in the middle of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Both sides are closed in order.
    Close,
    /// Both sides are reset.
    Reset,
    /// This direction ends, the other continues.
    HalfClose,
    /// Nothing passes for a while.
    Stall(Duration),
    /// From here on bytes pass slowly.
    Trickle,
}

/// How frequent faults are on this side of the pooler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Climate {
    /// The percentage of connections with a fault.
    pub(crate) faults_percent: u64,
    /// A fault comes after fewer bytes than two to this power.
    pub(crate) bits_max: u64,
}

impl Plan {
    /// Draws the faults of a connection.
    pub(crate) fn draw(random: &mut Random, climate: Climate) -> Self {
        let opening = match random.below(100) {
            0..=1 => Opening::Refused,
            2..=4 => Opening::Slow(millis(random, 1_500)),
            _ => Opening::Plain,
        };
        let mut plan = Self { opening, up: LanePlan::draw(random), down: LanePlan::draw(random) };
        if random.below(100) < climate.faults_percent {
            let event = Some((skewed(random, 1, climate.bits_max), Fault::draw(random)));
            match random.below(2) {
                0 => plan.up.event = event,
                _ => plan.down.event = event,
            }
        }
        plan
    }

    /// The faults of a cancel request. It may be delayed, split, or lost before any of it arrives; it is never cut off after
    /// that, because the end of its connection tells that the signal was sent, and no pooler could know better.
    pub(crate) fn of_a_cancel(random: &mut Random) -> Self {
        let opening = match random.below(10) {
            0 => Opening::Refused,
            1..=3 => Opening::Slow(millis(random, 1_000)),
            _ => Opening::Plain,
        };
        Self { opening, up: LanePlan::draw(random), down: LanePlan::default() }
    }
}

impl LanePlan {
    fn draw(random: &mut Random) -> Self {
        let (length, pause_max, until) = match random.below(10) {
            0 => (4, millis(random, 1), 2_000),
            1..=2 => (40, millis(random, 3), 20_000),
            3..=4 => (4_000, millis(random, 8), 1_000_000),
            _ => return Self::default(),
        };
        let length_max = 1 + random.below(length);
        // A row of a megabyte byte by byte would take longer than any answer may.
        let until = until.min(length_max * PIECES_MAX);
        Self { pieces: Some(Pieces { length_max, pause_max, until }), event: None }
    }
}

impl Pieces {
    /// 200 kB a second for a third of a second.
    pub(crate) const TRICKLE: Self = Self { length_max: 200, pause_max: Duration::from_millis(1), until: 64_000 };
}

impl Fault {
    fn draw(random: &mut Random) -> Self {
        match random.below(12) {
            0..=2 => Self::Close,
            3..=5 => Self::Reset,
            6..=7 => Self::HalfClose,
            8..=10 => Self::Stall(millis(random, 3_000)),
            _ => Self::Trickle,
        }
    }
}

fn millis(random: &mut Random, most: u64) -> Duration {
    Duration::from_millis(1 + random.below(most))
}

/// After so many pieces bytes are no longer split: a few seconds of pauses.
const PIECES_MAX: u64 = 2_000;
