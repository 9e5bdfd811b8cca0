//! What recorded arrivals would have waited at another number of servers (Kiefer and Wolfowitz).
//!
//! Always true: no law is assumed. The same arrivals and service times give the same waits, so a difference between two numbers of
//! servers has no error of sampling.
//! Not here: service times that depend on how many are served at once; the caller must know that they do not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An arrival: when it came, and for how long it had a server. In microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When it came, since any origin.
    pub at: u64,
    /// For how long it had a server.
    pub service: u64,
}

/// How long each of these would wait, in microseconds, if `servers` served them in the order of their arrival. Arrivals must be sorted
/// by time. Empty if there are no servers.
#[must_use]
pub fn waits(arrivals: &[Arrival], servers: u32) -> Vec<u64> {
    if servers == 0 {
        return Vec::new();
    }
    // When each server that has ever been used becomes free; one that has not is free from the beginning.
    let mut free_at: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut wait_of = |arrival: &Arrival| {
        let soonest = match free_at.len() < servers as usize {
            true => 0,
            false => free_at.pop().map_or(0, |Reverse(time)| time),
        };
        let begins = soonest.max(arrival.at);
        free_at.push(Reverse(begins.saturating_add(arrival.service)));
        begins - arrival.at
    };
    arrivals.iter().map(&mut wait_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_first_is_served_first_by_the_server_that_is_free_first() {
        let arrivals = [(0, 10), (1, 4), (2, 5), (3, 1), (30, 1)].map(|(at, service)| Arrival { at, service });
        assert_eq!(waits(&arrivals, 2), [0, 0, 3, 7, 0]);
        assert_eq!(waits(&arrivals, 1), [0, 9, 12, 16, 0]);
        assert_eq!(waits(&arrivals, 9), [0; 5]);
        assert!(waits(&arrivals, 0).is_empty() && waits(&[], 3).is_empty());
    }
}
