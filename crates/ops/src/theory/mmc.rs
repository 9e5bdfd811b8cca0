//! The queue M/M/c: Poisson arrivals, exponential service, `c` servers, first come first served.
//!
//! Always true: a queue whose utilisation is 1 or more has no steady state, so its waits are infinite and its tails are 1.
//! Not here: other laws of arrival or service (`heavy_traffic`).

/// The probability that all of `servers` are taken when arrivals that find none are lost (Erlang B), with `load` = arrivals per
/// second times seconds of service.
#[must_use]
pub fn erlang_b(servers: u32, load: f64) -> f64 {
    (1..=servers).fold(1.0, |lost, server| load * lost / (f64::from(server) + load * lost))
}

/// The probability that an arrival has to wait when arrivals queue (Erlang C); 1 if the servers cannot carry the load.
#[must_use]
pub fn erlang_c(servers: u32, load: f64) -> f64 {
    let utilisation = load / f64::from(servers);
    if servers == 0 || utilisation >= 1.0 {
        return 1.0;
    }
    let lost = erlang_b(servers, load);
    lost / (1.0 - utilisation * (1.0 - lost))
}

/// An M/M/c queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mmc {
    /// The number of servers.
    pub servers: u32,
    /// Arrivals per second.
    pub rate: f64,
    /// The mean service time in seconds.
    pub service: f64,
}

impl Mmc {
    /// The share of the time for which a server is busy.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.rate * self.service / f64::from(self.servers)
    }

    /// The probability that an arrival has to wait.
    #[must_use]
    pub fn wait_probability(&self) -> f64 {
        erlang_c(self.servers, self.rate * self.service)
    }

    /// The mean wait in seconds.
    #[must_use]
    pub fn wait_mean(&self) -> f64 {
        if self.spare() <= 0.0 { f64::INFINITY } else { self.wait_probability() / self.spare() }
    }

    /// The mean number of arrivals that wait.
    #[must_use]
    pub fn waiting_mean(&self) -> f64 {
        self.rate * self.wait_mean()
    }

    /// The probability of waiting for longer than `seconds`.
    #[must_use]
    pub fn wait_tail(&self, seconds: f64) -> f64 {
        if self.spare() <= 0.0 { 1.0 } else { self.wait_probability() * (-self.spare() * seconds).exp() }
    }

    /// The wait in seconds that the share `q` of arrivals does not exceed.
    #[must_use]
    pub fn wait_quantile(&self, q: f64) -> f64 {
        let waits = self.wait_probability();
        match self.spare() {
            spare if spare <= 0.0 => f64::INFINITY,
            _ if waits <= 1.0 - q => 0.0,
            spare => (waits / (1.0 - q)).ln() / spare,
        }
    }

    /// The probability that wait and service together take longer than `seconds`.
    #[must_use]
    pub fn response_tail(&self, seconds: f64) -> f64 {
        let (serves, spare, waits) = (1.0 / self.service, self.spare(), self.wait_probability());
        if spare <= 0.0 {
            return 1.0;
        }
        let difference = spare - serves;
        // The limit where both rates are equal.
        let after = match difference.abs() < 1e-9 * serves {
            true => serves * seconds,
            false => (1.0 - (-difference * seconds).exp()) * serves / difference,
        };
        (-serves * seconds).exp() * (1.0 + waits * after)
    }

    /// The response time in seconds that the share `q` of arrivals does not exceed.
    #[must_use]
    pub fn response_quantile(&self, q: f64) -> f64 {
        if self.spare() <= 0.0 {
            return f64::INFINITY;
        }
        let mut above = self.service;
        while self.response_tail(above) > 1.0 - q {
            above *= 2.0;
        }
        bisect(0.0, above, |seconds| self.response_tail(seconds) > 1.0 - q)
    }

    /// The largest rate at which the share `q` of responses takes at most `seconds`; 0 if no rate does.
    #[must_use]
    pub fn rate_max(servers: u32, service: f64, q: f64, seconds: f64) -> f64 {
        let is_fine = |rate| Self { servers, rate, service }.response_quantile(q) <= seconds;
        bisect(0.0, f64::from(servers) / service, is_fine)
    }

    /// The fewest servers with which the share `q` of waits takes at most `seconds`; `None` if there are none below 65,536.
    #[must_use]
    pub fn servers_min(rate: f64, service: f64, q: f64, seconds: f64) -> Option<u32> {
        (1..=u32::from(u16::MAX)).find(|&servers| Self { servers, rate, service }.wait_quantile(q) <= seconds)
    }

    /// For how long waits must be observed until the relative standard error of their mean is this small; infinite if there is no steady state.
    #[must_use]
    pub fn seconds_for(&self, relative_error: f64) -> f64 {
        let (utilisation, waits) = (self.utilisation(), self.wait_probability());
        if utilisation >= 1.0 || waits <= 0.0 || relative_error <= 0.0 {
            return f64::INFINITY;
        }
        // For about so long a moment tells of the next.
        let memory = self.service / (f64::from(self.servers) * (1.0 - utilisation.sqrt()).powi(2));
        2.0 * memory * (2.0 / waits - 1.0) / relative_error.powi(2)
    }

    /// How much faster the servers could work than arrivals come, per second.
    fn spare(&self) -> f64 {
        f64::from(self.servers) / self.service - self.rate
    }
}

/// The largest number between `low` and `high` for which `is_below` holds, if it holds for all smaller ones.
fn bisect(mut low: f64, mut high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..BISECTIONS {
        let middle = low.midpoint(high);
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.midpoint(high)
}

/// Halves any interval of interest below the precision of a double.
const BISECTIONS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers and utilisation with service times of 20 ms.
    fn queue(servers: u32, utilisation: f64) -> Mmc {
        Mmc { servers, rate: utilisation * f64::from(servers) / 0.02, service: 0.02 }
    }

    #[test]
    fn the_published_table_of_waits_is_reproduced() {
        let table = [
            (1, 0.5, 0.5, 20.0, 184.2),
            (1, 0.8, 0.8, 80.0, 460.5),
            (2, 0.8, 0.7111, 35.56, 238.8),
            (4, 0.5, 0.1739, 1.739, 95.3),
            (4, 0.8, 0.5964, 14.911, 137.9),
            (4, 0.9, 0.7878, 39.388, 243.9),
            (8, 0.8, 0.4576, 5.721, 103.0),
            (8, 0.9, 0.7015, 17.538, 141.8),
            (20, 0.9, 0.5508, 5.508, 100.8),
        ];
        for (servers, utilisation, waits, mean_ms, p99_ms) in table {
            let queue = queue(servers, utilisation);
            assert!((queue.wait_probability() - waits).abs() < 6e-5, "{queue:?}: {}", queue.wait_probability());
            assert!((queue.wait_mean() * 1e3 / mean_ms - 1.0).abs() < 2e-4, "{queue:?}: {}", queue.wait_mean());
            assert!((queue.response_quantile(0.99) * 1e3 - p99_ms).abs() < 0.06, "{queue:?}");
        }
        assert!((queue(4, 0.8).waiting_mean() - 2.386).abs() < 5e-4);
        assert!((queue(4, 0.8).wait_quantile(0.99) * 1e3 - 102.2).abs() < 0.05);
    }

    #[test]
    fn the_knees_of_four_servers_are_where_theory_has_them() {
        for (limit_ms, rate) in [(100.0, 121.3), (150.0, 164.5), (200.0, 175.1), (300.0, 184.0)] {
            let knee = Mmc::rate_max(4, 0.02, 0.99, limit_ms / 1e3);
            assert!((knee - rate).abs() < 0.06, "{limit_ms}: {knee}");
        }
    }

    #[test]
    fn the_published_lengths_of_runs_are_reproduced() {
        let table = [
            (1, 0.8, 13458.0, 538.0),
            (4, 0.5, 3060.0, 122.0),
            (4, 0.8, 5278.0, 211.0),
            (4, 0.9, 14609.0, 584.0),
            (8, 0.8, 3780.0, 151.0),
            (8, 0.9, 8786.0, 351.0),
        ];
        for (servers, utilisation, two, ten) in table {
            let queue = queue(servers, utilisation);
            assert!((queue.seconds_for(0.02) / two - 1.0).abs() < 2e-4, "{queue:?}: {}", queue.seconds_for(0.02));
            assert!((queue.seconds_for(0.1) / ten - 1.0).abs() < 4e-3, "{queue:?}: {}", queue.seconds_for(0.1));
        }
        assert!(queue(4, 1.0).seconds_for(0.1).is_infinite());
    }

    #[test]
    fn who_cannot_carry_the_load_waits_for_ever() {
        let queue = queue(4, 1.0);
        assert!(queue.wait_mean().is_infinite() && queue.response_quantile(0.5).is_infinite());
        assert_eq!((queue.wait_tail(9.0), queue.response_tail(9.0)), (1.0, 1.0));
        assert_eq!(Mmc::servers_min(200.0, 0.02, 0.99, 0.05), Some(6));
        assert!(queue.wait_quantile(0.1).is_infinite());
    }

    #[test]
    fn a_lost_call_is_erlangs() {
        assert!((erlang_b(1, 1.0) - 0.5).abs() < 1e-12);
        // Ten trunks offered five erlangs: 1.838 % in any table.
        assert!((erlang_b(10, 5.0) - 0.01838).abs() < 1e-5);
        assert_eq!((erlang_b(0, 3.0), erlang_c(0, 3.0)), (1.0, 1.0));
    }
}
