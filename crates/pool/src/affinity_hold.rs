//! The affinity hold: whether a server whose loan could end stays with its client for a moment, because the client may send
//! the next request at once.
//!
//! Changing the settings of a session costs PostgreSQL about as much as a short query. Clients that send one transaction
//! after the other, each client with its own settings, would pay this with each transaction. With affinity holds each
//! client runs several transactions in a row.
//!
//! Always true: a loan is prolonged by at most [`LOANS_MAX`] transactions, and the server is unused for at most
//! [`AFFINITY_HOLD`] before each. After a hold in vain, the next [`IN_VAIN`] loans of the client end without a hold.
//! Not here: whether the server as it is suits a waiting client ([`crate::Pools::is_returned_at_once`]), what ends a hold early
//! (`worker::data::affinity`).

use std::time::Duration;

use base::Time;

/// The affinity hold of one loan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AffinityHold {
    /// The end of the present hold, if there is one.
    until: Option<Time>,
    /// How many holds the loan has had.
    loans: u32,
}

/// The outcome of a client's former holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HoldHistory {
    /// How many of the client's next loans end without a hold, because its last hold was in vain.
    ends: u32,
}

impl AffinityHold {
    /// Begins a hold when the loan could end. Returns the end of the hold, or `None` if the loan is to end.
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

    /// Whether the server is being held.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the server is being held until exactly this time. False for a timer of an earlier hold.
    #[must_use]
    pub fn is_waiting_until(&self, until: Time) -> bool {
        self.until == Some(until)
    }

    /// Ends the hold, because the client has sent a request.
    pub fn come_back(&mut self) {
        self.until = None;
    }

    /// Ends the hold, because the client has not sent a request in time.
    pub fn end_in_vain(&mut self, hold_history: &mut HoldHistory) {
        self.until = None;
        hold_history.ends = IN_VAIN;
    }
}

/// The length of a hold: about the time that a nearby client needs to read an answer and to send the next request.
const AFFINITY_HOLD: Duration = Duration::from_micros(500);
/// How many holds one loan may have, and so by how many transactions it may be prolonged.
const LOANS_MAX: u32 = 8;
/// How many loans of a client end without a hold after a hold in vain.
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
