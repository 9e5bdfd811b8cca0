//! Waits where arrivals or service are not exponential, and bounds of a closed loop.
//!
//! Always true: `scv` is the squared coefficient of variation, the variance over the squared mean: 0 for a constant, 1 for an
//! exponential law.
//! Not here: exact answers for recorded arrivals (`replay`).

use super::mmc::Mmc;

/// The mean wait in seconds at one server with Poisson arrivals (Pollaczek-Khinchine); infinite if it cannot carry the load.
#[must_use]
pub fn wait_of_one_server(rate: f64, service: f64, scv_of_service: f64) -> f64 {
    let utilisation = rate * service;
    if utilisation >= 1.0 {
        return f64::INFINITY;
    }
    utilisation * service * (1.0 + scv_of_service) / (2.0 * (1.0 - utilisation))
}

/// The mean wait in seconds of a queue with general laws, about (Allen-Cunneen).
#[must_use]
pub fn wait_mean(queue: &Mmc, scv_of_arrivals: f64, scv_of_service: f64) -> f64 {
    queue.wait_mean() * f64::midpoint(scv_of_arrivals, scv_of_service)
}

/// A fixed population whose members think, are served by one of `servers`, and think again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClosedLoop {
    /// The number of servers.
    pub servers: u32,
    /// The mean service time in seconds.
    pub service: f64,
    /// The mean time between a response and the next request, in seconds.
    pub think: f64,
}

impl ClosedLoop {
    /// The population at which the servers are saturated.
    #[must_use]
    pub fn saturation(&self) -> f64 {
        f64::from(self.servers) * (self.service + self.think) / self.service
    }

    /// What the throughput per second cannot exceed.
    #[must_use]
    pub fn rate_max(&self, population: u32) -> f64 {
        (f64::from(population) / (self.service + self.think)).min(f64::from(self.servers) / self.service)
    }

    /// The throughput per second with exponential service and thinking (the machine repair model).
    #[must_use]
    pub fn rate(&self, population: u32) -> f64 {
        // The state is how many are not thinking. Weights are relative to the largest so far, so that none overflows.
        let (mut weights, mut all, mut served) = (1.0_f64, 1.0_f64, 0.0_f64);
        for busy in 1..=population {
            let serving = f64::from(busy.min(self.servers));
            weights *= f64::from(population - busy + 1) / self.think * self.service / serving;
            all += weights;
            served += weights * serving;
            if weights > 1e200 {
                (weights, all, served) = (weights / 1e200, all / 1e200, served / 1e200);
            }
        }
        served / all / self.service
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, part: f64) -> bool {
        (a / b - 1.0).abs() < part
    }

    #[test]
    fn constant_and_two_point_service_wait_as_published() {
        for (utilisation, constant_ms) in [(0.5, 10.0), (0.8, 40.0), (0.9, 90.0)] {
            assert!(near(wait_of_one_server(utilisation / 0.02, 0.02, 0.0) * 1e3, constant_ms, 1e-9));
        }
        // 90 % take 5 ms and 10 % take 155 ms.
        for (utilisation, two_point_ms) in [(0.5, 60.625), (0.8, 242.5)] {
            assert!(near(wait_of_one_server(utilisation / 0.02, 0.02, 5.0625) * 1e3, two_point_ms, 1e-9));
        }
        assert!(wait_of_one_server(51.0, 0.02, 1.0).is_infinite());
    }

    #[test]
    fn exponential_laws_make_it_exact() {
        let queue = Mmc { servers: 4, rate: 160.0, service: 0.02 };
        assert!(near(wait_mean(&queue, 1.0, 1.0), queue.wait_mean(), 1e-12));
        let one = Mmc { servers: 1, rate: 40.0, service: 0.02 };
        assert!(near(wait_mean(&one, 1.0, 0.0), wait_of_one_server(40.0, 0.02, 0.0), 1e-12));
    }

    #[test]
    fn a_closed_loop_stays_below_its_bounds_and_reaches_them_at_their_ends() {
        let closed = ClosedLoop { servers: 4, service: 0.02, think: 0.18 };
        assert!(near(closed.saturation(), 40.0, 1e-12));
        for population in [1, 10, 40, 100, 2000] {
            assert!(closed.rate(population) <= closed.rate_max(population) * (1.0 + 1e-9), "{population}");
        }
        assert!(near(closed.rate(1), 5.0, 1e-9) && near(closed.rate(2000), 200.0, 1e-6));
    }
}
