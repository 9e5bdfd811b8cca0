//! Whether a server whose loan could end stays for a moment with its client, which may come back at once.
//!
//! To change what is set in a session costs PostgreSQL about as much as a short query. Clients in a loop, each with settings of its
//! own, would pay that with each transaction; so each has some in a row.
//!
//! Always true: a loan is made longer by at most [`LOANS_MAX`] transactions, and a server does nothing for no longer than [`LINGER`]
//! before each; who was waited for in vain is not waited for again for [`IN_VAIN`] loans.
//! Not here: whether anybody waits whom the server would suit as it is ([`crate::Pools::wants_back`]), what ends it before its time (`worker::data::affinity`).

use std::time::Duration;

use base::Time;

/// How a server lingers: one loan's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Linger {
    /// Until when, if it does.
    until: Option<Time>,
    /// How many loans it has made of one.
    loans: u32,
}

/// What is learned of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Haste {
    /// So many of its loans end without a server lingering, for the last one that did so did it in vain.
    ends: u32,
}

impl Linger {
    /// The loan could end: until when the server stays instead, if it does.
    pub fn begin(&mut self, haste: &mut Haste, now: Time) -> Option<Time> {
        if haste.ends > 0 {
            haste.ends -= 1;
            return None;
        }
        if self.loans == LOANS_MAX {
            return None;
        }
        self.loans += 1;
        self.until = Some(now + LINGER);
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
    pub fn end_in_vain(&mut self, haste: &mut Haste) {
        self.until = None;
        haste.ends = IN_VAIN;
    }
}

/// So long a server lingers: about what it takes a client nearby to read an answer and to ask again.
const LINGER: Duration = Duration::from_micros(500);
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
        let (mut linger, mut haste) = (Linger::default(), Haste::default());
        for round in 0..LOANS_MAX {
            let now = NOW + Duration::from_secs(u64::from(round));
            assert_eq!(linger.begin(&mut haste, now), Some(now + LINGER));
            assert!(linger.is_waiting_until(now + LINGER) && !linger.is_waiting_until(now));
            linger.come_back();
            assert!(!linger.is_waiting() && !linger.is_waiting_until(now + LINGER));
        }
        assert_eq!(linger.begin(&mut haste, NOW), None, "others have waited long enough");
        assert!(!linger.is_waiting());
        assert_eq!(Linger::default().begin(&mut haste, NOW), Some(NOW + LINGER), "its next loan is like its first");
    }

    #[test]
    fn who_does_not_come_back_is_not_waited_for_for_a_while() {
        let (mut linger, mut haste) = (Linger::default(), Haste::default());
        assert!(linger.begin(&mut haste, NOW).is_some());
        linger.end_in_vain(&mut haste);
        assert!(!linger.is_waiting());
        for _ in 0..IN_VAIN {
            assert_eq!(Linger::default().begin(&mut haste, NOW), None);
        }
        assert!(Linger::default().begin(&mut haste, NOW).is_some());
    }

    #[test]
    fn what_is_learned_of_a_client_says_nothing_about_another() {
        let (mut slow, mut quick) = (Haste::default(), Haste::default());
        let mut linger = Linger::default();
        linger.begin(&mut slow, NOW);
        linger.end_in_vain(&mut slow);
        assert_eq!(Linger::default().begin(&mut slow, NOW), None);
        assert!(Linger::default().begin(&mut quick, NOW).is_some());
    }
}
