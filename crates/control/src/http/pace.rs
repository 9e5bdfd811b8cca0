//! The time between two TLS handshakes of HTTP.
//!
//! Always true: handshakes begin `APART` from each other at least, in the order in which their connections asked. A handshake takes the
//! control thread a millisecond or two, so that connections opened by force leave it most of its time.
//! Not here: how many connections there may be (`room`), which bounds how long the last one waits.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Spaces handshakes.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the next handshake may begin, if one has begun.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// Reserves the first free time for a handshake, and returns it.
    pub(crate) fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let at = next.map_or(now, |next| next.max(now));
        *next = Some(at + APART);
        at
    }
}

const APART: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_that_come_together_begin_one_after_the_other() {
        let (pace, now) = (Pace::default(), Instant::now());
        let begin: Vec<_> = (0..3).map(|_| pace.reserve(now) - now).collect();
        assert_eq!(begin, [Duration::ZERO, APART, 2 * APART]);
        let later = now + Duration::from_secs(1);
        assert_eq!(pace.reserve(later), later, "a free time that has passed is not saved up");
        assert_eq!(pace.reserve(later), later + APART);
    }
}
