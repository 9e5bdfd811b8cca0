//! How often a tenant finds no server of its own: servers of one-connection tenants under a cap are a cache of their tenants.
//!
//! Always true: a ratio is between 0 and 1. Tenants whose rate is 0 never ask and are ignored.
//! Not here: tenants that use several servers at once (`staffing`).

/// The share of transactions that have to open a server, if `servers` are shared by tenants with these rates (per second) and the one
/// that was used least recently is closed for another tenant: Che's approximation.
#[must_use]
pub fn miss_ratio(rates: &[f64], servers: f64) -> f64 {
    let asking = rates.iter().filter(|rate| **rate > 0.0).count() as f64;
    if servers >= asking {
        return 0.0;
    }
    if servers <= 0.0 {
        return 1.0;
    }
    let kept = |seconds: f64| rates.iter().map(|rate| 1.0 - (-rate * seconds).exp()).sum::<f64>();
    // The time after which a tenant's server is closed.
    let mut high = 1.0;
    while kept(high) < servers && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if kept(middle) < servers {
            low = middle;
        } else {
            high = middle;
        }
    }
    miss_ratio_of_timeout(rates, high)
}

/// The share of transactions that have to open a server, if each tenant's server is closed after it has been idle for this many
/// seconds (`server_idle_timeout`), and arrivals are Poisson.
#[must_use]
pub fn miss_ratio_of_timeout(rates: &[f64], idle_seconds: f64) -> f64 {
    let all: f64 = rates.iter().sum();
    if all <= 0.0 {
        return 0.0;
    }
    rates.iter().map(|rate| rate * (-rate * idle_seconds).exp()).sum::<f64>() / all
}

/// The rates of `tenants` whose popularity falls with the power `exponent` of their rank (Zipf; 0 is uniform), which make up `rate`.
#[must_use]
pub fn zipf_rates(tenants: u32, exponent: f64, rate: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=tenants).map(|rank| f64::from(rank).powf(-exponent)).collect();
    let all: f64 = weights.iter().sum();
    weights.iter().map(|weight| rate * weight / all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_table_of_misses_is_reproduced() {
        let table = [
            (20, 0.0, [0.750, 0.500, 0.250, 0.100]),
            (20, 1.0, [0.521, 0.266, 0.109, 0.038]),
            (50, 1.0, [0.428, 0.217, 0.088, 0.031]),
        ];
        for (tenants, exponent, expected) in table {
            let rates = zipf_rates(tenants, exponent, 10.0);
            for (share, miss) in [0.25, 0.5, 0.75, 0.9].into_iter().zip(expected) {
                let got = miss_ratio(&rates, share * f64::from(tenants));
                assert!((got - miss).abs() < 6e-4, "{tenants} tenants, {exponent}, {share}: {got} and {miss}");
            }
        }
    }

    #[test]
    fn with_a_server_for_each_tenant_none_is_opened_and_with_none_each_is() {
        let rates = [1.0, 2.0, 0.0];
        assert_eq!((miss_ratio(&rates, 2.0), miss_ratio(&rates, 0.0)), (0.0, 1.0));
        assert_eq!((miss_ratio(&[], 1.0), miss_ratio_of_timeout(&[], 1.0)), (0.0, 0.0));
        assert!((miss_ratio_of_timeout(&[0.5], 2.0) - (-1.0_f64).exp()).abs() < 1e-12);
    }
}
