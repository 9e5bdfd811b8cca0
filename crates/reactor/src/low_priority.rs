//! Threads beside the workers, which have time.
//!
//! Always true: queries that run come before them.
//! Not here: what they do.

/// The calling thread steps back where processors are scarce (`nice(2)`, which counts for that thread alone).
pub fn step_back() {
    // What the system does not allow costs fairness and nothing else.
    let _ = rustix::process::nice(NICE);
}

/// How far.
const NICE: i32 = 10;
