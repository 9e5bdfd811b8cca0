//! Watches PostgreSQL's processes and their memory while a load runs.

use std::time::{Duration, Instant};

use super::report::Peak;
use crate::trial::{Cluster, Memory, MemoryKind, memory_of};

/// Measures a cluster from time to time, often enough to see a peak and seldom enough not to disturb the cluster.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    cluster: &'a Cluster,
    /// Server processes that existed before and do not count.
    strangers: Vec<u32>,
    next_count: Duration,
    next_weighing: Duration,
    peak: Peak,
}

impl<'a> Watch<'a> {
    /// Watches all server processes except `strangers`.
    pub(super) fn over(cluster: &'a Cluster, strangers: Vec<u32>) -> Self {
        Self { cluster, strangers, next_count: Duration::ZERO, next_weighing: FIRST_WEIGHING, peak: Peak::default() }
    }

    /// Measures if it is time to, and returns how many processes there are then.
    pub(super) fn look(&mut self, elapsed: Duration) -> Option<usize> {
        if elapsed < self.next_count {
            return None;
        }
        self.next_count = elapsed + COUNT_EVERY;
        let mut serving = self.cluster.serving();
        serving.retain(|pid| !self.strangers.contains(pid));
        self.peak.processes = self.peak.processes.max(serving.len());
        if elapsed >= self.next_weighing {
            let begun = Instant::now();
            self.weigh(&serving);
            self.next_weighing = elapsed + WEIGH_EVERY.max(begun.elapsed() * WEIGHING_SHARE);
        }
        Some(serving.len())
    }

    /// The highest values so far.
    pub(super) fn peak(&self) -> Peak {
        self.peak
    }

    fn weigh(&mut self, serving: &[u32]) {
        let all: Vec<Memory> = serving.iter().filter_map(|&pid| memory_of(pid)).collect();
        let is_rough = all.iter().any(|memory| memory.kind == MemoryKind::Resident);
        let kind = if is_rough { MemoryKind::Resident } else { MemoryKind::Proportional };
        self.peak.see_memory(all.iter().map(|memory| memory.bytes).sum(), kind);
    }
}

const COUNT_EVERY: Duration = Duration::from_millis(250);
const FIRST_WEIGHING: Duration = Duration::from_millis(700);
const WEIGH_EVERY: Duration = Duration::from_secs(1);

/// Reading the memory of hundreds of processes takes a good part of a second; it may take at most one twentieth of the
/// time.
const WEIGHING_SHARE: u32 = 20;
