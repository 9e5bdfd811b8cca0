//! How many servers a demand needs: by the square-root rule, and as quantiles of simultaneous demand.
//!
//! Always true: `load` is the mean number of servers in use: transactions per second times the seconds for which each has a server.
//! Not here: what waiting costs (`mmc`).

use statrs::distribution::{ContinuousCDF, DiscreteCDF, Normal, Poisson};

/// The square-root rule: `load + z * sqrt(load)` servers, where `overflow` is the probability that more are wanted.
#[must_use]
pub fn square_root(load: f64, overflow: f64) -> f64 {
    let z = Normal::new(0.0, 1.0).map_or(0.0, |normal| normal.inverse_cdf(1.0 - overflow.clamp(1e-12, 1.0 - 1e-12)));
    (load + z * load.max(0.0).sqrt()).max(0.0)
}

/// The fewest servers that a demand of Poisson's law with this mean exceeds with a probability of at most `overflow`.
#[must_use]
pub fn poisson_quantile(load: f64, overflow: f64) -> u64 {
    let Ok(law) = Poisson::new(load) else { return 0 };
    law.inverse_cdf(1.0 - overflow.clamp(1e-12, 1.0 - 1e-12))
}

/// What tenants need whose servers cannot be shared, and what they would need if these could be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Staffing {
    /// The sum of what each tenant needs alone: a role of its own for each tenant.
    pub apart: u64,
    /// What all of them need together: a login that they share.
    pub shared: u64,
}

/// How many servers tenants with these loads need, if each demand (or their sum) may exceed its share with probability `overflow`.
#[must_use]
pub fn staffing(loads: &[f64], overflow: f64) -> Staffing {
    Staffing {
        apart: loads.iter().map(|load| poisson_quantile(*load, overflow)).sum(),
        shared: poisson_quantile(loads.iter().sum(), overflow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_that_share_need_fewer_servers() {
        // P(Poisson(1) > 3) = 1.9 % and P(Poisson(1) > 4) = 0.37 %; P(Poisson(20) > 31) = 0.81 %, more than 30 comes in 1.3 %.
        assert_eq!(staffing(&[1.0; 20], 0.01), Staffing { apart: 80, shared: 31 });
        assert_eq!(poisson_quantile(0.0, 0.01), 0);
    }

    #[test]
    fn the_square_root_rule_is_near_the_quantile() {
        for load in [20.0, 100.0, 1000.0] {
            let (rule, exact) = (square_root(load, 0.01), poisson_quantile(load, 0.01) as f64);
            assert!((rule / exact - 1.0).abs() < 0.05, "{load}: {rule} and {exact}");
        }
    }
}
