//! What a real run tells besides its outcome: whether it may be believed, and what was measured around it.
//!
//! Always true: times are in seconds, memory in bytes.
//! Not here: the outcome (`book`), the words of the report (`report`).

use std::collections::BTreeMap;

use serde::Serialize;

use super::book::{Posts, Whole};
use super::watch::Look;
use crate::load::{Law, Times};
use crate::simulate::engine::Measured;
use crate::table::short;

/// One run at one target.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(in crate::simulate) struct RealRun {
    pub(super) target: String,
    /// The place of the setting among those of the sweep.
    pub(super) setting: usize,
    pub(super) seed: u64,
    /// Why it may not be believed; empty if it may.
    pub(super) void: Vec<String>,
    /// Why it is no steady state; empty if it is one.
    pub(super) unsteady: Vec<String>,
    pub(super) generator: Generator,
    /// How requests ended that got no answer.
    pub(super) timed_out: u64,
    pub(super) skipped: u64,
    pub(super) abandoned: u64,
    pub(super) errors: BTreeMap<String, u64>,
    /// For how long transactions of each kind had a server.
    pub(super) held: Vec<Held>,
    /// Logins of clients at the target.
    pub(super) login: Quantiles,
    pub(super) cpu: Processors,
    pub(super) memory: MemoryPeaks,
    pub(super) posts: Posts,
    /// Servers opened a second in the counted time, as PostgreSQL's log tells it.
    pub(super) opened_a_second: f64,
    /// What the pooler says of closed servers, by cause, over the whole run.
    pub(super) closed_by_cause: BTreeMap<String, u64>,
    pub(super) looks: Vec<Look>,
    /// Logins at the server, with the first answer, while the run went on; in microseconds, ascending.
    #[serde(skip)]
    pub(super) server_logins: Vec<u64>,
    #[serde(skip)]
    pub(super) loans: Vec<Measured>,
    #[serde(skip)]
    pub(super) whole: Whole,
}

/// The generator.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Generator {
    pub(super) lag_p50: f64,
    pub(super) lag_p99: f64,
    /// The share of its processor.
    pub(super) cpu_share: f64,
    /// Requests of a statement in a second, against a responder that answers at once.
    pub(super) rate_max: f64,
    pub(super) clients_peak: u32,
}

/// For how long a kind of transaction had a server.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Held {
    pub(super) group: u32,
    pub(super) kind: u32,
    pub(super) times: Quantiles,
    /// The whole distribution: shares from 0 to 1 and seconds.
    #[serde(skip)]
    pub(super) law: Law,
}

/// A distribution in some numbers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Quantiles {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) min: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// Processor seconds in the counted time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Processors {
    pub(super) server: f64,
    pub(super) pooler: f64,
    pub(super) ourselves: f64,
    pub(super) counted: f64,
}

/// The most bytes that were seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct MemoryPeaks {
    pub(super) pooler: u64,
    pub(super) servers: u64,
}

impl RealRun {
    /// The measured law of a kind of transaction, if it was seen often enough for one.
    pub(super) fn held_by(&self, group: u32, kind: u32) -> Option<Law> {
        let found = self.held.iter().find(|held| (held.group, held.kind) == (group, kind))?;
        (found.times.count >= SEEN_MIN).then(|| found.law.clone())
    }

    /// The words of the report.
    pub(super) fn words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let named = format!("{}, seed {}", self.target, self.seed);
        lines.extend(self.void.iter().map(|why| format!("VOID ({named}): {why}.")));
        lines.extend(self.unsteady.iter().map(|why| format!("NOT STEADY ({named}): {why}.")));
        let thousand = |seconds: f64| short(seconds / (self.whole.done.max(1) as f64) * 1e3);
        lines.push(format!(
            "{named}: CPU in the counted {} s: server {} s, pooler {} s, generator and we {} s ({} s of the pooler for 1,000 transactions of the \
             whole run); memory at most: pooler {}, servers {}.",
            short(self.cpu.counted),
            short(self.cpu.server),
            short(self.cpu.pooler),
            short(self.cpu.ourselves),
            thousand(self.looks.last().map_or(0.0, |look| look.pooler_cpu)),
            mib(self.memory.pooler),
            mib(self.memory.servers),
        ));
        lines.push(format!(
            "{named}: requests left the generator {} ms late (p99); clients logged in within {} ms (p50), {} ms (p99).",
            short(self.generator.lag_p99 * 1e3),
            short(self.login.p50 * 1e3),
            short(self.login.p99 * 1e3),
        ));
        lines.push(format!(
            "{named}: posts acknowledged {}, of unknown outcome {}, found {}: {}.",
            self.posts.acknowledged,
            self.posts.unknown,
            self.posts.found,
            match (self.posts.lost, self.posts.unexplained) {
                (0, 0) => "all of them are right".to_owned(),
                (lost, more) => format!("LOST {lost}, and {more} that nobody knows of"),
            }
        ));
        let refused = self.timed_out + self.skipped + self.abandoned;
        if refused > 0 {
            lines.push(format!(
                "{named}: not answered: timed out {}, skipped {}, abandoned at the end {}; each counts as long as it was waited for.",
                self.timed_out, self.skipped, self.abandoned
            ));
        }
        lines.extend(self.errors.iter().map(|(text, count)| format!("{named}: {count} times: {text}")));
        lines
    }

    /// Whether it may be believed.
    pub(in crate::simulate) fn is_valid(&self) -> bool {
        self.void.is_empty()
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", short(bytes as f64 / 1_048_576.0))
}

/// A law of fewer times would be one of chance.
const SEEN_MIN: u64 = 100;

impl Quantiles {
    pub(super) fn of(times: &Times) -> Self {
        let histogram = times.histogram();
        let at = |share: f64| histogram.value_at_quantile(share) as f64 / 1e6;
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            count: histogram.len(),
            mean: histogram.mean() / 1e6,
            min: histogram.min() as f64 / 1e6,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: histogram.max() as f64 / 1e6,
        }
    }
}

/// The measured law of times: its quantiles at each hundredth, closer at the end.
pub(super) fn law_of(times: &Times) -> Law {
    let histogram = times.histogram();
    let ends = [0.995, 0.998, 0.999, 0.9995, 0.9999];
    let shares = (1..=99).map(|percent| f64::from(percent) / 100.0).chain(ends);
    let mut points = vec![(0.0, histogram.min() as f64 / 1e6)];
    points.extend(shares.map(|share| (share, histogram.value_at_quantile(share) as f64 / 1e6)));
    points.push((1.0, histogram.max() as f64 / 1e6));
    Law::Quantiles(points)
}
