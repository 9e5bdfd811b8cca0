//! What pools were asked for: how many servers at once, for how long, how often.
//!
//! Always true: a figure that was not observed is absent, and [`Origin`] says whether the others were measured or derived. Times are in seconds,
//! except in recorded loans, which are in microseconds.
//! Not here: reading it from a pooler (`metrics`, `history`) or a simulation (`simulate::demand`); what follows (`advise`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::sampled::Sampled;
use crate::theory::replay::Arrival;

/// Where figures come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Every loan of a server is known.
    EveryLoan(String),
    /// Sums and distributions are known, from which the rest is derived.
    Derived(String),
}

impl Origin {
    /// Words for a report.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::EveryLoan(text) | Self::Derived(text) => text,
        }
    }

    pub(crate) fn is_approximate(&self) -> bool {
        matches!(self, Self::Derived(_))
    }
}

/// What was asked of all pools of one server.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Demand {
    pub(crate) origin: Origin,
    /// In the order of their databases and users.
    pub(crate) pools: Vec<PoolDemand>,
    /// The time that was observed.
    pub(crate) seconds: f64,
    /// Whether it was observed at one of several processes of a pooler, and not at all of them.
    pub(crate) is_of_one_process: bool,
    /// Of the time for which a server is lent, the share for which it computes.
    pub(crate) computing: Option<f64>,
    /// How many servers of all pools together were wanted at once, if it was read now and then.
    pub(crate) sampled: Option<Sampled>,
    /// The most clients at once.
    pub(crate) clients_peak: Option<u32>,
    /// What a reader should know about the observation.
    pub(crate) notes: Vec<String>,
}

/// What was asked of one pool.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PoolDemand {
    pub(crate) database: String,
    pub(crate) user: String,
    /// Transactions, or loans in session mode.
    pub(crate) loans: u64,
    /// A second.
    pub(crate) rate: f64,
    pub(crate) hold: Hold,
    /// The squared coefficient of variation of the times between arrivals; 1 if they are random.
    pub(crate) scv_of_arrivals: f64,
    /// How many were wanted at once, if it was read now and then.
    pub(crate) sampled: Option<Sampled>,
    /// By server, if the one that was used last is used next.
    pub(crate) slots: Vec<Slots>,
    /// Every loan, by its beginning; empty if they were not recorded.
    pub(crate) recorded: Vec<Arrival>,
    /// The demand that half of the quietest busy part of the time had at least.
    pub(crate) quiet: Option<u32>,
    /// The most at once, if only that is known.
    pub(crate) peak: Option<u32>,
    /// The size that it had.
    pub(crate) size: Option<u32>,
    /// The 99th percentile of waits with that size.
    pub(crate) wait_p99: Option<f64>,
}

/// For how long a server is lent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Hold {
    pub(crate) mean: f64,
    /// The variance over the squared mean.
    pub(crate) scv: f64,
}

/// The gaps between two uses of one of the servers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Slots {
    /// How many gaps there were.
    pub(crate) uses: u64,
    pub(crate) gap_p95: f64,
}

impl PoolDemand {
    /// The mean number of servers that are lent.
    pub(crate) fn load(&self) -> f64 {
        self.rate * self.hold.mean
    }

    /// How a report names it.
    pub(crate) fn name(&self) -> String {
        match self.user.is_empty() {
            true => self.database.clone(),
            false => format!("{}/{}", self.database, self.user),
        }
    }

    /// The demand of a pool all of whose loans are known. They must be in the order of their beginnings.
    pub(crate) fn of_loans(database: &str, user: &str, seconds: f64, recorded: Vec<Arrival>) -> Self {
        let held: Vec<f64> = recorded.iter().map(|loan| loan.service as f64 / 1e6).collect();
        let gaps: Vec<f64> = recorded.windows(2).map(|pair| (pair[1].at - pair[0].at) as f64 / 1e6).collect();
        let hold = Hold { mean: mean(&held), scv: scv(&held) };
        let levels = Levels::of(&recorded);
        Self {
            database: database.to_owned(),
            user: user.to_owned(),
            loans: recorded.len() as u64,
            rate: recorded.len() as f64 / seconds.max(1e-9),
            hold,
            scv_of_arrivals: scv(&gaps),
            peak: levels.peak(),
            sampled: None,
            slots: slots(&recorded),
            quiet: quiet(&recorded),
            recorded,
            size: None,
            wait_p99: None,
        }
    }
}

impl Demand {
    /// All loans of all pools, by their beginnings.
    pub(crate) fn together(&self) -> Vec<Arrival> {
        let mut all: Vec<Arrival> = self.pools.iter().flat_map(|pool| &pool.recorded).copied().collect();
        all.sort_by_key(|loan| loan.at);
        all
    }

    /// The mean number of servers that are lent, of all pools.
    pub(crate) fn load(&self) -> f64 {
        self.pools.iter().map(PoolDemand::load).sum()
    }
}

/// For how long so many were wanted at once: the time by their number, counted at every change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Levels {
    micros: Vec<u64>,
}

impl Levels {
    /// The levels between the first loan and the last end.
    pub(crate) fn of(loans: &[Arrival]) -> Self {
        let mut levels = Self::default();
        let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let mut since = loans.first().map_or(0, |loan| loan.at);
        for loan in loans {
            while let Some(Reverse(end)) = ends.peek().copied().filter(|Reverse(end)| *end <= loan.at) {
                levels.add(ends.len(), end - since);
                since = end;
                ends.pop();
            }
            levels.add(ends.len(), loan.at - since);
            since = loan.at;
            ends.push(Reverse(loan.at.saturating_add(loan.service)));
        }
        while let Some(Reverse(end)) = ends.pop() {
            levels.add(ends.len() + 1, end.saturating_sub(since));
            since = end;
        }
        levels
    }

    /// So many were wanted for so long.
    pub(crate) fn add(&mut self, level: usize, micros: u64) {
        if level >= self.micros.len() {
            self.micros.resize(level + 1, 0);
        }
        self.micros[level] += micros;
    }

    /// The number that was not exceeded for this share of the time.
    pub(crate) fn quantile(&self, share: f64) -> Option<u32> {
        let all: u64 = self.micros.iter().sum();
        let wanted = all as f64 * share;
        let mut sum = 0.0;
        self.micros
            .iter()
            .position(|micros| {
                sum += *micros as f64;
                sum >= wanted && all > 0
            })
            .map(|level| level as u32)
    }

    /// The most at once.
    pub(crate) fn peak(&self) -> Option<u32> {
        self.micros.iter().rposition(|micros| *micros > 0).map(|level| level as u32)
    }
}

/// The gaps between two uses of each server, if the one that was given back last is used next.
fn slots(loans: &[Arrival]) -> Vec<Slots> {
    let mut idle: Vec<(u64, usize)> = Vec::new();
    let mut lent: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut gaps: Vec<Vec<u32>> = Vec::new();
    for loan in loans {
        while let Some(Reverse((end, slot))) = lent.peek().copied().filter(|Reverse((end, _))| *end <= loan.at) {
            lent.pop();
            idle.push((end, slot));
        }
        let slot = match idle.pop() {
            Some((since, slot)) => {
                // In milliseconds: an idle timeout is in seconds.
                gaps[slot].push(((loan.at - since) / 1000).min(u64::from(u32::MAX)) as u32);
                slot
            }
            None => {
                gaps.push(Vec::new());
                gaps.len() - 1
            }
        };
        lent.push(Reverse((loan.at.saturating_add(loan.service), slot)));
    }
    let p95 = |mut gaps: Vec<u32>| {
        gaps.sort_unstable();
        let place = (gaps.len() as f64 * 0.95).ceil() as usize;
        let gap_p95 = gaps.get(place.saturating_sub(1)).map_or(0.0, |gap| f64::from(*gap) / 1e3);
        Slots { uses: gaps.len() as u64, gap_p95 }
    };
    gaps.into_iter().map(p95).collect()
}

/// The median demand in the quietest of equal parts of the time that are busy at all.
fn quiet(loans: &[Arrival]) -> Option<u32> {
    let (first, last) = (loans.first()?.at, loans.last()?.at);
    let length = ((last - first) / PARTS).max(1);
    let mut parts: Vec<u32> = Vec::new();
    let mut rest = loans;
    while let Some(begin) = rest.first().map(|loan| loan.at) {
        let count = rest.partition_point(|loan| loan.at < begin + length);
        let (part, more) = rest.split_at(count);
        rest = more;
        if count >= LOANS_OF_BUSY_PART {
            parts.extend(Levels::of(part).quantile(0.5));
        }
    }
    parts.into_iter().min()
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// The variance over the squared mean; 1 if there are too few samples.
fn scv(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    if samples.len() < 2 || mean <= 0.0 {
        return 1.0;
    }
    samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (samples.len() - 1) as f64 / mean.powi(2)
}

/// The parts of the observed time of which the quietest is sought, as the hours of half a day.
const PARTS: u64 = 12;
/// A part with fewer loans is not busy.
const LOANS_OF_BUSY_PART: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn loans(list: &[(u64, u64)]) -> Vec<Arrival> {
        list.iter().map(|(at, service)| Arrival { at: *at, service: *service }).collect()
    }

    #[test]
    fn simultaneous_demand_is_counted_by_time() {
        // One from 0 to 10, two from 10 to 20, one to 30, none to 90, one to 100.
        let levels = Levels::of(&loans(&[(0, 20), (10, 20), (90, 10)]));
        assert_eq!(levels.micros, [60, 30, 10]);
        assert_eq!([0.5, 0.6, 0.61, 0.9, 0.91, 1.0].map(|share| levels.quantile(share)), [0, 0, 1, 1, 2, 2].map(Some));
        assert_eq!((levels.peak(), Levels::of(&[]).quantile(0.5), Levels::of(&[]).peak()), (Some(2), None, None));
    }

    #[test]
    fn gaps_belong_to_the_server_that_was_used_last() {
        let second = 1_000_000;
        let list: Vec<(u64, u64)> = (0..100).map(|use_| (use_ * 2 * second, second)).collect();
        let pool = PoolDemand::of_loans("a", "b", 200.0, loans(&list));
        assert_eq!(pool.slots, [Slots { uses: 99, gap_p95: 1.0 }]);
        assert!((pool.load() - 0.5).abs() < 1e-9 && pool.hold.scv < 1e-9 && pool.scv_of_arrivals < 1e-9, "{pool:?}");
        assert_eq!(pool.name(), "a/b");
    }
}
