//! Whether a server whose loan could end stays for a moment with its client, which may come back at once.
//!
//! To change what is set in a session costs PostgreSQL about as much as a short query. Clients in a loop, each with settings of its
//! own, would pay that with each transaction; so each has some in a row.
//!
//! Always true: a loan is made longer by at most [`LOANS_MAX`] transactions, and a server does nothing for no longer than [`AFFINITY_HOLD`]
//! before each; who was waited for in vain is not waited for again for [`IN_VAIN`] loans.
//! Not here: whether anybody waits whom the server would suit as it is ([`crate::Pools::wants_back`]), what ends it before its time (`worker::data::affinity`).

use std::time::Duration;

use base::Time;

/// How a server is held: one loan's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AffinityHold {
    /// Until when, if it does.
    until: Option<Time>,
    /// How many loans it has made of one.
    loans: u32,
}

/// What is learned of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HoldHistory {
    /// So many of its loans end without a server being held, for the last one that did so did it in vain.
    ends: u32,
}

impl AffinityHold {
    /// The loan could end: until when the server stays instead, if it does.
    pub fn begin(&mut self, hold_history: &mut HoldHistory, now: Time) -> Option<Time> {
        if hold_history.ends > 0 {
            hold_history.ends -= 1;
            return None;
        }
        if self.loans == LOANS_MAX {
            return None;
        }
        self.loans += 1;
        self.until = Some(now + AFFINITY_HOLD);
        self.until
    }

    /// Whether the client may come back.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.until.is_some()
    }

    /// Whether this is what it waits for, and not for another moment, or for nothing, since its client has come back.
    #[must_use]
    pub fn is_waiting_until(&self, until: Time) -> bool {
        self.until == Some(until)
    }

    /// The client has come back.
    pub fn come_back(&mut self) {
        self.until = None;
    }

    /// The client has not come back.
    pub fn end_in_vain(&mut self, hold_history: &mut HoldHistory) {
        self.until = None;
        hold_history.ends = IN_VAIN;
    }
}

/// So long a server is held: about what it takes a client nearby to read an answer and to ask again.
const AFFINITY_HOLD: Duration = Duration::from_micros(500);
/// So many transactions follow each other in a loan that could have ended.
const LOANS_MAX: u32 = 8;
/// Whoever has not come back in time is not waited for so many times.
const IN_VAIN: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1);

    #[test]
    fn a_client_that_comes_back_has_some_transactions_in_a_row() {
        let (mut affinity_hold, mut hold_history) = (AffinityHold::default(), HoldHistory::default());
        for round in 0..LOANS_MAX {
            let now = NOW + Duration::from_secs(u64::from(round));
            assert_eq!(affinity_hold.begin(&mut hold_history, now), Some(now + AFFINITY_HOLD));
            assert!(affinity_hold.is_waiting_until(now + AFFINITY_HOLD) && !affinity_hold.is_waiting_until(now));
            affinity_hold.come_back();
            assert!(!affinity_hold.is_waiting() && !affinity_hold.is_waiting_until(now + AFFINITY_HOLD));
        }
        assert_eq!(affinity_hold.begin(&mut hold_history, NOW), None, "others have waited long enough");
        assert!(!affinity_hold.is_waiting());
        assert_eq!(
            AffinityHold::default().begin(&mut hold_history, NOW),
            Some(NOW + AFFINITY_HOLD),
            "its next loan is like its first"
        );
    }

    #[test]
    fn who_does_not_come_back_is_not_waited_for_for_a_while() {
        let (mut affinity_hold, mut hold_history) = (AffinityHold::default(), HoldHistory::default());
        assert!(affinity_hold.begin(&mut hold_history, NOW).is_some());
        affinity_hold.end_in_vain(&mut hold_history);
        assert!(!affinity_hold.is_waiting());
        for _ in 0..IN_VAIN {
            assert_eq!(AffinityHold::default().begin(&mut hold_history, NOW), None);
        }
        assert!(AffinityHold::default().begin(&mut hold_history, NOW).is_some());
    }

    #[test]
    fn what_is_learned_of_a_client_says_nothing_about_another() {
        let (mut slow, mut quick) = (HoldHistory::default(), HoldHistory::default());
        let mut affinity_hold = AffinityHold::default();
        affinity_hold.begin(&mut slow, NOW);
        affinity_hold.end_in_vain(&mut slow);
        assert_eq!(AffinityHold::default().begin(&mut slow, NOW), None);
        assert!(AffinityHold::default().begin(&mut quick, NOW).is_some());
    }
}
