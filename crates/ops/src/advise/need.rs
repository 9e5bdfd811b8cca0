//! How many servers a traffic needs so that its waits stay short: by replaying every recorded loan, or by a law where only sums are known.
//!
//! Always true: a recorded loan keeps its order and its length, so that two numbers of servers are compared without chance. A limit that no
//! number of servers meets gives `None`.
//! Not here: ceilings (`sizing`).

use crate::facts::{Demand, Hold, Levels, PoolDemand, Sampled};
use crate::theory::heavy_traffic;
use crate::theory::mmc::Mmc;
use crate::theory::replay::{Arrival, waits};
use crate::theory::staffing::{poisson_quantile, square_root};

/// Traffic to be served.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// By beginning; empty if it was not recorded.
    recorded: Vec<Arrival>,
    /// How many were wanted at once, if that was read now and then.
    sampled: Option<Sampled>,
    rate: f64,
    hold: Hold,
    scv_of_arrivals: f64,
}

/// Other traffic than was observed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Change {
    /// The rate is multiplied with it.
    pub(crate) rate: f64,
    /// The time for which a server is lent, too.
    pub(crate) hold: f64,
}

impl Traffic {
    pub(crate) fn of_pool(pool: &PoolDemand) -> Self {
        Self {
            recorded: pool.recorded.clone(),
            sampled: pool.sampled.clone(),
            rate: pool.rate,
            hold: pool.hold,
            scv_of_arrivals: pool.scv_of_arrivals,
        }
    }

    /// All pools as if they were one.
    pub(crate) fn of_all(demand: &Demand) -> Self {
        let rate: f64 = demand.pools.iter().map(|pool| pool.rate).sum();
        let over_all = |figure: fn(&PoolDemand) -> f64| {
            demand.pools.iter().map(|pool| figure(pool) * pool.rate).sum::<f64>() / rate.max(1e-12)
        };
        let mean = over_all(|pool| pool.hold.mean);
        let square = over_all(|pool| pool.hold.mean.powi(2) * (1.0 + pool.hold.scv));
        let scv = if mean > 0.0 { (square / mean.powi(2) - 1.0).max(0.0) } else { 1.0 };
        Self {
            recorded: demand.together(),
            sampled: demand.sampled.clone(),
            rate,
            hold: Hold { mean, scv },
            scv_of_arrivals: over_all(|pool| pool.scv_of_arrivals),
        }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        !self.recorded.is_empty()
    }

    /// The readings, if they tell this quantile of the demand and loans were not recorded.
    pub(crate) fn sampled(&self, share: f64) -> Option<&Sampled> {
        self.sampled.as_ref().filter(|sampled| self.recorded.is_empty() && sampled.tells(share))
    }

    /// The same with the first loans only, where many questions are asked.
    pub(crate) fn brief(&self) -> Self {
        let recorded = self.recorded.iter().take(LOANS_OF_BRIEF).copied().collect();
        Self { recorded, ..self.clone() }
    }

    /// Transactions a second.
    pub(crate) fn rate(&self, change: Change) -> f64 {
        self.rate * change.rate
    }

    /// The mean time with a server, in seconds.
    pub(crate) fn hold(&self) -> f64 {
        self.hold.mean
    }

    /// The mean number of servers that are lent.
    pub(crate) fn load(&self, change: Change) -> f64 {
        self.rate * change.rate * self.hold.mean * change.hold
    }

    /// The 99th percentile of waits, in seconds, with so many servers.
    pub(crate) fn wait_p99(&self, servers: u32, change: Change) -> f64 {
        if self.recorded.is_empty() {
            return self.wait_p99_by_law(servers, change);
        }
        let mut waits = waits(&self.changed(change), servers);
        let place = ((waits.len() as f64 * 0.99).ceil() as usize).saturating_sub(1);
        match waits.len() {
            0 => f64::INFINITY,
            _ => *waits.select_nth_unstable(place).1 as f64 / 1e6,
        }
    }

    fn changed(&self, change: Change) -> Vec<Arrival> {
        let changed = |loan: &Arrival| Arrival {
            at: (loan.at as f64 / change.rate) as u64,
            service: (loan.service as f64 * change.hold) as u64,
        };
        self.recorded.iter().map(changed).collect()
    }

    /// How many are wanted at once for this share of the time: by every loan, or by what readings saw, or by Poisson's law.
    pub(crate) fn demand(&self, share: f64, change: Change) -> f64 {
        if !self.recorded.is_empty() {
            return Levels::of(&self.changed(change)).quantile(share).map_or(0.0, f64::from);
        }
        let seen = self.sampled(share).and_then(|sampled| sampled.quantile(share, change.rate * change.hold));
        seen.unwrap_or_else(|| demand_by_poisson(self.load(change), 1.0 - share))
    }

    /// The wait of M/M/c, made longer or shorter by how irregular arrivals and holding are (Allen and Cunneen).
    fn wait_p99_by_law(&self, servers: u32, change: Change) -> f64 {
        let queue = Mmc { servers, rate: self.rate * change.rate, service: self.hold.mean * change.hold };
        let irregular = heavy_traffic::wait_mean(&queue, self.scv_of_arrivals, self.hold.scv);
        match queue.wait_mean() {
            mean if mean > 0.0 && mean.is_finite() => queue.wait_quantile(0.99) * irregular / mean,
            mean => mean,
        }
    }

    /// The fewest servers with which the 99th percentile of waits is at most `limit` seconds.
    pub(crate) fn smallest(&self, limit: f64, change: Change) -> Option<u32> {
        if !self.load(change).is_finite() {
            return None;
        }
        let is_enough = |servers: u32| self.wait_p99(servers, change) <= limit;
        let mut high = (self.load(change).floor() as u32).clamp(1, SERVERS_MAX);
        let mut low = if is_enough(high) { 0 } else { high };
        while low == high {
            high = high.checked_mul(2).filter(|high| *high <= SERVERS_MAX)?;
            low = if is_enough(high) { low } else { high };
        }
        while low + 1 < high {
            let middle = low.midpoint(high);
            if is_enough(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }
}

/// How many are wanted at once with at most this probability of more, if arrivals are random.
pub(crate) fn demand_by_poisson(load: f64, overflow: f64) -> f64 {
    // The exact quantile is for numbers that a PostgreSQL may have.
    match load < f64::from(SERVERS_MAX) {
        true => poisson_quantile(load, overflow) as f64,
        false => square_root(load, overflow),
    }
}

/// More servers than any PostgreSQL has.
const SERVERS_MAX: u32 = 1 << 17;
const LOANS_OF_BRIEF: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Change = Change { rate: 1.0, hold: 1.0 };

    #[test]
    fn sums_give_the_number_of_theory() {
        for (rate, limit) in [(120.0, 0.05), (200.0, 0.05), (900.0, 0.01), (10.0, 0.2)] {
            let traffic = Traffic {
                recorded: Vec::new(),
                sampled: None,
                rate,
                hold: Hold { mean: 0.02, scv: 1.0 },
                scv_of_arrivals: 1.0,
            };
            assert_eq!(traffic.smallest(limit, NONE), Mmc::servers_min(rate, 0.02, 0.99, limit));
            let twice = Change { rate: 2.0, hold: 1.0 };
            assert_eq!(traffic.smallest(limit, twice), Mmc::servers_min(2.0 * rate, 0.02, 0.99, limit));
        }
    }

    #[test]
    fn a_recording_is_replayed() {
        // Ten at once every second, each for half a second: nobody waits with ten, five wait for half a second with five.
        let recorded: Vec<Arrival> = (0..1000).map(|n| Arrival { at: n / 10 * 1_000_000, service: 500_000 }).collect();
        let pool = PoolDemand::of_loans("a", "b", 100.0, recorded);
        let traffic = Traffic::of_pool(&pool);
        assert_eq!(traffic.smallest(0.0, NONE), Some(10));
        assert_eq!(traffic.smallest(0.5, NONE), Some(5));
        assert_eq!(traffic.smallest(0.5, Change { rate: 1.0, hold: 0.5 }), Some(4));
        assert_eq!(traffic.smallest(-1.0, NONE), None);
    }
}
