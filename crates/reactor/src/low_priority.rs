//! Threads beside the workers, whose work is not urgent.
//!
//! Always true: the workers' queries come first.
//! Not here: what the threads do.

/// Lowers the priority of the calling thread (`nice(2)`, which on Linux applies to that thread alone).
pub fn step_back() {
    // If the system refuses, only fairness suffers.
    let _ = rustix::process::nice(NICE);
}

/// The increment of the nice value.
const NICE: i32 = 10;
