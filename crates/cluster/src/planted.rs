//! Rules of this crate that the simulation can break on purpose, to see whether its checks notice.
//!
//! Always true: without the feature `planted` each function only does what its name says, at no cost. Each function has the bug next to the
//! rule (`base::planted` says what each bug would mean for a user), and no other file of this crate names a planted bug.
//! Not here: the reasons for the rules, which are documented where the rules are used.

use std::time::Duration;

use base::planted::{self, Planted};

/// For how long a confirmation of the leader lock counts.
pub(crate) fn lasts_for(lease: Duration) -> Duration {
    if planted::is(Planted::FenceALeaseLate) { lease * 2 } else { lease }
}

/// What a timeline counts when primaries are compared with each other and with those before.
pub(crate) fn age_of(timeline: u32) -> u32 {
    if planted::is(Planted::OlderTimelineBelieved) { u32::MAX } else { timeline }
}

/// Whether a target has everything.
pub(crate) fn has_caught_up(has_replayed: bool) -> bool {
    has_replayed || planted::is(Planted::CatchUpSkipped)
}
