//! How throughput grows with the number that work at once, and what idle connections cost.
//!
//! Always true: nothing is predicted beyond twice the largest number that was measured; a peak is claimed only where points show the bend.
//! Not here: the law and its fit (`theory::usl`), measuring points (`rig`).

use super::probe::Closed;
use crate::theory::estimate::{Estimate, t_quantile};
use crate::theory::usl::{Point, Unfitted, UslFit};

/// What points of a closed loop say of more.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Scaling {
    pub(crate) points: Vec<Closed>,
    /// The law, or why there is none.
    pub(crate) fit: Result<UslFit, String>,
    /// Where throughput is highest, or why that is not claimed.
    pub(crate) peak: Result<Estimate, String>,
    /// For what was asked: so many clients, and their throughput or why it is not told.
    pub(crate) predictions: Vec<(f64, Result<f64, String>)>,
}

impl Scaling {
    /// Fits the law to points, and asks it for `wanted`.
    pub(crate) fn of(points: Vec<Closed>, wanted: &[f64], seed: u64) -> Self {
        let measured: Vec<Point> = points
            .iter()
            .map(|closed| Point {
                n: f64::from(closed.clients),
                x: closed.throughput,
                // A point cannot be surer than this, whatever its own batches say.
                sigma: closed.error.max(closed.throughput * ERROR_MIN).max(f64::MIN_POSITIVE),
            })
            .collect();
        let fit = UslFit::of(&measured).map_err(|why| {
            match why {
                Unfitted::TooFew => "fewer than four different numbers of clients were measured",
                Unfitted::NotPositive => "with some number of clients nothing was answered",
                Unfitted::NoEnd => "no law fits these points",
            }
            .to_owned()
        });
        let most = points.iter().map(|closed| closed.clients).max().unwrap_or(0);
        let peak = match &fit {
            Ok(fit) => fit.peak(seed).ok_or_else(|| {
                format!("no bend within 1 to {most} clients (at least six different numbers, some beyond the bend, are needed)")
            }),
            Err(why) => Err(why.clone()),
        };
        let predictions = wanted.iter().map(|n| (*n, predicted(&fit, *n, most))).collect();
        Self { points, fit, peak, predictions }
    }
}

fn predicted(fit: &Result<UslFit, String>, n: f64, most: u32) -> Result<f64, String> {
    let fit = fit.as_ref().map_err(String::clone)?;
    let refused = || format!("not told: {n} is beyond twice the {most} that were measured");
    fit.predict(n).ok_or_else(refused)
}

/// What idle connections cost: the share of throughput that a thousand of them take, with its interval. `None` for fewer than three points.
pub(crate) fn idle_cost(points: &[(f64, f64)]) -> Option<Estimate> {
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_n, mean_x) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(n, _)| (n - mean_n).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|(n, x)| (n - mean_n) * (x - mean_x)).sum::<f64>() / spread;
    let at_zero = mean_x - slope * mean_n;
    let residuals: f64 = points.iter().map(|(n, x)| (x - at_zero - slope * n).powi(2)).sum();
    let error = (residuals / (count - 2.0) / spread).sqrt();
    let reach = t_quantile(count - 2.0, 0.95) * error;
    let scale = -1000.0 / at_zero;
    (at_zero > 0.0).then_some(Estimate {
        value: slope * scale,
        low: (slope + reach) * scale,
        high: (slope - reach) * scale,
    })
}

const ERROR_MIN: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn points(list: &[(u32, f64)]) -> Vec<Closed> {
        let of = |&(clients, throughput): &(u32, f64)| Closed {
            clients,
            throughput,
            error: 1.0,
            response: f64::from(clients) / throughput,
            service: None,
            failed: 0,
        };
        list.iter().map(of).collect()
    }

    const SDM: [(u32, f64); 7] =
        [(1, 64.9), (18, 995.9), (36, 1652.4), (72, 1853.2), (108, 1828.9), (144, 1775.0), (216, 1702.2)];

    #[test]
    fn a_prediction_beyond_twice_what_was_measured_is_refused() {
        let scaling = Scaling::of(points(&SDM), &[300.0, 432.0, 500.0], 1);
        assert!(scaling.peak.as_ref().is_ok_and(|peak| (80.0..120.0).contains(&peak.value)), "{:?}", scaling.peak);
        let told: Vec<bool> = scaling.predictions.iter().map(|(_, told)| told.is_ok()).collect();
        assert_eq!(told, [true, true, false]);
        assert!(scaling.predictions[2].1.as_ref().expect_err("refused").contains("twice the 216"));
    }

    #[test]
    fn without_a_bend_or_without_points_nothing_is_claimed() {
        let straight = Scaling::of(points(&[(1, 100.0), (2, 199.0), (4, 396.0), (8, 790.0)]), &[16.0], 1);
        assert!(straight.peak.expect_err("no bend").contains("no bend within 1 to 8"));
        let few = Scaling::of(points(&SDM[..3]), &[40.0], 1);
        assert!(few.fit.is_err() && few.peak.expect_err("no law").contains("fewer than four"));
    }

    #[test]
    fn idle_connections_cost_what_the_slope_says() {
        let cost = idle_cost(&[(0.0, 1001.0), (500.0, 949.0), (1000.0, 901.0), (2000.0, 799.0)]).expect("a cost");
        assert!((cost.value - 0.1).abs() < 0.003 && cost.low > 0.09 && cost.high < 0.11, "{cost:?}");
        assert_eq!(idle_cost(&[(0.0, 1.0), (5.0, 1.0)]), None);
        assert_eq!(idle_cost(&[(5.0, 1.0), (5.0, 1.0), (5.0, 1.1)]), None);
    }
}
