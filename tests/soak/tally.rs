//! Counters of what has happened.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::proxy::Counts;

/// Counters that all threads add to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Answers that ended with ReadyForQuery.
    pub(crate) answers: Count,
    /// Transactions that wrote rows and whose COMMIT was confirmed.
    pub(crate) committed: Count,
    /// Transactions rolled back by request or by an error.
    pub(crate) rolled_back: Count,
    /// Transactions whose COMMIT was never answered.
    pub(crate) unknown: Count,
    pub(crate) logins: Count,
    /// Clients that left in the middle of something.
    pub(crate) left: Count,
    /// Connections that ended without an error message.
    pub(crate) lost: Count,
    pub(crate) cancels_right: Count,
    pub(crate) cancels_stale: Count,
    pub(crate) cancels_wrong: Count,
    /// Queries that ended with `query_canceled`.
    pub(crate) cancelled: Count,
    pub(crate) terminated: Count,
    pub(crate) reloads: Count,
    /// The largest number of servers seen in a pool.
    pub(crate) servers: Count,
    errors: Mutex<BTreeMap<String, u64>>,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn raise(&self, least: u64) {
        self.0.fetch_max(least, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    /// A client received an error.
    pub(crate) fn error(&self, code: &str, text: &str) {
        // All of the pooler's own errors have this code, so the text tells more.
        let name = match code {
            "08P01" => format!("{code} {}", text.split(':').next().unwrap_or("")),
            _ => code.to_string(),
        };
        *self.errors.lock().expect("nobody panics here").entry(name).or_default() += 1;
    }

    /// One line.
    pub(crate) fn progress(&self) -> String {
        format!(
            "{} answers, {} committed, {} logins, {} left, {} lost, {} cancelled, {} terminated, {} reloads",
            self.answers.now(),
            self.committed.now(),
            self.logins.now(),
            self.left.now(),
            self.lost.now(),
            self.cancelled.now(),
            self.terminated.now(),
            self.reloads.now(),
        )
    }

    /// The whole table.
    pub(crate) fn table(&self, front: &Counts, back: &Counts) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<34} {value}\n"));
        line("answers", self.answers.now().to_string());
        let writes = (self.committed.now(), self.rolled_back.now(), self.unknown.now());
        line(
            "transactions that wrote",
            format!("{} committed, {} rolled back, {} unknown", writes.0, writes.1, writes.2),
        );
        line("logins", self.logins.now().to_string());
        line("clients that left in the middle", self.left.now().to_string());
        line("connections lost without a word", self.lost.now().to_string());
        let cancels = (self.cancels_right.now(), self.cancels_stale.now(), self.cancels_wrong.now());
        line("cancel requests", format!("{} right, {} stale, {} wrong", cancels.0, cancels.1, cancels.2));
        line("queries that ended as cancelled", self.cancelled.now().to_string());
        line("servers terminated", self.terminated.now().to_string());
        line("reloads", self.reloads.now().to_string());
        line("most servers of a pool", self.servers.now().to_string());
        for (name, counts) in [("clients' side", front), ("servers' side", back)] {
            line(&format!("proxy on the {name}"), counts.words());
        }
        for (name, count) in self.errors.lock().expect("nobody panics here").iter() {
            line(&format!("error {name}"), count.to_string());
        }
        text
    }
}

impl Counts {
    fn words(&self) -> String {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        format!(
            "{} links: {} closed, {} reset, {} half-closed, {} slowed, {} refused; {} cancel requests",
            now(&self.links),
            now(&self.closed),
            now(&self.reset),
            now(&self.half_closed),
            now(&self.slowed),
            now(&self.refused),
            now(&self.cancels),
        )
    }
}
