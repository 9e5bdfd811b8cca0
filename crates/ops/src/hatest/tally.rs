//! What is counted of a path and of a reader while they run.
//!
//! Always true: memory does not grow with the length of a run, except for two bits of each write (`ledger`).
//! Not here: sums and the report (`report`).

use std::time::Duration;

use measure::Histogram;

use super::answer::{Codes, Failure};
use super::gaps::Gaps;
use super::ledger::{Ledger, Outcome};

/// Latencies in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency {
    histogram: Histogram,
    max: Duration,
}

impl Latency {
    /// Counts one.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.histogram.record(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
        self.max = self.max.max(latency);
    }

    /// A quantile, such as 0.99; never more than the maximum.
    pub(crate) fn quantile(&self, part: f64) -> Duration {
        Duration::from_micros(self.histogram.quantile(part)).min(self.max)
    }

    /// The longest.
    pub(crate) fn max(&self) -> Duration {
        self.max
    }
}

/// Attempts to connect, and how connections ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// Connections that were made.
    pub(crate) made: u64,
    /// Hosts that could not be used, and why.
    pub(crate) failed: Codes,
    /// Connections that ended without our asking, and why.
    pub(crate) broken: Codes,
}

/// A server that answered, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    /// Address and port.
    pub(crate) address: String,
    /// `primary` or `standby`.
    pub(crate) role: &'static str,
    /// The number of its answers.
    pub(crate) answers: u64,
    /// The first one, from the start of the run.
    pub(crate) first: Duration,
    /// The last one.
    pub(crate) last: Duration,
}

/// The servers that answered, in the order of their first answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Members(pub(crate) Vec<Member>);

impl Members {
    /// Counts an answer.
    pub(crate) fn count(&mut self, address: &str, role: &'static str, now: Duration) {
        // A server may invent addresses.
        let is_full = self.0.len() >= MEMBERS_MAX;
        let is_known = |member: &Member| member.address == address && member.role == role;
        let address = if is_full && !self.0.iter().any(is_known) { "other" } else { address };
        match self.0.iter_mut().find(|member| member.address == address && member.role == role) {
            Some(member) => (member.answers, member.last) = (member.answers + 1, now),
            None => self.0.push(Member { address: address.to_owned(), role, answers: 1, first: now, last: now }),
        }
    }

    /// The server that answered last.
    pub(crate) fn newest(&self) -> Option<&Member> {
        self.0.iter().max_by_key(|member| member.last)
    }
}

/// One writer.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriterTally {
    /// Its writes.
    pub(crate) ledger: Ledger,
    /// Its own gaps: what one connection of an application sees.
    pub(crate) gaps: Gaps,
    /// Writes that were due before the end, and never sent.
    pub(crate) unsent: u64,
}

/// One path.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathTally {
    pub(crate) writers: Vec<WriterTally>,
    pub(crate) gaps: Gaps,
    pub(crate) latency: Latency,
    pub(crate) connections: Connections,
    pub(crate) members: Members,
    /// Why writes were refused.
    pub(crate) refused: Codes,
    /// Why the outcome of writes is unknown.
    pub(crate) unknown: Codes,
}

impl PathTally {
    pub(crate) fn new(writers: u32) -> Self {
        Self { writers: (0..writers).map(|_| WriterTally::default()).collect(), ..Self::default() }
    }

    /// A write was acknowledged by the server at `address`.
    pub(crate) fn acked(&mut self, writer: usize, number: u64, address: &str, due: Duration, now: Duration) {
        self.writers[writer].ledger.end(number, Outcome::Acked);
        self.writers[writer].gaps.ack(now);
        self.gaps.ack(now);
        self.latency.record(now.saturating_sub(due));
        self.members.count(address, PRIMARY, now);
    }

    /// A write was not.
    pub(crate) fn failed(&mut self, writer: usize, number: u64, failure: &Failure) {
        let outcome = failure.outcome();
        self.writers[writer].ledger.end(number, outcome);
        let codes = if outcome == Outcome::Unknown { &mut self.unknown } else { &mut self.refused };
        codes.count(failure.code());
    }

    /// The fault command is started.
    pub(crate) fn fault(&mut self, now: Duration) {
        self.gaps.fault(now);
        self.writers.iter_mut().for_each(|writer| writer.gaps.fault(now));
    }

    /// The run has ended.
    pub(crate) fn end(&mut self, now: Duration) {
        self.gaps.end(now);
        self.writers.iter_mut().for_each(|writer| writer.gaps.end(now));
    }
}

/// One reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReaderTally {
    pub(crate) reads: u64,
    pub(crate) gaps: Gaps,
    pub(crate) latency: Latency,
    pub(crate) connections: Connections,
    pub(crate) members: Members,
    /// Why reads failed.
    pub(crate) errors: Codes,
    /// The largest age of the newest row that was read: it grows while nobody can write.
    pub(crate) age_max: Duration,
    /// The largest time by which the newest row was older than a row whose acknowledgement had been read before.
    pub(crate) stale_max: Duration,
    /// The largest number that was read of any writer.
    pub(crate) seq_max: Option<u64>,
    /// The time of the newest row, in microseconds since 1970.
    pub(crate) newest_micros: Option<i64>,
}

/// Most servers that are kept apart.
const MEMBERS_MAX: usize = 32;
/// The role of a server that is not in recovery.
pub(crate) const PRIMARY: &str = "primary";
/// The role of one that is.
pub(crate) const STANDBY: &str = "standby";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_kept_apart_by_address_and_role() {
        let mut members = Members::default();
        let ms = Duration::from_millis;
        members.count("a:1", STANDBY, ms(1));
        members.count("b:1", PRIMARY, ms(2));
        members.count("a:1", STANDBY, ms(3));
        members.count("a:1", PRIMARY, ms(4));
        let told: Vec<_> =
            members.0.iter().map(|m| (m.address.as_str(), m.role, m.answers, m.last.as_millis())).collect();
        assert_eq!(told, [("a:1", STANDBY, 2, 3), ("b:1", PRIMARY, 1, 2), ("a:1", PRIMARY, 1, 4)]);
        assert_eq!(members.newest().map(|member| member.role), Some(PRIMARY));
        (0..1000).for_each(|number| members.count(&format!("c:{number}"), PRIMARY, ms(5)));
        assert!(members.0.len() <= MEMBERS_MAX + 2, "{}", members.0.len());
    }

    #[test]
    fn a_quantile_is_never_more_than_the_longest() {
        let mut latency = Latency::default();
        latency.record(Duration::from_micros(1000));
        assert_eq!((latency.quantile(0.99), latency.max()), (latency.max(), Duration::from_micros(1000)));
    }

    #[test]
    fn outcomes_go_to_the_ledger_and_to_the_reasons() {
        let mut tally = PathTally::new(1);
        let ms = Duration::from_millis;
        (0..4).for_each(|_| _ = tally.writers[0].ledger.begin());
        tally.acked(0, 0, "a:1", ms(0), ms(7));
        let refused = |code: &str| Failure::Server { sqlstate: code.to_owned(), goes_on: true, message: String::new() };
        tally.failed(0, 1, &refused("25006"));
        tally.failed(0, 2, &refused("23505"));
        tally.failed(0, 3, &Failure::Broken("closed"));
        tally.end(ms(20));
        assert_eq!((tally.refused.sum(), tally.unknown.sum()), (2, 1));
        assert_eq!(tally.gaps.longest().length(), ms(13));
        assert_eq!(tally.latency.max(), ms(7));
        let count = |outcome| tally.writers[0].ledger.count(outcome);
        assert_eq!([Outcome::Acked, Outcome::Refused, Outcome::Doubled, Outcome::Unknown].map(count), [1; 4]);
    }
}
