//! Waiting for something to become true.
//!
//! Always true: this is the only place that polls, and it ends.
//! Not here: reading from a socket with a deadline (`peer`).

use std::time::{Duration, Instant};

/// How long an ordinary expectation may take. It is generous, because only failures use it up.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Waits until `condition` holds. Returns the time that it took.
///
/// # Panics
/// With `what`, when `limit` has passed.
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    wait_for(what, limit, || condition().then_some(()));
    begun.elapsed()
}

/// Waits until `look` returns something, and returns that.
///
/// # Panics
/// With `what`, when `limit` has passed.
pub fn wait_for<T>(what: &str, limit: Duration, look: impl FnMut() -> Option<T>) -> T {
    match try_wait_for(limit, look) {
        Some(found) => found,
        None => panic!("waited {limit:?} in vain: {what}"),
    }
}

/// Waits until `look` returns something; `None` when `limit` has passed.
pub fn try_wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::park_timeout(Duration::from_millis(3));
    }
}
